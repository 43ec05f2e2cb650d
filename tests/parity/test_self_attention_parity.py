"""What came after 2017, beside the same written with PyTorch: outputs and all gradients."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")

TOLERANCE = 1e-10
LENGTH, D_MODEL, HEADS, SIZE = 7, 24, 4, 6


def turned(x, pairing, base):
    """Rotary positions as a product of complex numbers."""
    angles = torch.arange(LENGTH).double()[:, None] * base ** (-torch.arange(0, SIZE, 2).double() / SIZE)
    turns = torch.polar(torch.ones_like(angles), angles)
    if pairing == "interleaved":
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turns).flatten(-2)
    product = torch.complex(*x.chunk(2, dim=-1)) * turns
    return torch.cat([product.real, product.imag], dim=-1)


def theirs(ours, x, kv, pairing, qk_norm, mask, added):
    """The same attention with PyTorch's own functions."""
    weights = {name: torch.tensor(p.detach().numpy(), requires_grad=True) for name, p in ours.named_parameters()}
    linear = torch.nn.functional.linear
    projected = linear(x, weights["in_proj.weight"], weights.get("in_proj.bias"))
    counts = HEADS, kv, kv
    parts = projected.split([count * SIZE for count in counts], dim=-1)
    q, k, v = (part.unflatten(-1, (count, SIZE)).transpose(1, 2) for part, count in zip(parts, counts))
    if qk_norm is not None:
        q = torch.nn.functional.rms_norm(q, (SIZE,), weights["q_norm.weight"], qk_norm)
        k = torch.nn.functional.rms_norm(k, (SIZE,), weights["k_norm.weight"], qk_norm)
    if pairing is not None:
        q, k = turned(q, pairing, 500.0), turned(k, pairing, 500.0)
    bias = torch.zeros(mask.shape).double().masked_fill(mask, -torch.inf) + added
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, enable_gqa=True)
    return linear(heads.transpose(1, 2).flatten(2), weights["out_proj.weight"], weights.get("out_proj.bias")), weights


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
    out_theirs, weights = theirs(ours, x_theirs, kv, pairing, qk_norm, mask, added)
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
    up, gate, down = (torch.tensor(getattr(ours, part).weight.detach().numpy()) for part in ("up", "gate", "down"))
    both = torch.nn.functional.linear(torch.tensor(array), torch.cat([gate, up]))
    first, second = both.chunk(2, dim=-1)
    expected = torch.nn.functional.linear(torch.nn.functional.silu(first) * second, down)
    np.testing.assert_allclose(ours(tt.asarray(array)).detach().numpy(), expected.numpy(), atol=TOLERANCE)
