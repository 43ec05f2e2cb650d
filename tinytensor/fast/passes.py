"""Passes over the rows of a matrix, which the loops over sub-layers call between their products.

Each is compiled by itself and called by its address (`called` in `compiling.py`). Its first argument is a number of the
dtype, the others are counts, and addresses of matrices whose rows lie one behind the other. Sums along rows and over
them are kept in float64; those over them are added to what is there.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from .compiling import _exp, call, called, numbers, part
from .hashed import keeps

SAFE = 40.0  # exp of numbers up to this size neither overflows nor vanishes in float32

# ---- normalisation


def normalizing(by_mean: bool) -> tuple[Any, Any]:
    """The passes of the layer norm, or of the RMS norm, which subtracts no mean and adds no bias."""

    @called
    def normalize(eps, rows, columns, x, weight, bias, out, normal, factor):
        """The rows with mean 0 and mean square 1, times the weight, plus the bias; each is scaled by its `factor`."""
        x, weight, bias, out = numbers(x, eps), numbers(weight, eps), numbers(bias, eps), numbers(out, eps)
        normal, factor = numbers(normal, eps), numbers(factor, eps)
        for r in range(rows):
            row, mean, squares = r * columns, type(eps)(0), 0.0
            if by_mean:
                total = 0.0
                for i in range(columns):
                    total += x[row + i]
                mean = type(eps)(total / columns)
            for i in range(columns):  # a pass of its own: the variance of what is left
                away = x[row + i] - mean
                squares += away * away
            square = squares / columns + eps
            scale = type(eps)(1 / math.sqrt(square) * (square / square if by_mean else 1))  # NaN where squares overflow
            factor[r] = scale
            for i in range(columns):
                value = (x[row + i] - mean) * scale
                normal[row + i] = value
                out[row + i] = value * weight[i] + bias[i] if by_mean else value * weight[i]

    @called
    def normalize_gradient(real, rows, columns, g, normal, factor, weight, g_x, sums, keep):
        """The gradient for x, added to what is there if it is to `keep` that; the sums are for weight and bias."""
        g, normal, factor = numbers(g, real), numbers(normal, real), numbers(factor, real)
        weight, g_x, sums = numbers(weight, real), numbers(g_x, real), numbers(sums, 0.0)
        for r in range(rows):
            row, total, along = r * columns, 0.0, 0.0
            for i in range(columns):
                sums[i] += g[row + i] * normal[row + i]
                h = g[row + i] * weight[i]
                along += h * normal[row + i]
                if by_mean:
                    sums[columns + i] += g[row + i]
                    total += h
            mean, mean_along, scale = type(real)(total / columns), type(real)(along / columns), factor[r]
            for i in range(columns):
                before = g_x[row + i] if keep else type(real)(0)
                g_x[row + i] = before + scale * (g[row + i] * weight[i] - mean - normal[row + i] * mean_along)

    return normalize, normalize_gradient


BY_MEAN_AND_SIZE, BY_SIZE = normalizing(True), normalizing(False)


# ---- rotary positions


@called
def turn(real, rows, end, head, cos, sin, is_interleaved, x, columns):
    """Turn the heads of each row, up to column `end`, by its angles, (rows, head / 2) of cos and of sin."""
    x, cos, sin = numbers(x, real), numbers(cos, real), numbers(sin, real)
    half = head // 2
    step, apart = (2, 1) if is_interleaved else (1, half)
    for r in range(rows):
        for first in range(r * columns, r * columns + end, head):
            for i in range(half):
                j = first + i * step
                a, b, c, s = x[j], x[j + apart], cos[r * half + i], sin[r * half + i]
                x[j] = a * c - b * s
                x[j + apart] = a * s + b * c


# ---- dropout: `start` is the number of the first row, the last three numbers are those of `keeps`

_keeps = numba.njit(keeps)


@part
def _factor(place, scale, low, high, below):
    """The factor of an element by its number: the scale, or 0. Where nothing is dropped, 1, without a hash."""
    if not below:
        return type(scale)(1)
    kept = _keeps(np.uint32(place), np.uint32(low), np.uint32(high), np.uint32(below))
    return scale if kept else type(scale)(0)


@called
def drop(scale, rows, columns, x, out, start, low, high, below):
    """out = drop(x)."""
    x, out = numbers(x, scale), numbers(out, scale)
    for i in range(rows * columns):
        out[i] = x[i] * _factor(start * columns + i, scale, low, high, below)


@called
def add(scale, rows, columns, x, branch, bias, out, start, low, high, below):
    """out = x + drop(branch + bias)."""
    x, branch, bias, out = numbers(x, scale), numbers(branch, scale), numbers(bias, scale), numbers(out, scale)
    for r in range(rows):
        row = r * columns
        if not below:  # written out, since the compiler would add in another order
            for i in range(columns):
                out[row + i] = x[row + i] + (branch[row + i] + bias[i])
            continue
        for i in range(columns):
            factor = _factor(start * columns + row + i, scale, low, high, below)
            out[row + i] = x[row + i] + (branch[row + i] + bias[i]) * factor


@called
def activate(scale, function, rows, columns, x, bias, out, start, low, high, below):
    """out = drop(f(x + bias)) with f at an address (`activations.py`), and x + bias in place of x."""
    values, bias, results = numbers(x, scale), numbers(bias, scale), numbers(out, scale)
    for r in range(rows):
        for i in range(columns):
            values[r * columns + i] += bias[i]
    call(function, (scale, rows * columns, x, out))
    if below:
        for i in range(rows * columns):
            results[i] *= _factor(start * columns + i, scale, low, high, below)


@called
def activate_gradient(scale, function, rows, columns, g, x, out, sums, start, low, high, below):
    """The gradient for x + bias, which is x here, added to the sums over rows; g is dropped in place."""
    given, found, sums = numbers(g, scale), numbers(out, scale), numbers(sums, 0.0)
    if below:
        for i in range(rows * columns):
            given[i] *= _factor(start * columns + i, scale, low, high, below)
    call(function, (scale, rows * columns, g, x, out))
    for r in range(rows):
        for i in range(columns):
            sums[i] += found[r * columns + i]


@called
def rectify(scale, _, rows, columns, x, bias, out, start, low, high, below):
    """drop(max(0, x + bias)), in place: a ReLU needs only its result for its gradient."""
    x, bias, zero = numbers(x, scale), numbers(bias, scale), type(scale)(0)
    for r in range(rows):
        row = r * columns
        for i in range(columns):
            value = x[row + i] + bias[i]
            factor = _factor(start * columns + row + i, scale, low, high, below)
            x[row + i] = zero if value <= zero else value * factor


@called
def rectify_gradient(scale, _, rows, columns, g, x, out, sums, start, low, high, below):
    """The gradient through drop(max(0, ...)), which gave x, in place, and added to the sums over rows."""
    g, x, sums, zero = numbers(g, scale), numbers(x, scale), numbers(sums, 0.0), type(scale)(0)
    for r in range(rows):
        row = r * columns
        for i in range(columns):
            value = zero if x[row + i] <= zero else g[row + i] * scale
            g[row + i] = value
            sums[i] += value


@called
def multiply_by(real, count, other, x):
    """x times other, in place."""
    other, x = numbers(other, real), numbers(x, real)
    for i in range(count):
        x[i] *= other[i]


# ---- a vector for all rows


@called
def add_vector(real, rows, columns, vector, x, apart):
    """Add it to each row, `apart` elements from one to the next."""
    vector, x = numbers(vector, real), numbers(x, real)
    for r in range(rows):
        row = r * apart
        for i in range(columns):
            x[row + i] += vector[i]


@called
def add_rows_up(real, rows, columns, x, apart, sums):
    """The gradient of `add_vector` for the vector."""
    x, sums = numbers(x, real), numbers(sums, 0.0)
    for r in range(rows):
        row = r * apart
        for i in range(columns):
            sums[i] += x[row + i]


# ---- softmax


@called
def softmax(scale, heads, target, source, x, mask, mask_head, mask_row, shifts):
    """softmax(x * scale + mask) of scores (heads, target, source), in place; rows of -inf become zeros.

    `mask_head` and `mask_row` are the distances in the mask, in bytes, from head to head and from row to row; there is
    none at 0. With `shifts`, each row is shifted by its largest score, as it is where one is large.
    """
    x, rows, large = numbers(x, scale), heads * target, np.int32(0)
    for i in range(rows * source):
        x[i] *= scale
        large += np.int32(0) if abs(x[i]) <= SAFE else np.int32(1)
    if mask:
        for r in range(rows):
            row, hidden = r * source, numbers(mask + r // target * mask_head + r % target * mask_row, scale)
            for i in range(source):
                x[row + i] += hidden[i]
    if shifts or large > 0:
        for r in range(rows):
            row = r * source
            shift = x[row]
            for i in range(source):
                shift = x[row + i] if x[row + i] > shift else shift
            if shift > -math.inf:
                for i in range(source):
                    x[row + i] -= shift
    for i in range(rows * source):
        x[i] = _exp(x[i])
    for r in range(rows):
        row = r * source
        total = 0.0
        for i in range(source):
            total += x[row + i]
        share = type(scale)(1) / type(scale)(total if total != 0 else 1)
        for i in range(source):
            x[row + i] *= share


@called
def softmax_gradient(scale, rows, columns, weights, g):
    """The gradient for scores that softmax made these weights of, in place."""
    weights, g = numbers(weights, scale), numbers(g, scale)
    for r in range(rows):
        row = r * columns
        along = 0.0
        for i in range(columns):
            along += g[row + i] * weights[row + i]
        total = type(scale)(along)
        for i in range(columns):
            g[row + i] = weights[row + i] * (g[row + i] - total) * scale
