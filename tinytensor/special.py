"""`tt.special`: functions under the names that SciPy gives them.

`scipy.special`, where SciPy takes arrays of any library (`SCIPY_ARRAY_API=1` in the environment), finds them here, and
what is computed with them has gradients.
"""

from __future__ import annotations

import tinytensor as tt

from .functions.elementwise import erf, softplus
from .functions.elementwise import sigmoid as expit
from .functions.reductions import logsumexp
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike

__all__ = ["erf", "expit", "log_expit", "logit", "logsumexp", "softplus", "xlogy"]


def logit(x: ArrayLike, /) -> Tensor:
    """log(x / (1 - x)), the inverse of expit; NaN outside of 0 to 1."""
    return tt.log(x) - tt.log1p(tt.negative(x))


def log_expit(x: ArrayLike, /) -> Tensor:
    """log(expit(x)), also where expit(x) would be 0."""
    return tt.negative(softplus(tt.negative(x)))


@op(
    floating=True,
    x=lambda xp, g, x, y: g * xp.log(xp.where((x == 0) & (y == 0), 1.0, y)),
    y=lambda xp, g, x, y: xp.where(x == 0, 0.0, g * x / xp.where(x == 0, 1.0, y)),
)
def xlogy(xp, x, y):
    """x log(y), and 0 where x is 0, unless y is NaN; the gradient of x there is log(y), or 0 where y is 0, too."""
    return x * xp.log(xp.where((x == 0) & (y == y), 1.0, y))
