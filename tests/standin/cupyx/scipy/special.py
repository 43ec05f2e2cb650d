"""The part of `cupyx.scipy.special` that is used."""

import cupy
import scipy.special

for _name in ("digamma", "erf", "erfc", "erfinv", "gammaln", "polygamma"):
    globals()[_name] = cupy._lifted(getattr(scipy.special, _name))
