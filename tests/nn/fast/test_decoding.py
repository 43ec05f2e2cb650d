"""Steps of decoding in compiled loops: the numbers of the layers' own way, which is gone where anything is unusual."""

import contextlib
import gc
import weakref

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.models.decoding import beam_search
from tinytensor.models.language_model import GPT2, LLAMA, LanguageModel
from tinytensor.models.transformer import Transformer
from tinytensor.nn.decoder_cache import LayerCache
from tinytensor.nn.language_layer import through_layers

pytest.importorskip("numba")
D, HEADS, INNER, BATCH, SOURCE = 8, 2, 12, 3, 4
PADDING = np.arange(SOURCE) >= np.array([[4], [2], [0]])


@pytest.fixture(autouse=True)
def taken(monkeypatch, loops):
    """What the loops were asked for, in their order."""
    from tinytensor.fast import decoding

    asked = []

    def watched(kind):
        own = kind.step
        return lambda self, *given: asked.append(kind.__name__) or own(self, *given)

    for kind in (decoding.Steps,):
        monkeypatch.setattr(kind, "step", watched(kind))
    return asked


def normal(*shape, seed=0, dtype=np.float64):
    return tt.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def shaken(module):
    """The module, with parameters that are none of their first values."""
    with tt.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter += 0.3 * normal(*parameter.shape, seed=i, dtype=parameter.dtype)
    return module


def decoder(dtype=np.float64, norm=True, kind=nn.TransformerDecoder, layer=nn.TransformerDecoderLayer, **options):
    tt.manual_seed(0)
    layer = layer(D, HEADS, INNER, **{"dropout": 0.0, "dtype": dtype, **options})
    return shaken(kind(layer, 2, nn.LayerNorm(D, dtype=dtype) if norm else None))


def outputs(module, widths=(1,) * 20, dtype=np.float64, padding=PADDING, between=lambda step: None):
    """What steps give, of branches that divide and of items that leave and change places."""
    rng = np.random.default_rng(0)
    cache = module.start(normal(BATCH, SOURCE, D, dtype=dtype), None if padding is None else tt.asarray(padding))
    found, items = [], BATCH
    for step, width in enumerate(widths):
        branches = 1 if cache.hidden is None else cache.hidden.shape[1]
        hidden = rng.random((items, branches)) < 0.2 if padding is not None else None
        x = normal(items, branches, D, seed=step, dtype=dtype)
        found.append(module.step(x, cache, None if hidden is None else tt.asarray(hidden)).numpy())
        kept = rng.permutation(items)[: max(1, items - (step % 5 == 4))]
        cache.reorder(tt.asarray(kept), tt.asarray(rng.integers(0, branches, (len(kept), width))))
        items = len(kept)
        between(step)
    return found


def both_ways(compute):
    """The same from the loops and from the formulas."""
    found = compute()
    with tt.textbook():
        return found, compute()


WIDTHS = [1, 3, 3, 2, 4, 20, 1, 2, 5, 3]  # of 20 branches so many rows that keys and weights are copied


@tt.no_grad()
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"bias": False, "scale": 1.5}, {"activation": "gelu"}])
@pytest.mark.parametrize("padding", [None, PADDING])
def test_steps_of_a_decoder_are_the_formulas(norm_first, options, padding, taken):
    module = decoder(norm_first=norm_first, **options)
    for widths in ((1,) * 20, WIDTHS):
        found, expected = both_ways(lambda: outputs(module, widths, padding=padding))
        assert len(taken) == len(widths)
        taken.clear()
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: x[..., ::-1],
}


@tt.no_grad()
@pytest.mark.parametrize("seed", range(30))
def test_random_hypotheses_are_decoded_as_by_the_formulas(seed, taken):
    """Several hypotheses for several sources, with and without `reorder` between steps, masks of all layouts."""

    def compute():
        rng = np.random.default_rng(seed)

        def hidden(*shape):
            return tt.asarray(LAYOUTS[str(rng.choice(list(LAYOUTS)))](rng.random(shape) < 0.3))

        batch, branches, source = rng.integers(1, 4), rng.integers(1, 5), rng.integers(1, 6)
        norm_first, masked = map(bool, rng.random(2) < 0.5)
        module = decoder(norm_first=norm_first)
        cache = module.start(normal(batch, source, D, seed=seed), hidden(batch, source) if masked else None)
        found = []
        for step in range(6):
            x, padding = normal(batch, branches, D, seed=step), hidden(batch, branches) if rng.random() < 0.5 else None
            found.append(module.step(x, cache, padding).numpy())
            if rng.random() < 0.4:
                former, branches = branches, rng.integers(1, 5)
                kept = rng.permutation(batch)[: rng.integers(1, batch + 1)]
                cache.reorder(tt.asarray(kept), tt.asarray(rng.integers(0, former, (len(kept), branches))))
                batch = len(kept)
        return found

    found, expected = both_ways(compute)
    assert len(taken) == 6
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@tt.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mask_of_any_layout_hides_the_same(layout, taken):
    x, hidden = normal(2, 6, D), tt.asarray(LAYOUTS[layout](np.triu(np.ones((6, 6), bool), 1) | (np.arange(6) == 3)))
    layer = shaken(nn.TransformerEncoderLayer(D, HEADS, INNER, dropout=0.0, batch_first=True, dtype=np.float64)).eval()
    found, expected = both_ways(lambda: layer(x, hidden).numpy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@tt.no_grad()
@pytest.mark.parametrize("inner", [0, INNER])
@pytest.mark.parametrize("source", [0, SOURCE])
def test_where_there_is_nothing_to_add_up(inner, source, taken):
    """Many branches, of which products copy what they read, but none of no terms."""
    tt.manual_seed(0)
    layer = nn.TransformerDecoderLayer(D, HEADS, inner, dropout=0.0, dtype=np.float64)
    module = shaken(nn.TransformerDecoder(layer, 2))

    def compute():
        cache = module.start(normal(BATCH, source, D))
        return module.step(normal(BATCH, 9, D), cache).numpy()

    found, expected = both_ways(compute)
    assert len(taken) == 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@tt.no_grad()
def test_larger_buffers_take_the_place_of_the_former_one_by_one(monkeypatch):
    module, alive = decoder(), []
    with_cache = nn.decoder_cache.LayerCache
    cache = module.start(normal(BATCH, SOURCE, D))
    module.step(normal(BATCH, 1, D), cache)
    former = [weakref.ref(layer.buffer._data) for layer in cache.layers]
    own = with_cache.grow
    monkeypatch.setattr(
        with_cache, "grow", lambda self, end: (own(self, end), alive.append(sum(x() is not None for x in former)))[0]
    )
    monkeypatch.setattr(nn.fast.decoding.STEPS, "off", False)  # which steps aside for what is replaced
    for _ in range(nn.decoder_cache.FIRST):
        module.step(normal(BATCH, 1, D), cache)
    assert alive[-len(former) :] == [1, 0]


@tt.no_grad()
def test_a_cache_goes_when_nobody_has_it(taken):
    """At once: what was found out about its modules does not hold it."""
    layers = language_model().layers[:1]
    cache = LayerCache(tt.zeros((BATCH, 0, layers[0].self_attn.kv_size), dtype=tt.float64))
    through_layers(layers, normal(BATCH, 1, D), None, None, [cache])
    module = decoder()
    of_decoder = module.start(normal(BATCH, SOURCE, D))
    module.step(normal(BATCH, 1, D), of_decoder)
    assert len(taken) == 2
    gone = [weakref.ref(one) for one in (cache, of_decoder, cache.buffer._data, of_decoder.layers[0].buffer._data)]
    del cache, of_decoder
    assert [one() for one in gone] == [None] * 4
    models = weakref.ref(layers), weakref.ref(module)
    del layers, module
    gc.collect()
    assert [one() for one in models] == [None] * 2


@tt.no_grad()
def test_two_caches_of_one_decoder_may_take_turns(taken):
    """What was read for the first is not the second's, nor that of a third, which begins when the first is gone."""

    def compute():
        module, found = decoder(), []
        first, second = (module.start(normal(BATCH, SOURCE, D, seed=seed)) for seed in (1, 2))
        for step in range(3):
            found += [module.step(normal(BATCH, 1, D, seed=step), cache).numpy() for cache in (first, second)]
        del first
        third = module.start(normal(BATCH + 1, SOURCE + 1, D, seed=3))
        for step in range(2):
            found.append(module.step(normal(BATCH, 1, D, seed=step), second).numpy())
            found.append(module.step(normal(BATCH + 1, 1, D, seed=step), third).numpy())
        return found

    for a, b in zip(*both_ways(compute)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert len(taken) == 10


@tt.no_grad()
@pytest.mark.parametrize("change", ["a shorter memory", "a method of a layer's", "a method of all"])
def test_unusual_caches_go_the_layers_own_way(change, taken):
    def compute():
        module = decoder()
        cache = module.start(normal(BATCH, SOURCE, D))
        first, last = cache.layers[0], cache.memories[1]
        if change == "a shorter memory":
            last.buffer, last.places = last.buffer[:, 1:], last.places - 1
        elif change == "a method of a layer's":
            own = first.append
            first.append = lambda k, v: own(k * 2.0, v * 2.0)
        else:
            extend = cache.extend
            cache.extend = lambda shape, mask=None: extend(shape, mask)
        return [module.step(normal(BATCH, 1, D, seed=step), cache).numpy() for step in range(2)]

    for a, b in zip(*both_ways(compute)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert not taken


@tt.no_grad()
def test_sub_layers_in_another_order(taken):
    """What a class of one's own gives may change from step to step, so each step goes its way."""
    flag = [True]

    class Swapped(nn.TransformerDecoderLayer):
        def sublayers(self, attend, ask):
            first, second, third = super().sublayers(attend, ask)
            return [second, third, first] if flag[0] else [first, third]

    def compute():
        flag[0] = True
        return outputs(decoder(layer=Swapped), (1,) * 6, between=lambda step: flag.__setitem__(0, step < 3))

    for a, b in zip(*both_ways(compute)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert not taken


@tt.no_grad()
def test_steps_in_float32(taken):
    module = decoder(np.float32, norm=False)
    found, expected = both_ways(lambda: outputs(module, WIDTHS, np.float32))
    assert len(taken) == len(WIDTHS)
    for a, b in zip(found, expected):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)


class Own(nn.TransformerDecoderLayer):
    """A layer of somebody's own."""

    def sublayers(self, *f):
        return super().sublayers(*f)[::-1]


def with_layer(layer):
    return nn.TransformerDecoder(layer.double(), 2)


def with_attention_that_drops(module, name):
    for layer in module.layers:
        getattr(layer, name).dropout = 0.5
    return module


UNUSUAL = {
    "dropout of weights": lambda: (with_attention_that_drops(decoder(), "self_attn"), contextlib.nullcontext()),
    "dropout of the memory's": lambda: (
        with_attention_that_drops(decoder(), "multihead_attn"),
        contextlib.nullcontext(),
    ),
    "gradients": lambda: (decoder(), tt.enable_grad()),
    "dropout": lambda: (decoder(dropout=0.5), contextlib.nullcontext()),
    "a hook": lambda: (hooked(decoder()), contextlib.nullcontext()),
    "another layer": lambda: (with_layer(Own(D, HEADS, INNER, 0.0)), contextlib.nullcontext()),
    "another activation": lambda: (decoder(activation=tt.tanh), contextlib.nullcontext()),
    "a recording": lambda: (decoder(), nn.record_attention()),
    "textbook": lambda: (decoder(), tt.textbook()),
    "anomaly": lambda: (decoder(), tt.detect_anomaly()),
}


def hooked(module):
    module.layers[1].norm2.register_forward_hook(lambda *given: None)
    return module


@tt.no_grad()
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_goes_the_layers_own_way(name, taken):
    module, mode = UNUSUAL[name]()
    with mode:
        cache = module.start(normal(BATCH, SOURCE, D))
        assert module.step(normal(BATCH, 1, D), cache).shape == (BATCH, 1, D)
    assert not taken


@tt.no_grad()
def test_hooks_modes_and_weights_may_change_between_two_steps(taken):
    """Each step is as the decoder is then, and both ways go on from the same cache."""

    def change(module, step):
        if step == 2:
            module.layers[0].linear1.weight.data = module.layers[0].linear1.weight.data * 2
        if step == 4:
            module.layers[0].linear1.bias = nn.Parameter(normal(INNER, seed=7))
        if step == 6:
            module.layers[1].linear2.weight *= 0.5
        if step == 8:
            module.layers[1].register_forward_hook(lambda *given: None)

    def compute():
        module = decoder()
        return outputs(module, (1,) * 12, between=lambda step: change(module, step))

    found, expected = both_ways(compute)
    assert len(taken) == 9
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


CHANGES = {
    "a layer": lambda m: m.layers.__setitem__(0, decoder().layers[1]),
    "a module": lambda m: setattr(m.layers[0], "linear1", shaken(nn.Linear(D, INNER).double())),
    "no bias": lambda m: setattr(m.layers[0].linear1, "bias", None),
    "a bias where none was": lambda m: setattr(m.layers[0].linear2, "bias", nn.Parameter(normal(D, seed=3))),
    "the order": lambda m: setattr(m.layers[0], "norm_first", True),
    "eps": lambda m: setattr(m.layers[1].norm1, "eps", 1.0),
    "the activation": lambda m: setattr(m.layers[0], "activation", F.gelu),
    "the scale": lambda m: setattr(m.layers[0].self_attn, "scale", 0.3),
    "the norm at the end": lambda m: setattr(m, "norm", nn.Identity()),
}


@tt.no_grad()
@pytest.mark.parametrize("name", CHANGES)
def test_modules_and_settings_may_change_between_two_steps(name, taken):
    def compute():
        module = decoder(bias=name != "a bias where none was")
        return outputs(module, (1,) * 4, between=lambda step: CHANGES[name](module) if step == 2 else None)

    for a, b in zip(*both_ways(compute)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert len(taken) == 4


@tt.no_grad()
def test_mistakes_are_told_as_ever(taken):
    module = decoder()
    cache = module.start(normal(BATCH, SOURCE, D))
    module.step(normal(BATCH, 1, D), cache)
    with pytest.raises(ValueError, match=r"\(3, 1\), got \(3, 2\); see reorder"):
        module.step(normal(BATCH, 2, D), cache)
    with pytest.raises(ValueError, match="8"):
        module.step(normal(BATCH, 1, D + 1), cache)
    assert len(taken) == 1
    cache = module.start(normal(BATCH, SOURCE, D), tt.asarray(PADDING[:, 1:]))
    with pytest.raises(ValueError, match=r"3"):
        module.step(normal(BATCH, 1, D), cache)
    assert len(taken) == 1


def test_a_beam_finds_what_the_formulas_find(taken):
    tt.manual_seed(0)
    model = shaken(Transformer(40, d_model=D, num_heads=HEADS, num_layers=2, d_ff=INNER).double())
    source = np.random.default_rng(0).integers(3, 40, (5, 6))
    source[1, 4:] = source[3, 2:] = 0
    for beam in (1, 3):
        found, expected = both_ways(lambda: beam_search(model, source, beam=beam, max_length=12))
        assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in expected]
    assert taken


@tt.no_grad()
def test_a_step_of_another_dtype_costs_later_ones_nothing(taken):
    module = decoder()
    cache = module.start(normal(BATCH, SOURCE, D))
    for dtype in (np.float64, np.float32, np.float64):
        with contextlib.suppress(TypeError, ValueError):
            module.step(normal(BATCH, 1, D, dtype=dtype), cache)
    assert len(taken) == 2


@tt.no_grad()
def test_another_decoder_may_go_on_from_a_cache(taken):
    def compute():
        first, second = decoder(), decoder(norm=False, activation="gelu")
        cache = first.start(normal(BATCH, SOURCE, D))
        return [module.step(normal(BATCH, 1, D), cache).numpy() for module in (first, second, first)]

    found, expected = both_ways(compute)
    assert len(taken) == 3
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [0, 2])
def test_a_cache_that_has_a_graph_goes_the_layers_own_way(steps, taken):
    module, memory = decoder(), normal(BATCH, SOURCE, D)
    memory.requires_grad = True
    with_graph = module.start(memory).memories[0].buffer
    with tt.no_grad():
        cache = module.start(memory)
        for _ in range(steps):
            module.step(normal(BATCH, 1, D), cache)
        cache.memories[0].buffer = with_graph
        assert module.step(normal(BATCH, 1, D), cache).shape == (BATCH, 1, D)
    assert len(taken) == steps


# ---- language models

MODELS = {
    "gpt2": GPT2,
    "llama": {**LLAMA, "num_kv_heads": 2},
    "alibi": {"positions": "alibi", "activation": "silu"},
    "window": {"positions": None, "window": 3, "activation": "geglu"},
    "interleaved": {
        "positions": "rotary",
        "pairing": "interleaved",
        "activation": "glu",
        "num_kv_heads": 1,
        "norm": "rms",
    },
    "others": {"activation": "bilinear", "bias": False, "head_dim": 3},
    "relu": {"activation": "relu", "attention_bias": False},
}


def language_model(dtype=tt.float64, **options):
    tt.manual_seed(0)
    sizes = {"d_model": D, "num_heads": 4, "num_layers": 2, "d_ff": INNER, "max_length": 24}
    return shaken(LanguageModel(30, **{**sizes, **options}).to(dtype)).eval()


def logits(model):
    """Of some steps behind prompts of different lengths, of branches that divide."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(3, 30, (3, 5))
    prompt[1, 2:] = 0
    state, found = model.initial_state(prompt), []
    first, state = model.next_logits(prompt[:, :1], state)
    for width in (1, 3, 20, 6, 2):
        branches = first.shape[1]
        state = model.reorder(state, tt.asarray(np.array([2, 0, 1])), tt.asarray(rng.integers(0, branches, (3, width))))
        first, state = model.next_logits(rng.integers(3, 30, (3, width)), state)
        found.append(first.numpy())
    return found


@tt.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_steps_of_a_language_model_are_the_formulas(name, taken):
    model = language_model(**MODELS[name])
    found, expected = both_ways(lambda: logits(model))
    assert taken == ["Steps"] * 6  # the prompt, then five steps, both layers in one
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


@tt.no_grad()
def test_steps_go_on_in_a_window_that_slides(taken):
    model = language_model(positions="rotary", window=3, max_length=80)

    def compute():
        state, found = model.initial_state([[3, 4, 5], [6, 0, 0]]), []
        for i in range(60):
            logits, state = model.next_logits([[i % 27 + 3], [5]], state)
            found.append(logits.numpy())
        assert state.cache.layers[1].places < 3 + 16 + 1
        return found

    found, expected = both_ways(compute)
    assert taken == ["Steps"] * 60
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


@tt.no_grad()
def test_a_language_model_in_float32(taken):
    model = language_model(tt.float32, **LLAMA)
    found, expected = both_ways(lambda: logits(model))
    assert taken
    for a, b in zip(found, expected):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["gradients", "a hook", "dropout", "dropout of weights", "normalised queries"])
def test_what_is_unusual_in_a_language_model_goes_its_own_way(name, taken):
    model = language_model(qk_norm=name == "normalised queries", dropout=0.5 if name == "dropout" else 0.0)
    if name == "dropout of weights":
        with_attention_that_drops(model, "self_attn")
    if name == "a hook":
        for layer in model.layers:
            layer.feed_forward.up.register_forward_pre_hook(lambda *given: None)
    model.train(name.startswith("dropout"))
    with tt.set_grad_enabled(name == "gradients"):
        state = model.initial_state([[3, 4]])
        _, state = model.next_logits([[5]], state)
        out, _ = model.next_logits([[5]], state)
    assert out.shape == (1, 1, 30)
    assert not taken


@tt.no_grad()
def test_vectors_of_another_size_are_told_as_ever(taken):
    layers = language_model().layers[:1]
    cache = LayerCache(tt.empty((2, 0, layers[0].self_attn.kv_size), dtype=tt.float64))
    through_layers(layers, normal(2, 1, D), None, None, [cache])
    with pytest.raises(ValueError, match="normalized_shape"):
        through_layers(layers, normal(2, 1, D + 1), None, None, [cache])
    assert len(taken) == 1


def test_masks_and_angles_that_the_loop_does_not_know(taken):
    """Of heads apart: such a step is the layer's own."""
    layers = language_model(**LLAMA).layers[:1]
    x = normal(2, 1, D)
    cos, sin = F.rotary_angles(tt.zeros((2, 4, 1), dtype=tt.int64), 2, dtype=tt.float64)
    for mask, rotation in ((tt.zeros((2, 4, 1, 1), dtype=tt.bool), (cos, sin)), (tt.zeros((1, 1)), None)):
        with tt.no_grad():
            cache = LayerCache(tt.empty((2, 0, layers[0].self_attn.kv_size), dtype=tt.float64))
            assert through_layers(layers, x, mask, rotation, [cache]).shape == x.shape
    assert not taken
