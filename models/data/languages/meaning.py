"""The meaning of a sentence, before any language expresses it.

A meaning is a small tree: clauses with their subject, verb, object and other parts. Each language expresses the same
tree in its own order and with its own agreement, which makes the grammar synchronous. Every word names its part of the
tree, so the alignment of two sentences is known: words of the same part are aligned, function words without a
counterpart are not.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from .lexicon import Adjective, Expression, Noun, Pronoun, Verb


@dataclass(eq=False, slots=True)
class NounPhrase:
    """A noun, name or pronoun with its modifiers.

    Attributes:
        determiner: the English one, "this" for "these" too; "" for none.
        relative: a clause whose subject or object is this noun phrase itself (its `gap` says which).
        other: a noun phrase joined to it by "and".
    """

    noun: Noun
    determiner: str = ""
    several: bool = False
    adjectives: tuple[Adjective, ...] = ()
    relative: Clause | None = None
    other: NounPhrase | None = None

    @property
    def plural(self) -> bool:
        return self.several or self.other is not None

    @property
    def gender(self) -> str:
        """Masculine wins."""
        return "m" if self.other is not None and self.other.noun.gender == "m" else self.noun.gender

    @property
    def pronoun(self) -> bool:
        return isinstance(self.noun, Pronoun)

    @property
    def definite(self) -> bool:
        return self.determiner in ("", "the", "this", "my", "his", "her", "their")


@dataclass(eq=False, slots=True)
class Place:
    """A preposition and a place, a destination, a companion or a tool."""

    preposition: Expression
    of: NounPhrase


@dataclass(eq=False, slots=True)
class Clause:
    """A subject and its predicate.

    Attributes:
        tense: "present", "past", "future" or "can".
        negation: "", "not" or "never".
        adjective: the predicate if the verb is "be".
        goal, companion, place: "to the school", "with a friend" or "with a knife", "in the garden".
        front: True if the time comes first.
        then: a second verb with the same subject; its object is a pronoun.
        gap: "subject" or "object": the part that a relative clause leaves out, since it precedes the clause.
    """

    subject: NounPhrase
    verb: Verb
    tense: str = "present"
    negation: str = ""
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    adjective: Adjective | None = None
    goal: Place | None = None
    companion: Place | None = None
    place: Place | None = None
    frequency: Expression | None = None
    manner: Expression | None = None
    time: Expression | None = None
    front: bool = False
    question: bool = False
    then: Clause | None = None
    gap: str = ""


@dataclass(eq=False, slots=True)
class Meaning:
    """One clause, or two joined by "and".

    Attributes:
        combinations: pairs of an adjective and its noun, and of a verb and its object, by their English names.
    """

    clauses: tuple[Clause, ...]
    combinations: list[tuple[str, str]]

    @property
    def question(self) -> bool:
        return self.clauses[0].question


class Word(NamedTuple):
    """A word of a sentence and the parts of the meaning that it expresses."""

    text: str
    parts: tuple[Hashable, ...] = ()


def expression(language: str, of: Expression, owner: object) -> list[Word]:
    """The words of a fixed expression in a language."""
    return [Word(text, tuple([(owner, digit) for digit in digits])) for text, digits in of.parsed[language]]


def align(source: list[Word], target: list[Word]) -> frozenset[tuple[int, int]]:
    """The pairs (source index, target index) of words that express the same part of the meaning."""
    places: dict[Hashable, list[int]] = {}
    for i, word in enumerate(source):
        for part in word.parts:
            places.setdefault(part, []).append(i)
    return frozenset((i, j) for j, word in enumerate(target) for part in word.parts for i in places.get(part, ()))
