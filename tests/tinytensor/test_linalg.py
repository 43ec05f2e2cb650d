"""Linear algebra beyond products, against NumPy, with gradients of first and second order."""

import math
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt


def matrices(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape) + 2 * np.eye(shape[-1])


CASES = {
    "matrix_power 3": (lambda x: tt.linalg.matrix_power(x, 3), lambda x: np.linalg.matrix_power(x, 3)),
    "matrix_power 0": (lambda x: tt.linalg.matrix_power(x, 0) + 0 * x, lambda x: np.linalg.matrix_power(x, 0)),
    "matrix_power -2": (lambda x: tt.linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2)),
    "matrix_power 5": (lambda x: tt.linalg.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5)),
    "diagonal": (tt.linalg.diagonal, lambda x: np.diagonal(x, axis1=-2, axis2=-1)),
    "diagonal 1": (lambda x: tt.linalg.diagonal(x, offset=1), lambda x: np.diagonal(x, 1, -2, -1)),
    "diagonal -2": (lambda x: tt.linalg.diagonal(x, offset=-2), lambda x: np.diagonal(x, -2, -2, -1)),
    "diagonal 9": (lambda x: tt.linalg.diagonal(x, offset=9) * 1, lambda x: np.diagonal(x, 9, -2, -1)),
    "trace": (tt.linalg.trace, lambda x: np.trace(x, axis1=-2, axis2=-1)),
    "outer": (lambda x: tt.linalg.outer(x[0, 0], x[0, 1]), lambda x: np.outer(x[0, 0], x[0, 1])),
    "cross": (lambda x: tt.linalg.cross(x, x[:, ::-1]), lambda x: np.cross(x, x[:, ::-1])),
    "eigvalsh": (lambda x: tt.linalg.eigvalsh(x + x.mT), lambda x: np.linalg.eigvalsh(x + x.mT)),
    "svdvals": (tt.linalg.svdvals, np.linalg.svdvals),
    "svd of whole matrices": (lambda x: tt.abs(tt.linalg.svd(x).U), lambda x: np.abs(np.linalg.svd(x).U)),
    "multi_dot": (lambda x: tt.linalg.multi_dot([x[0, 0], x[0], x[1]]), lambda x: x[0, 0] @ x[0] @ x[1]),
    "slogdet": (lambda x: tt.linalg.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1]),
    "cholesky": (lambda x: tt.linalg.cholesky(x @ x.mT), lambda x: np.linalg.cholesky(x @ x.mT)),
    "cholesky upper": (lambda x: tt.linalg.cholesky(x @ x.mT, upper=True), lambda x: np.linalg.cholesky(x @ x.mT).mT),
    **{
        f"vector_norm {ord}": (
            lambda x, ord=ord: tt.linalg.vector_norm(x, axis=-1, ord=ord),
            lambda x, ord=ord: np.linalg.vector_norm(x, axis=-1, ord=ord),
        )
        for ord in (1, 2, 3, 0.5, -1, math.inf, -math.inf)
    },
    **{
        f"matrix_norm {ord}": (
            lambda x, ord=ord: tt.linalg.matrix_norm(x, ord=ord, keepdims=True),
            lambda x, ord=ord: np.linalg.matrix_norm(x, ord=ord, keepdims=True),
        )
        for ord in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf)
    },
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, device):
    function, reference = CASES[case]
    values = matrices(2, 3, 3)
    x = tt.tensor(values, device=device, requires_grad=True)
    np.testing.assert_allclose(function(x).numpy(), reference(values), rtol=1e-10)
    assert tt.gradcheck(function, x)
    assert tt.gradgradcheck(function, x)


def test_number_of_nonzeros_is_a_norm():
    assert tt.linalg.vector_norm(tt.tensor([0.0, 2.0, -3.0]), ord=0).item() == 2


def test_sign_of_the_determinant():
    sign, logarithm = tt.linalg.slogdet(tt.tensor([[0.0, 2.0], [3.0, 0.0]]))
    assert sign.item() == -1
    assert logarithm.item() == pytest.approx(math.log(6))
    assert not sign.requires_grad


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_determinant_gradient_at_any_rank(rank):
    rng = np.random.default_rng(rank)
    matrix = rng.normal(size=(4, rank)) @ rng.normal(size=(rank, 4)) if rank else np.zeros((4, 4))
    x = tt.tensor(matrix, requires_grad=True)
    tt.linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 0, atol=1e-10)  # every minor of three rows vanishes


def test_one_singular_matrix_in_a_batch():
    batch = np.stack([matrices(3, 3), np.diag([1.0, 2.0, 0.0])])
    x = tt.tensor(batch, requires_grad=True)
    assert tt.gradcheck(tt.linalg.det, x)
    (g,) = tt.grad(tt.linalg.det(x), [x], tt.ones(2, dtype=tt.float64))
    np.testing.assert_allclose(g.numpy()[1], np.diag([0, 0, 2.0]), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tt.linalg.inv(tt.ones((2, 3))), r"inv: expected square matrices.*\(2, 3\)"),
        (lambda: tt.linalg.inv(tt.zeros((2, 2))), r"inv: Singular matrix; inputs: x \(2, 2\) float32"),
        (lambda: tt.linalg.cholesky(-tt.eye(2)), "cholesky: .*not positive definite"),
        (lambda: tt.linalg.outer(tt.ones((2, 2)), tt.ones(2)), r"outer: expected two vectors.*\(2, 2\)"),
        (lambda: tt.linalg.cross(tt.ones(2), tt.ones(2)), r"cross: expected length 3"),
        (lambda: tt.linalg.cross(tt.ones(3), tt.ones((3, 1))), r"cross: expected length 3 .*\(3,\) and \(3, 1\)"),
        (lambda: tt.linalg.matrix_norm(tt.ones((2, 2)), ord=3), "3 is not supported; expected 'fro'"),
        (lambda: tt.linalg.eigh(tt.ones((2, 3))), r"eigh: expected square matrices .*\(2, 3\)"),
        (lambda: tt.linalg.svd(tt.ones(3)), "svd: expected at least 2 dimensions"),
        (lambda: tt.linalg.qr(tt.eye(2), mode="raw"), "qr: mode must be 'reduced' or 'complete', got 'raw'"),
        (lambda: tt.linalg.multi_dot([tt.eye(2)]), "multi_dot: expected two arrays at least, got 1"),
        (
            lambda: tt.linalg.multi_dot([tt.eye(2), tt.ones(2), tt.eye(2)]),
            r"multi_dot: expected matrices .*\[2, 1, 2\]",
        ),
        (lambda: tt.linalg.diagonal(tt.ones(2)), "diagonal: expected at least 2 dimensions"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- decompositions


def test_parts_have_names_and_multiply_to_the_whole(device):
    x = tt.asarray(matrices(2, 4, 4)[..., :3], device=device)
    q, r = tt.linalg.qr(x)
    u, s, vh = tt.linalg.svd(x, full_matrices=False)
    symmetric = tt.matmul(x.mT, x)
    values, vectors = tt.linalg.eigh(symmetric)
    found = tt.linalg.eig(symmetric)
    assert tt.linalg.qr(x).Q.shape == q.shape == (2, 4, 3)
    assert [p.shape for p in tt.linalg.svd(x)] == [(2, 4, 4), (2, 3), (2, 3, 3)]
    assert tt.linalg.qr(x, mode="complete").R.shape == (2, 4, 3)
    assert found.eigenvalues.dtype == tt.complex128
    for product, whole in (
        (q @ r, x),
        ((u * s[:, None, :]) @ vh, x),
        ((vectors * values[:, None, :]) @ vectors.mT, symmetric),
        (tt.real((found.eigenvectors * found.eigenvalues[:, None, :]) @ tt.linalg.inv(found.eigenvectors)), symmetric),
        (x @ tt.linalg.pinv(x) @ x, x),
        (tt.exp(tt.linalg.slogdet(symmetric).logabsdet), tt.linalg.det(symmetric)),
    ):
        np.testing.assert_allclose(product.numpy(), whole.numpy(), rtol=1e-10, atol=1e-10)


def test_float32_stays_float32(device):
    x = tt.asarray(matrices(3, 3), dtype=tt.float32, device=device)
    for part in (*tt.linalg.qr(x), *tt.linalg.svd(x), *tt.linalg.eigh(x), tt.linalg.pinv(x)):
        assert part.dtype == tt.float32
    assert tt.linalg.eigvals(x).dtype == tt.complex64


def test_nothing_has_parts_too(device):
    x = tt.zeros((2, 0, 3), device=device)
    assert [p.shape for p in tt.linalg.svd(x, full_matrices=False)] == [(2, 0, 0), (2, 0), (2, 0, 3)]
    assert [p.shape for p in tt.linalg.qr(x)] == [(2, 0, 0), (2, 0, 3)]
    assert tt.linalg.pinv(x).shape == (2, 3, 0)
    assert tt.linalg.matrix_rank(x).tolist() == [0, 0]


def test_equal_eigenvalues_have_gradients(device):
    x = tt.tensor(np.eye(3), device=device, requires_grad=True)
    tt.sum(tt.linalg.eigvalsh(x) ** 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.eye(3))
    x.grad = None
    tt.linalg.matrix_norm(x, ord="nuc").backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: tt.linalg.svd(x).U, r"beyond the first 2 .* full_matrices=False"),
        (lambda x: tt.linalg.qr(x, mode="complete").Q, r"beyond the first 2 .* mode='reduced'"),
    ],
)
def test_columns_that_only_fill_the_space_have_no_gradient(function, says):
    x = tt.tensor(matrices(4, 4)[:, :2], requires_grad=True)
    with pytest.raises(NotImplementedError, match=says):
        function(x).sum().backward()


@pytest.mark.parametrize("function", [tt.linalg.eigh, tt.linalg.eig, lambda x: tt.linalg.svd(x)[::2]])
def test_what_depends_on_a_phase_has_no_gradient(function):
    x = tt.tensor(matrices(3, 3) + 1j * matrices(3, 3, seed=1), requires_grad=True)
    with pytest.raises(RuntimeError, match="depends on their phase"):
        tt.real(function(x)[-1]).sum().backward()


@pytest.mark.parametrize("ord", [0, 1, 2, 3, math.inf, -math.inf])
def test_the_norm_of_a_number(ord, device):
    x = tt.tensor(-2.0, dtype=tt.float64, device=device, requires_grad=True)
    norm = tt.linalg.vector_norm(x, ord=ord)
    assert norm.shape == ()
    assert norm.item() == pytest.approx(2 if ord else 1)
    norm.backward()
    assert x.grad.item() == pytest.approx(-1 if ord else 0)


def test_multi_dot_takes_the_cheapest_order():
    with tt.record():
        out = tt.linalg.multi_dot([tt.ones((2, 50)).requires_grad_(), tt.ones((50, 2)), tt.ones((2, 50))])
    assert out._node.parents[0].shape == (2, 2)


def test_what_depends_on_no_phase_has_a_gradient_in_32_bits():
    values = np.random.default_rng(0).normal(size=(2, 30, 30))
    x = tt.tensor((values[0] + 1j * values[1]).astype(np.complex64), requires_grad=True)
    for part in (tt.linalg.svd(x).U, tt.linalg.eigh(x).eigenvectors, tt.linalg.eig(x).eigenvectors):
        tt.sum(tt.abs(part) ** 4).backward()
    assert x.grad.dtype == tt.complex64


def test_decompositions_are_loaded_when_asked_for():
    code = "import sys, tinytensor as tt; tt.linalg.det; print('tinytensor.decompositions' in sys.modules);"
    code += "tt.linalg.svd; print('tinytensor.decompositions' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]


def test_a_cupy_without_eig_says_which_has_it(device, monkeypatch):
    if device == "cpu":
        pytest.skip("NumPy has it")
    import cupy

    monkeypatch.delattr(cupy.linalg, "eig", raising=False)
    with pytest.raises(NotImplementedError, match=r"this version of CuPy has no eig; version 14 has\..*x\.cpu\(\)"):
        tt.linalg.eig(tt.eye(2, device=device))


def test_a_cutoff_for_each_matrix(device):
    x = tt.asarray(np.stack([np.diag([2.0, 1.0, 0.1])] * 2), device=device)
    rtol = tt.asarray([0.2, 0.01], dtype=tt.float64, device=device)
    assert tt.linalg.matrix_rank(x, rtol=rtol).tolist() == [2, 3]
    found = tt.linalg.diagonal(tt.linalg.pinv(x, rtol=rtol)).numpy()
    np.testing.assert_allclose(found, [[0.5, 1, 0], [0.5, 1, 10]], atol=1e-12)


def rebuilt(x):
    u, s, vh = tt.linalg.svd(x, full_matrices=False)
    return (u * s[..., None, :]) @ vh


@pytest.mark.parametrize(
    "function", [lambda x: tt.linalg.svd(x, full_matrices=False)[0], rebuilt, lambda x: tt.linalg.eigh(x)[1]]
)
@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [2.0, 1.0, 1.0 + 1e-16], [0.0, 0.0, 1.0]])
@pytest.mark.filterwarnings("ignore:.*encountered")
def test_vectors_of_equal_values_have_no_gradient(function, values):
    x = tt.tensor(np.diag(values), requires_grad=True)
    weights = tt.asarray(np.random.default_rng(0).standard_normal((3, 3)))
    (function(x) * weights).sum().backward()
    assert np.isnan(x.grad.numpy()).any()


def test_results_that_do_not_depend_on_vectors_of_equal_values_do():
    x = tt.tensor(np.diag([1.0, 1.0, 2.0]), requires_grad=True)
    (tt.linalg.eigh(x)[1][:, 2] ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 0, atol=1e-12)
    x = tt.tensor(np.stack([np.diag([1e-20, 2e-20]), np.diag([1.0, 2.0])]), requires_grad=True)  # each by its own size
    rebuilt(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1, rtol=1e-6)
