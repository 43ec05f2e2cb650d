"""Sentences whose translation depends on a word elsewhere."""

from itertools import islice

import pytest

from tinytensor.models.data.languages import TranslationTask, context_pairs


def some(count, held_out=False, seed=0, name="en-fr"):
    return list(islice(context_pairs(name, seed, held_out), count))


def test_they_are_sentences_of_the_toy_language():
    """Its words, and no longer than its sentences."""
    for name in ("en-fr", "en-ko"):
        task = TranslationTask(name)
        found = some(300, name=name)
        task.make_batch(found)
        assert max(len(side) for pair in found for side in (pair.source, pair.target)) <= task.max_length


def test_all_four_kinds_are_there_and_the_french_follows_the_context():
    kinds = {"it": 0, "that": 0, "hers": 0, "to her": 0}
    endings = set()
    for pair in some(400):
        if "it" in pair.source:
            kinds["it"] += 1
            assert {"la", "le", "l'"} & {pair.target[j] for i, j in pair.alignment if pair.source[i] == "it"}
        elif "that" in pair.source:
            kinds["that"] += 1
            endings.add(pair.target[-2][-2:])
        elif "lui" in pair.target:
            kinds["to her"] += 1
            assert "her" in pair.source
        else:
            kinds["hers"] += 1
            assert {"sa", "son"} & set(pair.target)
    assert min(kinds.values()) > 60
    assert {"du", "ue"} <= endings  # vendu and vendue


def test_a_seed_gives_the_same_pairs_and_combinations_stay_apart():
    assert some(20) == some(20) != some(20, seed=1)
    assert not any(pair.held_out for pair in some(300))
    assert all(pair.held_out for pair in some(50, held_out=True))


def test_an_unknown_pair_of_languages_is_refused():
    with pytest.raises(ValueError, match="unknown pair of languages 'en-de'"):
        some(1, name="en-de")
