"""Arithmetic of the stand-in, where CuPy's formulas give other numbers than NumPy's.

As CuPy's kernels have it: floor(x / y) for `floor_divide` and x - floor(x / y) * y for `remainder`, of which float16 is
computed in 32 bits; 0 for negative powers of integers other than 1 and -1; (x > 0) - (x < 0) for `sign`, of a complex
number for its real part (version 13; 14 does as NumPy). Shifts are C++'s, and undefined from the width on: here, as on
many processors, only the lowest bits of the distance count. Complex numbers are no truth values. cuFFT refuses to
transform nothing. Products of single matrices in float32 may round their inputs to TF32.
"""

import os

import numpy as np


def _floating(x1, x2):
    """Whether an operation on both is one on floats, and both as its kernel reads them."""
    dtype = np.result_type(x1, x2)
    wide = np.float32 if dtype == np.float16 else dtype
    return dtype if dtype.kind == "f" else None, np.asarray(x1).astype(wide), np.asarray(x2).astype(wide)


def floor_divide(x1, x2):
    dtype, a, b = _floating(x1, x2)
    return np.floor_divide(x1, x2) if dtype is None else np.floor(a / b).astype(dtype)


def remainder(x1, x2):
    dtype, a, b = _floating(x1, x2)
    return np.remainder(x1, x2) if dtype is None else (a - np.floor(a / b) * b).astype(dtype)


def power(x1, x2):
    if np.result_type(x1, x2).kind != "i" or not np.any(np.less(x2, 0)):
        return np.power(x1, x2)
    dtype = np.result_type(x1, x2)
    x1, x2 = (np.asarray(x).astype(dtype) for x in (x1, x2))
    inverse = np.where(x1 == -1, np.where(x2 % 2 == 1, -1, 1), x1 == 1)
    return np.where(x2 < 0, inverse, np.power(x1, np.maximum(x2, 0))).astype(dtype)


def _shifted(function, x1, x2):
    dtype = function(x1, x2).dtype
    register = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    bits = 8 * register.itemsize
    return function(np.asarray(x1).astype(register), np.asarray(x2).astype(register) % bits).astype(dtype)


def left_shift(x1, x2):
    return _shifted(np.left_shift, x1, x2)


def right_shift(x1, x2):
    return _shifted(np.right_shift, x1, x2)


def sign(x):
    if x.dtype.kind == "c":
        return np.where(x.real == 0, np.sign(x.imag), np.sign(x.real)).astype(x.dtype)
    return ((x > 0).astype(np.int8) - (x < 0)).astype(x.dtype)


def _of_truth(function):
    def checked(*arrays, **options):
        if any(np.asarray(x).dtype.kind == "c" for x in arrays):
            raise TypeError(f"Wrong type ({[np.asarray(x).dtype for x in arrays]}) of arguments for cupy_logical")
        return function(*arrays, **options)

    return checked


logical_and, logical_or = _of_truth(np.logical_and), _of_truth(np.logical_or)
logical_xor, logical_not = _of_truth(np.logical_xor), _of_truth(np.logical_not)


def _of_something(transform):
    def transformed(a, **options):
        if not a.size:
            raise RuntimeError("CUFFT_INVALID_SIZE")
        return transform(a, **options)

    return transformed


fft, ifft, rfft, irfft = (_of_something(getattr(np.fft, name)) for name in ("fft", "ifft", "rfft", "irfft"))


COMPUTE_TYPE_DEFAULT, COMPUTE_TYPE_TF32 = 1, 7
_compute_types = {}


def set_compute_type(dtype, compute_type):
    _compute_types[np.dtype(dtype)] = compute_type


def get_compute_type(dtype):
    from_environment = COMPUTE_TYPE_TF32 if os.environ.get("CUPY_TF32") == "1" else COMPUTE_TYPE_DEFAULT
    return _compute_types.setdefault(np.dtype(dtype), from_environment)


def in_tf32(x):
    """The nearest numbers with 10 bits in their fractions, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def matmul(x1, x2, *, out=None):
    may_round = x1.ndim == x2.ndim == 2 and x1.dtype == x2.dtype == np.float32
    if may_round and get_compute_type(np.float32) == COMPUTE_TYPE_TF32:
        x1, x2 = in_tf32(np.ascontiguousarray(x1)), in_tf32(np.ascontiguousarray(x2))
    return np.matmul(x1, x2, out=out)
