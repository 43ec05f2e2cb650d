"""Further activation functions: their formulas, derivatives, dtypes, and what they refuse."""

import numpy as np
import pytest
import scipy.special

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

from ..tinytensor.op_samples import apart

X = apart((4, 6), -7.0, 7.0)
SIGMOID, SOFTPLUS = scipy.special.expit, lambda x: np.logaddexp(x, 0)


def exponential(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


FORMULAS = {
    "silu": lambda x: x * SIGMOID(x),
    "mish": lambda x: x * np.tanh(SOFTPLUS(x)),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "glu": lambda x: x[:, :3] * SIGMOID(x[:, 3:]),
    "elu": lambda x: exponential(x, 1.0),
    "selu": lambda x: 1.0507009873554805 * exponential(x, 1.6732632423543772),
    "celu": lambda x: exponential(x, 1.0),
    "leaky_relu": lambda x: np.maximum(x, 0.01 * x),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "relu6": lambda x: np.clip(x, 0, 6),
    "softplus": SOFTPLUS,
    "logsigmoid": lambda x: -SOFTPLUS(-x),
    "softsign": lambda x: x / (1 + abs(x)),
    "softmin": lambda x: scipy.special.softmax(-x, axis=-1),
    "tanhshrink": lambda x: x - np.tanh(x),
    "hardshrink": lambda x: x * (abs(x) > 0.5),
    "softshrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_the_formula_and_so_are_its_derivatives(name, device):
    x = tt.tensor(X, requires_grad=True, device=device)
    function = getattr(F, name)
    out = function(x)
    assert out.device == device
    np.testing.assert_allclose(out.detach().numpy(), FORMULAS[name](X), rtol=1e-12, atol=1e-12)
    assert tt.gradcheck(function, [x])
    assert tt.gradgradcheck(function, [x])


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
def test_dtypes_stay(name, dtype, device):
    x = tt.tensor([[-300.0, -2.0, 0.0, 1.0, 20.0, 300.0]], dtype=dtype, device=device, requires_grad=True)
    out = getattr(F, name)(x)
    out.sum().backward()
    assert (out.dtype, x.grad.dtype, x.grad.shape) == (dtype, dtype, x.shape)
    assert bool(tt.all(tt.isfinite(out)))
    assert bool(tt.all(tt.isfinite(x.grad)))


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"glu", "softmin"}))
def test_of_none_of_one_and_of_numbers(name, device):
    function = getattr(F, name)
    assert function(tt.zeros((0, 2), device=device)).shape == (0, 2)
    assert function(tt.asarray(0.5, device=device)).shape == ()
    np.testing.assert_array_equal(function([0.5, -2.0]).numpy(), function(tt.asarray([0.5, -2.0])).numpy())


def test_selu_keeps_mean_0_and_variance_1():
    out = F.selu(tt.random.randn(200_000, generator=tt.random.Generator(0)))
    assert abs(out.mean().item()) < 0.01
    assert out.var(correction=0).item() == pytest.approx(1, abs=0.02)


def test_a_prelu_learns_its_slopes():
    tt.manual_seed(0)
    x = tt.random.randn(64, 2)
    target = tt.where(x > 0, x, x * tt.asarray([0.5, -1.0]))
    layer = nn.PReLU(2)
    optimizer = nn.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(150):
        loss = F.mse_loss(layer(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(layer.weight.detach().numpy(), [0.5, -1.0], atol=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F.glu(tt.ones((2, 3))), ValueError, r"glu: dimension -1 of an input of shape \(2, 3\) must be even"),
        (lambda: F.glu(tt.ones(4), 1), IndexError, "glu: dim 1 is out of range"),
        (lambda: F.celu(tt.ones(4), 0), ValueError, "celu: alpha must be above 0, got 0"),
        (lambda: F.softshrink(tt.ones(4), -1), ValueError, "softshrink: lambd must be at least 0, got -1"),
        (lambda: F.prelu(tt.ones((4, 3)), tt.ones(4)), ValueError, r"input \(4, 3\) has 3 channels; weight \(4,\)"),
        (lambda: nn.Hardtanh(1, 0), ValueError, "Hardtanh: min_val must be below max_val, got 1 and 0"),
        (lambda: nn.PReLU(1.5), TypeError, "PReLU: num_parameters must be an integer, got 1.5"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_silu_of_integers_and_of_complex_numbers():
    ids = tt.asarray([-1, 0, 2])
    found = F.silu(ids)
    assert found.dtype == (ids * tt.sigmoid(ids)).dtype
    np.testing.assert_allclose(found.numpy(), [-0.26894142, 0, 1.76159416], rtol=1e-6)
    with pytest.raises(TypeError, match="expected real numbers, got complex64"):
        F.silu(tt.asarray([1 + 2j]))
