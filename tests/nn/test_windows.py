"""Padding, windows, pools, normalisation of channels and what changes shapes: on every device, and their mistakes."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NUMPY)
def test_pad_is_that_of_numpy(mode, device):
    x = normal(2, 4, 5)
    found = F.pad(tt.asarray(x, device=device), (1, 3, 0, 2), mode)
    assert found.device == device
    np.testing.assert_array_equal(found.numpy(), np.pad(x, ((0, 0), (0, 2), (1, 3)), NUMPY[mode]))


@pytest.mark.parametrize("mode", NUMPY)
def test_derivatives_of_pad(mode, device):
    x = tt.tensor(normal(2, 3, 4), requires_grad=True, device=device)
    assert tt.gradcheck(lambda x: F.pad(x, (2, 1), mode) ** 2, [x])
    assert tt.gradgradcheck(lambda x: F.pad(x, (2, 1), mode) ** 3, [x])


def test_a_convolution_is_a_product_with_unfolded_windows(device):
    x, weight = tt.asarray(normal(2, 3, 6, 5), device=device), tt.asarray(normal(4, 3, 2, 3, seed=1), device=device)
    columns = F.unfold(x, (2, 3), padding=1, stride=(2, 1))
    product = (weight.reshape(4, -1) @ columns).reshape(2, 4, 4, 5)
    found = F.conv2d(x, weight, padding=1, stride=(2, 1))
    np.testing.assert_allclose(found.numpy(), product.numpy(), rtol=0, atol=1e-12)


def test_derivatives_of_means_and_norms(device):
    x = tt.tensor(normal(2, 4, 4, 4), requires_grad=True, device=device)
    weight, bias = (tt.tensor(normal(4, seed=i), requires_grad=True, device=device) for i in (1, 2))
    assert tt.gradcheck(lambda x: F.avg_pool2d(x, 2, 1), [x])
    assert tt.gradcheck(lambda x: F.adaptive_avg_pool2d(x, 3), [x])
    batch = lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)  # noqa: E731
    for function in (batch, lambda x, w, b: F.group_norm(x, 2, w, b)):
        assert tt.gradcheck(function, [x, weight, bias])
        assert tt.gradgradcheck(function, [x, weight, bias])


def test_equal_numbers_of_a_window_share_the_gradient(device):
    x = tt.tensor([[[1.0, 1.0, 0.0, 2.0]]], requires_grad=True, device=device)
    F.max_pool1d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[0.5, 0.5, 0.0, 1.0]]]


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
def test_dtypes_stay(dtype, device):
    x = tt.full((2, 4, 6, 6), 300.0, dtype=dtype, device=device).requires_grad_()
    for function in (
        lambda x: F.pad(x, (1, 1)), lambda x: F.pad(x, (1, 1), "reflect"), lambda x: F.unfold(x, 2),
        lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 4),
        nn.BatchNorm2d(4, device=device, dtype=dtype), nn.GroupNorm(2, 4, device=device, dtype=dtype),
        nn.Conv2d(4, 2, 3, device=device, dtype=dtype), lambda x: F.dropout2d(x, 0.5),
    ):  # fmt: skip
        x.grad = None
        out = function(x)
        out.backward(tt.ones_like(out))
        assert (out.dtype, x.grad.dtype, out.device) == (dtype, dtype, device)
        assert bool(tt.all(tt.isfinite(out)))


def test_a_batch_norm_on_every_device(device):
    layer = nn.BatchNorm1d(3, device=device)
    x = tt.asarray(normal(8, 3).astype(np.float32) * 2 + 1, device=device)
    for _ in range(200):
        out = layer(x)
    np.testing.assert_allclose(out.detach().numpy().mean(axis=0), np.zeros(3), atol=1e-6)
    np.testing.assert_allclose(layer.running_mean.numpy(), x.numpy().mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), x.numpy().var(axis=0, ddof=1), rtol=1e-5)
    assert layer.num_batches_tracked.item() == 200
    before = layer.running_mean.numpy().copy()
    layer.eval()(x + 5)
    np.testing.assert_array_equal(layer.running_mean.numpy(), before)
    layer.reset_running_stats()
    assert layer.running_var.tolist() == [1, 1, 1]


def test_dropout_of_channels_leaves_or_takes_whole_ones(device):
    x = tt.ones((50, 20, 3, 2), device=device)
    out = F.dropout2d(x, 0.25).numpy()
    np.testing.assert_array_equal(out, np.broadcast_to(out[:, :, :1, :1], out.shape))
    assert set(np.unique(out)) <= {0, np.float32(4 / 3)}
    assert abs((out[:, :, 0, 0] == 0).mean() - 0.25) < 0.07
    for layer, shape in ((nn.Dropout1d(), (4, 3, 5)), (nn.Dropout1d(), (3, 5)), (nn.Dropout2d(), (3, 5, 5))):
        y = tt.ones(shape, device=device)
        assert set(np.unique(layer(y).numpy())) <= {0, 2}
        assert layer.eval()(y) is y


IMAGE = tt.ones((2, 4, 6, 6))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F.pad(IMAGE, (1,)), ValueError, r"pad: expected a pair for each axis, the last first, got \(1,\)"),
        (lambda: F.pad(tt.ones(3), (1, 1, 1, 1)), ValueError, r"for shape \(3,\)"),
        (lambda: F.pad(IMAGE, (1, 1), "mirror"), ValueError, "pad: mode must be one of constant, .* got 'mirror'"),
        (lambda: F.pad(IMAGE, (6, 0), "reflect"), ValueError, "'reflect' can add at most 5 to an axis of 6, got 6"),
        (lambda: F.pad(IMAGE, (7, 0), "circular"), ValueError, "'circular' can add at most 6 to an axis of 6"),
        (lambda: F.pad(IMAGE, (1, 1), "reflect", 2.0), ValueError, "a value is for mode 'constant', got 2.0"),
        (lambda: F.pad(IMAGE, (-4, -3)), ValueError, "takes away more than there is"),
        (lambda: F.unfold(tt.ones((4, 4)), 2), ValueError, r"unfold: expected \(batch, channels, .* got \(4, 4\)"),
        (lambda: F.unfold(IMAGE, 7), ValueError, "unfold: 7 positions, 1 apart, do not fit into an input of height 6"),
        (lambda: F.conv2d(IMAGE, tt.ones((3, 4, 3))), ValueError, r"conv2d: .*weight .*got .* and \(3, 4, 3\)"),
        (lambda: F.conv2d(IMAGE, tt.ones((3, 5, 3, 3))), ValueError, "conv2d: input .* has 4 channels"),
        (lambda: F.conv2d(IMAGE, tt.ones((3, 4, 3, 7))), ValueError, "do not fit into an input of width 6"),
        (lambda: F.conv2d(IMAGE, tt.ones((3, 4, 3, 3)), stride=(1, 2, 3)), TypeError, "a sequence of two, got"),
        (lambda: nn.Conv2d(4, 6, 3, padding_mode="reflect"), ValueError, "padding_mode must be 'zeros', .*'reflect'"),
        (lambda: F.max_pool2d(IMAGE, 2, ceil_mode=True), ValueError, "max_pool2d: ceil_mode is left out; put F.pad in"),
        (lambda: nn.AvgPool1d(2, ceil_mode=True), ValueError, "AvgPool1d: ceil_mode is left out"),
        (lambda: nn.MaxPool1d(2, return_indices=True), ValueError, "MaxPool1d: return_indices is left out; tt.argmax"),
        (lambda: F.max_pool2d(IMAGE, 2, padding=2), ValueError, r"max_pool2d: padding must be at most half of kernel"),
        (
            lambda: F.max_pool2d(tt.ones((2, 2)), 2),
            ValueError,
            r"expected floats of .* float32 of shape \(2, 2\)",
        ),
        (lambda: F.avg_pool1d(tt.arange(6)[None], 2), ValueError, "avg_pool1d: expected floats .* got int64"),
        (lambda: F.adaptive_avg_pool2d(IMAGE, (1, 2, 3)), TypeError, "output_size must be an integer, or a sequence"),
        (lambda: nn.BatchNorm1d(4)(IMAGE), ValueError, r"BatchNorm1d: expected \(batch, channels\) or .* 4 channels"),
        (lambda: nn.BatchNorm2d(3)(IMAGE), ValueError, "with 3 channels, got"),
        (lambda: nn.BatchNorm1d(4)(tt.ones((1, 4))), ValueError, "it takes more than one number for each channel"),
        (lambda: F.batch_norm(IMAGE, None, None), ValueError, "there is training=True only"),
        (lambda: F.group_norm(IMAGE, 3), ValueError, "num_groups to divide the channels; got .* and 3"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "num_groups must divide num_channels, got 3 and 4"),
        (lambda: nn.Flatten(2, 1)(IMAGE), ValueError, "start_dim 2 is behind end_dim 1"),
        (lambda: nn.Unflatten(1, (3, 2))(IMAGE), ValueError, "reshape"),
        (lambda: F.dropout2d(tt.ones((3, 3))), ValueError, "dropout2d: expected 4 dimensions, or 3 without a batch"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()
