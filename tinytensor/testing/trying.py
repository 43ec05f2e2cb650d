"""Shared by the lines of a report: how to try a thing, and the words for inputs, rules and places in a file."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import dtypes
from ..grad_mode import no_grad
from ..graph.source import rule_text
from ..primitive import has_pair
from ..tensor import Tensor
from .gradcheck import GradientError
from .inputs import Subject, first_line
from .op_checks import Case

NARROW = (dtypes.float16, dtypes.float32)


@dataclass(frozen=True)
class Line:
    """One line of a report.

    Attributes:
        name: the line's name.
        status: "ok", "failed" or "skipped".
        tried: what was tried.
        on: the input that it was tried on.
        found: what came out; for a skipped line, why it was skipped.
        advice: what to do; "" if there is nothing to do.
    """

    name: str
    status: str
    tried: str
    on: str
    found: str
    advice: str = ""


class Failed(Exception):
    """A failed check: the input, the result, and what to do about it."""

    def __init__(self, on: str, found: str, advice: str = "") -> None:
        super().__init__(on, found, advice)


class Skipped(Exception):
    """Nothing was tried, for this reason."""


Outcome = tuple[str, str, str]
"""The input, what came out, and advice, if any."""


def needs_gradients(subject: Subject) -> None:
    """Raise Skipped if nothing can be differentiated."""
    if any(case.places for case in subject.cases):
        return
    if not any(floats_of(case) for case in subject.cases):
        raise Skipped("nothing was differentiated: no input is a float")
    raise Skipped("nothing was differentiated: the op has no gradient rule")


def needs_digits(subject: Subject) -> None:
    """Raise Skipped if float64 inputs give a narrower result."""
    case = subject.cases[0]
    with no_grad():
        narrow = [out.dtype for out in case(*case.leaves()) if out.dtype in NARROW]
    if narrow:
        raise Skipped(f"a result in {narrow[0]} has too few digits for differences")


def without_rules(subject: Subject) -> str:
    """The note about inputs that have no rule; "" if all have one."""
    primitive = subject.primitive
    names = [name for name in primitive.inputs if primitive.pure and name not in primitive.rules]
    return f"; {_listed(names)} has no rule: a gradient through it is an error" if names else ""


def floats_of(case: Case) -> list[int]:
    """Places of the inputs that are arrays of floats."""
    return [i for i, x in enumerate(case.inputs) if isinstance(x, Tensor) and x.dtype.kind == "f"]


def on(case: Case, dtype: str = "") -> str:
    """The inputs in words, as "x (3, 4), y (4,)"; alike ones together, as "x and y (3, 4)"."""
    words: dict[str, list[str]] = {}
    for name, x in zip(case.names, case.inputs):
        kind = "" if not isinstance(x, Tensor) or x.dtype.kind == "f" else f" {x.dtype}"
        words.setdefault(f"{x.shape}{kind}" if isinstance(x, Tensor) else f"= {x!r}", []).append(name)
    return ", ".join(f"{_listed(names)} {what}" for what, names in words.items()) + (f" {dtype}" if dtype else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def all_on(cases: Sequence[Case]) -> str:
    """The inputs of several cases; where each has one shape, their shapes."""
    shapes = [{x.shape if isinstance(x, Tensor) else None for x in case.inputs} for case in cases]
    if len(cases) > 1 and all(len(shape) == 1 and shape != {None} for shape in shapes):
        return f"{on(cases[0])}, {', '.join(str(shape.pop()) for shape in shapes[1:])}"
    several = "" if len(cases) <= 3 else f"; and {len(cases) - 3} more"
    return "; ".join(on(case) for case in cases[:3]) + several


@contextmanager
def trying(subject: Subject, advice: str = "", where: str = "") -> Iterator[Callable[[Iterable[Case]], Iterator[Case]]]:
    """Within it, an error becomes a `Failed` that says what came out, on the input being tried, and what to do."""
    current: list[Case] = []

    def tried(cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            current[:] = [case]
            yield case

    try:
        yield tried
    except Failed as failed:
        met, found, own = failed.args
        raise Failed(met, found, own or advice) from None
    except Skipped:
        raise
    except Exception as error:
        entry = _entry_of(error)
        rule = _rule_of(subject, entry.input if entry is not None and not entry.result.startswith("(") else "")
        found = str(entry) if entry is not None else first_line(error).removeprefix("second order: ")
        raise Failed(
            where or (on(current[0]) if current else ""),
            found + line_in(subject.path, error),
            "; ".join(part for part in (f"correct {rule}" if rule else "", advice) if part),
        ) from error


def _entry_of(error: BaseException) -> Any:
    """The wrong entry of a Jacobian, if that is what went wrong."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GradientError):
            return cause.entry
        cause = cause.__cause__
    return None


def _rule_of(subject: Subject, name: str) -> str:
    """The rule for an input: its place in the file, and its text."""
    if not name:
        return ""
    name = name.partition("[")[0]
    if name not in subject.primitive.rules:
        return "the fast backward half" if has_pair(subject.primitive) else ""
    rule = inspect.unwrap(subject.primitive.rules[name][0])
    text = rule_text(rule).formula
    place = f"{os.path.basename(rule.__code__.co_filename)}, line {rule.__code__.co_firstlineno}"
    return f"the rule for {name} ({place}){f': {text}' if text else ''}"


def line_in(path: str, error: BaseException) -> str:
    """The line of the op's own file that raised an error."""
    found = ""
    cause: BaseException | None = error
    while cause is not None:
        for frame in traceback.extract_tb(cause.__traceback__):
            if frame.filename == path:
                found = f" ({os.path.basename(path)}, line {frame.lineno}: {(frame.line or '').strip()})"
        cause = cause.__cause__
    return found
