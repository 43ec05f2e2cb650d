"""`nn.functional` beside `torch.nn.functional`: outputs and all gradients in float64."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as ours

torch = pytest.importorskip("torch")
theirs = torch.nn.functional

TOLERANCE = 1e-10
REDUCTIONS = ("mean", "sum", "none")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def uniform(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def close(a, b, what=""):
    b = b.detach().numpy()
    assert a.shape == b.shape, what
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def compare(name, *arrays, second_order=True, without=(), **options):
    """One function of both libraries on the same arrays: values, gradients, and gradients of gradients.

    Arrays among the options, and inputs at the places in `without`, have no gradient.
    """
    known = {k: v for k, v in options.items() if not isinstance(v, np.ndarray)}
    fixed = {k: v for k, v in options.items() if isinstance(v, np.ndarray)}
    wanted = [a is not None and a.dtype.kind == "f" and i not in without for i, a in enumerate(arrays)]
    mine = [None if a is None else tt.tensor(a, requires_grad=w) for a, w in zip(arrays, wanted)]
    other = [None if a is None else torch.tensor(a, requires_grad=w) for a, w in zip(arrays, wanted)]
    out = getattr(ours, name)(*mine, **known, **{k: tt.asarray(v) for k, v in fixed.items()})
    expected = getattr(theirs, name)(*other, **known, **{k: torch.tensor(v) for k, v in fixed.items()})
    close(out, expected, name)
    g = normal(*expected.shape, seed=9)
    leaves = [x for x, w in zip(mine, wanted) if w], [x for x, w in zip(other, wanted) if w]
    for create_graph in (False, True):
        found = tt.grad(out, leaves[0], tt.asarray(g), create_graph=create_graph, retain_graph=True)
        first = torch.autograd.grad(expected, leaves[1], torch.tensor(g), create_graph=create_graph, retain_graph=True)
        for i, (a, b) in enumerate(zip(found, first)):
            close(a, b, f"{name}: gradient {i}, create_graph={create_graph}")
    if second_order:
        found = tt.grad(sum(tt.square(a).sum() for a in found), leaves[0], allow_unused=True)
        second = torch.autograd.grad(sum(a.square().sum() for a in first), leaves[1], allow_unused=True)
        for i, (a, b) in enumerate(zip(found, second)):
            if a is not None and b is not None:
                close(a, b, f"{name}: second derivative {i}")
            elif a is not None or b is not None:
                assert not (a.numpy() if b is None else b.numpy()).any(), f"{name}: second derivative {i}"


# ---- activations


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 0)])
def test_activations(shape):
    x = normal(*shape) * 3
    compare("gelu", np.asarray(x))
    compare("gelu", np.asarray(x), approximate="tanh")
    compare("tanh", np.asarray(x))
    compare("sigmoid", np.asarray(x))
    compare("relu", np.asarray(x), second_order=False)


def test_gelu_far_out():
    x = np.array([-40.0, -10.0, -6.0, -1e-8, 0.0, 1e-8, 6.0, 10.0, 40.0])
    for approximate in ("none", "tanh"):
        compare("gelu", x, approximate=approximate)


@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 4), -2), ((0, 3), 1)])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_softmax(shape, dim, scale):
    for name in ("softmax", "log_softmax"):
        compare(name, normal(*shape) * scale, dim=dim)


def test_the_dtype_of_softmax():
    x = (300 * normal(2, 3)).astype(np.float16)
    for name in ("softmax", "log_softmax", "softmin"):
        found = getattr(ours, name)(tt.asarray(x), dim=-1, dtype=tt.float32)
        expected = getattr(theirs, name)(torch.tensor(x), dim=-1, dtype=torch.float32)
        assert found.dtype == tt.float32
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-30)


# ---- linear, embedding, layer norm


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)])
def test_linear(shape):
    compare("linear", normal(*shape), normal(5, 3, seed=1), normal(5, seed=2))
    compare("linear", normal(*shape), normal(5, 3, seed=1), None)


@pytest.mark.parametrize("padding_idx", [None, 0, 2, -1])
@pytest.mark.parametrize("ids", [np.array([[0, 3, 3], [2, 2, 1]]), np.array(3), np.zeros((0,), dtype=np.int64)])
def test_embedding(ids, padding_idx):
    compare("embedding", ids, normal(4, 3), padding_idx=padding_idx, second_order=False)


@pytest.mark.parametrize("normalized", [(4,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize(("weighted", "biased"), [(True, True), (True, False), (False, True), (False, False)])
def test_layer_norm(normalized, weighted, biased):
    weight, bias = (normal(*normalized, seed=i) if w else None for i, w in ((1, weighted), (2, biased)))
    x = normal(2, 3, 4)
    for eps in (1e-5, 0.1):
        leaves = [[tt.tensor(a, requires_grad=True) if a is not None else None for a in (x, weight, bias)]]
        leaves.append([torch.tensor(a, requires_grad=True) if a is not None else None for a in (x, weight, bias)])
        out = ours.layer_norm(leaves[0][0], normalized, *leaves[0][1:], eps)
        expected = theirs.layer_norm(leaves[1][0], normalized, *leaves[1][1:], eps)
        close(out, expected)
        g = normal(*x.shape, seed=3)
        out.backward(tt.asarray(g))
        expected.backward(torch.tensor(g))
        for a, b in zip(*leaves):
            if b is not None:
                close(a.grad, b.grad)


# ---- convolution and similarity


@pytest.mark.parametrize("batch", [(), (1,), (3,), (0,)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"padding": 2, "stride": (3,)},
        {"padding": "same"},
        {"padding": "same", "dilation": 3},
        {"padding": "valid", "dilation": (2,)},
        {"groups": 2, "padding": [1]},
        {"groups": 4, "stride": 2, "padding": 3, "dilation": 2},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_conv1d(batch, options):
    for size in (1, 3, 4):
        weight = normal(8, 4 // options.get("groups", 1), size, seed=1)
        for bias in (normal(8, seed=2), None):
            compare("conv1d", normal(*batch, 4, 11), weight, bias, **options)


@pytest.mark.parametrize(
    ("shapes", "dim"),
    [
        (((4, 3), (4, 3)), 1),
        (((4, 3), (4, 3)), 0),
        (((3,), (3,)), -1),
        (((2, 1, 3), (4, 3)), 2),
        (((2, 4, 3), (1, 3)), 1),
    ],
)
def test_cosine_similarity(shapes, dim):
    compare("cosine_similarity", *(normal(*shape, seed=i) for i, shape in enumerate(shapes)), dim=dim)
    compare("cosine_similarity", *(normal(*shape, seed=i) for i, shape in enumerate(shapes)), dim=dim, eps=0.1)


@pytest.mark.parametrize("other", [[[0.0, 0.0], [1.0, -2.0]], [[1.0, 1.0], [3.0, 4.0]]])
def test_cosine_similarity_of_zeros(other):
    """Of second order PyTorch's derivatives are NaN there."""
    compare("cosine_similarity", np.zeros((2, 2)), np.array(other), second_order=False)
    compare("cosine_similarity", np.array(other), np.zeros((2, 2)), second_order=False)


# ---- cross-entropy

CLASSES = 4
SHAPES = [(CLASSES,), (5, CLASSES), (2, CLASSES, 3), (2, CLASSES, 3, 2)]


def targets(shape, high=CLASSES):
    return np.array(np.random.default_rng(1).integers(0, high, size=(*shape[:1], *shape[2:]) if shape[1:] else ()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("weighted", "smoothing"), list(itertools.product((False, True), (0.0, 0.1, 1.0))))
def test_cross_entropy(shape, reduction, weighted, smoothing):
    options = {"weight": uniform(CLASSES) + 0.5} if weighted else {}
    for ignore_index in (-100, 3 if len(shape) > 1 else -1):
        compare(
            "cross_entropy",
            normal(*shape),
            targets(shape),
            reduction=reduction,
            label_smoothing=smoothing,
            ignore_index=ignore_index,
            **options,
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_probabilities(shape, reduction, smoothing):
    p = uniform(*shape, seed=2)
    p /= p.sum(axis=min(1, len(shape) - 1), keepdims=True)
    for options in ({}, {"weight": uniform(CLASSES) + 0.5}):
        compare("cross_entropy", normal(*shape), p, reduction=reduction, label_smoothing=smoothing, **options)


def test_cross_entropy_of_large_logits():
    compare("cross_entropy", normal(5, CLASSES) * 1e4, targets((5, CLASSES)), label_smoothing=0.1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(shape, reduction):
    for ignore_index in (-100, 3 if len(shape) > 1 else -1):
        for options in ({}, {"weight": uniform(CLASSES) + 0.5}):
            compare(
                "nll_loss",
                normal(*shape),
                targets(shape),
                reduction=reduction,
                ignore_index=ignore_index,
                second_order=False,
                **options,
            )


# ---- element by element


@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss(shape, reduction):
    compare("mse_loss", np.asarray(normal(*shape)), np.asarray(normal(*shape, seed=1)), reduction=reduction)


@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("weighted", "positive"), [(False, False), (True, False), (False, True), (True, True)])
def test_bce_with_logits(shape, reduction, weighted, positive):
    options = {"weight": np.asarray(uniform(*shape, seed=3))} if weighted else {}
    if positive:
        options["pos_weight"] = np.asarray(uniform(*shape[-1:], seed=4) * 3)
    x, y = np.asarray(normal(*shape) * 5), np.asarray(uniform(*shape, seed=1))
    compare("binary_cross_entropy_with_logits", x, y, reduction=reduction, **options)
