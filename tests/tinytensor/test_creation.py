"""Making Tensors, what they say of themselves, and their way to other dtypes and devices."""

import array

import numpy as np
import pytest

import tinytensor as tt


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (1, tt.int64, 1),
        (1.5, tt.float32, 1.5),
        (True, tt.bool, True),
        (2j, tt.complex64, 2j),
        ([1, 2], tt.int64, [1, 2]),
        ([1, 2.5], tt.float32, [1, 2.5]),
        ([True, False], tt.bool, [True, False]),
        ([[1], (2,)], tt.int64, [[1], [2]]),
        ([], tt.float32, []),
        (np.arange(2), tt.int64, [0, 1]),
        (np.ones(2), tt.float64, [1, 1]),
        (np.float64(1.5), tt.float32, 1.5),
        (np.float32(1.5), tt.float32, 1.5),
        (np.int8(3), tt.int8, 3),
        (np.arange(3, dtype=">i4"), tt.int32, [0, 1, 2]),
        (array.array("d", [1.0, 2.0]), tt.float64, [1, 2]),
        (range(3), tt.int64, [0, 1, 2]),
        ({0: "a", 4: "b"}.keys(), tt.int64, [0, 4]),
    ],
)
def test_what_becomes_a_tensor(data, dtype, values, device):
    x = tt.asarray(data, device=device)
    assert (x.dtype, x.tolist(), x.device) == (dtype, values, device)


def test_nested_tensors():
    assert tt.asarray([tt.ones(2), [0, 1]]).tolist() == [[1, 1], [0, 1]]
    with pytest.raises(TypeError, match=r"requires a gradient, which would be lost; use tt\.stack"):
        tt.asarray([tt.ones(2).requires_grad_()])


@pytest.mark.parametrize("data", ["text", {"a": 1}, None, object(), np.array(["a"]), np.array([None]), [[1], [2, 3]]])
def test_what_does_not(data):
    with pytest.raises((TypeError, ValueError), match="asarray: "):
        tt.asarray(data)


def test_copies(device):
    values = np.ones(3)
    assert tt.asarray(values, dtype=tt.float32).dtype == tt.float32
    x = tt.asarray(values, device=device)
    assert tt.asarray(x) is x
    assert tt.asarray(x, copy=True) is not x
    for wrong in ([1.0], 1.0):
        with pytest.raises(ValueError, match="copy"):
            tt.asarray(wrong, copy=False)
    with pytest.raises(ValueError, match="float64 to float32 needs a copy"):
        tt.asarray(values, dtype=tt.float32, copy=False)
    with pytest.raises(ValueError, match="float64 to float32 needs a copy"):
        tt.asarray(x, dtype=tt.float32, copy=False)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda **k: tt.zeros((2, 3), **k), np.zeros((2, 3), np.float32)),
        (lambda **k: tt.ones(3, **k), np.ones(3, np.float32)),
        (lambda **k: tt.full((2,), 7, **k), np.array([7, 7])),
        (lambda **k: tt.full((2,), 7.5, **k), np.array([7.5, 7.5], np.float32)),
        (lambda **k: tt.eye(2, 3, k=1, **k), np.eye(2, 3, 1, dtype=np.float32)),
        (lambda **k: tt.arange(3, **k), np.arange(3)),
        (lambda **k: tt.arange(1, 10, 4, **k), np.arange(1, 10, 4)),
        (lambda **k: tt.arange(5, 0, -2, **k), np.arange(5, 0, -2)),
        (lambda **k: tt.arange(0, 1, 0.25, **k), np.arange(0, 1, 0.25, dtype=np.float32)),
        (lambda **k: tt.arange(3, 1, **k), np.zeros(0, np.int64)),
        (lambda **k: tt.linspace(0, 1, 5, **k), np.linspace(0, 1, 5, dtype=np.float32)),
        (lambda **k: tt.linspace(0, 1, 5, endpoint=False, **k), np.linspace(0, 1, 5, endpoint=False, dtype=np.float32)),
        (lambda **k: tt.zeros((), **k), np.zeros((), np.float32)),
        (lambda **k: tt.zeros((0, 2), **k), np.zeros((0, 2), np.float32)),
    ],
)
def test_creation(make, expected, device):
    x = make(device=device)
    assert (x.dtype, x.device) == (expected.dtype, device)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert make(device=device, dtype=tt.float64).dtype == tt.float64


def test_like(device):
    x = tt.ones((2, 3), dtype=tt.int16, device=device)
    for make in (tt.zeros_like, tt.ones_like, tt.empty_like, lambda x, **k: tt.full_like(x, 3, **k)):
        assert (make(x).shape, make(x).dtype, make(x).device) == ((2, 3), tt.int16, device)
        assert make(x, dtype=tt.float64).dtype == tt.float64
    assert tt.empty((2, 3), device=device).shape == (2, 3)


def test_wrong_shapes_and_dtypes():
    with pytest.raises(ValueError, match="negative length"):
        tt.zeros((2, -1))
    with pytest.raises(TypeError, match="expected float16, float32 or float64"):
        tt.set_default_dtype(tt.int32)


# ---- what a Tensor says of itself


def test_attributes(device):
    x = tt.ones((2, 3, 4), device=device)
    assert (x.ndim, x.size, x.nbytes, len(x)) == (3, 24, 96, 2)
    assert x.mT.shape == (2, 4, 3)
    assert x[0].T.shape == (4, 3)
    with pytest.raises(AttributeError, match=r"T: expected 2 dimensions, got shape \(2, 3, 4\)"):
        _ = x.T


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tt.tensor([1.0, 2.5]), "tensor([1. , 2.5])"),
        (lambda: tt.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: tt.tensor(True), "tensor(True)"),
        (lambda: tt.tensor([1.0], dtype=tt.float64), "tensor([1.], dtype=float64)"),
        (lambda: tt.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (lambda: tt.exp(tt.tensor([0.0], requires_grad=True)), "tensor([1.], op=exp)"),
        (lambda: tt.zeros((0, 3)), "tensor([], shape=(0, 3), dtype=float32)"),
        (lambda: tt.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_repr_names_the_device():
    if "gpu" in tt.__array_namespace_info__().devices():
        assert repr(tt.ones(1, device="gpu")) == "tensor([1.], device='gpu')"


def test_to_python(device):
    x = tt.tensor(3, device=device)
    assert (int(x), float(x), bool(x), x.item(), [10, 20, 30, 40][x]) == (3, 3.0, True, 3, 40)
    assert f"{tt.tensor(1.23456, device=device):.2f}" == "1.23"
    assert complex(tt.tensor(2.0)) == 2
    with pytest.raises(TypeError, match="can be an index, got float32"):
        range(tt.tensor(2.0))
    with pytest.raises(ValueError, match=r"item: expected a Tensor of one element, got shape \(2,\)"):
        tt.ones(2).item()
    for convert in (bool, int, float):
        with pytest.raises(ValueError, match=r"of a Tensor of shape \(2,\) is ambiguous"):
            convert(tt.ones(2, device=device))
    with pytest.raises(TypeError, match="0-d"):
        len(tt.tensor(1))
    with pytest.raises(TypeError, match="0-d"):
        iter(tt.tensor(1))


def test_comparison_is_element_wise_and_hash_by_identity():
    x, y = tt.tensor([1.0, 2.0]), tt.tensor([1.0, 3.0])
    assert (x == y).tolist() == [True, False]
    assert (x != 1).tolist() == [False, True]
    assert (x >= y).tolist() == [True, False]
    assert (x < 2).tolist() == [True, False]
    assert len({x, y, x}) == 2
    assert hash(x) != hash(tt.tensor([1.0, 2.0]))


def test_operators_with_scalars_on_either_side(device):
    x, n = tt.tensor([4.0, 9.0], device=device), np.array([4.0, 9.0], np.float32)
    pairs = [
        (2 + x, 2 + n), (x - 2, n - 2), (2 - x, 2 - n), (2 / x, 2 / n), (x // 2, n // 2), (20 // x, 20 // n),
        (x % 5, n % 5), (20 % x, 20 % n), (x**2, n**2), (2**x, 2**n), (-x, -n), (+x, +n), (abs(-x), n),
        (divmod(x, 4)[0], n // 4), (divmod(x, 4)[1], n % 4), (x @ x, n @ n),
    ]  # fmt: skip
    for found, expected in pairs:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    i = tt.asarray([6, 3], device=device)
    assert ((i & 2).tolist(), (1 | i).tolist(), (i ^ i).tolist(), (~i).tolist()) == ([2, 2], [7, 3], [0, 0], [-7, -4])
    assert ((i << 1).tolist(), (8 >> i).tolist()) == ([12, 6], [0, 1])


def test_methods_are_the_functions_of_the_same_name():
    x = tt.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (2, 3)))
    names = "abs all any argmax argmin argsort cos erf exp isnan log logsumexp max mean min prod round sigmoid sin sort"
    for name in (*names.split(), "sqrt", "sum", "tanh"):
        np.testing.assert_array_equal(getattr(x, name)().numpy(), getattr(tt, name)(x).numpy(), strict=True)
    assert x.flatten().shape == (6,)
    assert (
        x.reshape(3, 2).shape == x.reshape((3, 2)).shape == x.transpose(0, 1).shape == x.permute(1, 0).shape == (3, 2)
    )
    assert (x.permute((1, 0)).shape, x.flatten().permute(0).shape) == ((3, 2), (6,))
    assert x.unsqueeze(0).shape == (1, 2, 3)
    assert x.unsqueeze(0).squeeze().shape == (2, 3)
    assert x.masked_fill(x > 0, 1.0).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert x.clip(0.2, 0.3).max().item() == 0.3
    assert x.astype(tt.float32).dtype == tt.float32


# ---- devices


def test_moving(device):
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    moved = x.to(device)
    assert moved.device == device
    assert x.to("cpu") is x
    assert (moved.cpu().device, moved.to(tt.float64).dtype, moved.to(tt.ones(1, dtype="int8")).dtype) == (
        "cpu",
        tt.float64,
        tt.int8,
    )
    (moved * tt.tensor([3.0, 4.0], device=device)).sum().backward()
    assert (x.grad.tolist(), x.grad.device) == ([3, 4], "cpu")
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        x.to("tpu")


def test_gradients_of_gradients_across_devices(device):
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    tt.gradgradcheck(lambda x: (x.to(device) ** 3).to("cpu"), x)


def test_what_is_moved_has_a_gradient_only_if_it_had_one(device):
    assert not tt.ones(2).to(device).requires_grad
    assert tt.ones(2).requires_grad_().to(device).requires_grad


def test_numpy_scalars_keep_their_kind():
    assert tt.full((2,), np.float32(1.5)).tolist() == [1.5, 1.5]
    assert tt.full((2,), np.float64(1.5)).dtype == tt.float32
    assert tt.full((2,), np.True_).dtype == tt.bool
    assert tt.arange(np.float32(2.5)).dtype == tt.float32


def test_one_hot_refuses_what_does_not_fit():
    assert tt.one_hot(tt.tensor([5], dtype=tt.uint8), 300).sum().item() == 1
    with pytest.raises(IndexError, match="one_hot: indices must be from 0 to 2"):
        tt.one_hot(tt.tensor([5, -1]), 3)
