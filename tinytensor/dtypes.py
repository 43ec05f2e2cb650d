"""Data types: the standard's names for NumPy's dtype objects, and how types combine.

The dtypes are `numpy.dtype` instances on every device (CuPy uses the same objects), so `x.dtype == tt.float32`
holds for strings, NumPy types and dtypes alike.

Two rules differ from NumPy, on purpose: an integer array that meets a float array takes the float's dtype
(NumPy: `int64 + float32` is `float64`), and where integers must become floats they become the default dtype,
`float32` unless `set_default_dtype` says otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

bool_ = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

KINDS = {
    "bool": (bool_,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "integral": (int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    "real floating": (float16, float32, float64),
    "complex floating": (complex64, complex128),
    "numeric": (
        int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, float32, float64, complex64, complex128,
    ),
}  # fmt: skip

_default = float32


def get_default_dtype() -> np.dtype[Any]:
    """The dtype that Python floats become when an array is made of them."""
    return _default


def set_default_dtype(dtype: Any, /) -> None:
    """Choose the dtype of arrays made from Python floats, in the whole process.

    Raises TypeError unless `dtype` is float16, float32 or float64.
    """
    global _default
    wanted = as_dtype(dtype)
    if wanted.kind != "f":
        raise TypeError(f"set_default_dtype: got {wanted}, expected float16, float32 or float64")
    _default = wanted


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype object for a dtype, a NumPy scalar type, a Python type or a name."""
    if dtype is float:
        return _default
    return np.dtype(dtype)


def default_complex() -> np.dtype[Any]:
    """The complex dtype as precise as the default float."""
    return complex128 if _default == float64 else complex64


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if `dtype` is of a kind: a dtype, a kind's name (`"real floating"`, ...), or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in KINDS:
        return as_dtype(dtype) in KINDS[kind]
    try:
        return as_dtype(dtype) == as_dtype(kind)
    except TypeError:
        names = ", ".join(repr(name) for name in KINDS)
        raise ValueError(f"isdtype: unknown kind {kind!r}; expected a dtype or one of {names}") from None


class FloatInfo:
    """Machine limits of a floating dtype, as Python numbers; of a complex dtype, those of its parts.

    Attributes:
        bits: the bits of one number.
        eps: the distance from 1 to the next number.
        max, min: the largest and the smallest number.
        smallest_normal: the smallest positive number that has all digits.
        dtype: the dtype of these numbers.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        limits = np.finfo(dtype)
        self.bits, self.dtype = int(limits.bits), limits.dtype
        self.eps, self.smallest_normal = float(limits.eps), float(limits.smallest_normal)
        self.max, self.min = float(limits.max), float(limits.min)

    def __repr__(self) -> str:
        return f"FloatInfo({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


def finfo(type: Any, /) -> FloatInfo:
    """Machine limits of a floating dtype, or of an array of one: `bits`, `eps`, `max`, `min`, `smallest_normal`."""
    return FloatInfo(as_dtype(getattr(type, "dtype", type)))


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Machine limits of an integer dtype, or of an array of one: `bits`, `max`, `min`."""
    return np.iinfo(as_dtype(getattr(type, "dtype", type)))


def can_cast(from_: Any, to: Any, /) -> bool:
    """True if promotion alone may turn `from_` (a dtype or an array) into the dtype `to`."""
    return np.can_cast(getattr(from_, "dtype", from_), to)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that an op over these arrays, dtypes and Python scalars computes in."""
    known = [as_dtype(getattr(v, "dtype", v)) for v in arrays_and_dtypes if not is_weak(v)]
    weak = [v for v in arrays_and_dtypes if is_weak(v)]
    if not known and not weak:
        raise ValueError("result_type: expected at least one array, dtype or Python scalar, got none")
    return promote(known, weak)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, computed in 32 bits if it is given 16-bit floats, arrays or Tensors; its result has 16 bits again.

    For functions whose squares and sums exceed 16 bits where their inputs do not (float16 ends at 65504).
    """

    @functools.wraps(function)
    def in_32_bits(*values: Any, **params: Any) -> Any:
        if float16 not in [getattr(value, "dtype", None) for value in values]:
            return function(*values, **params)
        wide = [v.astype(float32) if getattr(v, "dtype", None) is float16 else v for v in values]
        found = function(*wide, **params)
        if not isinstance(found, tuple):
            return found.astype(float16)
        return (found[0] if found[0] is None else found[0].astype(float16), *found[1:])  # of a fast pair

    return in_32_bits


def has_floats(values: Sequence[Any]) -> bool:
    """True if a value is float or complex: a fast pair takes no others, while formulas convert what they need."""
    kinds = {getattr(getattr(x, "dtype", None), "kind", "") for x in values}
    return "f" in kinds or "c" in kinds or any(isinstance(x, (float, complex)) for x in values)


def common(values: list[Any], floating: bool) -> np.dtype[Any]:
    """The dtype of an op's inputs, arrays and Python scalars; with `floating`, integers become the default float."""
    known = [value.dtype for value in values if hasattr(value, "dtype")]
    dtype = promote(known, [value for value in values if not hasattr(value, "dtype")])
    return _default if floating and dtype.kind in "biu" else dtype


def is_weak(value: Any) -> bool:
    """True if a value takes the dtype of the arrays it meets: Python scalars do, and so does `np.float64`."""
    return isinstance(value, (int, float, complex)) and (not isinstance(value, np.generic) or isinstance(value, float))


def promote(known: list[np.dtype[Any]], weak: list[Any]) -> np.dtype[Any]:
    """The common dtype of arrays (`known`) and Python scalars (`weak`)."""
    inexact = [d for d in known if d.kind in "fc"]
    if inexact:
        result = np.result_type(*inexact)
    elif known:
        result = np.result_type(*known)
    else:
        result = bool_
    for value in weak:
        if isinstance(value, complex):
            if result.kind != "c":
                result = np.result_type(result, complex64) if result.kind == "f" else default_complex()
        elif isinstance(value, float):
            if result.kind not in "fc":
                result = _default
        elif not isinstance(value, bool) and result.kind == "b":
            result = int64
    return result
