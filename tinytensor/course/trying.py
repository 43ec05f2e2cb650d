"""The checks of one step of the framework, in the process that this file is run in: see `build.py`."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.machine.files import atomic_write
from tinytensor.models.scripts.exercises import Wrong

CHECKS = Path(__file__).parent / "framework" / "checks"


def verdicts(folder: Path, step: str) -> list[tuple[bool, str]]:
    """For each check of a step, called for example "step03_walk": True if it holds, and a line that says so.

    The step is imported from the folder, and with it those before it.
    """
    sys.path.insert(0, str(folder))
    try:
        answers = vars(importlib.import_module(step))
    except Exception as error:
        return [(False, f"{step}.py: {_said(error, folder)}")]
    found = []
    for name, check in runpy.run_path(str(CHECKS / f"{step}.py")).items():
        if name.startswith("check_"):
            answer = name.removeprefix("check_")
            try:
                if answer not in answers:
                    raise Wrong(f"there is nothing of this name in {step}.py")
                with np.errstate(all="ignore"):  # mistakes divide by 0
                    check(answers[answer])
                found.append((True, f"{answer}: right"))
            except Wrong as wrong:
                found.append((False, f"{answer}: {wrong} (a hint: {inspect.getdoc(check)})"))
            except Exception as error:
                found.append((False, f"{answer}: {_said(error, folder)}"))
    return found


def _said(error: Exception, folder: Path) -> str:
    """An error with its line in the student's files, if it has one."""
    frames: Any = traceback.extract_tb(error.__traceback__)
    lines = [f", line {f.lineno} of {Path(f.filename).name}" for f in frames if Path(f.filename).parent == folder]
    where = f", line {error.lineno}" if isinstance(error, SyntaxError) else (lines or [""])[-1]
    return f"it raised {type(error).__name__}{where}: {error}"


if __name__ == "__main__":
    result = verdicts(Path(sys.argv[1]), sys.argv[2])
    atomic_write(sys.argv[3], json.dumps(result).encode())
    sys.stdout.flush()
    os._exit(0)  # whatever threads the student's file has started
