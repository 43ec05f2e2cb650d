"""Exercises of lesson 21: what an induction head says, how much of one a head is, and a model without it."""

import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def guess(ids):",
    "It stands at the last word, `ids[-1]`, and looks for the last place before it with the same word.",
    "`[i for i in range(len(ids) - 1) if ids[i] == ids[-1]]` are those places.",
)
def check_guess(guess):
    """The next id of an induction head: ids is a list of a text's ids so far. The id behind the last earlier copy
    of the last one; -1 if there is no earlier copy."""
    a, b, c, d = (int(i) for i in 3 + tt.random.permutation(20)[:4])
    for ids, why in (
        ([d, a, b, c, a], ""),
        ([a, b, a, c, d, a], ", whose last copy counts"),
        ([c, c, c], ""),
        ([a, b, c], ", where nothing was there before"),
        ([d], ", a single word"),
        ([a, b, c, d, a], ""),
    ):
        places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
        expected = ids[places[-1] + 1] if places else -1
        mistakes = {"without an earlier copy it is −1": 0} if not places else {"there is an earlier copy": -1}
        if places:
            mistakes |= {
                "it is the word behind the first copy; the last one counts": ids[places[0] + 1],
                "it is the word itself; expected the one behind its copy": ids[-1],
                "it is a place; expected the id there": places[-1] + 1,
                "it is the place of the copy; expected the id behind it": places[-1],
                "it is the word in front of the copy; expected the one behind it": ids[places[-1] - 1],
            }
        agree(guess(ids), expected, f"the guess after {' '.join(map(str, ids))}{why}", mistakes=mistakes)


@exercise(
    "def induction(weights, ids):",
    "Query i has an aim if `ids[i]` stands somewhere before i; the aim is one behind the last such place.",
    "Collect `weights[i, aim]` of all queries that have one, and take the mean.",
)
def check_induction(induction):
    """How much of an induction head a head is: weights (length, length), a NumPy array, has a row for each query, and
    ids are the text's. The mean of the weights that queries give to the place behind the last earlier copy of their own
    id; only queries that have one count."""
    for ids in ([4, 7, 2, 4, 7, 4, 2, 4], [1, 1, 5, 1, 6, 5]):
        weights = np.tril(tt.random.rand(len(ids), len(ids), dtype=tt.float64).numpy())
        weights /= weights.sum(axis=1, keepdims=True)
        copies = {i: [j for j in range(i) if ids[j] == word] for i, word in enumerate(ids)}
        copies = {i: places for i, places in copies.items() if places}
        aims = [weights[i, places[-1] + 1] for i, places in copies.items()]
        mistakes = {
            "it is the weight of the word before; expected that of the place behind a copy": np.diagonal(
                weights, -1
            ).mean(),
            "it is the weight of the copy itself; expected that of the place behind it": np.mean(
                [weights[i, places[-1]] for i, places in copies.items()]
            ),
            "it is the place behind the first copy; the last one counts": np.mean(
                [weights[i, places[0] + 1] for i, places in copies.items()]
            ),
            "it is the mean over all queries; only those with an earlier copy count": sum(aims) / len(ids),
            "it is the sum; expected the mean": sum(aims),
            "query and key are exchanged: a row is a query": np.mean(
                [weights[places[-1] + 1, i] for i, places in copies.items()]
            ),
            "it is the largest; expected the mean": max(aims),
            "all copies count; only the last one of each does": np.mean(
                [weights[i, j + 1] for i, places in copies.items() for j in places]
            ),
            "it is the place in front of the copy; expected the one behind it": np.mean(
                [weights[i, places[-1] - 1] for i, places in copies.items()]
            ),
        }
        agree(induction(weights, ids), np.mean(aims), f"the score on the text {ids}", mistakes=mistakes)


@exercise(
    "def without(model, layer, head, ids):",
    'The result of a head, before the projection, is called `f"layers.{layer}.self_attn.z"`.',
    "`nn.intervene(model, {name: {head: 0.0}})` is a context manager: call the model within it.",
)
def check_without(without):
    """The logits of a LanguageModel for ids (batch, length), as if a head of a layer were not there: its result is 0.
    Afterwards the model is what it was."""
    model = models.LanguageModel(9, d_model=12, num_heads=3, num_layers=2).double().eval()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter *= 10.0
    for layer, head, ids in ((1, 0, [[3, 5, 7, 5], [4, 3, 8, 6]]), (0, 2, [[6, 4, 6]])):

        def changed(layer, change):
            with tt.no_grad(), nn.intervene(model, {f"layers.{layer}.self_attn.z": change}):
                return model(ids)

        with tt.no_grad():
            plain = model(ids)
            got = without(model, layer, head, ids)
        mistakes = {
            "nothing was left out": plain,
            "all heads of the layer were left out": changed(layer, 0.0),
            "the numbers of the layer and the head are exchanged": changed(head % 2, {layer: 0.0}),
            "another head was left out": changed(layer, {(head + 1) % 3: 0.0}),
            "the other layer's head was left out": changed(1 - layer, {head: 0.0}),
            "the head's result is 1; expected 0": changed(layer, {head: 1.0}),
            "it was left out in both layers": plain,
            "all heads but this one were left out": changed(layer, {i: 0.0 for i in range(3) if i != head}),
        }
        with tt.no_grad(), nn.intervene(model, {f"layers.{i}.self_attn.z": {head: 0.0} for i in (0, 1)}):
            mistakes["it was left out in both layers"] = model(ids)
        agree(got, changed(layer, {head: 0.0}), f"the logits without head {head} of layer {layer}", mistakes=mistakes)
        with tt.no_grad():
            afterwards = without.seen(lambda: model(ids))
        same = np.allclose(afterwards.numpy(), plain.numpy(), rtol=1e-6)
        expect(same, "afterwards the model has changed: it gives other logits than before")
