"""The similarity of vectors in direction, their distance, and scaling them to length 1."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import fusible

from .checks import beside, check_dim
from .precision import raised


@raised
@fusible
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (max(|x1|, eps) max(|x2|, eps)): the cosine of the angle between them, 0 if one is 0.

    Args:
        x1, x2: vectors along `dim`; they broadcast against each other.
        dim: an axis of the broadcast shape; the result lacks it.
        eps: the least divisor.

    Raises TypeError for integers, ValueError for shapes that do not broadcast, IndexError for a `dim` out of range.
    """
    x1 = x1 if isinstance(x1, Tensor) else tt.asarray(x1)
    x2 = beside(x2, x1)
    if x1.dtype.kind != "f" or x2.dtype.kind != "f":
        raise TypeError(f"cosine_similarity: expected floats, got {x1.dtype} and {x2.dtype}; write x.float()")
    dtype = tt.result_type(x1, x2)
    if dtype == tt.float16:  # where eps is 0
        x1, x2 = tt.astype(x1, tt.float32), tt.astype(x2, tt.float32)
    x1, x2 = tt.broadcast_arrays(x1, x2)
    axis = check_dim("cosine_similarity", x1, dim)
    unit1, unit2 = (x / tt.maximum(tt.linalg.vector_norm(x, axis=axis, keepdims=True), eps) for x in (x1, x2))
    return tt.astype(tt.sum(unit1 * unit2, axis=axis), dtype, copy=False)


@raised
@fusible
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """|x1 - x2 + eps|, the p-norm along the last axis; x1 and x2 broadcast against each other.

    Args:
        eps: keeps the distance of a vector from itself, and so the gradient, away from 0.
        keepdim: whether to keep the last axis, with length 1.
    """
    x1 = x1 if isinstance(x1, Tensor) else tt.asarray(x1)
    return tt.linalg.vector_norm(x1 - beside(x2, x1) + eps, axis=-1, keepdims=keepdim, ord=p)


@raised
@fusible
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|, eps): scale vectors along `dim` to length 1 in the p-norm; a vector of zeros stays.

    Raises IndexError for a `dim` out of range.
    """
    x = input if isinstance(input, Tensor) else tt.asarray(input)
    axis = check_dim("normalize", x, dim)
    return x / tt.maximum(tt.linalg.vector_norm(x, axis=axis, keepdims=True, ord=p), eps)
