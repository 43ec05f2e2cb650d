"""The largest elements: beside a stable sort, with ties, infinities and NaN, in rows short and long."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytensor as tt


def sorted_places(x, k):
    """By Python's stable sort; NaN is larger than anything."""
    order = [sorted(range(len(row)), key=lambda i: (1, -row[i]) if row[i] == row[i] else (0, 0)) for row in x.tolist()]
    return np.array([row[:k] for row in order], dtype=np.int64).reshape(len(x), k)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 4), st.integers(1, 300), st.integers(0, 9), st.sampled_from(["few", "many"]),
    st.sampled_from([np.float32, np.float64, np.int64]), st.booleans(), st.integers(0, 2**31),
)  # fmt: skip
def test_are_those_of_a_stable_sort(rows, length, k, values, dtype, special, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (rows, length)) if values == "few" else rng.normal(size=(rows, length)) * 1000
    x = x.astype(dtype)
    if special and x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.3] = -np.inf
        x[rng.random(x.shape) < 0.03] = np.nan
        x[rng.random(x.shape) < 0.03] = np.inf
    k = min(k, length)
    largest, places = tt.topk(tt.asarray(x), k)
    np.testing.assert_array_equal(places.numpy(), sorted_places(x, k))
    np.testing.assert_array_equal(largest.numpy(), np.take_along_axis(x, places.numpy(), axis=1))
    assert places.dtype is tt.int64


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_along_any_axis(device, axis):
    x = np.random.default_rng(0).permutation(2 * 3 * 70).reshape(2, 3, 70)
    largest, places = tt.topk(tt.asarray(x, device=device), 2, axis=axis)
    order = np.argsort(-x, axis=axis)
    expected = np.take(order, [0, 1], axis=axis)
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(largest.numpy(), np.take_along_axis(x, expected, axis=axis))
    assert places.device == largest.device == device


def test_gradients_go_where_the_elements_came_from(device):
    x = tt.tensor(np.random.default_rng(0).normal(size=(2, 80)), device=device, requires_grad=True)
    assert tt.gradcheck(lambda x: tt.topk(x, 3)[0] ** 2, x)
