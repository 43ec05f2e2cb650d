"""The NumPy namespace: the standard's names, NumPy's functions, and the few the standard lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import (  # noqa: F401  (this module is a namespace: ops reach these as `xp.name`)
    abs,
    acos,
    acosh,
    add,
    all,
    any,
    arange,
    argmax,
    argmin,
    argsort,
    asarray,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    concat,
    conj,
    copysign,
    cos,
    cosh,
    count_nonzero,
    divide,
    einsum,
    empty,
    empty_like,
    equal,
    exp,
    expand_dims,
    expm1,
    eye,
    flip,
    floor,
    floor_divide,
    full,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    linalg,
    linspace,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matrix_transpose,
    maximum,
    minimum,
    moveaxis,
    multiply,
    negative,
    nextafter,
    nonzero,
    not_equal,
    ones,
    ones_like,
    permute_dims,
    pow,
    real,
    reciprocal,
    remainder,
    repeat,
    reshape,
    roll,
    searchsorted,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    squeeze,
    stack,
    subtract,
    swapaxes,
    take_along_axis,
    tan,
    tanh,
    tensordot,
    tile,
    tril,
    triu,
    trunc,
    vecdot,
    where,
    zeros,
    zeros_like,
)
from numpy import rint as round  # noqa: F401

from ..fast.threads import in_parts
from .sums import accurate_matmul as matmul  # noqa: F401
from .sums import accurate_sum
from .sums import accurate_sum as sum  # noqa: F401

device = "cpu"
loops: Any = None  # the module `compiled`, once `compile_loops` was called

SHORT_ROW = 64  # up to here, many short rows are compared as few long ones
GROUP = 32  # elements of which the largest stands for all when the largest of a long row are looked for
DOT_ROW = 512  # up to here, a product with ones adds up as accurately as pairwise summation does
ndarray = np.ndarray


def kernel(name: str, *arrays: Any) -> Any:
    """A function of our own that does in one pass what several of NumPy's would, if there is one for these arrays."""
    found = getattr(loops, name, None)
    return found if found is not None and loops.fits(*arrays) else None


def astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype, copy=False)


def copy(x: Any) -> Any:
    return np.array(x, copy=True, order="C")


def contiguous(x: Any) -> Any:
    return x if x.flags.c_contiguous else np.ascontiguousarray(x).reshape(x.shape)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    if x.ndim:
        return np.broadcast_to(x, shape)
    view = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))  # the same of one number, in a fifth of the time
    view.flags.writeable = False
    return view


def to_numpy(x: Any) -> Any:
    return x


def from_numpy(x: Any) -> Any:
    return x


def storage(x: Any) -> int:
    """A number that all arrays over the same memory share."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return id(x)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    total = accurate_sum(x.astype(np.float32) if x.dtype == np.float16 else x, axis, None, keepdims)
    count = x.size // np.size(total) if np.size(total) else _length(x, axis)
    with np.errstate(invalid="ignore", divide="ignore"):  # the mean of nothing is NaN, quietly
        return (np.asarray(total) / np.asarray(count, dtype=total.dtype)).astype(x.dtype)


def _length(x: Any, axis: Any) -> int:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return math.prod(x.shape[i] for i in axes)


def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)  # type: ignore[call-overload]


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[call-overload]


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[call-overload]


def cumulative_sum(x: Any, axis: int, dtype: Any = None) -> Any:
    """Running sums; float32 and float16 are added up in float64, so that the last is as accurate as `sum`."""
    dtype = dtype or x.dtype
    wide = np.float64 if dtype in (np.float16, np.float32) else dtype
    return np.add.accumulate(x, axis=axis, dtype=wide).astype(dtype, copy=False)


def cumulative_prod(x: Any, axis: int, dtype: Any = None) -> Any:
    return np.multiply.accumulate(x, axis=axis, dtype=dtype)


def sort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return take_along_axis(x, stable_argsort(x, axis, descending), axis)


def stable_argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """Indices that sort, equal elements in their original order, in both directions."""
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    turned = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - np.flip(turned, axis)


def largest_places(x: Any, k: int) -> Any:
    """Where the k largest of each row of x (rows, n) are, from the largest on, the first of equal ones first."""
    if k and (largest_places := kernel("largest_places", x)):
        return largest_places(x, k)
    count, length = x.shape
    places = empty((count, k), dtype=np.int64)

    def part(i: slice) -> None:
        rows = x[i]
        groups = length // GROUP
        heads = rows
        if groups >= 2 * k:  # of so many maxima the k-th is no larger than the k-th of all, and found much faster
            heads = np.maximum.reduce(rows[:, : groups * GROUP].reshape(len(rows), GROUP, groups), axis=1)
        bound = np.partition(heads, -k, axis=1)[:, -k, None]
        found = np.flatnonzero(~(rows < bound))  # NaN is no smaller than anything
        row, place = np.divmod(found[::-1], length)
        order = np.lexsort((rows[row, place], -row))[::-1]  # turned twice: descending, yet equal ones in their order
        first = np.searchsorted(row[order], np.arange(len(rows)))
        places[i] = place[order[first[:, None] + np.arange(k)]]

    if k:
        in_parts(part, count, 4 * x.size)
    return places


def unique(x: Any) -> tuple[Any, Any, Any, Any]:
    """Sorted distinct values, their first index, the inverse (in the shape of x) and the counts; NaNs are distinct."""
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return values, indices, inverse.reshape(x.shape), counts


def erf(x: Any) -> Any:
    from scipy.special import erf

    return astype(erf(x), x.dtype)


def sigmoid(x: Any) -> Any:
    e = exp(-abs(x))  # of a negative number only, so that nothing overflows: 1/(1 + e^-x) = e^x/(1 + e^x)
    return where(x >= 0, x.dtype.type(1), e) / (1 + e)


def index_add(x: Any, key: Any, values: Any) -> None:
    """`x[key] += values`, in place; places that `key` names twice receive both."""
    np.add.at(x, key, values)


def scatter(values: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a shape with `values` added at `key`, a place named twice receiving both."""
    if any_array(key):
        wide = np.dtype("float64") if values.dtype.kind == "f" else values.dtype  # a place may be read many times
        out = zeros(shape, dtype=wide)
        index_add(out, key, astype(values, wide))
        return astype(out, values.dtype)
    out = zeros(shape, dtype=values.dtype)
    out[key] = values
    return out


def any_array(key: tuple[Any, ...]) -> bool:
    """Whether a key holds arrays, so that it may name a place twice."""
    return bool([part for part in key if isinstance(part, ndarray)])


def index_set(x: Any, key: Any, values: Any, wins: Any = None) -> Any:
    """A copy of x with `values` at `key`; `wins` says which of several values for one place remains."""
    out = copy(x)
    write(out, key, values, wins)
    return out


def write(x: Any, key: Any, values: Any, wins: Any = None) -> None:
    """`x[key] = values`, in place; of several values for one place the last remains (NumPy writes in order)."""
    x[key] = values


def add_rows(rows: Any, ids: Any, length: int) -> Any:
    """Sum the rows (n, d) that share an id (n,) into a new array (length, d): the gradient of looking rows up."""
    if add_rows := kernel("add_rows", rows):
        return add_rows(rows, ids, length)
    out = np.zeros((length, rows.shape[1]), dtype=rows.dtype)
    if len(ids):
        order = np.argsort(ids, kind="stable")
        sorted_ids = ids[order]
        starts = np.flatnonzero(np.concatenate(([True], sorted_ids[1:] != sorted_ids[:-1])))
        out[sorted_ids[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return out


def last_of_each(ids: Any, length: int) -> Any:
    """For each place 0..length-1, the position of its last mention in `ids` (undefined where there is none)."""
    last = np.zeros(length, dtype=np.int64)
    last[ids] = np.arange(ids.size)
    return last


# ---- over the last axis, as softmax and layer normalisation need it; the results keep that axis, with length 1


def row_max(x: Any) -> Any:
    length = x.shape[-1]
    if not 0 < length <= SHORT_ROW:
        return np.maximum.reduce(x, axis=-1, keepdims=True)
    # NumPy's loop over many short rows costs more than turning them round and comparing long ones.
    turned = np.ascontiguousarray(x.reshape(-1, length).T)
    return np.maximum.reduce(turned, axis=0).reshape(*x.shape[:-1], 1)


def row_sum(x: Any) -> Any:
    length = x.shape[-1]
    if not 0 < length <= DOT_ROW:
        return accurate_sum(x, -1 % x.ndim, None, True)
    return (x.reshape(-1, length) @ np.ones(length, x.dtype)).reshape(*x.shape[:-1], 1)


def row_dot(a: Any, b: Any) -> Any:
    return np.einsum("...i,...i->...", a, b)[..., None]


def zero_where(condition: Any, x: Any, out: Any) -> Any:
    """0 where the condition holds, also in place of infinite and NaN elements, else x; contiguous arrays."""
    # A branch for each element costs NumPy's `where` six times as much as masking the bits does.
    kind = np.dtype(f"i{x.itemsize}")
    np.bitwise_and(x.view(kind), np.subtract(condition.view(np.int8), 1).astype(kind), out=out.view(kind))
    return out


def within(x: Any, bound: float) -> bool:
    """Whether all of x lies in [-bound, bound]; a backend that would have to wait for the answer may say no."""
    return x.size > 0 and bool(np.maximum.reduce(x, axis=None) <= bound and np.minimum.reduce(x, axis=None) >= -bound)


def check_range(name: str, what: str, ids: Any, length: int) -> None:
    """Raise IndexError unless all ids, one at least, are from 0 to length - 1."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= length:
        raise out_of_range(name, what, low if low < 0 else high, length)


check_range_at_once = check_range


def out_of_range(name: str, what: str, found: int, length: int) -> IndexError:
    return IndexError(f"{name}: {what} must be from 0 to {length - 1}, got {found}")


def surely_all(x: Any) -> bool:
    """Whether all of x is true; a backend that would have to wait for the answer may say no."""
    return bool(x.all())


def synchronize() -> None:
    """Wait until all work on the device is done: NumPy's always is."""
