"""Attention on raw arrays, in place, for some queries at a time.

Short sequences keep their weights for the backward pass, and the cores share the batch. Long ones go in blocks of
queries whose weights are computed anew: memory grows with the length, not with its square (Rabe and Staats 2021,
"Self-attention does not need O(n^2) memory").
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.fast.texts import Way
from tinytensor.tensor import wrap

from ..functional.dropout import Dropped
from .activations import softmax_gradient_in_place, softmax_rows
from .dropout import drop_into
from .tuning import ATTENTION_WORK as WORK

LONG = {"cpu": 1 << 20, "gpu": 1 << 24}  # elements of a head's weights from which on attention goes in blocks
BLOCK = {"cpu": 1 << 19, "gpu": 1 << 24}  # elements of a block: a GPU, where every call has its price, gets larger ones


def is_long(shape: tuple[int, ...], device: str) -> bool:
    """True if attention with weights (..., target, source) goes in blocks."""
    return shape[-2] * shape[-1] >= LONG[device]


class Attention(NamedTuple):
    """The inputs of attention, as raw arrays with the same leading dimensions.

    Attributes:
        query, key, value: (..., target, d_k), (..., source, d_k), (..., source, d_v).
        mask: broadcasts to (..., target, source): True for what must not be seen, or added to the scores; or None.
        causal: whether position i sees the source up to i only.
        scale: a factor of the scores.
        dropped: which weights dropout keeps; where attention goes in blocks, `SeededDropped`; or None.
        keep: its raw mask, (..., target, source), or None.
        columns: which of the source a part has.
    """

    query: Any
    key: Any
    value: Any
    mask: Any
    causal: bool
    scale: float
    dropped: Any
    keep: Any = None
    columns: slice = slice(None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weights, (..., target, source)."""
        return *self.query.shape[:-1], self.key.shape[-2]

    @property
    def keep_scale(self) -> float:
        return 1.0 if self.dropped is None else self.dropped.scale

    def with_keep(self, xp: Any) -> Attention:
        """The same with the raw mask of dropout."""
        dropped = self.dropped
        return self if dropped is None else self._replace(keep=xp.broadcast_to(dropped.keep._data, self.shape))

    def of(self, xp: Any, lead: Any, rows: slice | None = None) -> Attention:
        """The part at a leading index; or of some queries, in 32 bits at least, with the sources that they may see."""
        (target, source), keep = self.shape[-2:], self.keep
        some, cut = rows or slice(0, target), slice(0, min(rows.stop, source) if rows and self.causal else source)
        mask = None if self.mask is None else xp.broadcast_to(self.mask, self.shape)[lead][..., some, :]
        if self.causal:
            mask = xp.arange(cut.stop) > xp.arange(some.start, some.stop)[:, None]
        elif rows and mask is not None and mask.dtype.kind == "b" and xp.device == "cpu":  # a GPU would be waited for
            (seen,) = xp.nonzero(~mask.all(axis=0))
            cut = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
            mask = mask[:, cut]
        arrays = self.query[lead][..., some, :], self.key[lead][..., cut, :], self.value[lead][..., cut, :]
        if rows:
            arrays = tuple([xp.astype(x, _wide(x.dtype)) for x in arrays])
        if keep is not None:
            keep = xp.contiguous(keep[lead][..., some, cut])
        elif self.dropped is not None:
            keep = xp.contiguous(self.dropped.block(lead, some)[:, cut])
        return Attention(*arrays, mask, False, self.scale, self.dropped, keep, cut)

    def weigh(self, xp: Any, weights: Any, kept: Any) -> None:
        """Write softmax(Q K^T * scale + mask), and what dropout keeps of it."""
        narrow, key, keep = self.query.dtype.itemsize < 4, xp.matrix_transpose(self.key), self.keep
        if narrow:  # scores are scaled before they overflow
            weights[...] = xp.matmul(self.query * self.scale, key)
        else:
            xp.matmul(self.query, key, out=weights)
            weights *= self.scale
        if self.mask is not None and self.mask.dtype.kind == "b":
            # A hidden score may be NaN, which it would stay if infinity were added.
            weights[...] = xp.where(self.mask, weights.dtype.type(-math.inf), weights)
        elif self.mask is not None:
            weights += self.mask
        softmax_rows(xp, weights)
        if narrow:
            kept[...] = weights if keep is None else weights * keep * self.keep_scale
        elif keep is not None:
            drop_into(xp, weights, keep, self.keep_scale, kept)

    def differentiate(self, xp: Any, g: Any, weights: Any, kept: Any, g_scores: Any, outs: Any, more: bool) -> None:
        """Write the gradients for scores, query, key and value; to those for key and value, add if there are more."""
        g_query, g_key, g_value = outs
        multiply(xp, xp.matrix_transpose(kept), g, g_value, more)
        value = xp.matrix_transpose(self.value)
        if g_scores.dtype != g.dtype:
            g_scores[...] = xp.matmul(g, value)
        else:
            xp.matmul(g, value, out=g_scores)
        if self.keep is not None:
            drop_into(xp, g_scores, self.keep, self.keep_scale, g_scores)
        softmax_gradient_in_place(xp, g_scores, weights)
        scaled = xp.astype(g_scores * self.scale, self.query.dtype)
        xp.matmul(scaled, self.key, out=g_query)
        multiply(xp, xp.matrix_transpose(scaled), self.query, g_key, more)


def multiply(xp: Any, a: Any, b: Any, out: Any, more: bool) -> None:
    """Write a b into `out`, or add it to what is there if there is `more`."""
    if more:
        out += xp.matmul(a, b)
    else:
        xp.matmul(a, b, out=out)


def _wide(dtype: Any) -> Any:
    return tt.float32 if dtype.itemsize < 4 else dtype


# ---- all queries at once


def attend_at_once(xp: Any, given: Attention, out: Any) -> tuple[Any, Any]:
    """Write the result into `out`; returns the weights, and those that dropout keeps."""
    weights = kept = xp.fresh(given.shape, dtype=_wide(out.dtype))
    if given.keep is not None or weights.dtype != out.dtype:
        kept = xp.fresh(given.shape, dtype=out.dtype)

    def attend_some(i: slice) -> None:
        some = given.of(xp, i)
        some.weigh(xp, weights[i], kept[i])
        xp.matmul(kept[i], some.value, out=out[i])

    xp.in_parts(attend_some, len(weights), weights.size * WORK)
    return weights, kept


def back_at_once(xp: Any, g: Any, given: Attention, outs: Any, weights: Any, kept: Any) -> Any:
    """Write the gradients for query, key and value; returns that for the scores, before their scale."""
    g_scores = xp.fresh_like(weights)

    def differentiate_some(i: slice) -> None:
        given.of(xp, i).differentiate(xp, g[i], weights[i], kept[i], g_scores[i], [x[i] for x in outs], False)

    xp.in_parts(differentiate_some, len(weights), weights.size * WORK)
    return g_scores


# ---- block after block


def attend_in_blocks(xp: Any, given: Attention, out: Any) -> None:
    """Write the result into `out`."""

    def attend_block(head: Any, rows: slice, some: Attention, weights: Any, kept: Any, _: Any) -> None:
        some.weigh(xp, weights, kept)
        out[head][rows] = xp.matmul(kept, some.value)

    _each_block(xp, given, attend_block)


def back_in_blocks(xp: Any, g: Any, given: Attention, outs: Any) -> None:
    """Write the gradients for query, key and value."""
    sums = [xp.zeros(x.shape, dtype=_wide(x.dtype)) for x in outs]

    def differentiate_block(head: Any, rows: slice, some: Attention, weights: Any, kept: Any, g_scores: Any) -> None:
        some.weigh(xp, weights, kept)
        cut, (g_query, g_key, g_value) = some.columns, (x[head] for x in sums)
        to, of_rows = (g_query[rows], g_key[cut], g_value[cut]), xp.astype(g[head][rows], weights.dtype)
        some.differentiate(xp, of_rows, weights, kept, g_scores, to, True)

    _each_block(xp, given, differentiate_block)
    for gradient, total in zip(outs, sums):
        gradient[...] = total


def _each_block(xp: Any, given: Attention, compute: Callable[..., None]) -> None:
    """Compute each block of each head, in arrays for weights, for those that dropout keeps, and for gradients."""
    heads, blocks = list(itertools.product(*map(range, given.shape[:-2]))), list(_blocks(given.shape, xp.device))

    def compute_heads(i: slice) -> None:
        size = blocks[0].stop * given.shape[-1] if blocks else 0
        memory = [xp.fresh(size, dtype=_wide(given.query.dtype)) for _ in range(3)]
        for head, rows in itertools.product(heads[i], blocks):
            some = given.of(xp, head, rows)
            weights, kept, g_scores = (xp.reshape(x[: math.prod(some.shape)], some.shape) for x in memory)
            compute(head, rows, some, weights, weights if some.keep is None else kept, g_scores)

    xp.in_parts(compute_heads, len(heads), math.prod(given.shape) * WORK)


def _blocks(shape: tuple[int, ...], device: str) -> Iterator[slice]:
    """The queries of each block."""
    count, target = max(1, BLOCK[device] // shape[-1]), shape[-2]
    return (slice(start, min(start + count, target)) for start in range(0, target, count))


# ---- dropout: each block draws its part of the mask from a seed and from its place, so none needs the whole of it


SEEDED = Way("dropout of long sequences", "nn.functional.dropout:Dropped.draw", "nn.functional.dropout:Dropped.apply")


class SeededDropped(Dropped):
    """A dropout mask of long sequences, which a seed stands for.

    Attributes:
        seed: what the mask is drawn from.
        shape: (..., target, source) of the weights.
    """

    def __init__(self, seed: int, shape: tuple[int, ...], scale: float, device: str) -> None:
        self.seed, self.shape, self.scale, self.device = seed, shape, scale, device

    @staticmethod
    def draw_long(p: float, shape: tuple[int, ...], device: str) -> SeededDropped | None:
        """A mask of this shape, drawn from a seed when needed; None if it is small enough to be held."""
        if not is_long(shape, device) or not SEEDED.holds():
            return None
        seed = int(tt.random.integers(2**62).item())
        return SeededDropped(seed, shape, 1 / (1 - p) if p < 1 else 0.0, device)

    @property
    def keep(self) -> Tensor:
        """The whole mask: true with probability 1 / scale."""
        heads = itertools.product(*map(range, self.shape[:-2]))
        parts = [self.block(head, rows) for head in heads for rows in _blocks(self.shape, self.device)]
        return tt.reshape(tt.concat([wrap(own, None) for own in parts]), self.shape)

    def block(self, head: tuple[int, ...], rows: slice) -> Any:
        """The raw mask of a block."""
        place = functools.reduce(lambda place, n: place << 40 | n, (*head, rows.start), 0) << 64 | self.seed
        p, shape = 1 / self.scale if self.scale else 0.0, (rows.stop - rows.start, self.shape[-1])
        return tt.random.Generator(place).bernoulli(p, shape, device=self.device)._data
