"""Products of vectors, matrices and higher arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

import tinytensor as tt

from .. import dtypes
from ..primitive import op
from ..tensor import Tensor
from ..typing import ArrayLike
from .reductions import normalize_axes, normalize_axis


@op(
    x1=lambda xp, g, x2: xp.matmul(g, xp.matrix_transpose(x2)),
    x2=lambda xp, g, x1: xp.matmul(xp.matrix_transpose(x1), g),
)
def _matmul(xp, x1, x2):
    return xp.matmul(x1, x2)


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The matrix product over the last two dimensions; further ones broadcast.

    A one-dimensional x1 is a row, a one-dimensional x2 a column, and the result lacks that dimension.

    Shapes: (..., n, k) @ (..., k, m) -> (..., n, m). Raises ValueError, with both shapes, where the k differ.
    """
    a = x1 if isinstance(x1, Tensor) else tt.asarray(x1)
    b = x2 if isinstance(x2, Tensor) else tt.asarray(x2)
    rank1, rank2 = a._data.ndim, b._data.ndim
    if rank1 > 1 and rank2 > 1:
        return _matmul(a, b)
    if not rank1 or not rank2:
        raise ValueError(f"matmul: expected at least 1 dimension each, got shapes {a.shape} and {b.shape}")
    if rank1 == 1:
        a = tt.expand_dims(a, axis=0)
    if rank2 == 1:
        b = tt.expand_dims(b, axis=1)
    gone = ((-2,) if rank1 == 1 else ()) + ((-1,) if rank2 == 1 else ())
    return tt.squeeze(_matmul(a, b), gone)


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[int | Sequence[int]] = 2, **unknown: Never
) -> Tensor:
    """The product summed over pairs of axes: the last `axes` of x1 with the first of x2, or two lists of axes."""
    if unknown:
        raise tt.hints.unknown_keyword("tensordot", unknown)
    a, b = tt.asarray(x1), tt.asarray(x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: axes={axes} with shapes {a.shape} and {b.shape}")
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        axes1, axes2 = ((i,) if isinstance(i, int) else tuple(i) for i in axes)
        normalize_axes("tensordot", axes1, a.shape, "axes")
        normalize_axes("tensordot", axes2, b.shape, "axes")
        first, second = [i % a.ndim for i in axes1], [i % b.ndim for i in axes2]
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError(f"tensordot: axes {first} of {a.shape} and {second} of {b.shape} differ in length")
    rest1 = [i for i in range(a.ndim) if i not in first]
    rest2 = [i for i in range(b.ndim) if i not in second]
    shape = [a.shape[i] for i in rest1] + [b.shape[i] for i in rest2]
    inner = 1
    for i in first:
        inner *= a.shape[i]
    outer = [1, 1]
    for side, (array, rest) in enumerate(((a, rest1), (b, rest2))):
        for i in rest:
            outer[side] *= array.shape[i]
    left = tt.reshape(tt.permute_dims(a, rest1 + first), (outer[0], inner))
    right = tt.reshape(tt.permute_dims(b, second + rest2), (inner, outer[1]))
    return tt.reshape(matmul(left, right), shape)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, **unknown: Never) -> Tensor:
    """The dot product of vectors along `axis`; further dimensions broadcast (complex x1 is conjugated).

    float32 is as accurate as `sum`, and float16 is multiplied and added up in float32.
    """
    a, b = tt.asarray(x1), tt.asarray(x2)
    # As in the standard, it counts from the end, in both; a positive axis counts in the broadcast shape.
    longer = max(a.shape, b.shape, key=len)
    axis = normalize_axis("vecdot", axis, longer, unknown=unknown) - len(longer)
    if min(a.ndim, b.ndim) < -axis or a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: shapes {a.shape} and {b.shape} differ along axis {axis}")
    if a.dtype == b.dtype == dtypes.float16:
        wide = vecdot(tt.astype(a, dtypes.float32), tt.astype(b, dtypes.float32), axis=axis)
        return tt.astype(wide, dtypes.float16)
    left = tt.conj(a) if a.dtype.kind == "c" else a
    product = left * b
    return tt.sum(product, axis=axis, dtype=product.dtype)
