"""Inputs that few models have, and for which fast versions give what the formulas give nevertheless."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.nn import optim


def by_formula_and_fast(compute):
    with tt.textbook():
        expected = compute()
    return expected, compute()


OF_INTEGERS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, dim=-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, 2),
    "cross_entropy": lambda x: F.cross_entropy(x, tt.tensor([0, 1], device=x.device)),
    "relu of a mask": lambda x: F.relu(x > 0),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_have_what_the_formula_gives(name, device):
    x = tt.tensor([[1, 2], [-3, 4]], device=device)
    with tt.record():
        recorded = OF_INTEGERS[name](x)
    expected, found = by_formula_and_fast(lambda: OF_INTEGERS[name](x))
    assert expected.dtype == found.dtype == recorded.dtype == tt.float32
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    np.testing.assert_allclose(recorded.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("weight", [[1, 2, 3], [1.0, 2.0, 3.0], tt.tensor([1.0, 2.0, 3.0], requires_grad=True)])
def test_weights_of_classes_may_be_integers_a_list_or_want_a_gradient_and_get_none(weight, loops):
    def compute():
        logits = tt.tensor([[0.5, 1.0, -1.0], [0.0, 0.0, 1.0]], requires_grad=True)
        loss = F.cross_entropy(logits, tt.tensor([0, 1]), weight=weight)
        loss.backward()
        assert getattr(weight, "grad", None) is None
        return loss, logits.grad

    for expected, found in zip(*by_formula_and_fast(compute), strict=True):
        assert expected.dtype == found.dtype == tt.float32
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_the_infinite_weight_of_a_class_that_is_absent_harms_no_gradient(device):
    def compute():
        logits = tt.zeros((2, 3), device=device).requires_grad_()
        weight = tt.tensor([1.0, 1.0, math.inf], device=device)
        F.cross_entropy(logits, tt.tensor([0, 1], device=device), weight=weight).backward()
        return logits.grad.numpy()

    expected, found = by_formula_and_fast(compute)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # NumPy's, of the cube within
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_gelu_of_large_numbers_is_straight(dtype, device):
    largest = tt.finfo(dtype).max / 4
    for size in (1e5, 1e14, largest):
        x = tt.asarray([size, -size] * 16, dtype=dtype, device=device).requires_grad_()
        out = F.gelu(x, approximate="tanh")
        out.backward(tt.ones_like(out))
        np.testing.assert_allclose(out.numpy(), np.maximum(x.detach().numpy(), 0), rtol=1e-6)
        assert x.grad.tolist() == [1.0, 0.0] * 16


def test_an_embedding_of_no_columns(device):
    weight = tt.zeros((4, 0), device=device).requires_grad_()
    F.embedding(tt.tensor([1, 2], device=device), weight).sum().backward()
    assert weight.grad.shape == (4, 0)


def test_amsgrad_switched_off_for_a_step_keeps_its_largest(device):
    def compute():
        parameter = nn.Parameter(tt.tensor([1.0], device=device))
        optimizer = optim.Adam([parameter], lr=0.1, amsgrad=True)
        for gradient, amsgrad in ((100.0, True), (0.1, False), (0.1, True)):
            optimizer.param_groups[0]["amsgrad"] = amsgrad
            parameter.grad = tt.tensor([gradient], device=device)
            optimizer.step()
        return parameter.item()

    expected, found = by_formula_and_fast(compute)
    assert found == pytest.approx(expected, rel=1e-6)


def test_an_infinite_parameter_leaves_the_moments_what_they_are(device):
    def compute():
        parameter = nn.Parameter(tt.tensor([1.0, math.inf], device=device))
        optimizer = optim.AdamW([parameter], lr=0.01)
        parameter.grad = tt.ones_like(parameter)
        optimizer.step()
        return [optimizer.state[parameter][name].tolist() for name in ("exp_avg", "exp_avg_sq")]

    expected, found = by_formula_and_fast(compute)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tt.float16, tt.int8, tt.uint8])
@pytest.mark.parametrize("k", [1, 3])
def test_the_likeliest_of_16_bits_and_of_whole_numbers(dtype, k, device):
    rows = np.arange(70_000) % 40 + (np.arange(70_000) == 3_000) * 30
    logits = tt.asarray(rows[None], dtype=dtype, device=device)
    for excluded in (None, 3_000):
        (values, ids), (found, places) = by_formula_and_fast(lambda: F.log_softmax_topk(logits, k, excluded=excluded))
        assert ids.tolist() == places.tolist()
        np.testing.assert_allclose(found.numpy(), values.numpy(), rtol=1e-5)


def test_an_excluded_class_is_an_integer(loops):
    logits = tt.tensor([[0.0, 1.0, 2.0]])
    assert F.log_softmax_topk(logits, 1, excluded=np.int64(2))[1].item() == 1
    assert F.log_softmax_topk(logits, 1, excluded=True)[1].item() == 2
    with pytest.raises(TypeError, match="integer"):
        F.log_softmax_topk(logits, 1, excluded=1.0)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")  # NumPy's
@pytest.mark.parametrize("length", [4, 200, 1100])
@pytest.mark.parametrize("how", ["large", "infinite", "nan"])
@pytest.mark.parametrize("hidden", ["the last", "two apart", "the future"])
def test_a_hidden_key_that_has_no_finite_score_is_hidden_nevertheless(length, how, hidden, device):
    query, key = np.full((1, length, 8), 1e10, "float32"), np.ones((1, length, 8), "float32")
    value = np.random.default_rng(0).normal(size=key.shape).astype("float32")
    places = [-1, 1] if hidden == "two apart" else [-1]
    key[0, places] = {"large": 1e30, "infinite": np.inf, "nan": np.nan}[how]
    mask = np.ones((length, length), bool)
    mask[:, places] = False
    seen = length - 1 if hidden == "the future" else length
    arrays = [tt.asarray(a, device=device) for a in (query, key, value)]
    options = {"is_causal": True} if hidden == "the future" else {"attn_mask": tt.asarray(mask, device=device)}
    expected, found = by_formula_and_fast(lambda: F.scaled_dot_product_attention(*arrays, **options).numpy()[0, :seen])
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
