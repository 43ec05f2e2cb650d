"""Linear algebra beyond products: the `linalg` extension of the array API standard, as far as it goes here.

Matrices are the last two dimensions; those before are batches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Never

import tinytensor as tt

from .functions.products import matmul, tensordot, vecdot
from .functions.reductions import normalize_axes, normalize_axis
from .functions.shapes import as_matrix, matrix_transpose
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike, Axis, DType

__all__ = [
    "cholesky", "cross", "det", "diagonal", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer",
    "slogdet", "solve", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def _square(name: str, x: Any) -> Tensor:
    x = tt.asarray(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name}: expected square matrices (..., n, n), got shape {x.shape}")
    return x


def _cofactors(xp, x):
    """The matrix of cofactors: minor determinants with alternating signs, defined for singular matrices as well."""
    n = x.shape[-1]
    if n < 2:
        return xp.ones_like(x)
    rows = []
    for i in range(n):
        without_row = xp.concat([x[..., :i, :], x[..., i + 1 :, :]], axis=x.ndim - 2)
        row = [
            (-1) ** (i + j)
            * xp.linalg.det(xp.concat([without_row[..., :j], without_row[..., j + 1 :]], axis=x.ndim - 1))
            for j in range(n)
        ]
        rows.append(xp.stack(row, axis=x.ndim - 2))
    return xp.stack(rows, axis=x.ndim - 2)


def _det_rule(xp, g, out, x):
    """Jacobi: the gradient of det is the matrix of cofactors, which is det(x) times inv(x).mT if x is regular."""
    scale = xp.prod(xp.sqrt(xp.sum(x * x, axis=x.ndim - 1)), axis=x.ndim - 2)
    regular = bool(xp.all(xp.abs(out) > 1e-6 * scale))
    if regular and x.shape[-1] > 3:
        factors = out[..., None, None] * xp.matrix_transpose(xp.linalg.inv(x))
    else:
        factors = _cofactors(xp, x)
    return g[..., None, None] * factors


@op(floating=True, x=_det_rule)
def _det(xp, x):
    return xp.linalg.det(x)


def det(x: ArrayLike, /) -> Tensor:
    """The determinant. At a singular matrix its gradient is the adjugate (transposed), as everywhere."""
    return _det(_square("det", x))


def _inv_rule(xp, g, out):
    turned = xp.matrix_transpose(out)
    return -xp.matmul(xp.matmul(turned, g), turned)


@op(floating=True, x=_inv_rule)
def _inv(xp, x):
    return xp.linalg.inv(x)


def inv(x: ArrayLike, /) -> Tensor:
    """The inverse. Raises ValueError for a singular matrix."""
    return _inv(_square("inv", x))


@op(
    floating=True,
    x1=lambda xp, g, out, x1: -xp.matmul(xp.linalg.solve(xp.matrix_transpose(x1), g), xp.matrix_transpose(out)),
    x2=lambda xp, g, x1: xp.linalg.solve(xp.matrix_transpose(x1), g),
)
def _solve(xp, x1, x2):
    return xp.linalg.solve(x1, x2)


def solve(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The y with x1 @ y = x2, for x2 a vector (n,) or matrices (..., n, k). Raises ValueError for a singular x1."""
    a, b = _square("solve", x1), tt.asarray(x2)
    if b.ndim == 1:
        return tt.squeeze(_solve(a, tt.expand_dims(b, axis=1)), -1)
    return _solve(a, b)


def _logabsdet_rule(xp, g, x):
    if bool(xp.any(xp.linalg.slogdet(x)[0] == 0)):
        raise ValueError("log |det| has no gradient at a singular matrix, where it is -inf; tt.linalg.det has one")
    return g[..., None, None] * xp.matrix_transpose(xp.linalg.inv(x))


@op(floating=True, x=_logabsdet_rule)
def _logabsdet(xp, x):
    return xp.linalg.slogdet(x)[1]


@op
def _signdet(xp, x):
    return xp.linalg.slogdet(x)[0]


def slogdet(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The sign of the determinant (no gradient) and the logarithm of its absolute value.

    At a singular matrix these are 0 and -inf; backward through -inf raises RuntimeError.
    """
    x = _square("slogdet", x)
    with tt.no_grad():
        sign = _signdet(x)
    return sign, _logabsdet(x)


def _cholesky_rule(xp, g, out):
    """Murray (2016), "Differentiation of the Cholesky decomposition", equation 9, for a symmetric input."""
    inverse = xp.linalg.inv(out)
    inner = xp.matmul(xp.matrix_transpose(out), g)
    half = xp.tril(inner) - 0.5 * xp.tril(xp.triu(inner))
    full = xp.matmul(xp.matmul(xp.matrix_transpose(inverse), half), inverse)
    return 0.5 * (full + xp.matrix_transpose(full))


@op(floating=True, x=_cholesky_rule)
def _cholesky(xp, x):
    return xp.linalg.cholesky(x)


def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ L.mT = x (or its transpose). Raises ValueError unless x is positive definite.

    Of x, which is taken for symmetric, only the lower triangle is read.
    """
    lower = _cholesky(_square("cholesky", x))
    return matrix_transpose(lower) if upper else lower


def matrix_power(x: ArrayLike, n: int, /) -> Tensor:
    """x multiplied n times with itself; n may be 0 (identity) or negative (inverse)."""
    x = _square("matrix_power", x)
    if n < 0:
        x, n = inv(x), -n
    result: Tensor | None = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    if result is None:
        result = tt.broadcast_to(tt.eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    return result


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Tensor:
    """The diagonal of the last two dimensions, `offset` above the main one (below, if negative)."""
    x = as_matrix("diagonal", x)
    rows, columns = x.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    places = tt.arange(length, device=x.device)
    return x[..., places + max(-offset, 0), places + max(offset, 0)]


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DType = None) -> Tensor:
    """The sum of the diagonal."""
    return tt.sum(diagonal(as_matrix("trace", x), offset=offset), axis=-1, dtype=dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Every product of an element of one vector with one of the other: (n,), (m,) -> (n, m)."""
    a, b = tt.asarray(x1), tt.asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: expected two vectors, got shapes {a.shape} and {b.shape}")
    return tt.expand_dims(a, axis=1) * tt.expand_dims(b, axis=0)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, **unknown: Never) -> Tensor:
    """The vector product of 3-vectors along `axis`."""
    a, b = tt.broadcast_arrays(x1, x2)
    axis = normalize_axis("cross", axis, a.shape, unknown=unknown)
    if a.shape[axis] != 3:
        raise ValueError(f"cross: expected length 3 along axis {axis}, got shape {a.shape}")
    (a0, a1, a2), (b0, b1, b2) = tt.unstack(a, axis=axis), tt.unstack(b, axis=axis)
    return tt.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=axis)


def _norm_rule(xp, g, out, x, axis):
    zero = out == 0  # the norm of the zero vector has gradient 0
    return xp.where(zero, 0.0, g * x / xp.where(zero, 1.0, out))


@op(floating=True, wide=True, x=_norm_rule)
def _euclidean(xp, x, *, axis):
    return xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True))


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2, **unknown: Never
) -> Tensor:
    """(sum |x|**ord)**(1/ord) over `axis`; `ord` may be infinite or 0 (how many are not zero).

    The gradient of the norm of zero is 0, and so is that of an element which is 0, where |x|**ord has none.
    """
    x = tt.asarray(x)
    axes = normalize_axes("vector_norm", axis, x.shape, unknown=unknown)
    if x.dtype.kind == "c":
        x = tt.abs(x)
    if ord == 2:
        norm = _euclidean(x, axis=axes)
    elif ord == math.inf:
        norm = tt.max(tt.abs(x), axis=axes, keepdims=True)
    elif ord == -math.inf:
        norm = tt.min(tt.abs(x), axis=axes, keepdims=True)
    elif ord == 0:  # constant between its steps: gradient 0
        norm = tt.sum(tt.where(tt.isnan(x), 1.0, tt.abs(tt.sign(x))), axis=axes, keepdims=True)
    elif ord == 1:
        norm = tt.sum(tt.abs(x), axis=axes, keepdims=True)
    else:
        absent = x == 0  # whose power may have no derivative, or be infinite itself
        powers = tt.pow(tt.abs(tt.where(absent, 1.0, x)), ord)
        total = tt.sum(tt.where(absent, 0.0 if ord > 0 else math.inf, powers), axis=axes, keepdims=True)
        zero = total == 0
        norm = tt.where(zero, 0.0, tt.pow(tt.where(zero, 1.0, total), 1 / ord))
    return norm if keepdims else tt.squeeze(norm, axes)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of the last two dimensions: "fro" (Frobenius), 1 (largest column sum) or inf (largest row sum)."""
    x = as_matrix("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"matrix_norm: ord {ord!r} is not supported; expected 'fro', 1, -1, inf or -inf")
    sums = tt.sum(tt.abs(x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    pick = tt.max if ord > 0 else tt.min
    return pick(sums, axis=(-2, -1), keepdims=keepdims)


if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
