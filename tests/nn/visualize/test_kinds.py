"""Kinds of heads, each by hand-made attention, and the picture that sorts them."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import LanguageModel
from tinytensor.nn import visualize

from .drawing import SVG, Read, softmax

TOKENS = list("abcdeabcde")  # repeated, none of them next to itself
N = len(TOKENS)


def looking_at(key_of):
    """Weights of 1, from each query to one key."""
    weights = np.zeros((N, N))
    for query in range(N):
        weights[query, key_of(query)] = 1
    return weights


HEADS = {
    "previous": looking_at(lambda i: max(i - 1, 0)),
    "next": looking_at(lambda i: min(i + 1, N - 1)),
    "same": looking_at(lambda i: i),
    "first": looking_at(lambda i: 0),
    "induction": looking_at(lambda i: i - 4 if i >= 5 else 0),
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_of_each_kind_has_score_one_and_is_of_no_other_kind(kind):
    scores = visualize.head_scores(HEADS[kind][None], TOKENS)
    assert list(scores) == list(HEADS)
    for name, found in scores.items():
        assert found.shape == (1, 1)
        assert found.item() == 1 if name == kind else found.item() < 0.6


def test_the_same_token_counts_wherever_it_is():
    """Its own position, and its other one."""
    weights = looking_at(lambda i: (i + 5) % N) / 2 + np.eye(N) / 2
    assert visualize.head_scores(weights, TOKENS)["same"].item() == 1
    assert visualize.head_scores(weights)["same"].item() == 0.5  # without tokens all differ


def test_scores_are_mean_weights_by_hand():
    weights = softmax(2, 3, 4, 4)
    scores = visualize.head_scores(weights, ["a", "b", "a", "c"])
    for layer, head in np.ndindex(2, 3):
        w = weights[layer, head]
        expected = {
            "previous": (w[1, 0] + w[2, 1] + w[3, 2]) / 3,
            "next": (w[0, 1] + w[1, 2] + w[2, 3]) / 3,
            "same": (w[0, 0] + w[0, 2] + w[1, 1] + w[2, 0] + w[2, 2] + w[3, 3]) / 4,
            "first": (w[1, 0] + w[2, 0] + w[3, 0]) / 3,
            "induction": w[2, 1],
        }
        assert {kind: found[layer, head] for kind, found in scores.items()} == pytest.approx(expected)


def test_induction_goes_by_the_last_earlier_occurrence():
    weights = np.zeros((5, 5))
    weights[:, 3] = 1  # behind the second a
    assert visualize.head_scores(weights, list("abaca"))["induction"].item() == 0.5  # a at 2 looks for 1, at 4 for 3


@pytest.mark.parametrize("tokens", [list("abcdefghij"), None, list("aa")])
def test_induction_is_unknown_where_nothing_followed(tokens):
    count = len(tokens) if tokens else 4
    scores = visualize.head_scores(np.eye(count), tokens)
    assert np.isnan(scores["induction"]).all()
    assert not np.isnan(scores["previous"]).any()


def test_layers_may_have_different_numbers_of_heads():
    scores = visualize.head_scores([softmax(2, 4, 4), softmax(3, 4, 4)])
    assert np.isnan(scores["same"][0, 2])
    assert not np.isnan(scores["same"][1]).any()
    assert len(Read(visualize.attention_heads([softmax(2, 4, 4), softmax(3, 4, 4)])).all("text", "head")) == 5


def test_attention_between_two_sequences_has_no_kinds():
    with pytest.raises(ValueError, match="3 queries look at 4 keys; expected the attention of a sequence to itself"):
        visualize.head_scores(softmax(1, 3, 4))


def test_a_model_on_repeated_random_tokens():
    tt.manual_seed(0)
    model = LanguageModel(50, d_model=8, num_heads=2, num_layers=2).eval()
    ids = tt.concat([tt.random.integers(3, 50, (1, 6))] * 2, axis=1)
    with tt.no_grad(), nn.record_attention() as attention:
        model(ids)
    tokens = [str(i) for i in ids.numpy()[0]]
    scores = visualize.head_scores(attention, tokens)
    assert {found.shape for found in scores.values()} == {(2, 2)}
    assert np.nanmax(scores["next"]) == 0  # it looks back only
    picture = Read(visualize.attention_heads(attention, tokens))
    assert "masked" in [text.text for text in picture.all("text")]


def test_the_picture_has_the_heads_of_each_kind_by_their_scores():
    weak = 0.7 * HEADS["first"] + 0.3 / N
    weights = [np.array([HEADS["first"], softmax(N, N, sharp=0.1)]), np.array([weak, HEADS["induction"]])]
    picture = Read(visualize.attention_heads(weights, TOKENS))
    scores = visualize.head_scores(weights, TOKENS)
    captions = picture.all("text", "head")
    assert [text.text for text in captions[:3]] == ["0.0: 1.00", "1.0: 0.73", "1.1: 1.00"]
    assert captions[3].text.startswith("0.1: 0.")
    told = ", ".join(f"{kind} {found[1, 0]:.2f}" for kind, found in scores.items())
    assert captions[1].findtext(f"{SVG}title") == told
    assert picture.texts("kind") == ["first", "induction", "other"]
    assert picture.description == "Heads by what they do most: 2 first, 1 induction, 1 other."
    assert len(picture.all("image")) == 2 * 4  # light and dark


def test_many_heads_go_on_below_and_stay_within():
    drawn = visualize.attention_heads(softmax(12, 12, 40, 40))
    assert len(str(drawn)) < 1_000_000
    picture = Read(drawn)
    assert len(picture.all("text", "head")) == 144
    assert picture.width <= 700
    for text in picture.all("text"):
        assert float(text.get("y")) <= picture.height
