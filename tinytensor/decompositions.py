"""A matrix as a product of simpler ones, and what follows from them: eigenvalues, singular values, Q and R, inverses.

`tt.linalg` has all of it under the names of the array API standard, and loads this file on first use.
Matrices are the last two dimensions; those before are batches. Aᴴ (`_adjoint`) is the conjugated transpose.

The rules are those of Giles (2008), "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (eigenvalues), Townsend (2016), "Differentiating the singular value decomposition", Walter and Lehmann
(2018), "Algorithmic differentiation of linear algebra functions with application in optimum experimental design" (Q and
R of tall matrices), Roberts and Roberts (2020), "QR and LQ decomposition matrix backpropagation algorithms for square,
wide, and deep matrices" (of wide ones) and Golub and Pereyra (1973) (pinv).

An op gives one array, so it holds the parts of a decomposition flattened, one after another: `_packed` puts them there,
`_parts` takes them out.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple, Never

import tinytensor as tt

from . import dtypes
from .functions.shapes import as_matrix
from .linalg import adjoint as _adjoint
from .linalg import square
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike


class EigResult(NamedTuple):
    """The result of `eig`: the eigenvalues, (..., n), and the eigenvectors as columns, (..., n, n), both complex."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """The result of `eigh`: the eigenvalues, (..., n), in ascending order, and the eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The result of `qr`: the orthogonal Q and the upper triangular R."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """The result of `svd`: the left singular vectors as columns, the singular values, the right ones as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _packed(xp, x, *parts):
    """The parts of the decomposition of x, flattened, one after another: (..., n)."""
    batch = x.shape[:-2]
    flat = [xp.reshape(part, (*batch, math.prod(part.shape[len(batch) :]))) for part in parts]
    return xp.concat(flat, axis=len(batch))


def _parts(xp, packed, *shapes):
    """The parts again, in these shapes (after the batch dimensions)."""
    parts, begin = [], 0
    for shape in shapes:
        end = begin + math.prod(shape)
        parts.append(xp.reshape(packed[..., begin:end], (*packed.shape[:-1], *shape)))
        begin = end
    return parts


def _diagonal(xp, x):
    """The matrix x with zeros off its diagonal."""
    return xp.tril(xp.triu(x))


def _as_diagonal(xp, values, like):
    """A square matrix with these values on its diagonal, of the dtype of another."""
    return xp.expand_dims(values, axis=values.ndim) * _diagonal(xp, xp.ones_like(like))


def _over_gap(xp, x, gap):
    """x / gap, and 0 where both are 0: equal eigenvalues do no harm to results that do not depend on their vectors."""
    nothing = (gap == 0) & (x == 0)
    return xp.where(nothing, 0.0, x / xp.where(nothing, 1.0, gap))


def _check_phase(xp, what, turned):
    """Raise if a gradient asks how the phase of complex vectors changes: the phase is arbitrary."""
    if turned.dtype.kind == "c" and turned.size:
        change, scale = xp.max(xp.abs(xp.imag(_diagonal(xp, turned)))), 1 + xp.max(xp.abs(turned))
        if bool(change > 100 * math.sqrt(dtypes.finfo(turned.dtype).eps) * scale):
            raise ValueError(
                f"what is computed from {what} depends on their phase, which is not determined: complex vectors have "
                "a gradient where it does not, as in abs(v) or v @ conj(v).mT"
            )


def _or_nan(xp, inner, values, *turned):
    """`inner`, and NaN where a gradient asks how vectors of equal values turn in the space that they span together."""
    if not values.size:
        return inner
    largest = xp.max(xp.abs(values), axis=values.ndim - 1)[..., None, None]
    equal = xp.abs(values[..., None, :] - values[..., :, None]) <= 8 * dtypes.finfo(values.dtype).eps * largest
    for part in turned:
        inner = xp.where(equal & (part - _diagonal(xp, part) != 0), math.nan, inner)
    return inner


# ---- eigenvalues


def _eigh_rule(xp, g, out):
    """V (diag(gλ) + VᴴgV / (λⱼ - λᵢ)) Vᴴ, made symmetric."""
    n = math.isqrt(out.shape[-1])
    (values, vectors), (g_values, g_vectors) = (_parts(xp, each, (n,), (n, n)) for each in (out, g))
    values, adjoint = xp.real(values), _adjoint(xp, vectors)
    turned = xp.matmul(adjoint, g_vectors)
    _check_phase(xp, "eigenvectors", turned)
    gap = xp.expand_dims(values, axis=values.ndim - 1) - xp.expand_dims(values, axis=values.ndim)
    inner = _over_gap(xp, turned - _diagonal(xp, turned), gap) + _as_diagonal(xp, xp.real(g_values), turned)
    full = xp.matmul(xp.matmul(vectors, _or_nan(xp, inner, values, turned)), adjoint)
    return 0.5 * (full + _adjoint(xp, full))


@op(floating=True, x=_eigh_rule)
def _eigh(xp, x):
    return _packed(xp, x, *xp.linalg.eigh(x))


def eigh(x: ArrayLike, /, **unknown: Never) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric (or Hermitian) matrices: x = V diag(λ) Vᴴ.

    x, (..., n, n), is assumed to be symmetric; only its lower triangle is read. The eigenvectors of equal eigenvalues
    are not determined, and have infinite gradients or none; the eigenvalues have theirs. An eigenvector's sign is not
    determined either, nor is the phase of a complex one: a result that depends on the phase has no gradient, and
    backward raises RuntimeError.
    """
    if unknown:
        raise tt.hints.unknown_keyword("eigh", unknown)
    x = square("eigh", x)
    n = x.shape[-1]
    values, vectors = _parts(tt, _eigh(x), (n,), (n, n))
    return EighResult(tt.real(values), vectors)


def eigvalsh(x: ArrayLike, /, **unknown: Never) -> Tensor:
    """The eigenvalues of symmetric (or Hermitian) matrices in ascending order: (..., n, n) -> (..., n)."""
    if unknown:
        raise tt.hints.unknown_keyword("eigvalsh", unknown)
    return eigh(x).eigenvalues


def _eig_rule(xp, g, out):
    """V⁻ᴴ (diag(gλ) + (VᴴgV - VᴴV Re(diag(VᴴgV))) / conj(λⱼ - λᵢ)) Vᴴ, for vectors of length 1."""
    n = math.isqrt(out.shape[-1])
    (values, vectors), (g_values, g_vectors) = (_parts(xp, each, (n,), (n, n)) for each in (out, g))
    adjoint = _adjoint(xp, vectors)
    turned = xp.matmul(adjoint, g_vectors)
    _check_phase(xp, "eigenvectors", turned)
    turned = turned - xp.matmul(xp.matmul(adjoint, vectors), _diagonal(xp, turned))
    gap = xp.expand_dims(values, axis=values.ndim - 1) - xp.expand_dims(values, axis=values.ndim)
    inner = _over_gap(xp, turned - _diagonal(xp, turned), xp.conj(gap)) + _as_diagonal(xp, g_values, turned)
    return xp.linalg.solve(adjoint, xp.matmul(inner, adjoint))


@op(floating=True, x=_eig_rule)
def _eig(xp, x):
    packed = _packed(xp, x, *xp.linalg.eig(x))
    return packed if packed.dtype.kind == "c" else packed + 0j


def eig(x: ArrayLike, /) -> EigResult:
    """Eigenvalues and eigenvectors, of length 1, of any square matrices: x V = V diag(λ), in no particular order.

    Both are complex, even for real matrices. A result that depends on the phase of an eigenvector has no gradient, and
    backward raises RuntimeError; at equal eigenvalues the gradients are infinite.
    """
    x = square("eig", x)
    n = x.shape[-1]
    return EigResult(*_parts(tt, _eig(x), (n,), (n, n)))


def eigvals(x: ArrayLike, /) -> Tensor:
    """The eigenvalues of any square matrices, complex and in no particular order: (..., n, n) -> (..., n)."""
    return eig(x).eigenvalues


# ---- singular values


def _svd_rule(xp, g, out, shape, full):
    """U (skew(UᴴgU) / E S + S skew(VᴴgV) / E + diag(gS)) Vᴴ, E = sⱼ² - sᵢ², and the part outside U's and V's spans."""
    (u, s, vh), (gu, gs, gvh) = (_parts(xp, each, *_svd_shapes(shape, full)) for each in (out, g))
    k = s.shape[-1]
    beyond = [part for part in (gu[..., k:], gvh[..., k:, :]) if part.size]
    if any(bool(xp.any(part != 0)) for part in beyond):
        raise NotImplementedError(
            f"the singular vectors beyond the first {k} are any that fill the space, and have no gradient; "
            "use full_matrices=False"
        )
    u, gu, vh, gvh, s, gs = u[..., :k], gu[..., :k], vh[..., :k, :], gvh[..., :k, :], xp.real(s), xp.real(gs)
    uh, v, row, column = _adjoint(xp, u), _adjoint(xp, vh), s[..., None, :], s[..., :, None]
    left, right = xp.matmul(uh, gu), xp.matmul(vh, _adjoint(xp, gvh))
    _check_phase(xp, "singular vectors", left + right)
    # Of several zeros the vectors may be used although `left` and `right` are 0, as in U diag(S) Vᴴ.
    is_used = xp.any(gu != 0, axis=(gu.ndim - 2, gu.ndim - 1)) | xp.any(gvh != 0, axis=(gvh.ndim - 2, gvh.ndim - 1))
    is_zero = s <= 8 * dtypes.finfo(s.dtype).eps * xp.max(s, axis=s.ndim - 1)[..., None] if k else s > 0
    of_zeros = is_zero[..., None, :] & is_zero[..., :, None] & is_used[..., None, None]
    gap = (row - column) * (row + column)
    left_turn, right_turn = left - _adjoint(xp, left), right - _adjoint(xp, right)
    phase = _diagonal(xp, left_turn)  # 0 for real numbers
    left_turn, right_turn = left_turn - phase, right_turn - _diagonal(xp, right_turn)
    inner = _over_gap(xp, left_turn, gap) * row + column * _over_gap(xp, right_turn, gap)
    inner = inner + _as_diagonal(xp, gs, inner) + _over_gap(xp, 0.5 * phase, column)
    inner = _or_nan(xp, inner, s, left, right, xp.astype(of_zeros, s.dtype))
    found = xp.matmul(xp.matmul(u, inner), vh)
    if shape[-2] > k:
        found = found + xp.matmul(_over_gap(xp, gu - xp.matmul(u, left), row), vh)
    if shape[-1] > k:
        found = found + xp.matmul(u, _over_gap(xp, gvh - xp.matmul(xp.matmul(gvh, v), vh), column))
    return found


def _svd_shapes(shape, full):
    m, n = shape[-2:]
    k = min(m, n)
    return (m, m if full else k), (k,), (n if full else k, n)


@op(floating=True, x=_svd_rule)
def _svd(xp, x, *, full):
    return _packed(xp, x, *xp.linalg.svd(x, full_matrices=full))


def svd(x: ArrayLike, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition x = U diag(S) Vh of matrices (..., m, n), with k = min(m, n) singular values.

    With `full_matrices`, the standard's and NumPy's default, U is (..., m, m) and Vh (..., n, n), else (..., m, k) and
    (..., k, n). S is in descending order.

    The first k singular vectors have gradients, where the singular values differ; those beyond have none, and backward
    raises NotImplementedError. Results that depend on the phase of complex vectors have none either (RuntimeError).
    """
    x = as_matrix("svd", x)
    u, s, vh = _parts(tt, _svd(x, full=full_matrices), *_svd_shapes(x.shape, full_matrices))
    return SVDResult(u, tt.real(s), vh)


def svdvals(x: ArrayLike, /) -> Tensor:
    """The singular values in descending order: (..., m, n) -> (..., min(m, n))."""
    return svd(x, full_matrices=False).S


def matrix_rank(
    x: ArrayLike, /, *, rtol: float | ArrayLike | None = None, atol: float | ArrayLike | None = None, **unknown: Never
) -> Tensor:
    """The number of singular values that are larger than `rtol` times the largest, and than `atol`.

    Shapes: (..., m, n) -> (...). An integer, without a gradient.

    Args:
        rtol: a number, or one for each matrix; default: max(m, n) times the dtype's eps, or 0 where `atol` is given.
        atol: the same; default: 0.
    """
    if unknown:
        raise tt.hints.unknown_keyword("matrix_rank", unknown)
    x = as_matrix("matrix_rank", x)
    _check_tolerances("matrix_rank", x, rtol, atol)
    with tt.no_grad():
        s = svdvals(x)
    if not s.shape[-1]:
        return tt.zeros(s.shape[:-1], dtype=dtypes.int64, device=x.device)
    return tt.count_nonzero(s > _cutoff(tt, s, x.shape, rtol, atol), axis=-1)


def _check_tolerances(name, x, *tolerances):
    for each in tolerances:
        if getattr(each, "ndim", 0) > x.ndim - 2:
            raise ValueError(
                f"{name}: a tolerance is a number, or one for each matrix: {x.shape[:-2]}, not {each.shape}"
            )


def _cutoff(xp, s, shape, rtol, atol):
    """The bound up to which singular values count as 0, for each matrix, by `rtol` and `atol`."""
    if rtol is None:
        rtol = max(shape[-2:]) * dtypes.finfo(s.dtype).eps if atol is None else 0.0
    rtol, atol = (t if t is None or isinstance(t, (int, float)) else t[..., None] for t in (rtol, atol))
    below = xp.max(s, axis=s.ndim - 1, keepdims=True) * rtol
    return below if atol is None else xp.maximum(below, atol)


def _pinv_rule(xp, g, out, x):
    """-PᴴgPᴴ + (I - AP) gᴴ P Pᴴ + PᴴP gᴴ (I - PA), for the inverse P of A (Golub and Pereyra, 1973)."""
    g_adjoint, adjoint = _adjoint(xp, g), _adjoint(xp, out)
    found = -xp.matmul(xp.matmul(adjoint, g), adjoint)
    outside = xp.matmul(g_adjoint, xp.matmul(out, adjoint))
    found = found + outside - xp.matmul(x, xp.matmul(out, outside))
    inside = xp.matmul(xp.matmul(adjoint, out), g_adjoint)
    return found + inside - xp.matmul(xp.matmul(inside, out), x)


@op(floating=True, x=_pinv_rule)
def _pinv(xp, x, *, rtol, atol):
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    if not s.shape[-1]:
        return xp.copy(xp.matrix_transpose(x))  # an empty matrix
    kept = s > _cutoff(xp, s, x.shape, rtol, atol)
    inverse = xp.where(kept, 1 / xp.where(kept, s, 1.0), 0.0)
    return xp.matmul(_adjoint(xp, vh) * inverse[..., None, :], _adjoint(xp, u))


def pinv(
    x: ArrayLike,
    /,
    *,
    rtol: float | ArrayLike | None = None,
    atol: float | ArrayLike | None = None,
    **unknown: Never,
) -> Tensor:
    """The (Moore-Penrose) pseudo-inverse: (..., m, n) -> (..., n, m).

    Singular values up to `rtol` times the largest, or up to `atol`, count as 0; both are as in `matrix_rank`. The
    gradient holds where a small step changes no matrix's rank.
    """
    if unknown:
        raise tt.hints.unknown_keyword("pinv", unknown)
    x = as_matrix("pinv", x)
    _check_tolerances("pinv", x, rtol, atol)
    rtol, atol = (t._data if isinstance(t, Tensor) else t for t in (rtol, atol))
    return _pinv(x, rtol=rtol, atol=atol)


# ---- Q and R


def _qr_rule(xp, g, out, shape, mode):
    """(gQ + Q copyltu(R gRᴴ - gQᴴ Q)) R⁻ᴴ for a square R; in a wide one the rest is Q times columns."""
    m, n = shape[-2:]
    if mode == "complete" and m > n:
        raise NotImplementedError(
            f"the columns of Q beyond the first {n} are any that fill the space, and have no gradient; "
            "use mode='reduced'"
        )
    (q, r), (gq, gr) = (_parts(xp, each, *_qr_shapes(shape, mode)) for each in (out, g))
    k = min(m, n)
    r, rest, gr, g_rest = r[..., :k], r[..., k:], gr[..., :k], gr[..., k:]
    if n > k:  # the columns after the first k are Q rest, so their gradient reaches Q
        gq = gq + xp.matmul(xp.matmul(q, rest), _adjoint(xp, g_rest))
    inner = xp.matmul(r, _adjoint(xp, gr)) - xp.matmul(_adjoint(xp, gq), q)
    below = xp.tril(inner) - _diagonal(xp, inner)
    lower = below + _adjoint(xp, below) + xp.real(_diagonal(xp, inner))
    found = _adjoint(xp, xp.linalg.solve(r, _adjoint(xp, gq + xp.matmul(q, lower))))
    return found if n == k else xp.concat([found, xp.matmul(q, g_rest)], axis=found.ndim - 1)


def _qr_shapes(shape, mode):
    m, n = shape[-2:]
    k = m if mode == "complete" else min(m, n)
    return (m, k), (k, n)


@op(floating=True, x=_qr_rule)
def _qr(xp, x, *, mode):
    return _packed(xp, x, *xp.linalg.qr(x, mode=mode))


def qr(x: ArrayLike, /, *, mode: str = "reduced") -> QRResult:
    """The decomposition x = Q R of matrices (..., m, n): Q has orthogonal columns of length 1, R is upper triangular.

    With k = min(m, n), Q is (..., m, k) and R (..., k, n) if `mode` is "reduced", (..., m, m) and (..., m, n) if it is
    "complete"; Q's further columns have no gradient (backward raises NotImplementedError). The gradient exists
    where the first k columns of x are independent.
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    x = as_matrix("qr", x)
    return QRResult(*_parts(tt, _qr(x, mode=mode), *_qr_shapes(x.shape, mode)))


tt.missing.hide_what_is_refused(sys.modules[__name__])
tt.missing.explain_arguments(sys.modules[__name__], ["eig", "eigvals", "qr", "svd", "svdvals"])
