"""Convolution over sequences: its formula, its gradients, what is the same as Linear, and its errors."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def reference(x, weight, bias, stride, before, after, dilation, groups):
    """Number by number, as it is defined."""
    x = np.pad(x, ((0, 0), (0, 0), (before, after)))
    out_channels, part, size = weight.shape
    length = (x.shape[-1] - dilation * (size - 1) - 1) // stride + 1
    y = np.zeros((len(x), out_channels, length))
    for n, o, t in np.ndindex(*y.shape):
        first = o // (out_channels // groups) * part
        y[n, o, t] = bias[o] + sum(
            weight[o, c, j] * x[n, first + c, t * stride + j * dilation] for c in range(part) for j in range(size)
        )
    return y


@pytest.mark.parametrize(("stride", "padding"), list(itertools.product((1, 2, 3), (0, 2, 5))))
@pytest.mark.parametrize(("dilation", "groups", "size"), [(1, 1, 3), (2, 1, 3), (1, 2, 2), (3, 4, 2), (1, 2, 1)])
def test_it_is_the_formula(stride, padding, dilation, groups, size, device):
    x, weight, bias = normal(2, 4, 9), normal(8, 4 // groups, size, seed=1), normal(8, seed=2)
    found = F.conv1d(*(tt.asarray(a, device=device) for a in (x, weight, bias)), stride, padding, dilation, groups)
    assert found.device == device
    expected = reference(x, weight, bias, stride, padding, padding, dilation, groups)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("size", "dilation", "before", "after"), [(1, 1, 0, 0), (3, 1, 1, 1), (4, 1, 1, 2), (2, 3, 1, 2), (2, 1, 0, 1)]
)
def test_same_keeps_the_length_with_the_odd_zero_behind(size, dilation, before, after):
    x, weight, bias = normal(2, 3, 7), normal(5, 3, size, seed=1), normal(5, seed=2)
    found = F.conv1d(*map(tt.asarray, (x, weight, bias)), padding="same", dilation=dilation)
    assert found.shape == (2, 5, 7)
    np.testing.assert_allclose(
        found.numpy(), reference(x, weight, bias, 1, before, after, dilation, 1), rtol=0, atol=1e-12
    )


def test_valid_is_no_padding_and_a_batch_is_not_needed():
    x, weight = tt.asarray(normal(3, 7)), tt.asarray(normal(5, 3, 2, seed=1))
    found = F.conv1d(x, weight, padding="valid")
    assert found.shape == (5, 6)
    np.testing.assert_array_equal(found.numpy(), F.conv1d(x[None], weight, padding=(0,), stride=[1]).numpy()[0])


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"padding": "same", "dilation": 2}, {"groups": 2, "padding": 2}]
)
def test_its_derivatives(options, device):
    groups = options.get("groups", 1)
    arrays = normal(2, 4, 5), normal(2, 4 // groups, 3, seed=1), normal(2, seed=2)
    inputs = [tt.tensor(a, requires_grad=True, device=device) for a in arrays]
    assert tt.gradcheck(lambda *x: F.conv1d(*x, **options), inputs)
    assert tt.gradgradcheck(lambda *x: F.conv1d(*x, **options), inputs)


def test_with_kernel_size_1_it_is_linear_at_every_position():
    """The feed-forward network as two convolutions (Vaswani et al. 2017, section 3.3)."""
    x = tt.asarray(normal(2, 6, 4))  # (batch, length, features)
    linear, convolution = nn.Linear(4, 8).double(), nn.Conv1d(4, 8, 1).double()
    with tt.no_grad():
        convolution.weight.copy_(linear.weight[:, :, None])
        convolution.bias.copy_(linear.bias)
    np.testing.assert_allclose(convolution(x.mT).mT.detach().numpy(), linear(x).detach().numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
def test_dtypes_stay(dtype, device):
    layer = nn.Conv1d(4, 6, 3, padding="same", device=device, dtype=dtype)
    x = tt.ones((2, 4, 5), dtype=dtype, device=device).requires_grad_()
    out = layer(x)
    out.sum().backward()
    assert {out.dtype, x.grad.dtype, layer.weight.grad.dtype, layer.bias.grad.dtype} == {np.dtype(dtype)}


def test_under_autocast_it_computes_in_16_bits():
    x, layer = tt.ones((2, 4, 5)), nn.Conv1d(4, 6, 3)
    with nn.amp.autocast("cpu", dtype=tt.float16):
        assert layer(x).dtype is tt.float16


def test_a_kernel_as_long_as_the_input_gives_one_position():
    x, weight = normal(4, 3), normal(2, 4, 3, seed=1)
    found = F.conv1d(tt.asarray(x), tt.asarray(weight))
    np.testing.assert_allclose(found.numpy(), (weight * x).sum(axis=(1, 2))[:, None], rtol=1e-12)


def test_nothing_in_the_batch():
    assert F.conv1d(tt.ones((0, 4, 5)), tt.ones((2, 4, 3))).shape == (0, 2, 3)


@pytest.mark.parametrize("where", ["input", "weight"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 4, 9), {"padding": 1}),
        ((2, 4, 7, 9), {}),
        ((2, 4, 7, 9), {"padding": 2, "dilation": 2, "groups": 2}),
        ((2, 4, 9, 7), {"stride": 2, "padding": 1}),
        ((8, 4, 24, 24), {}),
        ((8, 4, 25, 23), {"stride": 2, "groups": 2}),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_reaches_no_more_than_by_the_formula(shape, options, value, where):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=shape), rng.normal(size=(6, 4 // options.get("groups", 1), *[3] * (len(shape) - 2)))
    (x if where == "input" else weight).reshape(-1)[7] = value
    convolve = F.conv1d if len(shape) == 3 else F.conv2d

    def spoilt():
        given = [tt.tensor(a.astype(np.float32), requires_grad=True) for a in (x, weight, np.ones(6))]
        out = convolve(*given, **options)
        out.backward(tt.ones(out.shape))
        return [~np.isfinite(a.numpy()) for a in (out.detach(), *(one.grad for one in given))]

    found = spoilt()
    with tt.textbook():
        expected = spoilt()
    for ours, theirs in zip(found, expected):
        np.testing.assert_array_equal(ours, theirs)
    assert not all(part.all() for part in expected)


def test_its_recorded_product_is_one_matmul():
    layer = nn.Conv1d(4, 6, 3, padding=1)
    with tt.textbook(), tt.record() as graph:
        layer(tt.ones((2, 4, 5)))
    assert [op.name for op in graph.ops].count("matmul") == 1


# ---- mistakes

X, W = (2, 4, 9), (8, 4, 3)


@pytest.mark.parametrize(
    ("shapes", "options", "error", "words"),
    [
        ([(2, 3, 9), W], {}, ValueError, r"input \(2, 3, 9\) has 3 channels, weight \(8, 4, 3\) is for 4 of them in 1"),
        ([X, W], {"groups": 2}, ValueError, "is for 8 of them in 2 groups"),
        ([X, (7, 2, 3)], {"groups": 2}, ValueError, "2 groups, which divide its 7 out_channels"),
        ([(9,), W], {}, ValueError, r"expected an input \(batch, in_channels, length\).* got \(9,\) and \(8, 4, 3\)"),
        ([X, (8, 4)], {}, ValueError, r"and a weight .* got \(2, 4, 9\) and \(8, 4\)"),
        ([X, (8, 4, 0)], {}, ValueError, "none of them 0"),
        ([X, W, (7,)], {}, ValueError, r"bias \(7,\) must be \(8,\)"),
        (
            [(2, 4, 2), W],
            {},
            ValueError,
            r"3 positions, 1 apart, do not fit into an input of length 2 with 0 \+ 0 zeros",
        ),
        ([X, W], {"stride": 0}, ValueError, "stride must be at least 1, got 0"),
        ([X, W], {"dilation": (0,)}, ValueError, "dilation must be at least 1, got 0"),
        ([X, W], {"padding": -1}, ValueError, "padding must be at least 0, got -1"),
        ([X, W], {"stride": (2, 2)}, TypeError, r"stride must be an integer, or a sequence of one, got \(2, 2\)"),
        ([X, W], {"padding": 1.0}, TypeError, "padding must be an integer"),
        ([X, W], {"padding": "full"}, ValueError, "padding must be 'same', 'valid' or an integer, got 'full'"),
        ([X, W], {"padding": "same", "stride": 2}, ValueError, "padding='same' needs stride 1, got 2"),
    ],
)
def test_the_function_names_what_does_not_fit(shapes, options, error, words):
    with pytest.raises(error, match=f"conv1d: .*{words}"):
        F.conv1d(*map(tt.ones, shapes), **options)


def test_integers_are_refused():
    with pytest.raises(TypeError, match=r"conv1d: expected floats, got int64 of shape \(2, 4, 9\)"):
        F.conv1d(tt.ones(X, dtype=tt.int64), tt.ones(W))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((4, 8, 3), {"groups": 3}, ValueError, "groups must divide in_channels and out_channels"),
        ((4, 7, 3), {"groups": 2}, ValueError, "groups must divide in_channels and out_channels"),
        ((4, 8, 3), {"groups": 0}, ValueError, "got groups 0"),
        ((0, 8, 3), {}, ValueError, "in_channels 0"),
        ((4, 8, 0), {}, ValueError, "kernel_size must be at least 1, got 0"),
        ((4, 8, (3, 3)), {}, TypeError, "kernel_size must be an integer, or a sequence of one"),
        ((4.0, 8, 3), {}, TypeError, "in_channels must be an integer, got 4.0"),
        ((4, 8, 3), {"padding": "full"}, ValueError, "padding must be 'same', 'valid' or an integer"),
        ((4, 8, 3), {"padding": "same", "stride": 2}, ValueError, "padding='same' needs stride 1"),
        ((4, 8, 3), {"padding_mode": "circular"}, ValueError, "padding_mode must be 'zeros', .* got 'circular'"),
    ],
)
def test_the_layer_names_what_does_not_fit(arguments, options, error, words):
    with pytest.raises(error, match=f"Conv1d: .*{words}"):
        nn.Conv1d(*arguments, **options)


def test_a_model_of_convolutions_learns():
    tt.manual_seed(0)
    x = tt.random.randn(8, 1, 12)
    target = x[:, :, 2:] - x[:, :, :-2]
    layer = nn.Conv1d(1, 1, 3)
    optimizer = nn.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(200):
        loss = F.mse_loss(layer(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[[-1, 0, 1]]], rtol=0, atol=0.01)
