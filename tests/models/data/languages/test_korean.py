"""Korean sentences obey the grammar: particles, the verb at the end, respect, counters."""

import unicodedata
from itertools import pairwise

import pytest

from tinytensor.models.data.languages.hangul import PARTICLES
from tinytensor.models.data.languages.lexicon import NAMES, NOUNS

BY_CONSONANT = {"-" + form for pair in PARTICLES.items() for form in pair}
HONOURED = {noun.korean for noun in NOUNS if noun.honoured}
NUMERALS = {"두", "세", "네", "다섯", "몇"}


@pytest.fixture(scope="module")
def sentences(korean_pairs):
    return [pair.target for pair in korean_pairs]


def last_letter(word):
    return unicodedata.normalize("NFD", word)[-1]


def closed(word):
    return "\u11a8" <= last_letter(word) <= "\u11c2"


@pytest.mark.slow
def test_particles_fit_the_word_before(sentences):
    after_consonant = {"-은", "-이", "-을", "-과"}
    after_vowel = {"-는", "-가", "-를", "-와"}
    met = set()
    for words in sentences:
        for before, particle in pairwise(words):
            if particle in after_consonant:
                assert closed(before), words
            elif particle in after_vowel:
                assert not closed(before), words
            elif particle == "-으로":
                assert closed(before), words
                assert last_letter(before) != "\u11af", words
            elif particle == "-로":
                assert not closed(before) or last_letter(before) == "\u11af", words
            met.add(particle)
    assert met >= BY_CONSONANT | {"-에게", "-께", "-께서", "-께서는", "-들"}


def test_the_verb_stands_last(sentences):
    for words in sentences:
        assert words[-1] in (".", "?")
        assert words[-2].endswith("요")
        assert not any(word.endswith("요") for word in words[:-2]), words


def test_honoured_subjects_have_honorific_verbs_and_no_others(sentences):
    respected = 0
    for words in sentences:
        subject = "-께서" in words or "-께서는" in words
        verb = words[-3] if words[-2] == "거예요" else words[-2]
        honorific = verb.endswith(("세요", "셨어요", "실")) and verb not in ("마셨어요", "마실")  # 마시다, to drink
        assert honorific == subject, words
        respected += subject
    assert respected > 500


def test_respect_goes_with_honoured_nouns_only(sentences):
    for words in sentences:
        for i, word in enumerate(words):
            if word in ("-께서", "-께서는", "-께"):
                assert HONOURED & set(words[max(0, i - 3) : i]), words
            if word == "-에게":
                assert not HONOURED & {words[i - 1]}, words
            if word == "분":
                assert words[i - 2] in HONOURED, words


def test_gifts_to_honoured_people_are_given_humbly(korean_pairs):
    met = 0
    for pair in korean_pairs:
        words = pair.target
        gives = [word for word in words if word.startswith(("드려", "드렸", "드리지", "빌려드", "보여드"))]
        if gives:
            assert "-께" in words, words
            met += 1
        if (
            "-께" in words
            and not {"who", "that", "and"} & set(pair.source)
            and {"give", "gives", "gave", "lend", "lends", "lent"} & set(pair.source)
        ):
            assert gives or "드릴" in words, words
    assert met > 20


def test_numbers_stand_after_their_noun_with_the_right_counter(sentences):
    counters = {noun.korean: noun.counter for noun in NOUNS}
    met = set()
    for words in sentences:
        for noun, numeral, counter in zip(words, words[1:], words[2:]):
            if numeral in NUMERALS:
                assert counter == counters[noun], words
                met.add(counter)
    assert met >= {"명", "마리", "개", "분", "권", "대", "벌"}


def test_topics_are_definite(korean_pairs):
    """An indefinite subject at the beginning is no topic."""
    for pair in korean_pairs:
        if pair.source[0] in ("a", "an", "some", "many", "two", "three", "four", "five"):
            first = next(word for word in pair.target if word in ("-은", "-는", "-이", "-가", "-께서", "-께서는"))
            assert first in ("-이", "-가", "-께서"), pair.target
        if pair.source[0] in {name.english[0] for name in NAMES} and "and" not in pair.source:
            assert pair.target[1] in ("-은", "-는"), pair.target


def test_negation_follows_the_verb(korean_pairs):
    negated = 0
    for pair in korean_pairs:
        negative = {"않아요", "않았어요", "않을", "않으세요", "않으셨어요", "않으실"} & set(pair.target)
        lacking = [word for word in pair.target if word.startswith(("없", "없으"))]
        assert bool(negative or lacking) == bool({"not", "never"} & set(pair.source)), pair
        for form in negative:
            assert pair.target[pair.target.index(form) - 1].endswith("지")
            negated += 1
    assert negated > 500
