"""Products of few rows, as decoding has them: to read the other matrix is most of the work.

A BLAS, and `products.py`, copy the weight of a linear map first, into the order in which it is read; for few rows that
takes longer than the sums. `dots` reads each row of it once, where it lies, for all rows of x. `mix`, for attention, is
the product whose terms lie in rows: few and short ones, for which a product has too much to prepare.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiling import address, called, numbers
from .threads import in_parts
from .tiles import LINE, prefetch

FEW = 16  # rows; of more, a product that copies the weight is as fast
SHORT = 1 << 11  # bytes of a row, up to which the processor does not find out by itself what will be read next


def multiply(rows: Any, weight: Any, bias: Any, out: Any) -> None:
    """out = rows weightᵀ + bias, bias being None or a vector."""
    count, inner = rows.shape
    size, columns = rows.itemsize, len(weight)
    compiled, x, w, y = dots(rows.dtype).ctypes, address(rows), address(weight), address(out)
    added = 0 if bias is None else address(bias)

    def multiply_pairs(i: slice) -> None:
        start, stop = 2 * i.start, min(2 * i.stop, columns)
        compiled(
            0, size, count, stop - start, inner, x, inner * size, w + start * inner * size, inner * size,
            added and added + start * size, y + start * size, columns * size,
        )  # fmt: skip

    in_parts(multiply_pairs, -(-columns // 2), weight.size * (3 + count) // 16)


@called
def dots(real, size, rows, columns, inner, x, x_row, weight, weight_row, bias, out, out_row):
    """out = x weightᵀ + bias: products of rows of `inner` elements with each other; there is no bias at 0.

    Distances from row to row are in bytes, as `size` is, that of an element; `real` only tells the dtype.
    """
    zero, biases, pair = type(real)(0), numbers(bias, real), 2 * weight_row
    is_fetched = weight_row == inner * size <= SHORT
    for j in range(0, columns, 2):
        if is_fetched:
            for line in range(0, pair, LINE):
                _fetch(weight + max(pair, SHORT) + j // 2 * pair + line)  # type: ignore[call-arg]
        last = min(j + 1, columns - 1)  # the same column twice where their number is odd
        w, v = numbers(weight + j * weight_row, real), numbers(weight + last * weight_row, real)
        add_w, add_v = (biases[j], biases[last]) if bias else (zero, zero)
        r = 0
        while r + 4 <= rows:  # eight sums at once, for which each element is read once
            x0, x1 = numbers(x + r * x_row, real), numbers(x + (r + 1) * x_row, real)
            x2, x3 = numbers(x + (r + 2) * x_row, real), numbers(x + (r + 3) * x_row, real)
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for i in range(inner):
                a0 += x0[i] * w[i]
                a1 += x1[i] * w[i]
                a2 += x2[i] * w[i]
                a3 += x3[i] * w[i]
                b0 += x0[i] * v[i]
                b1 += x1[i] * v[i]
                b2 += x2[i] * v[i]
                b3 += x3[i] * v[i]
            for n, a, b in ((0, a0, b0), (1, a1, b1), (2, a2, b2), (3, a3, b3)):
                y = numbers(out + (r + n) * out_row, real)
                y[j] = a + add_w
                y[last] = b + add_v
            r += 4
        while r < rows:
            x0, y = numbers(x + r * x_row, real), numbers(out + r * out_row, real)
            a = b = zero
            for i in range(inner):
                a += x0[i] * w[i]
                b += x0[i] * v[i]
            y[j] = a + add_w
            y[last] = b + add_v
            r += 1


@called
def mix(real, rows, places, inner, weights, weights_row, values, values_row, out, out_row):
    """out = weights values: sums of rows of `inner` elements."""
    for r in range(rows):
        w, y = numbers(weights + r * weights_row, real), numbers(out + r * out_row, real)
        for i in range(inner):
            y[i] = type(real)(0)
        p = 0
        while p + 4 <= places:
            v0, v1 = numbers(values + p * values_row, real), numbers(values + (p + 1) * values_row, real)
            v2, v3 = numbers(values + (p + 2) * values_row, real), numbers(values + (p + 3) * values_row, real)
            w0, w1, w2, w3 = w[p], w[p + 1], w[p + 2], w[p + 3]
            for i in range(inner):
                y[i] += (w0 * v0[i] + w1 * v1[i]) + (w2 * v2[i] + w3 * v3[i])
            p += 4
        while p < places:
            v0, w0 = numbers(values + p * values_row, real), w[p]
            for i in range(inner):
                y[i] += w0 * v0[i]
            p += 1


@intrinsic
def _fetch(typing: Any, address: Any) -> Any:
    """`prefetch` of what is at an address."""

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        prefetch(builder, builder.inttoptr(values[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp), call
