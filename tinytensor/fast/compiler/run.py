"""A plan, run on arrays: each loop bound to their strides, compiled, and called for its rows on our threads."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...backend import numpy as names
from ...record.tape import REDUCTIONS, SCANS, VIEWS, Line, Recorded, Tape, call
from ..numpy import FLOPS, large_matmul, large_scatter
from ..pool import LEAST, empty
from ..threads import SHARES, alone_for_long, in_shares, wakes_soon
from .expressions import DEAR
from .llvm import compile_text
from .loops import Writer
from .plan import STARTS, Loop, long_axes, plan

SHORT = 1024  # elements of a row that are added up in their own dtype, in one part for each place of a vector
MOST = 64  # strides for which a loop is kept
WORTH = 1 << 22  # element-wise operations of a loop that are worth waking another thread for
SOON = 1 << 20  # those where no thread of BLAS spins on their cores
RECURRENT = {"gru", "lstm", "rnn"}  # ops whose small products BLAS's threads share better
WORK = 12  # element-wise operations that a function in DEAR is worth


class Program:
    """The compiled lines of a tape.

    Args:
        tape: where the lines are.
        given: the arrays that a call is given, in order.
        results: those that it returns.
        fresh: the places of results that share no memory with any other array.

    Raises NotRecorded if there is a line that no loop computes, unless the tape takes all functions.
    """

    def __init__(
        self, tape: Tape, given: Sequence[Recorded], results: Sequence[Recorded], fresh: Sequence[int] = ()
    ) -> None:
        self.given, self.results, self.fresh = list(given), list(results), fresh
        lines = tape.needed(results, given)
        self.constants = computed_once(lines, {*given}) if tape.takes_all else {}
        self.steps: list[Any] = [*plan(tape, [line for line in lines if line.result not in self.constants], results)]
        reads = [step.arguments() if isinstance(step, Loop) else step.operands for step in self.steps]
        there, self.ends = {*self.results}, list[list[Recorded]]()
        for i in reversed(range(len(self.steps))):
            step = self.steps[i]
            if isinstance(step, Loop):
                self.steps[i] = Pass(step, {*there})
            else:
                self.steps[i] = View(step) if step.name in VIEWS else Call(step)
            self.ends.append([x for x in dict.fromkeys(reads[i]) if x not in there])
            there.update(reads[i])
        self.ends.reverse()
        recurs = any(line.name == "forward_of" and line.arguments[0] in RECURRENT for line in tape.lines)
        work = [_work(step) for step in self.steps]
        small = sum(w for w, step in zip(work, self.steps) if isinstance(step, Call) and w < SOON)
        self.is_shared = tape.takes_all and not recurs and sum(w for w in work if w > 2 * SOON) > small

    def __str__(self) -> str:
        told = []
        for step in self.steps:
            if isinstance(step, Pass):
                told += [f"  loop over {step.loop.shape}:", *[f"    {line}" for line in step.loop.lines]]
            else:
                told.append(f"  {step.line}")
        return "\n".join(told)

    def materialised(self) -> list[Recorded]:
        """The arrays that it makes."""
        found: list[Recorded] = []
        for step in self.steps:
            found += step.outputs if isinstance(step, Pass) else [step.result] if isinstance(step, Call) else []
        return found

    def prepare(self) -> Program:
        """Compile for contiguous arrays. Raises an error if a loop cannot be compiled."""
        for step in self.steps:
            if isinstance(step, Pass):
                arrays = [np.empty(x.shape, x.dtype) for x in step.arguments]
                step.bound[tuple([a.strides for a in arrays])] = step.bind(arrays)
        return self

    def __call__(self, *arrays: Any) -> list[Any]:
        """Compute the results."""
        with alone_for_long() if self.is_shared else nullcontext():
            return self._compute(arrays)

    def _compute(self, arrays: Sequence[Any]) -> list[Any]:
        there = dict(zip(self.given, arrays))
        there.update(self.constants)
        for step, ends in zip(self.steps, self.ends):
            step.run(there)
            for x in ends:
                del there[x]
        found = [there[x] for x in self.results]
        for i in self.fresh:  # a view, an input, or twice the same
            array = found[i]
            if names.is_view(array) or any(array is a for a in (*arrays, *found[:i], *self.constants.values())):
                found[i] = names.copy(array)
        return found


def _work(step: Any) -> int:
    """The work of a step in element-wise operations; a product is converted to these."""
    if isinstance(step, Pass):
        return step.work
    is_product = isinstance(step, Call) and step.line.name == "matmul"
    return step.result.size * step.line.operands[0].shape[-1] // FLOPS if is_product else 0


class View:
    """A line whose result is a view of its operand, or a copy in another order."""

    def __init__(self, line: Line) -> None:
        self.line, self.result, (self.source,), (self.option,) = line, line.result, line.operands, line.options.values()
        self.function = SHAPES[line.name]

    def run(self, there: dict[Recorded, Any]) -> None:
        there[self.result] = self.function(there[self.source], self.option)


SHAPES: dict[str, Any] = {
    "flip": lambda x, axis: np.asarray(names.flip(x, axis)),  # of a 0-d array NumPy's is a scalar
    "permute_dims": np.ndarray.transpose,
    "reshape": np.ndarray.reshape,
}


class Call:
    """A line that a function of the namespace computes."""

    def __init__(self, line: Line) -> None:
        self.line, self.result = line, line.result
        self.is_flat = {*line.operands} == {x for x in line.arguments if type(x) is Recorded}

    def run(self, there: dict[Recorded, Any]) -> None:
        """Compute it from the arrays that are there, and put it there."""
        line = self.line
        if self.is_flat:
            arguments, options = [there[x] if type(x) is Recorded else x for x in line.arguments], line.options
        else:
            arguments, options = (_filled(value, there) for value in (line.arguments, line.options))
        if line.name in REDUCTIONS:
            found = getattr(names, line.name)(*arguments, **options, keepdims=True)
        elif line.name in SCANS:
            found = getattr(names, line.name)(*arguments, axis=options["axis"][0])
        elif line.name in OWN:
            found = OWN[line.name](line, *arguments, **options)
        else:
            found = call(line.name, *arguments, **options)
        keeps = type(found) is np.ndarray or line.result.dtype.char == "O"
        there[line.result] = found if keeps else np.asarray(found)


OWN: dict[str, Any] = {
    "astype": lambda line, x: x.astype(line.result.dtype),
    "broadcast_to": lambda line, x: np.broadcast_to(x, line.result.shape),
    "full": lambda line, number, shape: np.full(shape, number, line.result.dtype),
    "matmul": lambda line, a, b: large_matmul(a, b),
    "scatter": lambda line, *arguments: large_scatter(*arguments),
    "place": lambda line, parts, covers: _place(
        (empty if covers else np.zeros)(line.result.shape, line.result.dtype), parts
    ),
}
"""What a line's function does here, where it is not the namespace's own; `draw` is added by who draws."""


def _place(out: Any, parts: Any) -> Any:
    for part, key in parts:
        out[key] = part
    return out


def _filled(value: Any, there: dict[Recorded, Any]) -> Any:
    """Arguments, with arrays for the recorded ones."""
    if type(value) is Recorded:
        return there[value]
    if type(value) in (tuple, list):
        return type(value)([_filled(each, there) for each in value])
    return {name: _filled(each, there) for name, each in value.items()} if type(value) is dict else value


def computed_once(lines: Sequence[Line], given: set[Recorded]) -> dict[Recorded, Any]:
    """The arrays that no input changes, such as a causal mask; arrays of one number stay lines."""
    found: dict[Recorded, Any] = {}
    numbers: dict[Recorded, Line] = {}
    for line in lines:
        there = {**found, **dict.fromkeys(numbers)}
        if (
            line.result in given
            or line.name == "draw"
            or line.name.startswith("check_range")
            or not all(x in there for x in line.operands)
        ):
            continue
        if line.name == "full" or (line.name in VIEWS and line.operands[0] in numbers):
            numbers[line.result] = numbers[line.operands[0]] if line.operands else line
            continue
        for x in line.operands:
            if x in numbers:
                found[x] = np.full(x.shape, numbers[x].arguments[0], x.dtype)
        Call(line).run(found)
    return found


class Bound(NamedTuple):
    """A loop for arrays of some strides.

    Attributes:
        function: compiled.
        keeps: what keeps it, and the two addresses, in memory.
        sizes, numbers: addresses of what it reads besides arrays.
        rows, length: how many rows there are, and the elements of one.
        shares: into how many parts the rows are divided, on any number of threads.
        copied: the arguments that it wants contiguous, with the shape of all elements or not.
        order: of the axes in its outputs; () for the usual one.
        scratch: the dtypes of the rows that it keeps for itself.
        few: how many rows of zeros in float32 it takes as well.
    """

    function: Any
    keeps: Any
    sizes: int
    numbers: int
    rows: int
    length: int
    shares: int
    copied: dict[int, bool]
    order: tuple[int, ...]
    scratch: list[Any]
    few: int


class Pass:
    """One loop of a program."""

    def __init__(self, loop: Loop, wanted: set[Recorded]) -> None:
        self.loop, self.wanted = loop, wanted
        self.arguments, self.outputs = loop.arguments(), loop.outputs(wanted)
        self.columns = [line for line in loop.lines if line.result in loop.columns]
        self.bound: dict[Any, Bound] = {}
        dear = sum(line.name in DEAR for line in loop.lines)
        self.size = math.prod(loop.shape)
        self.work = self.size * (2 + len(loop.lines) + WORK * dear)

    def run(self, there: dict[Recorded, Any]) -> None:
        """Compute its outputs from the arrays that are there, and put them there."""
        arrays = [there[x] for x in self.arguments]
        key = tuple([a.strides for a in arrays])
        bound = self.bound.get(key)
        if bound is None:
            if len(self.bound) >= MOST:
                self.bound.clear()
            bound = self.bound[key] = self.bind(arrays)
        for i, is_full in bound.copied.items():
            array = np.broadcast_to(arrays[i], self.loop.shape) if is_full else arrays[i]
            arrays[i] = np.ascontiguousarray(array.transpose(bound.order) if bound.order else array)
        for x in self.outputs:
            arrays.append(None if x in self.loop.columns else self._output(x, bound.order, there))
        pointers = [0 if a is None else address(a) for a in arrays]
        if not self.columns and bound.shares < 2 and not bound.scratch:
            bound.function(0, bound.rows, bound.sizes, bound.numbers, *pointers)
            return
        shares, length = bound.shares, bound.length
        totals = [_start(line, shares) for line in self.columns]
        for line, total in zip(self.columns, totals):
            pointers[len(self.arguments) + self.outputs[line.result]] = address(total)
        rows = [np.empty((shares, length), dtype) for dtype in bound.scratch]
        rows += [np.zeros((shares, length), np.float32) for _ in range(bound.few)]
        pointers += map(address, rows)
        steps = [0] * len(pointers)  # in bytes from a share to the next
        for line, total in zip(self.columns, totals):
            steps[len(self.arguments) + self.outputs[line.result]] = total.strides[0]
        steps[len(steps) - len(rows) :] = [array.strides[0] for array in rows]

        def some_shares(some: slice) -> None:
            for i in range(some.start, some.stop):
                mine = [pointer + i * step for pointer, step in zip(pointers, steps)]
                ends = bound.rows * i // shares, bound.rows * (i + 1) // shares
                bound.function(*ends, bound.sizes, bound.numbers, *mine)

        in_shares(some_shares, shares, self.work // (SOON if wakes_soon() else WORTH))
        for line, total in zip(self.columns, totals):
            there[line.result] = COMBINED[line.name].reduce(total, axis=0).astype(line.result.dtype, copy=False)

    def _output(self, x: Recorded, order: tuple[int, ...], there: dict[Recorded, Any]) -> Any:
        make = empty if self.size * 8 >= LEAST else np.empty
        if not order or x.shape != self.loop.shape:
            there[x] = out = make(x.shape, x.dtype)
        else:
            out = make(tuple([x.shape[i] for i in order]), x.dtype)
            there[x] = out.transpose(np.argsort(order))
        return out

    def bind(self, arrays: Sequence[Any]) -> Bound:
        """The loop, compiled for arrays of these strides."""
        layout = Layout(self.loop, self.outputs, arrays)
        strides = {x: layout.inner[i] for i, x in enumerate(self.arguments)}
        written = Writer(self.loop, self.wanted, strides, layout.length > SHORT).write()
        found, engine = compile_text(written.text)
        count = len(self.arguments) + len(self.outputs) + len(written.scratch) + written.few
        kinds = ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (2 + count)
        function = ctypes.CFUNCTYPE(None, *kinds)(found)
        values = [float(self.loop.lines[i].arguments[place]) for i, place in written.numbers]
        sizes, numbers = np.array(layout.sizes, np.int64), np.array([*values, 0.0])
        largest = max([line.result.size for line in self.columns], default=0)
        shares = self.size // (8 * largest) if largest else SHARES
        shares = 1 << max(1, min(shares, SHARES, self.work // SOON, layout.rows)).bit_length() - 1
        return Bound(
            function, (engine, sizes, numbers), address(sizes), address(numbers), layout.rows, layout.length,
            shares, layout.copied, layout.order, [x.dtype for x in written.scratch], written.few,
        )  # fmt: skip


def _told_address(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _read_address(array: Any) -> int:
    return _pointer_at(id(array) + object.__basicsize__).value or 0


_pointer_at, _probe = ctypes.c_void_p.from_address, np.empty(1)
_can_read = sys.implementation.name == "cpython" and _read_address(_probe) == _told_address(_probe)
address = _read_address if _can_read else _told_address
"""The address of an array's elements. In CPython it is the first field of the array, to read which takes a tenth."""


def _start(line: Line, shares: int) -> Any:
    """What a sum over rows begins with in each share; in float64."""
    x = line.result
    return np.full((shares, *x.shape), STARTS[line.name], np.float64 if line.name in ("sum", "prod") else x.dtype)


COMBINED = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class Layout:
    """How a loop goes over arrays: rows in two levels, with a stride of each array for each, and along a row 1 or 0."""

    def __init__(self, loop: Loop, outputs: Any, arrays: Sequence[Any]) -> None:
        self.loop, self.shape = loop, loop.shape
        self.copied: dict[int, bool] = {}
        self.order: tuple[int, ...] = ()
        axes = tuple(range(len(self.shape)))
        strides = [self._broadcast(a.shape, a.strides, a.itemsize) for a in arrays]
        if loop.row_shape is None and not loop.columns:
            axes = self._natural(axes, arrays, strides)
        for x in outputs:
            own = self._broadcast(x.shape, _contiguous(x.shape), 1)
            strides.append(self._ordered() if x.shape == self.shape else own)
        long = [i for i in axes if self.shape[i] != 1]
        row = self._row(long)
        for i, a in enumerate(arrays):
            if (
                not a.flags.aligned
                or any(step % a.itemsize for step in a.strides)
                or not self._fits_row(strides[i], row)
            ):
                self._copy(strides, i, a)
        outer = long[: len(long) - len(row)]
        while loop.row_shape is None and outer and all(self._merges(s, outer[-1], row[0]) for s in strides):
            row.insert(0, outer.pop())
        levels = self._levels(strides, outer)
        if len(levels) > 2:
            for i, a in enumerate(arrays):
                self._copy(strides, i, a, full=True)
            levels = self._levels(strides, outer)
        assert len(levels) <= 2, "`Loop.takes` sees to it"
        self.length = math.prod(self.shape[i] for i in row)
        self.rows = math.prod(self.shape[i] for i in outer)
        inner = math.prod(self.shape[i] for i in levels[-1]) if len(levels) == 2 else 1
        self.inner = [s[row[-1]] if row else 0 for s in strides]
        self.sizes = [self.length, inner]
        for s in strides:
            ends = [s[level[-1]] for level in levels]
            self.sizes += [ends[0], ends[1]] if len(ends) == 2 else [ends[0] if ends else 0, 0]

    def _broadcast(self, shape: Any, strides: Any, itemsize: int) -> tuple[int, ...]:
        """The strides in elements along the axes of the loop: 0 where the array has one for all."""
        extra = len(self.shape) - len(shape)
        known = [0 if n == 1 else step // itemsize for n, step in zip(shape, strides)]
        return (*[0] * extra, *known)

    def _natural(self, axes: tuple[int, ...], arrays: Sequence[Any], strides: Any) -> tuple[int, ...]:
        """The axes from the one of the longest stride on, for an array that has all elements; outputs lie so, too."""
        full = next((s for a, s in zip(arrays, strides) if a.shape == self.shape and 0 not in s), None)
        if full is None or list(full) == sorted(full, reverse=True):
            return axes
        self.order = tuple(sorted(axes, key=lambda i: -abs(full[i])))
        return self.order

    def _row(self, long: Sequence[int]) -> list[int]:
        """The axes along a row, of those longer than 1: where sums along one are, else the last."""
        row = self.loop.row_shape
        return [i for i in long if row is not None and row[i] == 1] or [*long[-1:]]

    def _fits_row(self, s: Any, row: Any) -> bool:
        if not row or all(s[i] == 0 for i in row):
            return True
        return s[row[-1]] == 1 and all(self._merges(s, i, j) for i, j in pairwise(row))

    def _merges(self, s: Any, i: int, j: int) -> bool:
        return s[i] == s[j] * self.shape[j]

    def _copy(self, strides: Any, i: int, array: Any, full: bool = False) -> None:
        """Take argument i as a contiguous copy."""
        is_full = full or bool(self.order) or not self._fits_own(array)
        self.copied[i] = is_full
        strides[i] = self._ordered() if is_full else self._broadcast(array.shape, _contiguous(array.shape), 1)

    def _ordered(self) -> tuple[int, ...]:
        """The strides of an array of all elements that is contiguous in the order of the axes."""
        axes = self.order or tuple(range(len(self.shape)))
        steps = _contiguous([self.shape[i] for i in axes])
        return tuple(0 if n == 1 else steps[axes.index(i)] for i, n in enumerate(self.shape))

    def _fits_own(self, array: Any) -> bool:
        """True if a contiguous copy in its own shape is the same along whole rows, or not at all."""
        s = self._broadcast(array.shape, _contiguous(array.shape), 1)
        return self._fits_row(s, self._row(long_axes(self.shape)))

    def _levels(self, strides: Any, outer: Any) -> list[list[int]]:
        """The outer axes in groups of such as are one long axis for every array."""
        groups: list[list[int]] = []
        for i in outer:
            if groups and all(self._merges(s, groups[-1][-1], i) for s in strides):
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups


def _contiguous(shape: Any) -> tuple[int, ...]:
    """Strides in elements."""
    steps, step = [], 1
    for n in reversed(shape):
        steps.append(step)
        step *= n
    return tuple(reversed(steps))
