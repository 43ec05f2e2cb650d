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


def unchanged(function: F) -> F:
    """Wrap a function that computes in the dtypes it is given; as the others, it explains a wrong argument."""
    return _casting(function, lambda narrow: (None, None))


def summed(function: F) -> F:
    """The same for a function of an `input` that sums over many elements; without autocast, 16 bits give 16 bits.

    A sum in 16 bits, or a count of rows, would end at 65504.
    """
    return _casting(function, lambda narrow: (narrow, tt.float32), sums=True)


def _casting(function: F, dtypes: Callable[[Any], tuple[Any, Any]], sums: bool = False) -> F:
    """Wrap a function so that autocast casts its Tensor arguments of one dtype to another."""

    @functools.wraps(function)
    def autocasting(*args: Any, **kwargs: Any) -> Any:
        try:
            if autocast.get() is None and not (
                sums and getattr(args[0] if args else kwargs.get("input"), "dtype", None) == tt.float16
            ):
                return function(*args, **kwargs)
            return _cast(function, args, kwargs, dtypes)
        except TypeError as error:
            tt.missing.explain_call(function, args, error)
            raise

    return autocasting  # type: ignore[return-value]


def _cast(function: Any, args: Any, kwargs: Any, dtypes: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Call with arguments cast as autocast says; without it from 16 bits, with a result of 16, or of what has more."""
    setting = autocast.get()
    narrow, device = setting or (tt.float16, None)
    old, new = dtypes(narrow)
    wider = kwargs.get("dtype") is not None

    def cast(value: Any) -> Any:
        nonlocal wider
        wider |= getattr(value, "dtype", old) in (tt.float32, tt.float64)
        value = tt.asarray(value) if setting is None and isinstance(value, np.ndarray) else value
        fits = isinstance(value, tt.Tensor) and value.dtype == old and device in (None, value.device)
        return tt.astype(value, new) if fits else value

    with np.errstate(over="ignore"):  # a mask of -1e9 becomes -inf
        args, kwargs = tuple(map(cast, args)), {name: cast(value) for name, value in kwargs.items()}
    result = function(*args, **kwargs)
    return result if setting is not None or wider else tt.astype(result, narrow)
