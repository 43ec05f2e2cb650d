"""Sorting, searching, sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Never

import tinytensor as tt

from .. import dtypes
from ..backend import for_array
from ..primitive import op
from ..tensor import Tensor, wrap
from ..typing import ArrayLike, DType
from .reductions import normalize_axis


@op
def _argmax(xp, x, *, axis):
    return xp.argmax(x, axis=axis)


@op
def _argmin(xp, x, *, axis):
    return xp.argmin(x, axis=axis)


def _position(find: Any, x: Any, axis: int | None, keepdims: bool, unknown: Mapping[str, Any]) -> Tensor:
    x = tt.asarray(x)
    if axis is not None or unknown:
        axis = normalize_axis(find.op.name, axis, x.shape, unknown=unknown)
    if x.size == 0 and (axis is None or x.shape[axis] == 0):
        raise ValueError(f"{find.op.name}: an empty array of shape {x.shape} has no largest or smallest element")
    out = find(x, axis=axis)
    if keepdims:
        out = tt.reshape(out, tuple(1 if axis in (None, i) else n for i, n in enumerate(x.shape)))
    return out


def argmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The index of the largest element along `axis` (None: of the flattened array); the first of equal ones."""
    return _position(_argmax, x, axis, keepdims, unknown)


def argmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The index of the smallest element along `axis` (None: of the flattened array); the first of equal ones."""
    return _position(_argmin, x, axis, keepdims, unknown)


@op
def _argsort(xp, x, *, axis, descending):
    return xp.stable_argsort(x, axis, descending)


def argsort(
    x: ArrayLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True, **unknown: Never
) -> Tensor:
    """The indices that sort x along `axis`; equal elements keep their order."""
    x = tt.asarray(x)
    return _argsort(x, axis=normalize_axis("argsort", axis, x.shape, unknown=unknown), descending=descending)


def sort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True, **unknown: Never) -> Tensor:
    """x sorted along `axis`; gradients go back to where the elements came from."""
    x = tt.asarray(x)
    axis = normalize_axis("sort", axis, x.shape, unknown=unknown)
    return tt.take_along_axis(x, argsort(x, axis=axis, descending=descending), axis=axis)


@op
def _topk(xp, x, *, k, axis):
    turned = xp.moveaxis(x, axis, -1)
    rows = xp.reshape(turned, (math.prod(turned.shape[:-1]), turned.shape[-1]))
    return xp.moveaxis(xp.reshape(xp.largest_places(rows, k), (*turned.shape[:-1], k)), -1, axis)


def topk(
    x: ArrayLike, /, k: int, *, axis: int = -1, largest: bool = True, sorted: bool = True, **unknown: Never
) -> tuple[Tensor, Tensor]:
    """The k largest elements along `axis`, in descending order, and their indices; the first of equal ones first.

    Args:
        largest: False for the k smallest, in ascending order.
        sorted: has no effect; they are always in order.

    >>> values, places = tt.topk(tt.asarray([3, 1, 2]), 2)
    >>> values, places
    (tensor([3, 2]), tensor([0, 2]))
    """
    x = tt.asarray(x)
    axis = normalize_axis("topk", axis, x.shape, unknown=unknown)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"topk: k={k} of {x.shape[axis]} elements along axis {axis}")
    if not largest:
        order = tt.take(argsort(x, axis=axis), tt.arange(k, device=x.device), axis=axis)
        return tt.take_along_axis(x, order, axis=axis), order
    order = _topk(x, k=k, axis=axis)
    return tt.take_along_axis(x, order, axis=axis), order


def nonzero(x: ArrayLike, /, **unknown: Never) -> tuple[Tensor, ...]:
    """For each dimension, the indices of the elements that are not zero."""
    if unknown:
        raise tt.hints.unknown_keyword("nonzero", unknown)
    x = tt.asarray(x)
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least 1 dimension, got a 0-d array")
    return tuple(wrap(found, None) for found in for_array(x._data).nonzero(x._data))


def searchsorted(
    x1: ArrayLike, x2: ArrayLike, /, *, side: str = "left", sorter: ArrayLike | None = None, **unknown: Never
) -> Tensor:
    """The place in the sorted vector x1 where each element of x2, or the number x2, would go."""
    if unknown:
        raise tt.hints.unknown_keyword("searchsorted", unknown)
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    a = tt.asarray(x1)
    if a.ndim != 1:
        raise ValueError(f"searchsorted: expected a sorted vector, got shape {a.shape}; write a loop over its rows")
    b = _beside(x2, a)
    if sorter is not None:
        a = tt.take(a, sorter)
    xp = for_array(a._data)
    return wrap(xp.asarray(xp.searchsorted(a._data, b._data, side=side)), None)


@op
def _isin(xp, x1, x2, *, invert):
    return xp.isin(x1, x2, invert=invert)


def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: bool = False) -> Tensor:
    """True where an element of x1 is in x2 (with `invert`: is not), in the shape of x1. NaN is in nothing."""
    return _isin(_beside(x1, x2), _beside(x2, x1), invert=invert)


def _beside(x: Any, other: Any) -> Tensor:
    """x as a Tensor; a Python number takes the dtype and the device of the Tensor that it is compared with."""
    if not dtypes.is_weak(x) or not isinstance(other, Tensor):
        return tt.asarray(x)
    return tt.asarray(x, dtype=tt.result_type(other, x), device=other.device)


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: ArrayLike, /) -> UniqueAll:
    """The distinct values, sorted, with their first indices, the inverse and the counts."""
    x = tt.asarray(x)
    found = for_array(x._data).unique(x._data)
    return UniqueAll(*(wrap(part, None) for part in found))


def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """The distinct values, sorted, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """The distinct values, sorted, and for each element of x the index of its value."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: ArrayLike, /) -> Tensor:
    """The distinct values, sorted."""
    return unique_all(x).values


def one_hot(x: ArrayLike, /, num_classes: int = -1, *, dtype: DType = None, **unknown: Never) -> Tensor:
    """For each integer i in x, a row of zeros with a 1 at i: (...,) -> (..., num_classes).

    num_classes=-1 means one more than the largest of them. Raises IndexError for integers out of range.

    >>> tt.one_hot(tt.asarray([2, 0]), 3).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    if unknown:
        raise tt.hints.unknown_keyword("one_hot", unknown)
    x = tt.asarray(x)
    if x.dtype.kind not in "iu":
        raise TypeError(f"one_hot: expected integers, got {x.dtype}")
    if num_classes == -1:
        if not x.size:
            raise ValueError(f"one_hot: of no integers, in shape {x.shape}, num_classes must be given")
        num_classes = int(tt.max(x).item()) + 1
    if x.size and ((least := int(tt.min(x).item())) < 0 or int(tt.max(x).item()) >= num_classes):
        bound = f"from 0 to {num_classes - 1}" if num_classes > 0 else "0 or more"
        raise IndexError(f"one_hot: indices must be {bound}, got {least if least < 0 else int(tt.max(x).item())}")
    places = tt.arange(num_classes, device=x.device)
    return tt.astype(tt.expand_dims(x, axis=-1) == places, dtypes.int64 if dtype is None else dtype)
