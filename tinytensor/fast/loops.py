"""Loops that Numba compiles for the processor, where NumPy would take several passes over memory: an extra.

`tt.compile_loops()` switches them on. Each function is the compiled version of a fast pair's lines on raw arrays, for
contiguous float32 and float64 arrays (`fits`). Those lines still serve other arrays, and ops that NumPy does as fast
(the softmax of short rows). `kernels.py` is the same for the GPU. A loop is compiled for each dtype when it is first
used, and kept on disk for the next process.

Sums along rows are kept in float64, or are those of short runs. `reassoc` lets the compiler add in the order that its
vectors like.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from .activations import on_arrays
from .compiling import _exp, address, called, loop, numbers, part, places
from .compiling import fits as fits
from .threads import in_parts
from .updates import scale_all, sum_of_squares  # noqa: F401  (found here by name)

RUN = 512  # numbers that are added up in their own dtype, in as many parts as vectors have places


@register_jitable(inline="always")
def _sum_of_exponentials(x, r, shift):
    """The sum of exp(x[r] - shift), in float64 from run to run."""
    columns, total = x.shape[1], 0.0
    for run in range(columns // RUN):
        part = x.dtype.type(0)
        for i in range(RUN):
            part += _exp(x[r, run * RUN + i] - shift)
        total += part
    rest = x.dtype.type(0)
    for i in range(columns // RUN * RUN, columns):
        rest += _exp(x[r, i] - shift)
    return total + rest


# ---- GELU, which compilation from its text lacks in float64

gelu, gelu_gradient = on_arrays("gelu")


# ---- cross-entropy


def cross_entropy(logits: Any, target: Any, weight: Any, smoothed: bool) -> tuple[Any, Any, Any, Any]:
    """For each row: the largest logit, and relative to it the sum of exponentials, the target's logit, their sum.

    The last, times `weight` where there is one, only where the loss is `smoothed`.
    """
    shift, total, picked, spread_over = (np.empty(len(logits), dtype=logits.dtype) for _ in range(4))

    def compare_rows(i: slice) -> None:
        np.maximum.reduce(logits[i], axis=1, out=shift[i])
        _cross_entropy(logits[i], target[i], weight, smoothed, shift[i], total[i], picked[i], spread_over[i])

    in_parts(compare_rows, len(logits), 4 * logits.size, width=logits.shape[1])
    return shift, total, picked, spread_over


@loop
def _cross_entropy(logits, target, weight, smoothed, shift, total, picked, spread_over):
    for r in range(logits.shape[0]):
        total[r] = _sum_of_exponentials(logits, r, shift[r])
        picked[r] = logits[r, target[r]] - shift[r]
        spread = 0.0
        for i in range(logits.shape[1] if smoothed else 0):
            shifted = logits[r, i] - shift[r]
            spread += shifted if weight is None else shifted * weight[i]
        spread_over[r] = spread


def cross_entropy_gradient(
    logits: Any, target: Any, weight: Any, shift: Any, factor: Any, spread: Any, hit: Any
) -> Any:
    """exp(logits - shift) * factor - spread * weight, less `hit` at the target."""
    gradient, compiled = np.empty_like(logits), _cross_entropy_gradient(logits.dtype).ctypes
    vectors = [np.ascontiguousarray(vector, logits.dtype) for vector in (shift, factor, spread, hit)]
    arrays, of_weight = [*vectors, np.ascontiguousarray(target, np.int64), logits, gradient], places(weight)[0]

    def differentiate_losses(i: slice) -> None:
        compiled(0, i.stop - i.start, logits.shape[1], of_weight, *[address(array[i]) for array in arrays])

    in_parts(differentiate_losses, len(logits), 3 * logits.size)
    return gradient


@called
def _cross_entropy_gradient(real, rows, columns, weight, shift, factor, spread, hit, target, logits, gradient):
    shift, factor, spread, hit = numbers(shift, real), numbers(factor, real), numbers(spread, real), numbers(hit, real)
    logits, gradient, target = numbers(logits, real), numbers(gradient, real), numbers(target, np.int64(0))
    weights = numbers(weight, real)
    for r in range(rows):
        row = r * columns
        for i in range(columns):
            even = spread[r] * weights[i] if weight else spread[r]
            gradient[row + i] = _exp(logits[row + i] - shift[r]) * factor[r] - even
        gradient[row + target[r]] -= hit[r]


# ---- what decoding looks for in logits


def likeliest(rows: Any, k: int, excluded: int) -> tuple[Any, Any]:
    """The places of the k largest of each row, of equal ones the first, and the logs of their softmax, (n, k) each.

    The class `excluded` counts as -inf, but has its share of the probability; -1: there is none.
    """
    places, log_probabilities = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    in_parts(lambda i: _likeliest(rows[i], excluded, places[i], log_probabilities[i]), len(rows), 6 * rows.size)
    return places, log_probabilities


BLOCK = 64  # elements that are compared with the least of the largest so far, all at once


@part
def _any_above(block, least):
    """True if any of some elements is larger than a number, or NaN."""
    larger = np.int32(0)
    for i in range(block.size):
        larger += np.int32(not block[i] <= least)  # so that the compiler does it on many at once
    return larger > 0


@loop
def _likeliest(rows, excluded, places, log_probabilities):
    k = places.shape[1]
    best = np.empty(k, rows.dtype)
    for r in range(rows.shape[0]):
        count = 0
        for start in range(0, rows.shape[1], BLOCK):
            block = rows[r, start : start + BLOCK]
            if count == k and not _any_above(block, best[k - 1]):
                continue
            for i in range(block.size):
                x = block[i] if start + i != excluded else block.dtype.type(-math.inf)
                if count == k and not _before(x, best[k - 1]):
                    continue
                j = min(count, k - 1)
                while j > 0 and _before(x, best[j - 1]):
                    best[j], places[r, j] = best[j - 1], places[r, j - 1]
                    j -= 1
                best[j], places[r, j] = x, start + i
                count = min(count + 1, k)
        shift = best[0]
        if excluded >= 0 and rows[r, excluded] > shift:
            shift = rows[r, excluded]
        total = _sum_of_exponentials(rows, r, shift)
        for j in range(k):
            log_probabilities[r, j] = _log_share(best[j], shift, total)


@numba.njit(fastmath={"contract"})  # not even in a loop that may add in another order
def _log_share(logit, shift, total):
    """logit - shift - log(total) in this order, in which logits that are large lose no digits."""
    return float(logit) - shift - math.log(total)


@numba.njit
def _before(a, b):
    """True if a is larger; NaN is larger than every number."""
    return a > b or (a != a and b == b)


# ---- the rows of an embedding


def add_rows(rows: Any, ids: Any, length: int) -> Any:
    """Sum the rows (n, d) that share an id (n,) into a new array (length, d)."""
    out = np.zeros((length, rows.shape[1]), rows.dtype if len(rows) < length else np.float64)  # many share an id
    _add_rows(rows, ids, out)
    return out.astype(rows.dtype, copy=False)


@loop
def _add_rows(rows, ids, out):
    for r in range(rows.shape[0]):
        place = ids[r]
        for i in range(rows.shape[1]):
            out[place, i] += rows[r, i]
