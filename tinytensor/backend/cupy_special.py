"""`xp.special` on a GPU: the special functions of `cupyx.scipy`, in the dtype of their last argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cupy

from .numpy_special import in_dtype


def polygamma(n: int, x: Any) -> Any:
    """CuPy's function, which takes the order only as an array."""
    from cupyx.scipy import special

    return in_dtype(special.polygamma, cupy.asarray(n), x)


def __getattr__(name: str) -> Callable[..., Any]:
    """A CuPy function: looked up once, then kept."""
    from cupyx.scipy import special

    function = globals()[name] = partial(in_dtype, getattr(special, name))
    return function
