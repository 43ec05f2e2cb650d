"""Feed-forward networks, plain and gated."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

import tinytensor as tt
from tinytensor import nn

FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * ndtr(x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * expit(x),
    "bilinear": lambda x: x,
    "glu": expit,
}
FUNCTIONS |= {gated: FUNCTIONS[plain] for gated, plain in (("reglu", "relu"), ("geglu", "gelu"), ("swiglu", "silu"))}
FUNCTIONS["geglu_tanh"] = FUNCTIONS["gelu_tanh"]
GATED = ("bilinear", "glu", "reglu", "geglu", "geglu_tanh", "swiglu")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_formula(name, bias):
    layer = nn.FeedForward(4, 6, name, bias=bias).double()
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    weights = {key: value.numpy() for key, value in layer.state_dict().items()}

    def linear(part, x):
        return x @ weights[f"{part}.weight"].T + weights.get(f"{part}.bias", 0)

    inner = FUNCTIONS[name](linear("gate" if name in GATED else "up", x))
    inner = inner * linear("up", x) if name in GATED else inner
    np.testing.assert_allclose(layer(tt.asarray(x)).detach().numpy(), linear("down", inner), atol=1e-12)
    assert ("gate.weight" in weights) == (name in GATED)
    assert ("up.bias" in weights) == bias


def test_dropout_is_for_training():
    layer, x = nn.FeedForward(4, 64, dropout=0.5), tt.ones((1, 4))
    assert abs((layer(x) - layer(x)).detach().numpy()).max() > 0
    layer.eval()
    np.testing.assert_array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())


def test_an_unknown_activation():
    with pytest.raises(ValueError, match="unknown activation 'swish'; expected one of relu, .*, swiglu"):
        nn.FeedForward(4, 6, "swish")
