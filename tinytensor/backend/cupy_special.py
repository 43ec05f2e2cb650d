"""What `xp.special` is on a GPU: the special functions of `cupyx.scipy`, in the dtype of their last argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .numpy_special import in_dtype


def __getattr__(name: str) -> Callable[..., Any]:
    """A function of CuPy's: looked up once, then kept."""
    from cupyx.scipy import special

    function = globals()[name] = partial(in_dtype, getattr(special, name))
    return function
