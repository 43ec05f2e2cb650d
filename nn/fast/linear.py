"""The fast pair of the linear map: one matrix product, whatever the batch, divided among the cores."""

from __future__ import annotations

import math
from typing import Any

from ..functional.linear import _linear
from .tuning import FEW_ROWS, FLOPS, PRODUCTS


@_linear.forward
def linear_forward(xp, x, weight, bias):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = xp.fresh((len(rows), len(weight)), dtype=rows.dtype)

    def multiply_rows(i: slice) -> None:
        xp.matmul(rows[i], weight.T, out=out[i])
        if bias is not None:
            out[i] += bias

    def multiply_columns(j: slice) -> None:
        out[:, j] = xp.matmul(weight[j], rows.T).T  # BLAS copies the factor on the right, which is the small one
        if bias is not None:
            out[:, j] += bias[j]

    if loops := xp.loops_over("linear", rows, weight, bias, out):
        loops.apply(rows, weight, bias, out)
    else:
        few = (
            xp.device == "cpu" and 1 < len(rows) < FEW_ROWS and len(bias if bias is not None else weight) == len(weight)
        )
        part, count = (multiply_columns, len(weight)) if few else (multiply_rows, len(rows))
        xp.in_parts(part, count, rows.size * len(weight) // FLOPS, product=True, most=PRODUCTS)
    return out.reshape(*x.shape[:-1], len(weight)), (rows, weight)


@_linear.backward
def linear_backward(xp, g, saved, needs):
    rows, weight = saved
    count, features = len(rows), len(weight)
    g_out = xp.contiguous(g).reshape(count, features)
    g_rows: Any = xp.fresh(rows.shape, dtype=rows.dtype) if needs[0] else None
    g_weight: Any = xp.fresh(weight.shape, dtype=rows.dtype) if needs[1] else None
    g_bias: Any = None
    sums: dict[int, Any] = {}  # for the bias, by the first row of each part

    def gradients_of_rows(i: slice) -> None:
        if needs[0]:
            xp.matmul(g_out[i], weight, out=g_rows[i])
        if needs[1]:
            j = slice(i.start * features // count, i.stop * features // count) if count else slice(None)
            xp.product(g_out[:, j].T, rows, out=g_weight[j])
        if needs[2]:
            sums[i.start] = xp.sum(g_out[i], axis=0)

    if loops := xp.loops_over("linear", rows, weight, g_out):
        g_bias = xp.fresh(features, dtype=rows.dtype) if needs[2] else None
        loops.differentiate(g_out, rows, weight, g_rows, g_weight, g_bias)
    else:
        xp.in_parts(gradients_of_rows, count, 2 * rows.size * features // FLOPS, product=True, most=PRODUCTS)
        g_bias = sum(sums[start] for start in sorted(sums)) if needs[2] else None
    return g_rows.reshape(*g.shape[:-1], rows.shape[1]) if needs[0] else None, g_weight, g_bias
