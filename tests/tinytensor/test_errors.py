"""Errors name the op, what it met, what was expected and what to do."""

import numpy as np
import pytest

import tinytensor as tt

x23, x34 = tt.ones((2, 3)), tt.ones((3, 4))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: x23 + x34, ValueError, r"^add: .*inputs: x1 \(2, 3\) float32, x2 \(3, 4\) float32\n"),
        (lambda: tt.add(), TypeError, r"^add: got no x1 and no x2; expected add\(x1, x2\)"),
        (lambda: x23 @ x23, ValueError, r"^matmul: .*x1 \(2, 3\) float32, x2 \(2, 3\) float32"),
        (lambda: tt.matmul(x23, tt.ones(())), ValueError, r"matmul: expected at least 1 dimension.*\(2, 3\) and \(\)"),
        (lambda: tt.where(x23 > 0, x34, 0.0), ValueError, r"^where: .*\(2, 3\) bool, x1 \(3, 4\) float32, x2 0.0"),
        (lambda: x23.masked_fill(tt.ones(4, dtype=bool), 0), ValueError, r"^masked_fill: .*mask \(4,\) bool"),
        (lambda: x23.masked_fill(tt.ones(3), 0), TypeError, r"^masked_fill: the mask must be boolean, got float32"),
        (lambda: tt.concat([x23, x34]), ValueError, r"^concat: shapes \(2, 3\), \(3, 4\) must agree in every dim"),
        (lambda: tt.stack([x23, x34]), ValueError, r"^stack: shapes \(2, 3\), \(3, 4\) must all be equal"),
        (
            lambda: tt.stack([*[x23] * 4000, x34, *[x23] * 4000]),
            ValueError,
            r"^stack: shapes \(2, 3\), ... of 8001 arrays, with \(3, 4\) at 4000, must all be equal$",
        ),
        (
            lambda: tt.concat([*[x23] * 4000, x34]),
            ValueError,
            r"^concat: shapes \(2, 3\), ... of 4001 arrays, with \(3, 4\) at 4000, must agree in every dimension",
        ),
        (lambda: tt.concat([]), ValueError, "concat: expected at least one array"),
        (lambda: tt.reshape(x23, (4, 2)), ValueError, r"^reshape: .*\(4, ?2\); inputs: x \(2, 3\)"),
        (lambda: tt.reshape(x23, (-1, -1)), ValueError, r"^reshape: .*one unknown dimension.*x \(2, 3\)"),
        (lambda: tt.broadcast_to(x23, (4, 3)), ValueError, r"^broadcast_to: .*\(2, 3\)"),
        (lambda: tt.broadcast_shapes((2,), (3,)), ValueError, r"shapes \(2,\), \(3,\) do not fit"),
        (lambda: tt.permute_dims(x23, (0, 0)), ValueError, r"permute_dims: axes \(0, 0\) is no order of the 2 dim"),
        (lambda: tt.squeeze(x23, 0), ValueError, r"squeeze: dimension 0 of shape \(2, 3\) has length 2, not 1"),
        (lambda: tt.split(x23, 2, axis=1), ValueError, r"split: length 3 of \(2, 3\) does not divide into 2"),
        (lambda: tt.split(x23, [1, 1], axis=1), ValueError, r"split: parts \(1, 1\) do not add up to length 3"),
        (lambda: tt.sum(x23, axis=2), IndexError, r"^sum: axis 2 is out of range for a Tensor of shape \(2, 3\)"),
        (lambda: tt.sum(x23, axis=(0, -2)), ValueError, r"^sum: axis \(0, -2\) names a dimension twice"),
        (lambda: tt.tensordot(x23, x34, axes=2), ValueError, r"tensordot: .*\(2, 3\).*\(3, 4\)"),
        (lambda: tt.vecdot(x23, x34), ValueError, r"vecdot: shapes \(2, 3\) and \(3, 4\)"),
        (lambda: tt.einsum("ij,jk", x23), ValueError, "names 2 operands, got 1"),
        (lambda: tt.einsum("ijk->i", x23), ValueError, r"'ijk' names 3 dimensions, operand 0 has shape \(2, 3\)"),
        (lambda: tt.einsum("ij,jk->ik", x23, x23), ValueError, "einsum: 'j' of 'ij,jk->ik' has lengths 3 and 2"),
        (lambda: tt.einsum("ij->ijz", x23), ValueError, r"\['z'\] of the result"),
        (lambda: tt.max(tt.zeros((0, 3)), axis=0), ValueError, r"^max: there is no max of nothing: shape \(0, 3\)"),
        (lambda: tt.argmax(tt.zeros((0,))), ValueError, r"argmax: an empty array of shape \(0,\)"),
        (lambda: tt.topk(x23, 4), ValueError, "topk: k=4 of 3 elements"),
        (lambda: tt.tril(tt.ones(3)), ValueError, r"tril: expected at least 2 dimensions, got shape \(3,\)"),
        (lambda: tt.cumulative_sum(x23), ValueError, "axis may be left out for 1 dimension only"),
        (lambda: tt.nonzero(tt.tensor(1)), ValueError, "nonzero: expected at least 1 dimension"),
        (lambda: tt.repeat(x23, [1, 2], axis=1), ValueError, "expected a count of 0 or more for each of 3 elements"),
        (lambda: tt.one_hot(x23, 3), TypeError, "one_hot: expected integers, got float32"),
        (lambda: tt.astype(tt.tensor(1j), tt.float32), TypeError, "would drop the imaginary part"),
        (lambda: tt.meshgrid(x23[0], indexing="yx"), ValueError, "'xy' or 'ij', got 'yx'"),
        (lambda: tt.searchsorted(x23[0], 1.0, side="middle"), ValueError, "got 'middle'"),
        (lambda: tt.zeros(1, device="tpu"), ValueError, "unknown device 'tpu'; expected 'cpu' or 'gpu'"),
        (lambda: x23 & x23, TypeError, r"^bitwise_and: .*\(2, 3\) float32"),
        (lambda: tt.matrix_transpose(tt.ones(3)), ValueError, "at least 2 dimensions"),
    ],
)  # fmt: skip
def test_message(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_broadcast_that_numpy_would_refuse_too():
    with pytest.raises(ValueError, match="maximum"):
        tt.maximum(x23, x34)


@pytest.fixture
def gpu():
    if "gpu" not in tt.__array_namespace_info__().devices():
        pytest.skip("no GPU and no stand-in")
    return "gpu"


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: b @ a,
        lambda a, b: tt.concat([a, b]),
        lambda a, b: tt.where(a > 0, b, 0.0),
        lambda a, b: tt.einsum("ij,ij->", a, b),
        lambda a, b: a + np.ones((2, 2)) if a.device == "gpu" else b + np.ones((2, 2)),
        lambda a, b: a.__setitem__(0, b[0]),
        lambda a, b: a[tt.asarray([0], device=b.device)],
        lambda a, b: tt.take(a, tt.asarray([0], device=b.device), axis=0) if a.device == "gpu" else a + b,
        lambda a, b: (a.requires_grad_() * 2).backward(b),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_mixed_devices_raise_and_name_both(call, turned, gpu):
    a, b = tt.ones((2, 2)), tt.ones((2, 2), device=gpu)
    if turned:
        a, b = b, a
    with pytest.raises(tt.DeviceError) as caught:
        call(a, b)
    assert "cpu" in str(caught.value)
    assert "gpu" in str(caught.value)


def test_python_numbers_have_no_device(gpu):
    x = tt.ones(2, device=gpu)
    assert ((x + 1) * 2.0 - np.float64(1)).device == "gpu"


# ---- arguments under other libraries' names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tt.sum(x23, dim=1), "sum: got dim=; tinytensor names it axis, as the array API does"),
        (lambda: x23.sum(dim=1), "sum: got dim=; tinytensor names it axis, as the array API does"),
        (lambda: x23.mean(1, keepdim=True), "mean: got keepdim=; tinytensor names it keepdims, as the array API does"),
        (lambda: tt.std(x23, unbiased=False), "std: got unbiased=; tinytensor names it correction"),
        (lambda: tt.cumulative_sum(x23, dim=1), "cumulative_sum: got dim=; tinytensor names it axis"),
        (lambda: x23.cumsum(dim=1), "cumsum: got dim=; tinytensor names it axis"),
        (lambda: tt.argmax(x23, dim=1), "argmax: got dim=; tinytensor names it axis"),
        (lambda: x23.norm(dim=1), "norm: got dim=; tinytensor names it axis"),
        (lambda: tt.linalg.vector_norm(x23, dim=1), "vector_norm: got dim=; tinytensor names it axis"),
        (lambda: tt.concat([x23, x23], dim=1), "concat: got dim=; tinytensor names it axis"),
        (lambda: tt.stack([x23, x23], dim=1), "stack: got dim=; tinytensor names it axis"),
        (lambda: tt.expand_dims(x23, dim=1), "expand_dims: got dim=; tinytensor names it axis"),
        (lambda: tt.flip(x23, dims=(0,)), "flip: got dims=; tinytensor names it axis"),
        (lambda: tt.take(x23, [0], dim=1), "take: got dim=; tinytensor names it axis"),
        (lambda: tt.triu(x23, diagonal=1), "triu: got diagonal=; tinytensor names it k, as the array API does"),
        (lambda: tt.sum(x23, out=x23), "sum: got out=; what it gives is new; x[...] = result writes into x"),
        (lambda: tt.sum(x23, initial=0), "sum: got initial=; it takes x, axis, dtype, keepdims"),
        (lambda: tt.exp(x23, out=x23), "exp: got out=; what it gives is new"),
        (lambda: tt.exp(x23, foo=1), "exp: got foo=; it takes x; inputs: x (2, 3) float32"),
        (lambda: tt.add(input=x23, other=x23), "add: got no x1 and no x2, but input=, but other=; expected"),
        (lambda: tt.ones(2, 3), "ones: got 2 lengths; the shape is one argument: tt.ones((2, 3))"),
        (lambda: tt.zeros(2, 3, 4), "zeros: got 3 lengths; the shape is one argument: tt.zeros((2, 3, 4))"),
        (lambda: tt.ones((2, 3), requires_grad=True), "ones: got requires_grad=; call requires_grad_() on what"),
        (lambda: tt.eye(2, requires_grad=True), "eye: got requires_grad=; call requires_grad_()"),
        (lambda: tt.random.randn(2, requires_grad=True), "normal: got requires_grad=; call requires_grad_()"),
        (lambda: tt.random.uniform(size=(2,)), "uniform: got size=; tinytensor names it shape"),
        (lambda: x23.max(dim=1), "max: got dim=; tinytensor names it axis, as the array API does"),
        (lambda: tt.random.normal(0, 1), "normal: the shape comes first, got 0; write tt.random.normal((2, 3), ...)"),
        (lambda: tt.random.uniform(-1, 1), "uniform: the shape comes first, got -1"),
    ],
)  # fmt: skip
def test_an_argument_under_another_name(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(message)
