"""The losses against their definitions, and at their edges."""

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.special

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

from .op_samples import cross_entropy

REDUCTIONS = ("mean", "sum", "none")
WEIGHT = np.array([0.5, 2.0, 1.0])


@pytest.fixture(autouse=True)
def nothing_overflows():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def leaf(values, device=None, dtype=tt.float64):
    return tt.tensor(values, dtype=dtype, device=device, requires_grad=True)


def close(a, b, tolerance=1e-12):
    a, b = (x.detach().numpy() if isinstance(x, tt.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# ---- cross-entropy


@pytest.mark.parametrize(("reduction", "smoothing"), list(itertools.product(REDUCTIONS, (0.0, 0.3))))
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_over_further_dimensions_is_that_of_the_rows(reduction, smoothing, weighted, device):
    weight = WEIGHT if weighted else None
    options = {"ignore_index": 2, "reduction": reduction, "label_smoothing": smoothing}
    own = {"weight": tt.asarray(weight, device=device) if weighted else None, **options}
    x, target = normal(2, 3, 4, 5), np.random.default_rng(1).integers(0, 3, size=(2, 4, 5))
    rows = np.moveaxis(x, 1, -1).reshape(-1, 3)
    expected = cross_entropy(rows, target.ravel(), weight, **options)
    found = F.cross_entropy(leaf(x, device), tt.asarray(target, device=device), **own)
    close(found, expected.reshape(target.shape) if reduction == "none" else expected)
    one = F.cross_entropy(leaf(x[0, :, 0, 0], device), int(target[0, 0, 0]), **own)
    expected = cross_entropy(x[:1, :, 0, 0], target[:1, 0, 0], weight, **options)
    close(one, expected.reshape(()) if reduction == "none" else expected)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("function", ["cross_entropy", "nll_loss"])
def test_nothing_but_ignored_targets_cost_nothing(function, smoothing, shape, create_graph, device):
    """Under `mean` 0 with zero gradients, where PyTorch gives NaN."""
    options = {"label_smoothing": smoothing} if function == "cross_entropy" else {}
    for reduction in REDUCTIONS:
        x = leaf(normal(*shape), device)
        target = tt.full((shape[0], *shape[2:]), -100, dtype=tt.int64, device=device)
        loss = getattr(F, function)(x, target, reduction=reduction, **options)
        assert (loss == 0).all()
        g = tt.grad(loss.sum(), x, create_graph=create_graph)
        assert g.shape == shape
        assert (g == 0).all()


def test_class_weights_of_zero_cost_nothing(device):
    x = leaf(normal(4, 3), device)
    loss = F.cross_entropy(x, [0, 1, 2, 0], tt.zeros(3, dtype=tt.float64, device=device))
    assert loss.item() == 0
    assert (tt.grad(loss, x) == 0).all()


def test_an_ignored_row_of_a_single_class(device):
    assert F.cross_entropy(leaf([[2.0], [3.0]], device), [0, -100]).item() == 0


def test_an_ignored_row_may_hold_anything(device):
    """A class that is ruled out by -inf, and is ignored as a target, costs nothing: the id of padding, for example."""
    for function in (F.cross_entropy, lambda x, t, **o: F.nll_loss(F.log_softmax(x), t, **o)):
        x = leaf([[-math.inf, 1.0, 2.0], [-math.inf, 0.5, -0.5]], device)
        loss = function(x, [0, 1], ignore_index=0)
        assert loss.item() == pytest.approx(math.log1p(math.exp(-1)), rel=1e-14)
        p = 1 / (1 + math.exp(-1))
        close(tt.grad(loss, x), [[0, 0, 0], [0, p - 1, 1 - p]])


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("create_graph", [False, True])
def test_cross_entropy_of_large_logits(dtype, create_graph, device):
    x = leaf([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [-1e4, -1e4, -1e4], [0.0, -1000.0, -2000.0]], device, dtype)
    for smoothing in (0.0, 0.5):
        losses = F.cross_entropy(x, [1, 1, 0, 1], reduction="none", label_smoothing=smoothing)
        hard = np.array([2e4, math.log(2), math.log(3), 1000.0])
        spread = np.array([1e4, (2e4 + 3 * math.log(2)) / 3, math.log(3), 1000.0])
        expected = (1 - smoothing) * hard + smoothing * spread
        np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-3 if dtype == tt.float32 else 1e-12)
        assert losses.dtype == dtype
        g = tt.grad(losses.sum(), x, create_graph=create_graph)
        assert tt.all(tt.isfinite(g))
    losses = F.cross_entropy(x, [1, 1, 0, 1], reduction="none")
    p = [[1, 0, 0], [0, 0.5, 0.5], [1 / 3] * 3, [1, 0, 0]]
    hit = [[0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    close(tt.grad(losses.sum(), x), np.subtract(p, hit), 1e-6 if dtype == tt.float32 else 1e-12)


@pytest.mark.parametrize("function", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("target", [[0, 3], [-1, 0], [-101, 0], [1 << 40, 0]])
def test_targets_out_of_range_raise_on_every_device(function, target, device):
    x = leaf(normal(2, 3), device)
    for wrong in (target, tt.asarray(target, device=device)):
        with pytest.raises(IndexError, match=r"targets must be from 0 to 2, got "):
            function(x, wrong).item()
    with pytest.raises(IndexError, match=r"targets must be from 0 to 2, got -100"):
        function(x, [-100, 0], ignore_index=-1).item()


@pytest.mark.parametrize("function", [F.cross_entropy, F.nll_loss])
def test_targets_that_do_not_fit(function):
    x = tt.asarray(normal(2, 3))
    with pytest.raises(ValueError, match=r"input \(2, 3\) needs a target of shape \(2,\), got \(3,\)"):
        function(x, [0, 1, 2])
    with pytest.raises(ValueError, match="reduction must be 'none', 'mean' or 'sum', got 'avg'"):
        function(x, [0, 1], reduction="avg")
    with pytest.raises(TypeError, match="target must be integers"):
        function(x, tt.asarray([True, False]))


def test_cross_entropy_arguments_out_of_range():
    x = tt.asarray(normal(2, 3))
    for smoothing in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="label_smoothing must be from 0 to 1"):
            F.cross_entropy(x, [0, 1], label_smoothing=smoothing)
    with pytest.raises(ValueError, match=r"probabilities \(2, 4\) do not have the logits' shape \(2, 3\)"):
        F.cross_entropy(x, tt.ones((2, 4)))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (4,), (3, 1)])
@pytest.mark.parametrize("target", [[0, 1], np.eye(2, 3)])
def test_there_is_a_weight_for_each_class(shape, target):
    with pytest.raises(ValueError, match="weight needs a number for each of 3 classes, got shape"):
        F.cross_entropy(tt.asarray(normal(2, 3)), target, weight=tt.ones(shape), label_smoothing=0.1)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 5)])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_one_hot_probabilities_are_the_class(shape, smoothing):
    x = leaf(normal(*shape))
    target = np.random.default_rng(2).integers(0, 3, size=(*shape[:1], *shape[2:]) if len(shape) > 1 else ())
    hot = np.moveaxis(np.eye(3)[target], -1, 1) if len(shape) > 1 else np.eye(3)[target]
    for reduction in REDUCTIONS:
        options = {"reduction": reduction, "label_smoothing": smoothing}
        one, other = F.cross_entropy(x, target, **options), F.cross_entropy(x, tt.asarray(hot), **options)
        close(one, other)
        close(tt.grad(one.sum(), x), tt.grad(other.sum(), x))


def test_probabilities_learn_too():
    x, target = leaf(normal(4, 3)), leaf(scipy.special.softmax(normal(4, 3, seed=1), axis=1))
    tt.gradcheck(lambda x, p: F.cross_entropy(x, p, tt.asarray(WEIGHT), label_smoothing=0.1), [x, target])


def test_nll_loss_of_log_probabilities_is_cross_entropy(device):
    for reduction, weighted in itertools.product(REDUCTIONS, (False, True)):
        weight = tt.asarray(WEIGHT, device=device) if weighted else None
        x = leaf(normal(2, 3, 4), device)
        target = [[0, 1, 2, 1], [2, -100, 0, 0]]
        one = F.cross_entropy(x, target, weight, reduction=reduction)
        other = F.nll_loss(F.log_softmax(x, dim=1), target, weight, reduction=reduction)
        close(one, other)
        close(tt.grad(one.sum(), x), tt.grad(other.sum(), x))
        tt.gradcheck(lambda x, o=(weight, reduction): F.nll_loss(x, target, o[0], reduction=o[1]), [x])


def test_a_cross_entropy_is_a_gradient_away_from_its_minimum(device):
    """softmax(x) - target: zero where the probabilities are right."""
    p = scipy.special.softmax(normal(4, 3), axis=1)
    x = leaf(np.log(p), device)
    loss = F.cross_entropy(x, tt.asarray(p, device=device), reduction="sum")
    close(loss, -(p * np.log(p)).sum())
    close(tt.grad(loss, x), np.zeros((4, 3)))


# ---- squared error


@pytest.mark.parametrize("shapes", [((4, 1), (4,)), ((4,), (4, 1)), ((2, 3), ()), ((1,), ())])
def test_mse_warns_where_shapes_differ(shapes):
    x, y = (leaf(normal(*s)) for s in shapes)
    for function in (F.mse_loss, nn.MSELoss()):
        with pytest.warns(UserWarning, match=r"input \(.*\) and target \(.*\) differ in shape and are broadcast"):
            loss = function(x, y)
    close(loss, ((x.numpy() - y.numpy()) ** 2).mean())
    assert [g.shape for g in tt.grad(loss, [x, y])] == list(shapes)


def test_the_warning_of_mse_points_to_its_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F.mse_loss(tt.ones((4, 1)), tt.ones(4))
    assert [w.filename for w in caught] == [__file__]


def test_mse_of_equal_shapes_is_silent(device):
    for reduction, expected in (("mean", 2.5), ("sum", 5.0), ("none", [1.0, 4.0])):
        x, y = leaf([1.0, 4.0], device), leaf([2.0, 2.0], device)
        loss = F.mse_loss(x, y, reduction=reduction)
        assert loss.tolist() == expected
        tt.gradcheck(lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r), [x, y])
        tt.gradgradcheck(lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r), [x, y])


# ---- binary cross-entropy


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_bce_of_large_logits(dtype, device):
    x = leaf([-1e4, -1e4, 1e4, 1e4, 0.0, 100.0], device, dtype)
    target = tt.asarray([0.0, 1.0, 0.0, 1.0, 0.5, 0.25], dtype=dtype, device=device)
    for weight, expected in ((None, [0, 1e4, 1e4, 0, math.log(2), 75]), (2.0, [0, 2e4, 1e4, 0, 1.5 * math.log(2), 75])):
        pos_weight = None if weight is None else tt.asarray(weight, dtype=dtype, device=device)
        losses = F.binary_cross_entropy_with_logits(x, target, reduction="none", pos_weight=pos_weight)
        np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-6 if dtype == tt.float32 else 1e-14)
        assert losses.dtype == dtype
    losses = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    g = tt.grad(losses.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.numpy(), [0, -1, 1, 0, 0, 0.75], rtol=1e-6, atol=1e-30)
    assert tt.all(tt.isfinite(tt.grad(g.sum(), x)))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("weight", "pos_weight"), [(None, None), ((3,), None), (None, (3,)), ((4, 1), (3,))])
def test_bce_is_its_formula(weight, pos_weight, reduction, device):
    x, y = normal(4, 3), np.random.default_rng(1).random((4, 3))
    weight, pos_weight = (None if s is None else np.random.default_rng(2).random(s) + 0.5 for s in (weight, pos_weight))
    p = scipy.special.expit(x)
    expected = -((1.0 if pos_weight is None else pos_weight) * y * np.log(p) + (1 - y) * np.log(1 - p))
    expected = expected if weight is None else expected * weight
    expected = {"mean": expected.mean(), "sum": expected.sum(), "none": expected}[reduction]
    given = [None if w is None else leaf(w, device) for w in (weight, pos_weight)]

    def function(x, y, weight, pos_weight):
        return F.binary_cross_entropy_with_logits(x, y, weight, reduction, pos_weight)

    inputs = [leaf(x, device), leaf(y, device), *given]
    close(function(*inputs), expected)
    tt.gradcheck(function, inputs)
    tt.gradgradcheck(function, inputs)


def test_bce_shapes_must_be_the_same():
    with pytest.raises(ValueError, match=r"input \(4, 1\) and target \(4,\) must have the same shape"):
        F.binary_cross_entropy_with_logits(tt.ones((4, 1)), tt.ones(4))


# ---- what is given


@pytest.mark.parametrize("input", [[[0.5, -1.0]], np.array([[0.5, -1.0]]), tt.tensor([[0.5, -1.0]], dtype=tt.float64)])
def test_numbers_and_arrays_are_as_good_as_tensors(input):
    expected = math.log(1 + math.exp(-1.5))
    close(F.cross_entropy(input, [0]), expected, 1e-6)
    close(F.nll_loss(input, [0]), -0.5)
    close(F.mse_loss(input, [[1.5, 0.0]]), 1.0)
    bce = np.log1p(np.exp(-0.5)) + np.log1p(np.exp(-1.0))
    close(F.binary_cross_entropy_with_logits(input, [[1.0, 0.0]], reduction="sum"), bce, 1e-6)
