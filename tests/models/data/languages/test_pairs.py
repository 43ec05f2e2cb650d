"""Sentence pairs: repetition, alignment, lengths, one translation each, and what is held out for testing."""

import os
import subprocess
import sys
import zlib
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytensor.models.data.languages import PAIRS, Vocabulary, crossing, english, french, korean, pairs
from tinytensor.models.data.languages.lexicon import ADJECTIVES, HAVE, NAMES, NOUNS, VERBS
from tinytensor.models.data.languages.pairs import HELD_OUT, LONGEST, SHORTEST
from tinytensor.models.data.languages.speaker import Speaker

ENGLISH_CONTENT = {form for noun in NOUNS + NAMES for form in noun.english}
ENGLISH_CONTENT |= {adjective.english for adjective in ADJECTIVES}
ENGLISH_CONTENT |= {form.split()[0] for verb in [*VERBS, HAVE] for form in verb.english}
ENGLISH_CONTENT |= {"my", "his", "her", "their", "two", "three", "four", "five", "many", "not", "never", "often"}
ENGLISH_CONTENT |= {"I", "he", "she", "they", "him", "it", "them"}


def held_out(combination):
    return zlib.crc32(" ".join(combination).encode()) % HELD_OUT == 0


@pytest.fixture(params=PAIRS)
def some_pairs(request):
    return request.getfixturevalue("french_pairs" if request.param == "en-fr" else "korean_pairs")


# ---- repetition


@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(PAIRS), seed=st.integers(0, 2**64), test=st.booleans())
def test_a_seed_repeats_its_pairs(name, seed, test):
    once = list(islice(pairs(name, seed, test), 20))
    assert once == list(islice(pairs(name, seed, test), 20))
    assert once != list(islice(pairs(name, seed + 1, test), 20))


def test_pairs_are_the_same_in_every_process():
    """Whatever the hashes of strings: nothing is drawn from a set."""
    code = (
        "from itertools import islice; from tinytensor.models.data.languages import pairs; import zlib;"
        "print(zlib.crc32(repr([(p.source, p.target) for p in islice(pairs('en-ko', 0, False), 200)]).encode()))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(said) == 1


def test_an_unknown_pair_is_refused():
    with pytest.raises(ValueError, match=r"unknown pair of languages 'fr-ko'; expected one of en-fr, en-ko"):
        next(pairs("fr-ko", 0, held_out=False))
    with pytest.raises(ValueError, match=r"unknown pair of languages 'fr'"):
        crossing("fr")


# ---- sentences


@pytest.mark.slow
def test_one_translation_each_and_no_word_outside_the_vocabulary(request):
    """50,000 meanings, with --all 200,000: what English says in the same words, the others say in the same words."""
    count = 200_000 if request.config.getoption("--all") else 50_000
    speaker, translations, trained = Speaker("uniqueness"), {}, Counter()
    for _ in range(count):
        meaning = speaker.meaning()
        source, *targets = (
            tuple([word.text for word in language.say(meaning)]) for language in (english, french, korean)
        )
        fingerprint = hash(tuple(targets))
        assert translations.setdefault(source, fingerprint) == fingerprint, source
        if not any(held_out(combination) for combination in meaning.combinations):
            trained.update(source)
            trained.update(targets[0])
            trained.update(targets[1])
    known = set().union(*(language.vocabulary() for language in (english, french, korean)))
    assert set(trained) == known  # every word, though a combination it is in may be held out
    assert len(translations) > 0.9 * count


def test_lengths(some_pairs):
    lengths = Counter(len(side) for pair in some_pairs for side in (pair.source, pair.target))
    assert min(lengths) == SHORTEST == 3
    assert max(lengths) == LONGEST == 20
    assert all(lengths[length] for length in range(3, 21))


def test_vocabularies_have_several_hundred_words():
    for language in ("en", "fr", "ko"):
        assert 400 < len(Vocabulary(language)) < 900


def test_what_the_sentences_hold(some_pairs):
    """Every kind of sentence is there, and none crowds out the others."""
    cues = {"?": 0.03, "not": 0.08, "never": 0.01, "will": 0.08, "can": 0.04, "and": 0.1, "that": 0.02, "who": 0.01,
            "there": 0.03, "it": 0.01, "him": 0.005, "two": 0.01, "many": 0.02, "in": 0.05, "with": 0.03}  # fmt: skip
    for cue, share in cues.items():
        count = sum(cue in pair.source for pair in some_pairs)
        assert share * len(some_pairs) < count < 0.5 * len(some_pairs), cue


# ---- alignment


def test_links_are_inside_the_sentences(some_pairs):
    for pair in some_pairs:
        for source, target in pair.alignment:
            assert 0 <= source < len(pair.source)
            assert 0 <= target < len(pair.target)


def test_content_words_are_aligned_and_so_is_the_final_mark(some_pairs):
    for pair in some_pairs:
        aligned = {source for source, _ in pair.alignment}
        for place, word in enumerate(pair.source):
            assert place in aligned or word not in ENGLISH_CONTENT, (word, pair)
        assert (len(pair.source) - 1, len(pair.target) - 1) in pair.alignment


def test_only_function_words_of_french_are_not_aligned(french_pairs):
    for pair in french_pairs:
        aligned = {target for _, target in pair.alignment}
        alone = {word for place, word in enumerate(pair.target) if place not in aligned}
        assert alone <= {"est-ce", "que", "qu'", "à", "au", "aux"}, pair


def test_only_particles_and_counters_of_korean_are_not_aligned(korean_pairs):
    counters = {noun.counter for noun in NOUNS}
    for pair in korean_pairs:
        aligned = {target for _, target in pair.alignment}
        alone = {word for place, word in enumerate(pair.target) if place not in aligned}
        assert all(word.startswith("-") or word in counters for word in alone), (alone, pair)


def test_words_are_aligned_with_their_translation():
    """By the lexicon: a noun's link leads to the noun's own word."""
    nouns = {form: noun for noun in NOUNS + NAMES for form in noun.english}
    verbs = {form.split()[0] for verb in VERBS for form in verb.english}
    for name in PAIRS:
        for pair in islice(pairs(name, "lexicon", held_out=False), 2000):
            for source, target in pair.alignment:
                noun = nouns.get(pair.source[source])
                if noun is not None and pair.source[source] not in verbs:
                    assert pair.target[target] in (*noun.french, noun.korean, "-들"), pair


def test_adjectives_cross_their_nouns_in_french(french_pairs):
    after = {adjective.english for adjective in ADJECTIVES if not adjective.before}
    nouns = {form for noun in NOUNS for form in noun.english}
    crossed = 0
    for pair in french_pairs:
        places = dict(pair.alignment)
        for i, (adjective, noun) in enumerate(pairwise(pair.source)):
            if adjective in after and noun in nouns:
                assert places[i] > places[i + 1], pair
                crossed += 1
    assert crossed > 1000


def test_verbs_cross_their_objects_in_korean(korean_pairs):
    transitive = {form for verb in VERBS if verb.transitive for form in verb.english if " " not in form}
    nouns = {noun.english[0] for noun in NOUNS if "person" not in noun.kinds}
    crossed = 0
    for pair in korean_pairs:
        places = dict(pair.alignment)
        for i, (verb, determiner, noun) in enumerate(zip(pair.source, pair.source[1:], pair.source[2:])):
            if verb in transitive and determiner in ("a", "the", "this") and noun in nouns:
                assert places[i] > places[i + 2], pair
                crossed += 1
    assert crossed > 1000


def test_the_sentences_for_pictures():
    fr, ko = crossing("en-fr"), crossing("en-ko")
    assert " ".join(fr.source) == "the black cat eats the fresh bread ."
    assert " ".join(fr.target) == "le chat noir mange le pain frais ."
    assert fr.alignment == {(0, 0), (1, 2), (2, 1), (3, 3), (4, 4), (5, 6), (6, 5), (7, 7)}
    assert " ".join(ko.source) == "Marie buys a red hat ."
    assert " ".join(ko.target) == "마리 -는 빨간 모자 -를 사요 ."
    assert ko.alignment == {(0, 0), (1, 5), (3, 2), (4, 3), (5, 6)}


# ---- the split


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_every_test_sentence_has_a_combination_that_training_never_shows(name):
    """By the words themselves: an adjective before its noun is a pair of neighbours."""
    trained, trained_neighbours = set(), set()
    for pair in islice(pairs(name, "split", held_out=False), 30_000):
        assert not any(held_out(combination) for combination in pair.combinations)
        trained |= set(pair.combinations)
        trained_neighbours |= set(pairwise(pair.source))
    adjectives = {adjective.english for adjective in ADJECTIVES}
    unseen_neighbours = 0
    for pair in islice(pairs(name, "split", held_out=True), 3000):
        new = {combination for combination in pair.combinations if held_out(combination)}
        assert new
        assert new.isdisjoint(trained)
        neighbours = new & set(pairwise(pair.source)) if adjectives & {word for word, _ in new} else set()
        assert neighbours.isdisjoint(trained_neighbours)
        unseen_neighbours += bool(neighbours)
    assert unseen_neighbours > 500


def test_every_adjective_and_neighbour_in_the_text_is_a_combination(french_pairs):
    """So that nothing can pass the split by not being counted."""
    adjectives = {adjective.english for adjective in ADJECTIVES}
    numbers = {form: noun.english[0] for noun in NOUNS for form in noun.english}
    for pair in french_pairs:
        for adjective, noun in pairwise(pair.source):
            if adjective in adjectives and noun in numbers:
                assert (adjective, numbers[noun]) in pair.combinations, pair


def test_every_verb_and_object_in_the_text_is_a_combination(french_pairs):
    forms = {form: verb.english[0] for verb in VERBS if verb.transitive for form in verb.english if " " not in form}
    numbers = {form: noun.english[0] for noun in NOUNS for form in noun.english}
    for pair in french_pairs:
        for verb, determiner, noun in zip(pair.source, pair.source[1:], pair.source[2:]):
            if verb in forms and determiner in ("the", "a", "an", "this", "some") and noun in numbers:
                assert (forms[verb], numbers[noun]) in pair.combinations, pair


@pytest.mark.slow
def test_constructions_of_test_sentences_occur_in_training():
    """With content words blotted out, what stands side by side in test sentences does so in training."""

    def neighbours(pair):
        spared = ("not", "never", "it", "them", "him")
        words = ["a" if word == "an" else word for word in pair.source]
        return pairwise(["*" if word in ENGLISH_CONTENT and word not in spared else word for word in words])

    training, test = pairs("en-fr", "constructions", held_out=False), pairs("en-fr", "constructions", held_out=True)
    trained = {n for pair in islice(training, 30_000) for n in neighbours(pair)}
    tested = Counter(n for pair in islice(test, 3000) for n in neighbours(pair))
    assert {n for n, count in tested.items() if count > 2} <= trained
    assert len(tested) > 200
