"""Linear maps in compiled loops, on every core: y = x Wᵀ + b, and its gradients.

Each element's terms are added in an order that follows from the sizes alone, so that the bits do not depend on the
number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.sums import LONG
from . import few_rows
from .loops import fits as fits
from .loops import loop
from .products import multiply, scratch
from .threads import multiply_in_parts

SHARE = 10**7  # multiplications and additions that are worth another thread


def apply(rows: Any, weight: Any, bias: Any, out: Any) -> None:
    """out = rows weightᵀ + bias, bias being None or a vector."""
    if len(rows) <= few_rows.FEW and rows.shape[1] <= LONG:
        few_rows.multiply(rows, weight, bias, out)
        return
    parts, along_rows = _parts(rows, weight, 1), len(rows) >= len(weight)
    bias = np.empty(0, rows.dtype) if bias is None else bias

    def apply_to_part(i: slice) -> None:
        j, k = _shares(i, parts, len(rows), len(weight))
        memory = scratch(rows.dtype)
        if along_rows:
            _apply(memory, rows[j], weight, bias, out[j])
        else:
            _apply(memory, rows, weight[k], bias[k], out[:, k])

    multiply_in_parts(apply_to_part, parts)


def differentiate(g: Any, rows: Any, weight: Any, g_rows: Any, g_weight: Any, g_bias: Any) -> None:
    """Write the gradients for rows, weight and bias from that for the result; None where one is not wanted."""
    parts, along_rows = _parts(rows, weight, 2), len(rows) >= rows.shape[1]
    sums = None if g_bias is None else np.zeros(len(weight))

    def differentiate_part(i: slice) -> None:
        memory = scratch(rows.dtype)
        j, k, c = _shares(i, parts, len(rows), len(weight), rows.shape[1])
        if g_rows is not None and along_rows:
            multiply(memory, g[j], False, weight, False, False, g_rows[j])
        elif g_rows is not None:
            multiply(memory, g, False, weight[:, c], False, False, g_rows[:, c])
        if g_weight is not None:
            multiply(memory, g[:, k], True, rows, False, False, g_weight[k])
        if sums is not None:
            _add_rows_up(g[:, k], sums[k])

    multiply_in_parts(differentiate_part, parts)
    if sums is not None:
        g_bias[...] = sums


def _shares(i: slice, parts: int, *lengths: int) -> list[slice]:
    """What some parts are of each length."""
    return [slice(i.start * length // parts, i.stop * length // parts) for length in lengths]


def _parts(rows: Any, weight: Any, products: int) -> int:
    """Into how many parts the work of so many products may be divided."""
    return max(1, min(len(rows), *weight.shape, products * rows.size * len(weight) // SHARE))


@loop
def _apply(scratch, rows, weight, bias, out):
    multiply(scratch, rows, False, weight, True, False, out)
    if bias.size:
        for r in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[r, i] += bias[i]


@loop
def _add_rows_up(rows, sums):
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            sums[i] += rows[r, i]
