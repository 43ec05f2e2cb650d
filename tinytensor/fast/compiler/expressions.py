"""The expression of each element-wise function, in terms of `Value`s: one table.

The functions of mathematics are polynomials and rational functions on a short interval, to which arithmetic leads, so
that a processor computes many elements at once. Sources: Cody and Waite, *Software Manual for the Elementary
Functions* (1980), for the reduction of arguments; the coefficients of the logarithm are fdlibm's, those of `erf`
Eigen's. NaN, infinities and -0 give what NumPy gives; an exponential below
1.7e-38, in float64 below 3.2e-308, is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .llvm import Value

LN2 = {"float": (0.693359375, -2.12194440e-4), "double": (6.93145751953125e-1, 1.42860682030941723212e-6)}
"""The logarithm of 2 in two parts; the first has few bits, so that a small multiple of it is exact."""

MAGIC = {"float": 1.5 * 2.0**23, "double": 1.5 * 2.0**52}
"""Added to a small number, it leaves the nearest whole number in the last bits."""

MANTISSA = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}
RANGE = {"float": (-87.3, 89.0), "double": (-708.3, 710.0)}
"""From 0.3 above the first number downwards the exponential is 0 here, above the second it is infinite."""

TERMS = {"float": 7, "double": 13}
LOG = {
    "float": (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
    "double": (
        6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
        1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
    ),
}  # fmt: skip
LN2_OF_LOG = {
    "float": (6.9313812256e-01, 9.0580006145e-06),
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
ERF = (
    (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
     -2.95459980854025e-03, -1.60960333262415e-02),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02),
)  # fmt: skip


def horner(x: Value, coefficients: Any) -> Value:
    """The polynomial with these coefficients, that of the highest power first."""
    total = x.of(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.times_plus(x, coefficient)
    return total


def _reduced(x: Value) -> tuple[Value, Value]:
    """(e^r - 1, 2^(n - 1)), where x = r + n ln 2 and |r| is at most half of ln 2; 0 for the power below its range."""
    kind = x.kind
    low, high = RANGE[kind]
    inside = (x > high).select(high, (x < low).select(low, x))
    shifted = inside.times_plus(1 / math.log(2), MAGIC[kind])
    n = shifted - MAGIC[kind]
    r = n.times_plus(-LN2[kind][1], n.times_plus(-LN2[kind][0], inside))
    whole = shifted.bits() - x.of(MAGIC[kind]).bits()
    q = horner(r, [1 / math.factorial(k) for k in range(TERMS[kind], 0, -1)]) * r
    return q, ((whole + BIAS[kind] - 1) << MANTISSA[kind]).bits()


def exp(x: Value) -> Value:
    q, half = _reduced(x)
    return q.times_plus(2.0, 2.0) * half


def expm1(x: Value) -> Value:
    q, half = _reduced(x)
    return x.equals(0.0).select(x, q.times_plus(half, half - 0.5) * 2.0)


def log(x: Value) -> Value:
    kind = x.kind
    shift, least = MANTISSA[kind], {"float": 2.0**-126, "double": 2.0**-1022}[kind]
    is_small = x < least
    normal = is_small.select(x * 2.0**shift, x)
    start = x.of(math.sqrt(0.5)).bits()
    offset = normal.bits() - start
    exponent = offset >> shift
    m = ((offset & ((1 << shift) - 1)) + start).bits()
    k = (exponent - is_small.select(exponent.of(shift), exponent.of(0))).to(kind)
    f = m - 1
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    ratio = z * horner(z, LOG[kind][::-1])
    high, low = LN2_OF_LOG[kind]
    found = k * high - ((half - (s * (half + ratio) + k * low)) - f)
    found = x.equals(math.inf).select(x, x.equals(0.0).select(-math.inf, found))
    return (x < 0.0).select(math.nan, x.differs(x).select(x, found))


def log1p(x: Value) -> Value:
    u = x + 1
    lost = (u - 1 - x) / u
    is_infinite = u.equals(math.inf)
    found = log(u) - u.equals(0.0).select(0.0, is_infinite.select(0.0, lost))
    return x.equals(0.0).select(x, found)


def tanh(x: Value) -> Value:
    e = expm1(absolute(x) * -2.0)
    return x.text.call("copysign", -e / (e + 2), x)


def sigmoid(x: Value) -> Value:
    return 1 / (exp(-x) + 1)


def erf(x: Value) -> Value:
    within = (x > 4.0).select(4.0, (x < -4.0).select(-4.0, x))
    square = within * within
    ratio = within * horner(square, ERF[0]) / horner(square, ERF[1])
    found = (x >= 4.0).select(1.0, (x <= -4.0).select(-1.0, ratio))
    return found


def logaddexp(x: Value, y: Value) -> Value:
    larger = x.text.call("maximum", x, y)
    return x.equals(y).select(x + math.log(2), larger + log1p(exp(-absolute(x - y))))


def absolute(x: Value) -> Value:
    return x.text.call("fabs", x)


def _intrinsic(name: str) -> Callable[..., Value]:
    return lambda *values: values[0].text.call(name, *values)


def sign(x: Value) -> Value:
    return (x > 0.0).select(1.0, (x < 0.0).select(x.of(-1.0), x + 0.0))


def divide_by_one(x: Value, divisor: Value) -> Value:
    """x / divisor for many x, by products; both are scaled where the divisor is so small that its inverse overflows."""
    least = {"float": 2.0**-100, "double": 2.0**-900}[x.kind]
    scale = (absolute(divisor) < least).select(x.of(1 / least), 1.0)
    x, divisor = x * scale, divisor * scale
    inverse = 1 / divisor
    found = x * inverse
    rest = (-found).times_plus(divisor, x)  # so that 49 / 49 is 1
    return (absolute(rest) < math.inf).select(rest.times_plus(inverse, found), found)


def can_be_exponent(exponent: float) -> bool:
    """True for the exponents that `power` takes."""
    return exponent == 0.5 or (exponent == int(exponent) and abs(exponent) <= 8)


def power(x: Value, exponent: float) -> Value:
    """x to a constant, by products and a root."""
    if exponent < 0:
        return 1 / power(x, -exponent)
    if exponent == 0.5:
        return x.text.call("sqrt", x)
    if exponent < 2:
        return x if exponent else x.of(1.0)
    half = power(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half


TABLE: dict[str, Callable[..., Value]] = {
    "add": lambda x, y: x + y,
    "pow": power,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "sqrt": _intrinsic("sqrt"),
    "abs": absolute,
    "sign": sign,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("rint"),
    "copysign": _intrinsic("copysign"),
    "maximum": _intrinsic("maximum"),  # of 0 and -0 either
    "minimum": _intrinsic("minimum"),
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "logaddexp": logaddexp,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "equal": lambda x, y: x.equals(y),
    "not_equal": lambda x, y: x.differs(y),
    "isnan": lambda x: x.differs(x),
    "isinf": lambda x: absolute(x).equals(math.inf),
    "isfinite": lambda x: absolute(x) < math.inf,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_invert": lambda x: x ^ 1,
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_not": lambda x: x ^ 1,
    "where": lambda condition, x, y: condition.select(x, y),
    "broadcast_to": lambda x: x,
    "astype": lambda x: x,
    "copy": lambda x: x,
    "full": lambda x: x,
}
"""By the name of a function of `xp`: its operands are of the type that it computes in, see `plan.operand_type`."""

ONLY_FLOAT32 = {"erf"}
"""Functions whose polynomials have the digits of float32 alone."""

DEAR = {"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "logaddexp", "divide", "sqrt", "reciprocal"}
"""Functions whose results are kept for a later pass over the row; others are computed again."""
