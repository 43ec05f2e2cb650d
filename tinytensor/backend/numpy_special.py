"""`xp.special` on the CPU: SciPy's special functions, in the dtype of their last argument. Loaded when used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """A SciPy function: looked up once, then kept."""
    from scipy import special

    function = globals()[name] = partial(in_dtype, getattr(special, name))
    return function


def in_dtype(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments).astype(arguments[-1].dtype, copy=False)
