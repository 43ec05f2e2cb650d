"""Convolution and max pooling in compiled loops: the formula's numbers, whatever the sizes and into whatever pieces."""

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.fast import numpy as fast
from tinytensor.fast import threads

pytest.importorskip("numba")


pytestmark = pytest.mark.usefixtures("loops")


@pytest.fixture
def room():
    return tt.backend.for_device("cpu").loops_over("convolution", np.ones(1))


def drawn(seed, dtype=np.float64):
    """A convolution, its options and its inputs: input, weight and, now and then, bias."""
    rng = np.random.default_rng(seed)
    axes, groups = int(rng.integers(1, 3)), int(rng.choice([1, 1, 2, 3]))
    channels, filters = (groups * int(n) for n in rng.integers(1, 5, 2))
    kernel, stride, dilation, padding = (
        tuple(map(int, rng.integers(*bounds, axes))) for bounds in ((1, 4), (1, 4), (1, 3), (0, 3))
    )
    lengths = rng.integers(7, 20, axes)
    shapes = [(rng.integers(1, 7), channels, *lengths), (filters, channels // groups, *kernel), (filters,)]
    inputs = [rng.normal(size=shape).astype(dtype) for shape in shapes[: 2 + seed % 2]]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (F.conv1d, F.conv2d)[axes - 1], options, inputs


def outcome(function, options, inputs):
    """The result and all first derivatives, as arrays."""
    leaves = [tt.tensor(x, requires_grad=True) for x in inputs]
    out = function(*leaves, **options)
    g = np.random.default_rng(9).normal(size=out.shape).astype(inputs[0].dtype)
    return [x.detach().numpy() for x in (out, *tt.grad(out, leaves, tt.asarray(g)))]


def assert_is_the_formula(function, options, inputs, tolerance=1e-10):
    found = outcome(function, options, inputs)
    with tt.textbook():
        expected = outcome(function, options, inputs)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("pieces", ["whole", "of rows", "of columns", "of several samples"])
def test_a_convolution_is_the_formula(pieces, room, monkeypatch):
    most = {"whole": None, "of rows": 50, "of columns": 5, "of several samples": 2000}[pieces]
    if most is not None:
        for name, value in (("HELD", 1), ("LEAST", most)):
            monkeypatch.setattr(room, name, value)
    for seed in range(30):
        assert_is_the_formula(*drawn(seed))


def test_in_float32_and_of_arrays_that_are_not_contiguous(room):
    for seed in (2, 3):
        function, options, inputs = drawn(seed, np.float32)
        inputs[0] = np.swapaxes(np.swapaxes(inputs[0], 0, 1).copy(), 0, 1)
        inputs[1] = inputs[1][..., ::-1]
        assert_is_the_formula(function, options, inputs, 1e-4)


def test_what_is_not_wanted_is_not_computed():
    function, options, inputs = drawn(1)
    expected = outcome(function, options, inputs)[1:]
    for wanted in range(3):
        leaves = [tt.tensor(x, requires_grad=i == wanted) for i, x in enumerate(inputs)]
        out = function(*leaves, **options)
        g = np.random.default_rng(9).normal(size=out.shape)
        (found,) = tt.grad(out, [leaves[wanted]], tt.asarray(g))
        np.testing.assert_allclose(found.numpy(), expected[wanted], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_threads_changes_nothing(seed, room, monkeypatch):
    monkeypatch.setattr(room, "SHARE", 1)
    monkeypatch.setattr(threads, "_threads", 1)
    found = []
    for count in (1, 2, 4):
        threads._threads = count
        found.append([x.tobytes() for x in outcome(*drawn(seed, np.float32))])
    assert found[0] == found[1] == found[2]
    assert_is_the_formula(*drawn(seed, np.float32), 1e-4)


def test_the_sums_of_many_positions_stay_accurate():
    x, weight, bias = (tt.ones(s) for s in ((4, 1, 512, 512), (1, 1, 1, 1), (1,)))
    weight.requires_grad_(), bias.requires_grad_()
    F.conv2d(x, weight, bias).backward(tt.full((4, 1, 512, 512), 0.1))
    for gradient in (weight.grad, bias.grad):
        np.testing.assert_allclose(gradient.numpy(), np.float64(np.float32(0.1)) * x.size, rtol=1e-6)


def test_without_loops_the_numbers_are_the_same(monkeypatch):
    function, options, inputs = drawn(5)
    found = outcome(function, options, inputs)
    monkeypatch.setattr(fast, "loops", None)
    for a, b in zip(found, outcome(function, options, inputs)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (2, 3, 5, 7), (3, 2, 2), (1, 1, 3, 3)])
def test_squares_are_pooled_by_the_formula(shape):
    x = np.random.default_rng(0).integers(0, 3, shape).astype(np.float64)  # many equal ones
    assert_is_the_formula(lambda x: F.max_pool2d(x, 2), {}, [x])


@pytest.mark.parametrize("kernel", [2, 3])
def test_the_gradient_of_a_window_with_nan_is_that_of_the_formula(kernel):
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 6))
    x[0, 0, 1, 1] = x[0, 1, 3, 4] = x[0, 1, 3, 5] = np.nan
    assert_is_the_formula(lambda x: F.max_pool2d(x, kernel), {}, [x])


def test_a_square_with_nan_is_nan():
    x = np.ones((4, 2, 2))
    x.reshape(4, 4)[range(4), range(4)] = np.nan
    out, gradient = outcome(lambda x: F.max_pool2d(x, 2), {}, [x])
    assert np.isnan(out).all()
    np.testing.assert_array_equal(gradient != 0, np.isnan(x))
