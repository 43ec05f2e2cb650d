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
from .products import multiply, product
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
        own = product(rows.dtype)
        if along_rows:
            _apply(own, rows[j], weight, bias, out[j])
        else:
            _apply(own, rows, weight[k], bias[k], out[:, k])

    multiply_in_parts(apply_to_part, parts)


def differentiate(g: Any, rows: Any, weight: Any, g_rows: Any, g_weight: Any, g_bias: Any) -> None:
    """Write the gradients for rows, weight and bias from that for the result; None where one is not wanted."""
    parts, along_rows = _parts(rows, weight, 2), len(rows) >= rows.shape[1]
    sums = None if g_bias is None else np.zeros(len(weight))

    def differentiate_part(i: slice) -> None:
        own = product(rows.dtype)
        j, k, c = _shares(i, parts, len(rows), len(weight), rows.shape[1])
        if g_rows is not None and along_rows:
            _multiply(own, g[j], False, weight, g_rows[j])
        elif g_rows is not None:
            _multiply(own, g, False, weight[:, c], g_rows[:, c])
        if g_weight is not None:
            _multiply(own, g[:, k], True, rows, g_weight[k])
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
def _apply(product, rows, weight, bias, out):
    multiply(product, rows, False, weight, True, False, out)
    if bias.size:
        for r in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[r, i] += bias[i]


@loop
def _multiply(product, a, turn_a, b, out):
    multiply(product, a, turn_a, b, False, False, out)


@loop
def _add_rows_up(rows, sums):
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            sums[i] += rows[r, i]
