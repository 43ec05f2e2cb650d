"""What CuPy's arrays do otherwise than NumPy's, and nobody may notice: the same numbers and errors on either device."""

import numpy as np
import pytest

import tinytensor as tt

# ---- memory: CuPy knows no read-only arrays


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_writes_to_its_gradient_changes_nothing(create_graph, device):
    def write(g):
        g[0] = 7.0
        g *= 3

    x, y = (tt.ones(2, device=device).requires_grad_() for _ in range(2))
    z = x + y
    z.register_hook(write)
    x.register_hook(write)
    seed = tt.tensor([1.0, 2.0], device=device)
    z.backward(seed, create_graph=create_graph)
    assert [t.tolist() for t in (x.grad, y.grad, seed)] == [[1, 2]] * 3


@pytest.mark.parametrize(
    "repeated",
    [
        lambda x: tt.broadcast_to(x, (2, 3)),
        lambda x: tt.broadcast_to(x, x.shape),
        lambda x: tt.broadcast_to(tt.broadcast_to(x, (2, 3)), (2, 2, 3)),
        lambda x: tt.broadcast_arrays(x, tt.zeros((2, 3), device=x.device))[0],
        lambda x: tt.meshgrid(x, x)[0],
        lambda x: tt.meshgrid(x, x, indexing="ij")[0],
    ],
)
def test_a_write_to_what_was_broadcast_hits_one_place(repeated, device):
    x = tt.tensor([1.0, 2.0, 3.0], device=device)
    for write in (lambda y: y.__setitem__(0, 7.0), lambda y: y.__iadd__(1.0)):
        y = repeated(x)
        expected = y.numpy().copy()
        write(expected)
        write(y)
        np.testing.assert_array_equal(y.numpy(), expected)
        assert x.tolist() == [1, 2, 3]
        view = y[:1]  # it has memory of its own now
        write(y)
        np.testing.assert_array_equal(view.numpy(), y.numpy()[:1])


@pytest.mark.parametrize(
    "view", [lambda x: tt.broadcast_to(x, (2, 3))[0], lambda x: tt.broadcast_to(x, (2, 3)).T.detach()]
)
def test_a_view_of_what_was_broadcast_cannot_be_written_to(view, device):
    """Be it that the broadcast Tensor is gone: x is still there, and would not see it."""
    x = tt.tensor([1.0, 2.0, 3.0], device=device)
    for write in (lambda y: y.__setitem__(0, 7.0), lambda y: y.__iadd__(1.0)):
        with pytest.raises(RuntimeError, match="in place: there is a view of this Tensor .* or it is one"):
            write(view(x))
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_a_write_to_what_was_broadcast_to_its_own_shape_leaves_the_original(shape, device):
    x = tt.ones(shape, device=device)
    y = tt.broadcast_to(x, shape)
    y += 1
    assert (x.numpy() == 1).all()
    assert (y.numpy() == 2).all()


def test_a_write_to_the_identity_hits_one_place(device):
    power = tt.linalg.matrix_power(tt.ones((2, 2, 2), device=device), 0)
    power[0, 0, 1] = 5.0
    assert power.tolist() == [[[1, 5], [0, 1]], [[1, 0], [0, 1]]]


def test_what_was_broadcast_moves_to_its_own_memory_only_if_no_view_is_left_behind(device):
    y = tt.broadcast_to(tt.ones(3, device=device), (2, 3))
    view = y[0]
    with pytest.raises(RuntimeError, match=r"in place: there is a view of this Tensor \(2, 3\)"):
        y += 1
    with pytest.raises(RuntimeError, match="in place: there is a view"):
        y[0] = 1.0
    del view
    with pytest.raises(RuntimeError, match="in place: there is a view of this Tensor .* or it is one.*x.i. = x.i. . y"):
        y[0] += 1
    y[0] = y[0] + 1
    y += 1
    assert y.tolist() == [[3] * 3, [2] * 3]


def test_an_optimizer_and_clipping_do_not_write_to_what_was_broadcast(device):
    x, g = (tt.ones(3, device=device) for _ in range(2))
    parameter = tt.broadcast_to(x, (2, 3)).requires_grad_()
    parameter.grad = tt.broadcast_to(g, (2, 3))
    tt.nn.utils.clip_grad_value_(parameter, 0.5)
    tt.nn.utils.clip_grad_norm_(parameter, 0.1)
    for optimizer in (tt.nn.optim.SGD([parameter], lr=0.5), tt.nn.optim.Adam([parameter])):
        optimizer.step()
    assert [t.tolist() for t in (x, g)] == [[1, 1, 1]] * 2
    assert len(set(parameter.detach().numpy().ravel().tolist())) == 1


def test_a_write_to_a_tensor_over_shared_memory_stays_with_the_tensor(device):
    array = tt.tensor([1.0, 2.0, 3.0], device=device)._data
    for write in (lambda x: x.__setitem__(0, 7.0), lambda x: x.__iadd__(6.0)):
        x = tt.asarray(array, copy=False)
        assert tt.backend.for_array(array).storage(x._data) == tt.backend.for_array(array).storage(array)
        write(x)
        assert tt.asarray(array).tolist() == [1, 2, 3]


@pytest.mark.parametrize("steps", [1, -1])
def test_a_write_from_memory_that_overlaps(steps, device):
    """CuPy hands it to a copy of memory, for which overlaps are undefined."""
    x = tt.arange(6.0, device=device)
    there, here = (slice(1, None), slice(-1)) if steps == 1 else (slice(-1), slice(1, None))
    x[there] = x[here]
    assert x.tolist() == ([0, 0, 1, 2, 3, 4] if steps == 1 else [1, 2, 3, 4, 5, 5])
    y = tt.reshape(tt.arange(6.0, device=device), (3, 2))
    y[1:] = y[:2]
    assert y.tolist() == [[0, 1], [0, 1], [2, 3]]


def test_empty_arrays_share_no_memory(device):
    x = tt.zeros((0, 3), device=device).requires_grad_()
    y = tt.exp(x)
    other = tt.zeros((2, 0), device=device)
    other += 1
    other[...] = 2.0
    y.sum().backward()
    assert x.grad.shape == (0, 3)
    storages = [tt.backend.for_array(t._data).storage(t._data) for t in (x, y, other)]
    assert len(set(storages)) == 3


# ---- linear algebra: CuPy tells of singular input only who asks

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (tt.linalg.inv, "inv: Singular matrix; inputs: x"),
        (lambda x: tt.linalg.solve(x, tt.ones_like(x)), "solve: Singular matrix; inputs: x1"),
        (lambda x: tt.linalg.matrix_power(x, -2), "inv: Singular matrix"),
        (tt.linalg.cholesky, "cholesky: Matrix is not positive definite; inputs: x"),
    ],
)
def test_what_is_singular_is_refused(function, message, batch, device):
    x = tt.broadcast_to(tt.tensor(SINGULAR, device=device) - 1, (*batch, 2, 2)).clone()
    x[(0,) * len(batch)] = tt.tensor(SINGULAR, device=device)
    with pytest.raises(ValueError, match=message):
        function(x)


def test_determinants_of_what_is_singular(device):
    x = tt.tensor([SINGULAR, [[0.0, 2.0], [3.0, 0.0]]], device=device, dtype=tt.float64)
    sign, logarithm = tt.linalg.slogdet(x)
    assert (sign.tolist(), logarithm[0].item()) == ([0, -1], -np.inf)
    np.testing.assert_allclose(tt.linalg.det(x).numpy(), [0, -6], rtol=1e-14)


@pytest.mark.parametrize(
    ("shape1", "shape2"),
    [
        ((2, 2), (2,)),
        ((3, 2, 2), (2,)),
        ((3, 2, 2), (2, 1)),
        ((2, 2), (3, 2, 4)),
        ((3, 1, 2, 2), (4, 2, 3)),
        ((2, 2, 2), (2, 2)),
        ((1, 1, 1), (1,)),
        ((0, 2, 2), (2, 3)),
        ((0, 0), (0, 3)),
        ((2, 2), (2, 0)),
        ((4, 0, 0), (0,)),
    ],
)
def test_solve_broadcasts(shape1, shape2, device):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape1) + 3 * np.eye(shape1[-1]), rng.normal(size=shape2)
    x1, x2 = (tt.tensor(x, device=device, requires_grad=True) for x in (a, b))
    found = tt.linalg.solve(x1, x2)
    expected = np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    assert tt.gradcheck(tt.linalg.solve, [x1, x2])


@pytest.mark.parametrize("function", [tt.linalg.inv, tt.linalg.cholesky, tt.linalg.det])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 2, 2)])
def test_linear_algebra_of_nothing(function, shape, device):
    x = tt.ones(shape, device=device).requires_grad_()
    found = function(x)
    assert found.shape == (shape[:-2] if function is tt.linalg.det else shape)
    assert tt.grad(found, x, tt.ones_like(found)).shape == shape


def test_solve_of_what_does_not_fit(device):
    with pytest.raises(ValueError, match=r"solve: .*x1 \(0, 0\).*x2 \(3, 1\)"):
        tt.linalg.solve(tt.ones((0, 0), device=device), tt.ones((3, 1), device=device))


# ---- arithmetic: special values

VALUES = [0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 2.5, 1e-3, -7.0, 60000.0, np.inf, -np.inf, np.nan]
FLOATS = [tt.float16, tt.float32, tt.float64]


def same(name, device, *arrays):
    """The op's values on the device are NumPy's to the last bit, the sign of zero included."""
    with np.errstate(all="ignore"):
        expected = getattr(np, {"pow": "power", **SHIFTS}.get(name, name))(*arrays)
    found = getattr(tt, name)(*(tt.asarray(x, device=device) if isinstance(x, np.ndarray) else x for x in arrays))
    assert found.dtype == expected.dtype
    found = found.numpy()
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quotients_of_floats(name, dtype, device):
    x = np.array(VALUES, dtype=dtype)
    same(name, device, x[:, None], x)
    for number in (0.1, -3.0, np.inf):
        same(name, device, x, number)
        same(name, device, number, x)
    rng = np.random.default_rng(0)
    same(name, device, *(rng.normal(size=(2, 10_000)) * 10.0 ** rng.integers(-3, 4, size=(2, 10_000))).astype(dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quotients_of_integers(device):
    x = np.arange(-5, 6)
    for name in ("floor_divide", "remainder"):
        same(name, device, x[:, None], x)
        same(name, device, x, 3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_tenth_goes_nine_times_into_one(device):
    x = tt.tensor([1.0, 1.0, -1.0, 1.0], dtype=tt.float64, device=device, requires_grad=True)
    y = tt.tensor([0.1, np.inf, np.inf, -np.inf], dtype=tt.float64, device=device, requires_grad=True)
    assert (x // y).tolist() == [9, 0, -1, -1]
    assert (x % y).tolist() == [0.09999999999999995, 1, np.inf, -np.inf]
    assert [g.tolist() for g in tt.grad((x % y).sum(), [x, y])] == [[1, 1, 1, 1], [-9, 0, 1, 1]]


@pytest.mark.parametrize("dtype", [tt.int8, tt.int32, tt.int64])
def test_negative_powers_of_integers_are_refused(dtype, device):
    x, y = (tt.tensor(v, dtype=dtype, device=device) for v in ([2, -1, 1, -3], [3, 0, 1, 2]))
    assert tt.pow(x, y).tolist() == [8, 1, 1, 9]
    for power in (lambda: x**-1, lambda: tt.pow(x, -y), lambda: 2**-y):
        with pytest.raises(ValueError, match="pow: Integers to negative integer powers are not allowed"):
            power()
    assert tt.pow(tt.astype(x, tt.float32), -1).tolist() == [0.5, -1, 1, pytest.approx(-1 / 3)]
    bits = tt.tensor([True, False], device=device)
    assert tt.pow(bits, bits).tolist() == [1, 1]


SHIFTS = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_as_far_as_one_likes(name, dtype, device):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 5, 100, info.max, info.min], dtype=dtype)
    distances = np.array([0, 1, 7, 8, 31, 32, 63, 64, 65, 100, *([-1, -8] if info.min else [])]).astype(dtype)
    same(name, device, x[:, None], distances)
    for number in (3, 64):
        same(name, device, x, number)
        same(name, device, 77, distances)


def test_shifts_of_booleans(device):
    x = np.array([True, False])
    for name in SHIFTS:
        same(name, device, x[:, None], x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_and_logaddexp_of_special_values(dtype, device):
    x = np.array(VALUES, dtype=dtype)
    same("sign", device, x)
    pairs = [tt.asarray(v, device=device) for v in (x[:, None], x)]
    with np.errstate(all="ignore"):
        expected = np.logaddexp(x[:, None], x)
        np.testing.assert_allclose(tt.logaddexp(*pairs).numpy(), expected, rtol=8 * np.finfo(dtype).eps)
        np.testing.assert_allclose(tt.logaddexp(pairs[1], np.inf).numpy(), np.logaddexp(x, np.inf))


def test_sign_of_integers_and_complex_numbers(device):
    same("sign", device, np.array([-3, 0, 2]))
    same("sign", device, np.array([0, 2], np.uint8))
    found = tt.sign(tt.asarray(np.array([3 + 4j, 0, -2j, -5]), device=device))
    np.testing.assert_allclose(found.numpy(), [0.6 + 0.8j, 0, -1j, -1], rtol=1e-15)


def test_the_gradient_of_abs_is_nan_at_nan(device):
    x = tt.tensor([np.nan, -2.0, 0.0, 3.0], device=device, requires_grad=True)
    tt.abs(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [np.nan, -1, 0, 1])


# ---- places named by indices: CUDA adds few dtypes atomically

DTYPES = [np.dtype(code).name for code in "?bhiqBHIQefdFD"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "key",
    [
        (np.array([1, 1, 3, 1]),),
        (Ellipsis, np.array([0, 2, 0])),
        (slice(1, 3), np.array([1, 1])),
        (np.array([[0], [3]]), np.array([2, 2])),
        (np.array([True, False, True, False]),),
        (slice(None, 2),),
    ],
)
def test_scatter_adds_every_dtype(dtype, key, device):
    expected = np.zeros((4, 3), dtype=dtype)
    values = np.random.default_rng(0).integers(0, 100, size=expected[key].shape).astype(dtype)
    if expected.dtype.kind == "c":
        values += 1j * (values + 1)
    np.add.at(expected, key, values)
    on_device = tuple(tt.asarray(part, device=device) if isinstance(part, np.ndarray) else part for part in key)
    found = tt.scatter(tt.asarray(values, device=device), on_device, (4, 3))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3 if dtype == "float16" else 1e-6)


def test_rows_that_are_looked_up_get_the_sum_of_their_gradients(device):
    """On a GPU in the order in which threads come, so to rounding; on the CPU the same to the bit each time."""
    rng = np.random.default_rng(0)
    ids, g = rng.integers(0, 5, size=1000), rng.normal(size=(1000, 4)).astype(np.float32)
    expected = np.zeros((5, 4))
    np.add.at(expected, ids, g)
    weight = tt.zeros((5, 4), device=device).requires_grad_()
    places, seed = (tt.asarray(x, device=device) for x in (ids, g))
    for look_up in (tt.nn.functional.embedding, lambda places, weight: weight[places]):
        first, second = (tt.grad(look_up(places, weight), weight, seed).numpy() for _ in range(2))
        np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second, expected, rtol=1e-4, atol=1e-5)
        assert device == "gpu" or (first == second).all()


# ---- truth values


def test_truth_of_complex_numbers(device):
    """Which CuPy's logical functions do not take."""
    x, y = (tt.tensor(values, device=device) for values in ([0j, 1j, 2 + 0j, 0j], [1j, 1 + 1j, 0j, 0j]))
    assert tt.logical_and(x, y).tolist() == [False, True, False, False]
    assert tt.logical_or(x, y).tolist() == [True, True, True, False]
    assert tt.logical_xor(x, y).tolist() == [True, False, True, False]
    assert tt.logical_not(x).tolist() == [True, False, False, True]


# ---- order


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_with_a_sign_is_sorted_to_the_end(dtype, device):
    """0 / 0 has one on many CPUs; CuPy sorts vectors by their bits, and it would come first."""
    x = tt.tensor([2.0, -np.nan, 1.0, np.nan, -np.inf], dtype=dtype, device=device)
    assert tt.argsort(x).tolist() == [4, 2, 0, 1, 3]
    assert tt.argsort(x, descending=True).tolist() == [1, 3, 0, 2, 4]
    np.testing.assert_array_equal(tt.unique_values(x).numpy(), [-np.inf, 1, 2, np.nan, np.nan])
    assert tt.isin(tt.tensor([1.0, 3.0], dtype=dtype, device=device), x).tolist() == [True, False]
