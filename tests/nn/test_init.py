"""Initial values: distributions by their moments and bounds, exact where they are exact."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import init

SHAPE = (300, 200)
N = 300 * 200


def empty(dtype=tt.float64):
    return nn.Parameter(tt.empty(SHAPE, dtype=dtype))


def assert_uniform(tensor, low, high):
    a = tensor.detach().numpy().astype(np.float64)
    width = high - low
    assert low <= a.min() < low + width * 1e-3
    assert high - width * 1e-3 < a.max() <= high
    assert abs(a.mean() - (low + high) / 2) < 5 * width / math.sqrt(12 * N)
    assert abs(a.std() / (width / math.sqrt(12)) - 1) < 0.01


def assert_normal(tensor, mean, std):
    a = tensor.detach().numpy().astype(np.float64)
    assert abs(a.mean() - mean) < 5 * std / math.sqrt(N)
    assert abs(a.std() / std - 1) < 5 / math.sqrt(2 * N)
    kurtosis = (((a - a.mean()) / a.std()) ** 4).mean()
    assert abs(kurtosis - 3) < 5 * math.sqrt(24 / N)


@pytest.fixture(autouse=True)
def seed():
    tt.random.manual_seed(0)


def test_uniform_and_normal():
    assert_uniform(init.uniform_(empty()), 0, 1)
    assert_uniform(init.uniform_(empty(), -3, 5), -3, 5)
    assert_normal(init.normal_(empty()), 0, 1)
    assert_normal(init.normal_(empty(), 2, 0.5), 2, 0.5)


def test_xavier():
    bound = math.sqrt(6 / (200 + 300))
    assert_uniform(init.xavier_uniform_(empty()), -bound, bound)
    assert_uniform(init.xavier_uniform_(empty(), gain=2), -2 * bound, 2 * bound)
    assert_normal(init.xavier_normal_(empty(), gain=2), 0, 2 * math.sqrt(2 / (200 + 300)))


def test_kaiming():
    bound = math.sqrt(6 / 200)
    assert_uniform(init.kaiming_uniform_(empty()), -bound, bound)
    assert_uniform(init.kaiming_uniform_(empty(), a=math.sqrt(5)), -1 / math.sqrt(200), 1 / math.sqrt(200))
    bound = math.sqrt(6 / 300)
    assert_uniform(init.kaiming_uniform_(empty(), mode="fan_out", nonlinearity="relu"), -bound, bound)
    assert_normal(init.kaiming_normal_(empty()), 0, math.sqrt(2 / 200))
    assert_normal(init.kaiming_normal_(empty(), mode="fan_out", nonlinearity="linear"), 0, math.sqrt(1 / 300))
    assert init.kaiming_uniform_(tt.empty((2, 0))).shape == (2, 0)
    assert init.kaiming_normal_(tt.empty((2, 0))).shape == (2, 0)


def test_trunc_normal():
    a = init.trunc_normal_(empty(), mean=1.0, std=2.0, a=0.0, b=2.0).detach().numpy()
    assert 0 <= a.min() < 0.001
    assert 1.999 < a.max() <= 2
    # Symmetric limits at half a standard deviation: the mean is kept, and the variance is std² (1 - 2 z φ(z) / Z).
    z = 0.5
    mass = math.erf(z / math.sqrt(2))
    variance = 4 * (1 - 2 * z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / mass)
    assert abs(a.mean() - 1) < 5 * math.sqrt(variance / N)
    assert abs(a.var() / variance - 1) < 0.02


def test_constants():
    tensor = empty()
    assert (init.constant_(tensor, 2.5) == 2.5).all()
    assert (init.ones_(tensor) == 1).all()
    assert (init.zeros_(tensor) == 0).all()
    np.testing.assert_array_equal(init.eye_(tensor).detach().numpy(), np.eye(*SHAPE))


@pytest.mark.parametrize(
    "fill",
    [
        init.uniform_, init.normal_, init.trunc_normal_, init.xavier_uniform_, init.xavier_normal_,
        init.kaiming_uniform_, init.kaiming_normal_,
    ],
)  # fmt: skip
def test_in_place_repeatable_and_in_the_dtype(fill):
    tensor = empty(tt.float32)
    memory = tensor._data
    assert fill(tensor, generator=tt.random.Generator(3)) is tensor
    assert tensor._data is memory
    assert tensor.dtype == tt.float32
    assert tensor.is_leaf
    assert tensor.requires_grad
    first = np.array(tensor.detach().numpy())
    np.testing.assert_array_equal(fill(tensor, generator=tt.random.Generator(3)).detach().numpy(), first)
    tt.random.manual_seed(1)
    second = np.array(fill(tensor).detach().numpy())
    tt.random.manual_seed(1)
    np.testing.assert_array_equal(fill(tensor).detach().numpy(), second)
    assert (first != second).any()


def test_fans_count_the_receptive_field():
    assert init.fans(tt.empty((2, 3, 5, 7))) == (105, 70)


def test_refusals():
    vector = tt.empty((3,))
    for fill in (init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.raises(ValueError, match=r"2 dimensions or more, got shape \(3,\)"):
            fill(vector)
    with pytest.raises(ValueError, match=r"eye_: expected 2 dimensions, got shape \(3,\)"):
        init.eye_(vector)
    with pytest.raises(ValueError, match="'fan_in' or 'fan_out', got 'fan'"):
        init.kaiming_normal_(tt.empty((3, 2)), mode="fan")
    with pytest.raises(ValueError, match="unknown nonlinearity 'swish'"):
        init.calculate_gain("swish")


def test_layers_start_as_they_should():
    linear = nn.Linear(200, 300, dtype=tt.float64)
    bound = 1 / math.sqrt(200)
    assert_uniform(linear.weight, -bound, bound)
    assert (abs(linear.bias.detach()) <= bound).all()
    assert linear.bias.detach().numpy().std() > 0.8 * bound / math.sqrt(3)
    assert_normal(nn.Embedding(300, 200, dtype=tt.float64).weight, 0, 1)


def test_on_a_device(device):
    tensor = init.trunc_normal_(init.eye_(tt.empty((3, 3), device=device)))
    assert tensor.device == device
    layer = nn.Linear(2, 3, device=device)
    assert layer.weight.device == device


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (4, 2, 3), (2, 3, 3)])
def test_orthogonal_has_an_orthonormal_shorter_side(shape, device):
    weight = tt.empty(shape, device=device, dtype=tt.float64)
    assert nn.init.orthogonal_(weight, gain=2.0) is weight
    matrix = weight.numpy().reshape(shape[0], -1)
    square = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-12)


def test_orthogonal_follows_from_its_generator_and_prefers_no_direction():
    weights = [nn.init.orthogonal_(tt.empty((3, 3)), generator=tt.random.Generator(1)).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*weights)
    drawn = np.stack([nn.init.orthogonal_(tt.empty((2, 2))).numpy() for _ in range(400)])
    assert (np.abs(drawn.mean(axis=0)) < 0.2).all()
    with pytest.raises(ValueError, match=r"orthogonal_: expected 2 dimensions or more, got shape \(3,\)"):
        nn.init.orthogonal_(tt.empty(3))
