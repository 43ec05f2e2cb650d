"""Looking inside language models: each number by hand, from hooks and plain formulas; and what they add up to."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Transformer
from tinytensor.models.inside import heads_left_out, logit_lens, logit_shares, patched
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.nn import functional as F

SMALL = {"d_model": 8, "num_heads": 4, "num_layers": 3, "d_ff": 12, "max_length": 16, "dropout": 0.5}
IDS = np.random.default_rng(0).integers(3, 11, (2, 5))
KINDS = {
    "GPT-2": GPT2,
    "Llama": {**LLAMA, "num_kv_heads": 2, "head_dim": 6},
    "RMS, biases": {**GPT2, "norm": "rms", "qk_norm": True},
    "no biases, untied": {**GPT2, "bias": False, "tie_weights": False},
    "biases of attention": {**LLAMA, "attention_bias": True},
}


@pytest.fixture(params=KINDS)
def model(request):
    """A model in float64, none of whose parameters is 0 or 1, in training."""
    tt.manual_seed(0)
    model = LanguageModel(11, **SMALL, **KINDS[request.param]).double()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * tt.random.randn(*parameter.shape, dtype=tt.float64)
    return model


def logits_of(model, *inputs):
    model.eval()
    with tt.no_grad():
        out = model(*inputs).numpy()
    model.train()
    return out


def seen(model, path, *inputs):
    """The arguments of a module and its result, by a hook."""
    found = []
    hook = model.get_submodule(path).register_forward_hook(lambda module, args, out: found.extend([args[0], out]))
    logits_of(model, *inputs)
    hook.remove()
    return [x.detach().numpy() for x in found[:2]]


def normed(model, x):
    """The last norm, by its formula."""
    x = x - x.mean(-1, keepdims=True) if isinstance(model.norm, nn.LayerNorm) else x
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * model.norm.weight.detach().numpy()
    bias = getattr(model.norm, "bias", None)
    return y if bias is None else y + bias.detach().numpy()


# ---- reading


def test_the_lens_gives_the_logits_of_each_layer_were_it_the_last(model):
    lens = logit_lens(model, IDS)
    assert lens.shape == (4, 2, 5, 11)
    assert model.training
    np.testing.assert_allclose(lens[3].numpy(), logits_of(model, IDS), atol=1e-12)
    states = [seen(model, "layers.0", IDS)[0], *[seen(model, f"layers.{i}", IDS)[1] for i in range(3)]]
    words = model.projection.weight.detach().numpy()
    for found, x in zip(lens, states, strict=True):
        np.testing.assert_allclose(found.numpy(), normed(model, x) @ words.T, atol=1e-10)
    assert not lens.requires_grad


@pytest.mark.parametrize(("other", "at"), [(None, -1), (9, -1), (4, 2)])
def test_the_shares_of_a_logit_add_up_to_it(model, other, at):
    shares = logit_shares(model, IDS, 7, other, at=at)
    logits = logits_of(model, IDS)[:, at]
    expected = logits[:, 7] - (0.0 if other is None else logits[:, other])
    np.testing.assert_allclose(shares.total.numpy(), expected, atol=1e-12)
    assert [part.shape for part in shares] == [(2,), (2, 3, 4), (2, 3), (2,)]
    assert model.training
    parts = [np.abs(part.numpy()).min() for part in shares[:3]]
    assert min(parts) > 1e-6


def test_each_share_is_what_its_vector_adds_when_the_scale_stays(model):
    """The logit of the same scale, without that vector: the last norm is computed by hand, its scale as it was."""
    shares = logit_shares(model, IDS, 7, at=1)
    x = seen(model, "layers.2", IDS)[1][:, 1]
    word, gain = (p.detach().numpy() for p in (model.projection.weight[7], model.norm.weight))
    is_centred = isinstance(model.norm, nn.LayerNorm)

    def logit(vector, bias=0.0):
        centred = vector - vector.mean(-1, keepdims=True) if is_centred else vector
        scale = np.sqrt(((x - x.mean(-1, keepdims=True) if is_centred else x) ** 2).mean(-1, keepdims=True) + 1e-5)
        return (centred / scale * gain + bias) @ word

    embedding = seen(model, "layers.0", IDS)[0][:, 1]
    np.testing.assert_allclose(shares.embedding.numpy(), logit(embedding), atol=1e-12)
    network = seen(model, "layers.1.feed_forward", IDS)[1][:, 1]
    np.testing.assert_allclose(shares.networks[:, 1].numpy(), logit(network), atol=1e-12)
    out = model.layers[2].self_attn.out_proj
    z, size = seen(model, "layers.2.self_attn.out_proj", IDS)[0][:, 1], model.layers[2].self_attn.head_dim
    for head in range(4):
        part = slice(head * size, (head + 1) * size)
        vector = z[:, part] @ out.weight.detach().numpy()[:, part].T
        np.testing.assert_allclose(shares.heads[:, 2, head].numpy(), logit(vector), atol=1e-12)
    biases = [p.detach().numpy() for name, p in model.named_parameters() if name.endswith("out_proj.bias")]
    of_norm = getattr(model.norm, "bias", None)
    expected = logit(sum(biases, np.zeros((2, 8))), 0.0 if of_norm is None else of_norm.detach().numpy())
    np.testing.assert_allclose(shares.biases.numpy(), np.broadcast_to(expected, (2,)), atol=1e-12)


def test_a_model_whose_layers_do_not_only_add_has_no_shares(model):
    hook = model.layers[1].register_forward_hook(lambda module, args, out: 2 * out)
    with pytest.raises(ValueError, match=r"the parts add up to \[.*\], the logit is \[.*\]; expected a model whose"):
        logit_shares(model, IDS, 7)
    hook.remove()


# ---- heads left out


def loss_of(model, ids):
    return F.cross_entropy(model(ids)[0, :-1], tt.asarray(ids[0, 1:]))


def test_a_head_left_out_is_a_model_whose_projection_has_none_of_it(model):
    found = heads_left_out(model, lambda: loss_of(model, IDS))
    assert found.shape == (3, 4)
    assert model.training
    model.eval()
    with tt.no_grad():
        whole = loss_of(model, IDS).item()
        for layer, head in np.ndindex(3, 4):
            weight, size = model.layers[layer].self_attn.out_proj.weight, model.layers[layer].self_attn.head_dim
            kept = weight.numpy().copy()
            weight[:, head * size : (head + 1) * size] = 0.0
            np.testing.assert_allclose(found[layer, head], loss_of(model, IDS).item() - whole, atol=1e-12)
            weight[...] = kept
    assert np.abs(found).min() > 1e-7


def test_heads_of_other_models_are_rows_in_the_order_of_computing():
    tt.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2}
    encoder, transformer = Encoder(11, **sizes), Transformer(11, **sizes)
    assert heads_left_out(encoder, lambda: encoder(IDS).sum()).shape == (2, 2)
    found = heads_left_out(transformer, lambda: transformer(IDS, IDS[:, :3])[0, 0, 5])
    assert found.shape == (6, 2)  # two of the encoder; in each layer of the decoder its own, then to the encoder
    with nn.intervene(transformer, {"decoder.layers.0.multihead_attn.z": {1: 0.0}}):
        without = logits_of(transformer, IDS, IDS[:, :3])[0, 0, 5]
    np.testing.assert_allclose(found[3, 1], without - logits_of(transformer, IDS, IDS[:, :3])[0, 0, 5], atol=1e-6)
    mixed = nn.Sequential(nn.SelfAttention(8, 4), nn.SelfAttention(8, 2))
    x = tt.random.randn(1, 3, 8)
    found = heads_left_out(mixed, lambda: mixed(x)[0, 0, 0].item())
    np.testing.assert_array_equal(np.isnan(found), [[False] * 4, [False, False, True, True]])


# ---- patching


def score(logits):
    return logits[0, -1, 7] - logits[0, -1, 9]


def test_the_last_layer_at_the_last_position_brings_all_back_and_others_nothing(model):
    clean, corrupted = IDS[:1], IDS[:1].copy()
    corrupted[0, 1] = 3 + (corrupted[0, 1] - 2) % 8
    found = patched(model, clean, corrupted, score)
    assert found.shape == (3, 5)
    assert model.training
    np.testing.assert_allclose(found[2], [0, 0, 0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(found[:, 0], 0, atol=1e-9)  # before the word that differs
    best, worst = (score(logits_of(model, ids)) for ids in (clean, corrupted))
    value = seen(model, "layers.0", clean)[1][:, 1]

    def put(module, args, out):
        return tt.concat([out[:, :1], tt.asarray(value)[:, None], out[:, 2:]], axis=1)

    hook = model.layers[0].register_forward_hook(put)
    again = score(logits_of(model, corrupted))
    hook.remove()
    np.testing.assert_allclose(found[0, 1], (again - worst) / (best - worst), atol=1e-9)
    assert abs(found[0, 1]) > 1e-3


def test_all_positions_of_a_layer_give_the_clean_run_exactly(model):
    clean, corrupted = IDS[:1], IDS[1:]
    model.eval()
    with tt.no_grad():
        with nn.cache(model, [f"layers.{i}" for i in range(3)]) as values:
            expected = model(clean).numpy()
        for name, value in values.items():
            with nn.intervene(model, {name: {i: value[:, i] for i in range(5)}}):
                assert model(corrupted).numpy().tobytes() == expected.tobytes()


def test_heads_are_patched_by_their_names(model):
    clean, corrupted = IDS[:1], IDS[1:]
    found = patched(model, clean, corrupted, score, "layers.*.self_attn.z")
    assert found.shape == (3, 4)
    best, worst = (score(logits_of(model, ids)) for ids in (clean, corrupted))
    z, size = seen(model, "layers.2.self_attn.out_proj", clean)[0], model.layers[2].self_attn.head_dim

    def put(module, args):
        part = slice(size, 2 * size)
        x = args[0].numpy().copy()
        x[..., part] = z[..., part]
        return tt.asarray(x)

    hook = model.layers[2].self_attn.out_proj.register_forward_pre_hook(put)
    again = score(logits_of(model, corrupted))
    hook.remove()
    np.testing.assert_allclose(found[2, 1], (again - worst) / (best - worst), atol=1e-9)


def test_a_model_with_several_arguments_takes_tuples():
    tt.manual_seed(0)
    model = Transformer(11, d_model=8, num_heads=2, num_layers=2)
    clean, corrupted = (IDS[:1], IDS[:1, :3]), (IDS[1:], IDS[:1, :3])
    found = patched(model, clean, corrupted, score, ["encoder.layers.1", "decoder.layers.1"])
    np.testing.assert_allclose(found[1], [0, 0, 1, np.nan, np.nan], atol=1e-4)
    assert np.isfinite(found[0]).all()


# ---- errors


def test_other_models_are_refused():
    encoder = Encoder(11, d_model=8, num_heads=2, num_layers=1)
    for call in (
        lambda: logit_lens(encoder, IDS),
        lambda: logit_shares(encoder, IDS, 3),
        lambda: patched(encoder, IDS, IDS, score),
    ):
        with pytest.raises(TypeError, match=r"expected a LanguageModel, got a Encoder; nn\.cache reads any model"):
            call()
    with pytest.raises(ValueError, match=r"no value is called '\*.z'"):
        heads_left_out(nn.Sequential(nn.Linear(2, 2)), lambda: 0.0)


def test_runs_that_do_not_differ_have_nothing_to_bring_back():
    model = LanguageModel(11, d_model=8, num_heads=2, num_layers=1)
    with pytest.raises(ValueError, match=r"patched: both runs have the score .*; expected runs that differ in it"):
        patched(model, IDS, IDS, score)
    for other in (IDS[1:], IDS[:, :4], IDS[:, 1:]):
        with pytest.raises(ValueError, match=r"'layers.0' is \(2, 5, 8\) in the clean run, .*; expected inputs"):
            patched(model, IDS, other, score)


def test_what_an_intervention_puts_in_place_reaches_every_row_of_a_generated_batch():
    """Decoding computes many sentences in two halves, on two threads; a watcher meets what its own thread computes."""
    tt.manual_seed(0)
    model = Transformer(30, d_model=32, num_heads=2, num_layers=1, d_ff=64, max_length=16).eval()
    source = tt.random.integers(3, 30, shape=(20, 8))
    free = model.generate(source).numpy()
    with nn.intervene(model, {"*.z": 0.0}):
        together = model.generate(source).numpy()
        alone = [model.generate(row[None]).numpy()[0] for row in source]
    assert not np.array_equal(together, free)
    for row, expected in zip(together, alone, strict=True):
        assert list(row[: len(expected)]) == list(expected)
        assert not row[len(expected) :].any()
    with nn.cache(model, "transformer.encoder") as values:
        model.generate(source)
    assert values["transformer.encoder"].shape[0] == 20
