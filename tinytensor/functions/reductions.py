"""Functions of a whole axis: sums, products, extremes, statistics, running sums.

`axis` is an integer, a tuple of integers or None for all axes; negative ones count from the end. float32 and float16
sums are accurate over any axis (see `backend/sums.py`).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from typing import Any, Never, TypeAlias

import tinytensor as tt

from .. import dtypes
from ..grad_mode import fusible
from ..messages import describe
from ..primitive import op
from ..tensor import Tensor
from ..typing import ArrayLike, Axis, DType

Unknown: TypeAlias = Mapping[str, Any]
NOTHING: Unknown = {}


def normalize_axes(
    name: str, axis: Any, shape: tuple[int, ...], argument: str = "axis", unknown: Unknown = NOTHING
) -> tuple[int, ...]:
    """An `axis` argument as a tuple of distinct axes from 0 to ndim - 1, in increasing order.

    Errors give `name`, the function that was called, and `argument`, its name for `axis`. Raises IndexError for an axis
    out of range, ValueError for one named twice, and TypeError for anything but integers, or for arguments that are
    `unknown` to the function.
    """
    if unknown:
        raise tt.hints.unknown_keyword(name, unknown)
    ndim = len(shape)
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:  # nearly always
        return (axis % ndim,)
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(normalize_axis(name, i, shape, argument) for i in several)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: {argument} {axis} names a dimension twice, of a Tensor of shape {shape}")
    return tuple(axes)


def normalize_axis(
    name: str, axis: Any, shape: tuple[int, ...], argument: str = "axis", room: int = 0, unknown: Unknown = NOTHING
) -> int:
    """One axis as an integer from 0 to ndim - 1; the result has `room` more dimensions than `shape`."""
    if unknown:
        raise tt.hints.unknown_keyword(name, unknown)
    ndim = len(shape) + room
    if isinstance(axis, Tensor) or not hasattr(axis, "__index__") or getattr(axis, "shape", None):
        raise tt.hints.no_axis(name, f"{argument} must be an integer, got {describe(axis)}")
    if not -ndim <= axis < ndim:
        known = f"expected {-ndim} to {ndim - 1}" if ndim else "it has none"
        raise IndexError(f"{name}: {argument} {axis} is out of range for a Tensor of shape {shape}; {known}")
    return axis.__index__() % ndim


def _expand(xp, value, axis):
    """Put reduced axes back, with length 1."""
    for i in axis:
        value = xp.expand_dims(value, axis=i)
    return value


def _restore(xp, value, axis, keepdims):
    return value if keepdims or axis is None else _expand(xp, value, axis)


@op(x=lambda xp, g, shape, axis, keepdims: xp.broadcast_to(_restore(xp, g, axis, keepdims), shape))
def _sum(xp, x, *, axis=None, dtype=None, keepdims=False):
    return xp.sum(x, axis, dtype, keepdims)


def _sum_dtype(x: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    if x.dtype.kind in "bi":
        return dtypes.int64
    return dtypes.uint64 if x.dtype.kind == "u" else x.dtype


def sum(x: ArrayLike, /, axis: Axis = None, *, dtype: DType = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The sum over `axis`. Integers add up in 64 bits; floats stay in their dtype unless `dtype` is given."""
    x = x if isinstance(x, Tensor) else tt.asarray(x)
    if dtype is not None or x._data.dtype.kind != "f":
        dtype = _sum_dtype(x, dtype)
    elif axis is None and not keepdims and not unknown:
        return _sum(x)
    if axis is not None or unknown:
        axis = normalize_axes("sum", axis, x._data.shape, unknown=unknown)
    return _sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _count(x: Any, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[i] for i in axes)


def _mean_rule(xp, g, shape, axis, keepdims):
    """g / n, repeated along the axes; n is the number of elements in the mean."""
    count = math.prod(shape[i] for i in axis)
    return xp.broadcast_to(_restore(xp, g, axis, keepdims) * (1 / builtins.max(count, 1)), shape)


@op(floating=True, x=_mean_rule)
def _mean(xp, x, *, axis, keepdims):
    return xp.mean(x, axis=axis, keepdims=keepdims)


def mean(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The arithmetic mean over `axis`; NaN for no elements."""
    x = tt.asarray(x)
    return _mean(x, axis=normalize_axes("mean", axis, x.shape, unknown=unknown), keepdims=keepdims)


def _real(name: str, x: Any, correction: Any) -> Tensor:
    x = tt.asarray(x)
    if x.dtype.kind == "c":
        raise TypeError(f"{name}: expected real numbers, got {x.dtype}")
    if correction is None:
        raise TypeError(f"{name}: correction must be a number, got None; 0 divides by n, and 1 by n - 1")
    return x


def var(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, **unknown: Never
) -> Tensor:
    """The variance over `axis`: the sum of squared deviations from the mean, over (count - correction).

    Computed in two passes, so that a large mean costs no accuracy.
    """
    x = _real("var", x, correction)
    axes = normalize_axes("var", axis, x.shape, unknown=unknown)
    if x.dtype == dtypes.float16:  # its squares overflow from 256 on
        wide = var(tt.astype(x, dtypes.float32), axis=axes, correction=correction, keepdims=keepdims)
        return tt.astype(wide, dtypes.float16)
    count = _count(x, axes)
    free = count - correction
    return _spread(x, axes, keepdims) * (count / free if free > 0 else math.nan)


@fusible
def _spread(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The mean of the squared deviations from the mean."""
    deviation = x - mean(x, axis=axes, keepdims=True)
    return mean(tt.square(deviation), axis=axes, keepdims=keepdims)


def _std_rule(xp, g, out, x, axis, correction, keepdims):
    """g ⊙ (x − mean) / ((n − correction) out); n is the number of elements."""
    out, g = _restore(xp, out, axis, keepdims), _restore(xp, g, axis, keepdims)
    free = math.prod(x.shape[i] for i in axis) - correction
    # All elements equal: gradient 0. The deviation itself may be a rounding error away from 0. NaN has NaN.
    constant = (xp.max(x, axis=axis, keepdims=True) == xp.min(x, axis=axis, keepdims=True)) & (out == out)
    deviation = x - xp.mean(x, axis=axis, keepdims=True)
    return xp.where(constant, 0.0, g * deviation / (xp.where(constant, 1.0, out) * free))


@op(floating=True, wide=True, x=_std_rule)
def _std(xp, x, *, axis, correction, keepdims):
    deviation = x - xp.mean(x, axis=axis, keepdims=True)
    count = math.prod(x.shape[i] for i in axis)
    free = count - correction
    if not count or free <= 0:
        return xp.mean(deviation, axis=axis, keepdims=keepdims) * math.nan
    largest = xp.max(xp.abs(deviation), axis=axis, keepdims=True)  # divided by, so that no square is inf or 0
    deviation = deviation / xp.where(largest == 0, 1.0, largest)
    spread = xp.mean(deviation * deviation, axis=axis, keepdims=keepdims)
    return xp.sqrt(spread * (count / free)) * xp.reshape(largest, spread.shape)


def std(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, **unknown: Never
) -> Tensor:
    """The standard deviation, sqrt(var(x)); where all elements are equal its gradient is 0."""
    x = _real("std", x, correction)
    return _std(x, axis=normalize_axes("std", axis, x.shape, unknown=unknown), correction=correction, keepdims=keepdims)


def _others(xp, x, axis):
    """For each element, the product of all others along `axis`, exact also where elements are zero."""
    one = xp.ones_like(x[(slice(None),) * axis + (slice(0, 1),)])
    keep = (slice(None),) * axis + (slice(None, -1),)
    before = xp.concat([one, xp.cumulative_prod(x, axis=axis)[keep]], axis=axis)
    turned = xp.flip(x, axis=axis)
    after = xp.flip(xp.concat([one, xp.cumulative_prod(turned, axis=axis)[keep]], axis=axis), axis=axis)
    return before * after


def _prod_rule(xp, g, x, axis, keepdims):
    """g ⊙ the product of all other elements."""
    wide = xp.astype(x, dtypes.float64) if x.dtype.kind == "f" else x  # as in `_prod`
    return (g if keepdims else xp.expand_dims(g, axis=axis)) * xp.astype(_others(xp, wide, axis), g.dtype)


@op(x=_prod_rule)
def _prod(xp, x, *, axis, keepdims):
    if x.dtype.kind != "f":
        return xp.prod(x, axis=axis, dtype=x.dtype, keepdims=keepdims)
    # In 64 bits, so that a float32 product that is representable does not overflow on the way.
    return xp.astype(xp.prod(x, axis=axis, dtype=dtypes.float64, keepdims=keepdims), x.dtype)


def prod(
    x: ArrayLike, /, axis: Axis = None, *, dtype: DType = None, keepdims: bool = False, **unknown: Never
) -> Tensor:
    """The product over `axis`; its gradients are exact also where elements are zero."""
    x = tt.asarray(x)
    axes = normalize_axes("prod", axis, x.shape, unknown=unknown)
    x = tt.astype(x, _sum_dtype(x, dtype), copy=False)
    if not axes:
        return tt.positive(x)
    for i in reversed(axes):
        x = _prod(x, axis=i, keepdims=keepdims)
    return x


def _extreme_rule(xp, g, out, x, axis, keepdims):
    """Elements equal to the extreme share its gradient evenly; if there are NaNs, they are the extreme."""
    hit = (x == _restore(xp, out, axis, keepdims)) | (x != x)
    ties = xp.sum(xp.astype(hit, g.dtype), axis=axis, keepdims=True)
    return xp.where(hit, _restore(xp, g, axis, keepdims) / ties, 0.0)


def _check_not_empty(name: str, x: Any, axes: tuple[int, ...]) -> None:
    if 0 in [x.shape[i] for i in axes]:
        raise ValueError(f"{name}: there is no {name} of nothing: shape {x.shape} is empty over axis {axes}")


@op(x=_extreme_rule)
def _max(xp, x, *, axis, keepdims):
    return xp.max(x, axis=axis, keepdims=keepdims)


def max(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The largest element over `axis`, NaN before all; equal ones share the gradient evenly.

    Raises ValueError if there are no elements.
    """
    x = tt.asarray(x)
    axes = normalize_axes("max", axis, x.shape, unknown=unknown)
    if 0 in x.shape:
        _check_not_empty("max", x, axes)
    return _max(x, axis=axes, keepdims=keepdims)


@op(x=_extreme_rule)
def _min(xp, x, *, axis, keepdims):
    return xp.min(x, axis=axis, keepdims=keepdims)


def min(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The smallest element over `axis`, NaN before all; equal ones share the gradient evenly.

    Raises ValueError if there are no elements.
    """
    x = tt.asarray(x)
    axes = normalize_axes("min", axis, x.shape, unknown=unknown)
    if 0 in x.shape:
        _check_not_empty("min", x, axes)
    return _min(x, axis=axes, keepdims=keepdims)


def _logsumexp_rule(xp, g, out, x, axis, keepdims):
    """g ⊙ exp(x − out)."""
    out, g = _restore(xp, out, axis, keepdims), _restore(xp, g, axis, keepdims)
    empty = out == -math.inf  # nothing but -inf: no element weighs anything
    return g * xp.where(empty, 0.0, xp.exp(x - xp.where(empty, 0.0, out)))


@op(floating=True, x=_logsumexp_rule)
def _logsumexp(xp, x, *, axis, keepdims):
    largest = xp.max(xp.real(x) if x.dtype.kind == "c" else x, axis=axis, keepdims=True)
    largest = xp.where(xp.isfinite(largest), largest, 0.0)
    total = xp.sum(xp.exp(x - largest), axis=axis, keepdims=True)
    nothing = total == 0
    out = xp.where(nothing, -math.inf, xp.log(xp.where(nothing, 1.0, total)) + largest)
    return out if keepdims else xp.reshape(out, tuple(n for i, n in enumerate(x.shape) if i not in axis))


def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """log(sum(exp(x))) over `axis`, without overflow; entries of -inf weigh nothing, and no entries give -inf."""
    x = tt.asarray(x)
    axes = normalize_axes("logsumexp", axis, x.shape, unknown=unknown)
    if 0 in [x.shape[i] for i in axes]:
        return sum(x * 1.0, axis=axes, keepdims=keepdims) - math.inf
    if x.dtype == dtypes.float16:  # a sum of exponentials would end at 65504
        return tt.astype(logsumexp(tt.astype(x, dtypes.float32), axes, keepdims=keepdims), dtypes.float16)
    return _logsumexp(x, axis=axes, keepdims=keepdims)


# ---- running sums and products


def _turned_sum(xp, g, axis):
    """Sums from each element to the end: the transpose of running sums."""
    return xp.flip(xp.cumulative_sum(xp.flip(g, axis=axis), axis=axis), axis=axis)


@op(x=lambda xp, g, axis: _turned_sum(xp, g, axis))
def _cumulative_sum(xp, x, *, axis, dtype):
    return xp.cumulative_sum(x, axis=axis, dtype=dtype)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False, **unknown: Never
) -> Tensor:
    """Running sums along `axis` (which may be left out for one dimension); `include_initial` puts a 0 in front."""
    x = tt.asarray(x)
    axis = _running_axis("cumulative_sum", x, axis, unknown)
    out = _cumulative_sum(x, axis=axis, dtype=_sum_dtype(x, dtype))
    return _with_initial(out, axis, 0) if include_initial else out


def _cumulative_prod_rule(xp, g, out, x, axis):
    """The sums from each element to the end of g ⊙ out, divided by x."""
    if x.shape[axis] and bool(xp.all(x != 0)):
        return _turned_sum(xp, g * out, axis) / x
    # With zeros, d out_i / d x_k is the running product with x_k replaced by 1: row k of a square of them.
    rows = xp.expand_dims(xp.moveaxis(x, axis, -1), axis=-2)
    square = xp.ones_like(rows + xp.matrix_transpose(rows))
    diagonal = xp.tril(square) * xp.triu(square) > 0
    without = xp.cumulative_prod(xp.where(diagonal, 1.0, rows), axis=rows.ndim - 1)
    gradient = xp.sum(xp.triu(without) * xp.expand_dims(xp.moveaxis(g, axis, -1), axis=-2), axis=rows.ndim - 1)
    return xp.moveaxis(gradient, -1, axis)


@op(x=_cumulative_prod_rule)
def _cumulative_prod(xp, x, *, axis, dtype):
    return xp.cumulative_prod(x, axis=axis, dtype=dtype)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False, **unknown: Never
) -> Tensor:
    """Running products along `axis`; gradients are exact also at zeros; `include_initial` puts a 1 in front."""
    x = tt.asarray(x)
    axis = _running_axis("cumulative_prod", x, axis, unknown)
    out = _cumulative_prod(x, axis=axis, dtype=_sum_dtype(x, dtype))
    return _with_initial(out, axis, 1) if include_initial else out


def logcumsumexp(x: ArrayLike, /, axis: int | None = None, **unknown: Never) -> Tensor:
    """log(cumulative_sum(exp(x))) along `axis` (which may be left out for one dimension), without overflow.

    By doubling: after step k each element holds the sum of the 2**k up to it (Hillis and Steele, 1986).
    """
    x = tt.asarray(x)
    axis = _running_axis("logcumsumexp", x, axis, unknown)
    x, step = x * 1.0, 1
    while step < x.shape[axis]:
        before = tt.full((*x.shape[:axis], step, *x.shape[axis + 1 :]), -math.inf, dtype=x.dtype, device=x.device)
        earlier = tt.concat([before, x[(slice(None),) * axis + (slice(None, -step),)]], axis=axis)
        x, step = tt.logaddexp(x, earlier), 2 * step
    return x


def _running_axis(name: str, x: Tensor, axis: int | None, unknown: Mapping[str, Any]) -> int:
    if x.ndim == 0:
        raise ValueError(f"{name}: expected at least 1 dimension, got a 0-d array")
    if axis is None and not unknown:
        if x.ndim != 1:
            raise ValueError(f"{name}: axis may be left out for 1 dimension only; got shape {x.shape}")
        axis = 0
    return normalize_axis(name, axis, x.shape, unknown=unknown)


def _with_initial(out: Tensor, axis: int, value: int) -> Tensor:
    shape = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
    return tt.concat([tt.full(shape, value, dtype=out.dtype, device=out.device), out], axis=axis)


# ---- tests of whole axes: no gradient


@op
def _all(xp, x, *, axis, keepdims):
    return xp.all(x, axis=axis, keepdims=keepdims)


def all(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """True if every element over `axis` is true (not zero)."""
    x = tt.asarray(x)
    return _all(x, axis=normalize_axes("all", axis, x.shape, unknown=unknown), keepdims=keepdims)


@op
def _any(xp, x, *, axis, keepdims):
    return xp.any(x, axis=axis, keepdims=keepdims)


def any(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """True if some element over `axis` is true (not zero)."""
    x = tt.asarray(x)
    return _any(x, axis=normalize_axes("any", axis, x.shape, unknown=unknown), keepdims=keepdims)


@op
def _count_nonzero(xp, x, *, axis, keepdims):
    return xp.sum(x != 0, axis=axis, dtype=dtypes.int64, keepdims=keepdims)


def count_nonzero(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The number of elements over `axis` that are not zero."""
    x = tt.asarray(x)
    return _count_nonzero(x, axis=normalize_axes("count_nonzero", axis, x.shape, unknown=unknown), keepdims=keepdims)


def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    **unknown: Never,
) -> Tensor:
    """The differences between neighbours along `axis`, taken n times; with n = 0 nothing is changed or joined.

    Args:
        prepend, append: joined to x first; a number counts as one element in each row.

    Raises ValueError for a negative n.
    """
    x = tt.asarray(x)
    axis = normalize_axis("diff", axis, x.shape, unknown=unknown)
    if n < 0:
        raise ValueError(f"diff: n must be 0 or more, got {n}")
    if n and not (prepend is None and append is None):
        row = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        ends = [p if p is None else tt.asarray(p, device=x.device) for p in (prepend, append)]
        first, last = (p if p is None or p.ndim else tt.broadcast_to(p, row) for p in ends)
        x = tt.concat([part for part in (first, x, last) if part is not None], axis=axis)
    for _ in range(n):
        later = x[(slice(None),) * axis + (slice(1, None),)]
        earlier = x[(slice(None),) * axis + (slice(None, -1),)]
        x = later ^ earlier if x.dtype == dtypes.bool_ else later - earlier
    return x if n else tt.positive(x)
