"""The ops that a file declares, and what it says about how to try them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..primitive import OPS, Primitive


class FileError(Exception):
    """A file that cannot be used: one line that says why."""


def ops_of(path: str | os.PathLike[str]) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Run a Python file and find every op that it declares, in the order of the file.

    Returns each op with the keyword arguments of `report` that the file has for it, in a dictionary named `REPORT`:
    `REPORT = {log_ratio: {"domain": (0.1, 10.0)}, norm: {"axis": 0}}`.

    Raises FileError if there is no such file, if it fails, or if it declares no op.
    """
    name = os.fspath(path)
    if not name.endswith(".py") or not Path(path).is_file():
        raise FileError(f"{name}: expected a Python file, and there is none")
    before = dict(OPS)
    module = _run(Path(path).resolve())
    declared: list[Any] = [
        op.call for key, op in OPS.items() if before.get(key) is not op and _is_of(op.function, module)
    ]
    # A second op of the same name takes the place of the first in OPS; the module may still have both.
    for value in vars(module).values():
        op = getattr(value, "op", None)
        if isinstance(op, Primitive) and _is_of(op.function, module) and value not in declared:
            declared.append(value)
    if not declared:
        raise FileError(f"{name}: declares no op; write @tt.op above a function")
    options = getattr(module, "REPORT", {})
    for key, given in options.items() if isinstance(options, dict) else [(options, None)]:
        if key not in declared or not isinstance(given, dict):
            raise FileError(f"{name}: REPORT must be a dictionary from ops of this file to arguments of report")
    declared.sort(key=lambda call: inspect.unwrap(call.op.function).__code__.co_firstlineno)
    return [(call, options.get(call, {})) for call in declared]


def _is_of(function: Callable[..., Any], module: Any) -> bool:
    return inspect.unwrap(function).__code__.co_filename == module.__file__


def _run(path: Path) -> Any:
    """The file as a module, which can import others beside it, as a script can."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        line = _line(error, str(path))
        text = " ".join(str(error).split())
        raise FileError(f"{path.name}{line}: {type(error).__name__}: {text}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _line(error: BaseException, path: str) -> str:
    """The line of a file in which an error was raised."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    found, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == path:
            found = f", line {frame.tb_lineno}"
        frame = frame.tb_next
    return found
