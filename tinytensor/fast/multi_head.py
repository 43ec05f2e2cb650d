"""Attention as a sub-layer, see `sublayers.py`: f(x) = Concat(head_1, ..., head_h) W_oᵀ + b_o."""

from __future__ import annotations

from typing import Any

from . import passes, residual
from .compiling import addresses, call, called, distances, named
from .hashed import Dropping
from .pool import empty
from .products import MEMORY, multiply, multiply_each
from .residual import BLOCK, SUM, Residual, Share, Work, record


class Attention(Residual):
    """Multi-head attention of x to itself or to the memory.

    Args:
        weight, out_weight: (width + 2 kv, d) and (d, width), with the heads of queries, width, and those of keys and of
            values, kv, side by side; of attention to the memory both are d.
        mask: what is added to the scores, of four dimensions (batch, heads, length, source), or 1 but for the last.
        shifts: False where a mask holds 0 and -inf alone, so that the scores stay as small as they are.
        heads, kv_heads: how many there are of queries, and of keys, which some of the queries share.
        scale: of the scores.
        across: whether it is attention to the memory.
        weights_dropping: of the attention weights.
        turning: cos and sin, (length, size / 2), by which queries and keys of attention to x are turned, and whether
            they turn neighbours (`F.rotate`); or None.
    """

    def __init__(
        self, weight: Any, bias: Any, out_weight: Any, out_bias: Any, mask: Any, *norm: Any, heads: int, scale: float,
        across: bool, shifts: bool, weights_dropping: Dropping, kv_heads: int | None = None, turning: Any = None,
        **residual: Any,
    ) -> None:  # fmt: skip
        super().__init__((weight, out_weight), (bias, out_bias), *norm, **residual)
        self.mask, self.shifts, self.heads, self.scale, self.across = mask, shifts, heads, scale, across
        self.width, self.shared = out_weight.shape[1], heads // (kv_heads or heads)
        self.turning, self.weights_dropping = turning, weights_dropping
        self.turn, self.drop = passes.turn if turning else None, passes.drop if weights_dropping else None

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out, batch, dtype = super().start(shares, x, memory), shares[-1].last, self.dtype
        memory = memory if self.across else self.inside
        self.source = len(memory) // batch if self.across else self.length
        kv = 2 * self.width // self.shared
        self.query = empty((len(x), self.width if self.across else self.width + kv), dtype)
        self.key_value = empty((len(memory), kv), dtype) if self.across else self.query
        cos, sin, neighbours = self.turning or (None, None, False)
        arrays = {
            "memory": memory, "weight": self.weights[0], "bias": self.biases[0], "mask": self.mask, "query": self.query,
            "key_value": self.key_value, "softmaxes": empty((batch, self.heads, self.length, self.source), dtype),
            "joined": empty((len(x), self.width), dtype), "cos": cos, "sin": sin,
            "sin_back": None if sin is None else -sin,
        }  # fmt: skip
        sizes = {
            "heads": self.heads, "shared": self.shared, "neighbours": neighbours, "target": self.length,
            "source": self.source, "block": self.block, "width": self.width, "of_keys": kv // 2,
            "of_query": self.query.shape[1], "of_key_value": self.key_value.shape[1],
            "of_head": self.width // self.heads, "shifts": self.shifts, "across": self.across,
        }  # fmt: skip
        sizes |= dict(zip(("mask_item", "mask_head", "mask_row"), distances(self.mask)))
        sizes |= dict(zip(("weights_low", "weights_high", "weights_below"), self.weights_dropping.numbers))
        reals = {"score_scale": self.scale, "weights_scale": self.weights_dropping.scale}
        self.list_all((Arrays, Sizes, Reals), arrays, sizes, reals)
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
        found = super().in_order(weights, vectors)
        return [*found[:4], None, *found[4:]]  # None for the mask


Forward = record("Forward", "add_vector softmax drop turn")
Backward = record("Backward", "softmax_gradient drop_weights turn")
Arrays = record("Arrays", "memory weight bias mask query key_value softmaxes joined cos sin sin_back")
Gradients = record("Gradients", "weight out_weight")
Sizes = record(  # of_...: columns; mask_...: distances in bytes
    "Sizes",
    "heads shared neighbours target source block width of_keys of_query of_key_value of_head mask_item "
    "mask_head mask_row shifts across weights_low weights_high weights_below",
)
Reals = record("Reals", "score_scale weights_scale")


@called
def _attention(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at = named(functions, 0, Forward), named(places, 0, Arrays)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    heads, target, source, d = n.heads, n.target, n.source, n.d
    row, heads_row, keys_row, cells_row = d * size, n.width * size, n.of_keys * size, source * size
    head, q_row, kv_row = n.of_head * size, n.of_query * size, n.of_key_value * size
    cells, keys = target * cells_row, 0 if n.across else heads_row
    own, total = (do.product, c.eps, size, scratch), scratch + MEMORY * size
    dropped = total + min(n.block, stop - start) * target * row
    drops = n.weights_low, n.weights_high, n.weights_below
    for first in range(start, stop, n.block):
        many = min(n.block, stop - first)
        rows, i = many * target, first * target
        q, k, out = at.query + i * q_row, at.key_value + first * source * kv_row + keys, at.joined + i * heads_row
        residual.normalize(do, at, n, c, size, i, rows)
        multiply(own, at.inside + i * row, row, False, at.weight, row, True, False, q, q_row, rows, n.of_query, d)
        call(do.add_vector, (c.eps, rows, n.of_query, at.bias, q, n.of_query))
        if n.across:  # keys and values of the memory, whose weights are below those of queries
            j, of_it, all_rows, wide = at.memory + first * source * row, heads_row * d, many * source, n.of_key_value
            multiply(own, j, row, False, at.weight + of_it, row, True, False, k, kv_row, all_rows, wide, d)
            call(do.add_vector, (c.eps, all_rows, wide, at.bias + heads_row, k, wide))
        for b in range(first, first + many):
            weights = at.softmaxes + b * heads * cells
            if do.turn:
                end = n.width + n.of_keys
                call(do.turn, (c.eps, target, end, n.of_head, at.cos, at.sin, n.neighbours, q, n.of_query))
            multiply_each(
                own, heads, q, head, q_row, False, k, head, n.shared, kv_row, True, weights, cells, 1, cells_row,
                target, source, n.of_head,
            )  # fmt: skip
            masked = at.mask + b * n.mask_item, n.mask_head, n.mask_row, n.shifts
            call(do.softmax, (c.score_scale, heads, target, source, weights, *masked))
            if do.drop:
                all_rows = heads * target
                call(do.drop, (c.weights_scale, all_rows, source, weights, dropped, b * all_rows, *drops))
                weights = dropped
            multiply_each(
                own, heads, weights, cells, cells_row, False, k + keys_row, head, n.shared, kv_row, False, out, head,
                1, heads_row, target, n.of_head, source,
            )  # fmt: skip
            q, k, out = q + target * q_row, k + source * kv_row, out + target * heads_row
        branch, joined = total if n.norm_first else at.out + i * row, at.joined + i * heads_row
        multiply(own, joined, heads_row, False, at.out_weight, heads_row, True, False, branch, row, rows, d, n.width)
        residual.sum_up(do, at, n, c, size, i, rows, total)


@called
def _attention_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at, to = named(functions, 0, Backward), named(places, 0, Arrays), named(gradients, 0, Gradients)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    heads, target, source, d = n.heads, n.target, n.source, n.d
    row, heads_row, keys_row, cells_row = d * size, n.width * size, n.of_keys * size, source * size
    head, q_row, kv_row = n.of_head * size, n.of_query * size, n.of_key_value * size
    cells, keys = target * cells_row, 0 if n.across else heads_row
    most = min(n.block, stop - start)
    own, g_total = (do.product, c.scale, size, scratch), scratch + MEMORY * size
    g_inside = g_total + most * target * row
    g_joined = g_inside + most * target * row
    g_query = g_joined + most * target * heads_row
    g_key_value = g_query + most * target * q_row if n.across else g_query
    g_weights = g_key_value + most * source * kv_row
    dropped = g_weights + heads * cells
    sums = to.sums + 3 * d * SUM  # behind those of the norm and of the last bias
    drops = n.weights_low, n.weights_high, n.weights_below
    for first in range(start, stop, n.block):
        many, keep = min(n.block, stop - first), first > start
        rows, i = many * target, first * target
        inside, joined = at.inside + i * row, at.joined + i * heads_row
        residual.differentiate_sum(do, at, to, n, c, size, i, rows, g_total)
        multiply(
            own, g_total, row, False, at.out_weight, heads_row, False, False, g_joined, heads_row, rows, n.width, d
        )
        q, k = at.query + i * q_row, at.key_value + first * source * kv_row + keys
        g_head, g_q, g_k = g_joined, g_query, g_key_value + keys
        for b in range(first, first + many):
            weights = kept = at.softmaxes + b * heads * cells
            multiply_each(
                own, heads, g_head, head, heads_row, False, k + keys_row, head, n.shared, kv_row, True,
                dropped if do.drop_weights else g_weights, cells, 1, cells_row, target, source, n.of_head,
            )  # fmt: skip
            if do.drop_weights:
                all_rows = heads * target
                for x, out in ((dropped, g_weights), (weights, dropped)):
                    call(do.drop_weights, (c.weights_scale, all_rows, source, x, out, b * all_rows, *drops))
                kept = dropped
            multiply_each(
                own, heads, kept, cells, cells_row, True, g_head, head, 1, heads_row, False, g_k + keys_row, head,
                n.shared, kv_row, source, n.of_head, target,
            )  # fmt: skip
            call(do.softmax_gradient, (c.score_scale, heads * target, source, weights, g_weights))
            multiply_each(
                own, heads, g_weights, cells, cells_row, False, k, head, n.shared, kv_row, False, g_q, head, 1, q_row,
                target, n.of_head, source,
            )  # fmt: skip
            multiply_each(
                own, heads, g_weights, cells, cells_row, True, q, head, 1, q_row, False, g_k, head, n.shared, kv_row,
                source, n.of_head, target,
            )  # fmt: skip
            if do.turn:
                end = n.width + n.of_keys
                call(do.turn, (c.eps, target, end, n.of_head, at.cos, at.sin_back, n.neighbours, g_q, n.of_query))
            g_head, q, g_q = g_head + target * heads_row, q + target * q_row, g_q + target * q_row
            k, g_k = k + source * kv_row, g_k + source * kv_row
        call(do.add_rows_up, (c.scale, rows, n.of_query, g_query, n.of_query, sums))
        multiply(own, g_query, q_row, True, inside, row, False, keep, to.weight, row, n.of_query, d, rows)
        multiply(own, g_total, row, True, joined, heads_row, False, keep, to.out_weight, heads_row, d, n.width, rows)
        if n.across:
            j, of_it, all_rows, wide = first * source * row, heads_row * d, many * source, n.of_key_value
            call(do.add_rows_up, (c.scale, all_rows, wide, g_key_value, wide, sums + n.width * SUM))
            into = to.weight + of_it
            multiply(own, g_key_value, kv_row, True, at.memory + j, row, False, keep, into, row, wide, d, all_rows)
            into = to.g_memory + j
            multiply(own, g_key_value, kv_row, False, at.weight + of_it, row, False, True, into, row, all_rows, d, wide)
        into = g_inside if n.norm_first else to.g_x + i * row
        multiply(own, g_query, q_row, False, at.weight, row, False, not n.norm_first, into, row, rows, d, n.of_query)
        residual.differentiate_norm(do, at, to, n, c, size, i, rows, g_inside)
