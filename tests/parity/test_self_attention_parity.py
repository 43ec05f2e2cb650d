"""What came after 2017, beside the same written with PyTorch: outputs and all gradients."""

import importlib

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")
layers = importlib.import_module("tests.parity.torch_layers")

TOLERANCE = 1e-10
LENGTH, D_MODEL, HEADS, SIZE = 7, 24, 4, 6


@pytest.mark.parametrize("kv", [4, 2, 1])
@pytest.mark.parametrize("pairing", [None, "half", "interleaved"])
@pytest.mark.parametrize("qk_norm", [None, 1e-6])
@pytest.mark.parametrize("kind", ["causal", "window", "alibi"])
def test_self_attention(kv, pairing, qk_norm, kind):
    tt.manual_seed(0)
    options = {"head_dim": SIZE, "pairing": pairing or "half", "qk_norm": qk_norm, "bias": kv != 1}
    ours = nn.SelfAttention(D_MODEL, HEADS, kv, **options).double()
    array = np.random.default_rng(0).normal(size=(2, LENGTH, D_MODEL))
    x, x_theirs = tt.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    place = torch.arange(LENGTH)
    distance = place[:, None] - place
    mask, added = distance < 0, torch.zeros(()).double()
    own: tt.Tensor = F.causal_mask(LENGTH)
    if kind == "window":
        mask, own = mask | (distance >= 3), F.sliding_window_mask(LENGTH, 3)
    elif kind == "alibi":
        added = -torch.tensor([0.25, 0.0625, 2**-6, 2**-8]).double()[:, None, None] * distance
        own = tt.masked_fill(F.alibi(tt.asarray(distance.numpy()), HEADS, dtype=tt.float64), own, -tt.inf)
    rotation = None if pairing is None else F.rotary_angles(tt.arange(LENGTH), SIZE, 500.0, dtype=tt.float64)
    out = ours(x, own, rotation)
    added = torch.zeros(mask.shape).double().masked_fill(mask, -torch.inf) + added
    out_theirs, weights = layers.self_attention(ours, x_theirs, added, None if pairing is None else 500.0)
    np.testing.assert_allclose(out.detach().numpy(), out_theirs.detach().numpy(), atol=TOLERANCE)
    g = np.random.default_rng(1).normal(size=out.shape)
    out.backward(tt.asarray(g))
    out_theirs.backward(torch.tensor(g))
    np.testing.assert_allclose(x.grad.numpy(), x_theirs.grad.numpy(), atol=TOLERANCE)
    for name, parameter in ours.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), weights[name].grad.numpy(), atol=TOLERANCE, err_msg=name)


def test_swiglu():
    ours = nn.FeedForward(4, 6, "swiglu", bias=False).double()
    array = np.random.default_rng(0).normal(size=(2, 3, 4))
    expected, _ = layers.swiglu(ours, torch.tensor(array))
    np.testing.assert_allclose(ours(tt.asarray(array)).detach().numpy(), expected.detach().numpy(), atol=TOLERANCE)
