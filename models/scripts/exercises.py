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

A lesson's exercises are in `exercises/<lesson>.py`, beside the lesson. A check gets the answer as an `Answer`, which it
calls, and draws all its numbers from `tt.random`: each time it is run they are others.
"""

from __future__ import annotations

import inspect
import runpy
import secrets
import shlex
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor

from . import command_line
from .answers import Answer, Opaque, Raised, Stopped, Through, Wrong, run_here


class Verdict(NamedTuple):
    """The verdict of a check on an answer.

    Attributes:
        right: True if it is right.
        text: a line that says so, or names the mistake.
        kind: "right"; "mistake", one that the check knows; "numbers", which differ; "error", an exception of the
            answer's; "missing"; or "stopped": it did not come to its end.
    """

    right: bool
    text: str
    kind: str


class Exercise:
    """One exercise: `name` of the function to write, the `task`, the first line of its `hole`, `hints`, and `check`."""

    def __init__(self, hole: str, hints: tuple[str, ...], check: Callable[[Any], None]) -> None:
        self.hole, self.hints, self.check = hole, hints, check
        self.name = check.__name__.removeprefix("check_")
        self.task = " ".join(inspect.getdoc(check).split())  # type: ignore[union-attr]

    def verdict(
        self, answers: Mapping[str, Any], source: str = "", through: Through | None = None, seed: int | None = None
    ) -> Verdict:
        """Check the answer with this exercise's name.

        Args:
            answers: the functions by name.
            source: the file that they come from.
            through: how they are run; default: here. Raises Stopped if that is a log that ends early.
            seed: of the numbers that it is tried on; default: another one each time.
        """
        if not callable(answers.get(self.name)):
            return Verdict(
                False, f"{self.name}: there is no function of this name{source and f' in {source}'}", "missing"
            )
        state = tt.random.get_state()
        tt.manual_seed(secrets.randbits(32) if seed is None else seed)
        try:
            self.check(Answer(self.name, answers[self.name], through or run_here(source)))
        except Wrong as wrong:
            return Verdict(False, f"{self.name}: wrong. {wrong}", "numbers" if wrong.bare else "mistake")
        except Raised as error:
            return Verdict(False, f"{self.name}: wrong. {error}", "error")
        except Stopped:
            raise
        except Exception as error:  # of the check's own, which met what it did not foresee
            text = f"{self.name}: wrong. What it gives cannot be checked ({type(error).__name__}: {error})"
            return Verdict(False, text, "error")
        finally:
            tt.random.set_state(state)
        return Verdict(True, f"{self.name}: right", "right")


def exercise(hole: str, *hints: str) -> Callable[[Callable[[Any], None]], Exercise]:
    """Declare an exercise by its check, a function `check_<name>(<name>)` whose docstring is the task."""
    return lambda check: Exercise(hole, hints, check)


def agree(
    got: Any, expected: Any, what: str, tolerance: float = 1e-5, mistakes: Mapping[str, Any] | None = None
) -> None:
    """Raise Wrong, which says how they differ, unless an answer's result has the expected shape and numbers.

    Args:
        got, expected: Tensors, arrays, nested lists or numbers.
        what: the message's name for the result.
        tolerance: the allowed error of each number, relative to the largest one expected.
        mistakes: results of mistakes that can be foreseen, each under the sentence that names it.
    """
    if got is None or got is ...:
        cut = "is a `return` missing, or was something computed with `.data`, which cuts the graph?"
        missing = cut if "grad" in what else "is a `return` missing?"
        raise Wrong(f"{what} is {got}: {'the hole is still there' if got is ... else missing}")
    try:
        a, b = _numbers(got), _numbers(expected)
    except (TypeError, ValueError):
        kind = got.kind if isinstance(got, Opaque) else type(got).__name__
        raise Wrong(f"{what} has type {kind}; expected real numbers, as a Tensor or an array") from None
    if _equal(a, b, tolerance):
        return
    for sentence, made in (mistakes or {}).items():
        if _equal(a, _numbers(made), tolerance):
            raise Wrong(f"{what}: {sentence}")
    if a.shape != b.shape:
        turned = "; it looks transposed" if a.shape == b.shape[::-1] else ""
        raise Wrong(f"{what} has shape {a.shape}; expected {b.shape}{turned}")
    near = _near(b, tolerance)
    place = tuple(int(i) for i in np.argwhere(_apart(a, b, near))[0])
    at = f" at {list(place)}" if place else ""
    how = _how(a, b, near)
    mine, ours = (bool(x[place]) if _are_booleans(expected) else f"{x[place]:.6g}" for x in (a, b))
    raise Wrong(f"{what} is {mine}{at}; expected {ours}{how}", bare=not how.startswith(";"))


def _are_booleans(value: Any) -> bool:
    return np.asarray(value.numpy() if isinstance(value, Tensor) else value).dtype == bool


def _numbers(value: Any) -> Any:
    array = np.asarray(value.numpy() if isinstance(value, Tensor) else value)
    if np.iscomplexobj(array):
        raise TypeError("complex numbers")
    return array.astype(np.float64)


def _near(b: Any, tolerance: float) -> float:
    return tolerance * max(1e-12, float(np.abs(b).max(initial=0, where=np.isfinite(b))))


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    return a.shape == b.shape and not _apart(a, b, _near(b, tolerance)).any()


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
    if (
        a.size > 1
        and ratios.size
        and ratios[0]
        and not _apart(a, ratios[0] * b, abs(ratios[0]) * max(near, 1e-12)).any()
    ):
        return f"; every number is {ratios[0]:.4g} times what it should be"
    return f" ({int(_apart(a, b, near).sum())} of {a.size} numbers differ)" if a.size > 1 else ""


def expect(condition: Any, otherwise: str) -> None:
    """Raise Wrong with these words unless the condition holds."""
    if not condition:
        raise Wrong(otherwise)


def read(path: Path) -> list[Exercise]:
    """The exercises that a file declares, in that order."""
    return [value for value in runpy.run_path(str(path)).values() if isinstance(value, Exercise)]


def list_holes(name: str, exercises: list[Exercise], lesson: Path) -> int:
    """Print a file with a hole for each exercise; `lesson` is the script that checks it."""
    script = shlex.quote(lesson.as_posix())
    lines = [f'"""Exercises of {name}: fill the holes, then `python {script} --check <this file>`."""']
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
