"""Steps of decoding in compiled loops: rows more of sequences whose keys and values are kept, through sub-layers.

The sub-layers are those of `sublayers.py`; attention to what is kept is one more of them. A step has a row for each
branch, and wants no gradient: its products take microseconds, so all arrays but the kept ones are made once (`Steps`).
"""

from __future__ import annotations

import math
from collections import Counter, namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import passes
from .compiling import address, addresses, call, called, distances, named, numbers, or_zeros
from .compiling import fits as fits
from .compiling import places as places
from .feed_forward import FeedForward as FeedForward
from .feed_forward import GatedFeedForward as GatedFeedForward
from .few_rows import dots, mix
from .pool import empty
from .products import MEMORY, multiply
from .residual import Norm as Norm
from .residual import Residual, Share, Work, one_after_the_other, to_columns

BRANCHES = 8  # of an item; of more, products that copy the keys are faster


def as_mask(hidden: Any, dtype: Any) -> Any:
    """The numbers to add to scores (batch, heads, branches, places): -inf where `hidden`, which broadcasts, is True.

    None where nothing is hidden.
    """
    if hidden is None or not hidden.any():
        return None
    return np.ascontiguousarray(np.where(hidden, dtype.type(-math.inf), dtype.type(0)))


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
        super().__init__(*norm, **residual)
        self.weights, self.biases = (weight, out_weight), (bias, or_zeros(out_bias, self.d, self.dtype))
        self.heads, self.scale, self.width = heads, scale, out_weight.shape[1]
        self.kv = self.width // heads * (kv_heads or heads)
        self.projected = self.width if across else self.width + 2 * self.kv
        self.across, self.flags = across, (not across, neighbours)

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out = super().start(shares, x, memory)
        self.query, self.joined = (self.empty((len(x), width), self.dtype) for width in (self.projected, self.width))
        self.places = places(
            x, *self.weights, *self.biases, *self.norm, self.inside, self.query, self.joined, self.normal, self.factor,
            out, None, None,
        )  # fmt: skip
        columns = self.d, self.width, self.kv, self.projected, self.heads
        self.sizes = np.array(Sizes(*columns, *self.flags, self.norm_first), np.int64)
        self.reals = np.array(Reals(self.eps, self.scale), self.dtype)
        return out

    def work_forward(self, share: Share) -> Work:
        functions = Functions(
            **self.there, turn=passes.turn, dots=dots, add_vector=passes.add_vector, append=append, mix=mix,
            softmax=passes.softmax,
        )  # fmt: skip
        scratch = MEMORY + self.d * len(self.x)
        return Work(_attention_to_kept, addresses(self.dtype, *functions), share.rows(self.length), scratch)


class Reused:
    """Arrays of sub-layers that are never needed at the same time: those of the same shape are the same."""

    def __init__(self) -> None:
        self.made: dict[Any, Any] = {}
        self.asked: Counter[Any] = Counter()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.asked[shape] += 1
        key = shape, self.asked[shape]
        if key not in self.made:
            self.made[key] = empty(shape, dtype)
        return self.made[key]


class Steps:
    """Sub-layers, and the arrays of up to `rows` rows."""

    def __init__(self, loops: Sequence[Any], rows: int) -> None:
        first, share = loops[0], Share(0, 0, rows)
        self.loops, self.rows, self.dtype = loops, rows, first.dtype
        self.x = x = empty((rows, first.d), first.dtype)
        arrays = Reused(), Reused()  # of a sub-layer, and of the next one, which reads its result
        for n, loop in enumerate(loops):
            loop.empty = arrays[n % 2].empty
            arrays[n % 2].asked.clear()
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
        mask: as of `as_mask`; or, with `shifts`, other numbers to add to the scores.
        angles: cos and sin, (rows, size / 2), or None where nothing is turned.
    """
    cos, sin = (0 if angle is None else address(angle) for angle in angles)
    item, head, row = distances(mask)
    return Seen(there, branches, 0 if mask is None else address(mask), item, head, row, shifts, cos, sin)


Functions = namedtuple("Functions", "product normalize add turn dots add_vector append mix softmax")
Arrays = namedtuple(
    "Arrays", "x weight out_weight bias out_bias norm_weight norm_bias inside query joined normal factor out where seen"
)
Sizes = namedtuple("Sizes", "d width kv projected heads joins neighbours norm_first")
Reals = namedtuple("Reals", "eps scale")
Where = namedtuple("Where", "first item")
Seen = namedtuple("Seen", "there branches mask mask_item mask_head mask_row shifts cos sin")


@called
def _attention_to_kept(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    """Where a query has n times as many heads as keys, n one after the other share the same keys and values.

    A place has `kv` numbers of keys, and as many of values.
    """
    do, at = named(functions, 0, Functions), named(places, 0, Arrays)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    kept, seen = named(at.where, 0, Where), named(at.seen, 0, Seen)
    rows, branches, there = stop, seen.branches, seen.there
    row, wide, kept_row, query_row = n.d * size, n.width * size, 2 * n.kv * size, n.projected * size
    own, total = (do.product, c.scale, size, scratch), scratch + MEMORY * size
    scores = total + rows * row
    if n.norm_first:
        call(do.normalize, (c.eps, rows, n.d, at.x, at.norm_weight, at.norm_bias, at.inside, at.normal, at.factor))
    to_columns(own, do.dots, at.inside, at.weight, at.query, rows, n.projected, n.d, rows)
    if at.bias:
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
        call(do.softmax, (c.scale, n.heads, branches, there, scores, *masked))
        for h in range(n.heads):
            v, y = keys + (n.kv + h // shared * head) * size, out + h * head * size
            weights = scores + h * branches * seen_row
            if few:
                call(do.mix, (c.scale, branches, there, head, weights, seen_row, v, kept_row, y, wide))
            else:
                multiply(own, weights, seen_row, False, v, kept_row, False, False, y, wide, branches, head, there)
    branch, added = (total, at.out) if n.norm_first else (at.out, total)
    to_columns(own, do.dots, at.joined, at.out_weight, branch, rows, n.d, n.width, rows)
    call(do.add, (c.eps, rows, n.d, at.x, branch, at.out_bias, added, 0, 0, 0, 0))
    if not n.norm_first:
        call(do.normalize, (c.eps, rows, n.d, total, at.norm_weight, at.norm_bias, at.out, at.normal, at.factor))


@called
def append(real, rows, branches, columns, source, source_row, out, out_item, out_row):
    """Copy rows of so many columns: those of an item lie one behind the other, the items anywhere."""
    for r in range(rows):
        x = numbers(source + r * source_row, real)
        y = numbers(out + r // branches * out_item + r % branches * out_row, real)
        for i in range(columns):
            y[i] = x[i]
