"""`tt.special`: functions under the names that SciPy gives them.

`scipy.special`, where SciPy takes arrays of any library (`SCIPY_ARRAY_API=1` in the environment), finds them here, and
what is computed with them has gradients.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tinytensor as tt

from .functions.elementwise import erf, softplus
from .functions.elementwise import sigmoid as expit
from .functions.reductions import logsumexp
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "expit", "gammaln", "log_expit", "logit", "logsumexp", "polygamma", "softplus",
    "xlogy",
]  # fmt: skip


def logit(x: ArrayLike, /, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of expit; NaN outside of 0 to 1, unless `eps` limits x to `eps` to 1 - `eps`."""
    x = x if eps is None else tt.clip(x, eps, 1 - eps)
    return tt.log(x) - tt.log1p(tt.negative(x))


def log_expit(x: ArrayLike, /) -> Tensor:
    """log(expit(x)), also where expit(x) would be 0."""
    return tt.negative(softplus(tt.negative(x)))


@op(
    floating=True,
    x=lambda xp, g, x, y: g * xp.log(xp.where((x == 0) & (y <= 0), 1.0, y)),
    y=lambda xp, g, x, y: xp.where(x == 0, 0.0, g * x / xp.where(x == 0, 1.0, y)),
)
def xlogy(xp, x, y):
    """x log(y), and 0 where x is 0, unless y is NaN; the gradient of x there is log(y), or 0 where y is 0 or below."""
    return x * xp.log(xp.where((x == 0) & (y == y), xp.ones_like(x * y), y))


@op(floating=True, x=lambda xp, g, x: g * (-2 / math.sqrt(math.pi)) * xp.exp(-x * x))
def erfc(xp, x):
    """1 - erf(x), accurate even where that is close to 0."""
    return xp.special.erfc(x)


@op(floating=True, x=lambda xp, g, out: g * (math.sqrt(math.pi) / 2) * xp.exp(out * out))
def erfinv(xp, x):
    """The inverse of erf, for x from -1 (where it is -inf) to 1 (inf)."""
    return xp.special.erfinv(x)


@op(floating=True, x=lambda xp, g, x: g * xp.special.digamma(x))
def gammaln(xp, x):
    """log(|gamma(x)|), the logarithm of the factorial of x - 1; infinite at both infinities, as in C."""
    return xp.where(x == -math.inf, math.inf, xp.special.gammaln(x))


@op(floating=True, x=lambda xp, g, x: g * xp.special.polygamma(1, x))
def digamma(xp, x):
    """The derivative of gammaln."""
    return xp.special.digamma(x)


@op(floating=True, x=lambda xp, g, x, n: g * xp.special.polygamma(n + 1, x))
def _polygamma(xp, x, *, n):
    return xp.special.polygamma(n, x)


def polygamma(n: int, x: ArrayLike, /) -> Tensor:
    """The n-th derivative of digamma, for x > 0: (-1)**(n + 1) n! times the sum of 1 / (x + k)**(n + 1)."""
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"polygamma: n must be an integer from 0 on, got {n!r}")
    return digamma(x) if n == 0 else _polygamma(x, n=n)


if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
