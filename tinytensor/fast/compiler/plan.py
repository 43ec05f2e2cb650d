"""The lines of a tape as loops over rows.

A loop goes over the rows of one shape. It takes lines of that shape, lines with one number a row, and sums: along a
row, which later lines of the same loop may read, and over the rows, which later loops may read. A line joins the
earliest loop that has its operands. Nothing here knows an op or a layer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from ...backend import numpy as arrays
from ...record.tape import ELEMENTWISE, SCANS, VIEWS, Line, NotRecorded, Recorded, Tape, sample
from .expressions import DEAR, ONLY_FLOAT32, TABLE, can_be_exponent

STARTS = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "cumulative_sum": 0.0, "cumulative_prod": 1.0}
"""What a sum, a product or a running one begins with."""

ONE_BY_ONE = ELEMENTWISE | {"broadcast_to", "astype", "copy", "full"}
OF_MASKS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "logical_and", "logical_or", "logical_not"}
OF_ANY = {"where", "broadcast_to", "astype", "copy", "full"}


class Loop:
    """Lines that one pass over some rows computes.

    Attributes:
        shape: the shape of the lines with a number for each element.
        row_shape: the same, with 1 along the axes of a row; None if nothing is added up along one.
        lines: the lines, in order.
        columns: results of the sums over rows.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.row_shape: tuple[int, ...] | None = None
        self.lines: list[Line] = []
        self.columns: set[Recorded] = set()

    def takes(self, line: Line, form: str) -> bool:
        """True if a line of this form fits."""
        if form != "element":
            row = summed(line) if form != "column sum" else self.row_shape
            columns = [*[x.shape for x in self.columns], *[line.result.shape] * (form == "column sum")]
            fits = row is None or all(self._axes(row).isdisjoint(self._axes(column)) for column in columns)
            is_there = self.shape == line.operands[0].shape and self.row_shape in (None, row)
            return is_there and fits and self._levels(row, columns) <= 2
        made = {known.result for known in self.lines} - self.columns
        is_row = line.result.shape == self.row_shape and bool(made.intersection(line.operands))
        return self.shape == line.result.shape or is_row

    def _axes(self, shape: tuple[int, ...]) -> set[int]:
        """The axes along which an array has one number for all."""
        return {i for i, (n, m) in enumerate(zip(self.shape, shape)) if m == 1 != n}

    def _levels(self, row: tuple[int, ...] | None, columns: Sequence[tuple[int, ...]]) -> int:
        """In how many groups the axes of the rows lie, of such as are one long axis for every sum over rows."""
        long = long_axes(self.shape)
        inner = self._axes(row) if row else {*long[-1:]}
        sums = [tuple(i in self._axes(column) for column in columns) for i in long if i not in inner]
        return len([1 for one, other in zip([None, *sums], sums) if one != other])

    def is_full(self, array: Recorded) -> bool:
        """True for a number for each element, False for one for each row."""
        return array.shape == self.shape

    def outputs(self, wanted: set[Recorded]) -> dict[Recorded, int]:
        """The results that somebody else reads, numbered."""
        found = [line.result for line in self.lines if line.result in wanted or line.result in self.columns]
        return {x: i for i, x in enumerate(found)}

    def arguments(self) -> list[Recorded]:
        """The arrays that it reads and does not make."""
        made = {line.result for line in self.lines}
        return list(dict.fromkeys(x for line in self.lines for x in line.operands if x not in made))


def form_of(line: Line) -> str:
    """How a loop computes a line. Raises NotRecorded for one that no loop computes."""
    if any(0 in x.shape for x in (*line.operands, line.result)):
        raise NotRecorded("no loop goes over an empty array")
    if line.name in ONE_BY_ONE:
        if line.name == "pow":
            exponent_of(line)
        kinds = {x.dtype.char for x in (*line.operands, line.result)}
        if line.name not in TABLE or kinds - {"f", "d", "?"} or (line.name in ONLY_FLOAT32 and "d" in kinds):
            raise NotRecorded(f"no loop computes {line.name} of {', '.join(sorted(kinds))}")
        if line.name not in OF_ANY and (operand_type(line).char == "?") != (line.name in OF_MASKS):
            raise NotRecorded(f"no loop computes {line.name} of {operand_type(line)}")
        if line.name == "where" and getattr(getattr(line.arguments[0], "dtype", None), "char", "") != "?":
            raise NotRecorded("the condition of where has to be a mask")
        return "element"
    if line.name in VIEWS:
        return "view"
    if line.name not in STARTS:
        raise NotRecorded(f"no loop computes {line.name}")
    if line.result.dtype.char not in "fd":
        raise NotRecorded(f"no loop adds up {line.result.dtype}")
    inner = inner_axes(line)
    several = [i for i in long_axes(line.operands[0].shape) if i in line.options["axis"]]
    if not several:
        return "same"
    if line.name in SCANS:
        if several == inner:
            return "row scan"
        raise NotRecorded(f"no loop computes {line.name} along another axis than the last")
    if several == inner:
        return "row sum"
    return "two sums" if inner else "column sum"


def summed(line: Line) -> tuple[int, ...]:
    """The shape of one number for each sum, or running sum, of a line."""
    return tuple(1 if i in line.options["axis"] else n for i, n in enumerate(line.operands[0].shape))


def exponent_of(line: Line) -> float:
    """The exponent of a power. Raises NotRecorded unless it is a number that products and roots lead to."""
    exponent = line.arguments[1]
    if isinstance(exponent, Recorded) or not isinstance(line.arguments[0], Recorded) or not can_be_exponent(exponent):
        raise NotRecorded(f"no loop computes a power with the exponent {exponent}")
    return float(exponent)


def long_axes(shape: Sequence[int]) -> list[int]:
    """The axes that are longer than 1."""
    return [i for i, n in enumerate(shape) if n != 1]


def inner_axes(line: Line) -> list[int]:
    """The last of these along which a line adds up."""
    long = long_axes(line.operands[0].shape)
    outer = max([k for k, i in enumerate(long, 1) if i not in line.options["axis"]], default=0)
    return long[outer:]


def form_here(tape: Tape, line: Line) -> str:
    """How a line is computed: by a loop or a view; on a tape that takes all functions also by a call."""
    try:
        return form_of(line)
    except NotRecorded:
        if not tape.takes_all:
            raise
        return "call"


def split_sums(tape: Tape, lines: Sequence[Line]) -> list[Line]:
    """The lines, with a sum along rows and over rows as two lines."""
    found: list[Line] = []
    made: set[Recorded] = set()
    for line in lines:
        made.add(line.result)
        form = form_here(tape, line)
        if form == "same":  # over axes of length 1
            found.append(Line("broadcast_to", line.arguments, {}, line.result))
            continue
        if form != "two sums":
            found.append(line)
            continue
        x, inner = line.operands[0], tuple(inner_axes(line))
        shape = tuple(1 if i in inner else n for i, n in enumerate(x.shape))
        rows = tape.write(line.name, (x,), {"axis": inner}, shape, x.dtype)
        if rows not in made:
            made.add(rows)
            found.append(Line(line.name, (x,), {"axis": inner}, rows))
        found.append(Line(line.name, (rows,), line.options, line.result))
    return found


def by_depth(tape: Tape, lines: Sequence[Line]) -> list[Line]:
    """The lines in another order: first those that wait for the fewest calls, so that a loop finds its operands."""
    depth: dict[Recorded, int] = {}
    for line in lines:
        is_call = form_here(tape, line) == "call"
        depth[line.result] = max([depth.get(x, 0) for x in line.operands], default=0) + is_call
    return sorted(lines, key=lambda line: depth[line.result])


def move_down(steps: Sequence[Loop | Line], results: Collection[Recorded]) -> list[Loop | Line]:
    """The steps, with each line that one later loop alone reads in that loop, where it needs no memory."""
    readers: dict[Recorded, set[int]] = {}
    for i, step in enumerate(steps):
        for line in step.lines if isinstance(step, Loop) else [step]:
            for x in line.operands:
                readers.setdefault(x, set()).add(i)
    results = {*results}
    for i in reversed(range(len(steps))):
        loop = steps[i]
        if not isinstance(loop, Loop):
            continue
        for line in reversed(loop.lines):
            there = readers.get(line.result, set())
            later = steps[min(there)] if there else loop
            if len(there) > 1 or later is loop or not isinstance(later, Loop) or line.result in results:
                continue
            form = form_of(line)
            if form == "column sum" or not later.takes(line, form):
                continue
            loop.lines = [other for other in loop.lines if other is not line]
            later.lines.insert(0, line)
            if form in ("row sum", "row scan"):
                later.row_shape = summed(line)
            for x in line.operands:
                readers[x] = {j for j in readers[x] if j != i or _reads(loop, x)} | there
    return [step for step in steps if not isinstance(step, Loop) or step.lines]


def _reads(loop: Loop, x: Recorded) -> bool:
    return any(x is y for line in loop.lines for y in line.operands)


def plan(tape: Tape, lines: Sequence[Line], results: Collection[Recorded] = ()) -> list[Loop | Line]:
    """Loops, and views between them, in the order in which they run."""
    steps: list[Loop | Line] = []
    ready: dict[Recorded, int] = {}  # the step that made an array, or the next one, where its sum is complete
    lines = split_sums(tape, lines)
    for line in by_depth(tape, lines) if tape.takes_all else lines:
        form = form_here(tape, line)
        first = max([ready.get(x, 0) for x in line.operands], default=0)
        if form in ("view", "call"):
            steps.append(line)
            ready[line.result] = len(steps)
            continue
        places = range(first, len(steps))
        loops = [(i, loop) for i in places if isinstance(loop := steps[i], Loop) and loop.takes(line, form)]
        if not loops:
            loops = [(len(steps), Loop(line.result.shape if form == "element" else line.operands[0].shape))]
            steps.append(loops[0][1])
            if not loops[0][1].takes(line, form):
                if not tape.takes_all:
                    raise NotRecorded("a sum over axes that are far apart")
                steps[-1] = line
                ready[line.result] = len(steps)
                continue
        at, loop = loops[0]
        loop.lines.append(line)
        if form in ("row sum", "row scan"):
            loop.row_shape = summed(line)
        if form == "column sum":
            loop.columns.add(line.result)
        ready[line.result] = at + (form == "column sum")
    return move_down(steps, results) if tape.takes_all else steps


def phases(loop: Loop) -> dict[Recorded, int]:
    """The pass over a row in which each result is known: numbers of the row at its end, or before all, which is -1."""
    found: dict[Recorded, int] = {}
    scans = {line.result for line in loop.lines if line.name in SCANS}
    for line in loop.lines:
        operands = [x for x in line.operands if x in found]
        if line.name not in ONE_BY_ONE or loop.is_full(line.result):  # a loop with a running sum has no vectors
            found[line.result] = max([found[x] + (x in scans or not loop.is_full(x)) for x in operands], default=0)
        else:
            found[line.result] = max([found[x] for x in operands], default=-1)
    return found


def kept_for_later(loop: Loop, known: dict[Recorded, int], outputs: Collection[Recorded]) -> dict[Recorded, None]:
    """Results for each element that a later pass over the row reads again: those that are dear to compute."""
    lines = {line.result: line for line in loop.lines}
    found: dict[Recorded, None] = {}

    def look(x: Recorded, phase: int) -> None:
        if x not in lines or not loop.is_full(x):
            return
        if known[x] < phase and (x in outputs or lines[x].name in (*DEAR, *SCANS)):
            found[x], phase = None, known[x]
        for operand in lines[x].operands:
            look(operand, phase)

    for line in loop.lines:
        if line.name not in ONE_BY_ONE or (line.result in outputs and loop.is_full(line.result)):
            for operand in line.operands:
                look(operand, known[line.result])
    return found


def operand_type(line: Line) -> Any:
    """The dtype in which a line computes: that of its result; for a comparison, the common one of its operands."""
    if line.name == "where":
        return line.result.dtype
    if line.result.dtype.char != "?" or line.name in ("full", "broadcast_to"):
        return line.result.dtype
    if line.name == "astype" or all(x.dtype.char == "?" for x in line.operands):
        return line.operands[0].dtype
    return arrays.add(*map(sample, line.arguments)).dtype if len(line.arguments) == 2 else line.operands[0].dtype
