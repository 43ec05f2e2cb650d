"""Attention in one compiled loop over all heads, products included, without a matrix of all weights.

The formulas are those of `nn/fast/attention_blocks.py`: of a query's softmax what is known so far is its largest score,
the sum of exponentials beside that, and the unfinished result (Rabe and Staats 2021); the backward pass computes blocks
of weights anew from L, the logarithm of what they were divided by, key block by key block (Dao 2023,
"FlashAttention-2"). The scores of a block stay in the cache, blocks of which nothing is seen are passed over, and each
head is computed by itself, so that the bits do not depend on the number of threads.

What a query sees is an interval of the sources, as it is without a mask, with a causal one, with a sliding window, and
with padding at an end: `intervals` makes them of a mask.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .compiling import REALS, _exp, call, loop, part
from .passes import SAFE
from .pool import empty
from .threads import in_parts
from .tiles import COLUMNS, ROWS, multiply, padded

QUERIES, KEYS = 96, 288  # of a block: multiples of ROWS and of both ROWS and COLUMNS
FEW_QUERIES = 60  # of a block where keys and values of a head fit the cache, and less is hidden from all of it
MOST_IN_CACHE = 1024  # keys that do


class Intervals(NamedTuple):
    """The sources that each query sees, from `first` up to `last`, (batch or 1, heads or 1, target) each."""

    first: Any
    last: Any


def intervals(mask: Any, causal: bool, query: Any, key: Any) -> Intervals | None:
    """The sources that queries see, causally or not; a boolean mask, or None, broadcasts to the weights (True hides).

    None where it is no interval for some query.
    """
    target, source = query.shape[-2], key.shape[-2]
    first, last = np.zeros((1, 1, target), np.int64), np.full((1, 1, target), source)
    if causal:
        last = np.minimum(last, np.arange(1, target + 1))
    if mask is None:
        return Intervals(first, last)
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
    return Intervals(*(np.array(np.broadcast_to(x, shape), order="C") for x in (first, np.maximum(first, last))))


def fits(*arrays: Any) -> bool:
    """True if the loops take these queries, keys and values, (batch, heads, length, size) or (batch, length, size)."""
    dtype = arrays[0].dtype
    return dtype in REALS and all(a.dtype == dtype and a.size and a.ndim in (3, 4) for a in arrays)


class Heads(NamedTuple):
    """An array (batch, heads, length, size), whose rows may lie anywhere in memory, as the loops take it.

    Attributes:
        flat: all from its first element to its last.
        apart: elements from a batch to the next, from a head to the next, and from a row to the next.
    """

    flat: Any
    apart: tuple[int, int, int]


def _to_read(x: Any) -> Heads:
    """Of a copy where it does not lie as the loops want it."""
    whole = x.strides[-1] == x.itemsize or x.shape[-1] == 1
    plain = whole and min(x.strides) >= 0 and x.flags.writeable and x.flags.aligned
    return _to_write(x if plain else np.array(x, order="C"))


def _to_write(x: Any) -> Heads:
    if x.ndim == 3:
        x = x[:, None]
    apart = [stride // x.itemsize for stride in x.strides]
    span = 1 + sum((length - 1) * step for length, step in zip(x.shape[:3], apart)) + x.shape[-1] - 1
    return Heads(np.lib.stride_tricks.as_strided(x, (span,), (x.itemsize,)), tuple(apart[:3]))


class Sizes(NamedTuple):
    """Of attention as a whole, as the loops take them: `size` of queries and keys, `value_size` of values."""

    heads: int
    target: int
    source: int
    size: int
    value_size: int
    queries: int  # of a block


def _sizes(query: Any, value: Any) -> tuple[int, Sizes]:
    """How many heads there are in all, and the sizes."""
    heads = query.shape[1] if query.ndim == 4 else 1
    (target, size), (source, value_size) = query.shape[-2:], value.shape[-2:]
    queries = FEW_QUERIES if source <= MOST_IN_CACHE else QUERIES
    return len(query) * heads, Sizes(heads, target, source, size, value_size, queries)


def _work(items: int, sizes: Sizes) -> int:
    return items * sizes.target * sizes.source


def _mask_of(keep: Any) -> Any:
    """The mask of dropout, (batch, heads, target, source), as a flat array; an empty one without dropout."""
    return np.zeros(0, bool) if keep is None else np.require(keep, bool, ["C", "W"]).reshape(-1)


def _panels(rows: int, size: int, dtype: Any) -> Any:
    """Room for the transpose of rows (rows, size), panel after panel of COLUMNS columns."""
    return empty((padded(rows, COLUMNS) // COLUMNS, size, COLUMNS), dtype)


def attend(
    query: Any, key: Any, value: Any, seen: Intervals, scale: float, out: Any, keep: Any = None, keep_scale: float = 1.0
) -> Any:
    """Write softmax(Q K^T * scale) V into `out`, of what is seen; returns L, (items, target).

    Args:
        keep, keep_scale: which weights dropout keeps, (batch, heads, target, source), and by how much it scales them.
    """
    items, sizes = _sizes(query, value)
    dtype = query.dtype
    log_total, product = empty((items, sizes.target), dtype), multiply(dtype).address
    arrays = [*map(_to_read, (query, key, value)), _to_write(out)]
    flat, apart = [a.flat for a in arrays], np.array([a.apart for a in arrays])
    kept, columns, width = _mask_of(keep), padded(sizes.source, COLUMNS), padded(sizes.value_size, COLUMNS)

    def attend_heads(i: slice) -> None:
        _attend(
            i.start, i.stop, product, tuple(sizes), *flat, apart, *seen, dtype.type(scale), kept,
            dtype.type(keep_scale), log_total, empty((sizes.queries, sizes.size), dtype),
            _panels(sizes.source, sizes.size, dtype), empty((columns, width), dtype),
            empty((sizes.queries, KEYS), dtype), empty((sizes.queries, width), dtype),
            np.empty((2, sizes.queries), dtype), np.empty(COLUMNS, dtype),
        )  # fmt: skip

    in_parts(attend_heads, items, _work(items, sizes))
    return log_total


@loop
def _attend(
    start, stop, product, sizes, query, key, value, out, apart, first, last, scale, keep, keep_scale, log_total, q,
    k_turned, v, weights, result, sums, lanes,
):  # fmt: skip
    heads, target, source, size, value_size, queries = sizes
    width = v.shape[1]
    zero, one, infinity = weights.dtype.type(0), weights.dtype.type(1), weights.dtype.type(math.inf)
    largest, total = sums[0], sums[1]
    for item in range(start, stop):
        b, h = item // heads, item % heads
        lower, upper = first[b % first.shape[0], h % first.shape[1]], last[b % last.shape[0], h % last.shape[1]]
        place = b * apart[:, 0] + h * apart[:, 1]
        _turn(key, place[1], apart[1, 2], source, size, k_turned)
        key_norm = _longest(key, place[1], apart[1, 2], source, size)
        _copy(value, place[2], apart[2, 2], source, value_size, one, v)
        for r0 in range(0, target, queries):
            rows = min(queries, target - r0)
            high = padded(rows, ROWS)
            _copy(query, place[0] + r0 * apart[0, 2], apart[0, 2], rows, size, scale, q[:high])
            # No score is larger than the norms of a query and a key (Cauchy and Schwarz).
            small = key_norm * _longest(q.reshape(-1), 0, size, rows, size) <= SAFE
            for r in range(high):
                largest[r], total[r] = zero if small else -infinity, zero
            begin, end = _seen(lower, upper, r0, rows)
            for c0 in range(begin, end, KEYS):
                wide = min(KEYS, end - c0)
                _multiply(product, q, 0, False, k_turned, c0, True, False, weights, 0, high, wide, size)
                for r in range(high):
                    row = weights[r]
                    if r < rows:
                        _hide(row, lower[r0 + r] - c0, upper[r0 + r] - c0, wide)
                    else:
                        _hide(row, 0, 0, wide)
                    if small:
                        total[r] += _exponentials(row, zero, wide)
                        continue
                    larger = max(largest[r], _largest(row, wide, lanes))
                    shift = larger if larger > -infinity else zero
                    fading = _exp(largest[r] - shift)
                    total[r] = total[r] * fading + _exponentials(row, shift, wide)
                    largest[r] = larger
                    if c0 > begin:
                        for i in range(width):
                            result[r, i] *= fading
                if keep.size:
                    for r in range(rows):
                        there = min(wide, source - c0)
                        _drop(weights[r], _row(keep, (item * target + r0 + r) * source + c0, there), keep_scale)
                _multiply(product, weights, 0, False, v, c0, False, c0 > begin, result, 0, high, width, wide)
            for r in range(rows):
                nothing = total[r] == 0
                share = zero if nothing else one / total[r]
                there = _row(out, place[3] + (r0 + r) * apart[3, 2], value_size)
                for i in range(value_size):
                    there[i] = zero if nothing else result[r, i] * share
                # exp(score - inf) = 0: the weights of a row that sees nothing
                log_total[item, r0 + r] = infinity if nothing else largest[r] + math.log(total[r])


@part
def _multiply(product, a, a_first, turned, b, b_first, in_panels, keep, out, out_first, rows, columns, inner):
    """Rows of a matrix times those of another, each from its first on, as `tiles.multiply` does it.

    a may be the transpose of what lies there, and b lie in panels of columns, of which `b_first` then is one.
    """
    size = a.itemsize
    a_row, a_step = (size, a.strides[0]) if turned else (a.strides[0], size)
    b_first, b_panel = (b_first // COLUMNS, b.strides[0]) if in_panels else (b_first, COLUMNS * size)
    call(
        product,
        (
            a.dtype.type(0), size, _place(a, a_first), a_row, a_step, _place(b, b_first), b.strides[-2], b_panel, keep,
            _place(out, out_first), out.strides[0], rows, columns, inner,
        ),
    )  # fmt: skip


@part
def _place(x, first):
    """The address of x[first]."""
    return np.int64(x.ctypes.data) + first * x.strides[0]


@part
def _seen(lower, upper, r0, rows):
    """From where to where any of some queries sees anything, in whole tiles."""
    begin, end = lower[r0], upper[r0]
    for r in range(r0 + 1, r0 + rows):
        begin, end = min(begin, lower[r]), max(end, upper[r])
    return begin // COLUMNS * COLUMNS, padded(end, COLUMNS)


@part
def _row(x, place, size):
    """Elements of a flat array, whose indices the compiler then knows not to count from the end."""
    return x[place : place + size]


@part
def _copy(x, place, apart, rows, size, factor, out):
    """Rows of a flat array times a factor, with zeros around them."""
    for r in range(out.shape[0]):
        filled = 0
        if r < rows:
            filled, row = size, _row(x, place + r * apart, size)
            for i in range(size):
                out[r, i] = row[i] * factor
        for i in range(filled, out.shape[1]):
            out[r, i] = 0


@part
def _turn(x, place, apart, rows, size, out):
    """The transpose of some rows in panels (panels, size, COLUMNS), with zeros behind it."""
    for panel in range(out.shape[0]):
        for c in range(COLUMNS):
            r = panel * COLUMNS + c
            if r < rows:
                row = _row(x, place + r * apart, size)
                for i in range(size):
                    out[panel, i, c] = row[i]
            else:
                for i in range(size):
                    out[panel, i, c] = 0


@part
def _longest(x, place, apart, rows, size):
    """The largest norm of some rows of a flat array, infinity where one is NaN."""
    largest = x.dtype.type(0)
    for r in range(rows):
        row, square = _row(x, place + r * apart, size), x.dtype.type(0)
        for i in range(size):
            square += row[i] * row[i]
        largest = largest if square <= largest else square if square == square else x.dtype.type(math.inf)
    return math.sqrt(largest)


@part
def _hide(row, begin, end, wide):
    """-inf where a query does not see."""
    for i in range(min(begin, wide)):
        row[i] = -math.inf
    for i in range(max(end, 0), wide):
        row[i] = -math.inf


@part
def _largest(row, wide, lanes):
    """The largest of a row, whose length is a multiple of that of `lanes`."""
    for i in range(COLUMNS):
        lanes[i] = row[i]
    for start in range(COLUMNS, wide, COLUMNS):
        for i in range(COLUMNS):
            value = row[start + i]
            lanes[i] = value if value > lanes[i] else lanes[i]
    largest = lanes[0]
    for i in range(1, COLUMNS):
        largest = lanes[i] if lanes[i] > largest else largest
    return largest


@part
def _exponentials(row, shift, wide):
    """Turn a row into exp(row - shift), in place; returns the sum."""
    total = row.dtype.type(0)
    for i in range(wide):
        row[i] = _exp(row[i] - shift)
        total += row[i]
    return total


@part
def _drop(row, keep, scale):
    for i in range(keep.size):
        row[i] *= scale if keep[i] else row.dtype.type(0)


def attend_back(
    g: Any, query: Any, key: Any, value: Any, seen: Intervals, scale: float, out: Any, log_total: Any,
    gradients: tuple[Any, Any, Any], keep: Any = None, keep_scale: float = 1.0,
) -> None:  # fmt: skip
    """Write the gradients for query, key and value into three arrays, given that of the result."""
    items, sizes = _sizes(query, value)
    dtype = query.dtype
    product = multiply(dtype).address
    arrays = [*map(_to_read, (query, key, value, out, g)), *map(_to_write, gradients)]
    flat, apart = [a.flat for a in arrays], np.array([a.apart for a in arrays])
    kept, rows, columns = _mask_of(keep), padded(sizes.target, ROWS), padded(sizes.source, COLUMNS)
    width, value_width = padded(sizes.size, COLUMNS), padded(sizes.value_size, COLUMNS)

    def differentiate_heads(i: slice) -> None:
        _attend_back(
            i.start, i.stop, product, tuple(sizes), *flat, apart, *seen, dtype.type(scale), kept,
            dtype.type(keep_scale), log_total, empty((rows, width), dtype), empty((rows, value_width), dtype),
            _panels(sizes.source, sizes.size, dtype), _panels(sizes.source, sizes.value_size, dtype),
            empty((columns, width), dtype), empty((rows, width), dtype), empty((columns + ROWS, width), dtype),
            empty((columns + ROWS, value_width), dtype), np.empty(rows, dtype), empty((2, sizes.queries, KEYS), dtype),
        )  # fmt: skip

    in_parts(differentiate_heads, items, 2 * _work(items, sizes))


@loop
def _attend_back(
    start, stop, product, sizes, query, key, value, out, g, g_query, g_key, g_value, apart, first, last, scale, keep,
    keep_scale, log_total, q, g_out, k_turned, v_turned, k, g_q, g_k, g_v, along, blocks,
):  # fmt: skip
    heads, target, source, size, value_size, queries = sizes
    width, value_width = q.shape[1], g_out.shape[1]
    one, zero = blocks.dtype.type(1), blocks.dtype.type(0)
    weights, g_scores = blocks[0], blocks[1]
    for item in range(start, stop):
        b, h = item // heads, item % heads
        lower, upper = first[b % first.shape[0], h % first.shape[1]], last[b % last.shape[0], h % last.shape[1]]
        place = b * apart[:, 0] + h * apart[:, 1]
        _copy(query, place[0], apart[0, 2], target, size, scale, q)
        _copy(key, place[1], apart[1, 2], source, size, one, k)
        _turn(key, place[1], apart[1, 2], source, size, k_turned)
        _turn(value, place[2], apart[2, 2], source, value_size, v_turned)
        _copy(g, place[4], apart[4, 2], target, value_size, one, g_out)
        for r in range(target):
            there, dot = _row(out, place[3] + r * apart[3, 2], value_size), zero
            for i in range(value_size):
                dot += g_out[r, i] * there[i]
            along[r] = dot
        for gradient in (g_q, g_k, g_v):
            flat = gradient.reshape(-1)
            for i in range(flat.size):
                flat[i] = 0
        for block in range(0, source, KEYS):
            for r0 in range(0, target, queries):
                rows = min(queries, target - r0)
                high = padded(rows, ROWS)
                begin, end = _seen(lower, upper, r0, rows)
                c0 = max(begin, block)
                wide = min(end, block + KEYS) - c0
                if wide <= 0:
                    continue
                _multiply(product, q, r0, False, k_turned, c0, True, False, weights, 0, high, wide, size)
                _multiply(product, g_out, r0, False, v_turned, c0, True, False, g_scores, 0, high, wide, value_size)
                tall = padded(wide, ROWS)  # the rows of weights that are turned
                for r in range(high):
                    row, g_row, filled = weights[r], g_scores[r], 0
                    if r < rows:
                        filled = wide
                        _hide(row, lower[r0 + r] - c0, upper[r0 + r] - c0, wide)
                        if keep.size:
                            filled = min(wide, source - c0)
                        kept = _row(keep, (item * target + r0 + r) * source + c0, filled if keep.size else 0)
                        _drop(g_row, kept, keep_scale)
                        _weigh(row, g_row, log_total[item, r0 + r], along[r0 + r], filled)
                        _drop(row, kept, keep_scale)  # these weights are kept
                    for i in range(filled, tall):
                        row[i], g_row[i] = zero, zero
                _multiply(product, weights, 0, True, g_out, r0, False, True, g_v, c0, tall, value_width, high)
                _multiply(product, g_scores, 0, True, q, r0, False, True, g_k, c0, tall, width, high)
                _multiply(product, g_scores, 0, False, k, c0, False, True, g_q, r0, high, width, wide)
        _hand_out(g_q, g_query, place[5], apart[5, 2], target, size, scale)
        _hand_out(g_k, g_key, place[6], apart[6, 2], source, size, one)
        _hand_out(g_v, g_value, place[7], apart[7, 2], source, value_size, one)


@part
def _weigh(row, g, log_total, along, wide):
    """Turn scores into weights, exp(scores - L), and g into weights * (g - along), both in place."""
    for i in range(wide):
        weight = _exp(row[i] - log_total)
        row[i] = weight
        g[i] = weight * (g[i] - along)


@part
def _hand_out(rows, out, place, apart, count, size, factor):
    for r in range(count):
        row = _row(out, place + r * apart, size)
        for i in range(size):
            row[i] = rows[r, i] * factor
