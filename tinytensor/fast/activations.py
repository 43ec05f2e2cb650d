"""Activation functions in one pass over memory each, there and back.

Single ops call them for arrays (`on_arrays`), and loops over sub-layers and over steps of decoding by their addresses
(`ACTIVATIONS`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from .compiling import _exp, address, called, numbers, part
from .pool import empty_like
from .threads import in_parts

WORK = 16  # element-wise operations that an element takes


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


# ---- the passes: `real` only tells the dtype, and a result lies elsewhere than what it is made of


@called
def _relu(real, count, x, out):
    x, out, zero = numbers(x, real), numbers(out, real), type(real)(0)
    for i in range(count):
        out[i] = zero if x[i] <= zero else x[i]


@called
def _relu_gradient(real, count, g, x, out):  # x or relu(x): both are positive in the same places
    g, x, out, zero = numbers(g, real), numbers(x, real), numbers(out, real), type(real)(0)
    for i in range(count):
        out[i] = zero if x[i] <= zero else g[i]


@called
def _gelu(real, count, x, out):
    """x * P(N(0, 1) <= x)."""
    x, out = numbers(x, real), numbers(out, real)
    one, half, root = type(real)(1), type(real)(0.5), type(real)(math.sqrt(0.5))
    for i in range(count):
        out[i] = x[i] * (half * (one + _erf(x[i] * root)))


@called
def _gelu_gradient(real, count, g, x, out):
    g, x, out = numbers(g, real), numbers(x, real), numbers(out, real)
    one, half, root = type(real)(1), type(real)(0.5), type(real)(math.sqrt(0.5))
    peak = type(real)(1 / math.sqrt(2 * math.pi))
    for i in range(count):
        density = peak * _exp(-half * x[i] * x[i])
        out[i] = g[i] * (half * (one + _erf(x[i] * root)) + x[i] * density)


ROOT, BEND = math.sqrt(2 / math.pi), 0.044715  # u = ROOT (x + BEND x³)
FAR = 1e4  # from there on a GELU is x or 0 to the last digit


@called
def _gelu_tanh(real, count, x, out):
    """The same, with the probability approximated by (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))."""
    x, out = numbers(x, real), numbers(out, real)
    one, slope, bend = type(real)(1), type(real)(2 * ROOT), type(real)(BEND)
    for i in range(count):
        out[i] = x[i] * _share(slope * x[i] * (one + bend * x[i] * x[i]))[0]


@called
def _gelu_tanh_gradient(real, count, g, x, out):
    g, x, out = numbers(g, real), numbers(x, real), numbers(out, real)
    one, three, slope, bend = type(real)(1), type(real)(3), type(real)(2 * ROOT), type(real)(BEND)
    far = type(real)(FAR)
    for i in range(count):
        share, change = _share(slope * x[i] * (one + bend * x[i] * x[i]))
        near = x[i] if abs(x[i]) < far else far  # further away `change` is 0, and would meet infinity
        out[i] = g[i] * (share + near * change * slope * (one + three * bend * near * near))


@called
def _silu(real, count, x, out):
    """x / (1 + exp(-x))."""
    x, out = numbers(x, real), numbers(out, real)
    for i in range(count):
        out[i] = x[i] * _share(x[i])[0]


@called
def _silu_gradient(real, count, g, x, out):
    g, x, out = numbers(g, real), numbers(x, real), numbers(out, real)
    for i in range(count):
        share, change = _share(x[i])
        out[i] = g[i] * (share + x[i] * change)


@called
def _sigmoid(real, count, x, out):
    x, out = numbers(x, real), numbers(out, real)
    for i in range(count):
        out[i] = _share(x[i])[0]


@called
def _sigmoid_gradient(real, count, g, x, out):
    g, x, out = numbers(g, real), numbers(x, real), numbers(out, real)
    for i in range(count):
        out[i] = g[i] * _share(x[i])[1]


@called
def _identity(real, count, x, out):
    x, out = numbers(x, real), numbers(out, real)
    for i in range(count):
        out[i] = x[i]


@called
def _identity_gradient(real, count, g, x, out):
    g, out = numbers(g, real), numbers(out, real)
    for i in range(count):
        out[i] = g[i]


@part
def _share(x):
    """The sigmoid p = 1 / (1 + exp(-x)) and p (1 - p), from numbers that do not cancel out."""
    one = type(x)(1)
    e = _exp(-abs(x))
    larger = one / (one + e)
    return larger if x >= 0 else e * larger, e * larger * larger


ACTIVATIONS = {
    "relu": (_relu, _relu_gradient),
    "gelu": (_gelu, _gelu_gradient),
    "gelu_tanh": (_gelu_tanh, _gelu_tanh_gradient),
    "silu": (_silu, _silu_gradient),
    "sigmoid": (_sigmoid, _sigmoid_gradient),
    "identity": (_identity, _identity_gradient),
}
"""For each name: the function, (real, count, x, out), and its gradient, (real, count, g, x, out)."""


def on_arrays(name: str) -> list[Any]:
    """A function and its gradient on whole arrays, (x) and (g, x)."""
    return [functools.partial(_each, function) for function in ACTIVATIONS[name]]


def _each(function: Any, *arrays: Any) -> Any:
    out = empty_like(arrays[0])
    compiled, flat = function(out.dtype).ctypes, [a.reshape(-1) for a in (*arrays, out)]
    in_parts(lambda i: compiled(0, i.stop - i.start, *[address(a[i]) for a in flat]), out.size, WORK * out.size)
    return out
