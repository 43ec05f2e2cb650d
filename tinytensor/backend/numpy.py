"""The NumPy namespace: the standard's names, which are NumPy's own except for those below, and the few it lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import rint as round  # noqa: F401  (this module is a namespace: ops reach these as `xp.name`)

from . import numpy_special as special  # noqa: F401
from .sums import accurate_matmul as matmul  # noqa: F401
from .sums import accurate_sum
from .sums import accurate_sum as sum  # noqa: F401

device = "cpu"
ndarray = np.ndarray


def __getattr__(name: str) -> Any:
    """A name that is not here is NumPy's: looked up once, then kept."""
    function = globals()[name] = getattr(np, name)
    return function


def astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype, copy=False)


def copy(x: Any) -> Any:
    return np.array(x, copy=True, order="C")


def read_only(x: Any) -> Any:
    """A view that may be handed out: nobody can write through it."""
    view = x.view()
    view.flags.writeable = False
    return view


def to_numpy(x: Any) -> Any:
    return x


def from_numpy(x: Any) -> Any:
    return x


OWNERS: list[type] = []
"""Objects that have memory for arrays, so that an array over one of them is no view; the pool in `fast/` is one."""


def is_view(x: Any) -> bool:
    """True if an array is over the memory of another array."""
    return x.base is not None and type(x.base) not in OWNERS


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    if x.ndim:
        return np.broadcast_to(x, shape)
    x = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))  # NumPy's own takes five times as long
    x.flags.writeable = False
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
    return np.take_along_axis(x, stable_argsort(x, axis, descending), axis)


def stable_argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """Indices that sort, equal elements in their original order, in both directions."""
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    turned = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - np.flip(turned, axis)


def largest_places(x: Any, k: int) -> Any:
    """The places of the k largest in each row of x (rows, n), the largest first; equal ones keep their order."""
    return stable_argsort(x, descending=True)[:, :k]


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
    with np.errstate(under="ignore"):  # far out it is 0 or 1, whatever warnings the caller asks for
        e = np.exp(-np.abs(x))  # of a negative number only, so that nothing overflows: 1/(1 + e^-x) = e^x/(1 + e^x)
    return np.where(x >= 0, x.dtype.type(1), e) / (1 + e)


def index_add(x: Any, key: Any, values: Any) -> None:
    """`x[key] += values`, in place; places that `key` names twice receive both."""
    (_add_many if values.size > MANY else np.add.at)(x, key, values)


MANY = 1 << 12  # numbers from which on a histogram and a sparse product take less time than `np.add.at`


def _add_many(x: Any, key: tuple[Any, ...], values: Any) -> None:
    parts = [np.asarray(part) for part in key]
    if values.dtype != np.float64 or any(part.dtype.kind not in "iu" for part in parts):
        return np.add.at(x, key, values)
    parts = [part.astype(np.intp, copy=False) for part in parts]
    parts = [np.where(part < 0, part + n, part) for part, n in zip(parts, x.shape)]
    if any(part.size and not 0 <= part.min() <= part.max() < n for part, n in zip(parts, x.shape)):
        return np.add.at(x, key, values)  # raises IndexError
    count, rest = math.prod(x.shape[: len(key)]), x.shape[len(key) :]
    places = np.ravel_multi_index(np.broadcast_arrays(*parts), x.shape[: len(key)]).reshape(-1)
    rows = np.broadcast_to(values, (*np.broadcast_shapes(*[p.shape for p in parts]), *rest)).reshape(places.size, -1)
    if rows.shape[1] == 1:
        x += np.bincount(places, rows[:, 0], count).reshape(x.shape)
        return None
    from scipy.sparse import csr_array  # only now: to load it takes longer than to load most files here

    chosen = csr_array((np.ones(len(rows)), (places, np.arange(len(rows)))), (count, len(rows)))
    x += (chosen @ rows).reshape(x.shape)
    return None


def scatter(values: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a shape with `values` added at `key`; a place named twice gets both."""
    if any_array(key):
        wide = np.dtype("float64") if values.dtype.kind == "f" else values.dtype  # a place may be read many times
        out = np.zeros(shape, dtype=wide)
        index_add(out, key, astype(values, wide))
        return astype(out, values.dtype)
    out = np.zeros(shape, dtype=values.dtype)
    out[key] = values
    return out


def any_array(key: tuple[Any, ...]) -> bool:
    """True if a key holds arrays, so that it may name a place twice."""
    return bool([part for part in key if isinstance(part, ndarray)])


def index_set(x: Any, key: Any, values: Any, wins: Any = None) -> Any:
    """A copy of x with `values` at `key`; `wins` says which of several values for one place remains."""
    out = copy(x)
    write(out, key, values, wins)
    return out


def write(x: Any, key: Any, values: Any, wins: Any = None) -> None:
    """`x[key] = values`, in place; of several values for one place the last remains (NumPy writes in order)."""
    x[key] = values


def last_of_each(ids: Any, length: int) -> Any:
    """For each place 0..length-1, the position of its last mention in `ids` (undefined where there is none)."""
    last = np.zeros(length, dtype=np.int64)
    last[ids] = np.arange(ids.size)
    return last


def check_range(name: str, what: str, ids: Any, length: int) -> None:
    """Raise IndexError unless all ids (at least one) are from 0 to length - 1."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= length:
        raise out_of_range(name, what, low if low < 0 else high, length)


check_range_at_once = check_range


def out_of_range(name: str, what: str, found: int, length: int) -> IndexError:
    return IndexError(f"{name}: {what} must be from 0 to {length - 1}, got {found}")


def synchronize() -> None:
    """Wait until all work on the device is done: NumPy's always is."""
