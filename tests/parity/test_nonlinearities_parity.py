"""Further activation functions and their modules beside PyTorch's: values, first and second derivatives, kinks."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

from . import test_functional_parity, test_modules_parity
from .test_functional_parity import close, compare, normal, theirs, torch
from .test_modules_parity import compare as compare_modules
from .test_modules_parity import pair

FUNCTIONS = [
    ("silu", {}), ("mish", {}), ("hardsigmoid", {}), ("hardswish", {}), ("glu", {}), ("glu", {"dim": 0}), ("elu", {}),
    ("elu", {"alpha": 0.3}), ("selu", {}), ("celu", {}), ("celu", {"alpha": 2.0}), ("leaky_relu", {}),
    ("leaky_relu", {"negative_slope": -0.2}), ("hardtanh", {}), ("hardtanh", {"min_val": -0.5, "max_val": 2.0}),
    ("relu6", {}), ("threshold", {"threshold": 0.1, "value": 20.0}), ("softplus", {}),
    ("softplus", {"beta": 2.0, "threshold": 3.0}), ("logsigmoid", {}), ("softsign", {}), ("softmin", {"dim": 1}),
    ("tanhshrink", {}), ("hardshrink", {}), ("hardshrink", {"lambd": 1.5}), ("softshrink", {}),
    ("softshrink", {"lambd": 0.0}),
]  # fmt: skip


STRAIGHT = ("hardsigmoid", "leaky_relu", "hardtanh", "relu6", "threshold", "hardshrink", "softshrink")
SIXTHS = 1e-7  # PyTorch's gradient of these is by 1/6 as a float32, in float64 as well


@pytest.fixture(autouse=True)
def sixths(request, monkeypatch):
    if any(name in request.node.name.lower() for name in ("hardsigmoid", "hardswish")):
        monkeypatch.setattr(test_functional_parity, "TOLERANCE", SIXTHS)
        monkeypatch.setattr(test_modules_parity, "TOLERANCE", SIXTHS)


@pytest.mark.parametrize(("name", "options"), FUNCTIONS)
def test_functions(name, options):
    compare(name, normal(4, 6) * 3, second_order=name not in STRAIGHT, **options)


@pytest.mark.parametrize(("name", "options"), [f for f in FUNCTIONS if f[0] not in ("glu", "softmin")])
def test_kinks_and_far_out(name, options):
    """Values there, and first derivatives, which at a kink are a choice."""
    x = np.array([-1e4, -100.0, -6.0, -3.0, -1.0, -0.5, 0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 6.0, 100.0, 1e4, np.nan])
    mine, other = tt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    out = getattr(nn.functional, name)(mine, **options)
    expected = getattr(theirs, name)(other, **options)
    close(out, expected)
    finite = slice(0, 15)
    out[finite].sum().backward()
    expected[finite].sum().backward()
    close(mine.grad[finite], other.grad[finite])


@pytest.mark.parametrize(("shape", "slopes"), [((4, 3), 3), ((4, 3, 2), 3), ((2, 3, 4, 5), 3), ((4, 3), 1), ((5,), 1)])
def test_prelu(shape, slopes):
    compare("prelu", normal(*shape), normal(slopes, seed=1))


MODULES = [
    lambda nn: nn.SiLU(), lambda nn: nn.Mish(), lambda nn: nn.Hardsigmoid(), lambda nn: nn.Hardswish(),
    lambda nn: nn.SELU(), lambda nn: nn.ReLU6(), lambda nn: nn.LogSigmoid(), lambda nn: nn.Softsign(),
    lambda nn: nn.Tanhshrink(), lambda nn: nn.ELU(), lambda nn: nn.ELU(0.5), lambda nn: nn.CELU(2.0),
    lambda nn: nn.LeakyReLU(0.2), lambda nn: nn.Softplus(), lambda nn: nn.Softplus(2.0, 3.0),
    lambda nn: nn.Hardtanh(-2.0, 0.5), lambda nn: nn.Threshold(0.1, 20.0), lambda nn: nn.Hardshrink(0.2),
    lambda nn: nn.Softshrink(), lambda nn: nn.GLU(), lambda nn: nn.GLU(0), lambda nn: nn.Softmin(1),
    lambda nn: nn.PReLU(), lambda nn: nn.PReLU(6, 0.1),
]  # fmt: skip


@pytest.mark.parametrize("make", MODULES, ids=[repr(make(nn)) for make in MODULES])
def test_modules(make):
    ours, other = pair(make, dtype=False)
    assert repr(ours) == repr(other)
    compare_modules(ours, other, [normal(4, 6)])
