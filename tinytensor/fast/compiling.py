"""How loops are compiled, which arrays they take, and functions of numbers that they can do on many at once."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic, overload, register_jitable

REALS = (np.dtype("float32"), np.dtype("float64"))

FAST = {"reassoc", "contract", "nsz"}
OPTIONS: dict[str, Any] = {"error_model": "numpy", "forceinline": True}
"""What is called within a loop becomes a part of it.

Otherwise a process that finds loops on disk may call another copy than the one that compiled them: whichever loop it
reads first brings its own, which may add numbers up in another order.
"""


def loop(function: Any, fastmath: Any = FAST) -> Any:
    """A function over raw arrays, compiled; other threads run meanwhile."""
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, **OPTIONS}
    try:
        return numba.njit(function, cache=True, **options)
    except (RuntimeError, NumbaError):  # no folder that could be written to
        return numba.njit(function, **options)


def part(function: Any) -> Any:
    """A function that loops call, compiled with them; called from Python, it is not compiled.

    It takes half the time of a `loop` to compile: no way into it from Python is made, and one for all numbers that
    stand in its calls, where a `loop` is compiled anew for `f(x, 0)` and for `f(x, 1)`.
    """
    return register_jitable(fastmath=FAST, no_cfunc_wrapper=True, **OPTIONS)(function)


def fits(*arrays: Any) -> bool:
    """Whether the loops take these arrays: of one dtype they know, contiguous, not empty. None is passed over."""
    dtype = arrays[0].dtype
    present = [a for a in arrays if a is not None]
    return dtype in REALS and not [a for a in present if not (a.dtype == dtype and a.size and a.flags.carray)]


# ---- arrays that a loop is told the places of


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def turn(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), turn


@part
def _array(address, shape, like):
    """The array of that shape, and of the dtype of `like`, that lies at an address."""
    return carray(_pointer(address), shape, like.dtype)  # type: ignore[call-arg]


# ---- the exponential function, in arithmetic that the compiler can do on many elements at once


LOG2_E = np.float32(math.log2(math.e))
LN2_HIGH = np.float32(0.693359375)  # few bits, so that its product with a small integer is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
TERMS = tuple(np.float32(1 / math.factorial(k)) for k in range(8))
LEAST = np.float32(-87.3)  # e to this is the smallest number with all its digits; below, the result is 0


def _exp(x: Any) -> Any:
    """e^x, for x up to 88 in float32."""
    return math.exp(x)


def _exp32(x):
    n = np.floor(x * LOG2_E + np.float32(0.5))  # e^x = 2^n e^r with |r| <= ln(2)/2
    r = x - n * LN2_HIGH - n * LN2_LOW
    y = TERMS[7]
    for k in (6, 5, 4, 3, 2, 1, 0):
        y = TERMS[k] + r * y
    two_to_n = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # n put where the exponent is
    return np.float32(0) if x < LEAST else y * two_to_n


@overload(_exp, jit_options={"fastmath": {"contract"}})  # in another order, r would lose digits
def _choose_exp(x):
    return _exp32 if x == numba.float32 else (lambda x: math.exp(x))
