"""The clipping of gradients in compiled loops, one call on each thread for all parameters.

A model has hundreds of parameters, most of them small. So a loop reads the addresses of all their arrays in a table,
and counts their elements through, from the first parameter to the last. Each thread takes as many as the others,
whatever the sizes of the parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiling import address, loop, numbers, part
from .threads import in_parts

BLOCK = 1 << 15  # elements of which a sum of squares is added up before it joins the others


def scale_all(arrays: list[Any], factor: float) -> None:
    """Multiply all arrays by a factor, in place."""
    places, ends = _table(arrays)
    factor = arrays[0].dtype.type(factor)
    in_parts(lambda i: _scale(places, ends, factor, i.start, i.stop), int(ends[-1]), int(ends[-1]))


def sum_of_squares(arrays: list[Any]) -> Any:
    """Of all elements of all arrays, in float64; added up block by block, so that no bit depends on the threads."""
    places, ends = _table(arrays)
    sums = np.empty(-(-int(ends[-1]) // BLOCK))
    real = arrays[0].dtype.type(0)
    in_parts(lambda i: _sum_squares(places, ends, real, i.start, i.stop, sums), len(sums), int(ends[-1]))
    return np.add.reduce(sums)


# ---- the table


def _table(arrays: list[Any]) -> tuple[Any, Any]:
    """Where the arrays lie, and how many elements there are up to the end of each."""
    return np.array([address(array) for array in arrays], np.int64), np.cumsum([array.size for array in arrays])


@part
def _first_and_last(ends, n, start, stop):
    """Which elements of array n are counted from `start` to `stop`: none where both are the same."""
    begin = ends[n - 1] if n else 0
    first = max(start - begin, 0)
    return first, max(min(stop, ends[n]) - begin, first)


# ---- what is done to the elements


@loop
def _scale(places, ends, factor, start, stop):
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        x = numbers(places[n], factor)
        for i in range(first, last):
            x[i] *= factor


@loop
def _sum_squares(places, ends, real, first_block, last_block, sums):
    n = 0
    for block in range(first_block, last_block):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, ends[-1])
        total, done = 0.0, start
        while done < stop:
            while ends[n] <= done:
                n += 1
            first, last = _first_and_last(ends, n, done, stop)
            x = numbers(places[n], real)
            for i in range(first, last):
                total += np.float64(x[i]) * np.float64(x[i])
            done += last - first
        sums[block] = total
