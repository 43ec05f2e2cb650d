"""Exercises of lesson 22: the logit lens, and one value of a run in another run."""

import tinytensor as tt
from tinytensor import models
from tinytensor.models import inside
from tinytensor.models.scripts.exercises import agree, exercise


def small_model():
    tt.manual_seed(0)
    model = models.LanguageModel(9, d_model=8, num_heads=2, num_layers=3).double().eval()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter *= 10.0
    return model


@exercise(
    "def lens(model, ids, layer):",
    'Within `nn.cache(model, name) as values` call the model; the result of a layer is called `f"layers.{layer}"`.',
    "From that vector on the model does what it does behind its last layer: `model.norm`, then `model.projection`.",
)
def check_lens(lens):
    """The logits (batch, length, vocabulary) that a LanguageModel would give for ids (batch, length) if a layer were
    its last: what the layer returns, after the model's norm and projection."""
    model, ids = small_model(), [[3, 5, 7, 5], [4, 3, 8, 6]]
    expected = inside.logit_lens(model, ids)
    with tt.no_grad():
        agree(lens(model, ids, 2), expected[3], "the logits of the last layer, which are the model's own")
        agree(lens(model, ids, 0), expected[1], "the logits of layer 0 of 3")


@exercise(
    "def comes_back(model, clean, corrupted, layer, position, score):",
    "First run the clean ids in `nn.cache`, to have the layer's result: `value[:, position]` is to be put elsewhere.",
    "`nn.intervene(model, {name: {position: value[:, position]}})`, and within it call the model on the corrupted ids.",
    "The share is (patched - corrupted) / (clean - corrupted), each the score of the logits of that run.",
)
def check_comes_back(comes_back):
    """Activation patching at one place: the model reads the corrupted ids, but at one position of one layer's result it
    has the vector of its run on the clean ids. How much of the score, a function of logits, comes back: 1 for all of
    the way from the corrupted run to the clean one, 0 for none."""
    model, clean, corrupted = small_model(), [[3, 5, 7, 5]], [[3, 4, 7, 5]]

    def score(logits):
        return logits[0, -1, 6]

    expected = inside.patched(model, clean, corrupted, score)
    with tt.no_grad():
        for layer, position in ((2, 3), (1, 0), (0, 1), (1, 3)):
            got = comes_back(model, clean, corrupted, layer, position, score)
            agree(float(got), expected[layer, position], f"the share at layer {layer}, position {position}")
