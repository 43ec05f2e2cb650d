"""Checks for the arguments of this folder's functions, each with the function's name in its error."""

from __future__ import annotations

import math
import operator
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array


def beside(value: Any, other: Tensor) -> Tensor:
    """Numbers and arrays as a Tensor on the other's device; a Tensor unchanged, since nothing moves silently."""
    return value if isinstance(value, Tensor) else tt.asarray(value, device=other.device)


def check_range(name: str, what: str, ids: Tensor, length: int, *, later: bool = False) -> None:
    """Raise IndexError unless every id is from 0 to length - 1 (NumPy would take negative ones, CuPy any).

    If `later`, a GPU may raise it only when a number is next read, so that nothing waits for it.
    """
    if ids._data.size:
        xp = for_array(ids._data)
        (xp.check_range if later else xp.check_range_at_once)(name, what, ids._data, length)


def check_dim(name: str, input: Any, dim: int) -> int:
    """The axis from 0 to ndim - 1 that `dim` means; IndexError for one that the input does not have."""
    shape = input.shape if hasattr(input, "shape") else tt.asarray(input).shape
    ndim = len(shape)
    try:
        axis = operator.index(dim)
    except TypeError:
        raise TypeError(f"{name}: dim must be an integer, got {dim!r}") from None
    if not ndim and axis in (-1, 0):
        raise ValueError(f"{name}: expected at least 1 dimension, got a 0-d Tensor; reshape it to (1,) first")
    if not -ndim <= axis < ndim:
        raise IndexError(f"{name}: dim {dim} is out of range for an input of shape {tuple(shape)}")
    return axis % ndim


def check_probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability must be from 0 to 1, got {p}")


def check_scale(name: str, scale: Any) -> None:
    """Raise TypeError or ValueError unless the factor for scores is a finite number or None."""
    if scale is not None and not hasattr(scale, "__float__"):
        raise TypeError(f"{name}: scale must be a number or None, got {scale!r}")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"{name}: scale must be finite, got {scale}")
