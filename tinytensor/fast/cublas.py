"""Matrix products by cuBLAS while a graph is recorded, when CuPy refuses to call it (`graphs.py`).

The library is the one that CuPy has loaded, its functions the same, with the same arguments, so the numbers are the
same bits. Both ways ask CuPy if products in float32 round their inputs to TF32.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import cupy
import numpy as np

from ..machine.speed import get_float32_matmul_precision

ROWS, COLUMNS = 0, 1  # CUBLAS_OP_N and CUBLAS_OP_T, of matrices whose columns lie one after another
DEFAULT, DEFAULT_TENSOR = -1, 99  # algorithms
TYPES = {  # cudaDataType, cublasComputeType and the C type of the factors
    np.dtype("float16"): (2, 68, ctypes.c_float),
    np.dtype("float32"): (0, 68, ctypes.c_float),
    np.dtype("float64"): (1, 70, ctypes.c_double),
}
FAST_TF32 = 77  # in place of 68, for single matrices in float32 where CuPy rounds their inputs

_pointer, _int, _long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_sizes: Any = [_int] * 5
_matrix: Any = [_pointer, _int, _int]  # address, type, elements from column to column


@functools.cache
def library() -> Any:
    """cuBLAS, or None where it is not found behind CuPy."""
    try:
        from cupy_backends.cuda.libs import cublas

        found = ctypes.CDLL(cublas.__file__)  # its names are searched for in what it is linked with, too
        found.cublasGemmEx.argtypes = [
            _pointer, *_sizes, _pointer, *_matrix, *_matrix, _pointer, *_matrix, _int, _int,
        ]  # fmt: skip
        found.cublasGemmStridedBatchedEx.argtypes = [
            _pointer, *_sizes, _pointer, *_matrix, _long, *_matrix, _long, _pointer, *_matrix, _long, _int, _int, _int,
        ]  # fmt: skip
        found.cublasSetStream_v2.argtypes = [_pointer, _pointer]
    except (ImportError, OSError, AttributeError):
        return None
    return found


def fits(a: Any, b: Any) -> bool:
    """True if `matmul` takes these arrays."""
    same = a.dtype == b.dtype and a.dtype in TYPES
    return same and a.ndim >= 2 and b.ndim >= 2 and a.size > 0 and b.size > 0 and library() is not None


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """`cupy.matmul` of arrays (..., m, k) and (..., k, n) that `fits`."""
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if len(shape) > 2:
        a, b = (cupy.ascontiguousarray(cupy.broadcast_to(x, shape[:-2] + x.shape[-2:])) for x in (a, b))
    is_ready = out is not None and out.flags.c_contiguous and out.dtype == a.dtype and out.shape == shape
    c = out if is_ready else cupy.empty(shape, dtype=a.dtype)
    (a, how_a, step_a), (b, how_b, step_b) = _as_it_lies(a), _as_it_lies(b)

    kind, compute, factor = TYPES[a.dtype]
    one, zero = factor(1), factor(0)
    handle = cupy.cuda.device.get_cublas_handle()
    _check("cublasSetStream", library().cublasSetStream_v2(handle, cupy.cuda.get_current_stream().ptr))
    # To cuBLAS, a row is a column: it computes the transpose of c, which is that of b times that of a.
    sizes = handle, how_b, how_a, n, m, k, ctypes.addressof(one)
    if len(shape) == 2 and a.dtype == np.float32 and _multiplies_in_tf32():
        compute = FAST_TF32
    how = compute, DEFAULT_TENSOR if len(shape) == 2 and _has_tensor_cores() else DEFAULT
    left, right, result = (b.data.ptr, kind, step_b), (a.data.ptr, kind, step_a), (c.data.ptr, kind, n)
    if len(shape) == 2:
        code = library().cublasGemmEx(*sizes, *left, *right, ctypes.addressof(zero), *result, *how)
    else:
        pairs = math.prod(shape[:-2])
        steps = k * n, m * k, m * n
        batched = (*left, steps[0], *right, steps[1], ctypes.addressof(zero), *result, steps[2], pairs)
        code = library().cublasGemmStridedBatchedEx(*sizes, *batched, *how)
    _check("cublasGemm", code)
    if out is None or c is out:
        return c
    out[...] = c
    return out


def multiply_in_tf32(on: bool) -> None:
    """Let CuPy round the inputs of products in float32 to TF32, or not; it warns where the GPU cannot."""
    types = cupy._core._routines_linalg
    cupy._core.set_compute_type(np.float32, types.COMPUTE_TYPE_TF32 if on else types.COMPUTE_TYPE_DEFAULT)


def _multiplies_in_tf32() -> bool:
    return cupy._core.get_compute_type(np.float32) == cupy._core._routines_linalg.COMPUTE_TYPE_TF32


if get_float32_matmul_precision() != "highest":
    multiply_in_tf32(True)


def _as_it_lies(x: Any) -> tuple[Any, int, int]:
    """The array, or a copy of it, with how cuBLAS sees its matrices and how many elements lie from row to row."""
    (rows, columns), (row, column) = x.shape[-2:], (step // x.itemsize for step in x.strides[-2:])
    if column == 1 and row >= max(columns, 1):
        return x, ROWS, row
    if row == 1 and column >= max(rows, 1) and x.ndim == 2:
        return x, COLUMNS, column
    return cupy.ascontiguousarray(x), ROWS, columns


@functools.cache
def _has_tensor_cores() -> bool:
    return int(cupy.cuda.device.get_compute_capability()) >= 80


def _check(name: str, code: int) -> None:
    if code:
        raise RuntimeError(f"{name} failed with status {code}")
