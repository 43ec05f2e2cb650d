"""A speaker makes random meanings, from words that go together.

It draws everything from `random.Random.random`, whose sequence Python guarantees for a seed, so that a seed gives the
same sentences everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from .lexicon import (
    ADJECTIVES,
    ARRIVE_AT,
    BACK_TO,
    BE,
    FREQUENCY,
    HAVE,
    HE,
    MANNER,
    NAMES,
    NOUNS,
    SHE,
    THERE_BE,
    THEY,
    TIMES,
    TIMES_OF,
    TO,
    TOWARD,
    VERBS,
    WHERE,
    WITH_SOMEBODY,
    WITH_SOMETHING,
    Expression,
    I,
    Noun,
    Verb,
    pronoun_for,
)
from .meaning import Clause, Meaning, NounPhrase, Place

T = TypeVar("T")

PEOPLE = [noun for noun in NOUNS if "person" in noun.kinds]
COMMON_PEOPLE = [person for person in PEOPLE if not person.honoured]
HONOURED_PEOPLE = [person for person in PEOPLE if person.honoured]
PLACES = [noun for noun in NOUNS if "place" in noun.kinds]
THERE = [noun for noun in NOUNS if noun.kinds & {"animal", "thing", "young", "tree"}]
ADJECTIVES_OF = {noun: [adjective for adjective in ADJECTIVES if adjective.kinds & noun.kinds] for noun in NOUNS}
PREDICATES = [adjective for adjective in ADJECTIVES if adjective.stem]
OBJECTS_OF = {verb: [noun for noun in NOUNS if noun.kinds & verb.objects] for verb in [*VERBS, HAVE]}
TAKING = {
    noun: [verb for verb in VERBS if noun in OBJECTS_OF[verb] and not verb.dative and "recipient" not in verb.frames]
    for noun in NOUNS
}
SECOND = {noun: [verb for verb in verbs if "second" in verb.frames] for noun, verbs in TAKING.items()}
DOING = {
    kind: [v for v in VERBS if kind in v.subjects and "recipient" not in v.frames] for kind in ("person", "animal")
}


def _weighted(**weights: int) -> tuple[str, ...]:
    """Each word repeated by its weight."""
    return tuple(word for word, weight in weights.items() for _ in range(weight))


POSSESSIVE = ("my", "his", "her", "their")
SINGULAR = _weighted(the=8, a=5, this=1, my=2, his=1, her=1, their=1)
PLURAL = _weighted(the=6, this=1, my=1, his=1, her=1, their=1, two=1, three=1, four=1, five=1, some=2, many=2)
MASS = _weighted(the=3, some=2, this=1, my=1, his=1, her=1, their=1)
DEFINITE = _weighted(the=3, this=1, my=1, his=1, her=1, their=1)
FAMILY = _weighted(the=1, my=2, his=1, her=1, their=1)
ONE, FEW = ("a",), ("two", "three", "some", "many")
TENSES = _weighted(present=8, past=7, future=3, can=2)


class Speaker:
    """Makes meanings.

    Args:
        seed: determines all meanings.
    """

    def __init__(self, seed: int | str) -> None:
        self._random: Callable[[], float] = random.Random(seed).random
        self._combinations: list[tuple[str, str]] = []

    def meaning(self) -> Meaning:
        """Make the next meaning."""
        self._combinations = []
        kind = self._random()
        if kind < 0.06:
            clauses: tuple[Clause, ...] = (self._there_is(),)
        elif kind < 0.20:
            clauses = (self._description(),)
        elif kind < 0.28:
            tense = self._pick(TENSES[:-2])
            first = self._action(tense, simple=True, respect=False)
            second = self._action(tense, simple=True, besides=first.subject)
            if first.tense != second.tense:
                return self.meaning()  # Korean expresses the tense once
            clauses = first, second
        else:
            clauses = (self._action(self._pick(TENSES)),)
        return Meaning(clauses, self._combinations)

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random() * len(choices))]

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    # ---- clauses

    def _there_is(self) -> Clause:
        subject = self._thing(self._pick(THERE), FEW)
        tense = "past" if self._chance(0.4) else "present"
        return Clause(subject, THERE_BE, tense, place=self._where())

    def _description(self) -> Clause:
        """A clause that describes somebody or something by an adjective."""
        tense = self._pick(TENSES[:-2])
        question, negated = self._chance(0.15), self._chance(0.2)
        adjective = self._pick(PREDICATES)
        if "person" in adjective.kinds and self._chance(0.7):
            subject = self._somebody(besides=(I,))
        else:
            noun = self._pick([noun for noun in NOUNS if noun.kinds & adjective.kinds])
            subject = self._thing(noun, DEFINITE, plain=True)
        self._combine(adjective.english, subject)
        negation = "not" if negated and not question else ""
        return Clause(subject, BE, tense, negation, adjective=adjective, question=question)

    def _action(
        self, tense: str, simple: bool = False, respect: bool = True, besides: NounPhrase | None = None
    ) -> Clause:
        """A clause about somebody who does something.

        Args:
            simple: neither negated nor a question, with little around it.
            respect: whether the subject may be honoured.
            besides: a noun phrase whose noun cannot be the subject.
        """
        verb = HAVE if tense != "can" and self._chance(0.05) else self._pick(VERBS)
        negation = ""
        if not simple and self._chance(0.2):
            negation = "never" if verb is not HAVE and tense in ("present", "past") and self._chance(0.3) else "not"
        question = not simple and not negation and self._chance(0.1)
        subject = self._subject(verb, bool(negation) or question, respect, besides)
        tense = self._clear(tense, verb, subject, bool(negation == "not" or question))
        c = Clause(subject, verb, tense, negation, question=question)
        if verb.transitive:
            self._add_object(c, respect)
        if simple:
            self._add_goal(c)
            return c
        if c.object is not None and not (negation or question) and self._chance(0.35) and self._add_second(c):
            return c
        self._add_circumstances(c)
        return c

    @staticmethod
    def _clear(tense: str, verb: Verb, subject: NounPhrase, auxiliary: bool) -> str:
        """The tense, or the present if English or French would be ambiguous.

        "They read" does not show the tense, and only a man says "je suis allé".
        """
        first = subject.noun is I
        silent = verb.english[0] == verb.english[2] and (first or subject.plural) and not auxiliary
        return "present" if tense == "past" and (silent or (first and verb.être)) else tense

    def _add_object(self, c: Clause, respect: bool) -> None:
        verb = c.verb
        if "person" in verb.objects and self._chance(0.25):
            if self._chance(0.5):
                c.object = NounPhrase(self._pick([name for name in NAMES if name is not c.subject.noun]))
            else:
                c.object = self._pronoun((HE, SHE, THEY))
            return
        noun = self._pick(OBJECTS_OF[verb])
        while noun is c.subject.noun or (c.subject.other is not None and noun is c.subject.other.noun):
            noun = self._pick(OBJECTS_OF[verb])
        determiners: Sequence[str] | None = None
        if "place" in noun.kinds or (verb.dative and c.negation):
            determiners = DEFINITE
        elif verb is HAVE:
            determiners = FEW
        c.object = self._thing(
            noun, determiners, relatives=not c.negation and "recipient" not in verb.frames, any=bool(c.negation)
        )
        self._combine(verb.english[0], c.object)
        if "recipient" in verb.frames:
            who = self._random()
            if who < 0.3:
                c.recipient = self._pronoun((HE, SHE, THEY))
            else:
                taken = (c.subject.noun, noun)
                people: Sequence[Noun] = (
                    NAMES if who < 0.5 else PEOPLE if respect and not c.subject.noun.honoured else COMMON_PEOPLE
                )
                recipient = self._pick([person for person in people if person not in taken])
                c.recipient = self._thing(recipient, DEFINITE, plain=True)
        elif verb is not HAVE and not c.negation and "place" not in noun.kinds and self._chance(0.08):
            other = self._pick(OBJECTS_OF[verb])
            alike = other.honoured == noun.honoured and other not in (noun, c.subject.noun)
            if alike and c.object.relative is None and not c.object.adjectives:
                c.object.other = self._thing(other, plain=True)
                self._combine(verb.english[0], c.object.other)

    def _add_second(self, c: Clause) -> bool:
        """ "... and reads it": a second verb with the same object."""
        thing = c.object
        assert thing is not None
        if c.tense == "can" or thing.pronoun or thing.other is not None or "name" in thing.noun.kinds:
            return False
        if c.recipient is not None or c.verb.dative or c.verb is HAVE or "last" in c.verb.frames:
            return False
        fitting = [v for v in SECOND[thing.noun] if v is not c.verb and c.subject.noun.kinds & v.subjects]
        fitting = [v for v in fitting if self._clear(c.tense, v, c.subject, False) == c.tense]
        if not fitting:
            return False
        verb = self._pick(fitting)
        pronoun = pronoun_for(thing.noun, thing.several)
        c.then = Clause(c.subject, verb, c.tense, object=NounPhrase(pronoun, several=pronoun.plural))
        self._combine(verb.english[0], thing)
        return True

    def _add_goal(self, c: Clause) -> None:
        frames = c.verb.frames
        if "arrival" in frames:
            c.goal = Place(ARRIVE_AT, self._place_of([place for place in PLACES if "at" in place.kinds]))
        elif "direction" in frames and self._chance(0.5):
            c.goal = Place(TOWARD, self._place_of(PLACES))
        elif frames & {"destination", "back"}:
            where = self._place_of(PLACES)
            to = BACK_TO if "back" in frames else TO
            c.goal = Place(to["at" if "at" in where.noun.kinds else "in"], where)

    def _add_circumstances(self, c: Clause) -> None:
        """Add at most two of where, with whom, how and when."""
        self._add_goal(c)
        if "stative" in c.verb.frames or (c.object is not None and c.object.relative is not None):
            return  # after a relative clause it would belong to that one
        frames, room = c.verb.frames, 2
        if "tool" in frames and self._chance(0.3):
            tool = self._pick([noun for noun in NOUNS if noun.kinds & c.verb.tools])
            c.companion = Place(WITH_SOMETHING, self._thing(tool, SINGULAR, plain=True, several=False))
            room -= 1
        elif "companion" in frames and self._chance(0.15):
            who = self._pick([person for person in (*PEOPLE, *NAMES) if person is not c.subject.noun])
            c.companion = Place(WITH_SOMEBODY, self._thing(who, DEFINITE, plain=True))
            room -= 1
        if "place" in frames and self._chance(0.25):
            c.place = self._where()
            room -= 1
        if room and "manner" in frames and not c.negation and self._chance(0.2):
            c.manner = self._pick(EXPRESSIONS_OF_MANNER)
            room -= 1
        often = c.tense in ("present", "past") and not c.negation and c.verb is not HAVE
        if room and often and self._chance(0.12):
            c.frequency = self._pick(EXPRESSIONS_OF_FREQUENCY)
        elif room and c.verb is not HAVE and c.negation != "never" and self._chance(0.25):
            c.time = TIMES[self._pick(TIMES_OF[c.tense])]
            c.front = not c.question and self._chance(0.4)

    def _where(self) -> Place:
        place = self._place_of(PLACES)
        own = "at" if "at" in place.noun.kinds else "in"
        return Place(WHERE[own if self._chance(0.6) else self._pick(("near", "behind", "in front of"))], place)

    # ---- noun phrases

    def _subject(self, verb: Verb, definite: bool, respect: bool, besides: NounPhrase | None) -> NounPhrase:
        taken = (besides.noun,) if besides is not None else ()
        if "animal" in verb.subjects and self._chance(0.5):
            animals = [noun for noun in NOUNS if "animal" in noun.kinds and noun not in taken]
            return self._thing(self._pick(animals), DEFINITE if definite else None, relatives=respect)
        return self._somebody(definite, respect, taken)

    def _somebody(self, definite: bool = True, respect: bool = True, besides: Sequence[Noun] = ()) -> NounPhrase:
        who = self._random()
        names = [name for name in NAMES if name not in besides]
        if who < 0.2:
            pronouns = [pronoun for pronoun in (I, I, HE, SHE, THEY) if pronoun not in besides]
            return self._pronoun(pronouns)
        if who < 0.4:
            return NounPhrase(self._pick(names))
        people = HONOURED_PEOPLE if respect and self._chance(0.2) else COMMON_PEOPLE
        people = [person for person in people if person not in besides]
        noun = self._pick(people)
        if who < 0.5:
            alike = [person for person in (*names, *people) if person is not noun and person.honoured == noun.honoured]
            first = self._thing(noun, ("the", "my", "his", "her"), plain=True, several=False)
            first.other = self._thing(self._pick(alike), ("the", "my", "his", "her"), plain=True, several=False)
            return first
        return self._thing(noun, DEFINITE if definite else None, relatives=respect)

    def _pronoun(self, choices: Sequence[Noun]) -> NounPhrase:
        pronoun = self._pick(choices)
        return NounPhrase(pronoun, several=pronoun is THEY)

    def _place_of(self, places: Sequence[Noun]) -> NounPhrase:
        np = self._thing(self._pick(places), DEFINITE, plain=True)
        if self._chance(0.1):
            self._describe(np)
        return np

    def _thing(
        self,
        noun: Noun,
        determiners: Sequence[str] | None = None,
        *,
        plain: bool = False,
        several: bool | None = None,
        relatives: bool = False,
        any: bool = False,
    ) -> NounPhrase:
        """A noun with its determiner.

        Args:
            determiners: the determiners to choose from; default: all that the number allows.
            plain: if True, no adjectives.
            several: whether plural; default: at random.
            relatives: whether a relative clause may follow.
            any: the word that replaces "some" under negation.
        """
        if "name" in noun.kinds:
            return NounPhrase(noun)
        mass = "mass" in noun.kinds
        if several is None:
            several = noun.countable and self._chance(0.4)
        if determiners is FEW:
            determiners = FEW if several else ONE
        elif determiners is None:
            determiners = MASS if mass else PLURAL if several else SINGULAR
        determiner = self._pick(FAMILY if "kin" in noun.kinds else determiners)
        if determiner in POSSESSIVE and noun.kinds & {"person", "place"} and not noun.kinds & {"kin", "own"}:
            determiner = "the"
        if any and determiner == "some":
            determiner = "any"
        np = NounPhrase(noun, determiner, several)
        if plain:
            return np
        if self._chance(0.3):
            self._describe(np)
        elif relatives and determiner in ("the", "a") and not noun.honoured and self._chance(0.3):
            self._relate(np)
        return np

    def _describe(self, np: NounPhrase) -> None:
        """Add an adjective, or one that precedes the French noun and one that follows it."""
        choices = ADJECTIVES_OF[np.noun]
        if not choices:
            return
        first = self._pick(choices)
        np.adjectives = (first,)
        if first.before and self._chance(0.2):
            after = [adjective for adjective in choices if not adjective.before]
            if after:
                np.adjectives = (first, self._pick(after))
        for adjective in np.adjectives:
            self._combine(adjective.english, np)

    def _relate(self, np: NounPhrase) -> None:
        """Add a relative clause."""
        tense = "past" if self._chance(0.65) else "present"
        kind = next((kind for kind in ("person", "animal") if kind in np.noun.kinds), None)
        if kind is not None and self._chance(0.5):
            verb = self._pick(DOING[kind])
            c = Clause(np, verb, self._clear(tense, verb, np, False), gap="subject")
            if verb.transitive:
                noun = self._pick([noun for noun in OBJECTS_OF[verb] if noun is not np.noun])
                c.object = self._thing(noun, DEFINITE, plain=True)
                self._combine(verb.english[0], c.object)
            self._add_goal(c)
        else:
            if not TAKING[np.noun]:
                return
            verb = self._pick(TAKING[np.noun])
            who = self._random()
            if who < 0.4:
                subject = NounPhrase(self._pick(NAMES))
            elif who < 0.6:
                subject = self._pronoun((HE, SHE, THEY))
            else:
                people = [person for person in COMMON_PEOPLE if person is not np.noun]
                subject = self._thing(self._pick(people), DEFINITE, plain=True)
            c = Clause(subject, verb, self._clear(tense, verb, subject, False), object=np, gap="object")
            self._combine(verb.english[0], np)
        np.relative = c

    def _combine(self, word: str, np: NounPhrase) -> None:
        if not np.noun.kinds & {"name", "pronoun"}:
            self._combinations.append((word, np.noun.english[0]))


EXPRESSIONS_OF_MANNER: list[Expression] = list(MANNER.values())
EXPRESSIONS_OF_FREQUENCY: list[Expression] = list(FREQUENCY.values())
