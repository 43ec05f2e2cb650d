"""record_attention: sees every call, changes nothing."""

import contextlib
import math
import threading
import warnings

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.models import Transformer

SOURCE = np.array([[3, 4, 5, 6], [7, 8, 0, 0]])
TARGET = np.array([[1, 3, 4], [1, 5, 0]])


def model_of(dropout=0.0, layers=2, **options):
    tt.random.manual_seed(0)
    return Transformer(11, d_model=8, num_heads=2, num_layers=layers, max_length=16, dropout=dropout, **options)


def attention_of(**options):
    tt.random.manual_seed(0)
    return nn.MultiheadAttention(6, 2, batch_first=True, **options)


def normal(*shape, seed=0, device=None):
    return tt.asarray(np.random.default_rng(seed).normal(size=shape), device=device)


def recorded(function, *args, **kwargs):
    with nn.record_attention() as attention:
        function(*args, **kwargs)
    return attention


# ---- what it records


def test_a_transformer_layer_by_layer():
    attention = recorded(model_of(), SOURCE, TARGET)
    assert [call.path for call in attention.encoder] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    assert [call.path for call in attention.decoder] == ["decoder.layers.0.self_attn", "decoder.layers.1.self_attn"]
    assert [c.path for c in attention.cross] == ["decoder.layers.0.multihead_attn", "decoder.layers.1.multihead_attn"]
    assert [call.weights.shape for call in (*attention.encoder, *attention.decoder, *attention.cross)] == (
        [(2, 2, 4, 4)] * 2 + [(2, 2, 3, 3)] * 2 + [(2, 2, 3, 4)] * 2
    )
    assert attention["decoder.layers.0.multihead_attn"] is attention.cross[0]
    assert attention["1.multihead_attn"] is attention.cross[1]
    assert repr(attention) == "<attention: 6 calls, layers: 2 encoder, 2 decoder, 2 cross>"


def test_weights_are_those_the_layer_returns(device):
    layer = attention_of(dtype=tt.float64, device=device)
    query, memory = normal(2, 3, 6, device=device), normal(2, 4, 6, seed=1, device=device)
    padding = tt.asarray([[False] * 4, [False, False, True, True]], device=device)
    with nn.record_attention() as attention:
        _, weights = layer(query, memory, memory, key_padding_mask=padding, average_attn_weights=False)
        layer(query, memory, memory, key_padding_mask=padding, need_weights=False)
    for call in attention.calls:
        np.testing.assert_array_equal(call.weights, weights.detach().numpy())
        np.testing.assert_array_equal(call.hidden, np.broadcast_to(padding.numpy()[:, None, None], (2, 2, 3, 4)))


@pytest.mark.parametrize("mask", [None, "boolean", "float"])
def test_everything_that_the_weights_are_made_of(mask):
    layer = attention_of(dtype=tt.float64)
    x = normal(2, 3, 6)
    given = F.causal_mask(3)
    if mask == "float":
        given = tt.where(given, -tt.inf, normal(3, 3, seed=2))
    call = recorded(layer, x, x, x, attn_mask=None if mask is None else given).calls[0]
    projected = (x @ layer.in_proj_weight.mT + layer.in_proj_bias).detach().numpy().reshape(2, 3, 3, 2, 3)
    for i, found in enumerate((call.query, call.key, call.value)):
        np.testing.assert_allclose(found, projected[:, :, i].transpose(0, 2, 1, 3), rtol=0, atol=1e-14)
    scores = np.einsum("bhtd,bhsd->bhts", call.query, call.key) * call.scale
    if call.mask is not None:
        assert call.mask.shape == scores.shape
        scores = np.where(call.mask, -np.inf, scores) if mask == "boolean" else scores + call.mask
        np.testing.assert_array_equal(call.hidden, np.broadcast_to(F.causal_mask(3).numpy(), scores.shape))
    e = np.exp(scores)
    np.testing.assert_allclose(call.weights, e / e.sum(axis=-1, keepdims=True), rtol=0, atol=1e-14)
    assert call.scale == 1 / math.sqrt(3)


def test_a_scale_of_ones_own_is_recorded():
    layer, x = attention_of(dtype=tt.float64, scale=2.0), normal(1, 3, 6)
    call = recorded(layer, x, x, x).calls[0]
    assert call.scale == 2
    np.testing.assert_array_equal(call.weights, layer(x, x, x, average_attn_weights=False)[1].detach().numpy())


def test_a_query_that_sees_nothing_has_zero_weights():
    layer = attention_of()
    x = tt.astype(normal(1, 3, 6), tt.float32)
    call = recorded(layer, x, x, x, key_padding_mask=tt.asarray([[True] * 3])).calls[0]
    assert (call.weights == 0).all()


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 3, 4)])
def test_scaled_dot_product_attention(batch):
    query, key, value = normal(*batch, 3, 5), normal(*batch, 4, 5, seed=1), normal(*batch, 4, 2, seed=2)
    call = recorded(F.scaled_dot_product_attention, query, key, value, scale=0.3).calls[0]
    heads = batch[-1] if len(batch) > 1 else 1
    assert call.weights.shape == (int(np.prod(batch)) // heads, heads, 3, 4)
    assert (call.path, call.kind, call.scale, call.mask) == ("", "cross", 0.3, None)
    e = np.exp(np.einsum("...td,...sd->...ts", query.numpy(), key.numpy()) * 0.3)
    np.testing.assert_allclose(
        call.weights, (e / e.sum(axis=-1, keepdims=True)).reshape(call.weights.shape), atol=1e-14
    )


def test_what_is_recorded_is_a_copy():
    query = normal(3, 5)
    key = normal(3, 5, seed=1)
    call = recorded(F.scaled_dot_product_attention, query, key, key).calls[0]
    before = call.query.copy(), call.key.copy()
    with tt.no_grad():
        query[0] = 0.0
        key[0] = 0.0
    np.testing.assert_array_equal(call.query, before[0])
    np.testing.assert_array_equal(call.value, before[1])


# ---- of which kind a call is


class Block(nn.Module):
    """Projections of its own, and F.scaled_dot_product_attention."""

    def __init__(self, name):
        super().__init__()
        self.add_module(name, Heads())
        self.name = name

    def forward(self, x, memory, **options):
        return getattr(self, self.name)(x, memory, **options)


class Heads(nn.Module):
    def forward(self, x, memory, **options):
        return F.scaled_dot_product_attention(x * 2, memory * 3, memory, **options)


@pytest.mark.parametrize(
    ("name", "source", "options", "kind"),
    [
        ("self_attn", 3, {}, "encoder"),
        ("self_attn", 5, {}, "encoder"),  # keys that were kept
        ("self_attn", 3, {"is_causal": True}, "decoder"),
        ("heads", 3, {"is_causal": True}, "decoder"),
        ("heads", 3, {}, None),
        ("heads", 5, {}, "cross"),
        ("cross_attn", 3, {}, "cross"),
    ],
)
def test_kind_where_heads_are_given(name, source, options, kind):
    assert recorded(Block(name), normal(3, 4), normal(source, 4), **options).calls[0].kind == kind


def test_kind_of_a_layer_alone():
    layer, x = attention_of(dtype=tt.float64), normal(1, 3, 6)
    future = F.causal_mask(3)
    assert recorded(layer, x, x, x).calls[0].kind == "encoder"
    assert recorded(layer, x, x, x, attn_mask=future).calls[0].kind == "decoder"
    assert recorded(layer, x, x, x, attn_mask=tt.where(future, -tt.inf, 0.0)).calls[0].kind == "decoder"
    assert recorded(layer, x, x, x, attn_mask=~F.causal_mask(3)).calls[0].kind == "encoder"
    assert recorded(layer, x, normal(1, 3, 6), x).calls[0].kind == "cross"
    decoder = nn.TransformerDecoderLayer(6, 2, batch_first=True, dropout=0.0, dtype=tt.float64)
    assert [c.kind for c in recorded(decoder, x, normal(1, 3, 6)).calls] == ["decoder", "cross"]


def test_generate_is_recorded_step_by_step():
    model = model_of()
    attention = recorded(model.generate, SOURCE, 3)
    steps = [call for call in attention.calls if call.path == "decoder.layers.1.multihead_attn"]
    assert [call.weights.shape for call in steps] == [(2, 2, t, 4) for t in range(1, len(steps) + 1)]
    assert len(steps) > 1
    assert attention.cross[1] is steps[-1]
    assert len(attention.encoder) == 2
    assert {call.kind for call in attention.calls if call.path.endswith("decoder.layers.0.self_attn")} == {"decoder"}


# ---- what it does not change


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_results_gradients_and_random_numbers_stay_the_same(dropout, need_weights):
    def step(record):
        layer = attention_of(dropout=dropout)
        x = tt.astype(normal(2, 3, 6), tt.float32).requires_grad_()
        bias = tt.astype(normal(3, 3, seed=1), tt.float32).requires_grad_()
        if record:
            with warnings.catch_warnings(), nn.record_attention():
                warnings.simplefilter("ignore")
                out, _ = layer(x, x, x, attn_mask=bias, need_weights=need_weights)
        else:
            out, _ = layer(x, x, x, attn_mask=bias, need_weights=need_weights)
        tt.sum(out * out).backward()
        leaves = [x, bias, *layer.parameters()]
        return [out.detach(), *(p.grad for p in leaves), tt.random.normal((4,))]

    for plain, watched in zip(step(False), step(True)):
        assert plain.numpy().tobytes() == watched.numpy().tobytes()


def test_a_whole_model_stays_the_same():
    def run(record):
        model = model_of(dropout=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if record:
                with nn.record_attention():
                    out = model(SOURCE, TARGET)
            else:
                out = model(SOURCE, TARGET)
        tt.sum(out).backward()
        return [out.detach(), *(p.grad for p in model.parameters())]

    for plain, watched in zip(run(False), run(True)):
        assert plain.numpy().tobytes() == watched.numpy().tobytes()


def test_dropout_warns_once_and_weights_are_those_before_it():
    layer, x = attention_of(dropout=0.5, dtype=tt.float64), normal(2, 3, 6)
    attention = nn.record_attention()

    def twice():
        for _ in range(2):
            with attention:
                layer(x, x, x)

    with pytest.warns(UserWarning, match=r"dropout is on.*model\.eval\(\)") as caught:
        twice()
    assert len(caught) == 1
    np.testing.assert_allclose(attention.calls[0].weights.sum(axis=-1), 1, atol=1e-14)
    layer.eval()
    assert len(recorded(layer, x, x, x).calls) == 1  # no warning, which would be an error


def test_only_within_it_and_only_in_its_thread():
    layer, x = attention_of(dtype=tt.float64), normal(1, 3, 6)
    with nn.record_attention() as attention:
        thread = threading.Thread(target=layer, args=(x, x, x))
        thread.start()
        thread.join()
    layer(x, x, x)
    assert attention.calls == []


def test_it_nests_ends_with_an_exception_and_may_be_entered_again():
    layer, x = attention_of(dtype=tt.float64), normal(1, 3, 6)
    with nn.record_attention() as outer:
        layer(x, x, x)
        inner = nn.record_attention()
        with contextlib.suppress(ZeroDivisionError), inner:
            layer(x, x, x)
            raise ZeroDivisionError
        layer(x, x, x)
    layer(x, x, x)
    assert (len(outer.calls), len(inner.calls)) == (3, 1)
    with inner:
        layer(x, x, x)
    assert (len(outer.calls), len(inner.calls)) == (3, 2)


def test_a_path_that_was_not_recorded():
    attention = recorded(model_of(layers=1), SOURCE, TARGET)
    with pytest.raises(KeyError, match=r"'decoder\.7' was not recorded; recorded: encoder\.layers\.0\.self_attn, "):
        attention["decoder.7"]
    with pytest.raises(KeyError, match="'self_attn' is the end of several paths"):
        attention["self_attn"]
