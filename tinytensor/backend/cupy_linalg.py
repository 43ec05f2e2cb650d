"""`xp.linalg` on a GPU: `cupy.linalg`, which says nothing about singular input unless it is asked to.

It would give infinities, NaN or any numbers where NumPy raises. Also, its `solve` does not broadcast batches; it hands
empty matrices on to cuSOLVER, which refuses them, and has `eig` from version 14 on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import cupyx
import numpy as np

det, slogdet = cupy.linalg.det, cupy.linalg.slogdet


def inv(x: Any) -> Any:
    return _heard("Singular matrix", cupy.linalg.inv, x)


def cholesky(x: Any) -> Any:
    return _heard("Matrix is not positive definite", cupy.linalg.cholesky, x)


def solve(x1: Any, x2: Any) -> Any:
    """The y with x1 @ y = x2, for matrices: (..., n, n), (..., n, k)."""
    if x1.shape[-1] != x2.shape[-2]:
        raise ValueError(f"expected as many rows on the right, {x1.shape[-1]}, as on the left")
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1, x2 = (cupy.broadcast_to(x, batch + x.shape[-2:]) for x in (x1, x2))
    return _heard("Singular matrix", cupy.linalg.solve, x1, x2)


def eigh(x: Any) -> Any:
    return _parts(cupy.linalg.eigh, np.linalg.eigh, x)


def eig(x: Any) -> Any:
    if not hasattr(cupy.linalg, "eig"):
        raise NotImplementedError("this version of CuPy has no eig; version 14 has. Move the matrix with x.cpu()")
    return _parts(cupy.linalg.eig, np.linalg.eig, x)


def svd(x: Any, full_matrices: bool = True) -> Any:
    return _parts(cupy.linalg.svd, np.linalg.svd, x, full_matrices=full_matrices)


def qr(x: Any, mode: str = "reduced") -> Any:
    return _parts(cupy.linalg.qr, np.linalg.qr, x, mode=mode)


def _parts(function: Callable[..., Any], of_nothing: Callable[..., Any], x: Any, **options: Any) -> Any:
    """The result of a decomposition; for empty matrices NumPy's, since only the shapes matter."""
    if x.size:
        return function(x, **options)
    return [cupy.asarray(part) for part in of_nothing(np.empty(x.shape, x.dtype), **options)]


def _heard(complaint: str, function: Callable[..., Any], *matrices: Any) -> Any:
    """The result of a function, in its last argument's shape; LinAlgError if cuSOLVER or cuBLAS complains."""
    if not matrices[-1].size:
        return cupy.array(matrices[-1])
    try:
        with cupyx.errstate(linalg="raise"):
            return function(*matrices)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(complaint) from None
