"""Stacks of a Transformer's sub-layers in compiled loops, products included, there and back.

A sub-layer is norm(x + drop(f(x))), or with the norm in front x + drop(f(norm(x))); f is attention or the feed-forward
network. It is a few matrix products with passes over memory between them. Here the rows of some sentences go through
all of it, and through all sub-layers of a stack, while they are in the cache; the interpreter, whose lock two threads
would wait for, is met once for a sub-layer, and threads meet once for a stack. Compiling takes seconds, once; then the
loops are read from disk.

The sentences of a batch are divided into *shares*, and these into blocks. A share adds up the gradients of the
parameters by itself, then those of the shares are added in their order. How many shares there are follows from the
sizes alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from .compiling import part
from .hashed import Dropping, keeps
from .loops import _exp, _layer_norm, _layer_norm_gradient, loop
from .loops import fits as fits
from .pool import empty
from .products import multiply, product
from .threads import multiply_in_parts

BLOCK = 512  # rows that go through a sub-layer together
SHARE = 10**8  # multiplications and additions of a stack, forward, that are worth a share
MOST_SHARES = 4
ROWS = 256  # that a share has at least
SMALL = 1 << 17  # elements of a matrix whose gradient takes no time beside the products
REUSE = 1 << 8  # elements of a larger matrix for each row of a share, whose gradient each share writes
SAFE = 40.0  # exp of numbers up to this size neither overflows nor vanishes in float32


def pay_for(rows: int, *weights: Any) -> bool:
    """Whether sub-layers with these matrices gain from the loops, for so many rows of x."""
    largest = max(weight.size for weight in weights)
    return largest <= SMALL or rows * REUSE >= largest


def takes_mask(mask: Any, batch: int, heads: int, target: int, source: int) -> bool:
    """Whether `Attention` takes a mask: of four dimensions, each of this size or 1 but for the last."""
    return (
        mask.ndim == 4
        and mask.shape[-1] == source
        and all(n in (1, size) for n, size in zip(mask.shape, (batch, heads, target)))
        and mask.dtype.kind in "bf"
    )


def forward(sublayers: Sequence[Any], x: Any, memory: Any, masks: Sequence[Any], hides: Sequence[bool]) -> Any:
    """What sub-layers, one after the other, make of x (batch, target, d) and the memory (batch, source, d) or None.

    `masks` are added to the scores of attention to x and to the memory; `takes_mask` says which there may be. `hides`
    says which of them hold 0 and -inf alone, so that the scores stay as small as they are.
    """
    batch, target, d = x.shape
    work = 2 * batch * target * sum(sublayer.work for sublayer in sublayers)
    largest = max(weight.size for sublayer in sublayers for weight in (*sublayer.weights, x[0, 0]))
    shares = _shares(batch, batch * target, work, largest)
    rows, memory_rows = x.reshape(-1, d), None if memory is None else memory.reshape(-1, d)
    nothing = np.zeros((0, 0, 0, 0), x.dtype)
    shifts = [(nothing if mask is None else mask, not hide) for mask, hide in zip(masks, hides)]
    for sublayer in sublayers:
        rows = sublayer.start(shares, rows, memory_rows, shifts)

    def compute_shares(i: slice) -> None:
        for share in shares[i]:
            for sublayer in sublayers:
                sublayer.forward(share)

    multiply_in_parts(compute_shares, len(shares))
    return rows.reshape(x.shape)


def backward(sublayers: Sequence[Any], g: Any, memory: Any) -> tuple[Any, Any, list[Any]]:
    """The gradients for x and for the memory (None without one) and, in their order, for all parameters."""
    shares, rows = sublayers[0].shares, g.reshape(-1, g.shape[-1])
    g_memory = None if memory is None else np.zeros(memory.shape, memory.dtype)
    memory_rows = None if g_memory is None else g_memory.reshape(-1, g.shape[-1])
    gradients: list[Gradient] = []
    for sublayer in reversed(sublayers):
        gradients.insert(0, Gradient(sublayer, rows, memory_rows))
        rows = gradients[0].g_x

    def compute_shares(i: slice) -> None:
        for share in shares[i]:
            for gradient in reversed(gradients):
                gradient.sublayer.backward(share, gradient)

    multiply_in_parts(compute_shares, len(shares))
    return rows.reshape(g.shape), g_memory, [total for gradient in gradients for total in gradient.totals()]


class Share(NamedTuple):
    """The sentences of a share, from the first to before the last, and its place among the shares."""

    place: int
    first: int
    last: int

    def rows(self, length: int) -> slice:
        """Those of sentences of this length."""
        return slice(self.first * length, self.last * length)


def _shares(batch: int, rows: int, operations: int, largest: int) -> list[Share]:
    least = ROWS if largest <= SMALL else max(ROWS, largest // REUSE)
    count = 1  # a power of two
    while 2 * count <= min(MOST_SHARES, batch, rows // least, operations // SHARE):
        count *= 2
    return [Share(i, batch * i // count, batch * (i + 1) // count) for i in range(count)]


class Gradient:
    """Of a sub-layer: for its x, and those of its parameters, added up over the rows of each share."""

    def __init__(self, sublayer: Any, g: Any, g_memory: Any) -> None:
        self.sublayer, self.g, self.g_memory = sublayer, g, g_memory
        self.g_x = empty(g.shape, g.dtype)
        count, weights, vectors = len(sublayer.shares), sublayer.weights, sublayer.vectors
        self.weights = [empty((count, *weight.shape), g.dtype) for weight in weights]
        self.sums = np.zeros((count, sum(vectors)))  # of biases and norms, side by side, in float64
        self.ends = np.cumsum(vectors)

    def of_weights(self, share: Share) -> list[Any]:
        """Where those of the weights are written that a share adds up."""
        return [part[share.place] for part in self.weights]

    def totals(self) -> list[Any]:
        """The gradients of the parameters, in their order."""
        weights = [part[0] if len(part) == 1 else np.add.reduce(part, axis=0) for part in self.weights]
        vectors = np.split(np.add.reduce(self.sums, axis=0).astype(self.g.dtype), self.ends[:-1])
        return self.sublayer.in_order(weights, vectors)


class Norm:
    """norm(x), for the end of a stack, and what a sub-layer has of its own.

    Args:
        norm_weight, norm_bias, eps: of the norm.
    """

    work = 0
    weights: tuple[Any, ...] = ()

    def __init__(self, norm_weight: Any, norm_bias: Any, eps: float) -> None:
        self.d, dtype = norm_weight.size, norm_weight.dtype
        self.norm: tuple[Any, ...] = norm_weight, _or_zeros(norm_bias, self.d, dtype), eps
        self.vectors = [self.d, self.d]

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        """Make the arrays for rows x; returns that of the result, which `forward` fills."""
        self.shares, self.x = shares, x
        self.length = len(x) // shares[-1].last
        self.normal, self.factor, self.out = (empty((len(x), width), x.dtype) for width in (self.d, 1, self.d))
        return self.out

    def forward(self, share: Share) -> None:
        r = share.rows(self.length)
        _layer_norm(self.x[r], *self.norm, self.out[r], self.normal[r], self.factor[r])

    def backward(self, share: Share, found: Gradient) -> None:
        r, sums = share.rows(self.length), found.sums[share.place].reshape(2, -1)
        _layer_norm_gradient(found.g[r], self.normal[r], self.factor[r], self.norm[0], found.g_x[r], sums)

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        """The gradients of the parameters in their order, from those of weights and of vectors."""
        return vectors


class Residual(Norm):
    """What attention and the feed-forward network share: the sum with x, its dropout, and the norm.

    Args:
        norm_weight, norm_bias, eps: of the norm.
        norm_first: whether it stands in front.
        dropping: of what is added to x.
    """

    def __init__(self, norm_weight: Any, norm_bias: Any, eps: float, norm_first: bool, dropping: Dropping) -> None:
        super().__init__(norm_weight, norm_bias, eps)
        self.norm_first, self.dropping = norm_first, _typed(dropping, norm_weight.dtype)

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        self.inside = empty(x.shape, x.dtype) if self.norm_first else x  # what f is given
        return super().start(shares, x, memory, shifts)


def _or_zeros(bias: Any, size: int, dtype: Any) -> Any:
    return np.zeros(size, dtype) if bias is None else bias


def _typed(dropping: Dropping, dtype: Any) -> tuple[Any, ...]:
    return *dropping.numbers, dtype.type(dropping.scale)


# ---- feed-forward: f(x) = drop(max(0, x W₁ᵀ + b₁)) W₂ᵀ + b₂


class FeedForward(Residual):
    """The position-wise network; its weights are (inner, d) and (d, inner)."""

    def __init__(self, weight1: Any, bias1: Any, weight2: Any, bias2: Any, *norm: Any, inner: Dropping) -> None:
        super().__init__(*norm)
        width, dtype = len(weight1), weight1.dtype
        self.weights, self.work = (weight1, weight2), 2 * weight1.size
        self.biases = _or_zeros(bias1, width, dtype), _or_zeros(bias2, self.d, dtype)
        self.inner = _typed(inner, dtype)
        self.vectors = [self.d, self.d, self.d, width]  # norm, b₂, b₁

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        self.hidden = empty((len(x), len(self.weights[0])), x.dtype)
        return super().start(shares, x, memory, shifts)

    def forward(self, share: Share) -> None:
        r, dtype = share.rows(self.length), self.x.dtype
        (weight1, weight2), (bias1, bias2) = self.weights, self.biases
        _feed_forward(
            product(dtype), r.start, self.x[r], weight1, bias1, weight2, bias2, *self.norm, self.norm_first,
            self.inner, self.dropping, self.inside[r], self.hidden[r], self.normal[r], self.factor[r], self.out[r],
            empty((min(BLOCK, r.stop - r.start), self.d), dtype),
        )  # fmt: skip

    def backward(self, share: Share, found: Gradient) -> None:
        r, dtype, sums = share.rows(self.length), self.x.dtype, found.sums[share.place]
        g_total, g_hidden = empty(found.g[r].shape, dtype), empty(self.hidden[r].shape, dtype)
        _feed_forward_gradient(
            product(dtype), r.start, found.g[r], *self.weights, self.norm[0], self.norm_first, self.inner[-1],
            self.dropping, self.hidden[r], self.normal[r], self.factor[r], found.g_x[r], g_total, g_hidden,
            sums[: 2 * self.d].reshape(2, self.d), sums[2 * self.d :], self.inside[r], *found.of_weights(share),
        )  # fmt: skip

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, bias2, bias1 = vectors
        return [weights[0], bias1, weights[1], bias2, norm_weight, norm_bias]


@loop
def _feed_forward(
    product, start, x, weight1, bias1, weight2, bias2, norm_weight, norm_bias, eps, norm_first, inner_dropping,
    dropping, inside, hidden, normal, factor, out, total,
):  # fmt: skip
    zero, kept = x.dtype.type(0), inner_dropping[3]
    low, high, below = inner_dropping[:3]
    for first in range(0, x.shape[0], BLOCK):
        last = min(first + BLOCK, x.shape[0])
        i, h = slice(first, last), hidden[first:last]
        if norm_first:
            _layer_norm(x[i], norm_weight, norm_bias, eps, inside[i], normal[i], factor[i])
        multiply(product, inside[i], False, weight1, True, False, h)
        columns = h.shape[1]
        for r in range(h.shape[0]):
            for c in range(columns):
                value = h[r, c] + bias1[c]
                h[r, c] = zero if value <= zero else value
            if below > 0:
                place = (start + first + r) * columns
                for c in range(columns):
                    h[r, c] *= kept if _keeps(np.uint32(place + c), low, high, below) else zero
        some = total[: last - first]
        if norm_first:
            multiply(product, h, False, weight2, True, False, some)
            _add_up(x[i], some, bias2, start + first, dropping, out[i])
        else:
            multiply(product, h, False, weight2, True, False, out[i])
            _add_up(x[i], out[i], bias2, start + first, dropping, some)
            _layer_norm(some, norm_weight, norm_bias, eps, out[i], normal[i], factor[i])


_keeps = numba.njit(keeps)


@part
def _add_up(x, branch, bias, start, dropping, out):
    """x + drop(branch + bias); `start` is the number of the first row."""
    low, high, below, scale = dropping
    columns = x.shape[1]
    for r in range(x.shape[0]):
        if below > 0:
            place = (start + r) * columns
            for c in range(columns):
                factor = scale if _keeps(np.uint32(place + c), low, high, below) else x.dtype.type(0)
                out[r, c] = x[r, c] + factor * (branch[r, c] + bias[c])
        else:
            for c in range(columns):
                out[r, c] = x[r, c] + (branch[r, c] + bias[c])


@part
def _to_branch(g, start, dropping, g_branch, sums):
    """The gradient of `_add_up` for the branch, which is added to the sums, for its bias; for x it is g."""
    if dropping[2] > 0:
        _drop(g, start, dropping, g_branch)
    else:
        _copy(g, g_branch)
    _add_rows_up(g_branch, sums)


@part
def _copy(rows, out):
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            out[r, i] = rows[r, i]  # not all at once, whose error message would take long to compile


@part
def _to_sum(g, normal, factor, norm_weight, norm_first, g_x, norm_sums):
    """The gradient for x + drop(f(...)), from that for the sub-layer's result."""
    if norm_first:
        _copy(g, g_x)
    else:
        _layer_norm_gradient(g, normal, factor, norm_weight, g_x, norm_sums)


@part
def _add_through_norm(g_inside, normal, factor, norm_weight, g_before, g_x, norm_sums):
    """Add the gradient that comes back through the norm in front to that for x; `g_before` is scratch memory."""
    _layer_norm_gradient(g_inside, normal, factor, norm_weight, g_before, norm_sums)
    for r in range(g_x.shape[0]):
        for c in range(g_x.shape[1]):
            g_x[r, c] += g_before[r, c]


@loop
def _feed_forward_gradient(
    product, start, g, weight1, weight2, norm_weight, norm_first, kept, dropping, hidden, normal, factor, g_x, g_total,
    g_hidden, norm_sums, sums, inside, g_weight1, g_weight2,
):  # fmt: skip
    d = g.shape[1]
    within = np.empty((2, min(BLOCK, g.shape[0]) if norm_first else 0, d), g.dtype)
    for first in range(0, g.shape[0], BLOCK):
        i = slice(first, min(first + BLOCK, g.shape[0]))
        _to_sum(g[i], normal[i], factor[i], norm_weight, norm_first, g_x[i], norm_sums)
        _to_branch(g_x[i], start + first, dropping, g_total[i], sums[:d])
        multiply(product, g_total[i], False, weight2, False, False, g_hidden[i])
        _clip(g_hidden[i], hidden[i], kept, sums[d:])
        multiply(product, g_hidden[i], True, inside[i], False, first > 0, g_weight1)
        multiply(product, g_total[i], True, hidden[i], False, first > 0, g_weight2)
        if norm_first:
            g_inside, g_before = within[0, : i.stop - first], within[1, : i.stop - first]
            multiply(product, g_hidden[i], False, weight1, False, False, g_inside)
            _add_through_norm(g_inside, normal[i], factor[i], norm_weight, g_before, g_x[i], norm_sums)
        else:
            multiply(product, g_hidden[i], False, weight1, False, True, g_x[i])


@part
def _clip(g, hidden, kept, sums):
    """The gradient through drop(max(0, ...)), in place, and added to the sums of its rows."""
    for r in range(g.shape[0]):
        for i in range(g.shape[1]):
            value = g.dtype.type(0) if hidden[r, i] <= 0 else g[r, i] * kept
            g[r, i] = value
            sums[i] += value


@part
def _add_rows_up(rows, sums):
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            sums[i] += rows[r, i]


# ---- attention: f(x) = Concat(head_1, ..., head_h) W_oᵀ + b_o


class Attention(Residual):
    """Multi-head attention of x to itself or to the memory; its weights are (3 d, d) and (d, d)."""

    def __init__(
        self, weight: Any, bias: Any, out_weight: Any, out_bias: Any, *norm: Any, heads: int, scale: float,
        across: bool, weights_dropping: Dropping,
    ) -> None:  # fmt: skip
        super().__init__(*norm)
        dtype = weight.dtype
        self.weights, self.work = (weight, out_weight), weight.size + out_weight.size
        self.biases = _or_zeros(bias, 3 * self.d, dtype), _or_zeros(out_bias, self.d, dtype)
        self.heads, self.scale, self.across = heads, dtype.type(scale), across
        self.weights_dropping = _typed(weights_dropping, dtype)
        self.vectors = [self.d, self.d, self.d, 3 * self.d]  # norm, b_o, b

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        out, batch, dtype = super().start(shares, x, memory, shifts), shares[-1].last, x.dtype
        self.memory: Any = memory if self.across else None
        self.source = len(memory) // batch if self.across else self.length
        self.shifts = shifts[self.across]
        self.query = empty((len(x), self.d if self.across else 3 * self.d), dtype)
        self.key_value = empty((len(memory), 2 * self.d), dtype) if self.across else self.query
        self.softmax = empty((batch, self.heads, self.length, self.source), dtype)
        self.joined = empty(x.shape, dtype)
        return out

    def forward(self, share: Share) -> None:
        r, s, dtype = share.rows(self.length), share.rows(self.source), self.x.dtype
        b, (shifts, added) = slice(share.first, share.last), self.shifts
        (weight, out_weight), (bias, out_bias) = self.weights, self.biases
        _attention(
            product(dtype), r.start, self.x[r], self.memory[s] if self.across else self.inside[r], weight, bias,
            out_weight, out_bias, *self.norm, self.norm_first, self.scale, shifts[b] if len(shifts) > 1 else shifts,
            added, self.weights_dropping, self.dropping, self.inside[r], self.query[r], self.key_value[s],
            self.softmax[b], self.joined[r], self.normal[r], self.factor[r], self.out[r],
            empty((min(self.block, share.last - share.first) * self.length, self.d), dtype),
        )  # fmt: skip

    @property
    def block(self) -> int:
        """Sentences that go through together."""
        return max(1, BLOCK // max(self.length, self.source))

    def backward(self, share: Share, found: Gradient) -> None:
        r, s, dtype, sums = share.rows(self.length), share.rows(self.source), self.x.dtype, found.sums[share.place]
        b, d, n = slice(share.first, share.last), self.d, min(self.block, share.last - share.first)
        g_total, g_query = empty(found.g[r].shape, dtype), empty(self.query[r].shape, dtype)
        g_key_value = empty(self.key_value[s].shape, dtype) if self.across else g_query
        _attention_gradient(
            product(dtype), r.start, found.g[r], *self.weights, self.norm[0], self.norm_first, self.scale,
            self.weights_dropping, self.dropping, self.query[r], self.key_value[s], self.softmax[b], self.normal[r],
            self.factor[r], found.g_x[r], found.g_memory[s] if self.across else found.g_x[r], g_total, g_query,
            g_key_value, empty((n * self.length, d), dtype), empty((n, *self.softmax.shape[1:]), dtype),
            sums[: 2 * d].reshape(2, d), sums[2 * d :], self.inside[r],
            self.memory[s] if self.across else self.inside[r], self.joined[r], *found.of_weights(share),
        )  # fmt: skip

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, out_bias, bias = vectors
        return [weights[0], bias, weights[1], out_bias, norm_weight, norm_bias]


@loop
def _attention(
    product, start, x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, eps, norm_first, scale,
    shifts, added, weights_dropping, dropping, inside, query, key_value, softmax, joined, normal, factor, out, total,
):  # fmt: skip
    d, (batch, heads, target, source) = x.shape[1], softmax.shape
    size, own = d // heads, query.shape[1]
    keys = key_value.shape[1] - 2 * d  # where the keys begin
    block = total.shape[0] // target
    dropped = np.empty((target, source), x.dtype)
    for first in range(0, batch, block):
        last = min(first + block, batch)
        i, j = slice(first * target, last * target), slice(first * source, last * source)
        if norm_first:
            _layer_norm(x[i], norm_weight, norm_bias, eps, inside[i], normal[i], factor[i])
        _project(product, inside[i], weight[:own], bias[:own], query[i])
        if own == d:
            _project(product, memory[j], weight[d:], bias[d:], key_value[j])
        for b in range(first, last):
            q, kv = query[b * target : (b + 1) * target], key_value[b * source : (b + 1) * source]
            for h in range(heads):
                k = kv[:, keys + h * size : keys + (h + 1) * size]
                multiply(product, q[:, h * size : (h + 1) * size], False, k, True, False, softmax[b, h])
        _softmax(softmax, first, last, shifts, added, scale)
        for b in range(first, last):
            kv, by_head = key_value[b * source : (b + 1) * source], joined[b * target : (b + 1) * target]
            for h in range(heads):
                weights = softmax[b, h]
                if weights_dropping[2] > 0:
                    _drop(weights, (start + b * target) * heads + h * target, weights_dropping, dropped)
                    weights = dropped
                v = kv[:, keys + d + h * size : keys + d + (h + 1) * size]
                multiply(product, weights, False, v, False, False, by_head[:, h * size : (h + 1) * size])
        some = total[: i.stop - i.start]
        if norm_first:
            multiply(product, joined[i], False, out_weight, True, False, some)
            _add_up(x[i], some, out_bias, start + i.start, dropping, out[i])
        else:
            multiply(product, joined[i], False, out_weight, True, False, out[i])
            _add_up(x[i], out[i], out_bias, start + i.start, dropping, some)
            _layer_norm(some, norm_weight, norm_bias, eps, out[i], normal[i], factor[i])


@part
def _project(product, x, weight, bias, out):
    multiply(product, x, False, weight, True, False, out)
    for r in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[r, i] += bias[i]


@part
def _drop(rows, start, dropping, out):
    """drop(rows); `start` is the number of the first row."""
    low, high, below, scale = dropping
    columns = rows.shape[1]
    for r in range(rows.shape[0]):
        place = (start + r) * columns
        for c in range(columns):
            factor = scale if _keeps(np.uint32(place + c), low, high, below) else rows.dtype.type(0)
            out[r, c] = rows[r, c] * factor


@part
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


@loop
def _attention_gradient(
    product, start, g, weight, out_weight, norm_weight, norm_first, scale, weights_dropping, dropping, query, key_value,
    softmax, normal, factor, g_x, g_memory, g_total, g_query, g_key_value, g_heads, g_weights, norm_sums, sums, inside,
    memory, joined, g_weight, g_out_weight,
):  # fmt: skip
    d, (batch, heads, target, source) = g.shape[1], softmax.shape
    size, own = d // heads, query.shape[1]
    keys = key_value.shape[1] - 2 * d
    block = g_weights.shape[0]
    dropped = np.empty((target, source), g.dtype)
    within = np.empty((2, block * target if norm_first else 0, d), g.dtype)
    for first in range(0, batch, block):
        last = min(first + block, batch)
        i, j = slice(first * target, last * target), slice(first * source, last * source)
        rows = i.stop - i.start
        _to_sum(g[i], normal[i], factor[i], norm_weight, norm_first, g_x[i], norm_sums)
        _to_branch(g_x[i], start + i.start, dropping, g_total[i], sums[:d])
        multiply(product, g_total[i], False, out_weight, False, False, g_heads[:rows])
        for b in range(first, last):
            g_of = g_heads[(b - first) * target : (b - first + 1) * target]
            kv, g_kv = key_value[b * source : (b + 1) * source], g_key_value[b * source : (b + 1) * source]
            for h in range(heads):
                g_head, left, weights = g_of[:, h * size : (h + 1) * size], keys + d + h * size, softmax[b, h]
                v, drops = kv[:, left : left + size], weights_dropping[2] > 0
                multiply(product, g_head, False, v, True, False, dropped if drops else g_weights[b - first, h])
                if drops:
                    place = (start + b * target) * heads + h * target
                    _drop(dropped, place, weights_dropping, g_weights[b - first, h])
                    _drop(weights, place, weights_dropping, dropped)
                    weights = dropped
                multiply(product, weights, True, g_head, False, False, g_kv[:, left : left + size])
        _softmax_gradient(g_weights[: last - first].reshape(-1, source), softmax[first:last].reshape(-1, source), scale)
        for b in range(first, last):
            q, g_q = query[b * target : (b + 1) * target], g_query[b * target : (b + 1) * target]
            kv, g_kv = key_value[b * source : (b + 1) * source], g_key_value[b * source : (b + 1) * source]
            for h in range(heads):
                g_scores, left = g_weights[b - first, h], h * size
                k, g_k = kv[:, keys + left : keys + left + size], g_kv[:, keys + left : keys + left + size]
                multiply(product, g_scores, False, k, False, False, g_q[:, left : left + size])
                multiply(product, g_scores, True, q[:, left : left + size], False, False, g_k)
        _add_rows_up(g_query[i], sums[d : d + own])
        multiply(product, g_query[i], True, inside[i], False, first > 0, g_weight[:own])
        multiply(product, g_total[i], True, joined[i], False, first > 0, g_out_weight)
        if own == d:
            multiply(product, g_key_value[j], True, memory[j], False, first > 0, g_weight[own:])
            _add_rows_up(g_key_value[j], sums[2 * d :])
            multiply(product, g_key_value[j], False, weight[d:], False, True, g_memory[j])
        if norm_first:
            g_inside, g_before = within[0, :rows], within[1, :rows]
            multiply(product, g_query[i], False, weight[:own], False, False, g_inside)
            _add_through_norm(g_inside, normal[i], factor[i], norm_weight, g_before, g_x[i], norm_sums)
        else:
            multiply(product, g_query[i], False, weight[:own], False, True, g_x[i])


@part
def _softmax_gradient(g, weights, scale):
    for r in range(g.shape[0]):
        along = 0.0
        for i in range(g.shape[1]):
            along += g[r, i] * weights[r, i]
        total = g.dtype.type(along)
        for i in range(g.shape[1]):
            g[r, i] = weights[r, i] * (g[r, i] - total) * scale
