"""Stacks of a Transformer's sub-layers in compiled loops, products included, there and back.

A sub-layer is norm(x + drop(f(x))), or with the norm in front x + drop(f(norm(x))); f is attention or the feed-forward
network. It is a few matrix products with passes over memory between them. Here the rows of some sentences go through
all of it, and through all sub-layers of a stack, while they are in the cache; the interpreter, whose lock two threads
would wait for, is met once for a sub-layer, and threads meet once for a stack.

The loops are told where arrays lie and how far apart rows are, in bytes, and call the products (`products.py`) and the
passes between them (`passes.py`) by their addresses. So each of these is compiled once, and loops that know of no array
take a fraction of the time to compile.

The sentences of a batch are divided into *shares*, and these into blocks. A share adds up the gradients of the
parameters by itself, then those of the shares are added in their order. How many shares there are follows from the
sizes alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import passes
from .compiling import address, addresses, call, distances, loop, or_zeros, places
from .compiling import fits as fits
from .hashed import Dropping
from .pool import empty
from .products import MEMORY, multiply, multiply_each, product
from .threads import multiply_in_parts

BLOCK = 512  # rows that go through a sub-layer together
SUM = 8  # bytes of a sum
SHARE = 10**8  # multiplications and additions of a stack, forward, that are worth a share
MOST_SHARES = 4
ROWS = 256  # that a share has at least
SMALL = 1 << 17  # elements of a matrix whose gradient takes no time beside the products
REUSE = 1 << 8  # elements of a larger matrix for each row of a share, whose gradient each share writes


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
    shifts = [(mask, not hide) for mask, hide in zip(masks, hides)]
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

    def places(self, share: Share) -> Any:
        """Where g and the gradients lie: for x, for the memory, for the weights and, added up, for the vectors."""
        own = [part[share.place] for part in (*self.weights, self.sums)]
        return places(self.g, self.g_x, self.g_memory, *own)

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
        self.d, self.dtype, self.eps = norm_weight.size, norm_weight.dtype, eps
        self.norm = norm_weight, or_zeros(norm_bias, self.d, self.dtype)
        self.vectors = [self.d, self.d]

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        """Make the arrays for rows x; returns that of the result, which `forward` fills."""
        self.shares, self.x = shares, x
        self.length = len(x) // shares[-1].last
        self.normal, self.factor, self.out = (empty((len(x), width), x.dtype) for width in (self.d, 1, self.d))
        return self.out

    def forward(self, share: Share) -> None:
        r = share.rows(self.length)
        arrays = self.x[r], *self.norm, self.out[r], self.normal[r], self.factor[r]
        passes.normalize(self.dtype).ctypes(self.eps, r.stop - r.start, self.d, *map(address, arrays))

    def backward(self, share: Share, found: Gradient) -> None:
        r = share.rows(self.length)
        arrays = found.g[r], self.normal[r], self.factor[r], self.norm[0], found.g_x[r], found.sums[share.place]
        passes.normalize_gradient(self.dtype).ctypes(0, r.stop - r.start, self.d, *map(address, arrays), False)

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
        self.norm_first, self.dropping = norm_first, dropping

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        self.inside = empty(x.shape, x.dtype) if self.norm_first else x  # what f is given
        return super().start(shares, x, memory, shifts)

    def there(self, *between: Any) -> Any:
        """Where the functions are that the loop forward calls."""
        return addresses(
            self.dtype, product, passes.normalize, *between, passes.add_dropped if self.dropping else passes.add
        )

    def back(self, *between: Any) -> Any:
        """And those that the loop backward calls."""
        drop = passes.drop if self.dropping else passes.copy
        return addresses(
            self.dtype, product, passes.copy, passes.normalize_gradient, drop, passes.add_rows_up, *between
        )


# ---- feed-forward: f(x) = drop(max(0, x W₁ᵀ + b₁)) W₂ᵀ + b₂


class FeedForward(Residual):
    """The position-wise network; its weights are (inner, d) and (d, inner)."""

    def __init__(self, weight1: Any, bias1: Any, weight2: Any, bias2: Any, *norm: Any, inner: Dropping) -> None:
        super().__init__(*norm)
        self.width = len(weight1)
        self.weights, self.work = (weight1, weight2), 2 * weight1.size
        self.biases = or_zeros(bias1, self.width, self.dtype), or_zeros(bias2, self.d, self.dtype)
        self.inner = inner
        self.vectors = [self.d, self.d, self.d, self.width]  # norm, b₂, b₁

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        out = super().start(shares, x, memory, shifts)
        self.hidden = empty((len(x), self.width), self.dtype)
        self.places = places(
            x, *self.weights, *self.biases, *self.norm, self.inside, self.hidden, self.normal, self.factor, out
        )
        drops = *self.inner.numbers, *self.dropping.numbers
        self.sizes = np.array([self.d, self.width, self.norm_first, *drops], np.int64)
        self.reals = np.array([self.eps, self.inner.scale, self.dropping.scale], self.dtype)
        return out

    def forward(self, share: Share) -> None:
        r, scratch = share.rows(self.length), empty(MEMORY + BLOCK * self.d, self.dtype)
        functions = self.there(passes.activate_and_drop if self.inner else passes.activate)
        _feed_forward(functions, self.places, self.sizes, self.reals, address(scratch), r.start, r.stop)

    def backward(self, share: Share, found: Gradient) -> None:
        r, scratch = share.rows(self.length), empty(MEMORY + BLOCK * (2 * self.d + self.width), self.dtype)
        _feed_forward_gradient(
            self.back(passes.activate_gradient), self.places, found.places(share), self.sizes, self.reals,
            address(scratch), r.start, r.stop,
        )  # fmt: skip

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, bias2, bias1 = vectors
        return [weights[0], bias1, weights[1], bias2, norm_weight, norm_bias]


@loop
def _feed_forward(functions, places, sizes, reals, scratch, start, stop):
    product, normalize, activate, add = functions
    x, weight1, weight2, bias1, bias2, norm_weight, norm_bias, inside, hidden, normal, factor, out = places
    d, width, norm_first, inner_low, inner_high, inner_below, low, high, below = sizes
    eps, inner_scale, scale = reals
    size = reals.itemsize
    row, wide, total = d * size, width * size, scratch + MEMORY * size
    own = product, eps, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, h = min(BLOCK, stop - first), first * row, hidden + first * wide
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(normalize, (eps, rows, d, x + i, norm_weight, norm_bias, inside + i, normed, scales))
        multiply(own, inside + i, row, False, weight1, row, True, False, h, wide, rows, width, d)
        call(activate, (inner_scale, rows, width, h, bias1, first, inner_low, inner_high, inner_below))
        branch, added = (total, out + i) if norm_first else (out + i, total)
        multiply(own, h, wide, False, weight2, wide, True, False, branch, row, rows, d, width)
        call(add, (scale, rows, d, x + i, branch, bias2, added, first, low, high, below))
        if not norm_first:
            call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out + i, normed, scales))


@loop
def _feed_forward_gradient(functions, places, gradients, sizes, reals, scratch, start, stop):
    product, copy, normalize_gradient, drop, add_rows_up, activate_gradient = functions
    _, weight1, weight2, _, _, norm_weight, _, inside, hidden, normal, factor, _ = places
    g, g_x, _, g_weight1, g_weight2, norm_sums = gradients
    d, width, norm_first, _, _, _, low, high, below = sizes
    _, inner_scale, scale = reals
    size = reals.itemsize
    row, wide, g_total = d * size, width * size, scratch + MEMORY * size
    g_inside = g_total + BLOCK * row
    g_hidden = g_inside + BLOCK * row
    out_sums = norm_sums + 2 * d * SUM
    inner_sums = out_sums + d * SUM
    own = product, scale, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, h, keep = min(BLOCK, stop - first), first * row, hidden + first * wide, first > start
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(copy, (scale, rows, d, g + i, g_x + i, 0, 0, 0, 0))
        else:
            call(normalize_gradient, (scale, rows, d, g + i, normed, scales, norm_weight, g_x + i, norm_sums, False))
        call(drop, (scale, rows, d, g_x + i, g_total, first, low, high, below))
        call(add_rows_up, (scale, rows, d, g_total, d, out_sums))
        multiply(own, g_total, row, False, weight2, wide, False, False, g_hidden, wide, rows, width, d)
        call(activate_gradient, (inner_scale, rows, width, g_hidden, h, inner_sums))
        multiply(own, g_hidden, wide, True, inside + i, row, False, keep, g_weight1, row, width, d, rows)
        multiply(own, g_total, row, True, h, wide, False, keep, g_weight2, wide, d, width, rows)
        into = g_inside if norm_first else g_x + i
        multiply(own, g_hidden, wide, False, weight1, row, False, not norm_first, into, row, rows, d, width)
        if norm_first:
            call(normalize_gradient, (scale, rows, d, g_inside, normed, scales, norm_weight, g_x + i, norm_sums, True))


# ---- attention: f(x) = Concat(head_1, ..., head_h) W_oᵀ + b_o


class Attention(Residual):
    """Multi-head attention of x to itself or to the memory; its weights are (3 d, d) and (d, d)."""

    def __init__(
        self, weight: Any, bias: Any, out_weight: Any, out_bias: Any, *norm: Any, heads: int, scale: float,
        across: bool, weights_dropping: Dropping,
    ) -> None:  # fmt: skip
        super().__init__(*norm)
        self.weights, self.work = (weight, out_weight), weight.size + out_weight.size
        self.biases = or_zeros(bias, 3 * self.d, self.dtype), or_zeros(out_bias, self.d, self.dtype)
        self.heads, self.scale, self.across, self.weights_dropping = heads, scale, across, weights_dropping
        self.vectors = [self.d, self.d, self.d, 3 * self.d]  # norm, b_o, b

    def start(self, shares: list[Share], x: Any, memory: Any, shifts: Any) -> Any:
        out, batch, dtype = super().start(shares, x, memory, shifts), shares[-1].last, self.dtype
        self.memory = memory if self.across else self.inside
        self.source = len(memory) // batch if self.across else self.length
        self.query = empty((len(x), self.d if self.across else 3 * self.d), dtype)
        self.key_value = empty((len(memory), 2 * self.d), dtype) if self.across else self.query
        self.softmax = empty((batch, self.heads, self.length, self.source), dtype)
        self.joined = empty(x.shape, dtype)
        mask, added = shifts[self.across]
        self.mask = mask
        self.places = places(
            x, self.memory, *self.weights, *self.biases, *self.norm, mask, self.inside, self.query, self.key_value,
            self.softmax, self.joined, self.normal, self.factor, out,
        )  # fmt: skip
        lengths = self.heads, self.length, self.source, self.block
        columns = self.d, self.query.shape[1], self.key_value.shape[1], self.d // self.heads, self.source
        in_bytes = [n * dtype.itemsize for n in columns]
        flags = added, self.across, self.norm_first
        drops = *self.weights_dropping.numbers, *self.dropping.numbers
        self.sizes = np.array([*lengths, *columns, *in_bytes, *distances(mask), *flags, *drops], np.int64)
        self.reals = np.array([self.eps, self.scale, self.weights_dropping.scale, self.dropping.scale], dtype)
        return out

    @property
    def block(self) -> int:
        """Sentences that go through together."""
        return max(1, BLOCK // max(self.length, self.source))

    def forward(self, share: Share) -> None:
        rows = min(self.block, share.last - share.first) * self.length
        scratch = empty(MEMORY + rows * self.d + self.cells, self.dtype)
        functions = self.there(passes.add_vector, passes.softmax, passes.drop if self.weights_dropping else None)
        _attention(functions, self.places, self.sizes, self.reals, address(scratch), share.first, share.last)

    def backward(self, share: Share, found: Gradient) -> None:
        n = min(self.block, share.last - share.first)
        of_x, of_memory = 2 * self.d + self.query.shape[1], 2 * self.d * self.across
        scratch = empty(MEMORY + n * (self.length * of_x + self.source * of_memory) + 2 * self.cells, self.dtype)
        _attention_gradient(
            self.back(passes.softmax_gradient, passes.drop if self.weights_dropping else None), self.places,
            found.places(share), self.sizes, self.reals, address(scratch), share.first, share.last,
        )  # fmt: skip

    @property
    def cells(self) -> int:
        """Weights of a sentence, in all heads."""
        return self.heads * self.length * self.source

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, out_bias, bias = vectors
        return [weights[0], bias, weights[1], out_bias, norm_weight, norm_bias]


@loop
def _attention(functions, places, sizes, reals, scratch, start, stop):
    product, normalize, add_vector, softmax, drop, add = functions
    (
        x, memory, weight, out_weight, bias, out_bias, norm_weight, norm_bias, mask, inside, query, key_value,
        softmaxes, joined, normal, factor, out,
    ) = places  # fmt: skip
    (
        heads, target, source, block, d, of_query, of_key_value, of_head, _, row, q_row, kv_row, head, cells_row,
        mask_item, mask_head, mask_row, shifts, across, norm_first, w_low, w_high, w_below, low, high, below,
    ) = sizes  # fmt: skip
    eps, scale, w_scale, sum_scale = reals
    size, own = reals.itemsize, (product, eps, reals.itemsize, scratch)
    cells, keys = target * cells_row, 0 if across else row
    total = scratch + MEMORY * size
    dropped = total + min(block, stop - start) * target * row
    for first in range(start, stop, block):
        last = min(first + block, stop)
        rows, i, r = (last - first) * target, first * target, first * target * row
        q, k = query + i * q_row, key_value + first * source * kv_row + keys
        if norm_first:
            call(normalize, (eps, rows, d, x + r, norm_weight, norm_bias, inside + r, normal + r, factor + i * size))
        multiply(own, inside + r, row, False, weight, row, True, False, q, q_row, rows, of_query, d)
        call(add_vector, (eps, rows, of_query, bias, q, of_query))
        if across:
            j, many = memory + first * source * row, (last - first) * source
            multiply(own, j, row, False, weight + d * row, row, True, False, k, kv_row, many, of_key_value, d)
            call(add_vector, (eps, many, of_key_value, bias + row, k, of_key_value))
        for b in range(first, last):
            weights = softmaxes + b * heads * cells
            multiply_each(
                own, heads, q, head, q_row, False, k, head, kv_row, True, weights, cells, cells_row, target, source,
                of_head,
            )  # fmt: skip
            call(softmax, (scale, heads, target, source, weights, mask + b * mask_item, mask_head, mask_row, shifts))
            if drop:
                number = b * heads * target
                call(drop, (w_scale, heads * target, source, weights, dropped, number, w_low, w_high, w_below))
                weights = dropped
            multiply_each(
                own, heads, weights, cells, cells_row, False, k + row, head, kv_row, False, joined + b * target * row,
                head, row, target, of_head, source,
            )  # fmt: skip
            q += target * q_row
            k += source * kv_row
        branch, added = (total, out + r) if norm_first else (out + r, total)
        multiply(own, joined + r, row, False, out_weight, row, True, False, branch, row, rows, d, d)
        call(add, (sum_scale, rows, d, x + r, branch, out_bias, added, i, low, high, below))
        if not norm_first:
            call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out + r, normal + r, factor + i * size))


@loop
def _attention_gradient(functions, places, gradients, sizes, reals, scratch, start, stop):
    product, copy, normalize_gradient, drop, add_rows_up, softmax_gradient, drop_weights = functions
    (
        _, memory, weight, out_weight, _, _, norm_weight, _, _, inside, query, key_value, softmaxes, joined, normal,
        factor, _,
    ) = places  # fmt: skip
    g, g_x, g_memory, g_weight, g_out_weight, norm_sums = gradients
    (
        heads, target, source, block, d, of_query, of_key_value, of_head, _, row, q_row, kv_row, head, cells_row, _, _,
        _, _, across, norm_first, w_low, w_high, w_below, low, high, below,
    ) = sizes  # fmt: skip
    _, scale, w_scale, sum_scale = reals
    size, own = reals.itemsize, (product, scale, reals.itemsize, scratch)
    cells, keys = target * cells_row, 0 if across else row
    most = min(block, stop - start)
    g_total = scratch + MEMORY * size
    g_heads = g_total + most * target * row
    g_query = g_heads + most * target * row
    g_key_value = g_query + most * target * q_row if across else g_query
    g_weights = g_key_value + most * source * kv_row
    dropped = g_weights + heads * cells
    out_sums = norm_sums + 2 * d * SUM
    sums = out_sums + d * SUM
    for first in range(start, stop, block):
        last, keep = min(first + block, stop), first > start
        rows, i, r = (last - first) * target, first * target, first * target * row
        normed, scales, g_sum = normal + r, factor + i * size, g_x + r
        if norm_first:
            call(copy, (scale, rows, d, g + r, g_sum, 0, 0, 0, 0))
        else:
            call(normalize_gradient, (scale, rows, d, g + r, normed, scales, norm_weight, g_sum, norm_sums, False))
        call(drop, (sum_scale, rows, d, g_sum, g_total, i, low, high, below))
        call(add_rows_up, (scale, rows, d, g_total, d, out_sums))
        multiply(own, g_total, row, False, out_weight, row, False, False, g_heads, row, rows, d, d)
        q, k = query + i * q_row, key_value + first * source * kv_row + keys
        g_head, g_q, g_k = g_heads, g_query, g_key_value + keys
        for b in range(first, last):
            weights = softmaxes + b * heads * cells
            multiply_each(
                own, heads, g_head, head, row, False, k + row, head, kv_row, True,
                dropped if drop_weights else g_weights, cells, cells_row, target, source, of_head,
            )  # fmt: skip
            kept = weights
            if drop_weights:
                all_rows, number = heads * target, b * heads * target
                call(drop_weights, (w_scale, all_rows, source, dropped, g_weights, number, w_low, w_high, w_below))
                call(drop_weights, (w_scale, all_rows, source, weights, dropped, number, w_low, w_high, w_below))
                kept = dropped
            multiply_each(
                own, heads, kept, cells, cells_row, True, g_head, head, row, False, g_k + row, head, kv_row, source,
                of_head, target,
            )  # fmt: skip
            call(softmax_gradient, (scale, heads * target, source, weights, g_weights))
            multiply_each(
                own, heads, g_weights, cells, cells_row, False, k, head, kv_row, False, g_q, head, q_row, target,
                of_head, source,
            )  # fmt: skip
            multiply_each(
                own, heads, g_weights, cells, cells_row, True, q, head, q_row, False, g_k, head, kv_row, source,
                of_head, target,
            )  # fmt: skip
            g_head, q, g_q = g_head + target * row, q + target * q_row, g_q + target * q_row
            k, g_k = k + source * kv_row, g_k + source * kv_row
        call(add_rows_up, (scale, rows, of_query, g_query, of_query, sums))
        multiply(own, g_query, q_row, True, inside + r, row, False, keep, g_weight, row, of_query, d, rows)
        multiply(own, g_total, row, True, joined + r, row, False, keep, g_out_weight, row, d, d, rows)
        if across:
            j, many, wide = first * source * row, (last - first) * source, of_key_value
            of_it, g_of_it = weight + d * row, g_weight + d * row  # for keys and values, below those for queries
            call(add_rows_up, (scale, many, wide, g_key_value, wide, sums + d * SUM))
            multiply(own, g_key_value, kv_row, True, memory + j, row, False, keep, g_of_it, row, wide, d, many)
            multiply(own, g_key_value, kv_row, False, of_it, row, False, True, g_memory + j, row, many, d, wide)
        into = g_heads if norm_first else g_sum
        multiply(own, g_query, q_row, False, weight, row, False, not norm_first, into, row, rows, d, of_query)
        if norm_first:
            call(normalize_gradient, (scale, rows, d, g_heads, normed, scales, norm_weight, g_sum, norm_sums, True))
