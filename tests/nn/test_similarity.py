"""Cosine similarity: the cosine of an angle, at zero vectors, and its errors."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("angle", [0, 12.93, 60, 90, 180, 270])
def test_it_is_the_cosine_of_the_angle(angle, device):
    x, y = (
        tt.asarray([3.0, 0.0], device=device),
        0.5 * tt.asarray([math.cos(math.radians(angle)), math.sin(math.radians(angle))], device=device),
    )
    found = F.cosine_similarity(x, y, dim=0)
    assert (found.shape, found.device, found.dtype) == ((), device, tt.float32)
    assert found.item() == pytest.approx(math.cos(math.radians(angle)), abs=1e-6)


@pytest.mark.parametrize(
    ("shapes", "dim", "shape"),
    [
        (((4, 3), (4, 3)), 1, (4,)),
        (((2, 1, 3), (4, 3)), -1, (2, 4)),
        (((3,), (4, 3)), 1, (4,)),
        (((3, 5),) * 2, 0, (5,)),
    ],
)
def test_it_is_the_product_by_the_norms(shapes, dim, shape, device):
    x, y = (normal(*s, seed=i) for i, s in enumerate(shapes))
    found = F.cosine_similarity(tt.asarray(x, device=device), tt.asarray(y, device=device), dim)
    assert found.shape == shape
    norms = (np.sqrt((a * a).sum(axis=-1 if len(shapes[0]) != len(shapes[1]) else dim, keepdims=True)) for a in (x, y))
    expected = ((x / next(norms)) * (y / next(norms))).sum(axis=dim)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_its_derivatives(device):
    inputs = [tt.tensor(normal(3, 4, seed=i), requires_grad=True, device=device) for i in range(2)]
    assert tt.gradcheck(F.cosine_similarity, inputs)
    assert tt.gradgradcheck(F.cosine_similarity, inputs)


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize("other", [[0.0, 0.0], [1.0, 1.0]])
def test_a_vector_of_zeros_is_like_none(dtype, other, device):
    x = tt.zeros((1, 2), dtype=dtype, device=device).requires_grad_()
    y = tt.asarray([other], dtype=dtype, device=device).requires_grad_()
    found = F.cosine_similarity(x, y)
    assert (found.tolist(), found.dtype) == ([0], dtype)
    if dtype == tt.float16:
        return  # which ends at 65504: the gradient of x is as large as 1 / eps
    g_x, g_y = tt.grad(found.sum(), [x, y], create_graph=True)
    slope = sum(other) / 2 / math.sqrt(2) * 1e8 if any(other) else 0.0
    np.testing.assert_allclose(g_x.detach().numpy(), [[slope, slope]], rtol=1e-6)
    assert g_y.tolist() == [[0, 0]]
    second = tt.grad((g_x * g_x).sum() + (g_y * g_y).sum(), [x, y], allow_unused=True)
    assert all(g is None or bool(tt.all(tt.isfinite(g))) for g in second)


def test_eps_is_the_least_that_is_divided_by():
    x, y = tt.asarray([[0.3, 0.0]]), tt.asarray([[1.0, 0.0]])
    assert F.cosine_similarity(x, y, eps=0.5).item() == pytest.approx(0.6)
    assert F.cosine_similarity(x, y, 1, 0.1).item() == pytest.approx(1)


def test_large_and_small_vectors_of_16_bits():
    x = tt.asarray([[200.0, 200.0], [1e-4, 1e-4]], dtype=tt.float16)
    np.testing.assert_allclose(F.cosine_similarity(x, x).numpy(), [1, 1], rtol=1e-3)


@pytest.mark.parametrize(
    ("x", "y", "dim", "error", "words"),
    [
        (
            tt.ones(3),
            tt.ones(3),
            1,
            IndexError,
            r"cosine_similarity: dim 1 is out of range for an input of shape \(3,\)",
        ),
        (tt.arange(3), tt.ones(3), 0, TypeError, "cosine_similarity: expected floats, got int64 and float32"),
        (tt.ones((2, 3)), tt.ones((2, 4)), 1, ValueError, r"\(2, 3\).*\(2, 4\)"),
    ],
)
def test_mistakes(x, y, dim, error, words):
    with pytest.raises(error, match=words):
        F.cosine_similarity(x, y, dim)
