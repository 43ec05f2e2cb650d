"""GELU and SiLU in compiled loops: right to the last places, and harmless far from zero."""

import math

import numpy as np
import pytest
from scipy.special import erf, expit

pytest.importorskip("numba")
from tinytensor.fast import activations as room

X = np.concatenate([np.linspace(-9, 9, 100_001), [0.0, -0.0, 1e-20, 1e4, -1e4]])
PAIRS = [room.on_arrays(name) for name in ("gelu", "gelu_tanh", "silu")]


def exact(x):
    """GELU, its derivative, both of its approximation, and both of SiLU."""
    below, density = 0.5 * (1 + erf(x / math.sqrt(2))), np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    gelu = x * below, below + x * density
    approximation = x * expit(2 * u), expit(2 * u) + 2 * x * expit(2 * u) * expit(-2 * u) * slope
    return *gelu, *approximation, x * expit(x), expit(x) + x * expit(x) * expit(-x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_derivatives(dtype):
    x = X.astype(dtype)
    g = np.ones_like(x)
    found = [array for f, gradient in PAIRS for array in (f(x), gradient(g, x))]
    for a, b in zip(found, exact(x.astype(np.float64))):
        assert a.dtype == dtype
        spacing = np.spacing(np.maximum(1, np.abs(x)))  # the probability is right to a few units in the last place of 1
        assert (np.abs(a - b) <= 3 * spacing).all()


@pytest.mark.parametrize("function", [f for f, _ in PAIRS], ids=["gelu", "gelu_tanh", "silu"])
def test_far_from_zero_and_not_a_number(function):
    x = np.array([-1e30, -1e4, 1e4, 1e30, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(function(x), np.array([0, 0, 1e4, 1e30, np.inf, np.nan], np.float32))


def test_the_gradient_is_multiplied():
    x, g = X.astype(np.float32), np.linspace(-2, 2, X.size, dtype=np.float32)
    for _, gradient in PAIRS:
        np.testing.assert_allclose(gradient(g, x), g * gradient(np.ones_like(x), x), rtol=1e-6, atol=1e-30)
