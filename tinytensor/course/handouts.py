"""Homework: a lesson with exercises to begin from, and its notebook for students, without the answers."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from tinytensor.machine.extras import how_to_install
from tinytensor.machine.files import atomic_write, read_text
from tinytensor.models.scripts import command_line, exercises

TEMPLATES = Path(__file__).parent / "homework"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # nbgrader's marks
SOLUTION = re.compile(rf"^([ \t]*){BEGIN}[ \t]*\n.*?^[ \t]*{END}[ \t]*$", re.M | re.S)


def new(name: str) -> int:
    """Write `name`.py, a lesson with two exercises and their answers, and exercises/`name`.py, which checks them."""
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise command_line.UsageError(f"new: expected a name such as hw1, of letters and digits, got {name!r}")
    files = {Path(f"{name}.py"): "lesson.py", Path("exercises", f"{name}.py"): "exercises.py"}
    for path in files:
        if path.exists():
            raise command_line.UsageError(f"new: {path} is there already; take another name")
    for path, template in files.items():
        path.parent.mkdir(exist_ok=True)
        atomic_write(path, (TEMPLATES / template).read_text(encoding="utf-8").replace("NAME", name).encode())
        print(f"wrote {path}")
    return command_line.EXIT_OK


def student(name: str) -> int:
    """Write student/`name`.ipynb: the cells of `name`.py, with a hole in the place of each solution."""
    notebook = without_answers(Path(f"{name.removesuffix('.py')}.py"))
    path = Path("student", f"{name.removesuffix('.py')}.ipynb")
    path.parent.mkdir(exist_ok=True)
    atomic_write(path, needed("nbformat").writes(notebook).encode())
    print(f"wrote {path}, without the answers; exercises/ stays with you")
    return command_line.EXIT_OK


def without_answers(path: Path) -> Any:
    """The notebook of a homework, with `...` in the place of what is between the marks of a solution.

    Raises UsageError if a mark has no partner, if there is no solution, or if an exercise has no function to fill.
    """
    jupytext = needed("jupytext")
    with command_line.told(OSError, ValueError, prefix="student: "):
        text = read_text(path)
    holes, count = SOLUTION.subn(lambda found: f"{found[1]}return ..." if found[1] else "...", text)
    for mark in (BEGIN, END):
        if mark in holes:
            line = 1 + text[: text.rindex(mark)].count("\n")
            raise command_line.UsageError(
                f"student: {path}, line {line}: {mark} has no partner; no notebook was written"
            )
    if not count:
        raise command_line.UsageError(f"student: {path} has no answer to leave out: put {BEGIN} and {END} around each")
    checks = path.parent / "exercises" / path.name
    for each in exercises.read(checks) if checks.exists() else []:
        if f"def {each.name}(" not in holes:
            raise command_line.UsageError(
                f"student: {checks} has the exercise {each.name}, and {path} no such function"
            )
    notebook = jupytext.reads(holes, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def needed(name: str) -> Any:
    """A module of the extra `course`. Raises UsageError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise command_line.UsageError(f"{error.name} is not installed; run: {how_to_install('course')}") from None
