"""Exercises of lesson 21: what an induction head says, how much of one a head is, and a model without it."""

import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def guess(ids):",
    "It stands at the last word, `ids[-1]`, and looks for the last place before it with the same word.",
    "`[i for i in range(len(ids) - 1) if ids[i] == ids[-1]]` are those places.",
)
def check_guess(guess):
    """The next id of an induction head: ids is a list of a text's ids so far. The id behind the last earlier copy
    of the last one; -1 if there is no earlier copy."""
    agree(guess([4, 7, 2, 9, 4]), 7, "the guess after 4 7 2 9 4")
    agree(guess([4, 7, 4, 8, 1, 4]), 8, "the guess after 4 7 4 8 1 4, whose last copy counts")
    agree(guess([3, 3, 3]), 3, "the guess after 3 3 3")
    agree(guess([1, 2, 3]), -1, "the guess where nothing was there before")
    agree(guess([5]), -1, "the guess after a single word")


@exercise(
    "def induction(weights, ids):",
    "Query i has an aim if `ids[i]` stands somewhere before i; the aim is one behind the last such place.",
    "Collect `weights[i, aim]` of all queries that have one, and take the mean.",
)
def check_induction(induction):
    """How much of an induction head a head is: weights (length, length), a NumPy array, has a row for each query, and
    ids are the text's. The mean of the weights that queries give to the place behind the last earlier copy of their own
    id; only queries that have one count."""
    rng = np.random.default_rng(0)
    for ids in ([4, 7, 2, 4, 7, 2, 4], [1, 1, 5, 1, 6, 5]):
        weights = np.tril(rng.random((len(ids), len(ids))))
        weights /= weights.sum(axis=1, keepdims=True)
        found = []
        for i, word in enumerate(ids):
            places = [j for j in range(i) if ids[j] == word]
            found += [weights[i, places[-1] + 1]] if places else []
        agree(induction(weights, ids), np.mean(found), f"the score on the text {ids}")


@exercise(
    "def without(model, layer, head, ids):",
    'The result of a head, before the projection, is called `f"layers.{layer}.self_attn.z"`.',
    "`nn.intervene(model, {name: {head: 0.0}})` is a context manager: call the model within it.",
)
def check_without(without):
    """The logits of a LanguageModel for ids (batch, length), as if a head of a layer were not there: its result is 0.
    Afterwards the model is what it was."""
    tt.manual_seed(0)
    model = models.LanguageModel(9, d_model=8, num_heads=2, num_layers=2).double().eval()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter *= 10.0
        ids = [[3, 5, 7, 5], [4, 3, 8, 6]]
        plain = model(ids)
        got = without(model, 1, 0, ids)
        with nn.intervene(model, {"layers.1.self_attn.z": {0: 0.0}}):
            expected = model(ids)
        agree(got, expected, "the logits without head 0 of layer 1")
        agree(model(ids), plain, "the logits of the model afterwards")
