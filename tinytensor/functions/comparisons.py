"""Comparisons, tests and bits: element-wise functions with boolean or integer results, without a gradient."""

from __future__ import annotations

from ..primitive import op


@op
def equal(xp, x1, x2):
    """x1 == x2, element by element."""
    return xp.equal(x1, x2)


@op
def not_equal(xp, x1, x2):
    """x1 != x2, element by element."""
    return xp.not_equal(x1, x2)


@op
def less(xp, x1, x2):
    """x1 < x2, element by element."""
    return xp.less(x1, x2)


@op
def less_equal(xp, x1, x2):
    """x1 <= x2, element by element."""
    return xp.less_equal(x1, x2)


@op
def greater(xp, x1, x2):
    """x1 > x2, element by element."""
    return xp.greater(x1, x2)


@op
def greater_equal(xp, x1, x2):
    """x1 >= x2, element by element."""
    return xp.greater_equal(x1, x2)


@op
def isfinite(xp, x):
    """True where x is neither infinite nor NaN."""
    return xp.isfinite(x)


@op
def isinf(xp, x):
    """True where x is infinite."""
    return xp.isinf(x)


@op
def isnan(xp, x):
    """True where x is NaN."""
    return xp.isnan(x)


@op
def signbit(xp, x):
    """True where the sign bit is set: for negative numbers and for -0."""
    return xp.signbit(x)


@op
def logical_and(xp, x1, x2):
    """True where both are true."""
    return xp.logical_and(x1, x2)


@op
def logical_or(xp, x1, x2):
    """True where either is true."""
    return xp.logical_or(x1, x2)


@op
def logical_xor(xp, x1, x2):
    """True where exactly one is true."""
    return xp.logical_xor(x1, x2)


@op
def logical_not(xp, x):
    """True where x is false."""
    return xp.logical_not(x)


@op
def bitwise_and(xp, x1, x2):
    """The bits set in both."""
    return xp.bitwise_and(x1, x2)


@op
def bitwise_or(xp, x1, x2):
    """The bits set in either."""
    return xp.bitwise_or(x1, x2)


@op
def bitwise_xor(xp, x1, x2):
    """The bits set in exactly one."""
    return xp.bitwise_xor(x1, x2)


@op
def bitwise_invert(xp, x):
    """Every bit inverted."""
    return xp.bitwise_invert(x)


@op
def bitwise_left_shift(xp, x1, x2):
    """x1 shifted to the left by x2 bits; by its width or more, nothing is left."""
    return xp.bitwise_left_shift(x1, x2)


@op
def bitwise_right_shift(xp, x1, x2):
    """x1 shifted to the right by x2 bits; by its width or more, only the sign is left, 0 or -1."""
    return xp.bitwise_right_shift(x1, x2)
