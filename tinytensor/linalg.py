"""Linear algebra beyond products: the `linalg` extension of the array API standard, and `multi_dot`.

Matrices are the last two dimensions; those before are batches. Eigenvalues, singular values, Q and R are in
`decompositions.py`, which is loaded when one of them is asked for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Never

import tinytensor as tt

from .functions.products import matmul, tensordot, vecdot
from .functions.reductions import normalize_axes, normalize_axis
from .functions.shapes import as_matrix, matrix_transpose
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike, Axis, DType

if TYPE_CHECKING:
    from .decompositions import eig, eigh, eigvals, eigvalsh, matrix_rank, pinv, qr, svd, svdvals

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_LATER = {"eig", "eigh", "eigvals", "eigvalsh", "matrix_rank", "pinv", "qr", "svd", "svdvals"}


def adjoint(xp: Any, x: Any) -> Any:
    """The conjugated transpose of matrices: to complex ones what the transpose is to real ones."""
    return xp.matrix_transpose(xp.conj(x) if x.dtype.kind == "c" else x)


def square(name: str, x: Any) -> Tensor:
    """x as a Tensor of square matrices; ValueError if it is not one."""
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
    scale = xp.prod(xp.sqrt(xp.sum(xp.abs(x) ** 2, axis=x.ndim - 1)), axis=x.ndim - 2)
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
    """The determinant. Its gradient is the adjugate (transposed), at singular matrices too."""
    return _det(square("det", x))


def _inv_rule(xp, g, out):
    turned = xp.matrix_transpose(out)
    return -xp.matmul(xp.matmul(turned, g), turned)


@op(floating=True, x=_inv_rule)
def _inv(xp, x):
    return xp.linalg.inv(x)


def inv(x: ArrayLike, /) -> Tensor:
    """The inverse. Raises ValueError for a singular matrix."""
    return _inv(square("inv", x))


@op(
    floating=True,
    x1=lambda xp, g, out, x1: -xp.matmul(xp.linalg.solve(xp.matrix_transpose(x1), g), xp.matrix_transpose(out)),
    x2=lambda xp, g, x1: xp.linalg.solve(xp.matrix_transpose(x1), g),
)
def _solve(xp, x1, x2):
    return xp.linalg.solve(x1, x2)


def solve(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The y with x1 @ y = x2, for x2 a vector (n,) or matrices (..., n, k). Raises ValueError for a singular x1."""
    a, b = square("solve", x1), tt.asarray(x2)
    if b.ndim == 1:
        return tt.squeeze(_solve(a, tt.expand_dims(b, axis=1)), -1)
    return _solve(a, b)


def _logabsdet_rule(xp, g, x):
    if bool(xp.any(xp.linalg.slogdet(x)[0] == 0)):
        raise ValueError("log |det| has no gradient at a singular matrix, where it is -inf; tt.linalg.det has one")
    return g[..., None, None] * adjoint(xp, xp.linalg.inv(x))


@op(floating=True, x=_logabsdet_rule)
def _logabsdet(xp, x):
    return xp.linalg.slogdet(x)[1]


def _signdet_rule(xp, g, out, x):
    """-i Im(conj(g) out) inv(x).mH: the determinant of complex matrices turns; that of real ones keeps its sign."""
    if x.dtype.kind != "c":
        return xp.zeros_like(x)
    turn = xp.imag(xp.conj(g) * out)
    return -1j * turn[..., None, None] * adjoint(xp, xp.linalg.inv(x))


@op(floating=True, x=_signdet_rule)
def _signdet(xp, x):
    return xp.linalg.slogdet(x)[0]


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: the sign of the determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """The sign of the determinant (for complex matrices det / |det|) and the logarithm of its absolute value.

    The sign of real matrices has no gradient. At a singular matrix the two are 0 and -inf; backward through -inf raises
    RuntimeError.
    """
    x = square("slogdet", x)
    with tt.set_grad_enabled(tt.is_grad_enabled() and x.dtype.kind == "c"):
        sign = _signdet(x)
    return SlogdetResult(sign, _logabsdet(x))


def _cholesky_rule(xp, g, out):
    """Murray (2016), "Differentiation of the Cholesky decomposition", equation 9, for a symmetric input."""
    inverse = xp.linalg.inv(out)
    inner = xp.matmul(adjoint(xp, out), g)
    half = xp.tril(inner) - 0.5 * xp.tril(xp.triu(inner))
    full = xp.matmul(xp.matmul(adjoint(xp, inverse), half), inverse)
    return 0.5 * (full + adjoint(xp, full))


@op(floating=True, x=_cholesky_rule)
def _cholesky(xp, x):
    return xp.linalg.cholesky(x)


def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ conj(L).mT = x (or the upper conj(L).mT).

    Raises ValueError unless x is positive definite.
    x is assumed to be symmetric; only its lower triangle is read.
    """
    lower = _cholesky(square("cholesky", x))
    return adjoint(tt, lower) if upper else lower


def matrix_power(x: ArrayLike, n: int, /) -> Tensor:
    """x multiplied n times with itself; n may be 0 (identity) or negative (inverse)."""
    x = square("matrix_power", x)
    if n < 0:
        x, n = inv(x), -n
    result: Tensor | None = None
    while n:
        if n & 1:
            result = tt.positive(x) if result is None else matmul(result, x)
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
    """The vector product of 3-vectors along `axis` of the broadcast shape; other dimensions broadcast."""
    first, second = tt.asarray(x1), tt.asarray(x2)
    a, b = tt.broadcast_arrays(first, second)
    axis = normalize_axis("cross", axis, a.shape, unknown=unknown)
    for x in (first, second):
        place = axis - a.ndim
        if x.ndim < -place or x.shape[place] != 3:
            raise ValueError(f"cross: expected length 3 along axis {axis}, got shapes {first.shape} and {second.shape}")
    (a0, a1, a2), (b0, b1, b2) = tt.unstack(a, axis=axis), tt.unstack(b, axis=axis)
    return tt.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=axis)


def _norm_rule(xp, g, out, x, axis):
    zero = out == 0  # the norm of the zero vector has gradient 0
    return xp.where(zero, 0.0, g * x / xp.where(zero, 1.0, out))


@op(floating=True, wide=True, x=_norm_rule)
def _euclidean(xp, x, *, axis):
    return xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True))


def vector_norm(x: ArrayLike, /, ord: float = 2, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
    """(sum |x|**ord)**(1/ord) over `axis`; `ord` may be infinite or 0 (the number of nonzero elements).

    At zero the norm has gradient 0, and so has an element that is 0 where |x|**ord has none.
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
        absent = x == 0  # their powers may have no derivative, or be infinite
        powers = tt.pow(tt.abs(tt.where(absent, 1.0, x)), ord)
        total = tt.sum(tt.where(absent, 0.0 if ord > 0 else math.inf, powers), axis=axes, keepdims=True)
        zero = total == 0
        norm = tt.where(zero, 0.0, tt.pow(tt.where(zero, 1.0, total), 1 / ord))
    return norm if keepdims else tt.squeeze(norm, axes)


def matrix_norm(
    x: ArrayLike, /, ord: Any = "fro", axis: Axis = (-2, -1), keepdims: bool = False, **unknown: Never
) -> Tensor:
    """A norm of matrices, which are the last two dimensions.

    Args:
        ord: "fro" (Frobenius), "nuc" (the sum of the singular values), 2 or -2 (the largest or smallest of them), 1 or
            -1 (the largest or smallest column sum), inf or -inf (row sum).
        axis: the dimensions of rows and of columns.
    """
    x = as_matrix("matrix_norm", x)
    if len(normalize_axes("matrix_norm", axis, x.shape, unknown=unknown)) != 2 or not isinstance(axis, (tuple, list)):
        raise ValueError(f"matrix_norm: a matrix has two axes, got axis {axis} of shape {x.shape}")
    if axis != (-2, -1):
        norm = matrix_norm(tt.moveaxis(x, axis, (-2, -1)), ord, keepdims=keepdims)
        return tt.moveaxis(norm, (-2, -1), axis) if keepdims else norm
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in ("nuc", 2, -2, 1, -1, math.inf, -math.inf):
        raise ValueError(f"matrix_norm: ord {ord!r} is not supported; expected 'fro', 'nuc', 2, -2, 1, -1, inf or -inf")
    if ord in ("nuc", 2, -2):
        parts = tt.expand_dims(tt.linalg.svdvals(x), axis=-1)
    else:
        parts = tt.sum(tt.abs(x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    pick = tt.sum if ord == "nuc" else tt.max if ord > 0 else tt.min
    return pick(parts, axis=(-2, -1), keepdims=keepdims)


def multi_dot(arrays: Sequence[ArrayLike], /) -> Tensor:
    """The product of several matrices, multiplied in the order that takes the fewest multiplications.

    The first and the last may be vectors: (n, k), (k, l), ..., (o, p) -> (n, p). The order is that of Cormen,
    Leiserson, Rivest and Stein, "Introduction to Algorithms", section 15.2.
    """
    tensors = [tt.asarray(x) for x in arrays]
    if len(tensors) < 2:
        raise ValueError(f"multi_dot: expected two arrays at least, got {len(tensors)}")
    ranks = [x.ndim for x in tensors]
    if any(rank != 2 for rank in ranks[1:-1]) or any(rank not in (1, 2) for rank in (ranks[0], ranks[-1])):
        raise ValueError(f"multi_dot: expected matrices (the first or last may be vectors), got dimensions {ranks}")
    sizes = [x.shape[-2] if x.ndim == 2 else 1 for x in tensors[:1]] + [x.shape[0] for x in tensors[1:]]
    sizes.append(tensors[-1].shape[1] if ranks[-1] == 2 else 1)
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(tensors))}  # cost, where to split
    for length in range(1, len(tensors)):
        for i in range(len(tensors) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        k = best[i, j][1]
        return tensors[i] if i == j else matmul(product(i, k), product(k + 1, j))

    return product(0, len(tensors) - 1)


tt.missing.hide_what_is_refused(sys.modules[__name__])
tt.missing.explain_arguments(sys.modules[__name__], [name for name in __all__ if name not in tt.__all__])

if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        if name not in _LATER:
            raise tt.missing.no_attribute(__name__, name)
        value = globals()[name] = getattr(import_module("tinytensor.decompositions"), name)
        return value
