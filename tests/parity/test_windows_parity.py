"""Convolution, pooling, padding and unfolding beside PyTorch: values, gradients, second derivatives, modules."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

from .test_functional_parity import close, compare, normal, ours, theirs, torch
from .test_modules_parity import compare as compare_modules
from .test_modules_parity import pair


def linear(*arguments, **options):
    """Functions whose first derivative is constant, so that there is no second."""
    compare(*arguments, second_order=False, **options)


CONVOLUTIONS = [
    {}, {"padding": 1}, {"stride": 2, "padding": 2}, {"stride": (1, 2), "padding": (2, 0)}, {"dilation": (2, 1)},
    {"padding": "same", "dilation": 2}, {"padding": "valid"}, {"groups": 2}, {"groups": 2, "stride": 2, "padding": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize("kernel", [(3, 3), (2, 3), (1, 1)])
def test_conv2d(options, kernel):
    weight = normal(4, 4 // options.get("groups", 1), *kernel, seed=1)
    compare("conv2d", normal(2, 4, 6, 5), weight, normal(4, seed=2), **options)
    compare("conv2d", normal(4, 6, 5), weight, None, **options)


def test_one_filter_a_channel():
    compare("conv2d", normal(2, 3, 5, 5), normal(6, 1, 3, 3, seed=1), normal(6, seed=2), groups=3, padding=1)
    compare("conv1d", normal(2, 3, 5), normal(6, 1, 3, seed=1), normal(6, seed=2), groups=3, padding=1)


MODES = ("constant", "reflect", "replicate", "circular")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "widths"), [((2, 3, 5), (2, 1)), ((2, 3, 4, 5), (1, 2, 3, 0)), ((2, 3, 4, 5), (0, 2)), ((3, 5), (4, 4))]
)
def test_pad(shape, widths, mode):
    if mode != "constant" and (len(widths) == 2) == (len(shape) == 4):
        pytest.skip("PyTorch pads the last two axes of images only")
    linear("pad", normal(*shape), pad=widths, mode=mode)


def test_pad_of_other_numbers_and_of_fewer_positions():
    linear("pad", normal(2, 3, 4), pad=(1, 0, 0, 2, 1, 1), value=0.5)
    linear("pad", normal(3, 5), pad=(-1, 2, 1, -2))
    linear("pad", normal(3, 5), pad=(-1, -1), value=2.0)
    linear("pad", normal(2, 3, 4, 5), pad=(-1, 1, 2, -1), mode="circular")
    assert ours.pad(tt.arange(3), (1, 1), value=7).tolist() == theirs.pad(torch.arange(3), (1, 1), value=7).tolist()


@pytest.mark.parametrize(
    "options", [{"kernel_size": 2}, {"kernel_size": (2, 3), "padding": (1, 0), "stride": (1, 2), "dilation": (2, 1)}]
)
def test_unfold(options):
    linear("unfold", normal(2, 3, 5, 6), **options)
    linear("unfold", normal(3, 5, 6), **options)


POOLS = [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 1}, {"kernel_size": 3, "stride": 2, "padding": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", POOLS)
def test_pools(options):
    for name in ("max_pool", "avg_pool"):
        linear(f"{name}1d", normal(2, 3, 8), **options)
        linear(f"{name}1d", normal(3, 8), **options)
        linear(f"{name}2d", normal(2, 3, 8, 7), **options)
        linear(f"{name}2d", normal(3, 8, 7), **options)


def test_pools_with_all_their_options():
    linear("max_pool2d", normal(2, 3, 8, 7), kernel_size=(2, 3), stride=(1, 2), padding=(1, 0), dilation=(2, 1))
    linear("avg_pool2d", normal(2, 3, 8, 7), kernel_size=3, padding=1, count_include_pad=False)
    linear("avg_pool2d", normal(2, 3, 8, 7), kernel_size=(2, 3), divisor_override=5)
    linear("avg_pool1d", normal(2, 3, 8), kernel_size=3, padding=1, count_include_pad=False)
    image = normal(2, 3, 6, 6)  # all by position
    close(
        ours.avg_pool2d(image, 2, 2, 1, False, False, 3),
        theirs.avg_pool2d(torch.tensor(image), 2, 2, 1, False, False, 3),
    )


BEYOND = [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 3, "padding": 1}, {"kernel_size": 4, "stride": 3}, {"kernel_size": 2, "stride": 4},
]  # fmt: skip


@pytest.mark.parametrize("options", BEYOND)
@pytest.mark.parametrize("length", [7, 8])
def test_windows_that_reach_beyond_the_end(length, options):
    for name in ("max_pool", "avg_pool"):
        linear(f"{name}1d", normal(2, 3, length), ceil_mode=True, **options)
        linear(f"{name}2d", normal(3, length, 6), ceil_mode=True, **options)
    linear("avg_pool2d", normal(2, 3, length, 6), ceil_mode=True, count_include_pad=False, **options)
    linear("avg_pool2d", normal(2, 3, length, 6), ceil_mode=True, divisor_override=3, **options)
    linear("max_pool1d", normal(2, 3, length), ceil_mode=True, dilation=2, **options)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("options", [*BEYOND, {"kernel_size": (2, 3), "padding": (1, 0), "dilation": (2, 1)}])
def test_the_places_of_the_largest(options, ceil_mode):
    for name, shape in (("max_pool1d", (2, 3, 8)), ("max_pool2d", (2, 3, 7, 8)), ("max_pool2d", (3, 7, 8))):
        if name == "max_pool2d" or "dilation" not in options:
            x = normal(*shape).round(1)  # with some equal ones
            found = getattr(ours, name)(tt.asarray(x), **options, ceil_mode=ceil_mode, return_indices=True)
            expected = getattr(theirs, name)(torch.tensor(x), **options, ceil_mode=ceil_mode, return_indices=True)
            for a, b in zip(found, expected):
                assert str(a.dtype) in str(b.dtype)
                np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("size", [1, 3, 5, (2, 3), (None, 2), 7])
def test_adaptive_pools(size):
    linear("adaptive_avg_pool2d", normal(2, 3, 6, 7), output_size=size)
    linear("adaptive_avg_pool2d", normal(3, 6, 7), output_size=size)
    if isinstance(size, int):
        linear("adaptive_avg_pool1d", normal(2, 3, 8), output_size=size)


MODULES = [
    (lambda nn, **d: nn.Conv2d(2, 4, 3, **d), (2, 2, 6, 5)),
    (lambda nn, **d: nn.Conv2d(2, 4, (3, 2), (2, 1), 1, 2, 2, False, **d), (2, 2, 8, 7)),
    (lambda nn, **d: nn.Conv2d(2, 4, 3, padding="same", **d), (2, 6, 5)),
    (lambda nn, **d: nn.MaxPool1d(2), (2, 3, 8)),
    (lambda nn, **d: nn.MaxPool2d(3, 2, 1), (2, 3, 8, 7)),
    (lambda nn, **d: nn.MaxPool2d(2, ceil_mode=True), (2, 3, 5, 7)),
    (lambda nn, **d: nn.MaxPool1d(3, 2, 1, 1, False, True), (2, 3, 8)),
    (lambda nn, **d: nn.AvgPool1d(2, 3), (2, 3, 8)),
    (lambda nn, **d: nn.AvgPool1d(3, 2, 1, True, False), (2, 3, 8)),
    (lambda nn, **d: nn.AvgPool2d(3, 2, 1, True, False, 5), (2, 3, 8, 7)),
    (lambda nn, **d: nn.AvgPool2d((2, 3), padding=1), (2, 3, 8, 7)),
    (lambda nn, **d: nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
    (lambda nn, **d: nn.AdaptiveAvgPool2d((None, 2)), (2, 3, 8, 7)),
    (lambda nn, **d: nn.Unfold(2, padding=1), (2, 3, 5, 5)),
    (lambda nn, **d: nn.Flatten(), (2, 3, 4)),
    (lambda nn, **d: nn.Flatten(0, 1), (2, 3, 4)),
    (lambda nn, **d: nn.Unflatten(1, (3, 2)), (2, 6, 4)),
    (lambda nn, **d: nn.Unflatten(-1, (2, -1)), (2, 6)),
]


@pytest.mark.parametrize(("make", "shape"), MODULES, ids=[repr(make(nn)) for make, _ in MODULES])
def test_modules(make, shape):
    ours, other = pair(make)
    assert repr(ours) == repr(other)
    compare_modules(ours, other, [normal(*shape)])


NORMS = [
    (lambda nn, **d: nn.BatchNorm1d(3, **d), (4, 3)),
    (lambda nn, **d: nn.BatchNorm1d(3, momentum=None, **d), (4, 3, 5)),
    (lambda nn, **d: nn.BatchNorm2d(3, eps=0.1, momentum=0.3, **d), (4, 3, 5, 2)),
    (lambda nn, **d: nn.BatchNorm2d(3, affine=False, **d), (4, 3, 5, 2)),
    (lambda nn, **d: nn.BatchNorm2d(3, track_running_stats=False, **d), (4, 3, 5, 2)),
    (lambda nn, **d: nn.GroupNorm(2, 4, **d), (2, 4, 3, 3)),
    (lambda nn, **d: nn.GroupNorm(1, 4, eps=0.1, affine=False, **d), (2, 4)),
]


@pytest.mark.parametrize(("make", "shape"), NORMS, ids=[repr(make(nn)) for make, _ in NORMS])
def test_norms(make, shape):
    """In training, where running statistics move along, and then in evaluation."""
    ours, other = pair(make)
    assert repr(ours) == repr(other)
    x = normal(*shape) * 2 + 3
    compare_modules(ours, other, [x])
    other.load_state_dict({n: torch.from_numpy(np.array(t.numpy())) for n, t in ours.state_dict().items()})
    for step, training in itertools.product(range(3), (True, False)):
        ours.train(training)
        other.train(training)
        close(ours(tt.asarray(x + step)), other(torch.tensor(x + step)), "output")
        for name, value in other.state_dict().items():
            assert ours.state_dict()[name].dtype == np.dtype(str(value.dtype).removeprefix("torch."))
            close(ours.state_dict()[name], value, name)
    ours.eval()
    other.eval()
    compare_modules(ours, other, [x])


def test_norms_as_functions():
    x, mean, variance = normal(4, 3, 5), normal(3, seed=1), normal(3, seed=2) ** 2 + 0.5
    weight, bias = normal(3, seed=3), normal(3, seed=4)
    compare("batch_norm", x, mean, variance, weight, bias, without=(1, 2))
    compare("batch_norm", x, None, None, weight, bias, training=True)
    compare("batch_norm", x, mean, variance, None, None, training=True, momentum=0.2, without=(1, 2))
    mine, other = tt.tensor(normal(2, 6, 5), requires_grad=True), torch.tensor(normal(2, 6, 5), requires_grad=True)
    close(ours.group_norm(mine, 3), theirs.group_norm(other, 3))
