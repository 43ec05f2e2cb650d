"""GELU, its approximation by tanh, and SiLU in one pass over memory each, there and back."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from .compiling import _exp, loop
from .pool import empty_like
from .threads import in_parts

WORK = 16  # element-wise operations that an element takes


def gelu(x: Any) -> Any:
    """x * P(N(0, 1) <= x)."""
    return _each(_gelu, x)


def gelu_gradient(g: Any, x: Any) -> Any:
    return _each(_gelu_gradient, g, x)


def gelu_tanh(x: Any) -> Any:
    """The same, with the probability approximated by (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))."""
    return _each(_gelu_tanh, x)


def gelu_tanh_gradient(g: Any, x: Any) -> Any:
    return _each(_gelu_tanh_gradient, g, x)


def silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    return _each(_silu, x)


def silu_gradient(g: Any, x: Any) -> Any:
    return _each(_silu_gradient, g, x)


def _each(function: Any, *arrays: Any) -> Any:
    """What a loop writes for each element of some arrays."""
    out = empty_like(arrays[0])
    flat = [a.reshape(-1) for a in (*arrays, out)]
    in_parts(lambda i: function(*[a[i] for a in flat]), out.size, WORK * out.size)
    return out


# ---- the error function, in arithmetic that the compiler can do on many elements at once


UPPER = tuple(map(np.float32, (
    -1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05, -2.10102402082508e-06,
    2.77068142495902e-08, -2.72614225801306e-10,
)))  # fmt: skip
LOWER = tuple(map(np.float32, (
    -1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04, -1.45660718464996e-05,
)))  # fmt: skip
ALL = np.float32(4)  # from here on, erf is 1 in float32


def _erf(x: Any) -> Any:
    return math.erf(x)


def _erf32(x):
    """x P(x²) / Q(x²), the minimax approximation that Eigen has: 3 units in the last place."""
    low = -ALL if x < -ALL else x
    within = ALL if low > ALL else low
    square = within * within
    upper, lower = UPPER[6], LOWER[4]
    for k in (5, 4, 3, 2, 1, 0):
        upper = UPPER[k] + square * upper
    for k in (3, 2, 1, 0):
        lower = LOWER[k] + square * lower
    ratio = within * upper / lower
    return np.float32(1) if x >= ALL else (np.float32(-1) if x <= -ALL else ratio)


@overload(_erf, jit_options={"fastmath": {"contract"}})
def _choose_erf(x):
    return _erf32 if x == numba.float32 else (lambda x: math.erf(x))


# ---- the loops


@loop
def _gelu(x, out):
    one, half, root = x.dtype.type(1), x.dtype.type(0.5), x.dtype.type(math.sqrt(0.5))
    for i in range(x.size):
        out[i] = x[i] * (half * (one + _erf(x[i] * root)))


@loop
def _gelu_gradient(g, x, out):
    one, half, root = x.dtype.type(1), x.dtype.type(0.5), x.dtype.type(math.sqrt(0.5))
    peak = x.dtype.type(1 / math.sqrt(2 * math.pi))
    for i in range(x.size):
        density = peak * _exp(-half * x[i] * x[i])
        out[i] = g[i] * (half * (one + _erf(x[i] * root)) + x[i] * density)


ROOT, BEND = math.sqrt(2 / math.pi), 0.044715  # u = ROOT (x + BEND x³)


@loop
def _gelu_tanh(x, out):
    one, slope, bend = x.dtype.type(1), x.dtype.type(2 * ROOT), x.dtype.type(BEND)
    for i in range(x.size):
        out[i] = x[i] * _share(slope * x[i] * (one + bend * x[i] * x[i]))[0]


@loop
def _gelu_tanh_gradient(g, x, out):
    one, three, slope, bend = x.dtype.type(1), x.dtype.type(3), x.dtype.type(2 * ROOT), x.dtype.type(BEND)
    for i in range(x.size):
        square = bend * x[i] * x[i]
        share, change = _share(slope * x[i] * (one + square))
        out[i] = g[i] * (share + x[i] * change * slope * (one + three * square))


@loop
def _silu(x, out):
    for i in range(x.size):
        out[i] = x[i] * _share(x[i])[0]


@loop
def _silu_gradient(g, x, out):
    for i in range(x.size):
        share, change = _share(x[i])
        out[i] = g[i] * (share + x[i] * change)


@loop
def _share(x):
    """The sigmoid p = 1 / (1 + exp(-x)) and p (1 - p), from numbers that do not cancel out."""
    one = type(x)(1)
    e = _exp(-abs(x))
    larger = one / (one + e)
    return larger if x >= 0 else e * larger, e * larger * larger
