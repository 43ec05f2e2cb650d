"""Expressing a meaning in Korean: the verb last, modifiers before their noun, particles, counters, respect.

Particles are separate words, written with a hyphen where they attach: 고양이 -가. A definite subject is the
topic (-은/-는), an indefinite one or that of a relative clause the subject (-이/-가); an honoured one has -께서(는),
and the verb -시-. The speech is polite throughout (-아요/-어요). Particles of subject, topic and object and counters
have no counterpart in English and are not aligned; neither are English articles, "do", and "is" before an adjective.
"""

from __future__ import annotations

from collections.abc import Hashable

from . import hangul
from .lexicon import (
    ADJECTIVES,
    ARRIVE_AT,
    BACK_TO,
    FREQUENCY,
    HAVE,
    HE,
    IT,
    MANNER,
    NAMES,
    NOUNS,
    SHE,
    THERE_BE,
    THEY,
    THINGS,
    TIMES,
    TO,
    VERBS,
    WHERE,
    Adjective,
    I,
    Verb,
)
from .meaning import Clause, Meaning, NounPhrase, Place, Word, expression

DETERMINERS = {"this": "이", "my": "제", "his": "그의", "her": "그녀의", "their": "그들의", "many": "많은"}
NUMERALS = {"two": "두", "three": "세", "four": "네", "five": "다섯", "some": "몇"}
OUR = "우리"  # Koreans say it for "my" family
NEVER = "절대"
Parts = tuple[Hashable, ...]


def say(meaning: Meaning) -> list[Word]:
    """The words of a sentence, including the final mark."""
    *first, last = meaning.clauses
    words: list[Word] = []
    for clause in first:
        words += _clause(clause, joined=("and",))
    return [*words, *_clause(last), Word("?" if meaning.question else ".", ("end",))]


def vocabulary() -> set[str]:
    """Every word that Korean can use."""
    words = {",", ".", "?", "거예요", "수", OUR, NEVER, "-들", *DETERMINERS.values(), *NUMERALS.values()}
    words |= {"-" + form for pair in hangul.PARTICLES.items() for form in pair}
    words |= {"-께서", "-께서는", "-에게", "-께", "-에"}
    words |= {"않아요", "않았어요", "않을", "않으세요", "않으셨어요", "않으실"}
    words |= {noun.korean for noun in [*NOUNS, *NAMES, I, HE, SHE, THEY, *IT.values(), *THINGS.values()]}
    words |= {noun.counter for noun in NOUNS if noun.countable}
    for adjective in ADJECTIVES:
        words.add(_attribute(adjective))
        if adjective.stem:
            words |= _forms(adjective.stem, honoured="person" in adjective.kinds)
    for verb in VERBS:
        words |= _forms(verb.stem, honoured=not verb.honorific)
        words.add(hangul.joined(verb.stem))
        if "recipient" not in verb.frames:
            words |= {hangul.imperfective(verb.stem), hangul.perfective(verb.stem)}
        words |= _honoured_forms(verb.honorific) if verb.honorific else set()
        words |= _forms(verb.humble, honoured=False) if verb.humble else set()
    words.add(hangul.joined(HAVE.stem))
    for stem in (HAVE.stem, HAVE.negative):
        words |= _forms(stem, honoured=True) - {hangul.negated(stem)}
    fixed = [*WHERE.values(), *FREQUENCY.values(), *MANNER.values(), *TIMES.values()]
    fixed += [*TO.values(), *BACK_TO.values(), ARRIVE_AT]
    return words | {text for e in fixed for text, _ in e.parsed["korean"]}


def _forms(stem: str, honoured: bool) -> set[str]:
    forms = {hangul.present(stem), hangul.past(stem), hangul.prospective(stem), hangul.negated(stem)}
    if honoured:
        forms |= _honoured_forms(hangul.honorific(stem)) - {hangul.negated(hangul.honorific(stem))}
    return forms


def _honoured_forms(stem: str) -> set[str]:
    return {hangul.honorific_present(stem), hangul.past(stem), hangul.prospective(stem), hangul.negated(stem)}


# ---- clauses


def _clause(c: Clause, joined: Parts = ()) -> list[Word]:
    """A clause; one `joined` to the next ends in "-고", aligned with the parts in `joined`."""
    words: list[Word] = []
    if c.time is not None and c.front:
        words += [*expression("korean", c.time, c), Word(",", ((c, "comma"),))]
    if c.verb is THERE_BE:
        assert c.place is not None
        *there, last = _place(c.place)
        return [*there, Word("-에", last.parts), *_with(c.subject, "이"), *_verb(c, c)]
    if c.gap != "subject":
        words += _subject(c)
    return words + _predicate(c, joined)


def _predicate(c: Clause, joined: Parts = ()) -> list[Word]:
    words: list[Word] = []
    if c.time is not None and not c.front:
        words += expression("korean", c.time, c)
    if c.frequency is not None:
        words += expression("korean", c.frequency, (c, "frequency"))
    if c.negation == "never":
        words.append(Word(NEVER, ((c, "not"),)))
    for place in (c.place, c.companion, c.goal):
        if place is not None:
            words += _place(place)
    if c.recipient is not None:
        words += _to(c.recipient, c)
    if c.object is not None and c.gap != "object":
        words += _object(c)
    if c.manner is not None:
        words += expression("korean", c.manner, (c, "manner"))
    if c.then is not None:
        words.append(Word(hangul.joined(c.verb.stem), ((c, "verb"), (c, "and"))))
        return [*words, *_object(c.then), *_verb(c.then, c)]
    if joined:
        words.append(Word(hangul.joined(c.verb.stem), ((c, "verb"), *joined)))
        return words
    return words + _verb(c, c)


def _subject(c: Clause) -> list[Word]:
    topic = c.subject.definite and not c.gap
    if _honoured(c.subject):
        return [*noun_phrase(c.subject), Word("-께서는" if topic else "-께서")]
    return _with(c.subject, "은" if topic else "이")


def _object(c: Clause) -> list[Word]:
    assert c.object is not None
    if c.verb.dative:
        return _to(c.object, c)
    return _with(c.object, "이" if c.verb is HAVE else "을")


def _to(np: NounPhrase, c: Clause) -> list[Word]:
    return [*noun_phrase(np), Word("-께" if _honoured(np) else "-에게", ((c, "to"),))]


def _place(place: Place) -> list[Word]:
    words = noun_phrase(place.of)
    for text, parts in expression("korean", place.preposition, place):
        if text == "-와":
            text = "-" + hangul.particle(words[-1].text, "과")
        elif text == "-로":
            text = "-" + hangul.particle(words[-1].text, "으로")
        words.append(Word(text, parts))
    return words


def _verb(c: Clause, of: Clause) -> list[Word]:
    """The verb of c with the ending for the subject, tense and negation of the clause `of`."""
    main: Parts = ((c, "verb"),)
    auxiliary, negation = (of, "auxiliary"), (of, "not")
    if c.gap:
        before_noun = hangul.perfective if c.tense == "past" else hangul.imperfective
        return [Word(before_noun(c.verb.stem), main)]
    stem = _stem(c.verb, c)
    if c.adjective is not None:
        stem, main = c.adjective.stem, ((c, "adjective"),)
    respect = _honoured(of.subject) and c.verb is not THERE_BE
    honoured_stem = c.verb.honorific or hangul.honorific(stem)
    can_not = of.negation and of.tense == "can"
    if of.negation and c.verb.negative:
        stem, main = c.verb.negative, (*main, negation)
        honoured_stem = hangul.honorific(stem)
    elif of.negation and not can_not:
        verb = Word(hangul.negated(c.verb.honorific if respect and c.verb.honorific else stem), main)
        return [verb, *_ended("않", hangul.honorific("않"), of.tense, respect, (negation,), auxiliary)]
    ability: tuple[Parts, str] = ((auxiliary,), HAVE.stem)
    if can_not:
        ability = ((auxiliary, negation), HAVE.negative)
    return _ended(stem, honoured_stem, of.tense, respect, main, auxiliary, ability)


def _ended(
    stem: str,
    honoured_stem: str,
    tense: str,
    respect: bool,
    main: Parts,
    auxiliary: Hashable,
    ability: tuple[Parts, str] = ((), ""),
) -> list[Word]:
    """A stem with the ending of its tense: "will" is -(으)ㄹ 거예요, "can" -(으)ㄹ 수 있어요."""
    if tense == "past":
        return [Word(hangul.past(honoured_stem if respect else stem), main)]
    if tense == "present":
        return [Word(hangul.honorific_present(honoured_stem) if respect else hangul.present(stem), main)]
    verb = Word(hangul.prospective(honoured_stem if respect else stem), main)
    if tense == "future":
        return [verb, Word("거예요", (auxiliary,))]
    parts, be = ability
    able = hangul.honorific_present(hangul.honorific(be)) if respect else hangul.present(be)
    return [verb, Word("수", (auxiliary,)), Word(able, parts)]


def _stem(verb: Verb, c: Clause) -> str:
    return verb.humble if verb.humble and c.recipient is not None and _honoured(c.recipient) else verb.stem


# ---- noun phrases


def _honoured(np: NounPhrase) -> bool:
    return np.noun.honoured and (np.other is None or np.other.noun.honoured)


def _with(np: NounPhrase, particle: str) -> list[Word]:
    words = noun_phrase(np)
    return [*words, Word("-" + hangul.particle(words[-1].text, particle))]


def noun_phrase(np: NounPhrase) -> list[Word]:
    """Relative clause, determiner, adjectives, noun, and after it the number with its counter."""
    noun, determiner = np.noun, (np, "determiner")
    words = _clause(np.relative) if np.relative is not None else []
    if np.determiner in DETERMINERS:
        family = np.determiner == "my" and "kin" in noun.kinds
        words.append(Word(OUR if family else DETERMINERS[np.determiner], (determiner,)))
    words += [Word(_attribute(adjective), ((np, adjective),)) for adjective in np.adjectives]
    words.append(Word(noun.korean, ((np, "noun"),)))
    if np.several and np.determiner in NUMERALS:
        words += [Word(NUMERALS[np.determiner], (determiner,)), Word(noun.counter)]
    elif np.several and np.determiner != "any" and noun.kinds & {"person", "animal"} and not np.pronoun:
        words.append(Word("-들", ((np, "noun"),)))
    if np.other is not None:
        words.append(Word("-" + hangul.particle(words[-1].text, "과"), ((np, "and"),)))
        words += noun_phrase(np.other)
    return words


def _attribute(adjective: Adjective) -> str:
    """The form of an adjective before the noun: -(으)ㄴ, and -는 for 있다 and its compounds."""
    if not adjective.stem:
        return adjective.attribute
    before_noun = hangul.imperfective if adjective.stem.endswith("있") else hangul.perfective
    return before_noun(adjective.stem)
