"""Sums that stay accurate over any axis.

NumPy adds pairwise only along the axis that is contiguous in memory; along any other axis it adds row after row, and
in float32 the rounding errors pile up: the sum over axis 0 of five million rows of 0.1 is off by 4.4 %. A bias
gradient is such a sum. Here rows are added eight at a time and the partial sums again eight at a time, so a term
takes part in about 8 log8(n) additions instead of n (Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

CHUNK = 8
BLOCK = 64  # rows in a group that one product with ones adds up
SMALL = 2 * CHUNK  # up to this many terms are added up in any order
ONES = {np.dtype(c): [np.ones(n, c) for n in range(SMALL + 1)] for c in "fd"}  # they sum so few terms by a product
NARROW = 16  # shorter rows are transposed first, so that NumPy's own pairwise sum applies
LONG = 8192  # products with more terms in a sum are split into parts
PART = 1024  # terms in a part, if the result is so large that shorter parts cost time
SHORT_PART = 256  # terms in a part, if the result is small
FEW = 1024  # a result with fewer elements is small


def accurate_sum(x: Any, axis: int | tuple[int, ...] | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Sum of a NumPy array over an axis, several axes or all (`axis=None`); float16 is added up in float32."""
    if axis is None and dtype is None and not keepdims and (size := x.size) <= SMALL and (ones := ONES.get(x.dtype)):
        # Takes less time than NumPy's reduction does, and gives an array where that gives a scalar.
        return x.ravel().dot(ones[size], np.empty((), x.dtype))
    if dtype is not None and x.dtype != dtype:
        x = x.astype(dtype)
    dtype = x.dtype
    if dtype.kind not in "fc" or (x.size <= SMALL and dtype != np.float16):
        return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)  # type: ignore[call-overload]
    if dtype == np.float16:
        return accurate_sum(x.astype(np.float32), axis, None, keepdims).astype(np.float16)
    axes = tuple(range(x.ndim) if axis is None else (i % x.ndim for i in ((axis,) if isinstance(axis, int) else axis)))
    total = _sum_axes(x, tuple(sorted(axes)))
    if keepdims:
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        total = np.asarray(total).reshape(kept)
    return total


def _sum_axes(x: Any, axes: tuple[int, ...]) -> Any:
    if not axes:
        return x.copy()
    if x.flags.c_contiguous and x.size:
        # Neighbouring axes of a contiguous array are one long axis: trailing ones add pairwise in a single call.
        first = axes[0]
        if axes == tuple(range(first, first + len(axes))):
            length = 1
            for i in axes:
                length *= x.shape[i]
            merged = x.reshape((*x.shape[:first], length, *x.shape[first + len(axes) :]))
            return _sum_axis(merged, first)
    for i in reversed(axes):
        x = _sum_axis(x, i)
    return x


def _sum_axis(x: Any, axis: int) -> Any:
    length = x.shape[axis]
    if length <= 2 * CHUNK or (x.strides[axis] == x.itemsize and x.size == length):
        return np.add.reduce(x, axis=axis)
    if axis == x.ndim - 1 and x.flags.c_contiguous:
        return np.add.reduce(x, axis=axis)
    if x.size // length < NARROW:
        return np.add.reduce(np.ascontiguousarray(np.moveaxis(x, axis, -1)), axis=-1)
    if axis == 0 and x.dtype.char in "fd" and x.flags.c_contiguous and length >= 4 * BLOCK:
        rows = x.reshape(length, -1)
        whole = length // BLOCK
        partial = np.ones(BLOCK, x.dtype) @ rows[: whole * BLOCK].reshape(whole, BLOCK, -1)
        if length > whole * BLOCK:
            partial[0] += np.add.reduce(rows[whole * BLOCK :], axis=0)
        x, length = partial.reshape(whole, *x.shape[1:]), whole
    while length > 2 * CHUNK:  # (n, ...) seen as (n/8, 8, ...): splitting an axis never copies, whatever the strides
        whole = length // CHUNK
        split = (*x.shape[:axis], whole, CHUNK, *x.shape[axis + 1 :])
        head = x[(slice(None),) * axis + (slice(0, whole * CHUNK),)]
        rest = x[(slice(None),) * axis + (slice(whole * CHUNK, None),)]
        partial = np.add.reduce(head.reshape(split), axis=axis + 1)
        if rest.shape[axis]:
            first = partial[(slice(None),) * axis + (slice(0, 1),)]
            first += np.add.reduce(rest, axis=axis, keepdims=True)
        x, length = partial, whole
    return np.add.reduce(x, axis=axis)


def accurate_matmul(x1: Any, x2: Any, out: Any = None) -> Any:
    """Matrix product of NumPy arrays; float16 is multiplied in float32, and long sums of float32 are split into parts.

    Where the result is small, BLAS may keep one running sum for each element, and in float32 the rounding errors pile
    up: a row of 2,000,000 times 0.1 by two such columns is off by 0.4 %.
    """
    if x1.size <= LONG and x1.itemsize > 2:
        if out is None and x1.ndim == 2 == x2.ndim and x1.size != 1 != x2.size:  # by a single 0, `dot` loses NaN
            return x1.dot(x2)  # takes half as long as `np.matmul` for a small product
        return np.matmul(x1, x2, out)
    if x1.dtype == x2.dtype == np.float16:
        product = accurate_matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(np.float16)
    elif x1.dtype == x2.dtype == np.float32 and x1.ndim > 1 and x2.ndim > 1 and LONG < x1.shape[-1] == x2.shape[-2]:
        product = _matmul_in_parts(x1, x2)
    else:
        return np.matmul(x1, x2, out)
    if out is None:
        return product
    out[...] = product
    return out


def _matmul_in_parts(x1: Any, x2: Any) -> Any:
    part = SHORT_PART if x1.shape[-2] * x2.shape[-1] < FEW else PART
    whole = x1.shape[-1] // part
    end = whole * part
    rows = x1[..., :end].reshape(*x1.shape[:-1], whole, part).swapaxes(-2, -3)
    columns = x2[..., :end, :].reshape(*x2.shape[:-2], whole, part, x2.shape[-1])
    partial = np.matmul(rows, columns)
    total = accurate_sum(partial, partial.ndim - 3)
    return total if end == x1.shape[-1] else total + np.matmul(x1[..., end:], x2[..., end:, :])
