"""Reading and writing parts of a Tensor, both differentiable.

Keys are NumPy's: integers, slices, `...`, `None`, integer arrays and boolean masks, and tuples of these. Reading a
place twice adds up the gradients. Writing a place twice leaves the last value there, on every device, and that one
alone has a gradient.
"""

from __future__ import annotations

from typing import Any, Never

import numpy as np

import tinytensor as tt

from .. import dtypes
from ..in_place import is_writable
from ..modes import state
from ..node import mark_written
from ..primitive import op
from ..tensor import Tensor, shares
from ..typing import ArrayLike
from .reductions import normalize_axis


def _is_array(part: Any) -> bool:
    return (hasattr(part, "dtype") and not isinstance(part, np.generic)) or isinstance(part, list)


def _raw_key(x: Tensor, key: Any, keep: bool) -> Any:
    """The key with raw arrays on x's device in it; copies of them if they are to be kept."""
    raw = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, Tensor):
            if part.device != x.device:
                raise tt.DeviceError(f"index: the Tensor is on {x.device}, an index on {part.device}; move one of them")
            array = part._data
            part = tt.backend.for_array(array).copy(array) if keep else array
            if state.recording is not None and keep:
                state.recording.cast(array, part)
        elif _is_array(part):
            part = tt.asarray(part, device=x.device)._data
            if part.size == 0 and part.dtype.kind == "f":
                part = part.astype(dtypes.int64)
        elif isinstance(part, np.generic):
            part = part.item()
        elif isinstance(part, slice):  # bounds that are arrays could change later
            part = slice(*(None if b is None else b.__index__() for b in (part.start, part.stop, part.step)))
        if hasattr(part, "dtype") and part.dtype.kind not in "iub":
            raise IndexError(f"index: arrays in an index must be integer or boolean, got {part.dtype}")
        if not (part is None or part is Ellipsis or isinstance(part, (int, slice)) or hasattr(part, "dtype")):
            if not hasattr(part, "__index__"):
                raise IndexError(f"index: got a {type(part).__name__}; expected integers, slices, ..., None or arrays")
            part = part.__index__()
        raw.append(part)
    _check_bounds(x, raw)
    return tuple(raw)


def _check_bounds(x: Tensor, key: list[Any]) -> None:
    """Integer arrays out of range raise on every device (CuPy would wrap them round in silence)."""
    if x.device == "cpu":
        return
    used = sum(_consumed(part) for part in key if part is not Ellipsis)
    axis = 0
    for part in key:
        if part is Ellipsis:
            axis += x.ndim - used
        elif part is not None:
            if hasattr(part, "dtype") and part.dtype.kind != "b" and part.size:
                length = x.shape[axis]
                low, high = int(part.min()), int(part.max())
                if low < -length or high >= length:
                    wrong = high if high >= length else low
                    raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
            axis += _consumed(part)


def _consumed(part: Any) -> int:
    """The number of dimensions of the array that a part of a key uses up."""
    if part is None:
        return 0
    return part.ndim if hasattr(part, "dtype") and part.dtype.kind == "b" else 1


@op(x=lambda xp, g, shape, key: xp.scatter(g, key, shape))
def _getitem(xp, x, *, key):
    part = x[key]
    return part if type(part) is type(x) else x[(*key, ...)]  # one element is a view as well, no NumPy scalar


def getitem(x: Any, key: Any) -> Tensor:
    """`x[key]`."""
    return shares(_getitem(x, key=_raw_key(x, key, keep=x._node is not None)), x)


@op(values=lambda xp, g, key: g[key])
def _scatter(xp, values, *, key, to):
    return xp.scatter(values, key, to)


def scatter(values: ArrayLike, key: Any, shape: tuple[int, ...]) -> Tensor:
    """Zeros of a shape with `values` added at `key`; a place named twice gets both: the transpose of reading."""
    values = tt.asarray(values)
    target = tt.broadcast_to(tt.zeros((), dtype=values.dtype, device=values.device), shape)
    return _scatter(values, key=_raw_key(target, key, keep=True), to=target.shape)


def _written_x(xp, g, key):
    """g, 0 where something was written."""
    return xp.index_set(g, key, xp.zeros_like(g[key]))


def _written_values(xp, g, key, wins):
    """g[key], 0 for values that were written over."""
    return g[key] if wins is None else xp.where(wins, g[key], 0.0)


@op(
    x=lambda xp, g, key: _written_x(xp, g, key),
    values=lambda xp, g, key, wins: _written_values(xp, g, key, wins),
)
def _index_set(xp, x, values, *, key, wins):
    return xp.index_set(x, key, values, wins)


def index_set(x: ArrayLike, key: Any, values: ArrayLike) -> Tensor:
    """A copy of x with `values`, broadcast, at `key`; of several values at one place the last remains."""
    x = tt.asarray(x)
    raw = _raw_key(x, key, keep=True)
    return _index_set(x, values, key=raw, wins=_winners(x, raw))


def _winners(x: Tensor, key: tuple[Any, ...]) -> Any:
    """True for the written elements that are the last at their place; None if no place can be written twice."""
    if not any(hasattr(part, "dtype") and part.dtype.kind != "b" for part in key):
        return None
    xp = tt.backend.for_array(x._data)
    places = xp.reshape(xp.arange(x.size), x.shape)[key]
    flat = xp.reshape(places, (-1,))
    return xp.reshape(xp.last_of_each(flat, x.size)[flat] == xp.arange(flat.size), places.shape)


def setitem(x: Any, key: Any, value: Any) -> None:
    """`x[key] = value`. In a graph x moves on to a new array; outside of one its memory is written."""
    x._check_writable("x[...] = value")
    value = value if isinstance(value, Tensor) else tt.asarray(value, dtype=x.dtype, device=x.device)
    if value.dtype != x.dtype:
        if value.dtype.kind == "c" and x.dtype.kind != "c":
            raise TypeError(f"x[...] = value: complex values do not fit into {x.dtype}")
        value = tt.astype(value, x.dtype)
    recorded = state.grad_enabled and (x._node is not None or value._node is not None)
    if recorded or not is_writable(x) or (state.recording and state.recording.follows(x, value)):
        x._become(index_set(x, key, value))
        return
    if value.device != x.device:
        raise tt.DeviceError(f"x[...] = value: x is on {x.device}, the value on {value.device}; move one of them")
    raw = _raw_key(x, key, keep=False)
    xp = tt.backend.for_array(x._data)
    try:
        xp.write(x._data, raw, value._data, _winners(x, raw) if x.device != "cpu" else None)
    except ValueError as error:
        raise ValueError(f"x[...] = value: {error}; x {x.shape}, value {value.shape}") from None
    mark_written(x._data)


# ---- by position along one axis


def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None, **unknown: Never) -> Tensor:
    """The slices of x at the integer `indices` along `axis` (which may be left out for one dimension)."""
    x = tt.asarray(x)
    indices = _indices(x, indices)
    if axis is None and not unknown:
        if x.ndim != 1:
            raise ValueError(f"take: axis may be left out for 1 dimension only; got shape {x.shape}")
        axis = 0
    if indices.dtype.kind not in "iu":
        raise IndexError(f"take: indices must be integers, got {indices.dtype}")
    return getitem(x, (slice(None),) * normalize_axis("take", axis, x.shape, unknown=unknown) + (indices,))


def _indices(x: Tensor, indices: Any) -> Tensor:
    """Indices as a Tensor; lists go to the device of x, but Tensors stay where they are, for `getitem` to refuse."""
    return indices if isinstance(indices, Tensor) else tt.asarray(indices, device=x.device)


def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1, **unknown: Never) -> Tensor:
    """For each place, the element of x at the index that `indices` names there along `axis`."""
    x = tt.asarray(x)
    indices = _indices(x, indices)
    axis = normalize_axis("take_along_axis", axis, x.shape, unknown=unknown)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: indices {indices.shape} must have the {x.ndim} dimensions of {x.shape}")
    key: list[Any] = []
    shape = tt.broadcast_shapes(*((*s[:axis], 1, *s[axis + 1 :]) for s in (x.shape, indices.shape)))
    for i, length in enumerate(shape):
        row = tt.arange(length, device=x.device) * (x.shape[i] > 1)  # a dimension of length 1 broadcasts
        key.append(indices if i == axis else tt.reshape(row, (1,) * i + (length,) + (1,) * (x.ndim - i - 1)))
    return getitem(x, tuple(key))


def put_along_axis(
    x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, *, axis: int = -1, **unknown: Never
) -> Tensor:
    """A copy of x with `values`, broadcast to `indices`, at the index that `indices` names at each place along `axis`.

    This writes where `take_along_axis` reads; of several values for one place the last remains, and it alone has a
    gradient. Indices have x's shape except along the axis. (NumPy's writes into x; PyTorch's `scatter` is like it.)
    """
    x, key, values = _for_writing("put_along_axis", x, indices, values, axis, unknown)
    return index_set(x, key, values)


def scatter_add(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, *, axis: int = -1, **unknown: Never) -> Tensor:
    """x with `values`, broadcast to `indices`, added at the index that `indices` names at each place along `axis`.

    A place that is named twice gets both. Indices have x's shape except along the axis.

    >>> tt.scatter_add(tt.zeros(3), tt.asarray([0, 2, 0]), tt.asarray([1.0, 2.0, 3.0])).tolist()
    [4.0, 0.0, 2.0]
    """
    x, key, values = _for_writing("scatter_add", x, indices, values, axis, unknown)
    return x + scatter(values, key, x.shape)


def _for_writing(name: str, x: Any, indices: Any, values: Any, axis: int, unknown: Any) -> tuple[Tensor, Any, Tensor]:
    """x, the key of the places to write to, and the values in the shape of the indices."""
    x = tt.asarray(x)
    indices = _indices(x, indices)
    axis = normalize_axis(name, axis, x.shape, unknown=unknown)
    if indices.ndim != x.ndim or any(n != m for i, (n, m) in enumerate(zip(indices.shape, x.shape)) if i != axis):
        raise ValueError(f"{name}: indices {indices.shape} must have the shape of x {x.shape}, but for axis {axis}")
    if not isinstance(values, Tensor):
        values = tt.asarray(values, dtype=x.dtype if dtypes.is_weak(values) else None, device=x.device)
    places = [tt.arange(n, device=x.device)[(...,) + (None,) * (x.ndim - i - 1)] for i, n in enumerate(x.shape)]
    return x, (*places[:axis], indices, *places[axis + 1 :]), tt.broadcast_to(values, indices.shape)
