"""Steps of decoding in compiled loops: rows more of sequences whose keys and values are kept, through sub-layers.

The sub-layers are those of `sublayers.py`; attention to what is kept is one more of them. A step has a row for each
branch, and wants no gradient: its products take microseconds, so all arrays but the kept ones are made once (`Steps`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import passes
from .compiling import address, addresses, call, called, distances, numbers, or_zeros, several
from .compiling import fits as fits
from .compiling import places as places
from .feed_forward import FeedForward as FeedForward
from .feed_forward import GatedFeedForward as GatedFeedForward
from .few_rows import dots, mix
from .pool import empty
from .products import MEMORY, multiply, product
from .residual import Norm as Norm
from .residual import Residual, Share, Work, one_after_the_other, to_columns

BRANCHES = 8  # of an item; of more, products that copy the keys are faster
SEEN = 9  # numbers of `seen`


def as_mask(hidden: Any, dtype: Any) -> Any:
    """What is added to scores (batch, heads, branches, places) to hide what `hidden`, which broadcasts to it, says.

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
        self.sizes = np.array([*columns, *self.flags, self.norm_first], np.int64)
        self.reals = np.array([self.eps, self.scale], self.dtype)
        return out

    def work_forward(self, share: Share) -> Work:
        functions = addresses(
            self.dtype, product, self.normalize, passes.add, passes.turn, dots, passes.add_vector, attend, append, mix,
            passes.softmax,
        )  # fmt: skip
        return Work(_attention_to_kept, functions, share.rows(self.length), MEMORY + self.d * len(self.x))


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
        self.past, self.memory = np.zeros((2, SEEN), np.int64)
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

    def step(self, x: Any, past: tuple[int, ...], memory: tuple[int, ...] | None) -> Any:
        """x (batch, branches, d) through all of them; `past` and `memory` are of `seen`, for attentions to these."""
        batch, branches, d = x.shape
        rows = batch * branches
        self.x[:rows] = x.reshape(rows, d)
        self.past[:] = past
        longest = past[0]
        if memory is not None:
            self.memory[:] = memory
            longest = max(longest, memory[0])
        self.table[:, -1] = rows
        scratch = empty(self.scratch + branches * self.heads * longest, self.dtype)
        self.compiled(0, self.dtype.itemsize, address(self.table), len(self.table), address(scratch))
        return self.out[:rows].reshape(x.shape).copy()


def seen(
    there: int, branches: int, mask: Any = None, shifts: bool = False, angles: Any = (None, None)
) -> tuple[int, ...]:
    """What attentions are told for a step.

    Args:
        there: how many places of keys and values there are, those of this step among them.
        mask: as of `as_mask`; or, with `shifts`, other numbers to add to the scores.
        angles: cos and sin, (rows, size / 2), or None where nothing is turned.
    """
    cos, sin = (0 if angle is None else address(angle) for angle in angles)
    return there, branches, 0 if mask is None else address(mask), *distances(mask), shifts, cos, sin


@called
def _attention_to_kept(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, normalize, add, turn, dots, add_vector, attend, append = several(functions, 0, 8)
    (
        x, weight, out_weight, bias, out_bias, norm_weight, norm_bias, inside, query, joined, normal, factor, out,
        where, seen,
    ) = several(places, 0, 15)  # fmt: skip
    d, width, kv, projected, heads, joins, neighbours, norm_first = several(sizes, 0, 8)
    kept, kept_item = several(where, 0, 2)
    there, branches, mask, mask_item, mask_head, mask_row, shifts, cos, sin = several(seen, 0, 9)
    eps, scale = several(reals, real, 2)
    rows, batch, row, kept_row, head = stop, stop // branches, d * size, 2 * kv * size, width // heads
    own, total = (product, eps, size, scratch), scratch + MEMORY * size
    scores = total + rows * row
    if norm_first:
        call(normalize, (eps, rows, d, x, norm_weight, norm_bias, inside, normal, factor))
    to_columns(own, dots, inside, weight, query, rows, projected, d, rows)
    if bias:
        call(add_vector, (eps, rows, projected, bias, query, projected))
    if joins:
        if cos:
            call(turn, (eps, rows, width + kv, head, cos, sin, neighbours, query, projected))
        keys, new = query + width * size, kept + (there - branches) * kept_row
        call(append, (eps, batch, branches, 2 * kv, keys, projected * size, new, kept_item, kept_row))
    call(
        attend,
        (
            scale, size, functions, scratch, batch, branches, there, heads, head, kv, query, projected * size, kept,
            kept_item, mask, mask_item, mask_head, mask_row, shifts, scores, joined,
        ),
    )  # fmt: skip
    branch, added = (total, out) if norm_first else (out, total)
    to_columns(own, dots, joined, out_weight, branch, rows, d, width, rows)
    call(add, (eps, rows, d, x, branch, out_bias, added, 0, 0, 0, 0))
    if not norm_first:
        call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out, normal, factor))


PRODUCT, DOTS, MIX, SOFTMAX = 0, 4, 8, 9  # where they stand among the functions


@called
def attend(
    scale, size, functions, copies, batch, branches, places, heads, head, width, query, query_row, kept, kept_item,
    mask, mask_item, mask_head, mask_row, shifts, scores, out,
):  # fmt: skip
    """Concat(head_1, ..., head_h): the first columns of `query` attend to keys and values that are kept of their item.

    A place has `width` numbers of keys, and as many of values. Where the query has n times as many heads as they have,
    n one after the other share the same keys and values. `copies` is where `product` may write.
    """
    functions, out_row, kept_row = numbers(functions, size), heads * head * size, 2 * width * size
    own, few, row = (functions[PRODUCT], scale, size, copies), branches <= BRANCHES or places == 0, places * size
    shared = heads * head // width
    for b in range(batch):
        rows, keys, into = query + b * branches * query_row, kept + b * kept_item, out + b * branches * out_row
        for h in range(heads):
            q, k, weights = rows + h * head * size, keys + h // shared * head * size, scores + h * branches * row
            if few:
                call(functions[DOTS], (scale, size, branches, places, head, q, query_row, k, kept_row, 0, weights, row))
            else:
                multiply(own, q, query_row, False, k, kept_row, True, False, weights, row, branches, places, head)
        hidden = mask + b * mask_item if mask else mask
        call(functions[SOFTMAX], (scale, heads, branches, places, scores, hidden, mask_head, mask_row, shifts))
        for h in range(heads):
            v = keys + (width + h // shared * head) * size
            weights, y = scores + h * branches * row, into + h * head * size
            if few:
                call(functions[MIX], (scale, branches, places, head, weights, row, v, kept_row, y, out_row))
            else:
                multiply(own, weights, row, False, v, kept_row, False, False, y, out_row, branches, head, places)


@called
def append(real, items, branches, columns, source, source_row, out, out_item, out_row):
    """Copy rows of so many columns: those of an item lie one behind the other, the items anywhere."""
    for r in range(items * branches):
        x = numbers(source + r * source_row, real)
        y = numbers(out + r // branches * out_item + r % branches * out_row, real)
        for i in range(columns):
            y[i] = x[i]
