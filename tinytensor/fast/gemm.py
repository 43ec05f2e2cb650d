"""Matrix products inside compiled loops: the BLAS that SciPy offers to Cython, called by its address."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (loads the library that the addresses lie in)
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from .loops import loop

ADDRESSES = {
    np.dtype(dtype): get_cython_function_address("scipy.linalg.cython_blas", name)
    for dtype, name in (("float32", "sgemm"), ("float64", "dgemm"))
}
"""Where the product for a dtype lies: an argument of the loops, since no address may be kept on disk with them."""

AS_IS, TRANSPOSED = ord("N"), ord("T")


@loop
def multiply(gemm, a, turn_a, b, turn_b, keep, out):
    """out = a b + keep * out, with a and b transposed first where they are to be turned.

    Matrices whose rows may lie apart, but not the elements of a row. BLAS thinks in columns, so it is told that
    outᵀ = bᵀ aᵀ.
    """
    inner = a.shape[0] if turn_a else a.shape[1]
    _gemm(  # type: ignore[call-arg]
        gemm,
        TRANSPOSED if turn_b else AS_IS,
        TRANSPOSED if turn_a else AS_IS,
        out.shape[1],
        out.shape[0],
        inner,
        b.ctypes.data,
        _apart(b),
        a.ctypes.data,
        _apart(a),
        out.dtype.type(keep),
        out.ctypes.data,
        _apart(out),
    )


@loop
def _apart(matrix):
    """From one row to the next, in elements."""
    return max(matrix.strides[0] // matrix.itemsize, matrix.shape[1])


@intrinsic
def _gemm(typing: Any, gemm: Any, turn_a: Any, turn_b: Any, m: Any, n: Any, k: Any, a: Any, lda: Any, b: Any, ldb: Any,
          beta: Any, c: Any, ldc: Any) -> Any:  # fmt: skip
    """The call of sgemm or dgemm, which takes pointers to everything, with alpha = 1."""
    whole = types.int64
    signature = types.void(
        whole, whole, whole, whole, whole, whole, types.intp, whole, types.intp, whole, beta, types.intp, whole
    )

    def write_call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, turn_a, turn_b, m, n, k, a, lda, b, ldb, beta, c, ldc = values
        real = beta.type

        def stored(value: Any, bits: int | None = None) -> Any:
            value = value if bits is None else builder.trunc(value, ir.IntType(bits))
            place = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            return place

        def pointer(value: Any) -> Any:
            return builder.inttoptr(value, real.as_pointer())

        arguments = [
            stored(turn_a, 8), stored(turn_b, 8), stored(m, 32), stored(n, 32), stored(k, 32), stored(real(1.0)),
            pointer(a), stored(lda, 32), pointer(b), stored(ldb, 32), stored(beta), pointer(c), stored(ldc, 32),
        ]  # fmt: skip
        function = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        builder.call(builder.inttoptr(address, function.as_pointer()), arguments)
        return context.get_dummy_value()

    return signature, write_call
