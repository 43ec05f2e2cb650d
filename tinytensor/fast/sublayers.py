"""Whole sub-layers of a Transformer in one compiled loop each, products included: norm(x + f(x)), there and back.

A sub-layer is a few matrix products with passes over memory between them. Here a block of rows goes through all of it
while it is in the cache, and the interpreter, whose lock two threads would wait for, is met once, not many times.
Compiling takes seconds, once; then the loops are read from disk.

Rows, or sentences, are divided into *shares*, and these into blocks. A share adds up the gradients of the parameters by
itself, then those of the shares are added in their order. How many shares there are follows from the sizes alone, so
that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..backend.sums import LONG
from ..backend.sums import accurate_matmul as matmul
from .gemm import ADDRESSES, multiply
from .loops import _exp, _layer_norm, _layer_norm_gradient, loop
from .loops import fits as fits
from .pool import empty
from .threads import multiply_in_parts

BLOCK = 512  # rows that go through a sub-layer together
SHARE = 1 << 24  # multiplications and additions of a product that are worth a share
MOST_SHARES = 4
ROWS = 256  # that a share has at least
MOST_WEIGHTS = 1 << 17  # elements of a matrix; beside products of larger ones, all else takes little time
SAFE = 40.0  # exp of numbers up to this size neither overflows nor vanishes in float32


def pay_for(*weights: Any) -> bool:
    """Whether a sub-layer with these matrices gains from its loop."""
    return all(weight.size <= MOST_WEIGHTS and weight.shape[1] <= LONG for weight in weights)


def _shares(rows: int, items: int, operations: int) -> int:
    """Into how many shares so many rows of so many sentences are divided: a power of two."""
    shares = 1
    while 2 * shares <= min(MOST_SHARES, items, rows // ROWS, operations // SHARE):
        shares *= 2
    return shares


def _or_zeros(bias: Any, size: int, dtype: Any) -> Any:
    return np.zeros(size, dtype) if bias is None else bias


class Sums:
    """The gradients of parameters, added up over the rows of each share."""

    def __init__(self, shares: int, dtype: Any, weights: list[tuple[int, int]], widths: list[int]) -> None:
        self.weights = [empty((shares, *shape), dtype) for shape in weights]
        self.vectors = np.zeros((shares, sum(widths)))  # of biases and norms, side by side, in float64
        self.ends = np.cumsum(widths)
        self.dtype = dtype

    def total(self) -> tuple[list[Any], list[Any]]:
        """Those of weights and those of vectors, of all shares together."""
        weights = [part[0] if len(part) == 1 else np.add.reduce(part, axis=0) for part in self.weights]
        vectors = np.add.reduce(self.vectors, axis=0).astype(self.dtype)
        return weights, np.split(vectors, self.ends[:-1])


# ---- feed-forward: norm(x + max(0, x W₁ᵀ + b₁) W₂ᵀ + b₂)


def feed_forward(
    x: Any, weight1: Any, bias1: Any, weight2: Any, bias2: Any, norm_weight: Any, norm_bias: Any, eps: float
) -> tuple[Any, tuple[Any, ...]]:
    """The result for rows x (n, d), and what the gradient needs: the inner layer, rows with mean 0, their factors."""
    (rows, d), inner, dtype = x.shape, len(weight1), x.dtype
    bias1, bias2 = _or_zeros(bias1, inner, dtype), _or_zeros(bias2, d, dtype)
    norm_bias = _or_zeros(norm_bias, d, dtype)
    hidden, normal, scale, out = (empty((rows, width), dtype) for width in (inner, d, 1, d))
    shares = _shares(rows, rows, 4 * rows * d * inner)

    def compute_shares(i: slice) -> None:
        for share in range(i.start, i.stop):
            _feed_forward(
                ADDRESSES[dtype], rows * share // shares, rows * (share + 1) // shares, x, weight1, bias1, weight2,
                bias2, norm_weight, norm_bias, eps, hidden, normal, scale, out, empty((min(BLOCK, rows), d), dtype),
            )  # fmt: skip

    multiply_in_parts(compute_shares, shares)
    return out, (hidden, normal, scale)


@loop
def _feed_forward(
    gemm, start, stop, x, weight1, bias1, weight2, bias2, norm_weight, norm_bias, eps, hidden, normal, scale, out, total
):
    d, inner, zero = x.shape[1], weight1.shape[0], x.dtype.type(0)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        multiply(gemm, x[first:last], False, weight1, True, 0, hidden[first:last])
        for r in range(first, last):
            for i in range(inner):
                value = hidden[r, i] + bias1[i]
                hidden[r, i] = zero if value <= zero else value
        multiply(gemm, hidden[first:last], False, weight2, True, 0, total[: last - first])
        for r in range(first, last):
            for i in range(d):
                total[r - first, i] += x[r, i] + bias2[i]
        _layer_norm(
            total[: last - first], norm_weight, norm_bias, eps, out[first:last], normal[first:last], scale[first:last]
        )


def feed_forward_gradient(
    g: Any, x: Any, weight1: Any, weight2: Any, norm_weight: Any, saved: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The gradients for x, of the shape of g, and, in their order, for the parameters of `feed_forward`."""
    (rows, d), inner, dtype = x.shape, len(weight1), x.dtype
    g_x = empty(g.shape, dtype)
    g, found = g.reshape(x.shape), g_x.reshape(x.shape)
    shares = _shares(rows, rows, 8 * rows * d * inner)
    sums = Sums(shares, dtype, [weight1.shape, weight2.shape], [d, d, d, inner])
    hidden, normal, scale = saved
    g_total, g_hidden = empty(x.shape, dtype), empty(hidden.shape, dtype)

    def compute_shares(i: slice) -> None:
        for share in range(i.start, i.stop):
            r = slice(rows * share // shares, rows * (share + 1) // shares)
            vectors = sums.vectors[share]
            _feed_forward_gradient(
                ADDRESSES[dtype], r.start, r.stop, g, weight1, weight2, norm_weight, hidden, normal, scale, found,
                g_total, g_hidden, vectors[: 2 * d].reshape(2, d), vectors[2 * d :],
            )  # fmt: skip
            matmul(g_hidden[r].T, x[r], out=sums.weights[0][share])
            matmul(g_total[r].T, hidden[r], out=sums.weights[1][share])

    multiply_in_parts(compute_shares, shares)
    (g_weight1, g_weight2), (g_norm_weight, g_norm_bias, g_bias2, g_bias1) = sums.total()
    return g_x, g_weight1, g_bias1, g_weight2, g_bias2, g_norm_weight, g_norm_bias


@loop
def _feed_forward_gradient(
    gemm, start, stop, g, weight1, weight2, norm_weight, hidden, normal, scale, g_x, g_total, g_hidden, norm_sums, sums
):
    d = g.shape[1]
    for first in range(start, stop, BLOCK):
        i = slice(first, min(first + BLOCK, stop))
        _layer_norm_gradient(g[i], normal[i], scale[i], norm_weight, g_total[i], norm_sums)
        _hand_on(g_total[i], g_x[i], sums[:d])
        multiply(gemm, g_total[i], False, weight2, False, 0, g_hidden[i])
        _clip(g_hidden[i], hidden[i], sums[d:])
        multiply(gemm, g_hidden[i], False, weight1, False, 1, g_x[i])


@loop
def _clip(g, hidden, sums):
    """The gradient through max(0, ...), in place, and added to the sums of its rows."""
    for r in range(g.shape[0]):
        for i in range(g.shape[1]):
            value = g[r, i]
            value = g.dtype.type(0) if hidden[r, i] <= 0 else value
            g[r, i] = value
            sums[i] += value


@loop
def _hand_on(rows, copy, sums):
    """The gradient of a sum: one summand takes it as it is, and it is added to the sums of its rows."""
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            copy[r, i] = rows[r, i]  # not all at once, whose error message would take long to compile
            sums[i] += rows[r, i]


@loop
def _add_rows_up(rows, sums):
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            sums[i] += rows[r, i]


# ---- attention: norm(x + Concat(head_1, ..., head_h) W_oᵀ + b_o)


class Sizes(NamedTuple):
    """Of sentences and heads, as the loops take them."""

    batch: int
    heads: int
    target: int
    source: int

    def operations(self, width: int) -> int:
        """Multiplications and additions of the products forward."""
        rows, pairs = self.batch * (self.target + self.source), self.batch * self.target * self.source
        return 4 * width * (rows * width + pairs)


def takes_mask(mask: Any, sizes: Sizes) -> bool:
    """Whether `attention` takes a mask: of four dimensions, each that of `sizes` or 1 but for the last."""
    return (
        mask.ndim == 4
        and mask.shape[-1] == sizes.source
        and all(n in (1, size) for n, size in zip(mask.shape, sizes))
        and mask.dtype.kind in "bf"
    )


def attention(
    x: Any, memory: Any, weight: Any, bias: Any, out_weight: Any, out_bias: Any, norm_weight: Any, norm_bias: Any,
    mask: Any, sizes: Sizes, scale: float, eps: float,
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """The result for rows x (batch * target, d), and what the gradient needs.

    `memory` (batch * source, d) is None where x attends to itself. `takes_mask` says which masks there may be.
    """
    d, dtype = x.shape[1], x.dtype
    bias, out_bias = _or_zeros(bias, 3 * d, dtype), _or_zeros(out_bias, d, dtype)
    norm_bias = _or_zeros(norm_bias, d, dtype)
    query = empty((len(x), 3 * d if memory is None else d), dtype)
    key_value = query if memory is None else empty((len(memory), 2 * d), dtype)
    weights, heads = empty(sizes, dtype), empty(x.shape, dtype)
    normal, factor, out = (empty((len(x), width), dtype) for width in (d, 1, d))
    shifts = mask is not None and mask.dtype.kind != "b"
    if mask is None:
        mask = np.zeros((0, 0, 0, 0), dtype)
    elif not shifts:
        mask = np.where(mask, dtype.type(-math.inf), dtype.type(0))
    else:
        mask = np.array(mask, dtype)
    batch, shares = sizes.batch, _shares(len(x), sizes.batch, sizes.operations(d))

    def compute_shares(i: slice) -> None:
        for share in range(i.start, i.stop):
            _attention(
                ADDRESSES[dtype], batch * share // shares, batch * (share + 1) // shares, *sizes[1:], x,
                x if memory is None else memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask,
                shifts, dtype.type(scale), eps, query, key_value, weights, heads, normal, factor, out,
                empty((_sentences(sizes) * sizes.target, d), dtype),
            )  # fmt: skip

    multiply_in_parts(compute_shares, shares)
    return out, (query, key_value, weights, heads, normal, factor)


def _sentences(sizes: Sizes) -> int:
    """Of a block."""
    return min(sizes.batch, max(1, BLOCK // max(sizes.target, sizes.source)))


@loop
def _attention(
    gemm, start, stop, num_heads, target, source, x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias,
    mask, shifts, scale, eps, query, key_value, weights, heads, normal, factor, out, total,
):  # fmt: skip
    d = x.shape[1]
    size, own = d // num_heads, query.shape[1]
    keys = key_value.shape[1] - 2 * d  # where the keys begin
    block = total.shape[0] // target
    for first in range(start, stop, block):
        last = min(first + block, stop)
        t0, t1, s0, s1 = first * target, last * target, first * source, last * source
        _project(gemm, x[t0:t1], weight[:own], bias[:own], query[t0:t1])
        if own == d:
            _project(gemm, memory[s0:s1], weight[d:], bias[d:], key_value[s0:s1])
        for b in range(first, last):
            q, kv = query[b * target : (b + 1) * target], key_value[b * source : (b + 1) * source]
            for h in range(num_heads):
                k = kv[:, keys + h * size : keys + (h + 1) * size]
                multiply(gemm, q[:, h * size : (h + 1) * size], False, k, True, 0, weights[b, h])
        _softmax(weights, first, last, mask, shifts, scale)
        for b in range(first, last):
            kv, by_head = key_value[b * source : (b + 1) * source], heads[b * target : (b + 1) * target]
            for h in range(num_heads):
                v = kv[:, keys + d + h * size : keys + d + (h + 1) * size]
                multiply(gemm, weights[b, h], False, v, False, 0, by_head[:, h * size : (h + 1) * size])
        rows = t1 - t0
        multiply(gemm, heads[t0:t1], False, out_weight, True, 0, total[:rows])
        for r in range(rows):
            for i in range(d):
                total[r, i] += x[t0 + r, i] + out_bias[i]
        _layer_norm(total[:rows], norm_weight, norm_bias, eps, out[t0:t1], normal[t0:t1], factor[t0:t1])


@loop
def _project(gemm, x, weight, bias, out):
    multiply(gemm, x, False, weight, True, 0, out)
    for r in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[r, i] += bias[i]


@loop
def _softmax(weights, first, last, mask, shifts, scale):
    """Turn scores into softmax(scores * scale + mask), in place; rows of -inf become zeros."""
    heads, target, source = weights.shape[1:]
    flat = weights[first:last].reshape(-1)
    large = np.int32(0)
    for i in range(flat.size):
        flat[i] *= scale
        large += np.int32(0) if abs(flat[i]) <= SAFE else np.int32(1)
    if mask.size:
        for b in range(first, last):
            for h in range(heads):
                for r in range(target):
                    hidden = mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0]
                    row = hidden[r if mask.shape[2] > 1 else 0]
                    for i in range(source):
                        weights[b, h, r, i] += row[i]
    rows = flat.reshape(-1, source)
    if shifts or large > 0:
        for r in range(rows.shape[0]):
            shift = rows[r, 0]
            for i in range(source):
                shift = rows[r, i] if rows[r, i] > shift else shift
            if shift > -math.inf:
                for i in range(source):
                    rows[r, i] -= shift
    for i in range(flat.size):
        flat[i] = _exp(flat[i])
    for r in range(rows.shape[0]):
        total = 0.0
        for i in range(source):
            total += rows[r, i]
        share = flat.dtype.type(1) / flat.dtype.type(total if total != 0 else 1)
        for i in range(source):
            rows[r, i] *= share


def attention_gradient(
    g: Any, x: Any, memory: Any, weight: Any, out_weight: Any, norm_weight: Any, saved: tuple[Any, ...], sizes: Sizes,
    scale: float,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients for x and for the memory (None without one) and, in their order, for the parameters.

    Those of x and memory are (batch, length, d), as g is.
    """
    d, dtype = x.shape[1], x.dtype
    query, key_value, weights, heads, normal, factor = saved
    g_x = empty(g.shape, dtype)
    g_memory = None if memory is None else empty((sizes.batch, sizes.source, d), dtype)
    g, found = g.reshape(x.shape), g_x.reshape(x.shape)
    found_memory = found if g_memory is None else g_memory.reshape(memory.shape)
    batch, shares = sizes.batch, _shares(len(x), sizes.batch, 2 * sizes.operations(d))
    sums = Sums(shares, dtype, [weight.shape, out_weight.shape], [d, d, d, 3 * d])
    g_total, g_query = empty(x.shape, dtype), empty(query.shape, dtype)
    g_key_value = g_query if memory is None else empty(key_value.shape, dtype)
    n, own = _sentences(sizes), query.shape[1]

    def compute_shares(i: slice) -> None:
        for share in range(i.start, i.stop):
            start, stop = batch * share // shares, batch * (share + 1) // shares
            vectors, (g_weight, g_out_weight) = sums.vectors[share], [part[share] for part in sums.weights]
            _attention_gradient(
                ADDRESSES[dtype], start, stop, *sizes[1:], g, weight, out_weight, norm_weight, query, key_value,
                weights, normal, factor, dtype.type(scale), found, found_memory, g_total, g_query, g_key_value,
                empty((n * sizes.target, d), dtype), empty((n, *sizes[1:]), dtype), vectors[: 2 * d].reshape(2, d),
                vectors[2 * d :],
            )  # fmt: skip
            r = slice(start * sizes.target, stop * sizes.target)
            matmul(g_query[r].T, x[r], out=g_weight[:own])
            matmul(g_total[r].T, heads[r], out=g_out_weight)
            if memory is not None:
                s = slice(start * sizes.source, stop * sizes.source)
                matmul(g_key_value[s].T, memory[s], out=g_weight[own:])

    multiply_in_parts(compute_shares, shares)
    (g_weight, g_out_weight), (g_norm_weight, g_norm_bias, g_out_bias, g_bias) = sums.total()
    return g_x, g_memory, g_weight, g_bias, g_out_weight, g_out_bias, g_norm_weight, g_norm_bias


@loop
def _attention_gradient(
    gemm, start, stop, num_heads, target, source, g, weight, out_weight, norm_weight, query, key_value, weights, normal,
    factor, scale, g_x, g_memory, g_total, g_query, g_key_value, g_heads, g_weights, norm_sums, sums,
):  # fmt: skip
    d = g.shape[1]
    size, own = d // num_heads, query.shape[1]
    keys = key_value.shape[1] - 2 * d
    block = g_weights.shape[0]
    for first in range(start, stop, block):
        last = min(first + block, stop)
        i, j = slice(first * target, last * target), slice(first * source, last * source)
        _layer_norm_gradient(g[i], normal[i], factor[i], norm_weight, g_total[i], norm_sums)
        _hand_on(g_total[i], g_x[i], sums[:d])
        multiply(gemm, g_total[i], False, out_weight, False, 0, g_heads[: i.stop - i.start])
        for b in range(first, last):
            g_of = g_heads[(b - first) * target : (b - first + 1) * target]
            kv, g_kv = key_value[b * source : (b + 1) * source], g_key_value[b * source : (b + 1) * source]
            for h in range(num_heads):
                g_head, left = g_of[:, h * size : (h + 1) * size], keys + d + h * size
                multiply(gemm, weights[b, h], True, g_head, False, 0, g_kv[:, left : left + size])
                multiply(gemm, g_head, False, kv[:, left : left + size], True, 0, g_weights[b - first, h])
        _softmax_gradient(g_weights[: last - first].reshape(-1, source), weights[first:last].reshape(-1, source), scale)
        for b in range(first, last):
            q, g_q = query[b * target : (b + 1) * target], g_query[b * target : (b + 1) * target]
            kv, g_kv = key_value[b * source : (b + 1) * source], g_key_value[b * source : (b + 1) * source]
            for h in range(num_heads):
                g_scores, left = g_weights[b - first, h], h * size
                k, g_k = kv[:, keys + left : keys + left + size], g_kv[:, keys + left : keys + left + size]
                multiply(gemm, g_scores, False, k, False, 0, g_q[:, left : left + size])
                multiply(gemm, g_scores, True, q[:, left : left + size], False, 0, g_k)
        _add_rows_up(g_query[i], sums[d : d + own])
        multiply(gemm, g_query[i], False, weight[:own], False, 1, g_x[i])
        if own == d:
            _add_rows_up(g_key_value[j], sums[2 * d :])
            multiply(gemm, g_key_value[j], False, weight[d:], False, 0, g_memory[j])


@loop
def _softmax_gradient(g, weights, scale):
    for r in range(g.shape[0]):
        along = 0.0
        for i in range(g.shape[1]):
            along += g[r, i] * weights[r, i]
        total = g.dtype.type(along)
        for i in range(g.shape[1]):
            g[r, i] = weights[r, i] * (g[r, i] - total) * scale
