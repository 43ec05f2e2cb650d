"""The picture of a recurrence: what it draws is what the network does, and the way in bold is a shortest one."""

import functools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Seq2Seq
from tinytensor.nn import visualize

from .drawing import AWKWARD, SHOWN, Read, softmax


def words(n, letter="w"):
    return [f"{letter}{i}" for i in range(n)]


def steps(picture):
    """The numbers in the sentence on the way."""
    return [int(n) for n in re.findall(r"(\d+) step", Read(picture).description)]


def bold(read):
    return [e for e in read.all("line") if e.get("stroke-width") == "3.5"]


def test_every_word_has_a_state_and_every_weight_that_can_be_seen_a_line():
    weights = softmax(4, 6, seed=1)
    weights[2] = 0
    weights[2, 3] = 1
    picture = Read(visualize.recurrence(words(6), words(4, "t"), weights))
    assert len(picture.all("rect", "state")) == 6 + 4
    lines = picture.all("line", "attention")
    assert len(lines) == (weights >= 0.02).sum()
    seen = {e.findtext("{http://www.w3.org/2000/svg}title"): float(e.get("stroke-opacity")) for e in lines}
    for j, i in np.argwhere(weights >= 0.02):
        assert seen[f"w{i} → t{j}: {weights[j, i]:.3f}"] == pytest.approx(weights[j, i], abs=1e-3)
    # chains of 5 and 3, 6 words read, 4 said, 3 said words read again, and the state that the decoder begins with
    assert len(picture.all("line", "step")) == 5 + 3 + 6 + 4 + 3 + 1


def test_both_directions_have_chains_of_their_own():
    one, both = (Read(visualize.recurrence(words(5), bidirectional=b)) for b in (False, True))
    assert len(both.all("rect", "state")) == 2 * len(one.all("rect", "state")) == 10
    right = [e for e in both.all("line", "step") if float(e.get("x2")) > float(e.get("x1"))]
    left = [e for e in both.all("line", "step") if float(e.get("x2")) < float(e.get("x1"))]
    assert len(right) == len(left) == 4


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 7), st.integers(1, 7), st.booleans(), st.booleans(), st.data())
def test_the_way_is_a_shortest_one(n, m, bidirectional, attends, data):
    i, j = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    weights = softmax(m, n) if attends else None
    picture = visualize.recurrence(words(n), words(m, "t"), weights, bidirectional=bidirectional, path=(i, j))
    ahead, back = n - 1 - i, i  # to the last state, or to the first one of the other direction
    reach = ahead if not bidirectional else back if attends else min(ahead, back)
    without = reach + 1 + j
    assert steps(picture) == ([1, without] if attends else [without])
    drawn = 1 + (1 if attends else without) + 1  # with the word that is read and the one that is said
    assert len(bold(Read(picture))) == drawn


@pytest.mark.parametrize(
    ("path", "bidirectional", "expected"), [((1, 4), False, 3), ((4, 1), True, 3), ((2, 2), False, 0)]
)
def test_the_way_within_the_source(path, bidirectional, expected):
    assert steps(visualize.recurrence(words(6), bidirectional=bidirectional, path=path)) == [expected]


def test_a_weight_of_zero_is_no_way():
    weights = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    picture = visualize.recurrence(words(3), words(2, "t"), weights, path=(1, 1))
    assert steps(picture) == [2, 3]  # by the state of the next word


@pytest.mark.parametrize(("attention", "ends"), [("bahdanau", 1), ("dot", 2)])
def test_a_recorded_model_is_drawn_as_it_is(attention, ends):
    tt.manual_seed(0)
    model = Seq2Seq(11, 11, attention=attention, d_model=8, max_length=14)
    with tt.no_grad(), nn.record_attention() as recorded:
        model(tt.asarray([[4, 5, 6, 2]]), tt.asarray([[1, 4, 5]]))
    draw = functools.partial(visualize.recurrence, words(4), words(3, "t"), bidirectional=True, ends=model.decoder.ends)
    picture = Read(draw(recorded.cross, path=(0, 2)))
    assert len(picture.all("line", "attention")) == 12
    assert len([e for e in picture.all("line") if e.get("stroke-dasharray")]) == ends
    assert "1 step through attention" in picture.description


def test_words_are_written_whole_and_safely():
    picture = Read(visualize.recurrence(AWKWARD, AWKWARD[:3]))
    assert picture.texts("read") == SHOWN
    assert picture.texts("said") == SHOWN[:3]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((words(3),), {"ends": 3}, "ends is 3; expected 1 or 2"),
        (([],), {}, "source has no words"),
        (("word",), {}, "expected a list of str"),
        ((words(3), []), {}, "target has no words"),
        ((words(3), None, softmax(2, 3)), {}, "weights but no target"),
        ((words(3), words(2), softmax(2, 4)), {}, "source: 3 tokens, but the weights have 4"),
        ((words(3), words(3), softmax(2, 3)), {}, "target: 3 tokens, but the weights have 2"),
        ((words(3), words(2), softmax(2, 2, 3)), {}, "weights of 2 heads in 1 layers; expected one head's"),
        ((words(3), words(2), [[0.2, 0.2, 0.2], [0, 0, 1]]), {}, "adds? up"),
        ((words(3), words(2)), {"path": (3, 0)}, "no word 3 in the source; expected 0 to 2"),
        ((words(3), words(2)), {"path": (0, 2)}, "no word 2 in the target; expected 0 to 1"),
        ((words(3),), {"path": (0, 3)}, "no word 3 in the source"),
        ((words(3),), {"path": 1}, "path is 1; expected the numbers of two words"),
        ((words(3),), {"path": (0.5, 1)}, "expected the numbers of two words"),
        ((words(3),), {"path": (2, 0)}, "nothing of word 2 gets to word 0"),
    ],
)
def test_what_cannot_be_drawn_says_why(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        visualize.recurrence(*arguments, **options)


def test_the_same_input_gives_the_same_bytes():
    one, other = (str(visualize.recurrence(words(4), words(3), softmax(3, 4), path=(0, 1))) for _ in range(2))
    assert one == other
    assert "Attention" not in str(visualize.recurrence(words(2), title="A <title>"))
    assert "A &lt;title&gt;" in str(visualize.recurrence(words(2), title="A <title>"))


def test_bold_words_are_whole():
    words = ["Wirtschaft", "internationally", "mmmmmm", "a"]
    picture = Read(visualize.recurrence(words, words, np.eye(4), path=(1, 1)))
    assert [t.text for t in picture.all("text", "read")] == words
    assert [t.text for t in picture.all("text", "said")] == words
