"""Choose the functions that compute in 16 bits and in 32 while `nn.amp.autocast` is on (Micikevicius et al. 2018).

Matrix products gain from 16-bit floats and tolerate them; sums over many terms, exponentials and losses do not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

import tinytensor as tt

F = TypeVar("F", bound=Callable[..., Any])


autocast: ContextVar[tuple[Any, str] | None] = ContextVar("autocast", default=None)
"""The 16-bit dtype of `nn.amp.autocast` and the device whose Tensors are cast; None while it is off."""


def lowered(function: F) -> F:
    """Wrap a function so that autocast casts its 32-bit float Tensor arguments to 16 bits."""
    return _casting(function, lambda narrow: (tt.float32, narrow))


def raised(function: F) -> F:
    """Wrap a function so that autocast casts its 16-bit float Tensor arguments to 32 bits."""
    return _casting(function, lambda narrow: (narrow, tt.float32))


def _casting(function: F, dtypes: Callable[[Any], tuple[Any, Any]]) -> F:
    """Wrap a function so that autocast casts its Tensor arguments of one dtype to another."""

    @functools.wraps(function)
    def autocasting(*args: Any, **kwargs: Any) -> Any:
        setting = autocast.get()
        if setting is None:
            return function(*args, **kwargs)
        narrow, device = setting
        old, new = dtypes(narrow)

        def cast(value: Any) -> Any:
            fits = isinstance(value, tt.Tensor) and value.dtype == old and value.device == device
            return tt.astype(value, new) if fits else value

        with np.errstate(over="ignore"):  # a mask of -1e9 becomes -inf
            args, kwargs = tuple(map(cast, args)), {name: cast(value) for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return autocasting  # type: ignore[return-value]
