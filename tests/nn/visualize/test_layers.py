"""Pictures of each layer: numbers of its heads or positions, and the words that it would say."""

import re

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import visualize

from .drawing import AWKWARD, SHOWN, Read

VALUES = np.array([[0.5, -1.0, 0.0], [0.25, 2.0, np.nan]])


def test_a_map_has_a_cell_for_each_layer_and_head():
    picture = Read(visualize.layer_map(VALUES, ends=("better", "worse"), title="Left out"))
    texts = [t.text for t in picture.all("text")]
    assert texts[:6] == ["Left out", "\N{MINUS SIGN}2", "0", "2", "better", "worse"]
    assert "rows: layers, columns: heads" in texts
    assert picture.texts("row") == ["0", "1"]
    assert picture.texts("column") == ["0", "1", "2"]
    assert {"0, 1: \N{MINUS SIGN}1", "1, 1: 2"} <= set(picture.titles())
    assert picture.description == "2 layers, 3 heads in each; the largest number, 2, is that of layer 1, head 1."
    assert str(visualize.layer_map(tt.asarray(VALUES), ends=("better", "worse"), title="Left out")) == str(
        visualize.layer_map(VALUES.tolist(), ends=("better", "worse"), title="Left out")
    )


def test_the_largest_number_may_be_negative_and_columns_have_names():
    picture = Read(visualize.layer_map(-VALUES, ["the", " cat", ""], rows=["a", "b"], axis="position"))
    assert picture.texts("column") == ["the", "␣cat", "∅"]
    assert picture.texts("row") == ["a", "b"]
    assert picture.description.endswith("number, -2, is that of layer b, position ␣cat.")
    assert "rows: layers, columns: positions" in [t.text for t in picture.all("text")]


def test_many_layers_and_heads_have_room():
    picture = Read(visualize.layer_map(np.random.default_rng(0).normal(size=(80, 64))))
    (box,) = [r for r in picture.all("rect") if r.get("fill") == "none"]
    assert float(box.get("x")) + float(box.get("width")) <= picture.width
    assert float(box.get("y")) + float(box.get("height")) <= picture.height


@pytest.mark.parametrize(
    ("values", "more", "words"),
    [
        (np.zeros(3), {}, r"shape \(3,\); expected finite numbers, \(layers, columns\)"),
        (np.full((2, 2), np.nan), {}, "expected finite numbers"),
        (VALUES, {"columns": ["a"]}, "1 columns were named, but there are 3"),
        (VALUES, {"rows": ["a"]}, "1 rows were named, but there are 2"),
    ],
)
def test_a_map_that_cannot_be_drawn_says_why(values, more, words):
    with pytest.raises(ValueError, match=f"layer_map: .*{words}"):
        visualize.layer_map(values, **more)


# ---- what each layer would say

WORDS = ["the", " cat", " sat", " down"]


def lens(*best, chance=0.7):
    """Logits whose likeliest words are these: (layers + 1, length, 4)."""
    best = np.array(best)
    rest = np.log((1 - chance) / 3)
    return np.where(np.arange(4) == best[..., None], np.log(chance), rest) + 5


def test_a_cell_has_the_likeliest_word_and_its_probability():
    picture = Read(visualize.logit_lens(lens([0, 1], [3, 2], [1, 2], [1, 2]), WORDS, ["a", " b"]))
    (numbers,) = picture.all("g", "numbers")
    words = [re.sub("[\u2068\u2069]", "", t.text) for t in numbers]
    assert words == ["the", "␣cat", "␣down", "␣sat", "␣cat", "␣sat", "␣cat", "␣sat"]
    assert picture.texts("row") == ["embedding", "layer 0", "layer 1", "layer 2"]
    assert picture.texts("column") == ["a", "␣b"]
    assert "layer 0, a, ␣down: 0.7" in picture.titles()
    assert picture.description == (
        "3 layers and 2 positions. After the last one the model says ␣sat, with 70%; that is the likeliest word from "
        "here on: layer 0."
    )


def test_words_may_be_a_function_and_tokens_are_numbers_by_default():
    logits = lens([0, 1], [3, 2])
    by_list = visualize.logit_lens(logits, WORDS)
    assert str(by_list) == str(visualize.logit_lens(tt.asarray(logits), lambda i: WORDS[i]))
    assert Read(by_list).texts("column") == ["0", "1"]
    assert "from here on: layer 0" in Read(by_list).description
    large = logits + 1e4
    assert "layer 0, 1, ␣sat: 0.7" in Read(visualize.logit_lens(large, WORDS)).titles()


def test_awkward_words_and_tokens_are_shown_whole_in_titles():
    logits = np.eye(len(AWKWARD))[None] * 9
    picture = Read(visualize.logit_lens(logits, AWKWARD, AWKWARD))
    assert picture.texts("column") == SHOWN
    for text in picture.all("text"):
        x = float(text.get("x"))
        assert 0 <= x <= picture.width


@pytest.mark.parametrize("logits", [np.zeros((2, 3)), np.zeros((0, 2, 3))])
def test_a_lens_of_another_shape_says_so(logits):
    with pytest.raises(ValueError, match=r"logit_lens: logits have shape .*; expected \(layers \+ 1, length, voc"):
        visualize.logit_lens(logits, WORDS)
    with pytest.raises(ValueError, match="tokens: 1 tokens, but"):
        visualize.logit_lens(lens([0, 1]), WORDS, ["a"])
