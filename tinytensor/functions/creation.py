"""Making arrays: from numbers, from other arrays, from a rule.

Where no dtype is given, floats get the default dtype (float32, see `set_default_dtype`) and integers int64; arrays of
other libraries keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Never

import numpy as np

import tinytensor as tt

from .. import dtypes
from ..backend import for_array, for_device
from ..in_place import read_only
from ..modes import state
from ..tensor import Tensor, wrap
from ..typing import ArrayLike, Device, DType, Shape, SupportsDLPack


def to_array(name: str, data: Any, dtype: DType, device: Device, copy: bool | None) -> Any:
    """A raw array of anything that can become one; `copy=True` never shares memory with `data`.

    Raises TypeError for anything but numbers, and ValueError for ragged lists or if `copy=False` is impossible.
    """
    array, fresh, natural = _as_array(name, data._data if isinstance(data, Tensor) else data, copy)
    dtype = natural if dtype is None else dtypes.as_dtype(dtype)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
        array, fresh = _numbers_at_last(name, data, array, copy), True
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    source = for_array(array)
    target = source if device is None else for_device(device)
    if source is not target:
        if copy is False and not fresh:
            raise ValueError(f"{name}: moving from {source.device} to {device} needs a copy; leave copy=None")
        array, fresh = target.from_numpy(source.to_numpy(array)), True
    if dtype is not None and array.dtype != dtype:
        if copy is False and not fresh:
            raise ValueError(f"{name}: {array.dtype} to {dtype} needs a copy; leave copy=None")
        return array.astype(dtype)
    return target.copy(array) if copy and not fresh else array


def _as_array(name: str, value: Any, copy: bool | None) -> tuple[Any, bool, Any]:
    """An array, True if it shares no memory, and the dtype that Python numbers take (None: the array's)."""
    if isinstance(value, np.generic):  # a NumPy float64 scalar counts as a Python float; others keep their type
        return np.asarray(value), True, dtypes.get_default_dtype() if isinstance(value, float) else None
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else value.view(np.ndarray), False, None
    if type(value).__module__.partition(".")[0] == "cupy":
        return value, False, None
    if not isinstance(value, (list, tuple, bool, int, float, complex)):
        if hasattr(value, "__dlpack__"):
            return _through_dlpack(name, value, copy), False, None
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value), False, None
        value = _from_buffer(name, value)
        if isinstance(value, np.ndarray):
            return value, False, None
    if copy is False:
        raise ValueError(f"{name}: Python numbers and lists cannot be used without a copy; leave copy=None")
    try:
        array = np.asarray(_plain(name, value))
    except ValueError as error:
        raise ValueError(f"{name}: the lists are not of one shape ({error})") from None
    return array, True, _dtype_of_numbers(array)


def _is_bfloat16(value: Any) -> bool:
    return str(getattr(value, "dtype", "")).rpartition(".")[2] == "bfloat16"


def _widened(value: Any) -> Any:
    """An array of bfloat16, which NumPy does not have, in float32 with the same values, by its own library."""
    return value.float() if hasattr(value, "float") else value.astype("float32")


def _through_dlpack(name: str, value: Any, copy: bool | None) -> Any:
    """NumPy's array of another library's. Raises TypeError for a dtype or a device that NumPy does not have."""
    try:
        return np.from_dlpack(_widened(value) if copy is not False and _is_bfloat16(value) else value)
    except (RuntimeError, BufferError) as error:
        raise TypeError(
            f"{name}: NumPy cannot take this {type(value).__name__} of {getattr(value, 'dtype', None)} ({error}); "
            "expected a dense array on the CPU of a dtype that it has, such as x.detach().cpu().float() of PyTorch's x"
        ) from None


def _numbers_at_last(name: str, data: Any, array: Any, copy: bool | None) -> Any:
    """NumPy's array of bfloat16, as other packages add it, in float32. Raises TypeError for all else."""
    if copy is not False and _is_bfloat16(array):
        return _widened(array)
    if array.dtype.kind != "O":
        raise TypeError(f"{name}: cannot make a Tensor of {type(data).__name__} with elements {array.dtype}")
    wrong = next((value for value in array.flat if not isinstance(value, float)), data)
    raise TypeError(f"{name}: cannot make a Tensor of {wrong!r}; expected numbers of 64 bits at most, or lists of such")


def _dtype_of_numbers(array: Any) -> Any:
    """The dtype of Python numbers, given the array that NumPy made of them; None if they are no numbers."""
    if array.dtype.kind == "c":
        return dtypes.default_complex()
    if array.dtype.kind == "f" or not array.size:
        return dtypes.get_default_dtype()
    if array.dtype.kind in "iu":
        return array.dtype if array.dtype.kind == "u" else dtypes.int64
    return None  # not Python numbers: to be refused


def _plain(name: str, value: Any) -> Any:
    """Nested lists with Tensors in them as nested lists of numbers."""
    if isinstance(value, (list, tuple)):
        return [_plain(name, v) for v in value]
    if isinstance(value, Tensor):
        if value._node is not None:
            raise TypeError(
                f"{name}: a list holds a Tensor that requires a gradient, which would be lost; use tt.stack"
            )
        return value.tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _widened(value).tolist() if hasattr(value, "dtype") and _is_bfloat16(value) else value


def _from_buffer(name: str, value: Any) -> Any:
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        pass
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
        return _plain(name, list(value))
    raise TypeError(f"{name}: cannot make a Tensor of a {type(value).__name__}; expected numbers, lists or an array")


def asarray(obj: ArrayLike, /, *, dtype: DType = None, device: Device = None, copy: bool | None = None) -> Tensor:
    """A Tensor of numbers, nested lists, an array of NumPy or CuPy, anything with DLPack, or a Tensor.

    A Tensor is returned as it is if nothing has to change. Other libraries' arrays are copied, so that later writes
    to them cannot change what a gradient needs; bfloat16, which NumPy does not have, becomes float32. `copy=False`
    shares the memory of an array instead; the Tensor never writes to it, and a NumPy array is made read-only from then
    on, its bases included.
    """
    if isinstance(obj, Tensor):
        return obj if dtype is None and device is None and not copy else _changed(obj, dtype, device, copy)
    foreign = any(hasattr(obj, name) for name in ("dtype", "__array__", "__dlpack__"))
    array = to_array("asarray", obj, dtype, device, (foreign or None) if copy is None else copy)
    return read_only(wrap(_frozen(array), None)) if copy is False else wrap(array, None)


def _changed(x: Tensor, dtype: Any, device: Device, copy: bool | None) -> Tensor:
    """A Tensor with another dtype, on another device, or in memory of its own."""
    result = x
    if dtype is not None and dtypes.as_dtype(dtype) != x.dtype:
        if copy is False:
            raise ValueError(f"asarray: {x.dtype} to {dtypes.as_dtype(dtype)} needs a copy; leave copy=None")
        result = tt.astype(result, dtype)
    if device is not None and device != result.device:
        if copy is False:
            raise ValueError(f"asarray: moving from {result.device} to {device} needs a copy; leave copy=None")
        result = result.to(device)
    return tt.positive(result) if copy and result is x else result


def _frozen(array: Any) -> Any:
    """The same array, read-only from now on, and its bases as well."""
    base = array
    while isinstance(base, np.ndarray):
        base.flags.writeable = False
        base = base.base
    return array


def tensor(
    data: ArrayLike, *, dtype: DType = None, device: Device = None, requires_grad: bool = False, **unknown: Never
) -> Tensor:
    """A new Tensor with a copy of `data`, under PyTorch's name."""
    if unknown:
        raise tt.hints.unknown_keyword("tensor", unknown)
    return Tensor(data, requires_grad=requires_grad, dtype=dtype, device=device)


def from_dlpack(x: SupportsDLPack, /, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A Tensor of any array that speaks DLPack; copied, unless `copy=False` asks to share (read-only) memory."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if x.__dlpack_device__()[0] == 2:
        import cupy

        x = _widened(x) if _is_bfloat16(x) else x
        return asarray(cupy.from_dlpack(x), device=device, copy=copy)
    return asarray(_through_dlpack("from_dlpack", x, copy), device=device, copy=True if copy is None else copy)


def as_shape(name: str, shape: Shape, more: Any = (), unknown: Any = ()) -> tuple[int, ...]:
    """A `shape` argument of the function `name` as a tuple of lengths.

    Raises TypeError where there are `more` lengths, or arguments `unknown` to the function.
    """
    if more or unknown:
        raise tt.hints.unknown_keyword(name, unknown or {"lengths": (shape, *more)})
    lengths: Any = (shape,) if isinstance(shape, float) or hasattr(shape, "__index__") else tuple(shape)
    if any(not hasattr(n, "__index__") or n < 0 for n in lengths):
        raise _no_shape(name, lengths)
    return tuple(n.__index__() for n in lengths)


def _no_shape(name: str, lengths: tuple[Any, ...]) -> Exception:
    if any(not hasattr(n, "__index__") for n in lengths):
        return TypeError(f"{name}: a shape is made of integers, got {lengths}")
    return ValueError(f"{name}: shape {lengths} has a negative length")


def _made(array: Any, *rule: Any) -> Tensor:
    return wrap(array, state.recording.made(array, *rule) if state.recording else None)  # the rule, for other lengths


def _filled(name: str, shape: Any, value: Any, dtype: Any, device: Device, lengths: Any, unknown: Any) -> Tensor:
    array = for_device(device).full(as_shape(name, shape, lengths, unknown), value, dtype=dtypes.as_dtype(dtype))
    return _made(array, full, value)


def zeros(shape: Shape, *lengths: Never, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Zeros of a shape."""
    dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return _made(for_device(device).zeros(as_shape("zeros", shape, lengths, unknown), dtype=dtype), full, 0)


def ones(shape: Shape, *lengths: Never, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Ones of a shape."""
    return _filled("ones", shape, 1, dtypes.get_default_dtype() if dtype is None else dtype, device, lengths, unknown)


def full(
    shape: Shape, fill_value: ArrayLike, *, dtype: DType = None, device: Device = None, **unknown: Never
) -> Tensor:
    """A shape filled with one value."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    elif isinstance(fill_value, np.generic) and not isinstance(fill_value, float):
        dtype = fill_value.dtype if dtype is None else dtype
    return _filled(
        "full", shape, fill_value, dtypes.promote([], [fill_value]) if dtype is None else dtype, device, (), unknown
    )


def empty(shape: Shape, *lengths: Never, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Memory of a shape, with whatever values are there."""
    dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return _made(for_device(device).empty(as_shape("empty", shape, lengths, unknown), dtype=dtype), full, 0)


def zeros_like(x: ArrayLike, /, *, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Zeros with the shape, dtype and device of x."""
    x = asarray(x)
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device, **unknown)


def ones_like(x: ArrayLike, /, *, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Ones with the shape, dtype and device of x."""
    x = asarray(x)
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device, **unknown)


def full_like(
    x: ArrayLike, /, fill_value: ArrayLike, *, dtype: DType = None, device: Device = None, **unknown: Never
) -> Tensor:
    """One value with the shape, dtype and device of x."""
    x = asarray(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device, **unknown)


def empty_like(x: ArrayLike, /, *, dtype: DType = None, device: Device = None, **unknown: Never) -> Tensor:
    """Memory with the shape, dtype and device of x."""
    x = asarray(x)
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device, **unknown)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DType = None, device: Device = None
) -> Tensor:
    """start, start + step, ... below stop; with one argument, from 0 to it."""
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = (v.item() if isinstance(v, np.generic) else v for v in (start, stop, step))
    dtype = dtypes.promote([], [start, stop, step]) if dtype is None else dtypes.as_dtype(dtype)
    xp, count = for_device(device), max(0, math.ceil((stop - start) / step))
    if dtype.kind in "iu":
        values = xp.arange(count, dtype=dtype) * dtype.type(step) + dtype.type(start)
    else:
        values = xp.astype(xp.arange(count) * step + start, dtype)
    return _made(values, arange, start, stop, step)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType = None, device: Device = None, endpoint: bool = True,
    **unknown: Never,
) -> Tensor:  # fmt: skip
    """`num` evenly spaced numbers from start to stop."""
    if unknown:
        raise tt.hints.unknown_keyword("linspace", unknown)
    start, stop = (end.item() if hasattr(end, "item") else end for end in (start, stop))  # in all their digits
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    default = dtypes.default_complex() if is_complex else dtypes.get_default_dtype()
    dtype = default if dtype is None else dtypes.as_dtype(dtype)
    values = np.linspace(start, stop, num, endpoint=endpoint).astype(dtype)
    return wrap(for_device(device).from_numpy(values), None)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType = None, device: Device = None,
    **unknown: Never,
) -> Tensor:  # fmt: skip
    """Ones on the k-th diagonal, zeros elsewhere."""
    if unknown:
        raise tt.hints.unknown_keyword("eye", unknown)
    dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return wrap(for_device(device).eye(n_rows, n_rows if n_cols is None else n_cols, k, dtype=dtype), None)


def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate arrays of the grid that vectors span; `indexing` is "xy" (Cartesian) or "ij" (matrix)."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [asarray(a) for a in arrays]
    rank = len(vectors)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    columns = [tt.reshape(v, (1,) * place + (v.size,) + (1,) * (rank - place - 1)) for v, place in zip(vectors, order)]
    return tt.broadcast_arrays(*columns)
