"""Whole sub-layers in compiled loops: the numbers of the layers' own way, which is gone where anything is unusual."""

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.fast import threads
from tinytensor.nn.fast import sublayers

from .test_pairs import ops_behind

pytest.importorskip("numba")
D, INNER, HEADS, BATCH, TARGET, SOURCE = 8, 12, 2, 3, 5, 7
CAUSAL = np.triu(np.ones((TARGET, TARGET), bool), 1)
PADDING = np.arange(SOURCE) >= np.array([SOURCE, 2, 0])[:, None]  # the last sentence is nothing but padding


@pytest.fixture(autouse=True)
def in_loops(monkeypatch, loops):
    monkeypatch.setattr(threads, "_blas_is_single", True)


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def decoder_layer(dtype=np.float64, kind=nn.TransformerDecoderLayer, **options):
    tt.manual_seed(1)
    layer = kind(D, HEADS, INNER, **{"dropout": 0.0, "batch_first": True, "dtype": dtype, **options})
    with tt.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter += tt.asarray(normal(*parameter.shape, seed=i, dtype=dtype) * 0.3)
    return layer


def is_fused(out):
    return "attend" in ops_behind(out)


def inputs(dtype=np.float64, batch=BATCH):
    shapes = ((batch, TARGET, D), (batch, SOURCE, D))
    return [tt.tensor(normal(*shape, seed=i, dtype=dtype), requires_grad=True) for i, shape in enumerate(shapes)]


def outcome(layer, masks, dtype=np.float64, batch=BATCH):
    """The result and all first derivatives, as arrays."""
    leaves = inputs(dtype, batch)
    out = layer(*leaves, **{name: tt.asarray(mask) for name, mask in masks.items()})
    wanted = [*leaves, *layer.parameters()]
    gradients = tt.grad(out, wanted, tt.asarray(normal(*out.shape, seed=9, dtype=dtype)))
    return [x.detach().numpy() for x in (out, *gradients)]


MASKS = {
    "none": {},
    "causal": {"tgt_mask": CAUSAL},
    "padding": {"memory_key_padding_mask": PADDING, "tgt_key_padding_mask": PADDING[:, :TARGET], "tgt_mask": CAUSAL},
    "added": {"memory_mask": normal(TARGET, SOURCE), "tgt_mask": np.where(CAUSAL, -np.inf, 0.0)},
    "of each head": {"memory_mask": normal(BATCH * HEADS, TARGET, SOURCE) > 0.5},
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_layer_gives_the_formulas_numbers(name, bias):
    layer = decoder_layer(bias=bias)
    assert is_fused(layer(*inputs(), **{k: tt.asarray(mask) for k, mask in MASKS[name].items()}))
    found = outcome(layer, MASKS[name])
    with tt.textbook():
        expected = outcome(layer, MASKS[name])
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_an_encoder_layer_in_float32():
    layer = decoder_layer(np.float32, nn.TransformerEncoderLayer)

    def call():
        x = inputs(np.float32)[1]
        out = layer(x, src_key_padding_mask=tt.asarray(PADDING))
        return out, tt.grad(out, [x, *layer.parameters()], tt.asarray(normal(*out.shape, seed=9, dtype=np.float32)))

    assert is_fused(layer(inputs(np.float32)[1]))
    out, gradients = call()
    with tt.textbook():
        expected, by_formula = call()
    for a, b in zip([out.detach(), *gradients], [expected.detach(), *by_formula]):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)


def test_second_derivatives():
    layer, leaves = decoder_layer(), inputs()

    def twice():
        out = layer(*leaves, memory_key_padding_mask=tt.asarray(PADDING))
        (g,) = tt.grad((out * out).sum(), [leaves[0]], create_graph=True)
        return [x.numpy() for x in tt.grad((g * g).sum(), [*leaves, layer.linear1.weight, layer.norm1.weight])]

    found = twice()
    with tt.textbook():
        expected = twice()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_the_gradient_of_a_mask():
    mask = tt.tensor(normal(TARGET, SOURCE), requires_grad=True)
    layer = decoder_layer()

    def gradient():
        return tt.grad(layer(*inputs(), memory_mask=mask), mask, tt.asarray(normal(BATCH, TARGET, D))).numpy()

    found = gradient()
    with tt.textbook():
        np.testing.assert_allclose(found, gradient(), rtol=1e-10, atol=1e-12)


def test_large_scores_neither_overflow_nor_warn():
    layer = decoder_layer(np.float32)
    with tt.no_grad():
        layer.self_attn.in_proj_weight *= 100.0
    with np.errstate(all="raise"):
        found = outcome(layer, {}, np.float32)
    with tt.textbook():
        expected = outcome(layer, {}, np.float32)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("batch", [1, 37])
def test_the_number_of_threads_changes_nothing(batch, monkeypatch):
    room = tt.backend.for_device("cpu").sublayers(np.ones(1))
    monkeypatch.setattr(room, "SHARE", 1)
    monkeypatch.setattr(room, "ROWS", 16)
    monkeypatch.setattr(threads, "_threads", 1)
    layer, masks = decoder_layer(np.float32), {"tgt_mask": CAUSAL}
    found = []
    for count in (1, 2, 4):
        threads._threads = count
        found.append(outcome(layer, masks, np.float32, batch))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            assert a.tobytes() == b.tobytes()
    with tt.textbook():
        expected = outcome(layer, masks, np.float32, batch)
    for a, b in zip(found[0], expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


class Louder(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2.0


def replaced(layer):
    layer.linear1 = Louder(D, INNER, dtype=np.float64)


def hooked(layer):
    layer.self_attn.register_forward_hook(lambda module, args, out: None)


UNUSUAL = {
    "another class": ({"kind": type("Mine", (nn.TransformerDecoderLayer,), {})}, None),
    "norms in front": ({"norm_first": True}, None),
    "another activation": ({"activation": "gelu"}, None),
    "a function": ({"activation": lambda x: F.relu(x)}, None),
    "dropout": ({"dropout": 0.1}, None),
    "a module replaced": ({}, replaced),
    "a hook": ({}, hooked),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_goes_the_layers_own_way(name):
    options, change = UNUSUAL[name]
    layer = decoder_layer(**options)
    if change is not None:
        change(layer)
    assert not is_fused(layer(*inputs()))


def test_who_watches_sees_every_op():
    layer = decoder_layer()
    with tt.textbook():
        assert not is_fused(layer(*inputs()))
    with nn.record_attention() as record:
        layer(*inputs())
    assert len(record.calls) == 2
    with tt.detect_anomaly():
        assert not is_fused(layer(*inputs()))
    half = decoder_layer(np.float16)
    assert not is_fused(half(*inputs(np.float16)))


def test_large_matrices_go_the_layers_own_way(monkeypatch):
    room = tt.backend.for_device("cpu").sublayers(np.ones(1))
    monkeypatch.setattr(room, "MOST_WEIGHTS", 3 * D * D - 1)
    assert not is_fused(decoder_layer()(*inputs()))


def test_a_layer_that_does_not_drop_goes_the_fast_way():
    layer = decoder_layer(dropout=0.1)
    assert is_fused(layer.eval()(*inputs()))


def test_mistakes_are_told_by_the_module_they_are_in():
    layer = decoder_layer()
    x, memory = inputs()
    with pytest.raises(ValueError, match="key_padding_mask: expected .*multihead_attn"):
        layer(x, memory, memory_key_padding_mask=tt.asarray(PADDING[:, 1:]))
    layer.linear2.weight = nn.Parameter(tt.ones((D + 1, INNER), dtype=np.float64))
    with pytest.raises(ValueError, match=r"linear.*linear2"):
        layer(x, memory)


def test_a_weight_that_was_changed_before_backward_is_named():
    layer = decoder_layer()
    out = layer(*inputs())
    with tt.no_grad():
        layer.linear1.weight += 1.0
    with pytest.raises(RuntimeError, match="feed_forward .* was changed in place"):
        out.sum().backward()


def test_without_loops_the_ops_go_in_pieces(monkeypatch):
    x, memory = inputs()
    layer = decoder_layer()

    def call():
        out = sublayers._see(layer.multihead_attn, x, memory, layer.norm2, None, tt.asarray(PADDING))
        out = sublayers._feed(layer, out, layer.norm3)
        gradients = tt.grad(out.sum() * 1.5 + (out * out).sum(), [x, memory, layer.linear1.weight])
        return [a.detach().numpy() for a in (out, *gradients)]

    found = call()
    monkeypatch.setattr(threads, "_blas_is_single", False)
    for a, b in zip(found, call()):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
