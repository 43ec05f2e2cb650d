"""Element-wise functions: each a formula and its derivative.

`xp` is the namespace that computes: NumPy, CuPy, or, for derivatives of derivatives, tinytensor itself. In a rule, `g`
is the gradient of the result; the rule returns that of the input: g times the derivative. Inputs broadcast against
each other; the engine sums a gradient back to its input's shape. At a kink or a pole, docs/promises.md states the
choice: abs'(0) = 0, equal arguments of maximum and minimum share, x**0 is 1 with gradient 0.
"""

from __future__ import annotations

import math
from typing import Any

from ..primitive import op

# ---- arithmetic


@op(x1=lambda xp, g: g, x2=lambda xp, g: g)
def add(xp, x1, x2):
    """x1 + x2."""
    return xp.add(x1, x2)


@op(x1=lambda xp, g: g, x2=lambda xp, g: xp.negative(g))
def subtract(xp, x1, x2):
    """x1 - x2."""
    return xp.subtract(x1, x2)


@op(x1=lambda xp, g, x2: g * x2, x2=lambda xp, g, x1: g * x1)
def multiply(xp, x1, x2):
    """x1 * x2."""
    return xp.multiply(x1, x2)


@op(floating=True, x1=lambda xp, g, x2: g / x2, x2=lambda xp, g, x1, x2: -g * x1 / x2 / x2)
def divide(xp, x1, x2):
    """x1 / x2; integers divide to the default float dtype."""
    return xp.divide(x1, x2)


@op(x1=lambda xp, g: xp.zeros_like(g), x2=lambda xp, g: xp.zeros_like(g))
def floor_divide(xp, x1, x2):
    """floor(x1 / x2); its gradient is 0, as it is constant between its steps."""
    return xp.floor_divide(x1, x2)


@op(x1=lambda xp, g: g, x2=lambda xp, g, x1, x2: -g * xp.floor_divide(x1, x2))
def remainder(xp, x1, x2):
    """x1 - floor(x1 / x2) * x2: the remainder with the sign of x2."""
    return xp.remainder(x1, x2)


def _pow_base(xp, g, x1, x2):
    """g ⊙ x2 x1^(x2 − 1)."""
    if isinstance(x2, (int, float)):  # the common case, x ** 2
        return xp.zeros_like(g) if x2 == 0 else g * (x2 * x1 ** (x2 - 1))
    zero = x2 == 0  # x**0 is 1 for every x: gradient 0, at x = 0 as well
    return g * xp.where(zero, 0.0, x2 * x1 ** (xp.where(zero, 1.0, x2) - 1))


def _pow_exponent(xp, g, out, x1, x2):
    """g ⊙ out ⊙ log(x1)."""
    if isinstance(x1, (int, float)):
        return g * out * math.log(x1) if x1 > 0 else g * xp.where(x2 >= 0 if x1 == 0 else x2 != x2, 0.0, math.nan)
    zero = (x1 == 0) & (x2 >= 0)  # 0**y is 0 for y > 0: gradient 0
    return g * xp.where(zero, 0.0, out * xp.log(xp.where(zero, 1.0, x1)))


@op(x1=_pow_base, x2=_pow_exponent)
def pow(xp, x1, x2):
    """x1 to the power x2; x**0 is 1 with gradient 0, 0**y has gradient 0 for y > 0, and 2**-1 needs a float."""
    return xp.pow(x1, x2)


@op(x=lambda xp, g: -g)
def negative(xp, x):
    """-x."""
    return xp.negative(x)


@op(x=lambda xp, g: g)
def positive(xp, x):
    """+x: a copy."""
    return xp.copy(x)


@op(x=lambda xp, g, x: g * xp.sign(x))
def abs(xp, x):
    """The absolute value; its gradient at 0 is 0."""
    return xp.abs(x)


@op(x=lambda xp, g, x: g * (2 * x))
def square(xp, x):
    """x * x."""
    return xp.square(x)


@op(floating=True, x=lambda xp, g, out: g * 0.5 / out)
def sqrt(xp, x):
    """The square root."""
    return xp.sqrt(x)


@op(floating=True, x=lambda xp, g, out: -g * out * out)
def reciprocal(xp, x):
    """1 / x."""
    return xp.reciprocal(x)


@op(floating=True, x=lambda xp, g, out: -0.5 * g * out * out * out)
def rsqrt(xp, x):
    """1 / sqrt(x)."""
    return 1 / xp.sqrt(x)


# ---- exponentials and logarithms


@op(floating=True, x=lambda xp, g, out: g * out)
def exp(xp, x):
    """e to the power x."""
    return xp.exp(x)


@op(floating=True, x=lambda xp, g, out: g * math.log(2) * out)
def exp2(xp, x):
    """2 to the power x."""
    return xp.exp2(x)


@op(floating=True, x=lambda xp, g, x: g * xp.exp(x))
def expm1(xp, x):
    """exp(x) - 1, accurate for small x."""
    return xp.expm1(x)


@op(floating=True, x=lambda xp, g, x: g / x)
def log(xp, x):
    """The natural logarithm."""
    return xp.log(x)


@op(floating=True, x=lambda xp, g, x: g / (1 + x))
def log1p(xp, x):
    """log(1 + x), accurate for small x."""
    return xp.log1p(x)


@op(floating=True, x=lambda xp, g, x: g / (x * math.log(2)))
def log2(xp, x):
    """The logarithm to base 2."""
    return xp.log2(x)


@op(floating=True, x=lambda xp, g, x: g / (x * math.log(10)))
def log10(xp, x):
    """The logarithm to base 10."""
    return xp.log10(x)


def _logaddexp_rule(xp, g, x, other):
    """g * exp(x) / (exp(x) + exp(other)); two that are both inf share g, two that are both -inf weigh nothing."""
    infinite, zero = (x == other) & xp.isinf(x), xp.zeros_like(g)
    share = xp.sigmoid(xp.where(infinite, zero, x) - xp.where(infinite, zero, other))
    return xp.where(infinite & (x < 0), 0.0, g * share)


@op(
    floating=True,
    x1=lambda xp, g, x1, x2: _logaddexp_rule(xp, g, x1, x2),
    x2=lambda xp, g, x1, x2: _logaddexp_rule(xp, g, x2, x1),
)
def logaddexp(xp, x1, x2):
    """log(exp(x1) + exp(x2)), without overflow."""
    return xp.logaddexp(x1, x2)


def _check_real(x: Any) -> None:
    if x.dtype.kind == "c":
        raise TypeError(f"expected real numbers, got {x.dtype}")


@op(floating=True, x=lambda xp, g, out: g * (out * (1 - out)))
def sigmoid(xp, x):
    """1 / (1 + exp(-x)), without overflow, for real numbers."""
    _check_real(x)
    return xp.sigmoid(x)


@op(floating=True, x=lambda xp, g, x: g * xp.sigmoid(x))
def softplus(xp, x):
    """log(1 + exp(x)), without overflow: the smooth form of max(x, 0), for real x."""
    _check_real(x)
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


@op(floating=True, x=lambda xp, g, x: g * (2 / math.sqrt(math.pi)) * xp.exp(-x * x))
def erf(xp, x):
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x (computed by SciPy on the CPU)."""
    return xp.erf(x)


# ---- trigonometric and hyperbolic functions


@op(floating=True, x=lambda xp, g, x: g * xp.cos(x))
def sin(xp, x):
    """The sine of x in radians."""
    return xp.sin(x)


@op(floating=True, x=lambda xp, g, x: -g * xp.sin(x))
def cos(xp, x):
    """The cosine of x in radians."""
    return xp.cos(x)


@op(floating=True, x=lambda xp, g, out: g * (1 + out * out))
def tan(xp, x):
    """The tangent of x in radians."""
    return xp.tan(x)


def _sinc_rule(xp, g, x):
    """g ⊙ π (cos y - sinc) / y for y = π x; near 0, where both cancel, by the first terms of their series."""
    y = math.pi * x
    small, square = xp.abs(y) < 0.05, y * y
    series = y * (-1 / 3 + square * (1 / 30 + square * (-1 / 840 + square / 45360)))
    away = xp.where(small, 1.0, y)
    return g * (math.pi * xp.where(small, series, (xp.cos(away) - xp.sin(away) / away) / away))


@op(floating=True, x=_sinc_rule)
def sinc(xp, x):
    """sin(pi x) / (pi x), and 1 at 0."""
    return xp.sinc(x)


@op(floating=True, x=lambda xp, g, x: g / xp.sqrt((1 - x) * (1 + x)))
def asin(xp, x):
    """The angle whose sine is x."""
    return xp.asin(x)


@op(floating=True, x=lambda xp, g, x: -g / xp.sqrt((1 - x) * (1 + x)))
def acos(xp, x):
    """The angle whose cosine is x."""
    return xp.acos(x)


@op(floating=True, x=lambda xp, g, x: g / (1 + x * x))
def atan(xp, x):
    """The angle whose tangent is x."""
    return xp.atan(x)


def _turn(xp, g, a, x1, x2):
    """g ⊙ a / (x1² + x2²), without overflow, and 0 at (0, 0)."""
    length = xp.hypot(x1, x2)
    length = xp.where(length == 0, 1.0, length)
    return g * (a / length / length)


@op(
    floating=True,
    x1=lambda xp, g, x1, x2: _turn(xp, g, x2, x1, x2),
    x2=lambda xp, g, x1, x2: _turn(xp, g, -x1, x1, x2),
)
def atan2(xp, x1, x2):
    """The angle of the point (x2, x1), from -pi to pi; its gradient at (0, 0) is 0."""
    return xp.atan2(x1, x2)


@op(floating=True, x=lambda xp, g, x: g * xp.cosh(x))
def sinh(xp, x):
    """The hyperbolic sine."""
    return xp.sinh(x)


@op(floating=True, x=lambda xp, g, x: g * xp.sinh(x))
def cosh(xp, x):
    """The hyperbolic cosine."""
    return xp.cosh(x)


@op(floating=True, x=lambda xp, g, out: g * (1 - out * out))
def tanh(xp, x):
    """The hyperbolic tangent."""
    return xp.tanh(x)


@op(floating=True, x=lambda xp, g, x: g / xp.sqrt(x * x + 1))
def asinh(xp, x):
    """The inverse of sinh."""
    return xp.asinh(x)


@op(floating=True, x=lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)))
def acosh(xp, x):
    """The inverse of cosh."""
    return xp.acosh(x)


@op(floating=True, x=lambda xp, g, x: g / ((1 - x) * (1 + x)))
def atanh(xp, x):
    """The inverse of tanh."""
    return xp.atanh(x)


def _hypot_rule(xp, g, out, a):
    """g ⊙ this input / out."""
    zero = out == 0  # the norm of the zero vector has gradient 0
    return g * xp.where(zero, 0.0, a / xp.where(zero, 1.0, out))


@op(
    floating=True,
    x1=lambda xp, g, out, x1: _hypot_rule(xp, g, out, x1),
    x2=lambda xp, g, out, x2: _hypot_rule(xp, g, out, x2),
)
def hypot(xp, x1, x2):
    """sqrt(x1**2 + x2**2), without overflow; its gradient at (0, 0) is 0."""
    return xp.hypot(x1, x2)


# ---- choosing


def _larger(x, other):
    return (x >= other) | (x != x)


def _smaller(x, other):
    return (x <= other) | (x != x)


def _share(xp, g, chosen, other):
    """The gradient of a value that was chosen; if the other could have been chosen as well, they share it evenly."""
    return xp.where(chosen, xp.where(other, 0.5 * g, g), 0.0)


@op(
    x1=lambda xp, g, x1, x2: _share(xp, g, _larger(x1, x2), _larger(x2, x1)),
    x2=lambda xp, g, x1, x2: _share(xp, g, _larger(x2, x1), _larger(x1, x2)),
)
def maximum(xp, x1, x2):
    """The larger of two values, NaN before all; equal ones share the gradient evenly."""
    return xp.maximum(x1, x2)


@op(
    x1=lambda xp, g, x1, x2: _share(xp, g, _smaller(x1, x2), _smaller(x2, x1)),
    x2=lambda xp, g, x1, x2: _share(xp, g, _smaller(x2, x1), _smaller(x1, x2)),
)
def minimum(xp, x1, x2):
    """The smaller of two values, NaN before all; equal ones share the gradient evenly."""
    return xp.minimum(x1, x2)


@op(
    x1=lambda xp, g, condition: xp.where(condition, g, 0.0),
    x2=lambda xp, g, condition: xp.where(condition, 0.0, g),
)
def where(xp, condition, x1, x2):
    """x1 where the condition is true, else x2.

    The branch not taken has gradient 0, but `where` cannot stop a NaN that its own computation makes:
    `where(x > 0, log(x), 0)` has NaN gradients at x = 0. Make both branches safe:
    `where(x > 0, log(where(x > 0, x, 1)), 0)`.
    """
    return xp.where(condition, x1, x2)


def _clip_x(xp, g, x, low, high):
    """g where x was kept, else 0."""
    if low is not None:
        g = xp.where(x >= low, g, 0.0)
    return g if high is None else xp.where(x <= high, g, 0.0)


def _clip_low(xp, g, x, low, high):
    """g where low took the place of x, else 0."""
    return xp.where(x < low if high is None else (x < low) & (low <= high), g, 0.0)


def _clip_high(xp, g, x, low, high):
    """g where high took the place of x, else 0."""
    return xp.where(x > high if low is None else (x > high) | (low > high), g, 0.0)


@op(x=_clip_x, low=_clip_low, high=_clip_high)
def _clip(xp, x, low, high):
    if low is None and high is None:
        return xp.copy(x)
    out = x if low is None else xp.maximum(x, low)
    return out if high is None else xp.minimum(out, high)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """x limited to the interval from min to max (either may be missing); at a bound the gradient passes."""
    return _clip(x, min, max)


@op(x=lambda xp, g, mask: xp.where(mask, 0.0, g), value=lambda xp, g, mask: xp.where(mask, g, 0.0))
def masked_fill(xp, x, mask, value):
    """x with `value` (a number or a 0-d Tensor) wherever the boolean mask is true; the mask broadcasts to x."""
    if mask.dtype.kind != "b":
        raise TypeError(f"the mask must be boolean, got {mask.dtype}")
    return xp.where(mask, value, x)


@op(
    floating=True,
    x1=lambda xp, g, x1, x2: g * xp.sign(x1) * xp.copysign(xp.ones_like(g), x2),
    x2=lambda xp, g: xp.zeros_like(g),
)
def copysign(xp, x1, x2):
    """The magnitude of x1 with the sign of x2; at x1 = 0 its gradient is 0."""
    return xp.copysign(x1, x2)


@op(floating=True, x1=lambda xp, g: g, x2=lambda xp, g: xp.zeros_like(g))
def nextafter(xp, x1, x2):
    """The next representable number after x1 towards x2."""
    return xp.nextafter(x1, x2)


# ---- steps: constant between their jumps, so their gradient is 0


def _zero(xp, g):
    return xp.zeros_like(g)


@op(x=_zero)
def ceil(xp, x):
    """The smallest integer not below x, in x's dtype."""
    return xp.ceil(x) if x.dtype.kind == "f" else xp.copy(x)


@op(x=_zero)
def floor(xp, x):
    """The largest integer not above x, in x's dtype."""
    return xp.floor(x) if x.dtype.kind == "f" else xp.copy(x)


@op(x=_zero)
def trunc(xp, x):
    """The integer part of x, in x's dtype."""
    return xp.trunc(x) if x.dtype.kind == "f" else xp.copy(x)


@op(x=_zero)
def round(xp, x, *, decimals=0):
    """The nearest integer, halves to the even one, in x's dtype; with `decimals` the nearest such decimal fraction."""
    if decimals == 0 or x.dtype.kind not in "fc":
        return xp.round(x) if x.dtype.kind in "fc" else xp.copy(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return xp.round(x * scale) / scale if decimals > 0 else xp.round(x / scale) * scale


@op(x=_zero)
def _sign(xp, x):
    return xp.sign(x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1; for a complex number x / |x|, or 0."""
    if getattr(x, "dtype", None) is None or x.dtype.kind != "c":
        return _sign(x)
    return x / where(x == 0, 1.0, abs(x))


# ---- complex numbers


@op(x=lambda xp, g: xp.conj(g))
def conj(xp, x):
    """The complex conjugate; real numbers are their own."""
    return xp.conj(x)


@op(x=lambda xp, g: g)
def real(xp, x):
    """The real part."""
    return xp.real(x) if x.dtype.kind == "c" else xp.copy(x)


@op(x=lambda xp, g: 1j * g)
def imag(xp, x):
    """The imaginary part of a complex array."""
    if x.dtype.kind != "c":
        raise TypeError(f"expected a complex array, got {x.dtype}")
    return xp.imag(x)
