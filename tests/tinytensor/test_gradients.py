"""What is promised about gradients: shapes and dtypes, kinks, corners, and the errors of backward."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import gradgradcheck
from tinytensor.testing import gradcheck


def gradient(function, *values, dtype=tt.float64):
    """The gradients of the sum of a function's result, as lists."""
    leaves = [tt.tensor(v, dtype=dtype, requires_grad=True) for v in values]
    function(*leaves).sum().backward()
    found = [x.grad.tolist() for x in leaves]
    return found[0] if len(found) == 1 else found


def leaf(*shape, seed=0):
    return tt.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


# ---- shape, dtype and device of the input


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize("other", [tt.float16, tt.float32, tt.float64])
def test_gradient_has_the_dtype_of_its_input(dtype, other, device):
    x = tt.ones((2, 3), dtype=dtype, device=device).requires_grad_()
    y = tt.ones((3,), dtype=other, device=device).requires_grad_()
    (x * y).sum().backward()
    assert (x.grad.shape, x.grad.dtype, x.grad.device) == ((2, 3), dtype, device)
    assert (y.grad.shape, y.grad.dtype, y.grad.device) == ((3,), other, device)


@pytest.mark.parametrize("shape", [(1,), (1, 3), (2, 1), ()])
def test_broadcast_gradient_has_the_shape_of_its_input(shape, device):
    x = tt.ones(shape, device=device).requires_grad_()
    tt.where(tt.zeros((2, 3), dtype=bool, device=device), 0.0, x).sum().backward()
    assert x.grad.shape == shape
    assert x.grad.sum().item() == 6


def test_negative_axes_of_a_transpose():
    x = leaf(2, 3, 4)
    assert gradcheck(lambda x: tt.permute_dims(x, (-1, 0, -2)), x)
    tt.permute_dims(x, (-1, 0, -2)).sum().backward()
    assert x.grad.shape == (2, 3, 4)


def test_gradient_does_not_share_memory_with_anything():
    x = tt.ones(3).requires_grad_()
    y = tt.ones(3).requires_grad_()
    g = tt.ones(3)
    (x + y).backward(g)
    assert not np.shares_memory(x.grad.data, y.grad.data)
    assert not np.shares_memory(x.grad.data, g.data)


# ---- kinks


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (tt.abs, [-2.0, 0.0, 2.0], [-1, 0, 1]),
        (lambda x: tt.max(x), [1.0, 3.0, 3.0], [0, 0.5, 0.5]),
        (lambda x: tt.max(x, axis=1), [[2.0, 2.0], [1.0, 5.0]], [[0.5, 0.5], [0, 1]]),
        (lambda x: tt.min(x), [1.0, 1.0, 1.0, 3.0], [1 / 3, 1 / 3, 1 / 3, 0]),
        (lambda x: tt.clip(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 1, 1, 0]),
        (lambda x: tt.linalg.vector_norm(x), [0.0, 0.0], [0, 0]),
        (lambda x: tt.linalg.vector_norm(x, ord=3), [0.0, 0.0], [0, 0]),
        (lambda x: tt.linalg.matrix_norm(x), [[0.0, 0.0]], [[0, 0]]),
        (tt.std, [2.0, 2.0, 2.0], [0, 0, 0]),
        (lambda x: x**0, [0.0, 2.0], [0, 0]),
        (lambda x: tt.pow(x, tt.zeros(2, dtype=tt.float64)), [0.0, 2.0], [0, 0]),
        (lambda y: tt.pow(0.0, y), [1.0, 2.0], [0, 0]),
        (lambda y: tt.pow(tt.zeros(2, dtype=tt.float64), y), [1.0, 2.0], [0, 0]),
        (lambda x: tt.logsumexp(x), [-math.inf, 0.0], [0, 1]),
        (lambda x: tt.logsumexp(x), [-math.inf, -math.inf], [0, 0]),
        (lambda x: tt.hypot(x, 0.0), [0.0], [0]),
        (tt.floor, [0.5], [0]),
        (lambda x: tt.copysign(x, -1.0), [0.0, 2.0], [0, -1]),
        (lambda x: tt.nextafter(x, 2.0), [1.0, 3.0], [1, 1]),
        (lambda x: tt.nextafter(2.0, x), [1.0, 3.0], [0, 0]),
        (lambda x: tt.maximum(x, 0), [-1.0, 2.0], [0, 1]),
    ],
)
def test_kinks(function, values, expected):
    assert gradient(function, values) == expected


def test_equal_arguments_share():
    assert gradient(tt.maximum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 0], [0.5, 1]]
    assert gradient(tt.minimum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 1], [0.5, 0]]


def test_values_at_the_corners():
    zero = tt.zeros(())
    assert tt.pow(zero, 0).item() == 1
    assert tt.pow(zero, tt.zeros(())).item() == 1
    assert tt.logsumexp(tt.tensor([-math.inf, -math.inf])).item() == -math.inf


def test_second_derivative_of_kinks_is_finite():
    x = tt.tensor([0.0, 0.0], dtype=tt.float64, requires_grad=True)
    for function in (tt.linalg.vector_norm, tt.std, lambda x: tt.pow(x, 2).sum(), lambda x: tt.logsumexp(x)):
        (first,) = tt.grad(function(x), [x], create_graph=True)
        (second,) = tt.grad(first.sum(), [x], allow_unused=True)
        assert second is None or np.isfinite(second.numpy()).all()


# ---- zeros in products, repeated indices, singular matrices


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [5.0]])
@pytest.mark.parametrize("function", [tt.prod, tt.cumulative_prod])
def test_products_with_zeros(function, values):
    x = tt.tensor(values, dtype=tt.float64, requires_grad=True)
    assert gradcheck(function, x)
    assert gradgradcheck(function, x)


def test_reading_a_place_twice_adds():
    assert gradient(lambda x: x[[0, 0, 2]], [1.0, 2.0, 3.0]) == [2, 0, 1]
    assert gradient(lambda x: tt.take(x, [1, 1, 1]), [1.0, 2.0, 3.0]) == [0, 3, 0]


def test_writing_a_place_twice_the_last_wins(device):
    x = tt.zeros(3, dtype=tt.float64, device=device).requires_grad_()
    values = tt.tensor([1.0, 2.0, 3.0], dtype=tt.float64, device=device, requires_grad=True)
    y = x * 1
    y[[1, 1, 0]] = values
    y.sum().backward()
    assert y.tolist() == [3, 2, 0]
    assert values.grad.tolist() == [0, 1, 1]
    assert x.grad.tolist() == [0, 0, 1]


def test_determinant_of_a_singular_matrix_has_the_adjugate():
    matrix = [[1.0, 2.0], [2.0, 4.0]]
    assert np.allclose(gradient(tt.linalg.det, matrix), [[4, -2], [-2, 1]], atol=1e-12)
    x = tt.tensor(np.diag([1.0, 2.0, 0.0, 3.0]), requires_grad=True)
    tt.linalg.det(x).backward()
    assert np.allclose(x.grad.numpy(), np.diag([0, 0, 6.0, 0]), atol=1e-12)


# ---- second order through kept outputs


@pytest.mark.parametrize(
    ("function", "second"),
    [
        (tt.exp, np.exp),
        (tt.tanh, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
        (tt.sqrt, lambda x: -0.25 * x**-1.5),
        (tt.reciprocal, lambda x: 2 / x**3),
        (tt.sigmoid, lambda x: (s := 1 / (1 + np.exp(-x))) * (1 - s) * (1 - 2 * s)),
        (tt.expm1, np.exp),
        (tt.tan, lambda x: 2 * np.tan(x) / np.cos(x) ** 2),
        (lambda x: tt.exp(tt.exp(x)), lambda x: np.exp(np.exp(x)) * np.exp(x) * (1 + np.exp(x))),
        (
            lambda x: tt.sqrt(tt.exp(tt.exp(x))),
            lambda x: np.sqrt(np.exp(np.exp(x))) * np.exp(x) / 2 * (1 + np.exp(x) / 2),
        ),
    ],
)
def test_second_derivatives_flow_through_kept_outputs(function, second, device):
    """A kept output handed over raw under create_graph would lose a term here, without any error."""
    values = np.array([0.3, 0.7, 1.1])
    x = tt.tensor(values, device=device, requires_grad=True)
    first = tt.grad(function(x).sum(), x, create_graph=True)
    found = tt.grad(first.sum(), x)
    np.testing.assert_allclose(found.numpy(), second(values), rtol=1e-12)


def test_third_derivative():
    x = tt.tensor(0.7, dtype=tt.float64, requires_grad=True)
    y = tt.tanh(x) * tt.exp(x)
    for _ in range(3):
        y = tt.grad(y, x, create_graph=True)
    t = math.tanh(0.7)
    expected = math.exp(0.7) * (t + 3 * (1 - t * t) - 6 * t * (1 - t * t) + (1 - t * t) * (6 * t * t - 2))
    assert math.isclose(y.item(), expected, rel_tol=1e-12)


def test_hessian_vector_product_by_backward_twice():
    x = leaf(4)
    first = tt.grad((x**3).sum(), x, create_graph=True)
    (first * tt.tensor([1.0, 0, 0, 2], dtype=tt.float64)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy() * [1, 0, 0, 2])


def test_grad_of_grad_collected_in_leaves():
    x = tt.tensor(2.0, dtype=tt.float64, requires_grad=True)
    (x**3).backward(create_graph=True)
    assert x.grad.requires_grad
    second = tt.grad(x.grad, x)
    assert second.item() == 12


# ---- where and NaN


def test_where_lets_nan_through_and_the_double_where_does_not():
    with np.errstate(all="ignore"):
        naive = gradient(lambda x: tt.where(x > 0, x * tt.log(x), 0.0), [0.0, 1.0])
    assert np.isnan(naive[0])
    assert naive[1] == 1
    safe = gradient(lambda x: tt.where(x > 0, tt.log(tt.where(x > 0, x, 1.0)), 0.0), [0.0, 2.0])
    assert safe == [0, 0.5]


# ---- what cannot have a gradient


@pytest.mark.parametrize("dtype", [tt.int64, tt.int8, tt.uint8, tt.bool])
def test_only_floats_can_require_a_gradient(dtype):
    with pytest.raises(TypeError, match=f"only floating Tensors can require a gradient, got {dtype}"):
        tt.zeros(3, dtype=dtype).requires_grad_()
    with pytest.raises(TypeError, match="only floating"):
        tt.tensor([0, 1], dtype=dtype, requires_grad=True)


def test_results_that_are_no_floats_do_not_require_a_gradient():
    x = tt.ones(3).requires_grad_()
    for y in (x > 0, tt.argmax(x), tt.isnan(x), tt.astype(x, tt.int64), tt.argsort(x), tt.count_nonzero(x)):
        assert not y.requires_grad


def test_an_op_without_a_rule_names_itself():
    @tt.op(x=lambda xp, g, y: g * y)
    def half_differentiable(xp, x, y):
        return x * y

    try:
        x, y = tt.ones(2).requires_grad_(), tt.ones(2).requires_grad_()
        with pytest.raises(NotImplementedError, match="half_differentiable has no gradient rule for its input 'y'"):
            half_differentiable(x, y).sum().backward()
    finally:
        tt.ops.pop("half_differentiable")


# ---- errors of backward


def test_backward_of_many_elements_needs_a_gradient():
    x = tt.ones((2, 3)).requires_grad_()
    with pytest.raises(RuntimeError, match=r"shape \(2, 3\).*\.sum\(\)"):
        (x * 2).backward()
    (x * 2).backward(tt.ones((2, 3)))
    assert (x.grad == 2).all()


def test_backward_with_a_gradient_of_another_shape():
    x = tt.ones((2, 3)).requires_grad_()
    with pytest.raises(ValueError, match=r"gradient has shape \(3,\), the Tensor \(2, 3\)"):
        (x * 2).backward(tt.ones(3))
    assert x.grad is None


def test_backward_twice_needs_retain_graph():
    x = tt.ones(3).requires_grad_()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [6, 6, 6]


def test_a_freed_part_of_a_graph_is_an_error():
    x = tt.ones(3).requires_grad_()
    shared = x * x
    shared.sum().backward()
    with pytest.raises(RuntimeError, match=r"multiply.*already used and freed"):
        (shared * 2).sum().backward()


def test_backward_of_nothing():
    with pytest.raises(RuntimeError, match=r"nothing to differentiate.*requires_grad=True"):
        tt.ones(()).backward()
    x = tt.ones(()).requires_grad_()
    with tt.no_grad():
        y = x * 2
    with pytest.raises(RuntimeError, match="no_grad"):
        y.backward()


def test_two_graphs_that_share_a_leaf_add_up():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5, 7]


def test_grad_errors():
    x, y = tt.ones(2).requires_grad_(), tt.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match=r"do not depend on input 1.*allow_unused"):
        tt.grad(x.sum(), [x, y])
    found = tt.grad(x.sum(), [x, y], allow_unused=True)
    assert found[1] is None
    with pytest.raises(RuntimeError, match=r"input 0 .* does not require a gradient"):
        tt.grad(x.sum(), tt.ones(2))
    with pytest.raises(ValueError, match="2 outputs but 1 grad_outputs"):
        tt.grad([x.sum(), y.sum()], [x], [tt.ones(())])
    assert x.grad is None


def test_grad_with_respect_to_a_computed_tensor():
    x = tt.tensor(3.0, requires_grad=True)
    y = x * x
    z = y * y
    assert tt.grad(z, y).item() == 18
    assert tt.grad(y * y, [y, x])[1].item() == 108


def test_grad_of_an_output_with_respect_to_itself():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    assert tt.grad(x, x, tt.tensor([5.0, 6.0])).tolist() == [5, 6]


def test_several_outputs_add_up():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    (found,) = tt.grad([x.sum(), x * x], [x], [None, tt.tensor([1.0, 10.0])])
    assert found.tolist() == [3, 41]


# ---- checking gradients


def test_gradcheck_finds_a_wrong_rule():
    @tt.op(x=lambda xp, g, x: g * x)
    def wrong_square(xp, x):
        return x * x

    try:
        with pytest.raises(tt.GradientError, match="along a random direction"):
            gradcheck(wrong_square, leaf(3))
    finally:
        tt.ops.pop("wrong_square")


def test_gradgradcheck_finds_a_rule_that_is_right_at_first_order_only():
    @tt.op(x=lambda xp, g, x: g * (x.detach() if isinstance(x, tt.Tensor) else x) * 2)
    def cut_square(xp, x):
        return x * x

    try:
        assert gradcheck(cut_square, leaf(3))
        with pytest.raises(tt.GradientError):
            gradgradcheck(cut_square, leaf(3))
    finally:
        tt.ops.pop("cut_square")


def test_gradcheck_asks_for_float64():
    with pytest.raises(TypeError, match="float64"):
        gradcheck(tt.exp, tt.ones(3).requires_grad_())
    with pytest.raises(ValueError, match="none of the inputs requires"):
        gradcheck(tt.exp, tt.ones(3))


def test_a_freed_graph_behind_another_raises_and_is_not_passed_over():
    x = tt.tensor(3.0, dtype=tt.float64, requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="already used and freed"):
        tt.grad(y + x, x)
    with pytest.raises(RuntimeError, match="already used and freed"):
        tt.grad(y, x, allow_unused=True)


@pytest.mark.parametrize("length", [2, 3, 7, 30, 59])
@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1.1])
def test_std_of_a_constant_has_gradient_zero_also_where_its_mean_is_rounded(length, value):
    assert gradient(tt.std, [value] * length) == [0.0] * length


def test_the_sign_of_a_determinant_that_underflows():
    sign, logarithm = tt.linalg.slogdet(0.01 * tt.eye(200, dtype=tt.float64))
    assert sign.item() == 1.0
    assert logarithm.item() == pytest.approx(200 * math.log(0.01))


def test_float16_gradients_of_many_paths_add_up_in_32_bits():
    x = tt.ones(1, dtype=tt.float16).requires_grad_()
    tt.concat([x * 0.001 for _ in range(3000)]).sum().backward()
    assert x.grad.item() == pytest.approx(3, rel=1e-3)  # in 16 bits numbers above 2 are 0.002 apart


def test_float16_statistics_of_many_numbers():
    values = np.tile([0.0, 0.5], 40_000).astype(np.float16)
    assert tt.var(tt.asarray(values)).item() == pytest.approx(0.0625, rel=1e-3)
    assert tt.std(tt.asarray(values)).item() == pytest.approx(0.25, rel=1e-3)
    x = tt.tensor(values, requires_grad=True)
    tt.mean(x).backward()
    assert x.grad[0].item() == pytest.approx(1 / 80_000, rel=1e-2)


def test_a_place_that_is_read_very_often():
    x = tt.tensor([1.0], requires_grad=True)
    tt.take(x, tt.zeros(1_000_000, dtype=tt.int64)).backward(tt.full((1_000_000,), 0.1))
    assert x.grad.item() == pytest.approx(100_000, rel=1e-6)
