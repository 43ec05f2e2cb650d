"""A language model's layer as one op, in training: the numbers of the module's own lines, gone where it is unusual."""

import contextlib
import traceback

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.fast import threads
from tinytensor.nn.decoder_cache import LayerCache
from tinytensor.nn.fast import sublayers
from tinytensor.nn.feed_forward import GATES, PLAIN
from tinytensor.nn.language_layer import Layer

from .test_pairs import ops_behind
from .test_sublayers import hooked, normal

pytest.importorskip("numba")
D, INNER, HEADS, BATCH, LENGTH = 8, 12, 4, 5, 6


@pytest.fixture(autouse=True)
def in_loops(monkeypatch, loops):
    """The loops, for all sizes: a batch of a few rows is two shares."""
    monkeypatch.setattr(tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1)), "SMALL", 10**9)


def layer_of(
    activation="gelu_tanh", kv=HEADS, norm="layer", bias=True, dropout=0.0, dtype=np.float64, eps=1e-5, **attention
):
    """With parameters that are not those of the beginning."""
    tt.manual_seed(1)
    factory = {"bias": bias, "dtype": dtype}
    kinds = {"layer": lambda: nn.LayerNorm(D, eps, **factory), "rms": lambda: nn.RMSNorm(D, eps, dtype=dtype)}
    layer = Layer(
        nn.SelfAttention(D, HEADS, kv, dropout=dropout, **attention, **factory),
        nn.FeedForward(D, INNER, activation, **factory),
        [kinds[norm](), kinds[norm]()],
        dropout,
    )
    with tt.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter += tt.asarray(normal(*parameter.shape, seed=i, dtype=dtype) * 0.3)
    return layer


def sequence(dtype=np.float64, batch=BATCH):
    return tt.tensor(normal(batch, LENGTH, D, dtype=dtype), requires_grad=True)


def angles(head_dim=D // HEADS, dtype=tt.float64):
    return F.rotary_angles(tt.arange(LENGTH), head_dim, dtype=dtype)


def is_one_op(out):
    ops = ops_behind(out)
    assert ("through" in ops) != ("linear" in ops)
    return "through" in ops


def outcome(layer, mask, rotation, dtype=np.float64, batch=BATCH):
    """The result and all first derivatives, as arrays."""
    x = sequence(dtype, batch)
    out = layer(x, mask, rotation)
    g = tt.asarray(normal(*out.shape, seed=9, dtype=dtype))
    return [a.detach().numpy() for a in (out, *tt.grad(out, [x, *layer.parameters()], g))]


CAUSAL = F.causal_mask(LENGTH)
DISTANCES = tt.arange(LENGTH)[:, None] - tt.arange(LENGTH)
KINDS = {
    "GPT-2": ({}, CAUSAL, None),
    "nanoGPT": ({"activation": "gelu", "bias": False}, CAUSAL, None),
    "Llama": ({"activation": "swiglu", "kv": 2, "norm": "rms", "bias": False}, CAUSAL, "half"),
    "one head of keys": ({"kv": 1, "norm": "rms", "eps": None}, CAUSAL, "interleaved"),
    "turned, with biases": ({"activation": "geglu"}, CAUSAL, "half"),
    "heads of their own size": ({"head_dim": 6, "kv": 2}, CAUSAL, "half"),
    "a window": ({"activation": "silu"}, F.sliding_window_mask(LENGTH, 2), None),
    "slopes": ({}, tt.masked_fill(F.alibi(DISTANCES, HEADS, dtype=tt.float64), CAUSAL, -np.inf), None),
    "large numbers added": ({}, tt.asarray(normal(BATCH, 1, LENGTH, LENGTH) * 300), None),
    "no mask": ({"activation": "relu"}, None, None),
    **{name: ({"activation": name}, CAUSAL, None) for name in sorted({*PLAIN, *GATES})},
}


def kind_of(name, **more):
    options, mask, pairing = KINDS[name]
    layer = layer_of(**options, **({"pairing": pairing} if pairing else {}), **more)
    dtype = layer.norm1.weight.dtype
    mask = mask if mask is None or mask.dtype == bool else tt.astype(mask, dtype)
    return layer, mask, angles(layer.self_attn.head_dim, dtype) if pairing else None


@pytest.mark.parametrize("name", KINDS)
def test_the_formulas_numbers(name):
    layer, *given = kind_of(name)
    assert is_one_op(layer(sequence(), *given))
    found = outcome(layer, *given)
    with tt.textbook():
        expected = outcome(layer, *given)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["GPT-2", "nanoGPT", "Llama"])
def test_in_float32(name):
    layer, *given = kind_of(name, dtype=np.float32)
    assert is_one_op(layer(sequence(np.float32), *given))
    found = outcome(layer, *given, np.float32)
    with tt.textbook():
        expected = outcome(layer, *given, np.float32)
    for a, b in zip(found, expected):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_dropout_is_that_of_the_formula_with_the_same_masks(name):
    layer, *given = kind_of(name, dropout=0.3)
    x = sequence()
    out = layer(x, *given)
    assert is_one_op(out)
    g, wanted = tt.asarray(normal(*out.shape, seed=9)), [x, *layer.parameters()]
    found = tt.grad(out, wanted, g, retain_graph=True)
    for a, b in zip(found, tt.grad(out, wanted, g, create_graph=True)):  # the second by the formula
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
    layer.eval()
    assert np.abs(layer(x, *given).numpy() - out.detach().numpy()).max() > 1e-3


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "one head of keys"])
def test_second_derivatives(name):
    layer, *given = kind_of(name)

    def twice():
        x = sequence()
        (g,) = tt.grad((layer(x, *given) ** 2).sum(), [x], create_graph=True)
        return [a.numpy() for a in tt.grad((g * g).sum(), [x, *layer.parameters()], allow_unused=True) if a is not None]

    found = twice()
    with tt.textbook():
        expected = twice()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
@pytest.mark.parametrize("batch", [1, 37])
def test_the_number_of_threads_changes_nothing(name, batch, monkeypatch):
    room = tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    monkeypatch.setattr(room, "SHARE", 1)
    monkeypatch.setattr(room, "ROWS", 16)
    monkeypatch.setattr(threads, "_threads", 1)
    layer, *given = kind_of(name, dropout=0.2, dtype=np.float32)
    found = []
    for count in (1, 2, 4):
        threads._threads = count
        tt.manual_seed(3)
        found.append(outcome(layer, *given, np.float32, batch))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            assert a.tobytes() == b.tobytes()


class Louder(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2.0


def replaced(layer):
    layer.feed_forward.down = Louder(INNER, D, dtype=np.float64)


def with_method(layer):
    layer.self_attn.heads = lambda x, rotation=None: type(layer.self_attn).heads(layer.self_attn, x * 2.0, rotation)


def with_inner_dropout(layer):
    layer.feed_forward.dropout.p = 0.5


def with_that_of_evaluation(layer):
    with_inner_dropout(layer.eval())
    layer.feed_forward.dropout.train()


def with_another_dropout(layer):
    layer.dropout = nn.Dropout2d(0.0)


def with_hooked_dropout(layer):
    layer.feed_forward.dropout.register_forward_hook(lambda module, args, out: out * 2.0)


def with_a_tensor_as_bias(layer):
    del layer.feed_forward.up.bias
    layer.feed_forward.up.bias = tt.ones(INNER, dtype=tt.float64)


def with_a_buffer_as_bias(layer):
    del layer.feed_forward.up.bias
    layer.feed_forward.up.register_buffer("bias", tt.ones(INNER, dtype=tt.float64))


def without_a_norm(layer):
    layer.norm1 = nn.Identity()


UNUSUAL = {
    "norms of queries and keys": ({"qk_norm": 1e-5}, None),
    "dropout within the network": ({}, with_inner_dropout),
    "dropout in evaluation": ({}, with_that_of_evaluation),
    "another dropout": ({}, with_another_dropout),
    "a hook of dropout": ({}, with_hooked_dropout),
    "a bias that is no parameter": ({}, with_a_tensor_as_bias),
    "a bias that is a buffer": ({}, with_a_buffer_as_bias),
    "no norm": ({}, without_a_norm),
    "a module replaced": ({}, replaced),
    "a method of its own": ({}, with_method),
    "a hook": ({}, hooked),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_goes_the_layers_own_way(name):
    options, change = UNUSUAL[name]
    layer = layer_of(**options)
    if change is not None:
        change(layer)
    assert not is_one_op(layer(sequence(), CAUSAL, angles()))
    layer.eval()
    steps = []
    with tt.no_grad():
        for how in (contextlib.nullcontext(), tt.textbook()):
            with how:
                tt.manual_seed(7)
                cache = LayerCache(tt.zeros((BATCH, 0, layer.self_attn.kv_size), dtype=tt.float64))
                steps.append(layer(sequence()[:, :1], None, tuple(a[:1] for a in angles()), cache).numpy())
    np.testing.assert_allclose(*steps, rtol=1e-9, atol=1e-9)


def test_so_do_what_a_gradient_is_wanted_of_a_cache_and_who_watches(monkeypatch):
    layer, x = layer_of(), sequence()
    learned = tt.tensor(normal(LENGTH, LENGTH), requires_grad=True)
    assert not is_one_op(layer(x, learned, None))
    cos, sin = angles()
    assert not is_one_op(layer(x, CAUSAL, (cos * tt.tensor(1.0, dtype=tt.float64, requires_grad=True), sin)))
    assert not is_one_op(layer(x, CAUSAL, tuple(tt.stack([angle] * BATCH)[:, None] for angle in (cos, sin))))
    assert not is_one_op(layer(x, None, None, LayerCache(tt.zeros((BATCH, 0, 2 * D), dtype=tt.float64))))
    with nn.record_attention() as record:
        layer(x, CAUSAL, None)
    assert len(record.calls) == 1
    room = tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    monkeypatch.setattr(room, "SMALL", 1)
    assert is_one_op(layer(x, CAUSAL, None))
    monkeypatch.setattr(room, "REUSE", 1)
    assert not is_one_op(layer(x, CAUSAL, None))


def test_arrays_in_place_of_tensors_and_a_mask_that_is_part_of_another():
    layer, x = layer_of(), sequence()
    with tt.textbook():
        expected = layer(x, CAUSAL, angles()).detach().numpy()
    cos, sin = (angle.numpy() for angle in angles())
    for given in ((x.detach().numpy(), CAUSAL, angles()), (x, CAUSAL, (cos, sin))):
        np.testing.assert_allclose(layer(*given).detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    steps = []
    with tt.no_grad():
        for rotation in (angles(), (cos, sin)):
            cache = LayerCache(tt.zeros((BATCH, 0, layer.self_attn.kv_size), dtype=tt.float64))
            steps.append(layer(x[:, :1], None, tuple(angle[:1] for angle in rotation), cache).numpy())
    np.testing.assert_allclose(*steps, rtol=1e-9, atol=1e-9)
    wide = tt.where(F.causal_mask(LENGTH + 3), -np.inf, tt.asarray(normal(LENGTH + 3, LENGTH + 3)))
    part = wide[:LENGTH, :LENGTH]
    assert not part._data.flags.c_contiguous
    out = layer(x, part, None)
    assert is_one_op(out)
    assert type(out._node.residuals[0]).__name__ == "module"  # the loops took it
    with tt.textbook():
        np.testing.assert_allclose(out.detach().numpy(), layer(x, part, None).detach().numpy(), rtol=1e-9, atol=1e-9)


def test_mistakes_are_told_by_the_module_they_are_in():
    layer = layer_of()
    cos, sin = angles(4)
    with pytest.raises(ValueError, match="rotate: .*twice as many"):
        layer(sequence(), CAUSAL, (cos[:, :1], sin))
    with pytest.raises(ValueError, match="SelfAttention: pairing must be one of"):
        layer_of(pairing="quarter")
    with pytest.raises(ValueError, match="rotate: .*twice as many"):
        layer_of(head_dim=5)(sequence(), CAUSAL, (cos, sin))
    layer.self_attn.pairing = "quarter"
    with pytest.raises(ValueError, match="rotate: pairing must be one of"):
        layer(sequence(), CAUSAL, angles())
    layer = layer_of("swiglu")
    layer.feed_forward.activation = "silu"
    with pytest.raises(KeyError, match="silu"):
        layer(sequence(), CAUSAL, None)
    layer = layer_of()
    with pytest.raises(ValueError, match=r"mask.*self_attn"):
        layer(sequence(), F.causal_mask(LENGTH + 1), None)
    layer.feed_forward.down.weight = nn.Parameter(tt.ones((D + 1, INNER), dtype=np.float64))
    with pytest.raises(ValueError, match=r"linear.*down"):
        layer(sequence(), CAUSAL, None)


def test_a_fast_way_that_fails_alone_is_told(monkeypatch):
    layer = layer_of()
    expected = layer(sequence(), CAUSAL, None).numpy()

    def fail(*args):
        raise ZeroDivisionError("within the loops")

    monkeypatch.setattr(tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1)), "forward", fail)
    with pytest.warns(RuntimeWarning, match="through: its fast way failed.*within the loops"):
        out = layer(sequence(), CAUSAL, None)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-9)


def test_an_error_of_the_formula_says_nothing_of_the_fast_way(monkeypatch):
    layer = layer_of()

    def fail(*args):
        layer.feed_forward.activation = "another"
        raise ZeroDivisionError("within the loops")

    monkeypatch.setattr(tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1)), "forward", fail)
    with pytest.raises(KeyError, match="another") as raised:
        layer(sequence(), CAUSAL, None)
    assert "ZeroDivisionError" not in "".join(traceback.format_exception(raised.value))


def test_without_loops_the_op_goes_by_its_formula(monkeypatch):
    layer, *given = kind_of("Llama")
    found = outcome(layer, *given)
    backend = tt.backend.for_device("cpu")
    loops = backend.loops_over
    monkeypatch.setattr(backend, "loops_over", lambda *given, size=None: size and loops(*given, size=size))
    assert is_one_op(layer(sequence(), *given))
    for a, b in zip(found, outcome(layer, *given)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_names_of_the_functions_within():
    assert sublayers.WITHIN.keys() == GATES.keys()
