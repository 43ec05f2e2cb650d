"""Attention in one compiled loop over all heads, products included, without a matrix of all weights.

Some queries meet some sources at a time, whose scores stay in the cache. Of a query's softmax what is known so far is a
shift m, the sum of exp(s - m), and the unfinished result; a larger score makes both smaller (Dao 2023,
"FlashAttention-2"). Kept for the backward pass is L = m + log of the sum: weights are exp(s - L) there. Each head is
computed by itself, so that the bits do not depend on the number of threads.

What a query sees is an interval of the sources, as it is without a mask, with a causal one, with a sliding window, and
with padding at an end: `intervals` makes them of a mask.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from .compiling import REALS, _exp, address, called, distances, named, numbers, part
from .passes import SAFE
from .pool import empty
from .products import MEMORY, multiply, product
from .threads import in_parts

QUERIES, KEYS = 96, 512  # of a block
ROW = KEYS + 16  # elements from a row of scores to the next: rows evenly apart drive each other out of the cache


def intervals(mask: Any, causal: bool, query: Any, key: Any) -> tuple[Any, ...] | None:
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
    return tuple([np.array(np.broadcast_to(x, shape), order="C") for x in (first, np.maximum(first, last))])


def fits(*arrays: Any) -> bool:
    """True if the loops take these queries, keys and values, (batch, heads, length, size) or (batch, length, size)."""
    dtype = arrays[0].dtype
    return dtype in REALS and all(a.dtype == dtype and a.size and a.ndim in (3, 4) for a in arrays)


def attend(query, key, value, seen, scale, keep, keep_scale, out):
    """Write softmax(Q K^T * scale) V into `out`, of what is seen; returns L, (..., target, 1).

    Args:
        keep, keep_scale: which weights dropout keeps, (batch, heads, target, source), or None, and their factor.
    """
    log_total = empty((*query.shape[:-1], 1), query.dtype)
    _compute(_attend, query, key, value, seen, keep, (out, log_total), Reals(scale, keep_scale))
    return log_total


def attend_back(query, key, value, seen, scale, keep, keep_scale, out, log_total, g, g_query, g_key, g_value):
    """Write the gradients for query, key and value, given that of the result, and what `attend` gave."""
    for sums in (g_key, g_value):
        sums.fill(0)
    arrays = out, log_total, g, g_query, g_key, g_value
    _compute(_attend_back, query, key, value, seen, keep, arrays, Reals(scale, keep_scale))


def _compute(loop, query, key, value, seen, keep, others, reals):
    """Run a loop over all heads."""
    keep = None if keep is None else _heads(np.ascontiguousarray(keep, bool))
    query, key, value, *others = map(_heads, (query, key, value, *others))
    (batch, heads, target, size), source, value_size = query.shape, key.shape[2], value.shape[3]
    arrays, dtype = (query, key, value, *seen, keep, *others), query.dtype
    lies = np.array([(0 if x is None else address(x), *distances(x)) for x in arrays], np.int64)
    sizes = np.array(Sizes(heads, target, size, value_size, product(dtype).address), np.int64)
    numbers, compiled = (lies, sizes, np.array(reals, dtype)), loop(dtype).ctypes

    def compute_heads(i: slice) -> None:
        scratch = empty(MEMORY + 2 * QUERIES * (ROW + 1), dtype)
        compiled(0, dtype.itemsize, *map(address, (*numbers, scratch)), i.start, i.stop)

    in_parts(compute_heads, batch * heads, batch * heads * target * source * (len(others) // 2))


def _heads(x: Any) -> Any:
    """The same as (batch, heads, length, size), copied if elements of a row lie apart."""
    x = x if x.ndim == 4 else x[:, None]
    near = x.strides[3] == x.itemsize or x.shape[3] == 1
    return x if near and x.flags.aligned else np.array(x, order="C")


Sizes = namedtuple("Sizes", "heads target size value_size product")
Reals = namedtuple("Reals", "scale keep_scale")
Lies = namedtuple("Lies", "first item head row")  # of an array: its address, then distances in bytes
QUERY, KEY, VALUE, FIRST, LAST, KEEP, OUT, LOG_TOTAL, G, G_QUERY, G_KEY, G_VALUE = range(12)


@called
def _attend(real, size, lies, sizes, reals, scratch, start, stop):
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    own, scores = (n.product, c.scale, size, scratch), scratch + MEMORY * size
    zero, one = type(c.scale)(0), type(c.scale)(1)
    shift, total = numbers(scores + QUERIES * ROW * size, zero), numbers(scores + QUERIES * (ROW + 1) * size, zero)
    for item in range(start, stop):
        (value, v_row), (result, y_row) = _head(lies, VALUE, n, item), _head(lies, OUT, n, item)
        log_total, width = numbers(_head(lies, LOG_TOTAL, n, item)[0], zero), n.value_size
        for r in range(0, n.target, QUERIES):
            rows, begin, end = _seen(lies, n, item, r)
            for i in range(rows):
                shift[i] = total[i] = zero
            for first in range(begin, end, KEYS):
                wide = min(KEYS, end - first)
                _multiply(own, lies, QUERY, KEY, n, item, r, rows, first, wide, n.size, scores)
                for i in range(rows):
                    row, y = numbers(scores + i * ROW * size, zero), numbers(result + (r + i) * y_row, zero)
                    low, high = _within(lies, n, item, r + i, first, wide, row)
                    shift[i], total[i], fading = _weigh(row, low, high, c.scale, shift[i], total[i])
                    for j in range(width if first > begin and fading != 1 else 0):
                        y[j] *= fading
                _drop(lies, n, c, item, r, rows, first, wide, scores, size)
                v, out = value + first * v_row, result + r * y_row
                multiply(own, scores, ROW * size, False, v, v_row, False, first > begin, out, y_row, rows, width, wide)
            for i in range(rows):
                y, share = numbers(result + (r + i) * y_row, zero), one / total[i] if total[i] else zero
                for j in range(width):
                    y[j] *= share
                # exp(score - inf) = 0: the weights of a row that sees nothing
                log_total[r + i] = shift[i] + math.log(total[i]) if total[i] else type(c.scale)(math.inf)


@called
def _attend_back(real, size, lies, sizes, reals, scratch, start, stop):
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    own, scores, zero, row = (n.product, c.scale, size, scratch), scratch + MEMORY * size, type(c.scale)(0), ROW * size
    g_scores, along = scores + QUERIES * row, numbers(scores + 2 * QUERIES * row, zero)
    for item in range(start, stop):
        (query, q_row), (key, k_row) = _head(lies, QUERY, n, item), _head(lies, KEY, n, item)
        (result, y_row), (g_result, g_row) = _head(lies, OUT, n, item), _head(lies, G, n, item)
        (g_query, g_q_row), (g_key, g_k_row) = _head(lies, G_QUERY, n, item), _head(lies, G_KEY, n, item)
        (g_value, g_v_row), width = _head(lies, G_VALUE, n, item), n.value_size
        log_total = numbers(_head(lies, LOG_TOTAL, n, item)[0], zero)
        for r in range(0, n.target, QUERIES):
            rows, begin, end = _seen(lies, n, item, r)
            q, g, g_q = query + r * q_row, g_result + r * g_row, g_query + r * g_q_row
            for i in range(rows):
                x, y, dot = numbers(g + i * g_row, zero), numbers(result + (r + i) * y_row, zero), zero
                for j in range(width):
                    dot += x[j] * y[j]
                along[i] = dot
            for first in range(begin, end, KEYS):
                wide = min(KEYS, end - first)
                k, g_k, g_v = key + first * k_row, g_key + first * g_k_row, g_value + first * g_v_row
                _multiply(own, lies, QUERY, KEY, n, item, r, rows, first, wide, n.size, scores)
                _multiply(own, lies, G, VALUE, n, item, r, rows, first, wide, width, g_scores)
                _drop(lies, n, c, item, r, rows, first, wide, g_scores, size)
                for i in range(rows):
                    x, g_x = numbers(scores + i * row, zero), numbers(g_scores + i * row, zero)
                    low, high = _within(lies, n, item, r + i, first, wide, x)
                    _within(lies, n, item, r + i, first, wide, g_x)
                    for j in range(low, high):
                        x[j] = _exp(x[j] * c.scale - log_total[r + i])
                        g_x[j] = x[j] * (g_x[j] - along[i]) * c.scale
                _drop(lies, n, c, item, r, rows, first, wide, scores, size)
                multiply(own, scores, row, True, g, g_row, False, True, g_v, g_v_row, wide, width, rows)
                multiply(own, g_scores, row, True, q, q_row, False, True, g_k, g_k_row, wide, n.size, rows)
                multiply(own, g_scores, row, False, k, k_row, False, first > begin, g_q, g_q_row, rows, n.size, wide)


@part
def _head(lies, array, n, item):
    """The address of a head of an array, and the distance of its rows in bytes."""
    x = named(lies + array * 32, 0, Lies)
    return x.first + item // n.heads * x.item + item % n.heads * x.head, x.row


@part
def _seen(lies, n, item, r):
    """How many queries a block has from r on, and the sources that one of them sees: one at least."""
    first, last = numbers(_head(lies, FIRST, n, item)[0], r), numbers(_head(lies, LAST, n, item)[0], r)
    rows, begin, end = min(QUERIES, n.target - r), first[r], last[r]
    for i in range(r + 1, r + rows):
        begin, end = min(begin, first[i]), max(end, last[i])
    return rows, begin, max(end, begin + 1)


@part
def _multiply(own, lies, a, b, n, item, r, rows, first, wide, inner, out):
    """Products of some rows of a head of a with some of b."""
    (x, x_row), (y, y_row), row = _head(lies, a, n, item), _head(lies, b, n, item), ROW * own[2]
    multiply(own, x + r * x_row, x_row, False, y + first * y_row, y_row, True, False, out, row, rows, wide, inner)


@part
def _within(lies, n, item, query, start, wide, row):
    """Which of a row of scores a query sees, with zeros for the others."""
    first, last = numbers(_head(lies, FIRST, n, item)[0], query), numbers(_head(lies, LAST, n, item)[0], query)
    low, high = min(max(first[query] - start, 0), wide), min(max(last[query] - start, 0), wide)
    for j in range(low):
        row[j] = 0
    for j in range(high, wide):
        row[j] = 0
    return low, high


@part
def _weigh(row, low, high, scale, shift, total):
    """Turn scores into exp(score * scale - shift); returns shift, sum, and the factor of what was there before.

    The shift is 0 unless a score is large.
    """
    large, former = np.int32(0), shift if total else type(scale)(-math.inf)
    for j in range(low, high):
        row[j] *= scale
        large += np.int32(0) if abs(row[j]) <= SAFE else np.int32(1)
    if large > 0 or shift:
        larger = former
        for j in range(low, high):
            larger = row[j] if row[j] > larger else larger
        shift = larger if larger > -math.inf else type(scale)(0)
    fading, more = _exp(former - shift), type(scale)(0)
    for j in range(low, high):
        row[j] = _exp(row[j] - shift)
        more += row[j]
    return shift, total * fading + more, fading


@part
def _drop(lies, n, c, item, r, rows, first, wide, x, size):
    """Drop what dropout does not keep of rows of scores whose first is of the source `first`."""
    keep, keep_row = _head(lies, KEEP, n, item)
    for i in range(rows if keep else 0):
        kept, cells = numbers(keep + (r + i) * keep_row + first, np.uint8(0)), numbers(x + i * ROW * size, c.scale)
        for j in range(wide):
            cells[j] *= c.keep_scale if kept[j] else type(c.scale)(0)
