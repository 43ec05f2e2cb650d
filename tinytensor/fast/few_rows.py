"""Linear maps of few rows, as decoding has them: to read the weight is most of the work.

A BLAS, and `products.py`, copy the weight first, into the order in which it is read; for few rows that takes longer
than the sums. Here each row of the weight is read once, for all rows of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .loops import loop
from .threads import in_parts

FEW = 16  # rows; of more, a product that copies the weight is as fast
SHORT = 1 << 11  # bytes of a row, up to which the processor does not find out by itself what will be read next
LINE = 64  # bytes that come from memory together


def multiply(rows: Any, weight: Any, bias: Any, out: Any) -> None:
    """out = rows weightᵀ + bias, bias being None or a vector."""
    bias = np.empty(0, rows.dtype) if bias is None else bias

    def multiply_pairs(i: slice) -> None:
        _multiply(rows, weight, bias, 2 * i.start, min(2 * i.stop, len(weight)), out)

    in_parts(multiply_pairs, -(-len(weight) // 2), weight.size * (3 + len(rows)) // 16)


@loop
def _multiply(rows, weight, bias, start, stop, out):
    """The columns of the result from `start`, which is even, to `stop`; no bias where that is empty."""
    count, columns, zero = rows.shape[0], rows.shape[1], rows.dtype.type(0)
    pair = 2 * columns * weight.itemsize
    ahead = weight.ctypes.data + max(pair, SHORT)
    for j in range(start, stop, 2):
        if pair <= 2 * SHORT:
            for line in range(0, pair, LINE):
                _fetch(ahead + j // 2 * pair + line)  # type: ignore[call-arg]
        last = min(j + 1, stop - 1)  # the same column twice where their number is odd
        w, v = weight[j], weight[last]
        for r in range(0, count - 3, 4):  # eight sums at once, for which each element is read once
            x0, x1, x2, x3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for i in range(columns):
                a0 += x0[i] * w[i]
                a1 += x1[i] * w[i]
                a2 += x2[i] * w[i]
                a3 += x3[i] * w[i]
                b0 += x0[i] * v[i]
                b1 += x1[i] * v[i]
                b2 += x2[i] * v[i]
                b3 += x3[i] * v[i]
            out[r, j], out[r + 1, j], out[r + 2, j], out[r + 3, j] = a0, a1, a2, a3
            out[r, last], out[r + 1, last], out[r + 2, last], out[r + 3, last] = b0, b1, b2, b3
        for r in range(count // 4 * 4, count):
            a = b = zero
            for i in range(columns):
                a += rows[r, i] * w[i]
                b += rows[r, i] * v[i]
            out[r, j], out[r, last] = a, b
        if bias.size:
            for r in range(count):
                out[r, j] += bias[j]
                if last > j:
                    out[r, last] += bias[last]


@intrinsic
def _fetch(typing: Any, address: Any) -> Any:
    """Have the line at an address in the cache by the time it is read; harmless where nothing is."""

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [builder.inttoptr(values[0], pointer), number(0), number(3), number(1)])  # to read, data
        return context.get_dummy_value()

    return types.void(types.intp), call
