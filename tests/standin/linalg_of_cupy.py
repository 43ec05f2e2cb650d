"""`cupy.linalg` of the stand-in: what cuSOLVER says of singular input is heard by those alone who ask for it.

Who does not, with `cupyx.errstate(linalg="raise")`, gets whatever numbers come out. Further, `solve` broadcasts no
batches and takes one dimension less for a batch of vectors, `det` is computed from `slogdet`, and cuSOLVER refuses
empty matrices.
"""

import contextlib
import threading

import numpy as np

_config = threading.local()


@contextlib.contextmanager
def errstate(*, linalg):
    """As `cupyx.errstate`."""
    before = getattr(_config, "linalg", "ignore")
    _config.linalg = linalg
    try:
        yield
    finally:
        _config.linalg = before


def _computed(function, *matrices):
    if matrices[0].ndim == 2 and not matrices[0].size:
        raise RuntimeError("CUSOLVER_STATUS_INVALID_VALUE")
    try:
        return function(*matrices)
    except np.linalg.LinAlgError:
        if getattr(_config, "linalg", "ignore") == "raise":
            raise np.linalg.LinAlgError("Error reported by dgetrf in cuSOLVER. devInfo = [2].") from None
        return np.full(matrices[-1].shape, np.inf, dtype=matrices[-1].dtype)


def inv(a):
    return _computed(np.linalg.inv, a)


def cholesky(a):
    return _computed(np.linalg.cholesky, a)


def solve(a, b):
    if a.ndim - b.ndim not in (0, 1) or a.shape[:-1] != b.shape[: a.ndim - 1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M) or (..., M, K)")
    return _computed(np.linalg.solve, a, b) if a.ndim == b.ndim else _computed(_solve_vectors, a, b)


def _solve_vectors(a, b):
    return np.linalg.solve(a, b[..., None])[..., 0]


def slogdet(a):
    return tuple(np.linalg.slogdet(a))


def det(a):
    sign, logarithm = slogdet(a)
    return sign * np.exp(logarithm)


def _decomposed(function):
    """In a tuple, as CuPy's are; cuSOLVER refuses empty matrices."""

    def decomposed(a, **options):
        if not a.size:
            raise RuntimeError("CUSOLVER_STATUS_INVALID_VALUE")
        return tuple(function(a, **options))

    return decomposed


eig, eigh, qr, svd = map(_decomposed, (np.linalg.eig, np.linalg.eigh, np.linalg.qr, np.linalg.svd))
norm = np.linalg.norm
