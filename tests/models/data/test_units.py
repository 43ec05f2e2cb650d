"""A text as bytes, characters and subwords, and back; and stretches of it."""

import numpy as np
import pytest

from tinytensor.models.data.stretches import StretchTask, toy_text, whole
from tinytensor.models.data.units import SAVED, UNITS

TEXT = "The cat sat.\nThe dog, too: naïve!\n" * 8


@pytest.mark.parametrize("kind", UNITS)
def test_there_and_back(kind):
    if kind == "subwords":
        pytest.importorskip("sentencepiece")
    units = UNITS[kind](TEXT, 40)
    ids = units.encode(TEXT)
    assert units.decode(ids) == TEXT
    assert min(ids) >= 2
    assert max(ids) < len(units)
    assert len(units.pieces(ids)) == len(ids)
    values, files = units.saved()
    again = SAVED[values["kind"]](values, files)
    assert (again.encode(TEXT), len(again)) == (ids, len(units))


def test_what_a_picture_shows():
    assert UNITS["characters"]("a b\n", 0).pieces([3, 4, 5, 6]) == ["↵", "▁", "a", "b"]
    assert UNITS["bytes"]("", 0).pieces([3 + 97, 3 + 0xC3]) == ["a", "c3"]


def test_a_character_that_training_never_had():
    with pytest.raises(ValueError, match="no id for 'x', 'é'"):
        UNITS["characters"]("abc", 0).encode("abxé")


def test_broken_bytes_are_marked():
    assert UNITS["bytes"]("", 0).decode([3 + 0xC3, 3 + 97]) == "\N{REPLACEMENT CHARACTER}a"


def test_stretches_follow_from_seed_and_step():
    ids = np.arange(3, 103)
    task = StretchTask(ids, 10, seed=1)
    batch = task.training_batch(4, 5)
    np.testing.assert_array_equal(batch.target_out, batch.ids + 1)
    np.testing.assert_array_equal(task.training_batch(4, 5).ids, batch.ids)
    assert (task.training_batch(5, 5).ids != batch.ids).any()
    drawn = np.concatenate([task.training_batch(i, 50).target_out.ravel() for i in range(20)])
    assert set(drawn.tolist()) == set(range(4, 103))
    with pytest.raises(ValueError, match="a text of 10 ids is too short for stretches of 10"):
        StretchTask(ids[:10], 10)


@pytest.mark.parametrize(("count", "length"), [(2, 10), (11, 10), (12, 10), (57, 10), (58, 7), (100, 1)])
def test_each_id_is_asked_once(count, length):
    ids = np.arange(3, 3 + count)
    asked = []
    for batch in whole(ids, length, size=3):
        assert batch.ids.shape == batch.target_out.shape
        places = batch.target_out != 0
        np.testing.assert_array_equal(batch.target_out[places], batch.ids[places] + 1)
        asked += batch.target_out[places].tolist()
        assert batch.tokens == places.sum()
    assert sorted(asked) == ids[1:].tolist()


def test_toy_text_is_the_same_each_time():
    text = toy_text(20)
    assert text == toy_text(20)
    assert text != toy_text(20, seed=1)
    assert text.count("\n") == 20
    assert toy_text(10) == "".join(text.splitlines(True)[:10])


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_an_id_that_no_text_has(kind, wrong):
    if kind == "subwords":
        pytest.importorskip("sentencepiece")
    units = UNITS[kind](TEXT, 40)
    for call in (units.decode, units.pieces):
        with pytest.raises(ValueError, match=f"no text has the id {wrong}; expected ids from 0 to {len(units) - 1}"):
            call([5, wrong])
        call([0, 1, 5, len(units) - 1])


def test_what_means_no_byte_shows_nothing():
    assert UNITS["bytes"]("", 0).pieces([0, 1, 2, 3]) == ["", "", "", "\0"]
