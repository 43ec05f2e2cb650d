"""Mixed precision: which dtypes compute what, and a scale that keeps small gradients alive."""

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.nn.amp import GradScaler, autocast

from ..engine_room import room


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def layer(device=None):
    tt.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, device=device)


def test_products_in_16_bits_and_sums_in_32(device):
    x = tt.asarray(normal(2, 3, 8), device=device)
    weight = tt.asarray(normal(4, 8, seed=1), device=device)
    half = tt.astype(x, tt.float16)
    with autocast(device):
        assert F.linear(x, weight).dtype == tt.float16
        assert F.scaled_dot_product_attention(x, x, x).dtype == tt.float16
        assert F.relu(half).dtype == tt.float16
        for function in (F.softmax, F.log_softmax, lambda h: F.layer_norm(h, 8), lambda h: F.mse_loss(h, h)):
            assert function(half).dtype == tt.float32
        assert F.cross_entropy(half[0], tt.asarray([0, 1, 2], device=device)).dtype == tt.float32
        with autocast(device, enabled=False):
            assert F.linear(x, weight).dtype == tt.float32
        assert F.linear(x, weight).dtype == tt.float16
    assert F.linear(x, weight).dtype == tt.float32


def test_tensors_of_another_device_stay_as_they_are():
    x = tt.asarray(normal(2, 8))
    with autocast("gpu"):
        assert F.linear(x, x).dtype == tt.float32


def test_weights_and_gradients_stay_in_32_bits(device):
    model, x = layer(device), tt.asarray(normal(2, 5, 8), device=device)
    expected = model(x)
    (expected**2).sum().backward()
    wanted = [p.grad.numpy() for p in model.parameters()]
    model.zero_grad()
    with autocast(device):
        out = model(x)
        loss = (out**2).sum()
    loss.backward()
    assert out.dtype == tt.float32  # the layer ends in a normalisation
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), atol=1e-2)
    for parameter, gradient in zip(model.parameters(), wanted):
        assert parameter.dtype == parameter.grad.dtype == tt.float32
        np.testing.assert_allclose(parameter.grad.numpy(), gradient, atol=2e-2 * max(1.0, np.abs(gradient).max()))


def test_threads_of_a_step_are_told(monkeypatch):
    if threads := room("fast.threads"):
        monkeypatch.setattr(threads, "_threads", 2)
    weight, x = tt.tensor(normal(4, 8), requires_grad=True), tt.asarray(normal(3, 8))
    seen = []

    def loss():
        out = F.linear(x, weight)
        seen.append(out.dtype)
        return out.sum()

    with autocast("cpu"):
        nn.parallel.backward_of_sum([loss, loss], [weight])
    assert seen == [tt.float16, tt.float16]


@pytest.mark.parametrize("wrong", [{"device_type": "tpu"}, {"dtype": tt.float32}, {"dtype": "bfloat16"}])
def test_what_autocast_refuses(wrong):
    with pytest.raises(ValueError, match="autocast: d"):
        autocast(**wrong)


def test_bfloat16_on_the_cpu_rounds_products_within_it(loops, monkeypatch):
    monkeypatch.setenv("TINYTENSOR_MEDIUM", "bfloat16")
    half_products = pytest.importorskip("tinytensor.fast.half_products")
    if not half_products.CAN:
        pytest.skip("this processor has no AVX512_BF16")
    rng = np.random.default_rng(0)
    x, weight = (tt.asarray(rng.standard_normal((128, 128), dtype=np.float32)) for _ in range(2))
    exact = F.linear(x, weight).numpy()
    with autocast("cpu", "bfloat16"):
        assert tt.get_float32_matmul_precision() == "medium"
        rounded = F.linear(x, weight)
        with autocast("cpu", "bfloat16", enabled=False):
            np.testing.assert_array_equal(F.linear(x, weight).numpy(), exact)
        with autocast("cpu"):
            assert tt.get_float32_matmul_precision() == "medium"
        np.testing.assert_array_equal(F.linear(x, weight).numpy(), rounded.numpy())
    assert (tt.get_float32_matmul_precision(), rounded.dtype) == ("highest", tt.float32)
    assert 1e-4 < np.abs(rounded.numpy() - exact).max() / np.abs(exact).max() < 1e-2
    np.testing.assert_array_equal(F.linear(x, weight).numpy(), exact)


# ---- the scale


def test_small_gradients_survive():
    """A gradient below 6e-8 is 0 in float16."""
    weight, x = tt.tensor(np.full((1, 1), 1e-3, np.float32), requires_grad=True), tt.asarray([[1e-5]], dtype=tt.float32)
    found = []
    for scaler in (GradScaler(enabled=False), GradScaler()):
        weight.grad = None
        optimizer = nn.optim.SGD([weight], lr=1.0)
        with autocast("cpu"):
            loss = tt.astype(F.linear(x, weight), tt.float32).sum() * 1e-3
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found.append(weight.grad.item())
    assert found == [0.0, pytest.approx(1e-8, rel=1e-2)]


def step_of(scaler, optimizer, weight, gradient):
    weight.grad = tt.tensor([gradient * scaler.get_scale()], dtype=tt.float32)
    scaler.step(optimizer)
    scaler.update()


def test_the_scale_follows_what_it_meets():
    weight = tt.tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([weight], lr=0.1)
    scaler = GradScaler(init_scale=8.0, growth_interval=2)
    history = []
    for gradient in (1.0, 1.0, np.inf, 1.0, np.nan, 1.0, 1.0):
        step_of(scaler, optimizer, weight, gradient)
        history.append((scaler.get_scale(), round(weight.item(), 6)))
    assert history == [(8.0, 0.9), (16.0, 0.8), (8.0, 0.8), (8.0, 0.7), (4.0, 0.7), (4.0, 0.6), (8.0, 0.5)]


def test_gradients_can_be_clipped_in_between():
    weight = tt.tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([weight], lr=1.0)
    scaler = GradScaler(init_scale=1024.0)
    scaler.scale((weight * 4.0).sum()).backward()
    scaler.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_([weight], 0.5).item() == 4.0
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == pytest.approx(0.5)


def test_it_goes_on_from_its_state():
    weight = tt.tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([weight], lr=0.1)
    one = GradScaler(init_scale=8.0, growth_interval=3)
    step_of(one, optimizer, weight, 1.0)
    step_of(one, optimizer, weight, 1.0)
    other = GradScaler()
    other.load_state_dict(one.state_dict())
    for scaler in (one, other):
        step_of(scaler, optimizer, weight, 1.0)
    assert one.state_dict() == other.state_dict()
    assert one.get_scale() == 16.0
    with pytest.raises(ValueError, match="load_state_dict expects"):
        other.load_state_dict({"scale": 1.0})


def test_without_scaling_it_does_nothing_else():
    weight = tt.tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([weight], lr=0.5)
    scaler = GradScaler(enabled=False)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (weight.item(), scaler.get_scale(), scaler.state_dict()) == (0.5, 1.0, {})


def test_mistakes_are_told():
    weight = tt.tensor([1.0], requires_grad=True)
    optimizer, scaler = nn.optim.SGD([weight], lr=0.5), GradScaler()
    with pytest.raises(RuntimeError, match="update\\(\\) without a step"):
        scaler.update()
    weight.sum().backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_ was already called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step was already called"):
        scaler.step(optimizer)
    with pytest.raises(ValueError, match="device must be"):
        GradScaler(2.0**10)
    with pytest.raises(ValueError, match="growth_factor > 1"):
        GradScaler(growth_factor=0.5)


def test_autocast_decorates_functions():
    x = tt.asarray(normal(2, 8))
    assert autocast("cpu")(lambda: F.linear(x, x))().dtype == tt.float16
    assert F.linear(x, x).dtype == tt.float32


@pytest.mark.parametrize("length", [4, 1100])
def test_large_scores_do_not_overflow(length):
    """Products of 83,000 before they are scaled; softmax is in 32 bits, whatever the length."""
    x = tt.tensor(np.full((1, length, 64), 36.0, np.float32), requires_grad=True)
    with autocast("cpu"):
        out = F.scaled_dot_product_attention(x, x, x)
    np.testing.assert_array_equal(out.detach().numpy(), 36.0)
    tt.astype(out, tt.float32).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_masks_that_float16_cannot_hold():
    x = tt.asarray(normal(3, 4))
    mask = np.where(np.eye(3, dtype=bool), 0.0, -1e9).astype(np.float32)
    with autocast("cpu"):
        out = F.scaled_dot_product_attention(x, x, x, tt.asarray(mask))
    np.testing.assert_allclose(out.numpy(), x.numpy(), atol=1e-3)
