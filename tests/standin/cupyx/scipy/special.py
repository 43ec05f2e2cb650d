"""The part of `cupyx.scipy.special` that is used; `polygamma` asks for its order as an array."""

import cupy
import numpy as np
import scipy.special


def _polygamma(n, x):
    if not isinstance(n, np.ndarray):
        raise AttributeError("'bool' object has no attribute 'astype'")
    return scipy.special.polygamma(n, x)


for _name in ("digamma", "erf", "erfc", "erfinv", "gammaln"):
    globals()[_name] = cupy._lifted(getattr(scipy.special, _name))
polygamma = cupy._lifted(_polygamma)
