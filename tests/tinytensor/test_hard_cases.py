"""Cases whose answer mathematics gives, and in which a formula written down as it stands is wrong or refuses."""

import copy
import inspect
import math
import sys
import threading

import numpy as np
import pytest

import tinytensor as tt

INF, NAN = math.inf, math.nan


def value_and_gradients(function, *values, dtype=tt.float64, device="cpu"):
    leaves = [tt.tensor(v, dtype=dtype, device=device, requires_grad=True) for v in values]
    out = function(*leaves)
    return out.tolist(), [g.tolist() for g in tt.grad(tt.sum(out), leaves)]


# ---- nothing


def test_the_log_of_a_sum_of_nothing(device):
    x = tt.zeros((2, 0), device=device).requires_grad_()
    out = tt.logsumexp(x, axis=1)
    assert out.tolist() == [-INF, -INF]
    assert tt.logsumexp(x, axis=1, keepdims=True).shape == (2, 1)
    assert tt.grad(out, x, tt.ones_like(out)).shape == (2, 0)


@pytest.mark.parametrize("name", ["max", "min"])
def test_there_is_no_largest_of_nothing(name, device):
    with pytest.raises(ValueError, match=rf"^{name}: there is no {name} of nothing: shape \(3, 0\)"):
        getattr(tt, name)(tt.zeros((3, 0), device=device), axis=-1)
    assert getattr(tt, name)(tt.zeros((0, 3), device=device), axis=-1).shape == (0,)


# ---- 16 bits

HALF = {"dtype": tt.float16}


@pytest.mark.parametrize("scale", [30.0, 300.0, 2000.0])
def test_squares_of_16_bit_floats_do_not_overflow(scale, device):
    x = tt.tensor([-scale, scale, 0.0, scale / 2], **HALF, device=device, requires_grad=True)
    wide = tt.tensor(x.tolist(), dtype=tt.float64, requires_grad=True)
    for function in (tt.std, tt.linalg.vector_norm):
        found, exact = function(x), function(wide)
        assert found.dtype == tt.float16
        np.testing.assert_allclose(found.item(), exact.item(), rtol=2e-3)
        (g,), (g_exact,) = tt.grad(found, [x]), tt.grad(exact, [wide])
        assert g.dtype == tt.float16
        np.testing.assert_allclose(g.tolist(), g_exact.tolist(), rtol=4e-3, atol=1e-3)
    if scale <= 300:  # else the variance itself has no place in 16 bits
        np.testing.assert_allclose(tt.var(x).item(), tt.var(wide).item(), rtol=2e-3)


# ---- infinite and nearly


@pytest.mark.parametrize(
    ("x1", "x2", "value", "gradients"),
    [
        (INF, 0.0, INF, [1, 0]),
        (0.0, INF, INF, [0, 1]),
        (INF, INF, INF, [0.5, 0.5]),
        (-INF, 1.0, 1.0, [0, 1]),
        (-INF, -INF, -INF, [0, 0]),
        (-INF, INF, INF, [0, 1]),
        (1e17, 1e17, 1e17, [0.5, 0.5]),
        (-1e17, -1e17, -1e17, [0.5, 0.5]),
        (1e300, -1e300, 1e300, [1, 0]),
    ],
)
def test_logaddexp_far_out(x1, x2, value, gradients, device):
    with np.errstate(all="raise", under="ignore"):
        assert value_and_gradients(tt.logaddexp, x1, x2, device=device) == (value, gradients)


@pytest.mark.parametrize("x", [1e4, 1e8])
def test_logaddexp_of_large_equal_numbers_in_32_bits(x, device):
    assert value_and_gradients(tt.logaddexp, x, x, dtype=tt.float32, device=device)[1] == [0.5, 0.5]


def test_logaddexp_has_second_derivatives_where_both_are_equal():
    x, y = (tt.tensor(2.0, dtype=tt.float64, requires_grad=True) for _ in range(2))
    (first,) = tt.grad(tt.logaddexp(x, y), [x], create_graph=True)
    assert [g.item() for g in tt.grad(first, [x, y])] == [0.25, -0.25]


def test_nan_is_the_extreme_and_takes_its_gradient(device):
    for function in (tt.max, tt.min):
        value, (gradient,) = value_and_gradients(function, [1.0, NAN, 2.0, NAN], device=device)
        assert math.isnan(value)
        assert gradient == [0, 0.5, 0, 0.5]
    for function in (tt.maximum, tt.minimum):
        value, gradients = value_and_gradients(function, [1.0, NAN, NAN], [NAN, 2.0, NAN], device=device)
        assert all(map(math.isnan, value))
        assert gradients == [[0, 1, 0.5], [1, 0, 0.5]]


def test_extremes_do_not_multiply_an_infinite_gradient_by_0(device):
    x = tt.tensor([1.0, 2.0], device=device, requires_grad=True)
    out = tt.maximum(x, 1.5)
    assert tt.grad(out, x, tt.tensor([INF, INF], device=device)).tolist() == [0, INF]


def test_a_product_that_overflows_on_its_way(device):
    values = [2.0**100, 2.0**100, 2.0**-100, 2.0**-100]
    value, (gradient,) = value_and_gradients(tt.prod, values, dtype=tt.float32, device=device)
    assert value == 1
    assert gradient == [1 / v for v in values]


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_sigmoid_far_out_is_no_underflow(dtype, device):
    with np.errstate(all="raise"):
        value, (gradient,) = value_and_gradients(tt.sigmoid, [-1e4, 0.0, 1e4], dtype=dtype, device=device)
    assert (value, gradient) == ([0, 0.5, 1], [0, 0.25, 0])


# ---- norms and determinants


@pytest.mark.parametrize("ord", [0.5, 0.9, 1.5, 3])
def test_a_norm_where_an_element_is_0(ord, device):
    with np.errstate(all="raise"):
        value, (gradient,) = value_and_gradients(lambda x: tt.linalg.vector_norm(x, ord=ord), [0.0, 2.0], device=device)
    np.testing.assert_allclose(value, 2.0)
    np.testing.assert_allclose(gradient, [0, 1])


def test_a_norm_of_negative_order_where_an_element_is_0(device):
    with np.errstate(all="raise"):
        found = value_and_gradients(lambda x: tt.linalg.vector_norm(x, ord=-1), [0.0, 2.0], device=device)
    assert found == (0, [[0, 0]])


def test_how_many_are_not_0_has_gradient_0(device):
    found = value_and_gradients(lambda x: tt.linalg.vector_norm(x, ord=0), [0.0, -2.0, 3.0], device=device)
    assert found == (2, [[0, 0, 0]])
    assert tt.linalg.vector_norm(tt.tensor([NAN, 0.0], device=device), ord=0).item() == 1


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_the_log_of_a_determinant_that_is_0_has_no_gradient(matrix):
    x = tt.tensor(matrix, requires_grad=True)
    sign, log = tt.linalg.slogdet(x)
    assert (sign.item(), log.item()) == (0, -INF)
    with pytest.raises(RuntimeError, match="no gradient at a singular matrix.*tt.linalg.det has one"):
        log.backward()


# ---- differences


def test_diff_joins_numbers_and_rows(device):
    x = tt.tensor([[1.0, 4.0], [9.0, 16.0]], device=device)
    assert tt.diff(x, prepend=0.0).tolist() == [[1, 3], [9, 7]]
    assert tt.diff(x, axis=0, append=tt.ones((1, 2), device=device)).tolist() == [[8, 12], [-8, -15]]
    assert tt.diff(x[0], n=2, prepend=0.0, append=9).tolist() == np.diff([1.0, 4.0], n=2, prepend=0, append=9).tolist()


@pytest.mark.parametrize("function", [lambda x: tt.diff(x, n=0), lambda x: tt.linalg.matrix_power(x, 1)])
@pytest.mark.parametrize("dtype", [tt.float32, tt.int64])
def test_a_result_that_equals_its_argument_has_memory_of_its_own(function, dtype):
    x = tt.ones((3, 3), dtype=dtype)
    y = function(x)
    assert y is not x
    x[0, 0] = 5
    assert y.tolist() == [[1, 1, 1]] * 3


def test_diff_taken_no_times_joins_nothing():
    x = tt.tensor([1, 3])
    assert tt.diff(x, n=0, prepend=tt.tensor([0])).tolist() == [1, 3]
    with pytest.raises(ValueError, match="diff: n must be 0 or more, got -1"):
        tt.diff(x, n=-1)


# ---- inputs by name


def test_inputs_by_name(device):
    x = tt.tensor([3.0], device=device, requires_grad=True)
    out = tt.hypot(x, x2=4.0)
    assert out.tolist() == [5]
    np.testing.assert_allclose(tt.grad(out, x).tolist(), [0.6])
    assert tt.hypot(x2=x, x1=4.0).tolist() == [5]
    assert tt.tanh(x=tt.zeros(1, device=device)).tolist() == [0]
    with tt.textbook():
        assert tt.hypot(x, x2=4.0).tolist() == [5]


def test_an_op_of_ones_own_whose_parameter_is_no_keyword():
    @tt.op(x=lambda xp, g, x, axis: xp.broadcast_to(xp.expand_dims(g, axis=axis), x.shape))
    def total(xp, x, axis):
        return xp.sum(x, axis=axis)

    try:
        x = tt.ones((2, 3)).requires_grad_()
        out = total(x, axis=-1)
        assert out.tolist() == [3, 3]
        assert tt.grad(out.sum(), x).tolist() == [[1] * 3] * 2
    finally:
        del tt.ops["total"]


def test_inputs_that_are_missing_or_too_many():
    with pytest.raises(TypeError, match=r"hypot: got no x2; expected hypot\(x1, x2\)"):
        tt.hypot(1.0)
    with pytest.raises(TypeError, match=r"tanh: got no x; expected tanh\(x\)"):
        tt.tanh()
    with pytest.raises(TypeError, match=r"hypot: got 3 inputs; expected hypot\(x1, x2\)"):
        tt.hypot(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match="multiple values for argument 'x2'"):
        tt.hypot(tt.ones(1), 2.0, x2=3.0)


# ---- looking at Tensors


def test_a_copy_of_a_leaf_is_a_leaf(device):
    x = tt.ones(2, device=device).requires_grad_()
    twin = copy.copy(x)
    assert (twin.is_leaf, twin.requires_grad) == (True, True)
    assert twin is not x
    with tt.no_grad():
        twin[0] = 5.0
    assert x.tolist() == [1, 1]
    y = x * 2
    assert tt.grad(copy.copy(y).sum(), x).tolist() == [2, 2]


def test_what_a_tensor_has_can_be_listed():
    x = tt.ones(3)
    assert not hasattr(x, "T")
    assert not hasattr(x, "mT")
    assert {"shape", "grad", "sum"} <= dict(inspect.getmembers(x)).keys()
    with pytest.raises(AttributeError, match=r"T: expected 2 dimensions, got shape \(3,\)"):
        print(x.T)


def test_what_is_no_number():
    with pytest.raises(TypeError, match=f"asarray: cannot make a Tensor of {2**64}; expected numbers of 64 bits"):
        tt.asarray(2**64)
    with pytest.raises(TypeError, match="tensor: cannot make a Tensor of None"):
        tt.tensor([[1.0, None]])


def test_vecdot_stays_in_its_dtype():
    x = tt.ones(3, dtype=tt.int8)
    assert tt.vecdot(x, x).dtype == tt.int8


def test_anomaly_mode_says_what_was_nan_before():
    weight = tt.tensor([NAN, 1.0], requires_grad=True)
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.detect_anomaly(), pytest.raises(FloatingPointError, match="not finite, as its x1 was NaN before"):
        (weight * x).sum().backward()


# ---- memory that is shared


def test_a_recorded_change_is_refused_while_a_view_would_not_see_it(device):
    leaf = tt.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    for view_of in (
        lambda a: a[:2],
        lambda a: a.reshape(3, 1),
        lambda a: tt.broadcast_to(a, (2, 3)),
        lambda a: a.unsqueeze(0),
        lambda a: tt.squeeze(tt.expand_dims(a, axis=0), 0),
        lambda a: a.detach(),
        lambda a: a.reshape(1, 3).T[0:2],
    ):
        a = leaf * 1
        view = view_of(a)
        with pytest.raises(RuntimeError, match=r"in place: there is a view of this Tensor \(3,\)"):
            a[0] = 10.0
        with pytest.raises(RuntimeError, match="in place: there is a view"):
            a += leaf
        assert view.shape
        del view
        a[0] = 10.0
        assert a.tolist() == [10, 2, 3]
        later = a[:2]
        assert later.tolist() == [10, 2]


def test_a_view_of_what_was_broadcast_is_not_written_to_behind_its_back(device):
    x = tt.zeros((), device=device)
    wide = tt.broadcast_to(x, (2,))
    part = wide[0]
    with pytest.raises(RuntimeError, match="in place: there is a view of this Tensor .* or it is one"):
        part[()] = 0.25
    assert (x.item(), wide.tolist(), part.item()) == (0, [0, 0], 0)
    del wide
    with pytest.raises(RuntimeError, match="in place: there is a view of this Tensor .* or it is one"):
        part += 1  # x is still there
    part = part.clone()
    part += 1
    assert (x.item(), part.item()) == (0, 1)


def test_a_view_without_gradients_sees_the_change(device):
    a = tt.tensor([1.0, 2.0, 3.0], device=device)
    view = a[:2]
    a[0] = 10.0
    a += 1
    assert view.tolist() == [11, 3]


def test_flip_shares_no_memory(device):
    x = tt.tensor([1.0, 2.0], device=device)
    y = tt.flip(x)
    y += 1
    assert (x.tolist(), y.tolist()) == ([1, 2], [3, 2])


def test_a_gradient_that_was_asked_for_stays_asked_for(device):
    x = tt.ones(2, device=device).requires_grad_()
    y = x * 2
    y.retain_grad()
    y *= 3
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]


# ---- threads


def in_threads(count, function):
    failures = []

    def run():
        try:
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_gradients_of_several_threads_add_up(quick_switching):
    x = tt.zeros(3).requires_grad_()
    in_threads(4, lambda: [(x * 1.0).sum().backward() for _ in range(100)])
    assert x.grad.tolist() == [400, 400, 400]


def test_writes_of_several_threads_are_all_seen(quick_switching):
    def change_what_is_kept():
        for _ in range(200):
            x = tt.ones(2).requires_grad_()
            y = x * 1
            z = tt.exp(y)
            tt.mark_written(z._data)
            with pytest.raises(RuntimeError, match="changed in place"):
                z.sum().backward()

    in_threads(4, change_what_is_kept)


def test_threads_draw_distinct_numbers_from_a_generator_that_none_used_before(quick_switching):
    for _ in range(20):
        generator = tt.random.Generator(0)
        drawn = []
        in_threads(4, lambda generator=generator, drawn=drawn: drawn.append(generator.uniform((50,)).tolist()))
        numbers = [x for part in drawn for x in part]
        assert len(set(numbers)) == 200


@pytest.fixture
def quick_switching():
    """Threads take turns after a few instructions, so that what two of them may break breaks."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
