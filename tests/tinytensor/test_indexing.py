"""Reading and writing parts of a Tensor, against NumPy, with keys of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinytensor as tt

COMMON = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def array_and_key(draw, repeated=True):
    """An array of distinct numbers, and a key for it: basic, integer arrays, masks, or a mixture."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    x = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    kind = draw(st.sampled_from(["basic", "integers", "mask", "mixed"]))
    if kind == "basic":
        key = draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    elif kind == "integers" and all(shape):
        result = hnp.array_shapes(max_dims=2, max_side=3)
        key = draw(hnp.integer_array_indices(shape, result_shape=result))
    elif kind == "mask":
        key = draw(hnp.arrays(bool, shape[: draw(st.integers(1, len(shape)))]))
    else:
        key = []
        for length in shape:
            part = draw(st.sampled_from(["slice", "integer", "array"]))
            if part == "slice" or not length:
                key.append(draw(st.slices(length)))
            elif part == "integer":
                key.append(draw(st.integers(-length, length - 1)))
            else:
                key.append(np.array(draw(st.lists(st.integers(-length, length - 1), min_size=2, max_size=2))))
        key = tuple(key)
    return x, key


def as_tensors(key, device):
    """The key with Tensors for its arrays."""
    if isinstance(key, tuple):
        return tuple(as_tensors(part, device) for part in key)
    return tt.asarray(key, device=device) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("wrap", [False, True], ids=["arrays", "tensors"])
def test_getitem(device, wrap):
    @COMMON
    @given(array_and_key())
    def check(case):
        x, key = case
        tensor = tt.tensor(x, device=device, requires_grad=True)
        found = tensor[as_tensors(key, device) if wrap else key]
        expected = x[key]
        np.testing.assert_array_equal(found.numpy(), expected)
        weights = np.random.default_rng(0).normal(size=expected.shape)
        found.backward(tt.asarray(weights, device=device))
        gradient = np.zeros_like(x)
        np.add.at(gradient, key, weights)
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, atol=1e-12)

    check()


def last_writes(x, key):
    """For each place of x, which of the written elements is there in the end (-1: none)."""
    order = np.full(x.shape, -1)
    order[key] = np.arange(order[key].size).reshape(order[key].shape)
    return order


@pytest.mark.parametrize("recorded", [False, True], ids=["in place", "recorded"])
def test_setitem(device, recorded):
    @COMMON
    @given(array_and_key(), st.booleans())
    def check(case, scalar):
        x, key = case
        target = x[key]
        value = np.array(-1.0) if scalar else -1.0 - np.arange(target.size, dtype=float).reshape(target.shape)
        expected = x.copy()
        expected[key] = value
        tensor = tt.tensor(x, device=device, requires_grad=recorded)
        changed = tensor * 1 if recorded else tensor
        given_value = tt.tensor(value, device=device, requires_grad=recorded)
        changed[as_tensors(key, device)] = given_value
        np.testing.assert_array_equal(changed.numpy(), expected)
        if not recorded:
            return
        weights = np.random.default_rng(0).normal(size=x.shape)
        changed.backward(tt.asarray(weights, device=device))
        order = last_writes(x, key)
        np.testing.assert_array_equal(tensor.grad.numpy(), np.where(order == -1, weights, 0))
        gradient = np.zeros(target.size)
        np.add.at(gradient, order[order >= 0], weights[order >= 0])
        gradient = gradient.reshape(target.shape)
        if scalar:
            gradient = gradient.sum()
        np.testing.assert_allclose(given_value.grad.numpy(), gradient, atol=1e-12)

    check()


def test_repeated_writes_the_last_remains(device):
    x = tt.zeros(4, device=device)
    x[[1, 1, 3, 1]] = tt.tensor([1.0, 2.0, 3.0, 4.0], device=device)
    assert x.tolist() == [0, 4, 0, 3]
    y = tt.zeros((2, 3), device=device)
    transposed = y.T  # memory that is not contiguous
    transposed[[0, 0], [1, 1]] = tt.tensor([5.0, 6.0], device=device)
    assert y.tolist() == [[0, 0, 0], [6, 0, 0]]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (5, "out of bounds"),
        (np.array([0, 3]), "out of bounds"),
        (np.array([-4]), "out of bounds"),
        ((slice(None), np.array([7])), "out of bounds"),
        ((Ellipsis, np.array([1, -5])), "out of bounds"),
        (np.array([0.5]), "integer or boolean, got float64"),
        (np.array([True, False]), "getitem"),
        ((0, 0, 0), "getitem: too many indices|too many indices"),
        ("a", "got a str"),
        (1.5, "got a float"),
    ],
)
def test_wrong_keys_raise_on_every_device(key, message, device):
    x = tt.zeros((3, 4), device=device)
    with pytest.raises(IndexError, match=message):
        x[key]
    if not isinstance(key, (str, float)):
        with pytest.raises(IndexError):
            x[key] = 1.0


def test_keys_of_many_kinds():
    x = tt.arange(12).reshape(3, 4)
    assert x[[0, 2], [1, 3]].tolist() == [1, 11]
    assert x[np.int64(1), tt.tensor(2)].item() == 6
    assert x[tt.tensor([True, False, True])].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert x[..., None].shape == (3, 4, 1)
    assert x[[]].shape == (0, 4)
    assert [row.shape for row in x] == [(4,)] * 3
    assert 7 in x
    assert 12 not in x


def test_a_value_that_does_not_fit():
    x = tt.zeros((2, 3))
    with pytest.raises(ValueError, match=r"x \(2, 3\), value \(2,\)"):
        x[0] = tt.ones(2)
    with pytest.raises(TypeError, match="complex values do not fit into float32"):
        x[0] = tt.tensor([1j, 1j, 1j])


def test_a_value_takes_the_dtype_of_the_array():
    x = tt.zeros(3, dtype=tt.int64)
    x[0] = 2.7
    assert x.tolist() == [2, 0, 0]
    assert x.dtype == tt.int64


def test_take_and_take_along_axis(device):
    values = np.random.default_rng(0).normal(size=(3, 4, 2))
    x = tt.asarray(values, device=device)
    index = np.array([2, 0, -1])
    np.testing.assert_array_equal(tt.take(x, index, axis=0).numpy(), np.take(values, index, axis=0))
    np.testing.assert_array_equal(tt.take(x, index, axis=-2).numpy(), np.take(values, index, axis=-2))
    order = np.argsort(values, axis=1)
    np.testing.assert_array_equal(tt.take_along_axis(x, order, axis=1).numpy(), np.sort(values, axis=1))
    best = np.argmax(values, axis=1, keepdims=True)
    np.testing.assert_array_equal(tt.take_along_axis(x, best, axis=1).numpy(), values.max(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="axis may be left out for 1 dimension only"):
        tt.take(x, index)
    with pytest.raises(IndexError, match="must be integers"):
        tt.take(x, np.array([True]), axis=0)
    with pytest.raises(IndexError, match="out of bounds"):
        tt.take(x, [3], axis=0)


def test_scatter_adds(device):
    out = tt.scatter(tt.tensor([1.0, 2.0, 3.0], device=device), [0, 2, 0], (4,))
    assert out.tolist() == [4, 0, 2, 0]
    counts = tt.scatter(tt.ones(3, dtype=tt.int64, device=device), [1, 1, 0], (2,))
    assert counts.tolist() == [1, 2]


def test_index_set_leaves_its_input_alone(device):
    x = tt.zeros(3, device=device)
    assert tt.index_set(x, 1, 5.0).tolist() == [0, 5, 0]
    assert x.tolist() == [0, 0, 0]


KEYS = {
    "rows": ((300,), lambda r: (r.integers(-300, 300, (40, 50)),), (8,)),
    "elements": ((70, 90), lambda r: (r.integers(0, 70, 20_000), r.integers(-90, 90, 20_000)), ()),
    "broadcast": ((70, 90), lambda r: (np.arange(70)[:, None], r.integers(0, 90, (70, 300))), (2,)),
    "rows of bytes": ((300,), lambda r: (r.integers(0, 200, 3000).astype(np.uint8),), (8,)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KEYS)
def test_many_places_get_the_sum_of_their_values(name, dtype):
    shape, make, rest = KEYS[name]
    rng = np.random.default_rng(0)
    key = make(rng)
    values = rng.standard_normal((*np.broadcast_shapes(*[part.shape for part in key]), *rest)).astype(dtype)
    expected = np.zeros((*shape, *rest))
    np.add.at(expected, key, values)
    found = tt.scatter(values, tuple(map(tt.asarray, key)), expected.shape)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-4)
    one = values[..., :1] if rest else values[:1]
    np.add.at(expected, key, one - values)
    found = tt.scatter(one, tuple(map(tt.asarray, key)), expected.shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("wrong", [10, -11, 10**9])
def test_many_places_out_of_range_are_an_error(wrong):
    ids = np.zeros(20_000, np.int64)
    ids[-1] = wrong
    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
        tt.scatter(tt.ones((20_000, 4)), (tt.asarray(ids),), (10, 4))
