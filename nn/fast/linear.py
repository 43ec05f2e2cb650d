"""The fast pair of the linear map: one matrix product, whatever the batch, divided among the cores by rows."""

from __future__ import annotations

import math
from typing import Any

from ..functional.linear import _linear
from .tuning import FLOPS


@_linear.forward
def linear_forward(xp, x, weight, bias):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = xp.empty((len(rows), len(weight)), dtype=rows.dtype)

    def multiply_rows(i: slice) -> None:
        xp.matmul(rows[i], weight.T, out=out[i])
        if bias is not None:
            out[i] += bias

    if not xp.few_rows(rows, weight, bias, out):
        xp.in_parts(multiply_rows, len(rows), rows.size * len(weight) // FLOPS, product=True)
    return out.reshape(*x.shape[:-1], len(weight)), (rows, weight)


@_linear.backward
def linear_backward(xp, g, saved, needs):
    rows, weight = saved
    count, features = len(rows), len(weight)
    g_rows = xp.contiguous(g).reshape(count, features)
    g_x: Any = xp.empty((*g.shape[:-1], rows.shape[1]), dtype=rows.dtype) if needs[0] else None
    g_x_rows: Any = g_x.reshape(rows.shape) if needs[0] else None
    g_weight: Any = xp.empty(weight.shape, dtype=rows.dtype) if needs[1] else None
    sums: dict[int, Any] = {}  # for the bias, by the first row of each part

    def gradients_of_rows(i: slice) -> None:
        if needs[0]:
            xp.matmul(g_rows[i], weight, out=g_x_rows[i])
        if needs[1]:
            j = slice(i.start * features // count, i.stop * features // count) if count else slice(None)
            xp.matmul(g_rows[:, j].T, rows, out=g_weight[j])
        if needs[2]:
            sums[i.start] = xp.sum(g_rows[i], axis=0)

    xp.in_parts(gradients_of_rows, count, 2 * rows.size * features // FLOPS, product=True)
    g_bias = sum(sums[start] for start in sorted(sums)) if needs[2] else None
    return g_x, g_weight, g_bias
