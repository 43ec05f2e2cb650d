"""Matrices made of vectors and of other matrices, under the names that NumPy and PyTorch share.

Loaded when first asked for. `tt.linalg` has the functions of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Never

import tinytensor as tt

from ..tensor import Tensor
from ..typing import ArrayLike
from .products import tensordot


def diag(x: ArrayLike, /, k: int = 0, **unknown: Never) -> Tensor:
    """A matrix with a vector on its k-th diagonal; for a matrix, its k-th diagonal.

    Shapes: (n,) -> (n + |k|, n + |k|); (n, m) -> (min(n, m),) for k = 0.
    """
    x = tt.asarray(x)
    if unknown:
        raise tt.hints.unknown_keyword("diag", unknown)
    if x.ndim == 2:
        return tt.linalg.diagonal(x, offset=k)
    if x.ndim != 1:
        raise ValueError(f"diag: expected a vector or a matrix, got shape {x.shape}")
    places, n = tt.arange(x.size, device=x.device), x.size + abs(k)
    return tt.scatter(x, (places + max(-k, 0), places + max(k, 0)), (n, n))


def kron(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The Kronecker product: each element of x1 times the whole of x2, as blocks.

    Shapes: (n, m), (k, l) -> (n k, m l), and likewise for any number of dimensions; missing ones have length 1.
    """
    a, b = tt.asarray(x1), tt.asarray(x2)
    ndim = max(a.ndim, b.ndim)
    first, second = ((1,) * (ndim - x.ndim) + x.shape for x in (a, b))
    a = tt.reshape(a, tuple(n for length in first for n in (length, 1)))
    b = tt.reshape(b, tuple(n for length in second for n in (1, length)))
    return tt.reshape(a * b, tuple(n * m for n, m in zip(first, second)))


def inner(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The products summed over the last dimension of both: (..., n), (***, n) -> (..., ***)."""
    a, b = tt.asarray(x1), tt.asarray(x2)
    return a * b if not a.ndim or not b.ndim else tensordot(a, b, axes=((-1,), (-1,)))


def hstack(arrays: Iterable[ArrayLike], /) -> Tensor:
    """The arrays side by side: joined along the second dimension, vectors and numbers along the first."""
    tensors = [tt.reshape(x, (1,)) if x.ndim == 0 else x for x in map(tt.asarray, arrays)]
    return tt.concat(tensors, axis=1 if tensors and tensors[0].ndim > 1 else 0)


def vstack(arrays: Iterable[ArrayLike], /) -> Tensor:
    """The arrays below each other: joined along the first dimension, vectors and numbers as rows."""
    return tt.concat([tt.reshape(x, (1, -1)) if x.ndim < 2 else x for x in map(tt.asarray, arrays)], axis=0)
