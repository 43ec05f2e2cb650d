"""Exercises of a lesson: a hole to fill, hints on request, and a check that explains mistakes in words.

    @exercise(
        "def score(query, key):",
        "A dot product is a sum of products: `(a * b).sum()`, or `a @ b`.",
        "Equation 1 divides by √d_k, and d_k is `query.shape[-1]`.",
    )
    def check_score(score):
        '''The score of one query and one key, two vectors of length d_k: their dot product, scaled as in equation 1.'''
        query, key = tt.random.randn(2, 16)
        agree(score(query, key), (query * key).sum() / 4, "score of a query and a key of 16 numbers")

A lesson's exercises are in `exercises/<lesson>.py`, beside the lesson.
"""

from __future__ import annotations

import inspect
import runpy
import textwrap
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor import Tensor

from . import command_line

SOME_ARE_WRONG = 1
"""The exit code of a check that found an answer wrong or missing."""


class Wrong(Exception):
    """An answer is wrong; its text says how."""


class Exercise:
    """One exercise: `name` of the function to write, the `task`, the first line of its `hole`, `hints`, and `check`."""

    def __init__(self, hole: str, hints: tuple[str, ...], check: Callable[[Any], None]) -> None:
        self.hole, self.hints, self.check = hole, hints, check
        self.name = check.__name__.removeprefix("check_")
        self.task = " ".join(inspect.getdoc(check).split())  # type: ignore[union-attr]

    def verdict(self, answers: Mapping[str, Any], source: str = "") -> tuple[bool, str]:
        """True if the answer with this exercise's name is right; and a line that says so, or names the mistake."""
        answer = answers.get(self.name)
        if answer is None:
            return False, f"{self.name}: there is no function of this name{source and f' in {source}'}"
        try:
            self.check(answer)
        except Wrong as wrong:
            return False, f"{self.name}: wrong. {wrong}"
        except Exception as error:
            return False, f"{self.name}: wrong. It raised {type(error).__name__}{_line_of(error, source)}: {error}"
        return True, f"{self.name}: right"


def exercise(hole: str, *hints: str) -> Callable[[Callable[[Any], None]], Exercise]:
    """Declare an exercise by its check, a function `check_<name>(<name>)` whose docstring is the task."""
    return lambda check: Exercise(hole, hints, check)


def agree(got: Any, expected: Any, what: str, tolerance: float = 1e-5) -> None:
    """Raise Wrong, which says how they differ, unless an answer's result has the expected shape and numbers.

    Args:
        got, expected: Tensors, arrays, nested lists or numbers.
        what: the message's name for the result.
        tolerance: the allowed error of each number, relative to the largest one expected.
    """
    if got is None or got is ...:
        raise Wrong(f"{what} is {got}: " + ("the hole is still there" if got is ... else "is a `return` missing?"))
    try:
        a, b = (x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (got, expected))
        a, b = a.astype(np.float64), b.astype(np.float64)
    except (TypeError, ValueError):
        raise Wrong(f"{what} is a {type(got).__name__}; expected numbers, as a Tensor or an array") from None
    if a.shape != b.shape:
        turned = "; it looks transposed" if a.shape == b.shape[::-1] else ""
        raise Wrong(f"{what} has shape {a.shape}; expected {b.shape}{turned}")
    near = tolerance * max(1e-12, float(np.abs(b).max(initial=0, where=np.isfinite(b))))
    apart = _apart(a, b, near)
    if not apart.any():
        return
    place = tuple(int(i) for i in np.argwhere(apart)[0])
    at = f" at {list(place)}" if place else ""
    raise Wrong(f"{what} is {a[place]:.6g}{at}; expected {b[place]:.6g}{_how(a, b, near)}")


def _apart(a: Any, b: Any, near: float) -> Any:
    """True where two arrays differ; equal infinities count as equal, and so does NaN."""
    with np.errstate(invalid="ignore"):  # inf - inf
        return ~((a == b) | (np.abs(a - b) <= near) | (np.isnan(a) & np.isnan(b)))


def _how(a: Any, b: Any, near: float) -> str:
    """A guess at the kind of mistake, for the message."""
    if a.ndim == 2 and a.shape[0] == a.shape[1] and not _apart(a.T, b, near).any():
        return "; it looks transposed"
    if not np.isfinite(a).all() and np.isfinite(b).all():
        return "; it is not finite"
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    ratios = a[finite] / b[finite]
    if a.size > 1 and ratios.size and np.abs(ratios - ratios[0]).max() < 1e-4 * abs(ratios[0]):
        return f"; every number is {ratios[0]:.4g} times what it should be"
    return f" ({int(_apart(a, b, near).sum())} of {a.size} numbers differ)" if a.size > 1 else ""


def expect(condition: Any, otherwise: str) -> None:
    """Raise Wrong with these words unless the condition holds."""
    if not condition:
        raise Wrong(otherwise)


def read(path: Path) -> list[Exercise]:
    """The exercises that a file declares, in that order."""
    return [value for value in runpy.run_path(str(path)).values() if isinstance(value, Exercise)]


def list_holes(name: str, exercises: list[Exercise]) -> int:
    """Print a file with a hole for each exercise."""
    lines = [
        f'"""Exercises of {name}: fill the holes, then `python examples/lessons/{name}.py --check <this file>`."""'
    ]
    lines += ["", "import tinytensor as tt"]
    for each in exercises:
        task = textwrap.wrap(f'"""{each.task}"""', 112, initial_indent="    ", subsequent_indent="    ")
        lines += ["", "", each.hole, *task, "    return ..."]
    print("\n".join(lines))
    return command_line.EXIT_OK


def give_hint(exercises: list[Exercise], name: str, number: str = "1", *more: str) -> int:
    """Print one hint of an exercise, and the number of its hints."""
    chosen = next((e for e in exercises if e.name == name), None)
    if chosen is None:
        known = ", ".join(e.name for e in exercises)
        raise command_line.UsageError(f"--hint: there is no exercise {name!r}; there are {known}")
    count = len(chosen.hints)
    if more or not (number.isdigit() and 1 <= int(number) <= count):
        raise command_line.UsageError(f"--hint: {name} has hints 1 to {count}, got {' '.join((number, *more))}")
    print(f"hint {number} of {count}: {chosen.hints[int(number) - 1]}")
    return command_line.EXIT_OK


def check_file(exercises: list[Exercise], path: Path) -> int:
    """Print for each exercise whether the file's answer is right; the exit code says whether all are."""
    try:
        answers = runpy.run_path(str(path))
    except OSError as error:
        raise command_line.UsageError(f"--check: cannot read {path}: {error.strerror}") from None
    except SyntaxError as error:
        raise command_line.UsageError(f"--check: {path}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        where = _line_of(error, str(path))
        raise command_line.UsageError(f"--check: {path} raised {type(error).__name__}{where}: {error}") from None
    verdicts = [each.verdict(answers, str(path)) for each in exercises]
    for each, (right, words) in zip(exercises, verdicts):
        print(words if right else f"{words} (--hint {each.name} gives a hint)")
    return command_line.EXIT_OK if all(right for right, _ in verdicts) else SOME_ARE_WRONG


def _line_of(error: BaseException, source: str) -> str:
    """The line of the answers' file that raised the error, or "" if unknown."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if source and frame.filename == source]
    return f" in line {lines[-1]}" if lines else ""
