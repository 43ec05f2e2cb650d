"""Linear maps in compiled loops, on every core: y = x Wᵀ + b, and its gradients.

Each element's terms are added in an order that follows from the sizes alone, so that the bits do not depend on the
number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.sums import LONG
from . import few_rows
from .compiling import address
from .compiling import fits as fits
from .passes import add_rows_up, add_vector
from .products import multiply_arrays
from .threads import multiply_in_parts

SHARE = 10**7  # multiplications and additions that are worth another thread
MANY = 4  # times as many rows as columns: only then are rows cut, since each of their parts turns the whole weight
PARTS = 60  # of all work, of which two to six threads get as many each


def apply(rows: Any, weight: Any, bias: Any, out: Any) -> None:
    """out = rows weightᵀ + bias, bias being None or a vector."""
    if len(rows) <= few_rows.FEW and rows.shape[1] <= LONG:
        few_rows.multiply(rows, weight, bias, out)
        return
    along_rows = len(rows) >= MANY * len(weight)

    def apply_to_part(i: slice) -> None:
        j, k = _shares(i, len(rows), len(weight))
        if along_rows:
            _apply(rows[j], weight, bias, out[j])
        else:
            _apply(rows, weight[k], None if bias is None else bias[k], out[:, k])

    multiply_in_parts(apply_to_part, PARTS, _threads(rows, weight, 1))


def _apply(rows: Any, weight: Any, bias: Any, out: Any) -> None:
    multiply_arrays(rows, False, weight, True, out)
    if bias is not None:
        add_vector(out.dtype).ctypes(0, *out.shape, address(bias), address(out), out.strides[0] // out.itemsize)


def differentiate(g: Any, rows: Any, weight: Any, g_rows: Any, g_weight: Any, g_bias: Any) -> None:
    """Write the gradients for rows, weight and bias from that for the result; None where one is not wanted."""
    along_rows = len(rows) >= rows.shape[1]
    sums = None if g_bias is None else np.zeros(len(weight))

    def differentiate_part(i: slice) -> None:
        j, k, c = _shares(i, len(rows), len(weight), rows.shape[1])
        if g_rows is not None and along_rows:
            multiply_arrays(g[j], False, weight, False, g_rows[j])
        elif g_rows is not None:
            multiply_arrays(g, False, weight[:, c], False, g_rows[:, c])
        if g_weight is not None:
            multiply_arrays(g[:, k], True, rows, False, g_weight[k])
        if sums is not None:
            own = g[:, k]
            add_rows_up(g.dtype).ctypes(0, *own.shape, address(own), g.shape[1], address(sums[k]))

    multiply_in_parts(differentiate_part, PARTS, _threads(rows, weight, 2))
    if sums is not None:
        g_bias[...] = sums


def _shares(i: slice, *lengths: int) -> list[slice]:
    """Some of the parts, as a slice of each length."""
    return [slice(i.start * length // PARTS, i.stop * length // PARTS) for length in lengths]


def _threads(rows: Any, weight: Any, products: int) -> int:
    """On how many threads the work of so many products may go."""
    return max(1, min(len(rows), *weight.shape, products * rows.size * len(weight) // SHARE))
