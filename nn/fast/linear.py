"""The fast pair of the linear map: one matrix product, whatever the batch; compiled loops divide it among the cores."""

from __future__ import annotations

import math
from typing import Any

from ..functional.linear import _linear
from .tuning import FEW_ROWS


@_linear.forward
def linear_forward(xp, x, weight, bias):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = xp.fresh((len(rows), len(weight)), dtype=rows.dtype)
    if loops := xp.loops_over("linear", rows, weight, bias, out):
        loops.apply(rows, weight, bias, out)
    else:
        if xp.device == "cpu" and 1 < len(rows) < FEW_ROWS:
            out[...] = xp.matmul(weight, rows.T).T  # BLAS copies the factor on the right, which is the small one
        else:
            xp.matmul(rows, weight.T, out=out)
        if bias is not None:
            out += bias
    return out.reshape(*x.shape[:-1], len(weight)), (rows, weight)


@_linear.backward
def linear_backward(xp, g, saved, needs):
    rows, weight = saved
    g_out = xp.contiguous(g).reshape(len(rows), len(weight))
    sizes = rows.shape, weight.shape, len(weight)
    found: list[Any] = [xp.fresh(size, dtype=rows.dtype) if needed else None for size, needed in zip(sizes, needs)]
    g_rows, g_weight, g_bias = found
    if loops := xp.loops_over("linear", rows, weight, g_out):
        loops.differentiate(g_out, rows, weight, g_rows, g_weight, g_bias)
    else:
        if needs[0]:
            xp.matmul(g_out, weight, out=g_rows)
        if needs[1]:
            xp.product(g_out.T, rows, out=g_weight)
        if needs[2]:
            g_bias = xp.sum(g_out, axis=0)
    return g_rows.reshape(*g.shape[:-1], rows.shape[1]) if needs[0] else None, g_weight, g_bias
