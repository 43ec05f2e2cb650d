"""Attention in one compiled loop over all heads, products included, without a matrix of all weights.

Some queries at a time attend to all the sources that one of them sees, as in `nn/fast/attention_blocks.py`, and the
backward pass computes their weights anew. Each head is computed by itself, so that the bits do not depend on the number
of threads.

What a query sees is an interval of the sources, as it is without a mask, with a causal one, with a sliding window, and
with padding at an end: `intervals` makes them of a mask.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import passes
from .compiling import REALS, address, addresses, call, called, distances, named, numbers, part
from .pool import empty
from .products import MEMORY, multiply, product
from .threads import in_parts

CELLS = 1 << 17  # scores of a block: about what the cache of a core holds
APART = 16  # elements between rows of scores: rows that lie evenly apart drive each other out of the cache
LEAST = 48  # queries of a block at least, since each block copies keys and values anew


def intervals(mask: Any, causal: bool, query: Any, key: Any) -> tuple[Any, Any] | None:
    """The sources that queries see, from the first up to the last, (batch or 1, heads or 1, target) each.

    The mask, boolean or None, broadcasts to the weights (True hides). None where it is no interval for some query.
    """
    target, source = query.shape[-2], key.shape[-2]
    first, last = np.zeros((1, 1, target), np.int64), np.full((1, 1, target), source)
    if causal:
        last = np.minimum(last, np.arange(1, target + 1))
    if mask is None:
        return first, last
    mask = mask.reshape((1,) * (query.ndim - mask.ndim) + mask.shape)
    if mask.ndim == 3:
        mask = mask[:, None]
    seen = np.ascontiguousarray(np.broadcast_to(~mask, (*mask.shape[:3], source)))
    begin = seen.argmax(axis=-1)
    count = np.count_nonzero(seen, axis=-1)
    end = np.where(count, source - seen[..., ::-1].argmax(axis=-1), begin)
    if not np.array_equal(end - begin, count):
        return None
    shape = (*mask.shape[:2], target)
    first, last = np.maximum(first, begin), np.minimum(last, end)
    first, last = (np.array(np.broadcast_to(x, shape), order="C") for x in (first, np.maximum(first, last)))
    return first, last


def fits(*arrays: Any) -> bool:
    """True if the loops take these queries, keys and values, (batch, heads, length, size) or (batch, length, size)."""
    dtype = arrays[0].dtype
    return dtype in REALS and all(a.dtype == dtype and a.size and a.ndim in (3, 4) for a in arrays)


def attend(query, key, value, seen, scale, keep, keep_scale, out):
    """Write softmax(Q K^T * scale) V into `out`, of what is seen.

    Args:
        keep, keep_scale: which weights dropout keeps, (batch, heads, target, source), or None, and their factor.
    """
    _compute(_attend, query, key, value, seen, keep, (out,), Reals(scale, keep_scale))


def attend_back(query, key, value, seen, scale, keep, keep_scale, g, g_query, g_key, g_value):
    """Write the gradients for query, key and value, given that of the result."""
    for sums in (g_key, g_value):
        sums.fill(0)
    _compute(_attend_back, query, key, value, seen, keep, (g, g_query, g_key, g_value), Reals(scale, keep_scale))


def _compute(
    loop: Any, query: Any, key: Any, value: Any, seen: Any, keep: Any, others: Sequence[Any], reals: Reals
) -> None:
    """Run a loop over all heads."""
    keep = None if keep is None else _heads(np.ascontiguousarray(keep, bool))
    query, key, value, *others = map(_heads, (query, key, value, *others))
    (batch, heads, target, size), source, value_size = query.shape, key.shape[2], value.shape[3]
    queries, dtype = min(target, max(LEAST, CELLS // source)), query.dtype
    arrays = query, key, value, *seen, keep, *others
    lies = np.array([(0 if x is None else address(x), *distances(x)) for x in arrays], np.int64)
    sizes = np.array(Sizes(heads, target, source, size, value_size, queries), np.int64)
    numbers = addresses(dtype, product, passes.softmax, passes.softmax_gradient), lies, sizes, np.array(reals, dtype)
    compiled, width = loop(dtype).ctypes, dtype.itemsize

    def compute_heads(i: slice) -> None:
        scratch = empty(MEMORY + 2 * queries * (source + APART), dtype)
        compiled(0, width, *map(address, (*numbers, scratch)), i.start, i.stop)

    in_parts(compute_heads, batch * heads, batch * heads * target * source * (len(others) + 2) // 3)


def _heads(x: Any) -> Any:
    """The same as (batch, heads, length, size), copied if elements of a row lie apart."""
    x = x if x.ndim == 4 else x[:, None]
    near = x.strides[3] == x.itemsize or x.shape[3] == 1
    return x if near and x.flags.aligned else np.array(x, order="C")


Functions = namedtuple("Functions", "product softmax softmax_gradient")
Sizes = namedtuple("Sizes", "heads target source size value_size queries")
Reals = namedtuple("Reals", "scale keep_scale")
Lies = namedtuple("Lies", "first item head row")  # of an array: its address, then distances in bytes
QUERY, KEY, VALUE, FIRST, LAST, KEEP, OUT = range(7)
G, G_QUERY, G_KEY, G_VALUE = range(6, 10)


@called
def _attend(real, size, functions, lies, sizes, reals, scratch, start, stop):
    do, n, c = named(functions, 0, Functions), named(sizes, 0, Sizes), named(reals, real, Reals)
    own, weights = (do.product, c.scale, size, scratch), scratch + MEMORY * size
    for item in range(start, stop):
        value, v_row = _head(lies, VALUE, n, item)
        out, out_row = _head(lies, OUT, n, item)
        for r in range(0, n.target, n.queries):
            rows, begin, wide, row = _weigh(do, own, n, c, lies, item, r, weights)
            _drop(n, c, lies, item, r, rows, begin, wide, weights, row)
            v, y = value + begin * v_row, out + r * out_row
            multiply(own, weights, row, False, v, v_row, False, False, y, out_row, rows, n.value_size, wide)


@called
def _attend_back(real, size, functions, lies, sizes, reals, scratch, start, stop):
    do, n, c = named(functions, 0, Functions), named(sizes, 0, Sizes), named(reals, real, Reals)
    own, weights = (do.product, c.scale, size, scratch), scratch + MEMORY * size
    g_scores = weights + n.queries * (n.source + APART) * size
    for item in range(start, stop):
        query, q_row = _head(lies, QUERY, n, item)
        key, k_row = _head(lies, KEY, n, item)
        value, v_row = _head(lies, VALUE, n, item)
        g_out, g_row = _head(lies, G, n, item)
        g_query, g_q_row = _head(lies, G_QUERY, n, item)
        g_key, g_k_row = _head(lies, G_KEY, n, item)
        g_value, g_v_row = _head(lies, G_VALUE, n, item)
        for r in range(0, n.target, n.queries):
            rows, begin, wide, row = _weigh(do, own, n, c, lies, item, r, weights)
            g, v, k = g_out + r * g_row, value + begin * v_row, key + begin * k_row
            multiply(own, g, g_row, False, v, v_row, True, False, g_scores, row, rows, wide, n.value_size)
            _drop(n, c, lies, item, r, rows, begin, wide, g_scores, row)
            for i in range(rows):
                call(do.softmax_gradient, (c.scale, 1, wide, weights + i * row, g_scores + i * row))
            _drop(n, c, lies, item, r, rows, begin, wide, weights, row)
            q, g_q = query + r * q_row, g_query + r * g_q_row
            g_k, g_v = g_key + begin * g_k_row, g_value + begin * g_v_row
            multiply(own, weights, row, True, g, g_row, False, True, g_v, g_v_row, wide, n.value_size, rows)
            multiply(own, g_scores, row, True, q, q_row, False, True, g_k, g_k_row, wide, n.size, rows)
            multiply(own, g_scores, row, False, k, k_row, False, False, g_q, g_q_row, rows, n.size, wide)


@part
def _head(lies, array, n, item):
    """The address of a head of an array, and the distance of its rows in bytes."""
    x = named(lies + array * 32, 0, Lies)
    return x.first + item // n.heads * x.item + item % n.heads * x.head, x.row


@part
def _weigh(do, own, n, c, lies, item, r, weights):
    """Write the softmax of queries from r on: how many, from which source on, of how many, and bytes of a row."""
    size, rows = own[2], min(n.queries, n.target - r)
    (query, q_row), (key, k_row) = _head(lies, QUERY, n, item), _head(lies, KEY, n, item)
    first, last = numbers(_head(lies, FIRST, n, item)[0], r), numbers(_head(lies, LAST, n, item)[0], r)
    begin, end = first[r], last[r]
    for i in range(r + 1, r + rows):
        begin, end = min(begin, first[i]), max(end, last[i])
    wide = max(1, end - begin)  # a product has a term
    k, row = key + begin * k_row, (wide + APART) * size
    multiply(own, query + r * q_row, q_row, False, k, k_row, True, False, weights, row, rows, wide, n.size)
    for i in range(rows):
        before, seen, place = first[r + i] - begin, last[r + i] - first[r + i], weights + i * row
        cells = numbers(place, c.scale)
        call(do.softmax, (c.scale, 1, 1, seen, place + before * size, 0, 0, 0, False))
        for j in range(before):
            cells[j] = 0
        for j in range(before + seen, wide):
            cells[j] = 0
    return rows, begin, wide, row


@part
def _drop(n, c, lies, item, r, rows, begin, wide, x, row):
    """Drop what dropout does not keep of rows of `wide` numbers, whose source is `begin` first."""
    keep, keep_row = _head(lies, KEEP, n, item)
    if not keep:
        return
    for i in range(rows):
        kept, cells = numbers(keep + (r + i) * keep_row + begin, np.uint8(0)), numbers(x + i * row, c.scale)
        for j in range(wide):
            cells[j] *= c.keep_scale if kept[j] else type(c.scale)(0)
