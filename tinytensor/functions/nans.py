"""Functions that skip NaN, or replace it with a number: it counts as missing. Loaded on first use."""

from __future__ import annotations

import math
from typing import Never

import tinytensor as tt

from .. import dtypes
from ..primitive import op
from ..tensor import Tensor
from ..typing import ArrayLike, Axis
from .elementwise import _share
from .reductions import normalize_axes


@op(
    x1=lambda xp, g, x1, x2: _share(xp, g, (x1 >= x2) | (x2 != x2), (x2 >= x1) | (x1 != x1)),
    x2=lambda xp, g, x1, x2: _share(xp, g, (x2 >= x1) | (x1 != x1), (x1 >= x2) | (x2 != x2)),
)
def fmax(xp, x1, x2):
    """The larger of two values, or the one that is not NaN; equal ones share the gradient evenly."""
    return xp.fmax(x1, x2)


@op(
    x1=lambda xp, g, x1, x2: _share(xp, g, (x1 <= x2) | (x2 != x2), (x2 <= x1) | (x1 != x1)),
    x2=lambda xp, g, x1, x2: _share(xp, g, (x2 <= x1) | (x1 != x1), (x1 <= x2) | (x2 != x2)),
)
def fmin(xp, x1, x2):
    """The smaller of two values, or the one that is not NaN; equal ones share the gradient evenly."""
    return xp.fmin(x1, x2)


def nan_to_num(x: ArrayLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replace NaN, inf and -inf in x by numbers; the gradient is 0 there.

    Args:
        nan: replaces NaN.
        posinf, neginf: replace inf and -inf; default: the largest and the smallest number of the dtype.
    """
    x = tt.asarray(x)
    if x.dtype.kind not in "fc":
        return tt.positive(x)
    if x.dtype.kind == "c":
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (tt.real(x), tt.imag(x)))
        return next(parts) + 1j * next(parts)
    limits = dtypes.finfo(x.dtype)
    x = tt.where(tt.isnan(x), float(nan), x)
    x = tt.where(x == math.inf, limits.max if posinf is None else float(posinf), x)
    return tt.where(x == -math.inf, limits.min if neginf is None else float(neginf), x)


def nansum(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The sum of the elements over `axis` that are not NaN; 0 if all are NaN."""
    x = tt.asarray(x)
    axes = normalize_axes("nansum", axis, x.shape, unknown=unknown)
    return tt.sum(tt.where(tt.isnan(x), 0, x), axis=axes, keepdims=keepdims)


def nanmean(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The mean of the elements over `axis` that are not NaN; NaN if all are NaN."""
    x = tt.asarray(x)
    axes = normalize_axes("nanmean", axis, x.shape, unknown=unknown)
    if x.dtype == dtypes.float16:  # a sum would end at 65504
        return tt.astype(nanmean(tt.astype(x, dtypes.float32), axes, keepdims=keepdims), dtypes.float16)
    count = tt.count_nonzero(~tt.isnan(x), axis=axes, keepdims=keepdims)
    total = nansum(x, axis=axes, keepdims=keepdims)
    return tt.where(count == 0, math.nan, total / tt.where(count == 0, 1, count))


def nanmax(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The largest element over `axis` that is not NaN; NaN if all are NaN. Equal elements share the gradient."""
    x = tt.asarray(x)
    axes = normalize_axes("nanmax", axis, x.shape, unknown=unknown)
    if x.dtype.kind != "f":
        return tt.max(x, axis=axes, keepdims=keepdims)
    nothing = tt.all(tt.isnan(x), axis=axes, keepdims=keepdims)
    return tt.where(nothing, math.nan, tt.max(tt.where(tt.isnan(x), -math.inf, x), axis=axes, keepdims=keepdims))


def nanmin(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The smallest element over `axis` that is not NaN; NaN if all are NaN. Equal elements share the gradient."""
    x = tt.asarray(x)
    axes = normalize_axes("nanmin", axis, x.shape, unknown=unknown)
    return tt.negative(nanmax(tt.negative(x), axis=axes, keepdims=keepdims))
