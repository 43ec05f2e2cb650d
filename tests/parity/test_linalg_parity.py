"""`tt.linalg` beside `torch.linalg`, of real and of complex matrices: values, first and second order."""

import numpy as np
import pytest

import tinytensor as tt

torch = pytest.importorskip("torch")

from .test_complex_parity import check  # noqa: E402  (it needs PyTorch)


def matrix(*shape, dtype=np.float64, seed=0):
    """Singular values and eigenvalues apart."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) + np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)
    return x + 1j * rng.normal(size=shape) if dtype == np.complex128 else x


def hermitian(x):
    xp = tt if isinstance(x, tt.Tensor) else torch
    return (x + xp.conj(x).mT) / 2


def power(xp, x):
    """What depends on no sign and no phase."""
    return xp.square(xp.abs(x))


CASES = {  # a function of a namespace and matrices, and their shapes
    "eigh values": (lambda xp, x: xp.linalg.eigh(hermitian(x))[0], [(2, 3, 3)]),
    "eigh vectors": (lambda xp, x: power(xp, xp.linalg.eigh(hermitian(x))[1]), [(3, 3)]),
    "eigvalsh": (lambda xp, x: xp.linalg.eigvalsh(hermitian(x)), [(3, 3)]),
    "eig values": (lambda xp, x: xp.linalg.eig(x)[0], [(2, 3, 3)]),
    "eig vectors": (lambda xp, x: power(xp, xp.linalg.eig(x)[1]), [(3, 3)]),
    "svd U": (lambda xp, x: power(xp, xp.linalg.svd(x, full_matrices=False)[0]), [(2, 4, 3)]),
    "svd S": (lambda xp, x: xp.linalg.svd(x, full_matrices=False)[1], [(3, 4)]),
    "svd Vh": (lambda xp, x: power(xp, xp.linalg.svd(x, full_matrices=False)[2]), [(3, 4)]),
    "svd whole": (lambda xp, x: power(xp, xp.linalg.svd(x)[2]), [(3, 3)]),
    "svdvals": (lambda xp, x: xp.linalg.svdvals(x), [(2, 3, 2)]),
    "qr Q": (lambda xp, x: xp.linalg.qr(x)[0], [(2, 4, 3)]),
    "qr R": (lambda xp, x: xp.linalg.qr(x)[1], [(4, 3)]),
    "qr wide": (lambda xp, x: xp.linalg.qr(x)[0] @ xp.abs(xp.linalg.qr(x)[1]).to(x.dtype), [(2, 3)]),
    "pinv": (lambda xp, x: xp.linalg.pinv(x), [(2, 4, 3)]),
    "pinv wide": (lambda xp, x: xp.linalg.pinv(x), [(2, 4)]),
    "cholesky": (lambda xp, x: xp.linalg.cholesky(x @ xp.conj(x).mT), [(2, 3, 3)]),
    "slogdet": (lambda xp, x: xp.linalg.slogdet(x)[1], [(2, 3, 3)]),
    "multi_dot": (lambda xp, x, y, z: xp.linalg.multi_dot([x, y, z]), [(2, 5), (5, 1), (1, 3)]),
    "matrix_norm 2": (lambda xp, x: xp.linalg.matrix_norm(x, ord=2), [(2, 3, 2)]),
    "matrix_norm -2": (lambda xp, x: xp.linalg.matrix_norm(x, ord=-2), [(3, 3)]),
    "matrix_norm nuc": (lambda xp, x: xp.linalg.matrix_norm(x, ord="nuc"), [(3, 2)]),
    "cross": (lambda xp, x, y: xp.linalg.cross(x, y), [(2, 3), (1, 3)]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", CASES)
def test_linalg_parity(name, dtype):
    function, shapes = CASES[name]
    values = [matrix(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    check(lambda *xs: function(tt, *xs), lambda *xs: function(torch, *xs), values)


def test_the_sign_of_a_complex_determinant():
    x = matrix(3, 3, dtype=np.complex128)
    check(lambda x: tt.linalg.slogdet(x).sign, lambda x: torch.linalg.slogdet(x)[0], [x])


@pytest.mark.parametrize("rtol", [None, 1e-3, 0.5])
def test_rank_and_cutoff(rtol):
    x = np.diag([3.0, 1.0, 2e-3, 0.0])
    given = {} if rtol is None else {"rtol": rtol}
    assert tt.linalg.matrix_rank(x, **given).item() == torch.linalg.matrix_rank(torch.tensor(x), **given).item()
    expected = torch.linalg.pinv(torch.tensor(x), **given).numpy()
    np.testing.assert_allclose(tt.linalg.pinv(x, **given).numpy(), expected, atol=1e-12)
