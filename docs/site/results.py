"""What lessons print and draw: each runs once, as a script, and its result is kept under the content that made it.

    python docs/site/results.py examples/lessons/05_scaling.py printed.json

runs one script cell by cell and writes what each code cell printed, as a list of strings.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import ModuleType

from links import ROOT

LIBRARY = ("tinytensor", "nn", "models")
LONGEST = 900  # seconds that one lesson may take


def printed_by(path: Path, results: Path) -> list[str]:
    """The strings that the code cells of a script print. It runs in `results`/work unless its result is kept.

    Raises RuntimeError with the end of its errors if it fails.
    """
    kept = results / f"{path.stem}-{_content(path)}.json"
    if not kept.exists():
        start = time.perf_counter()
        new = results / f"{kept.stem}.{os.getpid()}.new"  # two processes may run the same script
        _run(path, results / "work", new)
        for old in results.glob(f"{path.stem}-*.json"):
            old.unlink(missing_ok=True)
        new.replace(kept)
        print(f"{path.name}: ran in {time.perf_counter() - start:.0f} s", flush=True)
    return json.loads(kept.read_text(encoding="utf-8"))


def _run(path: Path, work: Path, target: Path) -> None:
    """Run a script in a folder, and write what its cells print."""
    work.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "error", __file__, str(path), str(target)]
    done = subprocess.run(
        command, cwd=work, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=LONGEST
    )
    if done.returncode or done.stderr:
        raise RuntimeError(f"{path.name}: exit code {done.returncode}\n{done.stderr[-2000:]}")


def _content(path: Path) -> str:
    """A hash of the script and of the library's code."""
    return hashlib.sha256(path.read_bytes() + code_of_the_library().encode()).hexdigest()[:16]


@cache
def code_of_the_library() -> str:
    """A hash of what the library computes: its code without comments and docstrings, so that prose runs nothing."""
    total = hashlib.sha256()
    for top in LIBRARY:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".js", ".css", ".cu"):
                total.update(path.read_bytes())
            elif path.suffix == ".py":
                total.update(ast.dump(_without_docstrings(path)).encode())
    return total.hexdigest()


def _without_docstrings(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree


def run_cells(path: Path) -> list[str]:
    """Run a script in `__main__`, as Python does, and return what each code cell printed. Output still appears."""
    sys.argv, sys.path[0] = [str(path)], str(path.parent)
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(path)
    printed = []
    for line, source in code_cells(path.read_text(encoding="utf-8")):
        tee = _Tee(sys.stdout)
        with contextlib.redirect_stdout(tee):
            exec(compile("\n" * line + source, str(path), "exec"), vars(main))
        printed.append(tee.getvalue())
    return printed


class _Tee(io.StringIO):
    """Keeps what is written, and passes it on."""

    def __init__(self, stream: io.TextIOBase) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(text)
        return super().write(text)


def code_cells(text: str) -> list[tuple[int, str]]:
    """The code cells of a file of percent cells: the number of lines in front of each, and its source."""
    found = []
    for cell in re.finditer(r"^# %%[^\n]*\n(.*?)(?=^# %%|\Z)", text, flags=re.M | re.S):
        if not cell[0].startswith("# %% [markdown]"):
            found.append((text.count("\n", 0, cell.start(1)), cell[1]))
    return found


if __name__ == "__main__":
    script, target = map(Path, sys.argv[1:])
    sys.argv[:] = [str(script)]
    target.write_text(json.dumps(run_cells(script.resolve())), encoding="utf-8")
