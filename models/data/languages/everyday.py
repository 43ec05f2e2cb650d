"""Everyday sentences, for users to type: greetings, requests, a thief. The default corpus has none.

    hi, my name is Kyoungmin.           give me a second, please.           I came second in the exam.
    give me the second book, please.    my dog chases after the thief.

"Second" is an example of a word with a meaning that depends on its neighbours: seconde, deuxième; 잠깐, 2등, 두번째.
None of these sentences is kept for testing, so the test pairs are the same with and without them.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

from . import english, french, hangul, korean
from .lexicon import NAMES, NOUNS, Adjective, Expression, I, Noun, Verb
from .meaning import Clause, Meaning, NounPhrase, Word
from .speaker import COMMON_PEOPLE, DEFINITE, FAMILY, POSSESSIVE, TENSES, Speaker

SHARE = 0.15  # of the sentences of an `EverydaySpeaker`


def _name(english: str, gender: str, korean: str) -> Noun:
    kinds = frozenset({"person", "name"})
    return Noun(english=(english, english), french=(english, english), gender=gender, korean=korean, kinds=kinds)


MORE_NAMES = [
    *NAMES,
    _name("Kyoungmin", "m", "경민"),
    _name("John", "m", "존"),
    _name("Mary", "f", "메리"),
    _name("Tom", "m", "톰"),
]
THIEF = Noun(
    english=("thief", "thieves"),
    french=("voleur", "voleurs"),
    gender="m",
    korean="도둑",
    counter="명",
    kinds=frozenset({"person", "adult"}),
)
CHASE = Verb(
    english=("chase after", "chases after", "chased after"),
    infinitive="poursuivre",
    present=("poursuis", "poursuit", "poursuivent"),
    participle="poursuivi",
    stem="뒤쫓",
    subjects=frozenset({"person", "animal"}),
    objects=frozenset({"person"}),
)
SECOND = Adjective(
    english="second",
    french=("deuxième", "deuxième", "deuxième"),
    before=True,
    stem="",
    attribute="두번째",
    kinds=frozenset({"portable", "baked", "fruit"}),
)
GIVEN = [noun for noun in NOUNS if noun.kinds & SECOND.kinds]
ANIMALS = [noun for noun in NOUNS if "animal" in noun.kinds]

# {} is the place of a noun phrase; Korean particles have their form after a consonant here
NAME = Expression(
    "hi:1 ,:2 my:3 name:4 is:5 {} .:6",
    "salut:1 ,:2 mon:3 nom:4 est:5 {} .:6",
    "안녕:1 ,:2 내:3 이름:4 -은 {} -이야:5 .:6",
)
HI = Expression("hi:1 ,:2 {} .:3", "salut:1 ,:2 {} .:3", "안녕:1 ,:2 {} .:3")
REQUEST = Expression(
    "give:1 me:2 {} ,:3 please:4 .:5",
    "donne-moi:12 {} ,:3 s'il:4 te:4 plaît:4 .:5",
    "{} -을 주세요:124 .:5",
)
MOMENT = Expression(
    "give:1 me:2 a:3 second:4 ,:5 please:6 .:7",
    "donne-moi:12 une:3 seconde:4 ,:5 s'il:6 te:6 plaît:6 .:7",
    "잠깐:34 -만:34 기다려:12 주세요:6 .:7",
)
I_IN_EXAM = Expression(
    "I:1 came:2 second:3 in:4 the:5 exam:6 .:7",
    "je:1 ai:2 fini:2 deuxième:3 à:4 le:5 examen:6 .:7",
    "저:1 -는 시험:6 -에서:4 2등:3 -을 했어요:2 .:7",
)
IN_EXAM = Expression(
    "{} came:2 second:3 in:4 the:5 exam:6 .:7",
    "{} a:2 fini:2 deuxième:3 à:4 le:5 examen:6 .:7",
    "{} -은 시험:6 -에서:4 2등:3 -을 했어요:2 .:7",
)


class Phrase(Meaning):
    """A fixed sentence, with a noun phrase in its open place, if it has one."""

    __slots__ = ("filled", "frame")

    def __init__(self, frame: Expression, filled: NounPhrase | None = None) -> None:
        super().__init__((), [])
        self.frame, self.filled = frame, filled

    def said(self, name: str, language: ModuleType) -> list[Word]:
        """The words of the sentence in the language with this name."""
        words: list[Word] = []
        for text, digits in self.frame.parsed[name]:
            if text == "{}":
                assert self.filled is not None
                words += language.noun_phrase(self.filled)
            else:
                parts = tuple([(self, digit) for digit in digits])
                words.append(Word(_particle(text, words[-1].text) if text in PARTICLES else text, parts))
        return french.joined(words) if language is french else words


PARTICLES = ("-은", "-을", "-이야")


def _particle(text: str, after: str) -> str:
    if text == "-이야":
        return text if hangul.particle(after, "이") == "이" else "-야"
    return "-" + hangul.particle(after, text[1:])


class EverydaySpeaker(Speaker):
    """Makes meanings of the grammar, mixed with everyday sentences."""

    def meaning(self) -> Meaning:
        """Make the next meaning."""
        if not self._chance(SHARE):
            return super().meaning()
        kind = self._random()
        name = NounPhrase(self._pick(MORE_NAMES))
        if kind < 0.2:
            return Phrase(self._pick((NAME, NAME, HI)), name)
        if kind < 0.3:
            return Phrase(MOMENT)
        if kind < 0.5:
            return Phrase(REQUEST, self._given())
        if kind < 0.6:
            return Phrase(I_IN_EXAM)
        if kind < 0.7:
            return Phrase(IN_EXAM, name if self._chance(0.5) else self._one(COMMON_PEOPLE))
        return Meaning((self._chase(),), [])

    def _given(self) -> NounPhrase:
        noun = self._pick(GIVEN)
        if noun.countable and self._chance(0.5):
            return NounPhrase(noun, "the", adjectives=(SECOND,))
        return NounPhrase(noun, self._pick(DEFINITE))

    def _one(self, nouns: list[Noun]) -> NounPhrase:
        noun = self._pick(nouns)
        determiner = self._pick(FAMILY if "kin" in noun.kinds else DEFINITE)
        if determiner in POSSESSIVE and "person" in noun.kinds and not noun.kinds & {"kin", "own"}:
            determiner = "the"
        return NounPhrase(noun, determiner)

    def _chase(self) -> Clause:
        who = self._random()
        subject = self._one(ANIMALS if who < 0.5 else COMMON_PEOPLE)
        if who > 0.7:
            subject = NounPhrase(self._pick([*MORE_NAMES, I]))
        thief = NounPhrase(THIEF, self._pick(("the", "the", "this", "a")))
        if self._chance(0.2):
            thief = NounPhrase(THIEF, self._pick(("the", "two", "three")), several=True)
        negation = "not" if self._chance(0.15) else ""
        if negation and not thief.definite:
            thief.determiner = "the"
        return Clause(subject, CHASE, self._pick(TENSES), negation, object=thief)


def say(meaning: Meaning, name: str, language: ModuleType) -> list[Word]:
    """The words of a meaning or of a phrase."""
    return meaning.said(name, language) if isinstance(meaning, Phrase) else language.say(meaning)


@cache
def vocabulary(name: str) -> frozenset[str]:
    """Every word of the everyday sentences, in "english", "french" or "korean"."""
    language = {"english": english, "french": french, "korean": korean}[name]
    meanings: list[Meaning] = [Phrase(frame, NounPhrase(who)) for frame in (NAME, HI, IN_EXAM) for who in MORE_NAMES]
    meanings += [Phrase(MOMENT), Phrase(I_IN_EXAM)]
    meanings += [Phrase(REQUEST, NounPhrase(noun, "the", adjectives=(SECOND,))) for noun in GIVEN if noun.countable]
    for subject in (NounPhrase(I), NounPhrase(NAMES[0]), NounPhrase(NAMES[4])):
        for several in (False, True):
            for tense in dict.fromkeys(TENSES):
                for negation in ("", "not"):
                    thief = NounPhrase(THIEF, "the", several)
                    meanings.append(Meaning((Clause(subject, CHASE, tense, negation, object=thief),), []))
    meanings.append(Meaning((Clause(NounPhrase(I), CHASE, object=NounPhrase(THIEF, "two", True)),), []))
    return frozenset(word.text for meaning in meanings for word in say(meaning, name, language))
