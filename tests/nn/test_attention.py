"""Attention at its edges: rows that may see nothing, masks of every kind, large scores, and what does not fit."""

import contextlib
import gc
import itertools
import math

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

INF = math.inf
BATCH, TARGET, SOURCE, D_MODEL, HEADS = 2, 3, 4, 6, 2


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


def attention_of(device="cpu", dtype=tt.float64, **options):
    tt.random.manual_seed(0)
    return nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, device=device, dtype=dtype, **options)


def as_mask(hidden, kind, device):
    """What is hidden, as a boolean mask or as one to be added."""
    return tt.asarray(hidden if kind == "boolean" else np.where(hidden, -INF, 0.0), device=device)


KINDS = ("boolean", "float")


# ---- rows that may see nothing: zeros, zero gradients, and no other row knows


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["(target, source)", "(batch, target, source)", "(batch, 1, source)"])
def test_a_query_that_sees_nothing(form, kind, create_graph, device):
    q, k, v = normal(BATCH, TARGET, 5), normal(BATCH, SOURCE, 5, seed=1), normal(BATCH, SOURCE, 3, seed=2)
    hidden = np.zeros((BATCH, TARGET, SOURCE), dtype=bool)
    rows = {
        "(target, source)": (slice(None), 1),
        "(batch, target, source)": (1, 2),
        "(batch, 1, source)": (0, slice(None)),
    }[form]
    hidden[rows] = True
    hidden[:, :, 0] |= hidden[:, :, 1]
    given = {"(target, source)": hidden[0], "(batch, target, source)": hidden, "(batch, 1, source)": hidden[:, :1]}[
        form
    ]
    mask = tt.asarray(~given if kind == "boolean" else np.where(given, -INF, 0.0), device=device)
    leaves = [leaf(a, device) for a in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, mask)
    g = normal(*out.shape, seed=3)
    gradients = tt.grad(out, leaves, tt.asarray(g, device=device), create_graph=create_graph)
    assert (out.numpy()[rows] == 0).all()
    assert (gradients[0].numpy()[rows] == 0).all()
    seen = ~hidden.all(axis=2)
    assert (out.numpy()[seen] != 0).all()
    # Nothing else has changed: the same without these rows.
    for b in range(BATCH):
        alone = [leaf(a, device) for a in (q[b][seen[b]], k[b], v[b])]
        if len(alone[0]):
            expected = F.scaled_dot_product_attention(*alone)
            close(out[b].numpy()[seen[b]], expected)
            wanted = tt.grad(expected, alone, tt.asarray(g[b][seen[b]], device=device))
            close(gradients[0][b].numpy()[seen[b]], wanted[0])
            close(gradients[1][b], wanted[1])
            close(gradients[2][b], wanted[2])
        else:
            assert (gradients[1][b] == 0).all()
            assert (gradients[2][b] == 0).all()
    if create_graph:
        second = tt.grad(sum(tt.square(x).sum() for x in gradients), leaves)
        assert all(tt.all(tt.isfinite(s)) for s in second)
        assert (second[0].numpy()[rows] == 0).all()


PATHS = {
    "weights": {"need_weights": True},
    "weights of each head": {"need_weights": True, "average_attn_weights": False},
    "no weights": {"need_weights": False},
}


def run(layer, inputs, masks, path, g, create_graph=False):
    """Output, weights, and the gradients of inputs and parameters, as NumPy arrays."""
    leaves = [leaf(x, next(layer.parameters()).device) for x in inputs]
    out, weights = layer(*(leaves if len(leaves) == 3 else leaves * 3), **masks, **PATHS[path])
    wanted = [*leaves, *layer.parameters()]
    found = tt.grad(out, wanted, tt.asarray(g, device=out.device), create_graph=create_graph)
    return out.numpy(), weights, [f.numpy() for f in found]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["key_padding_mask", "attn_mask", "attn_mask of each head", "both"])
def test_a_sample_that_sees_nothing_disturbs_no_other(by, kind, path, device):
    """Sample 1 may see nothing at all; sample 0 and every weight get what they get without it."""
    layer = attention_of(device, bias=False)
    inputs = [normal(BATCH, TARGET, D_MODEL), normal(BATCH, SOURCE, D_MODEL, seed=1), normal(BATCH, SOURCE, D_MODEL)]
    padding = np.zeros((BATCH, SOURCE), dtype=bool)
    padding[0, 3] = padding[1] = True
    per_head = np.broadcast_to(padding[:, None, None], (BATCH, HEADS, TARGET, SOURCE)).reshape(-1, TARGET, SOURCE)
    everything = np.zeros((TARGET, SOURCE), dtype=bool)
    everything[:, 3] = True
    some = np.array([False, True, True, False])
    masks, without = {
        "key_padding_mask": ({"key_padding_mask": padding}, {"key_padding_mask": padding[:1]}),
        "attn_mask": ({"attn_mask": np.ones_like(everything)}, None),
        "attn_mask of each head": ({"attn_mask": per_head}, {"attn_mask": per_head[:HEADS]}),
        "both": (
            {"key_padding_mask": np.stack([some, ~some]), "attn_mask": np.tile(some, (TARGET, 1))},
            {"key_padding_mask": some[None], "attn_mask": np.tile(some, (TARGET, 1))},
        ),
    }[by]
    masks = {name: as_mask(m, kind, device) for name, m in masks.items()}
    g = normal(BATCH, TARGET, D_MODEL, seed=5)
    out, weights, gradients = run(layer, inputs, masks, path, g)
    if without is None:
        assert (out == 0).all()
        assert all((x == 0).all() for x in gradients)
        assert weights is None or (weights == 0).all()
        return
    without = {name: as_mask(m, kind, device) for name, m in without.items()}
    expected, expected_weights, wanted = run(layer, [x[:1] for x in inputs], without, path, g[:1])
    assert (out[1] == 0).all()
    assert all((x[1] == 0).all() for x in gradients[:3])
    close(out[:1], expected)
    for x, y in zip(gradients[:3], wanted[:3]):
        close(x[:1], y)
    for x, y in zip(gradients[3:], wanted[3:]):
        close(x, y)
    if weights is not None:
        assert (weights[1] == 0).all()
        close(weights[:1], expected_weights)


@pytest.mark.parametrize("kind", KINDS)
def test_every_path_gives_the_same_where_a_row_sees_nothing(kind, device):
    layer = attention_of(device)
    hidden = np.array([[True] * 4, [False, True, False, False], [True] * 4, [True, False, False, False]])
    masks = {"attn_mask": as_mask(hidden, kind, device)}
    g = normal(BATCH, 4, D_MODEL, seed=5)
    results = [
        run(layer, [normal(BATCH, 4, D_MODEL)], masks, path, g, create_graph)
        for path, create_graph in itertools.product(PATHS, (False, True))
    ]
    out, _, gradients = results[0]
    close(out[:, 0], np.broadcast_to(layer.out_proj.bias.detach().numpy(), (BATCH, D_MODEL)))
    for other, _, found in results[1:]:
        close(other, out)
        for a, b in zip(found, gradients):
            close(a, b)


@pytest.mark.parametrize("path", PATHS)
def test_dropout_where_a_row_sees_nothing(path, device):
    layer = attention_of(device, dropout=0.5)
    masks = {"key_padding_mask": tt.asarray([[True] * 4, [False] * 4], device=device)}
    out, _, gradients = run(layer, [normal(BATCH, 4, D_MODEL)], masks, path, normal(BATCH, 4, D_MODEL))
    close(out[0], np.broadcast_to(layer.out_proj.bias.detach().numpy(), (4, D_MODEL)))
    assert all(np.isfinite(x).all() for x in gradients)
    assert (gradients[0][0] == 0).all()
    assert (gradients[0][1] != 0).any()


def test_a_transformer_with_a_sample_of_padding_alone():
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, 8, dropout=0.0, batch_first=True, dtype=tt.float64)
    x = normal(BATCH, SOURCE, D_MODEL)
    padding = tt.asarray([[True] * SOURCE, [False, False, True, True]])
    layer(tt.asarray(x), src_key_padding_mask=padding)[1, :2].sum().backward()
    found = [p.grad.numpy() for p in layer.parameters()]
    layer.zero_grad()
    layer(tt.asarray(x[1:]), src_key_padding_mask=padding[1:])[0, :2].sum().backward()
    for p, g in zip(layer.parameters(), found, strict=True):
        close(g, p.grad)


# ---- masks


@pytest.mark.parametrize("path", PATHS)
def test_a_float_mask_learns(path, device):
    """Relative position biases are learnt so: the gradient of the mask has the mask's shape."""
    layer = attention_of(device)
    x = tt.asarray(normal(BATCH, 4, D_MODEL), device=device)
    for name, shape in (
        ("attn_mask", (4, 4)),
        ("attn_mask", (BATCH * HEADS, 4, 4)),
        ("key_padding_mask", (BATCH, 4)),
    ):
        mask = leaf(normal(*shape, seed=8), device)

        def result(mask, name=name):
            return tt.square(layer(x, x, x, **{name: mask}, **PATHS[path])[0]).sum()

        g = tt.grad(result(mask), mask)
        assert g.shape == shape
        close(g.sum(axis=-1), np.zeros(shape[:-1]), 1e-9)  # a constant added to a row of scores changes nothing
        tt.gradcheck(result, [mask])


def test_a_mask_of_another_float_dtype_does_not_change_the_result(device):
    layer = attention_of(device, tt.float32)
    x = tt.asarray(normal(BATCH, 4, D_MODEL), dtype=tt.float32, device=device)
    padding = np.array([[0.0, 0.0, 0.0, -INF], [0.0] * 4])
    for masks in ({"key_padding_mask": padding}, {"attn_mask": padding[0] + np.zeros((4, 1))}):
        for path in PATHS:
            out, weights = layer(x, x, x, **masks, **PATHS[path])
            assert out.dtype == tt.float32
            assert weights is None or weights.dtype == tt.float32


def test_boolean_masks_mean_opposite_things():
    """In `MultiheadAttention` True hides, in `scaled_dot_product_attention` True shows, as in PyTorch."""
    v = tt.asarray([[1.0], [2.0]])
    same = tt.zeros((2, 1))
    assert F.scaled_dot_product_attention(same, same, v, tt.asarray([[True, False]] * 2)).tolist() == [[1], [1]]
    layer = attention_of()
    x = tt.asarray(normal(1, 2, D_MODEL))
    assert layer(x, x, x, attn_mask=tt.asarray([[True, False]] * 2))[1].tolist() == [[[0, 1], [0, 1]]]
    assert layer(x, x, x, key_padding_mask=tt.asarray([[True, False]]))[1].tolist() == [[[0, 1], [0, 1]]]


@pytest.mark.parametrize(("target", "source"), [(3, 3), (2, 4), (4, 2), (1, 3), (3, 1)])
def test_causal_attention_sees_no_future(target, source, device):
    q, k, v = (leaf(normal(n, 2, seed=n), device) for n in (target, source, source))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    lower = tt.asarray(np.tril(np.ones((target, source), dtype=bool)), device=device)
    close(out, F.scaled_dot_product_attention(q, k, v, lower))
    close(out[0], v[0])
    assert F.causal_mask(target, source).tolist() == (~np.tril(np.ones((target, source), dtype=bool))).tolist()
    for i in range(min(target, source) - 1):
        g = tt.grad(out[i].sum(), v, retain_graph=True)
        assert (g[i + 1 :] == 0).all()


# ---- large scores


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("masked", [None, "boolean", "float"])
@pytest.mark.parametrize("size", [1.0, 40.0, 100.0, 1e4])
def test_scores_of_any_size(size, masked, dtype, device):
    """Scores from small to 1e4, of either sign, in the same rows or in different ones: no overflow, right values."""
    scores = np.array([[1, 0.5, -1, 0], [-1, -1, -1, -1], [-1, -0.99, -1, -1], [0.999, 1, 0, -1]]) * size
    q, k, v = leaf(scores, device, dtype), leaf(np.eye(4), device, dtype), leaf(np.eye(4), device, dtype)
    hidden = np.zeros((4, 4), dtype=bool)
    if masked:
        hidden[0, 0] = hidden[1, 1:] = hidden[2] = True
    given = None
    if masked:
        values = ~hidden if masked == "boolean" else np.where(hidden, -INF, 0.0)
        given = tt.asarray(values, dtype=None if masked == "boolean" else dtype, device=device)
    weights = F.scaled_dot_product_attention(q, k, v, given, scale=1.0)
    exact = scores.astype(np.float32 if dtype == tt.float32 else np.float64).astype(np.float64)
    exact = np.where(hidden, -INF, exact)
    largest = exact.max(axis=1, keepdims=True)
    e = np.exp(exact - np.where(largest == -INF, 0, largest))
    total = e.sum(axis=1, keepdims=True)
    expected = e / np.where(total == 0, 1, total)
    # A score is right to half a unit in its last place, which is the relative error of its exponential.
    tolerance = float(tt.finfo(dtype).eps) * (10 + 2 * size)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=tolerance, atol=1e-30)
    for g in tt.grad(weights[:, :2].sum(), [q, k, v]):
        assert tt.all(tt.isfinite(g))


def test_very_negative_scores_without_a_mask_are_no_empty_rows(device):
    q = leaf([[-300.0], [-1e4]], device, tt.float32)
    one = tt.ones((2, 1), device=device)
    out = F.scaled_dot_product_attention(q, one, tt.asarray([[1.0], [3.0]], device=device))
    assert out.tolist() == [[2], [2]]


# ---- sizes of nothing


@pytest.mark.parametrize("path", PATHS)
def test_no_batch_and_no_queries(path, device):
    layer = attention_of(device)
    for batch, target in ((0, 3), (2, 0)):
        query, memory = leaf(np.ones((batch, target, D_MODEL)), device), leaf(np.ones((batch, 4, D_MODEL)), device)
        out, weights = layer(query, memory, memory, **PATHS[path])
        assert out.shape == (batch, target, D_MODEL)
        assert weights is None or weights.shape[-2:] == (target, 4)
        out.sum().backward()
        assert all((p.grad == 0).all() for p in layer.parameters())


def test_nothing_to_attend_to(device):
    q, k, v = (leaf(np.ones(shape), device) for shape in ((2, 3), (0, 3), (0, 4)))
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.tolist() == [[0] * 4] * 2
    assert tt.grad(out.sum(), q).tolist() == [[0] * 3] * 2


# ---- dropout of weights


def test_the_function_as_it_is_called_without_options():
    layer, x = attention_of(), tt.asarray(normal(BATCH, 4, D_MODEL))
    inputs = x, x, x, HEADS, layer.in_proj_weight, layer.in_proj_bias
    outputs = layer.out_proj.weight, layer.out_proj.bias
    for found, expected in zip(F.multi_head_attention_forward(*inputs, 0.0, *outputs), layer(x, x, x)):
        close(found, expected)
    dropped, _ = F.multi_head_attention_forward(*inputs, 0.9, *outputs)
    assert (dropped != layer(x, x, x)[0]).any()


@pytest.mark.parametrize("path", PATHS)
def test_dropout_in_training_only(path):
    layer = attention_of(dropout=0.4)
    x = tt.asarray(normal(BATCH, 4, D_MODEL))
    first, second = (layer(x, x, x, **PATHS[path])[0] for _ in range(2))
    assert (first != second).any()
    layer.eval()
    first, second = (layer(x, x, x, **PATHS[path])[0] for _ in range(2))
    assert (first == second).all()
    tt.random.manual_seed(1)
    layer.train()
    once = layer(x, x, x, **PATHS[path])[0]
    tt.random.manual_seed(1)
    assert (layer(x, x, x, **PATHS[path])[0] == once).all()


def test_dropout_drops_its_share_of_the_weights(device):
    """With one source each weight is 1, so that the result shows which were dropped."""
    tt.random.manual_seed(0)
    q, one = tt.ones((4, 5000, 1), device=device), tt.ones((4, 1, 1), device=device)
    out = F.scaled_dot_product_attention(q, one, one, dropout_p=0.25)
    assert set(np.unique(out.numpy()).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert abs((out.numpy() == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / out.size)
    assert (F.scaled_dot_product_attention(q, one, one, dropout_p=1.0) == 0).all()


def test_returned_weights_are_those_that_were_used():
    """With dropout too, as in PyTorch: `weights @ values` is the result."""
    layer = attention_of(dropout=0.5)
    x = tt.asarray(normal(1, 4, D_MODEL))
    out, weights = layer(x, x, x, average_attn_weights=False)
    assert (weights == 0).any()
    value = F.linear(x, layer.in_proj_weight[2 * D_MODEL :], layer.in_proj_bias[2 * D_MODEL :])
    value = tt.permute_dims(tt.reshape(value, (1, 4, HEADS, D_MODEL // HEADS)), (0, 2, 1, 3))
    heads = tt.reshape(tt.permute_dims(weights @ value, (0, 2, 1, 3)), (1, 4, D_MODEL))
    close(layer.out_proj(heads), out)


# ---- what does not fit


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((3, 4), (2, 5), (2, 4)), {}, r"query \(3, 4\) and key \(2, 5\) must agree in their last dimension"),
        (((3, 4), (2, 4), (3, 4)), {}, r"key and value \(3, 4\) in the one before it"),
        (((3, 4), (2, 4), (2, 4)), {"dropout_p": 1.5}, "probability must be from 0 to 1, got 1.5"),
        (((3, 4), (2, 4), (2, 4)), {"is_causal": True, "attn_mask": np.ones((3, 2), dtype=bool)}, "not both"),
        (((3, 4), (2, 4), (2, 4)), {"attn_mask": np.ones((3, 5), dtype=bool)}, r"attention: .*mask \(3, 5\)"),
        (((5, 3, 4), (2, 2, 4), (2, 2, 4)), {}, r"scaled_dot_product_attention: query \(5, 3, 4\), key \(2, 2, 4\)"),
        (((4,), (2, 4), (2, 4)), {}, r"query \(4,\), key \(2, 4\) and value \(2, 4\) must have .* write x\[None\]"),
        (((3, 4), (4,), (4,)), {"is_causal": True}, r"key \(4,\) and value \(4,\) must have 2 dimensions or more each"),
        (((3, 4), (2, 4), (2,)), {}, r"value \(2,\) must have 2 dimensions or more each"),
        (((), (2, 4), (2, 4)), {}, r"query \(\), key \(2, 4\)"),
    ],
)
def test_attention_names_what_does_not_fit(shapes, options, message, device):
    with pytest.raises(ValueError, match=message):
        F.scaled_dot_product_attention(*(tt.ones(s, device=device) for s in shapes), **options)


def test_a_mask_of_integers_is_refused():
    with pytest.raises(TypeError, match="boolean or float"):
        F.scaled_dot_product_attention(*[tt.ones((3, 4))] * 3, attn_mask=np.ones((3, 3), dtype=np.int64))


@pytest.mark.parametrize(
    ("shapes", "masks", "error", "message"),
    [
        (((2, 3, 6), (2, 4, 6), (2, 5, 6)), {}, ValueError, "batches and lengths differ"),
        (((1, 3, 6), (2, 4, 6), (2, 4, 6)), {}, ValueError, "batches and lengths differ"),
        (((2, 3, 5), (2, 4, 6), (2, 4, 6)), {}, ValueError, r"query \(2, 3, 5\) must end in 6, as \(batch, length, f"),
        (((3, 5), (4, 6), (4, 6)), {}, ValueError, r"query \(3, 5\) must end in 6, as \(length, features\)"),
        (((2, 3, 6), (2, 4, 6), (4, 6)), {}, ValueError, "must have 3 dimensions each"),
        (((3, 6),) * 3, {"key_padding_mask": np.ones((2, 3), dtype=bool)}, ValueError, r"\(source,\) = \(3,\) without"),
        (((2, 3, 6),) * 3, {"key_padding_mask": np.ones((3, 2), dtype=bool)}, ValueError, r"\(2, 3\), got \(3, 2\)"),
        (((2, 3, 6),) * 3, {"attn_mask": np.ones((2, 3, 3), dtype=bool)}, ValueError, r"\(4, 3, 3\), got \(2, 3, 3\)"),
        (((2, 3, 6),) * 3, {"attn_mask": np.ones((3, 3), dtype=np.int64)}, TypeError, "boolean or floating, got int64"),
        (((2, 3, 6),) * 3, {"is_causal": True}, ValueError, "needs the causal attn_mask"),
    ],
)
def test_multihead_attention_names_what_does_not_fit(shapes, masks, error, message):
    with pytest.raises(error, match=message):
        attention_of()(*(tt.ones(s, dtype=tt.float64) for s in shapes), **masks)


def test_lengths_before_batches():
    layer = nn.MultiheadAttention(D_MODEL, HEADS, kdim=4, vdim=4, dtype=tt.float64)
    query, memory = tt.ones((3, 2, D_MODEL), dtype=tt.float64), tt.ones((5, 2, 4), dtype=tt.float64)
    out, weights = layer(query, memory, memory)
    assert (out.shape, weights.shape) == ((3, 2, D_MODEL), (2, 3, 5))
    with pytest.raises(ValueError, match=r"batches and lengths differ.* as \(length, batch, features\)"):
        layer(query, memory[:, :1], memory[:, :1])
    with pytest.raises(ValueError, match=r"query \(3, 2, 5\) must end in 6, as \(length, batch, features\)"):
        layer(query[:, :, :5], memory, memory)
    with pytest.raises(TypeError, match=r"expected floats, got key \(5, 2, 4\) of int64"):
        layer(query, tt.astype(memory, tt.int64), memory)


def test_a_padding_mask_without_a_batch(device):
    layer = attention_of(device)
    x, mask = tt.asarray(normal(SOURCE, D_MODEL), device=device), np.array([False, True, False, True])
    out, weights = layer(x, x, x, key_padding_mask=mask)
    batched, _ = layer(x[None], x[None], x[None], key_padding_mask=mask[None])
    close(out, batched[0])
    assert not weights.numpy()[:, mask].any()


def test_a_single_vector_is_a_sequence_of_length_one():
    query, key, value = (tt.asarray(normal(*shape)) for shape in ((4,), (3, 4), (3, 2)))
    weights = F.softmax(key @ query / 2, dim=0)
    close(F.scaled_dot_product_attention(query[None], key, value)[0], weights @ value)


def test_heads_must_divide_the_size():
    assert nn.MultiheadAttention(1, 1).head_dim == 1
    for embed_dim, num_heads in ((6, 4), (0, 1), (6, 0), (6, -2)):
        with pytest.raises(ValueError, match="num_heads must divide embed_dim"):
            nn.MultiheadAttention(embed_dim, num_heads)
    with pytest.raises(ValueError, match="MultiheadAttention: the probability must be from 0 to 1"):
        nn.MultiheadAttention(6, 2, dropout=-0.5)


# ---- the scale


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("scale", "factor"), [(None, 1 / math.sqrt(3)), (1, 1.0), (0.7, 0.7), (0, 0.0)])
def test_scores_are_multiplied_by_the_scale(scale, factor, need_weights, device):
    layer, x = attention_of(device, scale=scale), leaf(normal(BATCH, SOURCE, D_MODEL), device)
    g = tt.asarray(normal(*x.shape, seed=1), device=device)
    found = []
    for mode in (contextlib.nullcontext(), tt.textbook()):
        with mode:
            out, _ = layer(x, x, x, need_weights=need_weights)
            found.append((out, *tt.grad(out, [x, layer.in_proj_weight], g)))
    for fast, formula in zip(*found):
        close(fast, formula)
    weight = tt.split(layer.in_proj_weight, 3)
    q, k, v = (F.attention.split_heads(x @ w.mT, HEADS) for w in weight)
    heads = F.softmax(factor * (q @ k.mT), dim=-1) @ v
    close(out, F.attention.join_heads(heads) @ layer.out_proj.weight.mT)


@pytest.mark.parametrize(("scale", "error"), [("8", TypeError), (INF, ValueError), (math.nan, ValueError)])
def test_a_scale_that_is_none_is_refused(scale, error):
    with pytest.raises(error, match=f"MultiheadAttention: scale must be .*{scale}"):
        attention_of(scale=scale)


def test_the_layers_of_the_transformer_pass_the_scale_on():
    model = nn.Transformer(8, 2, 1, 1, 8, scale=0.25)
    assert [m.scale for m in model.modules() if isinstance(m, nn.MultiheadAttention)] == [0.25] * 3


# ---- memory


def test_attention_keeps_nothing_after_backward():
    gc.collect()
    gc.disable()
    try:
        layer = attention_of(dropout=0.1)
        for path in PATHS:
            x = leaf(normal(BATCH, 4, D_MODEL))
            out, _ = layer(x, x, x, attn_mask=tt.zeros((4, 4), dtype=tt.float64), **PATHS[path])
            out.sum().backward()
            del x, out, _
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_mask_that_does_not_fit_is_named_with_all_shapes():
    q = tt.ones((2, 3, 4))
    with pytest.raises(ValueError, match=r"attn_mask \(2, 5\) must broadcast to \(\.\.\., 3, 3\)"):
        F.scaled_dot_product_attention(q, q, q, tt.ones((2, 5), dtype=tt.bool))


def test_what_attends_to_zeros_gets_nothing(device):
    """With all keys hidden the zeros have the whole weight: the values' bias does not come through them."""
    layer = nn.MultiheadAttention(8, 2, add_zero_attn=True, batch_first=True, device=device)
    x = tt.random.randn(2, 3, 8, device=device)
    hidden = tt.ones((2, 3), dtype=tt.bool, device=device)
    with nn.record_attention() as recorded:
        out, weights = layer(x, x, x, key_padding_mask=hidden)
    np.testing.assert_array_equal(weights.detach().numpy(), np.broadcast_to([0, 0, 0, 1], (2, 3, 4)))
    np.testing.assert_allclose(out.detach().numpy(), np.broadcast_to(layer.out_proj.bias.detach().numpy(), (2, 3, 8)))
    assert [call.weights.shape for call in recorded.layers] == [(2, 2, 3, 4)]


def test_a_key_of_its_own_is_seen_whatever_the_mask_and_learns():
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)
    x = tt.random.randn(2, 3, 8)
    out, weights = layer(x, x, x, attn_mask=tt.ones((3, 3), dtype=tt.bool))
    assert (weights.detach().numpy() == [0, 0, 0, 1]).all()
    out.sum().backward()
    assert layer.bias_v.grad.shape == (1, 1, 8)
    assert bool(tt.any(layer.bias_v.grad != 0))


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 6, "vdim": 6}])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("need_weights", "spare"), [(True, 16), (False, 16), (False, 0)])
def test_calls_with_a_cache_are_one_call_with_all_keys(options, batch_first, need_weights, spare, device):
    tt.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, dtype=tt.float64, device=device, **options)
    rng, source = np.random.default_rng(0), 5
    length = 1 if batch_first else 0
    query, key = (
        tt.asarray(np.moveaxis(rng.normal(size=(n, 2, size)), 0, length), device=device)
        for n, size in ((3, 8), (source, layer.kdim))
    )
    padding = tt.asarray(np.arange(source) >= np.array([[source], [3]]), device=device)
    expected = layer(query, key, key, padding, need_weights)
    cache = layer.empty_cache(key, spare=spare)
    for i in range(source):
        part = key[:, i : i + 1] if batch_first else key[i : i + 1]
        nothing = query[:, :0] if batch_first else query[:0]
        out, _ = layer(nothing, part, part, need_weights=need_weights, cache=cache)
        assert out.shape == nothing.shape
    nothing = key[:, :0] if batch_first else key[:0]
    found = layer(query, nothing, nothing, padding, need_weights, cache=cache)
    assert cache.places == source
    for a, b in zip(found, expected):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=1e-12)


def test_a_mask_of_four_axes_broadcasts_over_batch_and_heads():
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), tt.random.randn(3, 4, 8)
    mask = F.causal_mask(4)
    expected = layer(x, x, x, attn_mask=mask)[0].detach().numpy()
    for shape in ((1, 1, 4, 4), (3, 1, 4, 4), (3, 2, 4, 4)):
        found = layer(x, x, x, attn_mask=tt.broadcast_to(mask, shape))[0]
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"attn_mask: expected .*got \(2, 1, 4, 4\)"):
        layer(x, x, x, attn_mask=tt.broadcast_to(mask, (2, 1, 4, 4)))
