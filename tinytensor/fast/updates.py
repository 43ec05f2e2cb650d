"""The optimisers' steps in compiled loops, one call on each thread for all parameters together.

A model has hundreds of parameters, most of them small. So a loop is told in a table where the arrays of all of them
lie, and takes their elements, counted through from the first parameter to the last, from one number to another: as many
on each thread, whatever the parameters' sizes.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .compiling import _array, loop
from .threads import in_parts


def adam(parameters: list[Any], scalars: tuple[float, ...]) -> None:
    """One step for all parameters, each given as theta, g, m and v; `scalars` are those of the loop, in its order."""
    _update(_adam, parameters, scalars, 8)


def sgd(parameters: list[Any], scalars: tuple[float, ...]) -> None:
    """Likewise, each given as theta and g, and b where there is a momentum; to the last bit what NumPy gives."""
    _update(_sgd, parameters, scalars, 5)


def _update(step: Any, parameters: list[Any], scalars: tuple[float, ...], work: int) -> None:
    places = np.empty((len(parameters), len(parameters[0])), np.int64)
    for n, arrays in enumerate(parameters):
        _note(places, n, *arrays)
    ends = np.cumsum([theta.size for theta, *_ in parameters])
    settings = np.array(scalars, dtype=parameters[0][0].dtype)
    in_parts(lambda i: step(places, ends, settings, i.start, i.stop), int(ends[-1]), work * int(ends[-1]))


@loop
def _note(places, n, *arrays):
    """Write down where the arrays of parameter n lie: many times faster than to ask NumPy."""
    for k in range(len(arrays)):
        places[n, k] = arrays[k].ctypes.data


@loop
def _first_and_last(ends, n, start, stop):
    """The elements of parameter n among those that are counted from `start` to `stop`: none where both are the same."""
    begin = ends[n - 1] if n else 0
    first = max(start - begin, 0)
    return first, max(min(stop, ends[n]) - begin, first)


@loop
def _part(place, first, last, like):
    """Of the array that lies there the elements from the first to the last."""
    return _array(place + first * like.itemsize, (last - first,), like)


@loop
def _adam(places, ends, settings, start, stop):
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        theta, g = _part(places[n, 0], first, last, settings), _part(places[n, 1], first, last, settings)
        m, v = _part(places[n, 2], first, last, settings), _part(places[n, 3], first, last, settings)
        _adam_of_one(theta, g, m, v, settings)


@loop
def _adam_of_one(theta, g, m, v, settings):
    alpha, beta1, rest1, beta2, rest2, eps, shrink, penalty, sign = settings
    for i in range(theta.size):
        h = sign * g[i] + penalty * theta[i]
        m[i] = beta1 * m[i] + rest1 * h
        v[i] = beta2 * v[i] + rest2 * h * h
        theta[i] = shrink * theta[i] - alpha * m[i] / (math.sqrt(v[i]) + eps)


exactly = functools.partial(loop, fastmath=False)  # each operation rounded by itself, as NumPy's are


@exactly
def _sgd(places, ends, settings, start, stop):
    for n in range(len(ends)):
        first, last = _first_and_last(ends, n, start, stop)
        theta, g = _part(places[n, 0], first, last, settings), _part(places[n, 1], first, last, settings)
        if places.shape[1] == 2:
            _sgd_of_one(theta, g, settings)
        else:
            _sgd_with_momentum(theta, g, _part(places[n, 2], first, last, settings), settings)


@exactly
def _sgd_of_one(theta, g, settings):
    lr, weight_decay, sign = settings[:3]
    for i in range(theta.size):
        direction = g[i] * sign
        if weight_decay:
            direction += theta[i] * weight_decay
        theta[i] -= direction * lr


@exactly
def _sgd_with_momentum(theta, g, b, settings):
    lr, weight_decay, sign, momentum, share, nesterov = settings
    for i in range(theta.size):
        direction = g[i] * sign
        if weight_decay:
            direction += theta[i] * weight_decay
        b[i] = b[i] * momentum + direction * share
        direction = direction + b[i] * momentum if nesterov else b[i]
        theta[i] -= direction * lr
