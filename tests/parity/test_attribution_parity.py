"""Attribution beside the same written in PyTorch, as captum defines it: the same steps, weights and sums."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.attribution import gradient_times_input, integrated_gradients

torch = pytest.importorskip("torch")


@pytest.fixture
def pair():
    """An encoder layer and a score of it, here and in PyTorch, with the same weights."""
    tt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True).double()
    other = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True).double()
    other.load_state_dict({name: torch.tensor(value.numpy()) for name, value in layer.state_dict().items()})
    x, start = np.random.default_rng(1).normal(size=(2, 1, 5, 8))
    return (lambda e: nn.functional.log_softmax(layer(e)[0, -1], dim=-1)[3], tt.asarray(x), tt.asarray(start)), (
        lambda e: torch.log_softmax(other(e)[0, -1], dim=-1)[3], torch.tensor(x), torch.tensor(start),
    )  # fmt: skip


def gradient(output, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(output(x), x)[0]


def test_gradient_times_input(pair):
    (output, x, _), (theirs, their_x, _) = pair
    expected = (their_x * gradient(theirs, their_x)).sum(-1)
    np.testing.assert_allclose(gradient_times_input(output, x)[0].numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 7, 50])
@pytest.mark.parametrize("given", [True, False])
def test_integrated_gradients(pair, steps, given):
    """captum: method "gausslegendre", 50 steps and a baseline of zeros by default, as layer attributions sum."""
    (output, x, start), (theirs, their_x, their_start) = pair
    their_start = their_start if given else torch.zeros_like(their_x)
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = sum(
        weight / 2 * gradient(theirs, their_start + (1 + point) / 2 * (their_x - their_start))
        for point, weight in zip(points, weights)
    )
    expected = ((their_x - their_start) * total).sum(-1)
    found = integrated_gradients(output, x, baselines=[start] if given else None, steps=steps)[0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)
