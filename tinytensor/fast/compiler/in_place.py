"""Lines over the elements of many arrays, each result in the place of an argument: what an optimiser's step is.

A model has hundreds of parameters, most of them small. So one compiled function reads the addresses of the arrays of
all of them in a table, a row for each parameter; a long one has several rows, which threads share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...record.tape import Line, NotRecorded, Recorded, Tape
from ..threads import GRAIN, SHARES, in_shares
from .llvm import compile_text
from .loops import Writer
from .plan import Loop, plan
from .run import address

SEGMENT = 1 << 16  # elements of a row of the table at most

DRIVER = """
define void @rows(i64 %first, i64 %end, ptr %table, ptr %numbers) {{
entry:
  %sizes = alloca [{sizes} x i64]
  %one = getelementptr i64, ptr %sizes, i64 1
  store i64 1, ptr %one
  br label %row
row:
  %r = phi i64 [%first, %entry], [%r.next, %row]
  %start = mul i64 %r, {width}
  %record = getelementptr i64, ptr %table, i64 %start
  %n = load i64, ptr %record
  store i64 %n, ptr %sizes
{pointers}
  call void @loop(i64 0, i64 1, ptr %sizes, ptr %numbers{arguments})
  %r.next = add i64 %r, 1
  %more = icmp slt i64 %r.next, %end
  br i1 %more, label %row, label %done
done:
  ret void
}}
"""
POINTER = """\
  %at{i} = getelementptr i64, ptr %record, i64 {place}
  %a{i} = load ptr, ptr %at{i}"""


def one_loop(lines: Sequence[Line]) -> Loop:
    """The loop over elements that lines are. Raises NotRecorded for several loops or shapes."""
    loops = plan(Tape(), lines)
    loop = loops[0] if len(loops) == 1 else None
    if not isinstance(loop, Loop) or loop.row_shape is not None or loop.columns:
        raise NotRecorded("it is more than one loop over elements")
    if any(x.shape != loop.shape for x in [*loop.arguments(), *[line.result for line in lines]]):
        raise NotRecorded("its arrays have more than one shape")
    return loop


class InPlace:
    """Compiled lines, all over the elements of one shape.

    Args:
        lines: the lines.
        results: what is computed.
        over: for a result that takes the place of an argument, that argument. Others have new arrays.

    Attributes:
        arrays: the places on the tape of the arguments and results that a row of a call has, in order.
        numbers: the numbers of the lines that a call is given, each as the place of a line and of an argument there.

    Raises NotRecorded if there is more to compute than one loop over elements.
    """

    def __init__(self, lines: Sequence[Line], results: Sequence[Recorded], over: dict[Recorded, Recorded]) -> None:
        loop = one_loop(lines)
        arguments = loop.arguments()
        over = {x: argument for x, argument in over.items() if argument in {*arguments}}
        writer = Writer(loop, set(results), dict.fromkeys(arguments, 1), over=over)
        written, self.arrays = writer.write(), [x.place for x in writer.arrays]
        self.numbers = written.numbers
        count = len(self.arrays)
        self.text = written.text + DRIVER.format(
            sizes=2 + 2 * count,
            width=1 + count,
            pointers="\n".join(POINTER.format(i=i, place=i + 1) for i in range(count)),
            arguments="".join(f", ptr %a{i}" for i in range(count)),
        )
        found, self._engine = compile_text(self.text, "rows")
        self._rows = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(found)
        self._work = count / 2  # in element-wise operations of NumPy, whose time is that of memory

    def __call__(self, rows: Sequence[Sequence[Any]], numbers: Sequence[float]) -> None:
        """Compute, for rows of contiguous arrays and the numbers."""
        places = np.array([[a[0].size, *map(address, a)] for a in rows], np.int64)
        sizes = places[:, 0]
        if sizes.max() > SEGMENT:
            counts = -(-sizes // SEGMENT)
            ends = np.cumsum(counts)
            starts = (np.arange(ends[-1]) - np.repeat(ends - counts, counts)) * SEGMENT
            places = np.repeat(places, counts, axis=0)
            places[:, 0] = np.minimum(places[:, 0] - starts, SEGMENT)
            places[:, 1:] += (starts * rows[0][0].itemsize)[:, None]
        given, starts = np.array([*numbers, 0.0], np.float64), np.cumsum(places[:, 0]) - places[:, 0]
        table, settings, total = address(places), address(given), int(places[:, 0].sum())

        def elements(part: slice) -> None:
            ends = total * part.start // SHARES, total * part.stop // SHARES
            first, end = np.searchsorted(starts, ends).tolist()
            if first < end:
                self._rows(first, end, table, settings)

        in_shares(elements, SHARES, int(self._work * total / GRAIN))
