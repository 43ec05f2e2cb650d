"""Every module in a model's tree is called, and what is done to one counts in training and in decoding alike.

A hook on a module, a subclass or an adapter in its place, a `forward` put on its class: each changes what the model
computes, or its own result would depend on the way it was asked.
"""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Seq2Seq, Transformer
from tinytensor.models.decoding import Recomputed, beam_search, greedy, sample
from tinytensor.models.decoding_trace import trace_beam, trace_choices

from .test_decoding import assert_same, make, sources

CONTAINERS = nn.ModuleList, nn.ModuleDict, nn.Transformer  # models call their parts
SMALL = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12, "max_length": 16}
IDS = np.random.default_rng(0).integers(3, 11, (2, 5))
X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")

MODELS = {
    "Transformer": (lambda: Transformer(11, **SMALL), (IDS, IDS)),
    "post-norm, tied": (lambda: Transformer(11, **SMALL, tie_weights=True, positions="learned"), (IDS, IDS)),
    "LanguageModel": (lambda: LanguageModel(11, **SMALL), (IDS,)),
    "2017's": (lambda: LanguageModel(11, **SMALL, positions="learned", tie_weights=True), (IDS,)),
    "rotary": (lambda: LanguageModel(11, **SMALL, positions="rotary", num_kv_heads=1), (IDS,)),
    "Encoder": (lambda: Encoder(11, **SMALL), (IDS,)),
    "LoRA": (lambda: nn.lora(Transformer(11, **SMALL)), (IDS, IDS)),
    "LoRA of a LanguageModel": (lambda: nn.lora(LanguageModel(11, **SMALL)), (IDS,)),
    "Seq2Seq": (lambda: Seq2Seq(11, d_model=8, attention=None), (IDS, IDS)),
    **{
        name: (lambda name=name: Seq2Seq(11, d_model=8, attention=name), (IDS, IDS))
        for name in ("bahdanau", "dot", "general", "concat", "local-p")
    },
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (X, X, X)),
    "own keys": (lambda: nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True), (X, X, X)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2, nn.LayerNorm(8)), (X,)),
    "decoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12), 2, nn.LayerNorm(8)), (X, X)),
    "nn.Transformer": (lambda: nn.Transformer(8, 2, 2, 2, 12), (X, X)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_every_module_is_called(name, training):
    build, inputs = MODELS[name]
    tt.manual_seed(0)
    model, called = build().train(training), set()
    for path, module in model.named_modules():
        module.register_forward_hook(lambda module, inputs, output, path=path: called.add(path))
    model(*(tt.asarray(x) for x in inputs))
    expected = {path for path, module in model.named_modules() if not path or not isinstance(module, CONTAINERS)}
    assert expected - called == set()


@pytest.mark.parametrize("with_cache", [True, False])
def test_the_projection_into_heads_is_called_with_a_cache_and_without(with_cache):
    model, called = LanguageModel(11, **SMALL).eval(), []
    model.layers[0].self_attn.in_proj.register_forward_hook(lambda *_: called.append(1))
    greedy(model, IDS, max_length=3) if with_cache else model(IDS)
    assert called


# ---- what is done to a module


class Adapter(nn.Module):
    """A low-rank addition to a linear map (Hu et al. 2021, equation 3), with the attributes of the map."""

    def __init__(self, base):
        super().__init__()
        self.base, self.weight, self.bias = base, base.weight, base.bias
        self.a = nn.Parameter(tt.full((2, base.in_features), 0.3, dtype=base.weight.dtype))
        self.b = nn.Parameter(tt.full((base.out_features, 2), 0.3, dtype=base.weight.dtype))

    def forward(self, x):
        return self.base(x) + x @ self.a.mT @ self.b.mT


class TwiceAttention(nn.MultiheadAttention):
    def forward(self, *args, **kwargs):
        found, weights = super().forward(*args, **kwargs)
        return 2 * found, weights


class TwiceLayer(nn.TransformerDecoderLayer):
    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


def of_class(kind):
    """Give a module another class of the same attributes."""

    def change(module):
        module.__class__ = kind

    return change


def hook(module):
    module.register_forward_hook(lambda m, i, out: (2 * out[0], *out[1:]) if isinstance(out, tuple) else 2 * out)


def pre_hook(module):
    module.register_forward_pre_hook(lambda m, inputs: (2 * inputs[0], *inputs[1:]))


def on_instance(module):
    former = module.forward
    module.forward = lambda *args, **kwargs: 2 * former(*args, **kwargs)


def adapt(module):
    module.out_proj = Adapter(module.out_proj)


def low_rank(module):
    module.linear1 = nn.LoRA(module.linear1)
    nn.init.ones_(module.linear1.lora_B)


LAYER = "transformer.decoder.layers.1"
CHANGES = {
    "a hook on the decoder": ("transformer.decoder", hook),
    "a hook on a layer": (LAYER, hook),
    "a hook before a layer": (LAYER, pre_hook),
    "a layer's forward on the instance": (LAYER, on_instance),
    "a layer of a subclass": (LAYER, of_class(TwiceLayer)),
    "a hook on self-attention": (f"{LAYER}.self_attn", hook),
    "a hook on attention to the memory": (f"{LAYER}.multihead_attn", hook),
    "self-attention of a subclass": (f"{LAYER}.self_attn", of_class(TwiceAttention)),
    "a hook on the output projection": (f"{LAYER}.self_attn.out_proj", hook),
    "an adapter of the output projection": (f"{LAYER}.multihead_attn", adapt),
    "an adapter in the encoder": ("transformer.encoder.layers.0.self_attn", adapt),
    "LoRA of a feed-forward map": (LAYER, low_rank),
    "a hook on the final projection": ("projection", hook),
    "a hook on a norm": (f"{LAYER}.norm2", hook),
}


def answers(model):
    """All ways to decode, from the model's own steps."""
    ids = sources()
    drawn = sample(model, ids, max_length=8, generator=tt.random.Generator(0))
    return [*greedy(model, ids, max_length=8), *beam_search(model, ids, beam=3, max_length=8), *drawn]


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_done_to_a_module_counts_in_decoding(what):
    path, change = CHANGES[what]
    model = make()
    before = answers(model)
    change(model.get_submodule(path))
    after = answers(model)
    assert_same(after, answers(Recomputed(model)))
    assert [one.score for one in before[:6]] != [one.score for one in after[:6]]
    tree, _ = trace_beam(model, sources()[:1], beam=2, max_length=6)
    (best,) = beam_search(model, sources()[:1], beam=2, max_length=6)
    assert {branch.score for branch in tree if branch.score is not None} == {one.score for one in best}
    chosen = greedy(model, sources()[:1], max_length=6)[0]
    steps = trace_choices(model, sources()[:1], chosen.ids)
    assert [step.ids[0] for step in steps] == chosen.ids


def test_a_forward_on_the_class_counts_in_decoding(monkeypatch):
    model = make()
    before = answers(model)
    former = nn.MultiheadAttention.forward

    def twice(self, *args, **kwargs):
        found, weights = former(self, *args, **kwargs)
        return 2 * found, weights

    monkeypatch.setattr(nn.MultiheadAttention, "forward", twice)
    after = answers(model)
    assert_same(after, answers(Recomputed(model)))
    assert [one.score for one in before[:6]] != [one.score for one in after[:6]]
    monkeypatch.undo()
    assert_same(answers(model), before)


def test_a_subclass_with_a_step_of_its_own_decodes_in_steps():
    class Halved(nn.TransformerDecoderLayer):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs) / 2

        def step(self, *args):
            return super().step(*args) / 2

    model = make()
    for layer in model.transformer.decoder.layers:
        layer.__class__ = Halved
    model.decode = None  # which recomputing would call
    steps = answers(model)
    del model.decode
    assert_same(steps, answers(Recomputed(model)))


def test_a_language_model_of_a_subclass_generates_by_its_forward():
    class Capped(LanguageModel):
        def forward(self, ids):
            return tt.tanh(super().forward(ids)) * 0.1

    model = Capped(11, **SMALL).eval()
    assert_same(greedy(model, IDS, max_length=6), greedy(Recomputed(model), IDS, max_length=6))
    assert max(greedy(model, IDS, max_length=1)[0].log_probabilities) < np.log(0.12)  # nearly uniform over 11


def test_a_step_by_hand_that_would_pass_a_hook_by_is_an_error():
    model = make()
    model.transformer.decoder.layers[0].multihead_attn.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"pass by the forward or the hooks of layers\.0\.multihead_attn; call"):
        model.initial_state(IDS)
