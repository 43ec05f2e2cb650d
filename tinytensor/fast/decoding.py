"""Steps of decoding in compiled loops: rows more of sequences whose keys and values are kept, through sub-layers.

The sub-layers are those of `sublayers.py`; attention to what is kept is one more of them. A step has a row for each
branch, and wants no gradient: its products take microseconds, so all arrays but the kept ones are made once (`Steps`).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import passes, residual
from .compiling import address, addresses, call, called, distances, named, numbers
from .compiling import fits as fits
from .feed_forward import FeedForward as FeedForward
from .few_rows import dots, mix
from .pool import empty
from .products import MEMORY, multiply
from .residual import Norm as Norm
from .residual import Residual, Share, Work, one_after_the_other, record

BRANCHES = 8  # of an item; of more, products that copy the keys are faster


class KeptAttention(Residual):
    """Attention of x to keys and values that are kept, which those of x join first; or of a memory, if it is `across`.

    Args:
        weight, out_weight: (width + 2 kv, d) and (d, width), as in `multi_head.Attention`.
        heads, kv_heads, scale: likewise.
        neighbours: whether queries and keys that are turned are turned by neighbours (`F.rotate`).
    """

    def __init__(
        self, weight: Any, bias: Any, out_weight: Any, out_bias: Any, *norm: Any, heads: int, scale: float,
        across: bool, kv_heads: int | None = None, neighbours: bool = False, **residual: Any,
    ) -> None:  # fmt: skip
        super().__init__((weight, out_weight), (bias, out_bias), *norm, **residual)
        self.heads, self.scale, self.width, self.across = heads, scale, out_weight.shape[1], across
        self.kv, self.neighbours = self.width // heads * (kv_heads or heads), neighbours

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out = super().start(shares, x, memory)
        projected = self.width if self.across else self.width + 2 * self.kv
        query, joined = (empty((len(x), width), self.dtype) for width in (projected, self.width))
        maps = {"weight": self.weights[0], "bias": self.biases[0]}
        sizes = {"width": self.width, "kv": self.kv, "projected": projected, "heads": self.heads}
        sizes |= {"joins": not self.across, "neighbours": self.neighbours}
        self.list_all(
            (Arrays, Sizes, Reals), {**maps, "query": query, "joined": joined, "where": None, "seen": None},
            sizes, {"score_scale": self.scale},
        )  # fmt: skip
        return out

    def work_forward(self, share: Share) -> Work:
        functions = Forward(
            **self.there, turn=passes.turn, dots=dots, add_vector=passes.add_vector, append=append, mix=mix,
            softmax=passes.softmax,
        )  # fmt: skip
        scratch = MEMORY + self.d * len(self.x)
        return Work(_attention_to_kept, addresses(self.dtype, *functions), share.rows(self.length), scratch)


class Steps:
    """Sub-layers, and the arrays of up to `rows` rows."""

    def __init__(self, loops: Sequence[Any], rows: int) -> None:
        first, share = loops[0], Share(0, 0, rows)
        self.loops, self.rows, self.dtype = loops, rows, first.dtype
        self.x = x = empty((rows, first.d), first.dtype)
        for loop in loops:
            x = loop.start([share], x, None)
        attentions = [loop for loop in loops if isinstance(loop, KeptAttention)]
        self.places = np.zeros((len(attentions), 2), np.int64)
        self.past, self.memory = np.zeros((2, len(Seen._fields)), np.int64)
        for loop, row in zip(attentions, self.places):
            loop.places[-2:] = address(row), address(self.memory if loop.across else self.past)
        self.heads = max(loop.heads for loop in attentions)
        works = [loop.work_forward(share) for loop in loops]
        self.out, self.scratch = x, max(work.scratch for work in works)
        self.table = np.array([work.numbers(loop, 0) for work, loop in zip(works, loops)], np.int64)
        self.compiled = one_after_the_other(self.dtype).ctypes

    def read(self, arrays: Sequence[Any]) -> None:
        """Where keys and values side by side, (batch, places, 2 kv), are kept from now on, for each attention."""
        self.places[:] = [(address(array), array.strides[0]) for array in arrays]

    def step(self, x: Any, past: Seen, memory: Seen | None) -> Any:
        """x (batch, branches, d) through all of them; `past` and `memory` are of `seen`, for attentions to these."""
        batch, branches, d = x.shape
        rows = batch * branches
        self.x[:rows] = x.reshape(rows, d)
        self.past[:] = past
        longest = past.there
        if memory is not None:
            self.memory[:] = memory
            longest = max(longest, memory.there)
        self.table[:, -1] = rows
        scratch = empty(self.scratch + branches * self.heads * longest, self.dtype)
        self.compiled(0, self.dtype.itemsize, address(self.table), len(self.table), address(scratch))
        return self.out[:rows].reshape(x.shape).copy()


def seen(there: int, branches: int, mask: Any = None, shifts: bool = False, angles: Any = (None, None)) -> Seen:
    """The numbers of a step that attentions read.

    Args:
        there: how many places of keys and values there are, those of this step among them.
        mask: numbers to add to scores, (batch, heads, branches, places) or 1 each but for the last; or None.
        shifts: False where these are 0 and -inf alone.
        angles: cos and sin, (rows, size / 2), or None where nothing is turned.
    """
    cos, sin = (0 if angle is None else address(angle) for angle in angles)
    item, head, row = distances(mask)
    return Seen(there, branches, 0 if mask is None else address(mask), item, head, row, shifts, cos, sin)


Forward = record("Forward", "turn dots add_vector append mix softmax")
Arrays = record("Arrays", "weight bias query joined where seen")
Sizes = record("Sizes", "width kv projected heads joins neighbours")
Reals = record("Reals", "score_scale")
Where = namedtuple("Where", "first item")
Seen = namedtuple("Seen", "there branches mask mask_item mask_head mask_row shifts cos sin")


@called
def _attention_to_kept(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    """Where a query has n times as many heads as keys, n one after the other share the same keys and values.

    A place has `kv` numbers of keys, and as many of values.
    """
    do, at = named(functions, 0, Forward), named(places, 0, Arrays)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    kept, seen = named(at.where, 0, Where), named(at.seen, 0, Seen)
    rows, branches, there = stop, seen.branches, seen.there
    wide, kept_row, query_row = n.width * size, 2 * n.kv * size, n.projected * size
    own, total = (do.product, c.scale, size, scratch), scratch + MEMORY * size
    scores = total + rows * n.d * size
    residual.normalize(do, at, n, c, size, 0, rows)
    residual.to_columns(own, do.dots, at.inside, at.weight, at.query, rows, n.projected, n.d, rows)
    call(do.add_vector, (c.eps, rows, n.projected, at.bias, at.query, n.projected))
    head = n.width // n.heads
    if n.joins:
        if seen.cos:
            call(do.turn, (c.eps, rows, n.width + n.kv, head, seen.cos, seen.sin, n.neighbours, at.query, n.projected))
        new = kept.first + (there - branches) * kept_row
        call(do.append, (c.eps, rows, branches, 2 * n.kv, at.query + wide, query_row, new, kept.item, kept_row))
    few, seen_row, shared = branches <= BRANCHES or there == 0, there * size, n.width // n.kv
    for b in range(rows // branches):
        queries, out = at.query + b * branches * query_row, at.joined + b * branches * wide
        keys = kept.first + b * kept.item
        for h in range(n.heads):
            q, k = queries + h * head * size, keys + h // shared * head * size
            weights = scores + h * branches * seen_row
            if few:
                call(do.dots, (c.scale, size, branches, there, head, q, query_row, k, kept_row, 0, weights, seen_row))
            else:
                multiply(own, q, query_row, False, k, kept_row, True, False, weights, seen_row, branches, there, head)
        hidden = seen.mask + b * seen.mask_item if seen.mask else seen.mask
        masked = hidden, seen.mask_head, seen.mask_row, seen.shifts
        call(do.softmax, (c.score_scale, n.heads, branches, there, scores, *masked))
        for h in range(n.heads):
            v, y = keys + (n.kv + h // shared * head) * size, out + h * head * size
            weights = scores + h * branches * seen_row
            if few:
                call(do.mix, (c.scale, branches, there, head, weights, seen_row, v, kept_row, y, wide))
            else:
                multiply(own, weights, seen_row, False, v, kept_row, False, False, y, wide, branches, head, there)
    branch = total if n.norm_first else at.out
    residual.to_columns(own, do.dots, at.joined, at.out_weight, branch, rows, n.d, n.width, rows)
    residual.sum_up(do, at, n, c, size, 0, rows, total)


@called
def append(real, rows, branches, columns, source, source_row, out, out_item, out_row):
    """Copy rows of so many columns: those of an item lie one behind the other, the items anywhere."""
    for r in range(rows):
        x = numbers(source + r * source_row, real)
        y = numbers(out + r // branches * out_item + r % branches * out_row, real)
        for i in range(columns):
            y[i] = x[i]
