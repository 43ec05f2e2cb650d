"""Attention beside PyTorch's: outputs, weights and all gradients agree, and a state_dict goes over both ways."""

import itertools
import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

torch = pytest.importorskip("torch")

TOLERANCE = 1e-10
BATCH, TARGET, SOURCE, D_MODEL, HEADS = 2, 3, 5, 8, 2


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(ours, theirs, what=""):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape, what
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def both(array):
    """An array as a Tensor of each library, with a gradient if it holds floats."""
    if array is None:
        return None, None
    wanted = array.dtype.kind == "f"
    return tt.tensor(array, requires_grad=wanted), torch.tensor(array, requires_grad=wanted)


def compare_gradients(pairs):
    for i, (ours, theirs) in enumerate(pairs):
        if theirs is not None and theirs.requires_grad:
            close(ours.grad, theirs.grad, f"gradient of input {i}")


# ---- scaled_dot_product_attention

FLOATS = normal(TARGET, SOURCE, seed=7)
BOOLEANS = np.random.default_rng(8).random((TARGET, SOURCE)) < 0.6
BOOLEANS[:, 0] = True


@pytest.mark.parametrize(
    ("batches", "mask"),
    [
        (((), (), ()), None),
        (((2,), (2,), (2,)), None),
        (((2, 3), (2, 3), (2, 3)), None),
        (((2, 1), (1, 3), (3,)), None),
        (((2, 3), (), (3,)), None),
        (((2,), (2,), (2,)), BOOLEANS),
        (((2,), (2,), (2,)), BOOLEANS[:1]),
        (((2, 3), (2, 3), (2, 3)), np.stack([BOOLEANS, np.ones_like(BOOLEANS)])[:, None]),
        (((2,), (2,), (2,)), FLOATS),
        (((2,), (2,), (2,)), FLOATS[:, :1]),
        (((2, 3), (2, 3), (2, 3)), normal(3, TARGET, SOURCE)),
        (((2, 3), (2, 3), (2, 3)), normal(2, 1, 1, SOURCE)),
    ],
)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_scaled_dot_product_attention(batches, mask, scale):
    sizes = ((TARGET, 4), (SOURCE, 4), (SOURCE, 6))
    pairs = [both(normal(*batch, *size, seed=i)) for i, (batch, size) in enumerate(zip(batches, sizes))]
    pairs.append(both(mask))
    ours = nn.functional.scaled_dot_product_attention(*(p[0] for p in pairs), scale=scale)
    theirs = torch.nn.functional.scaled_dot_product_attention(*(p[1] for p in pairs), scale=scale)
    close(ours, theirs)
    g = normal(*ours.shape, seed=9)
    ours.backward(tt.asarray(g))
    theirs.backward(torch.tensor(g))
    compare_gradients(pairs)


@pytest.mark.parametrize(("target", "source"), [(4, 4), (3, 5), (5, 3), (1, 4), (4, 1)])
def test_causal(target, source):
    pairs = [both(normal(2, *size, seed=i)) for i, size in enumerate(((target, 4), (source, 4), (source, 6)))]
    ours = nn.functional.scaled_dot_product_attention(*(p[0] for p in pairs), is_causal=True)
    theirs = torch.nn.functional.scaled_dot_product_attention(*(p[1] for p in pairs), is_causal=True)
    close(ours, theirs)
    ours.sum().backward()
    theirs.sum().backward()
    compare_gradients(pairs)


def test_a_row_that_sees_nothing():
    """PyTorch's function gives zeros as well (its MultiheadAttention gives NaN)."""
    mask = BOOLEANS.copy()
    mask[1] = False
    for given in (mask, np.where(mask, 0.0, -math.inf)):
        pairs = [both(normal(2, *size, seed=i)) for i, size in enumerate(((TARGET, 4), (SOURCE, 4), (SOURCE, 6)))]
        ours = nn.functional.scaled_dot_product_attention(*(p[0] for p in pairs), tt.asarray(given))
        theirs = torch.nn.functional.scaled_dot_product_attention(*(p[1] for p in pairs), torch.tensor(given))
        close(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
        compare_gradients(pairs)


# ---- MultiheadAttention

HEAD_FLOATS = normal(BATCH * HEADS, TARGET, SOURCE, seed=4)
HEAD_BOOLEANS = HEAD_FLOATS > 0.8
HEAD_BOOLEANS[:, :, 0] = False
PADDING = np.array([[False, True, False, False, True], [False, False, False, True, False]])
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "float padding": {"key_padding_mask": np.where(PADDING, -math.inf, 0.5)},
    "mask": {"attn_mask": ~BOOLEANS},
    "float mask": {"attn_mask": FLOATS},
    "mask of each head": {"attn_mask": HEAD_BOOLEANS},
    "float mask of each head": {"attn_mask": HEAD_FLOATS},
    "both": {"key_padding_mask": PADDING, "attn_mask": ~BOOLEANS},
    "both float": {"key_padding_mask": np.where(PADDING, -math.inf, 0.5), "attn_mask": HEAD_FLOATS},
}
WEIGHTS = {
    "average": {},
    "each head": {"average_attn_weights": False},
    "no weights": {"need_weights": False},
}


def attentions(**options):
    torch.manual_seed(0)
    tt.random.manual_seed(0)
    ours = nn.MultiheadAttention(D_MODEL, HEADS, dtype=tt.float64, **options)
    theirs = torch.nn.MultiheadAttention(D_MODEL, HEADS, dtype=torch.float64, **options)
    return ours, theirs


def compare(ours, theirs, inputs, options):
    """Outputs, weights and all gradients, after the state went over one way and then the other."""
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    rng = np.random.default_rng(5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    agree(ours, theirs, inputs, options)
    with tt.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(parameter * 0.5 + 0.1)
    theirs.load_state_dict({n: torch.from_numpy(np.array(p.numpy())) for n, p in ours.state_dict().items()})
    agree(ours, theirs, inputs, options)


def agree(ours, theirs, inputs, options):
    ours.zero_grad()
    theirs.zero_grad()
    places = {id(array): both(array) for array in inputs}  # one array given twice is one Tensor given twice
    pairs = [places[id(array)] for array in inputs]
    masks = {name: both(mask) for name, mask in options.items() if isinstance(mask, np.ndarray)}
    for _, theirs_mask in masks.values():
        theirs_mask.requires_grad_(theirs_mask.dtype.is_floating_point and bool(torch.isfinite(theirs_mask).all()))
    out, weights = ours(*(p[0] for p in pairs), **options | {name: m[0] for name, m in masks.items()})
    expected, expected_weights = theirs(*(p[1] for p in pairs), **options | {name: m[1] for name, m in masks.items()})
    close(out, expected, "output")
    assert (weights is None) == (expected_weights is None)
    if weights is not None:
        close(weights, expected_weights, "weights")
    g = normal(*out.shape, seed=9)
    ours_loss, theirs_loss = (out * tt.asarray(g)).sum(), (expected * torch.tensor(g)).sum()
    if weights is not None:  # the weights are differentiable as well
        g = normal(*weights.shape, seed=10)
        ours_loss, theirs_loss = (
            ours_loss + (weights * tt.asarray(g)).sum(),
            theirs_loss + (expected_weights * torch.tensor(g)).sum(),
        )
    ours_loss.backward()
    theirs_loss.backward()
    compare_gradients([*pairs, *masks.values()])
    known = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        close(parameter.grad, known[name].grad, f"gradient of {name}")


def sequences(batch_first, kdim=D_MODEL, vdim=D_MODEL):
    arrays = [
        normal(BATCH, n, d, seed=i) for i, (n, d) in enumerate(((TARGET, D_MODEL), (SOURCE, kdim), (SOURCE, vdim)))
    ]
    return arrays if batch_first else [np.ascontiguousarray(a.transpose(1, 0, 2)) for a in arrays]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_shared_memory_with_masks(batch_first, masks, weights):
    query, memory, _ = sequences(batch_first)
    compare(*attentions(batch_first=batch_first), [query, memory, memory], MASKS[masks] | WEIGHTS[weights])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"kdim": 6}, {"vdim": 4}, {"kdim": 6, "vdim": 4, "bias": False}, {"kdim": 6, "vdim": 6}],
)
def test_three_inputs(options, weights):
    sizes = {name: size for name, size in options.items() if name != "bias"}
    for batch_first, masks in ((True, {}), (False, MASKS["both"])):
        compare(
            *attentions(batch_first=batch_first, **options), sequences(batch_first, **sizes), masks | WEIGHTS[weights]
        )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("masks", ["none", "both", "both float"])
@pytest.mark.parametrize(
    "options", [{"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True, "kdim": 6}]
)
def test_keys_and_values_of_its_own(options, masks, weights):
    sizes = {"kdim": options["kdim"]} if "kdim" in options else {}
    compare(*attentions(batch_first=True, **options), sequences(True, **sizes), MASKS.get(masks, {}) | WEIGHTS[weights])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_self_attention(batch_first, bias, weights):
    x = sequences(batch_first)[1]
    causal = {"attn_mask": np.triu(np.ones((SOURCE, SOURCE), dtype=bool), k=1)}
    for masks in ({}, causal, causal | {"is_causal": True}, {"key_padding_mask": PADDING}):
        compare(*attentions(batch_first=batch_first, bias=bias), [x, x, x], masks | WEIGHTS[weights])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_unbatched(batch_first, weights):
    query, key, value = normal(TARGET, D_MODEL), normal(SOURCE, D_MODEL, seed=1), normal(SOURCE, D_MODEL, seed=2)
    modules = attentions(batch_first=batch_first)
    for masks in ({}, {"key_padding_mask": PADDING[0]}, MASKS["float mask"], {"attn_mask": HEAD_FLOATS[:HEADS]}):
        compare(*modules, [query, key, value], masks | WEIGHTS[weights])
        compare(*modules, [query, key, key], masks | WEIGHTS[weights])
    compare(*modules, [key, key, key], WEIGHTS[weights])


def test_a_query_that_is_also_the_key():
    """Two of three inputs are one Tensor, in every combination."""
    a, b = normal(BATCH, SOURCE, D_MODEL), normal(BATCH, SOURCE, D_MODEL, seed=1)
    for inputs, weights in itertools.product(([a, a, b], [a, b, a], [b, a, a], [a, a, a]), WEIGHTS.values()):
        compare(*attentions(batch_first=True), inputs, weights)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_dropout_statistics(weights):
    """In training the same share of the weights is dropped, and the mean stays the same."""
    ours, theirs = attentions(dropout=0.3, batch_first=True, bias=False)
    theirs.eval()
    ours.load_state_dict(theirs.state_dict())
    x = normal(1, 4, D_MODEL)
    repeated = tt.asarray(np.repeat(x, 4000, axis=0))
    out, found = ours(repeated, repeated, repeated, **WEIGHTS[weights])
    expected, _ = theirs(*[torch.tensor(x)] * 3)
    spread = out.numpy().std(axis=0) / math.sqrt(4000)
    assert (spread > 0).all()
    assert (np.abs(out.numpy().mean(axis=0) - expected.detach().numpy()[0]) < 5 * spread).all()
    if found is not None and weights == "each head":
        assert abs((found.numpy() == 0).mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / found.size)
    theirs.train()
    their_repeated = torch.tensor(np.array(repeated.numpy()))
    theirs_out, _ = theirs(*[their_repeated] * 3, **WEIGHTS[weights])
    np.testing.assert_allclose(out.numpy().std(axis=0), theirs_out.detach().numpy().std(axis=0), rtol=0.1)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 48}, {"kdim": 80, "vdim": 32}])
def test_initial_values(options):
    """Names, shapes and distributions of the parameters."""
    torch.manual_seed(0)
    tt.random.manual_seed(0)
    ours, theirs = (library.MultiheadAttention(64, 4, **options).state_dict() for library in (nn, torch.nn))
    assert list(ours) == list(theirs)
    for name, theirs_values in theirs.items():
        a, b = ours[name].numpy().astype(np.float64), theirs_values.numpy().astype(np.float64)
        assert a.shape == b.shape
        if not b.any():
            assert not a.any(), name
            continue
        assert np.abs(a).max() == pytest.approx(np.abs(b).max(), rel=0.01), name
        assert a.std() == pytest.approx(b.std(), rel=0.03), name
        quantiles = np.linspace(0.05, 0.95, 10)
        np.testing.assert_allclose(np.quantile(a, quantiles), np.quantile(b, quantiles), atol=0.1 * b.std())
