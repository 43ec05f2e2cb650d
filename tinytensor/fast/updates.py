"""The optimisers' steps and the clipping of gradients in compiled loops, one call on each thread for all parameters.

A model has hundreds of parameters, most of them small. So a loop reads the addresses of all their arrays in a table,
and counts their elements through, from the first parameter to the last. Each thread takes as many as the others,
whatever the sizes of the parameters.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .compiling import address, loop, numbers, part
from .threads import in_parts

BLOCK = 1 << 15  # elements of which a sum of squares is added up before it joins the others


def _update(step: Any, work: int, parameters: list[Any], scalars: tuple[float, ...]) -> None:
    """One step for all parameters, each given by the arrays of a loop; `scalars` are the loop's, in its order."""
    places, ends = _table(parameters)
    settings = np.array(scalars, dtype=parameters[0][0].dtype)
    in_parts(lambda i: step(places, ends, settings, i.start, i.stop), int(ends[-1]), work * int(ends[-1]))


def scale_all(arrays: list[Any], factor: float) -> None:
    """Multiply all arrays by a factor, in place."""
    _update(_scale, 1, [(array,) for array in arrays], (factor,))


def sum_of_squares(arrays: list[Any]) -> Any:
    """Of all elements of all arrays, in float64; added up block by block, so that no bit depends on the threads."""
    places, ends = _table([(array,) for array in arrays])
    sums = np.empty(-(-int(ends[-1]) // BLOCK))
    real = arrays[0].dtype.type(0)
    in_parts(lambda i: _sum_squares(places, ends, real, i.start, i.stop, sums), len(sums), int(ends[-1]))
    return np.add.reduce(sums)


# ---- the table


def _table(parameters: list[Any]) -> tuple[Any, Any]:
    """Where the arrays of each parameter lie, and how many elements there are up to its end."""
    places = np.array([[address(array) for array in arrays] for arrays in parameters], np.int64)
    return places, np.cumsum([arrays[0].size for arrays in parameters])


@part
def _first_and_last(ends, n, start, stop):
    """Which elements of parameter n are counted from `start` to `stop`: none where both are the same."""
    begin = ends[n - 1] if n else 0
    first = max(start - begin, 0)
    return first, max(min(stop, ends[n]) - begin, first)


# ---- what is done to the elements


@loop
def _adam(places, ends, settings, start, stop):
    alpha, beta1, rest1, beta2, rest2, eps, shrink, penalty, sign = settings
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        theta, g = numbers(places[n, 0], alpha), numbers(places[n, 1], alpha)
        m, v = numbers(places[n, 2], alpha), numbers(places[n, 3], alpha)
        for i in range(first, last):
            h = sign * g[i]
            if penalty:
                h += penalty * theta[i]
            m[i] = beta1 * m[i] + rest1 * h
            v[i] = beta2 * v[i] + rest2 * h * h
            theta[i] = shrink * theta[i] - alpha * m[i] / (math.sqrt(v[i]) + eps)


adam = functools.partial(_update, _adam, 8)  # of theta, g, m and v
exactly = functools.partial(loop, fastmath=False)  # each operation rounded by itself, as NumPy's are


@exactly
def _sgd(places, ends, settings, start, stop):
    lr, weight_decay, sign, momentum, share, nesterov = settings
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        theta, g, b = numbers(places[n, 0], lr), numbers(places[n, 1], lr), numbers(places[n, -1], lr)
        for i in range(first, last):
            direction = g[i] * sign
            if weight_decay:
                direction += theta[i] * weight_decay
            if places.shape[1] == 3:  # else there is no b, and no momentum
                b[i] = b[i] * momentum + direction * share
                direction = direction + b[i] * momentum if nesterov else b[i]
            theta[i] -= direction * lr


sgd = functools.partial(_update, _sgd, 5)  # of theta and g, and b where there is a momentum; NumPy's bits


@loop
def _scale(places, ends, settings, start, stop):
    factor = settings[0]
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        x = numbers(places[n, 0], factor)
        for i in range(first, last):
            x[i] *= factor


@loop
def _sum_squares(places, ends, real, first_block, last_block, sums):
    n = 0
    for block in range(first_block, last_block):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, ends[-1])
        total, done = 0.0, start
        while done < stop:
            while ends[n] <= done:
                n += 1
            first, last = _first_and_last(ends, n, done, stop)
            x = numbers(places[n, 0], real)
            for i in range(first, last):
                total += np.float64(x[i]) * np.float64(x[i])
            done += last - first
        sums[block] = total
