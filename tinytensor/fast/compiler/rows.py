"""A function over the elements of matrices, with its results in matrices that the caller gives: a step of a recurrence.

The matrices may be columns of wider ones: their rows are contiguous, but not next to each other.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...record.tape import record
from .in_place import one_loop
from .llvm import compile_text
from .loops import Writer
from .run import address

WIDTH = 64  # of the rows that a function is recorded with


class Rows:
    """A compiled function.

    Args:
        function: returns arrays of the shape of its arguments; over a namespace, and arrays.
        over: for a result that is written in the place of an argument, the place of both among results and arguments.
        dtype: float32 or float64.

    Raises NotRecorded if there is more to compute than one loop over elements.
    """

    def __init__(self, function: Callable[..., Any], over: dict[int, int], dtype: Any) -> None:
        count = len(inspect.signature(function).parameters) - 1
        tape = record(function, [np.empty((2, WIDTH), dtype) for _ in range(count)])
        loop = one_loop(tape.needed(tape.results, tape.inputs))
        places = {x: i for i, x in enumerate([*tape.inputs, *tape.results])}
        arguments = loop.arguments()
        in_place = {tape.results[i]: tape.inputs[k] for i, k in over.items()}
        writer = Writer(loop, {*tape.results}, dict.fromkeys(arguments, 1), over=in_place)
        written = writer.write()
        self._places = [places[x] for x in writer.arrays]
        found, self._engine = compile_text(written.text)
        numbers = [float(loop.lines[i].arguments[place]) for i, place in written.numbers]
        self._numbers = np.array([*numbers, 0.0])
        kinds = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * (2 + len(self._places))
        self._function = ctypes.CFUNCTYPE(None, *kinds)(found)
        self._sizes: dict[Any, Any] = {}

    def __call__(self, arguments: Sequence[Any], results: Sequence[Any]) -> None:
        """Write the results for arguments, matrices of one shape."""
        given = [*arguments, *results]
        arrays = [given[i] for i in self._places]
        length, width = arrays[0].shape
        key = (width, *[a.strides[0] for a in arrays])
        sizes = self._sizes.get(key)
        if sizes is None:
            steps = [step for a in arrays for step in (0, a.strides[0] // a.itemsize)]
            sizes = self._sizes[key] = np.array([width, 1 << 40, *steps], np.int64)
        self._function(0, length, address(sizes), address(self._numbers), *map(address, arrays))


def rows(function: Callable[..., Any], over: dict[int, int], dtype: Any) -> Rows | None:
    """A function, compiled; None where it cannot be."""
    return _compiled(function, tuple(over.items()), dtype) if dtype.char in "fd" else None


@functools.lru_cache(512)
def _compiled(function: Callable[..., Any], over: tuple[tuple[int, int], ...], dtype: Any) -> Rows | None:
    try:
        return Rows(function, dict(over), dtype)
    except Exception:  # NotRecorded, or one of the function itself, which its lines raise again
        return None
