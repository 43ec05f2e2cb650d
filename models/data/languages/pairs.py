"""Sentence pairs with their true alignment, and the split into training and test pairs.

The split holds out combinations: of a verb and its object, of an adjective and its noun. A checksum of the two words
decides whether a combination is held out. Training never shows one; every test sentence has at least one. The words
themselves, and all constructions, occur in training.

Words with the same meaning are aligned, many to many: "ate" with "a mangé", "to the" with "au", "not" with "ne" and
"pas", "in front of" with "devant". Words without a counterpart are not: English "do" and "does" (and "did", if French
has no auxiliary), French "est-ce que", and those that `korean` lists. Every English sentence has one translation.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import ModuleType

from . import english, everyday, french, korean
from .lexicon import ADJECTIVES, NAMES, NOUNS, VERBS
from .meaning import Clause, Meaning, NounPhrase, Word, align
from .speaker import Speaker

LANGUAGES: dict[str, ModuleType] = {"en": english, "fr": french, "ko": korean}
NAMED: dict[ModuleType, str] = {english: "english", french: "french", korean: "korean"}
PAIRS = ("en-fr", "en-ko")
HELD_OUT = 8  # one in this many combinations
SHORTEST, LONGEST = 3, 20  # words, including the final mark


@dataclass(frozen=True)
class Pair:
    """A sentence in two languages.

    Attributes:
        source, target: the words, including punctuation.
        combinations: those that decide the split: (adjective, noun) and (verb, noun), in English.
        said: the words of both with the parts of the meaning that they express.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    combinations: tuple[tuple[str, str], ...]
    said: tuple[list[Word], list[Word]] = field(repr=False, compare=False)

    @cached_property  # training does not need it, and draws hundreds of pairs for a step
    def alignment(self) -> frozenset[tuple[int, int]]:
        """Pairs (source index, target index) of words with the same meaning."""
        return align(*self.said)

    @property
    def held_out(self) -> bool:
        """True if it has a combination of words that training never shows."""
        return _any_held_out(self.combinations)


def pairs(name: str, seed: int | str, held_out: bool, everyday_too: bool = False) -> Iterator[Pair]:
    """Endless sentence pairs, for training or for testing.

    Args:
        name: "en-fr" or "en-ko".
        seed: determines all pairs.
        held_out: if True, every pair has a combination that is kept for testing; if False, none has.
        everyday_too: whether training also has everyday sentences among those of the grammar, see `everyday`.

    Raises ValueError for another name.
    """
    speaker = everyday.EverydaySpeaker(seed) if everyday_too and not held_out else Speaker(seed)
    languages_of(name)
    while True:
        meaning = speaker.meaning()
        if _any_held_out(tuple(meaning.combinations)) == held_out:
            pair = translate(name, meaning)
            if all(SHORTEST <= len(side) <= LONGEST for side in (pair.source, pair.target)):
                yield pair


def languages_of(name: str) -> tuple[ModuleType, ModuleType]:
    """The languages of a pair, source and target.

    Raises ValueError for another name.
    """
    if name not in PAIRS:
        raise ValueError(f"unknown pair of languages {name!r}; expected one of {', '.join(PAIRS)}")
    source, target = name.split("-")
    return LANGUAGES[source], LANGUAGES[target]


def translate(name: str, meaning: Meaning) -> Pair:
    """A meaning in both languages of a pair, with the alignment."""
    said, translated = (everyday.say(meaning, NAMED[language], language) for language in languages_of(name))
    return Pair(
        tuple([word.text for word in said]),
        tuple([word.text for word in translated]),
        tuple(meaning.combinations),
        (said, translated),
    )


def crossing(name: str) -> Pair:
    """The sentence for pictures: adjective and noun cross in French, verb and object in Korean.

    English-French: "the black cat eats the fresh bread ."; English-Korean: "Marie buys a red hat ."
    """
    nouns = {noun.english[0]: noun for noun in (*NOUNS, *NAMES)}
    verbs = {verb.english[0]: verb for verb in VERBS}
    adjectives = {adjective.english: adjective for adjective in ADJECTIVES}
    languages_of(name)
    if name == "en-fr":
        cat = NounPhrase(nouns["cat"], "the", adjectives=(adjectives["black"],))
        bread = NounPhrase(nouns["bread"], "the", adjectives=(adjectives["fresh"],))
        combinations = [("black", "cat"), ("fresh", "bread"), ("eat", "bread")]
        return translate(name, Meaning((Clause(cat, verbs["eat"], object=bread),), combinations))
    hat = NounPhrase(nouns["hat"], "a", adjectives=(adjectives["red"],))
    clause = Clause(NounPhrase(nouns["Marie"]), verbs["buy"], object=hat)
    return translate(name, Meaning((clause,), [("red", "hat"), ("buy", "hat")]))


def written(words: Sequence[str], language: str) -> str:
    """Words as a text, without spaces before particles and punctuation and after elided words."""
    text = ""
    for word in words:
        particle = word.startswith("-")
        attached = particle or word in (".", ",") or (word == "?" and language != "fr")
        text += ("" if attached or not text or text.endswith("'") else " ") + word[particle:]
    return text


def _any_held_out(combinations: tuple[tuple[str, str], ...]) -> bool:
    return any(_held_out(*combination) for combination in combinations)


@cache
def _held_out(word: str, noun: str) -> bool:
    return zlib.crc32(f"{word} {noun}".encode()) % HELD_OUT == 0
