"""Exercises of lesson 22: the logit lens, and one value of a run in another run."""

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import inside
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


def small_model():
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
    for ids in ([[3, 5, 7, 5], [4, 3, 8, 6]], [[8, 3, 4, 4, 7]]):
        model = small_model()
        logits = inside.logit_lens(model, ids)
        with tt.no_grad(), nn.cache(model, [f"layers.{i}" for i in range(3)]) as values:
            model(ids)
        results = [values[f"layers.{i}"] for i in range(3)]
        for layer in (0, 2, 1):
            with tt.no_grad():
                value, right = results[layer], logits[layer + 1]
                mistakes = {
                    "the norm is missing": model.projection(value),
                    "it is what the layer reads; expected what it returns": logits[layer],
                    "it is the layer that comes next": logits[min(layer + 2, 3)],
                    "these are the model's own logits, whatever the layer is": logits[3],
                    "it is the first layer, whatever the layer is": logits[1],
                    "the norm comes twice": model.projection(model.norm(model.norm(value))),
                    "the projection is missing": model.norm(value),
                    "it is the layer's result itself: the norm and the projection are missing": value,
                    "softmax has been taken; expected logits": F.softmax(right, dim=-1),
                    "it is the last position alone; expected all of them": right[:, -1],
                }
                agree(lens(model, ids, layer), right, f"the logits of layer {layer} of 3", mistakes=mistakes)


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
    for clean, corrupted, word in (([[3, 5, 7, 5]], [[3, 4, 7, 5]], 6), ([[8, 3, 6, 4, 7]], [[8, 3, 5, 4, 7]], 5)):
        model, last = small_model(), len(clean[0]) - 1

        def score(logits):
            return logits[0, -1, word]

        with tt.no_grad():
            best, worst = (float(score(model(ids))) for ids in (clean, corrupted))
            shares = inside.patched(model, clean, corrupted, score)
            back = inside.patched(model, corrupted, clean, score)  # of the way from the clean run
            places = [(2, last), (1, 0), (0, 1), (1, last), (0, 2)]
            given = [comes_back(model, clean, corrupted, *place, score) for place in places]
        right = [shares[place] for place in places]
        way = best - worst
        mistakes = {
            "these are scores; expected the share of the way": [worst + share * way for share in right],
            "these are the scores' differences; divide by the whole way": [share * way for share in right],
            "these are the shares that do not come back: 1 is all of the way": [1 - share for share in right],
            "the sign is turned round: from the corrupted run to the clean one": [-share for share in right],
            "the corrupted vector went into the clean run": [back[place] for place in places],
            "the corrupted vector went into the clean run ": [1 - back[place] for place in places],
            "the vector went in at all positions; it is for one": [1.0] * len(places),
            "nothing was put into the corrupted run": [0.0] * len(places),
            "the vector is of the layer before": [shares[max(layer - 1, 0), i] for layer, i in places],
            "the vector is always put into the last layer": [shares[2, i] for _, i in places],
            "the vector is always put at the last position": [shares[layer, last] for layer, _ in places],
            "these are whole ways: the score of each place is missing": [way] * len(places),
            "it is divided by the score of the clean run; divide by the way": [share * way / best for share in right],
        }
        what = f"the shares at the layers and positions {places}"
        agree(given, right, what, mistakes=mistakes)
