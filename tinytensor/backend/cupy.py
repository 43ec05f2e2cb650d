"""The CuPy namespace: the same names as `numpy.py`, over arrays on the GPU.

Where CuPy's own name or behaviour differs from the standard's, the difference ends here. Versions 13 and 14 of CuPy
have different names of the standard, so this file uses the names that both have.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np
from cupy import arccos as acos  # noqa: F401
from cupy import arccosh as acosh  # noqa: F401
from cupy import arcsin as asin  # noqa: F401
from cupy import arcsinh as asinh  # noqa: F401
from cupy import arctan as atan  # noqa: F401
from cupy import arctan2 as atan2  # noqa: F401
from cupy import arctanh as atanh  # noqa: F401
from cupy import concatenate as concat  # noqa: F401
from cupy import invert as bitwise_invert  # noqa: F401
from cupy import matmul, ndarray  # noqa: F401
from cupy import rint as round  # noqa: F401
from cupy import transpose as permute_dims  # noqa: F401

from . import cupy_fft as fft  # noqa: F401
from . import cupy_linalg as linalg  # noqa: F401
from . import cupy_special as special  # noqa: F401
from .numpy import check_range, check_range_at_once  # noqa: F401

device = "gpu"


def __getattr__(name: str) -> Any:
    """A name that is not here is CuPy's: looked up once, then kept."""
    function = globals()[name] = getattr(cupy, name)
    return function


def is_available() -> bool:
    """True if there is a GPU to use; a driver too old for this CuPy, for which CuPy raises, counts as none."""
    try:
        return bool(cupy.cuda.is_available())
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def asarray(value: Any, dtype: Any = None) -> Any:
    """An array of this backend: the very same object if nothing has to change."""
    return cupy.asarray(value, dtype=dtype)


def astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype, copy=False)


def copy(x: Any) -> Any:
    return cupy.array(x, copy=True, order="C")


def read_only(x: Any) -> Any:
    """An array that may be handed out: CuPy has no read-only views, so it is a copy."""
    return copy(x)


def to_numpy(x: Any) -> Any:
    return cupy.asnumpy(x)


def from_numpy(x: Any) -> Any:
    return cupy.asarray(x)


def is_view(x: Any) -> bool:
    """True if an array is over the memory of another one."""
    return x.base is not None


def storage(x: Any) -> int:
    """A number that all arrays over the same memory share."""
    return int(x.data.mem.ptr) or id(x)  # all empty arrays have the address 0


def matrix_transpose(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    return sum(cupy.multiply(cupy.conj(x1), x2), axis=axis)


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Sums; float32 and float16 are added up in float64 where a thread would add more than a few numbers."""
    dtype = dtype or (x.dtype if x.dtype.kind != "b" else np.dtype("int64"))
    wide = np.float64 if dtype in (np.float16, np.float32) else dtype
    return astype(cupy.sum(x, axis=axis, dtype=wide, keepdims=keepdims), dtype)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    wide = np.float64 if x.dtype in (np.float16, np.float32) else x.dtype
    return astype(cupy.mean(x, axis=axis, dtype=wide, keepdims=keepdims), x.dtype)


def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return cupy.prod(x, axis=axis, dtype=dtype, keepdims=keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.max(x, axis=axis, keepdims=keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.min(x, axis=axis, keepdims=keepdims)


def cumulative_sum(x: Any, axis: int, dtype: Any = None) -> Any:
    """Running sums; float32 and float16 are added up in float64, so that the last is as accurate as `sum`."""
    dtype = dtype or x.dtype
    wide = np.float64 if dtype in (np.float16, np.float32) else dtype
    return astype(cupy.cumsum(x, axis=axis, dtype=wide), dtype)


def cumulative_prod(x: Any, axis: int, dtype: Any = None) -> Any:
    return cupy.cumprod(x, axis=axis, dtype=dtype)


def sort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return cupy.take_along_axis(x, stable_argsort(x, axis, descending), axis)


def stable_argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """Indices that sort, equal elements in their original order, in both directions (CuPy's sort is stable)."""
    x = _with_plain_nan(x) if x.ndim == 1 else x
    if not descending:
        return cupy.argsort(x, axis=axis)
    turned = cupy.argsort(cupy.flip(x, axis), axis=axis)
    return x.shape[axis] - 1 - cupy.flip(turned, axis)


def _with_plain_nan(x: Any) -> Any:
    """x, its NaNs without a sign: CuPy sorts a vector by its bits, and signed NaNs (0 / 0 on many CPUs) come first."""
    return where(x == x, x, math.nan) if x.dtype.kind == "f" else x


def largest_places(x: Any, k: int) -> Any:
    """The places of the k largest in each row of x (rows, n), the largest first; equal ones keep their order."""
    return stable_argsort(x, descending=True)[:, :k]


def unique(x: Any) -> tuple[Any, Any, Any, Any]:
    """Sorted distinct values, their first index, the inverse (in the shape of x) and the counts; NaNs are distinct."""
    values, indices, inverse, counts = cupy.unique(
        _with_plain_nan(x), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return values, indices, inverse.reshape(x.shape), counts


def isin(x1: Any, x2: Any, invert: bool = False) -> Any:
    return cupy.isin(x1, _with_plain_nan(x2), invert=invert)


def erf(x: Any) -> Any:
    from cupyx.scipy.special import erf

    return astype(erf(x), x.dtype)


def where(condition: Any, x1: Any, x2: Any) -> Any:
    """`cupy.where` with Python numbers in the dtype of the array they meet.

    The kernel takes the numbers as they are: an array made of one would cost a copy to the GPU.
    """
    known = [a.dtype for a in (x1, x2) if hasattr(a, "dtype")]
    if not known:
        return cupy.where(asarray(condition), x1, x2)
    dtype = known[0] if len(known) == 1 else np.result_type(*known)
    x1, x2 = (astype(x, dtype) if isinstance(x, ndarray) else dtype.type(x) for x in (x1, x2))
    return astype(cupy.where(asarray(condition), x1, x2), dtype)


def sigmoid(x: Any) -> Any:
    e = cupy.exp(-cupy.abs(x))  # of a negative number only, so that nothing overflows: 1/(1 + e^-x) = e^x/(1 + e^x)
    return where(x >= 0, x.dtype.type(1), e) / (1 + e)


# ---- arithmetic: CuPy's formulas give other numbers than NumPy's for special values, and where they round on the way


def floor_divide(x1: Any, x2: Any) -> Any:
    """By way of `fmod`, which is exact: CuPy's floor(x1 / x2) finds 0.1 ten times in 1."""
    dtype, a, b = _operands(x1, x2)
    if dtype.kind != "f":
        return cupy.floor_divide(a, b)
    rest = cupy.fmod(a, b)
    whole = cupy.rint((a - rest) / b - _crosses(rest, b))
    return astype(where(b == 0, a / b, cupy.copysign(whole, a / b)), dtype)


def remainder(x1: Any, x2: Any) -> Any:
    """By way of `fmod`: for an infinite x2, CuPy's x1 - floor(x1 / x2) * x2 is NaN."""
    dtype, a, b = _operands(x1, x2)
    if dtype.kind != "f":
        return cupy.remainder(a, b)
    rest = cupy.fmod(a, b)
    return astype(where(_crosses(rest, b), rest + b, cupy.copysign(rest, b)), dtype)


def _crosses(rest: Any, divisor: Any) -> Any:
    """True where the floor is one below the quotient of `fmod`, which rounds it towards 0."""
    return (rest != 0) & ((rest < 0) != (divisor < 0))


def _operands(x1: Any, x2: Any) -> tuple[Any, Any, Any]:
    """The dtype of two operands (one may be a number), and both as arrays of that dtype; float16 in 32 bits."""
    dtype = (x1 if hasattr(x1, "dtype") else x2).dtype
    wide = np.float32 if dtype == np.float16 else dtype
    return dtype, astype(asarray(x1, dtype=dtype), wide), astype(asarray(x2, dtype=dtype), wide)


def pow(x1: Any, x2: Any) -> Any:
    """`cupy.power`; negative powers of integers, for which it gives 0, are an error, as in NumPy."""
    if (x1 if hasattr(x1, "dtype") else x2).dtype.kind == "i" and bool(cupy.any(asarray(x2 < 0))):
        raise ValueError("Integers to negative integer powers are not allowed.")
    return cupy.power(x1, x2)


def bitwise_left_shift(x1: Any, x2: Any) -> Any:
    """A shift by the width or more leaves no bits; CUDA's shift is undefined then."""
    _, a, b = _operands(x1, x2)
    near = (b >= 0) & (b < 8 * a.itemsize)
    return where(near, cupy.left_shift(a, b * near), 0)


def bitwise_right_shift(x1: Any, x2: Any) -> Any:
    """The same to the right, but the sign of a negative number remains."""
    _, a, b = _operands(x1, x2)
    near = (b >= 0) & (b < 8 * a.itemsize)
    shifted = cupy.right_shift(a, b * near)
    return where(near, shifted, -astype(a < 0, shifted.dtype))


def sign(x: Any) -> Any:
    """NaN for NaN, and x / |x| for complex numbers: CuPy 13 gives 0, and the sign of the real part."""
    if x.dtype.kind == "c":
        return x / where(x == 0, 1.0, cupy.abs(x))
    return where(x != x, x, cupy.sign(x)) if x.dtype.kind == "f" else cupy.sign(x)


def _of_truth(function: Any) -> Any:
    """A logical function that takes complex numbers too: CuPy's do not."""

    def logical(*operands: Any) -> Any:
        return function(*[x != 0 if _is_complex(x) else x for x in operands])

    return logical


def _is_complex(x: Any) -> bool:
    return isinstance(x, ndarray) and x.dtype.kind == "c"


logical_and, logical_or = _of_truth(cupy.logical_and), _of_truth(cupy.logical_or)
logical_xor, logical_not = _of_truth(cupy.logical_xor), _of_truth(cupy.logical_not)


# ---- places named by indices


def index_add(x: Any, key: Any, values: Any) -> None:
    """`x[key] += values`, in place, in any order; places that `key` names twice receive both.

    CUDA adds floats and some integers atomically. As for the rest: in two's complement the bits of a sum do not depend
    on the sign, integers of fewer bits are added in 32, and complex numbers are two floats.
    """
    if x.dtype == np.int64:
        cupy.add.at(x.view(np.uint64), key, astype(values, np.int64).view(np.uint64))
    elif x.dtype.kind == "c":
        cupy.add.at(x.real, key, values.real)
        cupy.add.at(x.imag, key, values.imag)
    elif x.dtype.kind in "biu" and x.itemsize < 4:
        wide = x.astype(np.int32)
        cupy.add.at(wide, key, values.astype(np.int32))
        x[...] = astype(wide, x.dtype)
    else:
        cupy.add.at(x, key, values)


def scatter(values: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a shape with `values` added at `key`; a place named twice gets both."""
    if any_array(key):
        wide = np.dtype("float64") if values.dtype.kind == "f" else values.dtype  # a place may be read many times
        out = cupy.zeros(shape, dtype=wide)
        index_add(out, key, astype(values, wide))
        return astype(out, values.dtype)
    out = cupy.zeros(shape, dtype=values.dtype)
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
    """`x[key] = values`, in place; `wins` says which of several values for one place remains (CuPy picks any)."""
    if wins is None:
        overlaps = isinstance(values, ndarray) and storage(values) == storage(x)  # CuPy's copy may go wrong then
        x[key] = copy(values) if overlaps else values
        return
    places = cupy.reshape(cupy.arange(x.size), x.shape)[key]
    values = cupy.broadcast_to(asarray(values, dtype=x.dtype), places.shape)
    flat = cupy.reshape(x, (-1,))  # a view where x is contiguous, else a copy that is written back
    flat[places[wins]] = values[wins]
    if not x.flags.c_contiguous:
        x[...] = cupy.reshape(flat, x.shape)


def last_of_each(ids: Any, length: int) -> Any:
    """For each place 0..length-1, the position of its last mention in `ids` (undefined where there is none)."""
    last = cupy.zeros(length, dtype=np.uint64)  # CUDA knows no atomic maximum of int64
    cupy.maximum.at(last, ids, cupy.arange(ids.size, dtype=np.uint64))
    return astype(last, np.int64)


def synchronize() -> None:
    """Wait until all work on the device is done."""
    cupy.cuda.Device().synchronize()
