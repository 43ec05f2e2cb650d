"""The checks of one step of the framework, in the process that this file is run in: see `build.py`."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import runpy
import sys
import traceback
from pathlib import Path

import numpy as np

from tinytensor.machine.files import atomic_write
from tinytensor.models.scripts.exercises import Wrong

CHECKS = Path(__file__).parent / "framework" / "checks"
HOLE = re.compile(r"(?:return|:|=) \.\.\.")


def verdicts(folder: Path, step: str, hints: bool = False) -> list[tuple[bool, str]]:
    """For each check of a step, called for example "step03_walk": True if it holds, and a line that says so.

    The step is imported from the folder, and with it those before it. With `hints`, a mistake has one behind it.
    """
    sys.path.insert(0, str(folder))
    try:
        answers = vars(importlib.import_module(step))
    except Exception as error:
        return [(False, f"{step}.py: {_said(error, folder)}")]
    imported = [name for name in sorted(sys.modules) if re.match(r"step\d\d_", name) and name != step]
    if missing := [str(int(n[4:6])) for n in imported if HOLE.search((folder / f"{n}.py").read_text("utf-8"))]:
        steps = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        return [(False, f"fill step{'s' * (len(missing) > 1)} {steps} first")]
    found = []
    for name, check in runpy.run_path(str(CHECKS / f"{step}.py")).items():
        if name.startswith("check_"):
            answer = name.removeprefix("check_")
            hint = f" (a hint: {inspect.getdoc(check)})" if hints else ""
            try:
                if answer not in answers:
                    raise Wrong(f"there is nothing of this name in {step}.py")
                with np.errstate(all="ignore"):  # mistakes divide by 0
                    check(answers[answer])
                found.append((True, f"{answer}: right"))
            except Wrong as wrong:
                found.append((False, f"{answer}: {wrong}{hint}"))
            except Exception as error:
                found.append((False, f"{answer}: {_said(error, folder)}{hint}"))
    return found


def _said(error: Exception, folder: Path) -> str:
    """An error with its line in the student's files, if it has one, and the shapes of the arrays that meet there."""
    where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.parent == folder:
            values = {} if frame.f_code.co_name == "<module>" else frame.f_locals
            shapes = [f"{name} has shape {shape}" for name, value in values.items() if (shape := _shape(value))]
            where = f", line {line} of {file.name}" + f", where {', '.join(shapes)}" * bool(shapes)
    return f"it raised {type(error).__name__}{where}: {error}"


def _shape(value: object) -> tuple[int, ...]:
    """Of an array, or of a Value's; () of anything else."""
    array = value if isinstance(value, np.ndarray) else getattr(value, "data", None)
    return array.shape if isinstance(array, np.ndarray) else ()


if __name__ == "__main__":
    result = verdicts(Path(sys.argv[1]), sys.argv[2], hints=sys.argv[4] == "True")
    atomic_write(sys.argv[3], json.dumps(result).encode())
    sys.stdout.flush()
    os._exit(0)  # whatever threads the student's file has started
