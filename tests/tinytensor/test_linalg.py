"""Linear algebra beyond products, against NumPy, with gradients of first and second order."""

import math

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
        for ord in ("fro", 1, -1, math.inf, -math.inf)
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
        (lambda: tt.linalg.matrix_norm(tt.ones((2, 2)), ord="nuc"), "'nuc' is not supported; expected 'fro'"),
        (lambda: tt.linalg.diagonal(tt.ones(2)), "diagonal: expected at least 2 dimensions"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
