"""Attention as a sub-layer, see `sublayers.py`: f(x) = Concat(head_1, ..., head_h) W_oᵀ + b_o."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from . import passes
from .compiling import addresses, call, called, distances, named, or_zeros, places
from .hashed import Dropping
from .pool import empty
from .products import MEMORY, multiply, multiply_each
from .residual import BLOCK, SUM, Residual, Share, Work


class Attention(Residual):
    """Multi-head attention of x to itself or to the memory.

    Args:
        mask: what is added to the scores, of four dimensions (batch, heads, length, source), or 1 but for the last.
        shifts: False where a mask holds 0 and -inf alone, so that the scores stay as small as they are.
        weight, out_weight: (width + 2 kv, d) and (d, width), with the heads of queries, width, and those of keys and of
            values, kv, side by side; of attention to the memory both are d.
        heads, kv_heads: how many there are of queries, and of keys, which some of the queries share.
        scale: of the scores.
        across: whether it is attention to the memory.
        weights_dropping: of the attention weights.
        turning: cos and sin, (length, size / 2), by which queries and keys of attention to x are turned, and whether
            they turn neighbours (`F.rotate`); or None.
    """

    def __init__(
        self, mask: Any, weight: Any, bias: Any, out_weight: Any, out_bias: Any, *norm: Any, heads: int, scale: float,
        across: bool, shifts: bool, weights_dropping: Dropping, kv_heads: int | None = None, turning: Any = None,
        **residual: Any,
    ) -> None:  # fmt: skip
        super().__init__(*norm, **residual)
        self.mask, self.shifts = mask, shifts
        self.weights, self.work = (weight, out_weight), weight.size + out_weight.size
        self.biases = or_zeros(bias, len(weight), self.dtype), or_zeros(out_bias, self.d, self.dtype)
        self.heads, self.scale, self.across, self.weights_dropping = heads, scale, across, weights_dropping
        self.width, self.shared = out_weight.shape[1], heads // (kv_heads or heads)
        self.turning = turning and (*turning[:2], -turning[1], turning[2])
        self.turn, self.drop = passes.turn if turning else None, passes.drop if weights_dropping else None
        self.vectors = [self.d, self.d, self.d, len(weight)]  # norm, b_o, b

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out, batch, dtype = super().start(shares, x, memory), shares[-1].last, self.dtype
        self.memory = memory if self.across else self.inside
        self.source = len(memory) // batch if self.across else self.length
        kv = 2 * self.width // self.shared
        self.query = empty((len(x), self.width if self.across else self.width + kv), dtype)
        self.key_value = empty((len(memory), kv), dtype) if self.across else self.query
        self.softmax = empty((batch, self.heads, self.length, self.source), dtype)
        self.joined = empty((len(x), self.width), dtype)
        *angles, neighbours = self.turning or (None, None, None, False)
        self.places = places(
            x, self.memory, *self.weights, *self.biases, *self.norm, self.mask, self.inside, self.query, self.key_value,
            self.softmax, self.joined, self.normal, self.factor, out, *angles,
        )  # fmt: skip
        masks = {f"mask_{name}": n for name, n in zip(("item", "head", "row"), distances(self.mask))}
        drops = dict(zip(("w_low", "w_high", "w_below"), self.weights_dropping.numbers))
        drops |= dict(zip(("low", "high", "below"), self.dropping.numbers))
        sizes = Sizes(
            heads=self.heads, shared=self.shared, neighbours=neighbours, target=self.length, source=self.source,
            block=self.block, d=self.d, width=self.width, of_keys=kv // 2, of_query=self.query.shape[1],
            of_key_value=self.key_value.shape[1], of_head=self.width // self.heads, shifts=self.shifts,
            across=self.across, norm_first=self.norm_first, **masks, **drops,
        )  # fmt: skip
        self.sizes = np.array(sizes, np.int64)
        self.reals = np.array(Reals(self.eps, self.scale, self.weights_dropping.scale, self.dropping.scale), dtype)
        return out

    @property
    def block(self) -> int:
        """Sentences that go through together."""
        return max(1, BLOCK // max(self.length, self.source))

    def work_forward(self, share: Share) -> Work:
        rows = min(self.block, share.last - share.first) * self.length
        functions = Forward(
            **self.there, add_vector=passes.add_vector, softmax=passes.softmax, turn=self.turn, drop=self.drop
        )
        scratch = MEMORY + rows * self.d + self.cells
        return Work(_attention, addresses(self.dtype, *functions), slice(share.first, share.last), scratch)

    def work_backward(self, share: Share) -> Work:
        n = min(self.block, share.last - share.first)
        of_x, of_memory = 2 * self.d + self.width + self.query.shape[1], self.key_value.shape[1] * self.across
        scratch = MEMORY + n * (self.length * of_x + self.source * of_memory) + 2 * self.cells
        functions = Backward(
            **self.back, softmax_gradient=passes.softmax_gradient, turn=self.turn, drop_weights=self.drop
        )
        return Work(_attention_gradient, addresses(self.dtype, *functions), slice(share.first, share.last), scratch)

    @property
    def cells(self) -> int:
        """Weights of a sentence, in all heads."""
        return self.heads * self.length * self.source

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, out_bias, bias = vectors
        return [None, weights[0], bias, weights[1], out_bias, norm_weight, norm_bias]


Forward = namedtuple("Forward", "product normalize add_vector softmax drop turn add")
Backward = namedtuple("Backward", "product copy normalize_gradient drop add_rows_up softmax_gradient drop_weights turn")
Arrays = namedtuple(
    "Arrays",
    "x memory weight out_weight bias out_bias norm_weight norm_bias mask inside query key_value softmaxes joined "
    "normal factor out cos sin sin_back",
)
Gradients = namedtuple("Gradients", "g g_x g_memory g_weight g_out_weight norm_sums")
Sizes = namedtuple(  # of_...: columns; mask_...: distances in bytes
    "Sizes",
    "heads shared neighbours target source block d width of_keys of_query of_key_value of_head mask_item mask_head "
    "mask_row shifts across norm_first w_low w_high w_below low high below",
)
Reals = namedtuple("Reals", "eps scale w_scale sum_scale")


@called
def _attention(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, normalize, add_vector, softmax, drop, turn, add = named(functions, 0, Forward)
    (
        x, memory, weight, out_weight, bias, out_bias, norm_weight, norm_bias, mask, inside, query, key_value,
        softmaxes, joined, normal, factor, out, cos, sin, _,
    ) = named(places, 0, Arrays)  # fmt: skip
    (
        heads, shared, neighbours, target, source, block, d, width, of_keys, of_query, of_key_value, of_head,
        mask_item, mask_head, mask_row, shifts, across, norm_first, w_low, w_high, w_below, low, high, below,
    ) = named(sizes, 0, Sizes)  # fmt: skip
    row, heads_row, keys_row, head, cells_row = d * size, width * size, of_keys * size, of_head * size, source * size
    q_row, kv_row = of_query * size, of_key_value * size
    eps, scale, w_scale, sum_scale = named(reals, real, Reals)
    own = product, eps, size, scratch
    cells, keys = target * cells_row, 0 if across else heads_row
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
            multiply(own, j, row, False, weight + width * row, row, True, False, k, kv_row, many, of_key_value, d)
            call(add_vector, (eps, many, of_key_value, bias + heads_row, k, of_key_value))
        for b in range(first, last):
            weights = softmaxes + b * heads * cells
            if turn:
                call(turn, (eps, target, width + of_keys, of_head, cos, sin, neighbours, q, of_query))
            multiply_each(
                own, heads, q, head, q_row, False, k, head, shared, kv_row, True, weights, cells, 1, cells_row, target,
                source, of_head,
            )  # fmt: skip
            call(softmax, (scale, heads, target, source, weights, mask + b * mask_item, mask_head, mask_row, shifts))
            if drop:
                number = b * heads * target
                call(drop, (w_scale, heads * target, source, weights, dropped, number, w_low, w_high, w_below))
                weights = dropped
            multiply_each(
                own, heads, weights, cells, cells_row, False, k + keys_row, head, shared, kv_row, False,
                joined + b * target * heads_row, head, 1, heads_row, target, of_head, source,
            )  # fmt: skip
            q += target * q_row
            k += source * kv_row
        branch, added = (total, out + r) if norm_first else (out + r, total)
        h = joined + i * heads_row
        multiply(own, h, heads_row, False, out_weight, heads_row, True, False, branch, row, rows, d, width)
        call(add, (sum_scale, rows, d, x + r, branch, out_bias, added, i, low, high, below))
        if not norm_first:
            call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out + r, normal + r, factor + i * size))


@called
def _attention_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, copy, normalize_gradient, drop, add_rows_up, softmax_gradient, drop_weights, turn = named(
        functions, 0, Backward
    )
    (
        _, memory, weight, out_weight, _, _, norm_weight, _, _, inside, query, key_value, softmaxes, joined, normal,
        factor, _, cos, _, sin_back,
    ) = named(places, 0, Arrays)  # fmt: skip
    g, g_x, g_memory, g_weight, g_out_weight, norm_sums = named(gradients, 0, Gradients)
    (
        heads, shared, neighbours, target, source, block, d, width, of_keys, of_query, of_key_value, of_head,
        _, _, _, _, across, norm_first, w_low, w_high, w_below, low, high, below,
    ) = named(sizes, 0, Sizes)  # fmt: skip
    row, heads_row, keys_row, head, cells_row = d * size, width * size, of_keys * size, of_head * size, source * size
    q_row, kv_row = of_query * size, of_key_value * size
    _, scale, w_scale, sum_scale = named(reals, real, Reals)
    own = product, scale, size, scratch
    cells, keys = target * cells_row, 0 if across else heads_row
    most = min(block, stop - start)
    g_total = scratch + MEMORY * size
    g_inside = g_total + most * target * row
    g_heads = g_inside + most * target * row
    g_query = g_heads + most * target * heads_row
    g_key_value = g_query + most * target * q_row if across else g_query
    g_weights = g_key_value + most * source * kv_row
    dropped = g_weights + heads * cells
    out_sums = norm_sums + 2 * d * SUM
    sums = out_sums + d * SUM
    for first in range(start, stop, block):
        last, keep = min(first + block, stop), first > start
        rows, i, r = (last - first) * target, first * target, first * target * row
        normed, scales, g_sum, h = normal + r, factor + i * size, g_x + r, joined + i * heads_row
        if norm_first:
            call(copy, (scale, rows, d, g + r, g_sum, 0, 0, 0, 0))
        else:
            call(normalize_gradient, (scale, rows, d, g + r, normed, scales, norm_weight, g_sum, norm_sums, False))
        call(drop, (sum_scale, rows, d, g_sum, g_total, i, low, high, below))
        call(add_rows_up, (scale, rows, d, g_total, d, out_sums))
        multiply(own, g_total, row, False, out_weight, heads_row, False, False, g_heads, heads_row, rows, width, d)
        q, k = query + i * q_row, key_value + first * source * kv_row + keys
        g_head, g_q, g_k = g_heads, g_query, g_key_value + keys
        for b in range(first, last):
            weights = softmaxes + b * heads * cells
            multiply_each(
                own, heads, g_head, head, heads_row, False, k + keys_row, head, shared, kv_row, True,
                dropped if drop_weights else g_weights, cells, 1, cells_row, target, source, of_head,
            )  # fmt: skip
            kept = weights
            if drop_weights:
                all_rows, number = heads * target, b * heads * target
                call(drop_weights, (w_scale, all_rows, source, dropped, g_weights, number, w_low, w_high, w_below))
                call(drop_weights, (w_scale, all_rows, source, weights, dropped, number, w_low, w_high, w_below))
                kept = dropped
            multiply_each(
                own, heads, kept, cells, cells_row, True, g_head, head, 1, heads_row, False, g_k + keys_row, head,
                shared, kv_row, source, of_head, target,
            )  # fmt: skip
            call(softmax_gradient, (scale, heads * target, source, weights, g_weights))
            multiply_each(
                own, heads, g_weights, cells, cells_row, False, k, head, shared, kv_row, False, g_q, head, 1, q_row,
                target, of_head, source,
            )  # fmt: skip
            multiply_each(
                own, heads, g_weights, cells, cells_row, True, q, head, 1, q_row, False, g_k, head, shared, kv_row,
                source, of_head, target,
            )  # fmt: skip
            if turn:
                call(turn, (scale, target, width + of_keys, of_head, cos, sin_back, neighbours, g_q, of_query))
            g_head, q, g_q = g_head + target * heads_row, q + target * q_row, g_q + target * q_row
            k, g_k = k + source * kv_row, g_k + source * kv_row
        call(add_rows_up, (scale, rows, of_query, g_query, of_query, sums))
        multiply(own, g_query, q_row, True, inside + r, row, False, keep, g_weight, row, of_query, d, rows)
        multiply(own, g_total, row, True, h, heads_row, False, keep, g_out_weight, heads_row, d, width, rows)
        if across:
            j, many, wide = first * source * row, (last - first) * source, of_key_value
            of_it, g_of_it = weight + width * row, g_weight + width * row  # for keys and values, below those of queries
            call(add_rows_up, (scale, many, wide, g_key_value, wide, sums + width * SUM))
            multiply(own, g_key_value, kv_row, True, memory + j, row, False, keep, g_of_it, row, wide, d, many)
            multiply(own, g_key_value, kv_row, False, of_it, row, False, True, g_memory + j, row, many, d, wide)
        into = g_inside if norm_first else g_sum
        multiply(own, g_query, q_row, False, weight, row, False, not norm_first, into, row, rows, d, of_query)
        if norm_first:
            call(normalize_gradient, (scale, rows, d, g_inside, normed, scales, norm_weight, g_sum, norm_sums, True))
