"""Expressing a meaning in English."""

from __future__ import annotations

from .lexicon import (
    ADJECTIVES,
    ARRIVE_AT,
    BE,
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
    TOWARD,
    VERBS,
    WHERE,
    WITH_SOMEBODY,
    I,
    Pronoun,
    Verb,
)
from .meaning import Clause, Meaning, NounPhrase, Place, Word, expression

ARTICLES = {"the", "a", "an", "this", "these", "some", "any", "many", "two", "three", "four", "five"}
POSSESSIVES = {"my", "his", "her", "their"}


def say(meaning: Meaning) -> list[Word]:
    """The words of a sentence, including the final mark."""
    words: list[Word] = []
    for clause in meaning.clauses:
        if words:
            words.append(Word("and", ("and",)))
        words += _clause(clause)
    words.append(Word("?" if meaning.question else ".", ("end",)))
    return words


def vocabulary() -> set[str]:
    """Every word that English can use."""
    words = {"and", ",", ".", "?", "that", "who", "there", *ARTICLES, *POSSESSIVES}
    words |= {"not", "never", "do", "does", "did", "will", "can", "to", "be", "is", "are", "was", "were"}
    words |= {pronoun.english[0] for pronoun in (I, HE, SHE, THEY)}
    words |= {pronoun.accusative for pronoun in (HE, SHE, THEY, *IT.values(), *THINGS.values())}
    words |= {noun.english[0] for noun in NOUNS + NAMES}
    words |= {noun.english[1] for noun in NOUNS if noun.countable}
    words |= {adjective.english for adjective in ADJECTIVES}
    words |= {word for verb in [*VERBS, HAVE] for form in verb.english for word in form.split()}
    fixed = [*WHERE.values(), *FREQUENCY.values(), *MANNER.values(), *TIMES.values(), *TO.values()]
    fixed += [ARRIVE_AT, TOWARD, WITH_SOMEBODY]
    return words | {text for e in fixed for text, _ in e.parsed["english"]}


def _clause(c: Clause) -> list[Word]:
    words: list[Word] = []
    if c.time is not None and c.front:
        words += [*expression("english", c.time, c), Word(",", ((c, "comma"),))]
    if c.verb is THERE_BE:
        words.append(Word("there", ((c, "there"),)))
        return [*words, Word(_be(c.subject, c.tense), ((c, "verb"),)), *noun_phrase(c.subject), *_rest(c)]
    auxiliary, verb = _verb(c)
    subject = noun_phrase(c.subject)
    if c.question:
        words += auxiliary + subject + verb
    else:
        words += subject + auxiliary + verb
    return words + _rest(c)


def _verb(c: Clause) -> tuple[list[Word], list[Word]]:
    """The auxiliary, and the rest with "not" and adverbs; a question puts the subject between them."""
    middle = [Word(c.negation, ((c, "not"),))] if c.negation else []
    if c.frequency is not None:
        middle += expression("english", c.frequency, (c, "frequency"))
    verb = c.verb
    adjective = [Word(c.adjective.english, ((c, "adjective"),))] if c.adjective is not None else []
    if c.tense in ("future", "can"):
        auxiliary = Word("will" if c.tense == "future" else "can", ((c, "auxiliary"),))
        return [auxiliary], middle + _verb_words(verb, verb.english[0], c) + adjective
    if verb is BE:
        return [Word(_be(c.subject, c.tense), ((c, "verb"),))], middle + adjective
    past = c.tense == "past"
    third = not c.subject.plural and c.subject.noun is not I
    if c.negation == "not" or c.question:
        auxiliary = Word("did" if past else "does" if third else "do", ((c, "auxiliary"),))
        return [auxiliary], middle + _verb_words(verb, verb.english[0], c)
    form = verb.english[2 if past else 1 if third else 0]
    return [], middle + _verb_words(verb, form, c, "auxiliary")  # the tense is in the verb itself


def _verb_words(verb: Verb, form: str, c: Clause, *more: str) -> list[Word]:
    parts = tuple([(c, role) for role in ("verb", *more)])
    return [Word(text, ((c, "to"),) if text == "to" else parts) for text in form.split()]


def _be(subject: NounPhrase, tense: str) -> str:
    if tense == "past":
        return "were" if subject.plural else "was"
    return "are" if subject.plural else "is"


def _rest(c: Clause) -> list[Word]:
    words: list[Word] = []
    if c.recipient is not None and c.recipient.pronoun:
        words += noun_phrase(c.recipient, accusative=True)
    if c.object is not None and c.gap != "object":
        words += noun_phrase(c.object, accusative=True)
    if c.recipient is not None and not c.recipient.pronoun:
        words += [Word("to", ((c, "to"),)), *noun_phrase(c.recipient)]
    if c.goal is not None:
        words += _place(c.goal)
    if c.manner is not None:
        words += expression("english", c.manner, (c, "manner"))
    for place in (c.companion, c.place):
        if place is not None:
            words += _place(place)
    if c.time is not None and not c.front:
        words += expression("english", c.time, c)
    if c.then is not None:
        words.append(Word("and", ((c, "and"),)))
        third = not c.subject.plural and c.subject.noun is not I
        form = {"present": 1 if third else 0, "past": 2, "future": 0}[c.tense]
        words += _verb_words(c.then.verb, c.then.verb.english[form], c.then, "auxiliary")
        words += _rest(c.then)
    return words


def _place(place: Place) -> list[Word]:
    return expression("english", place.preposition, place) + noun_phrase(place.of)


def noun_phrase(np: NounPhrase, accusative: bool = False) -> list[Word]:
    if isinstance(np.noun, Pronoun):
        return [Word(np.noun.accusative if accusative else np.noun.english[0], ((np, "noun"),))]
    words = [Word(adjective.english, ((np, adjective),)) for adjective in np.adjectives]
    words.append(Word(np.noun.english[np.several], ((np, "noun"),)))
    if np.determiner:
        determiner = np.determiner
        if determiner == "a" and words[0].text[0] in "aeiou":
            determiner = "an"
        if determiner == "this" and np.several:
            determiner = "these"
        words.insert(0, Word(determiner, ((np, "determiner"),)))
    if np.relative is not None:
        words += _relative(np.relative, "who" if "person" in np.noun.kinds else "that")
    if np.other is not None:
        words += [Word("and", ((np, "and"),)), *noun_phrase(np.other)]
    return words


def _relative(c: Clause, pronoun: str) -> list[Word]:
    words = [Word(pronoun if c.gap == "subject" else "that", ((c, "that"),))]
    if c.gap == "object":
        words += noun_phrase(c.subject)
    auxiliary, verb = _verb(c)
    return words + auxiliary + verb + _rest(c)
