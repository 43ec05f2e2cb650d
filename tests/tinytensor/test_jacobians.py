"""`tt.jacobian`, `tt.hessian`, `tt.vjp` and `tt.jvp`: shapes, what they share with each other, and their errors."""

import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F


def normal(*shape, seed=0, device="cpu", dtype=tt.float64):
    return tt.asarray(np.random.default_rng(seed).normal(size=shape), dtype=dtype, device=device)


def values(x):
    return x.detach().cpu().numpy()


def softmax(x):
    return F.softmax(x, dim=-1)


def test_the_jacobian_of_softmax(device):
    x = normal(4, device=device)
    p = values(softmax(x))
    found = tt.jacobian(softmax, x)
    assert (found.dtype, found.device, found.requires_grad) == (tt.float64, device, False)
    np.testing.assert_allclose(values(found), np.diag(p) - np.outer(p, p), rtol=0, atol=1e-15)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("weights", [(), (2,), (2, 0), (4, 2)])
def test_its_shape_is_that_of_the_result_and_then_that_of_the_input(shape, weights, device):
    w = normal(*weights, seed=1, device=device)
    found = tt.jacobian(lambda x: w * tt.sum(x * x), normal(*shape, device=device, dtype=tt.float32))
    assert (found.shape, found.dtype) == ((*weights, *shape), tt.float32)


def test_several_inputs_and_several_results_give_tuples():
    x, y = normal(3), normal(2, seed=1)

    def function(x, y):
        return tt.linalg.outer(x, y), tt.square(y)

    (by_x, by_y), (other_by_x, other_by_y) = tt.jacobian(function, x, y)
    assert by_x.shape == (3, 2, 3)
    np.testing.assert_allclose(by_y.numpy(), np.einsum("i,jk->ijk", x.numpy(), np.eye(2)))
    assert not other_by_x.numpy().any()
    np.testing.assert_allclose(other_by_y.numpy(), np.diag(2 * y.numpy()))


def test_a_hessian_of_two_inputs_has_four_blocks():
    x, y = normal(2), normal(3, seed=1)
    (xx, xy), (yx, yy) = tt.hessian(lambda x, y: tt.sum(x) ** 2 * tt.sum(y), x, y)
    assert [block.shape for block in (xx, xy, yx, yy)] == [(2, 2), (2, 3), (3, 2), (3, 3)]
    np.testing.assert_allclose(xx.numpy(), np.full((2, 2), 2 * y.numpy().sum()))
    np.testing.assert_allclose(xy.numpy(), np.full((2, 3), 2 * x.numpy().sum()))
    np.testing.assert_allclose(yx.numpy(), xy.numpy().T)
    assert not yy.numpy().any()


def test_a_linear_function_has_a_hessian_of_zeros():
    assert tt.hessian(lambda x: tt.sum(3 * x), normal(2)).tolist() == [[0, 0], [0, 0]]
    assert tt.hessian(lambda x: x, normal(1)).tolist() == [[0]]


def test_the_products_are_products_with_the_jacobian(device):
    x, y = normal(2, 3, device=device), normal(3, seed=1, device=device)
    g, t = normal(2, seed=2, device=device), (normal(2, 3, seed=3, device=device), normal(3, seed=4, device=device))

    def function(x, y):
        return tt.tanh(x) @ y

    by_x, by_y = tt.jacobian(function, x, y)
    out, multiply = tt.vjp(function, x, y)
    np.testing.assert_array_equal(values(out), values(function(x, y)))
    for _ in range(2):  # the graph is kept
        for found, expected in zip(multiply(g), (tt.einsum("i,ijk", g, by_x), g @ by_y)):
            np.testing.assert_allclose(values(found), values(expected), rtol=1e-12)
    out, found = tt.jvp(function, (x, y), t)
    np.testing.assert_array_equal(values(out), values(function(x, y)))
    np.testing.assert_allclose(values(found), values(tt.einsum("ijk,jk", by_x, t[0]) + by_y @ t[1]), rtol=1e-12)
    assert not any(z.requires_grad for z in (out, found, *multiply(g)))


def test_a_single_input_has_a_tuple_of_one_product_as_in_torch_func():
    out, multiply = tt.vjp(tt.square, tt.asarray(3.0))
    assert out.item() == 9
    assert [g.item() for g in multiply()] == [6]
    assert [g.item() for g in multiply(2)] == [12]  # a number is as good as a Tensor
    out, found = tt.jvp(tt.square, (tt.asarray(3.0),), (2.0,))
    assert (out.item(), found.item()) == (9, 12)


def test_a_product_of_a_tuple_of_results():
    x = normal(3)
    (_, constant), multiply = tt.vjp(lambda x: (x * x, tt.ones(2)), x)
    assert constant.tolist() == [1, 1]
    np.testing.assert_allclose(multiply((tt.ones(3), tt.ones(2)))[0].numpy(), 2 * x.numpy())
    _, (first, second) = tt.jvp(lambda x: (x * x, tt.ones(2)), x, tt.ones(3))
    np.testing.assert_allclose(first.numpy(), 2 * x.numpy())
    assert second.tolist() == [0, 0]


def test_a_result_that_is_the_input():
    x = normal(2)
    assert tt.jacobian(lambda x: x, x).tolist() == [[1, 0], [0, 1]]
    assert tt.jvp(lambda x: x, x, tt.asarray([3.0, 4.0]))[1].tolist() == [3, 4]


# ---- derivatives of derivatives


@pytest.mark.parametrize("recording", [tt.enable_grad, tt.no_grad])
def test_with_create_graph_they_are_differentiable(recording):
    x = normal(3).requires_grad_()
    g = normal(3, seed=1)

    def of_jacobian(x):
        return tt.jacobian(lambda y: y**3, x, create_graph=True)

    def of_hessian(x):
        return tt.hessian(lambda y: tt.sum(y**4), x, create_graph=True)

    def of_vjp(x):
        return tt.vjp(lambda y: y**3, x, create_graph=True)[1](g)[0]

    def of_jvp(x):
        return tt.jvp(lambda y: y**3, x, g, create_graph=True)[1]

    with recording():
        for function in (of_jacobian, of_hessian, of_vjp, of_jvp):
            assert function(x).requires_grad
    assert tt.gradcheck(lambda x: (of_jacobian(x), of_hessian(x), of_vjp(x), of_jvp(x)), x)
    assert tt.gradgradcheck(of_jacobian, x)
    results = tt.vjp(tt.sin, x, create_graph=True)[0], tt.jvp(tt.sin, x, g, create_graph=True)[0]
    for out in results:
        np.testing.assert_allclose(tt.grad(out.sum(), x).numpy(), np.cos(x.detach().numpy()), rtol=1e-12)
    assert not tt.vjp(tt.sin, x)[0].requires_grad


def test_jacobians_of_jacobians():
    x = normal(2)
    third = tt.jacobian(lambda x: tt.hessian(lambda y: tt.sum(y**3), x, create_graph=True), x)
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0] = expected[1, 1, 1] = 6
    np.testing.assert_allclose(third.numpy(), expected, rtol=1e-12)


def test_a_graph_that_was_cut_is_told_from_a_derivative_of_zero():
    with pytest.raises(RuntimeError, match=r"depends on none of its inputs.*create_graph=True"):
        tt.jacobian(lambda x: tt.jacobian(tt.tanh, x), normal(2))


def test_they_leave_no_trace_on_the_inputs_or_the_function():
    x, w = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()
    x.sum().backward()
    before = x.grad.tolist()
    assert not tt.jacobian(lambda x: w * x, x).requires_grad
    assert not tt.hessian(lambda x: tt.sum(w * x * x), x).requires_grad
    assert (x.grad.tolist(), w.grad) == (before, None)


def test_with_create_graph_what_the_function_uses_gets_gradients_too():
    w = normal(3, seed=1).requires_grad_()
    tt.jacobian(lambda x: w * x, normal(3), create_graph=True).sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


# ---- mistakes


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: tt.jacobian(tt.tanh), TypeError, "jacobian: expected the function and its inputs, got no inputs"),
        (lambda x: tt.jacobian(tt.add, (x, x)), TypeError, "input 0 is a tuple; expected Tensors one after the other"),
        (lambda x: tt.hessian(tt.sum, x.numpy()), TypeError, "hessian: input 0 is a ndarray; expected a Tensor"),
        (lambda x: tt.vjp(tt.tanh, tt.arange(3)), TypeError, r"input 0 \(3,\) is int64; only floating"),
        (lambda x: tt.jacobian(lambda x: 3.0, x), TypeError, "the function gave a float; expected a Tensor or"),
        (lambda x: tt.jacobian(lambda x: x.numpy(), x), TypeError, "the function gave a ndarray; expected a Tensor or"),
        (lambda x: tt.jacobian(tt.argmax, x), TypeError, r"the function gave a Tensor \(\) of int64"),
        (lambda x: tt.jacobian(lambda x: tt.ones(2), x), RuntimeError, "depends on none of its inputs"),
        (
            lambda x: tt.hessian(tt.tanh, x),
            ValueError,
            r"hessian: the function gave shape \(3,\); expected a",
        ),
        (lambda x: tt.hessian(lambda x: (tt.sum(x),), x), ValueError, "hessian: the function gave"),
        (lambda x: tt.jvp(tt.tanh, x, tt.ones(2)), ValueError, r"jvp: tangents 0 has shape \(2,\), expected \(3,\)"),
        (lambda x: tt.jvp(tt.tanh, (x,), x), ValueError, "expected a tuple of 1 tangents, got a Tensor"),
        (lambda x: tt.jvp(tt.add, (x, x), (x,)), ValueError, "expected a tuple of 2 tangents, got 1"),
        (lambda x: tt.vjp(tt.tanh, x)[1](tt.ones(2)), ValueError, r"cotangents 0 has shape \(2,\), expected \(3,\)"),
        (lambda x: tt.vjp(tt.tanh, x)[1](), ValueError, r"for a result of shape \(3,\) give cotangents"),
        (lambda x: tt.vjp(lambda x: (x, x), x)[1](x), ValueError, "expected a tuple of 2 cotangents, got a Tensor"),
    ],
)
def test_a_mistake_is_told_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call(normal(3))


def test_they_are_loaded_when_they_are_asked_for():
    loaded = "print('tinytensor.derivatives.jacobians' in sys.modules)"
    code = f"import sys, tinytensor as tt; {loaded}; tt.vjp; {loaded}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]
