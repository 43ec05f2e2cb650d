"""The report card of an op: `report(op)` tries it in every way that ops go wrong, one line for each.

print(report(swish))                           # on inputs that follow from its declaration
print(report(log_ratio, domain=(0.1, 10)))     # positive numbers only
report(norm, axis=0).save("norm.html")         # with a parameter, as a page

`check_op` is the same in a test: it raises at the first mistake. A report goes on, and says what to do.
"""

from __future__ import annotations

import os
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.files import atomic_write
from ..primitive import Primitive
from . import code_lines, report_lines
from .inputs import Domain, Subject, first_line
from .trying import Failed, Line, Outcome, Skipped, line_in

LINES: dict[str, tuple[Callable[[Subject], Outcome], str]] = {
    "forward": (report_lines.forward, "float64 arrays"),
    "purity": (report_lines.purity, "whether anything changes that it was given"),
    "first order": (report_lines.first_order, "gradients against differences"),
    "second order": (report_lines.second_order, "gradients of gradients against differences"),
    "special values": (report_lines.special_values, "0, -0 and ties, against the slopes to both sides"),
    "broadcasting": (report_lines.broadcasting, "inputs of different shapes, and the gradient of each"),
    "dtypes": (report_lines.dtypes_line, "float64, float32 and float16, results and gradients"),
    "strides": (report_lines.strides, "strided, reversed, column-major and broadcast memory"),
    "empty arrays": (report_lines.empty_arrays, "axes of length 0"),
    "large inputs": (report_lines.large_inputs, "numbers up to 10000, against more digits"),
    "xp": (code_lines.only_xp, "whether NumPy is called instead of xp"),
    "saved": (code_lines.saved, "what is kept until backward, and whether it is read"),
    "fast pair": (code_lines.fast_pair, "the fast pair against the formula"),
    "speed": (code_lines.speed, "the time of forward and backward"),
}
"""Every line, and what it tries."""

AFTER = {
    **dict.fromkeys(LINES, ("forward",)),
    **dict.fromkeys(("first order", "strides"), ("forward", "purity")),
    **dict.fromkeys(("second order", "special values", "broadcasting"), ("forward", "purity", "first order")),
}
"""For each line, the lines that must not have failed before it: it would find the same again."""

MARKS = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


@dataclass(frozen=True)
class Report:
    """The findings of `report`.

    Attributes:
        name: the name of the op.
        lines: one for each thing that was tried.
    """

    name: str
    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """True if no line failed."""
        return not self.failed

    @property
    def failed(self) -> list[Line]:
        """The lines that failed."""
        return [line for line in self.lines if line.status == "failed"]

    def __getitem__(self, name: str) -> Line:
        """The line of this name, as in `report(swish)["second order"]`."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(f"{name!r}; lines: {', '.join(line.name for line in self.lines)}")

    @property
    def verdict(self) -> str:
        """One sentence: how many lines were right."""
        counts = {status: sum(line.status == status for line in self.lines) for status in MARKS}
        words = [f"{counts['ok']} ok", f"{counts['failed']} failed", f"{counts['skipped']} skipped"]
        return f"{self.name}: {', '.join(words)}"

    def __str__(self) -> str:
        return "\n".join([self.verdict, *map(_text, self.lines)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as a page, which needs no network. Raises ValueError unless `path` ends in .html."""
        save_page([self], path)


def report(
    op: Callable[..., Any],
    *,
    samples: Sequence[Any] | None = None,
    domain: Domain = None,
    skip: Mapping[str, str] | Sequence[str] = (),
    reference: Callable[..., Any] | None = None,
    **params: Any,
) -> Report:
    """Try an op in every way that ops go wrong, and say for each what came out and what to do.

    Without samples the inputs are arrays of float64, of one shape and of shapes that broadcast; inputs without a rule
    beside some with rules are taken for masks or indices. The first line says what was assumed.

    Args:
        op: a function declared by `@tt.op`.
        samples: inputs to try it on instead, a tuple each (or arrays, for an op of one input). Avoid kinks, where
            differences say nothing.
        domain: where it is defined, for all floats or by the name of an input: (low, high) for floats, a range for
            integers, bool for masks. Nothing outside is tried.
        skip: lines to leave out, by name, with the reason: `{"second order": "it has a kink everywhere"}`.
        reference: the same function of NumPy arrays.
        **params: the op's keyword arguments.

    Raises TypeError for anything but an op, and TypeError or ValueError for arguments that do not fit it. An op that is
    wrong raises nothing.
    """
    primitive = getattr(op, "op", None)
    if not isinstance(primitive, Primitive):
        raise TypeError(f"report: expected a function declared by @tt.op, got {op!r:.80}; check_op takes any function")
    reasons = dict(skip) if isinstance(skip, Mapping) else dict.fromkeys([skip] if isinstance(skip, str) else skip, "")
    for name in reasons:
        if name not in LINES:
            raise ValueError(f"report: there is no line {name!r} to skip; lines: {', '.join(LINES)}")
    subject = Subject(op, samples, domain, params, reference)
    lines: dict[str, Line] = {}
    for name, (attempt, what) in LINES.items():
        if name == "fast pair" and primitive.pure:
            continue
        wrong = [before for before in AFTER[name] if before in lines and lines[before].status == "failed"]
        if subject.no_gradient:
            wrong = ["first order"]
        if name in reasons:
            lines[name] = Line(name, "skipped", what, "", reasons[name] or "it was not asked for")
        elif wrong:
            lines[name] = Line(name, "skipped", what, "", f"not tried: correct {wrong[0]} first")
        else:
            lines[name] = _line(subject, name, attempt, what)
    return Report(primitive.name, tuple(lines.values()))


def _line(subject: Subject, name: str, attempt: Callable[[Subject], Outcome], what: str) -> Line:
    try:
        with _quiet():
            on, found, advice = attempt(subject)
        return Line(name, "ok", what, on, found, advice)
    except Skipped as skipped:
        return Line(name, "skipped", what, "", str(skipped))
    except Failed as failed:
        return Line(name, "failed", what, *failed.args)
    except Exception as error:
        where = line_in(subject.path, error)
        return Line(name, "failed", what, "", first_line(error) + where, "say what to try it on: samples=[(x, ...)]")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence NumPy's warnings: the results show what they would say."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _text(line: Line) -> str:
    """A line in the terminal: what was tried on which input, what came out, and what to do, each on rows of its own."""
    head = f"  {MARKS[line.status]:<8}{line.name:<16}"
    parts = [f"{line.tried}, on {line.on}" if line.on else line.tried, f"-> {line.found}"]
    if line.advice:
        parts.append(f"to do: {line.advice}")
    rows = [row for part in parts for row in textwrap.wrap(part, 96, subsequent_indent="   ", break_long_words=False)]
    return "\n".join((head if i == 0 else " " * len(head)) + row for i, row in enumerate(rows))


def save_page(reports: Sequence[Report], path: str | os.PathLike[str]) -> None:
    """Write reports as one page. Raises ValueError unless `path` ends in .html."""
    from .report_page import page

    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"report: {os.fspath(path)} has the ending {Path(path).suffix!r}; expected .html")
    atomic_write(path, page(reports).encode())
