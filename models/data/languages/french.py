"""Expressing a meaning in French: agreement, the place of adjectives and clitics, negation, elision, contraction."""

from __future__ import annotations

from .lexicon import (
    ADJECTIVES,
    ARRIVE_AT,
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
    TO,
    TOWARD,
    VERBS,
    WHERE,
    WITH_SOMEBODY,
    Adjective,
    I,
    Pronoun,
    french_plural,
    starts_with_vowel,
)
from .meaning import Clause, Meaning, NounPhrase, Place, Word, expression

# masculine, feminine, plural
DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "their": ("leur", "leur", "leurs"),
    "two": ("", "", "deux"),
    "three": ("", "", "trois"),
    "four": ("", "", "quatre"),
    "five": ("", "", "cinq"),
}
ELIDED = {word: word[:-1] + "'" for word in ("le", "la", "je", "ne", "de", "que")}
BEFORE_A_VOWEL = {**ELIDED, "ma": "mon", "sa": "son", "ce": "cet"}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
AVOIR, ÊTRE = HAVE.present, BE.present
ALLER, POUVOIR = ("vais", "va", "vont"), ("peux", "peut", "peuvent")


def say(meaning: Meaning) -> list[Word]:
    """The words of a sentence, including the final mark; an elided word ends in its apostrophe."""
    words: list[Word] = []
    for clause in meaning.clauses:
        if words:
            words.append(Word("et", ("and",)))
        words += _clause(clause)
    words.append(Word("?" if meaning.question else ".", ("end",)))
    return joined(words)


def vocabulary() -> set[str]:
    """Every word that French can use."""
    words = {"et", ",", ".", "?", "ne", "pas", "jamais", "est-ce", "que", "qui", "y", "de", "des", "à", "beaucoup"}
    words |= {form for forms in DETERMINERS.values() for form in forms} - {""}
    words |= {pronoun.french[0] for pronoun in (I, HE, SHE, THEY)}
    words |= {clitic for pronoun in (HE, SHE, THEY) for clitic in pronoun.clitics}
    words |= {*BEFORE_A_VOWEL.values(), *CONTRACTED.values(), *ALLER, *POUVOIR}
    words |= {*AVOIR, "est", "sont", "être", "avoir", "était", "étaient", *HAVE.imperfect, *THERE_BE.imperfect}
    words |= {noun.french[0] for noun in NOUNS + NAMES}
    words |= {noun.french[1] for noun in NOUNS if noun.countable}
    for adjective in ADJECTIVES:
        words |= {_agreed(adjective, *number) for number in _numbers(adjective.kinds)} | {adjective.french[2]}
    for verb in VERBS:
        words |= {verb.infinitive, *verb.present, verb.participle}
        if verb.être or (verb.transitive and not verb.dative and "recipient" not in verb.frames):
            kinds = verb.subjects if verb.être else verb.objects
            words |= {_participle(verb.participle, *number) for number in _numbers(kinds)}
    fixed = [*WHERE.values(), *FREQUENCY.values(), *MANNER.values(), *TIMES.values(), *TO.values()]
    fixed += [ARRIVE_AT, TOWARD, WITH_SOMEBODY]
    return words | {text for e in fixed for text, _ in e.parsed["french"]}


def _numbers(kinds: frozenset[str]) -> set[tuple[str, bool]]:
    """Gender and number (True for plural) of the nouns of one of the kinds."""
    nouns = [noun for noun in NOUNS if noun.kinds & kinds]
    singular: set[tuple[str, bool]] = {(noun.gender, False) for noun in nouns}
    return singular | {(noun.gender, True) for noun in nouns if noun.countable}


# ---- clauses


def _clause(c: Clause) -> list[Word]:
    words: list[Word] = []
    if c.time is not None and c.front:
        words += [*expression("french", c.time, c), Word(",", ((c, "comma"),))]
    if c.verb is THERE_BE:
        there = ((c, "there"),)
        form = c.verb.imperfect if c.tense == "past" else c.verb.present
        words += [Word("il", there), Word("y", there), Word(form[1], ((c, "verb"),))]
        return words + noun_phrase(c.subject) + _rest(c)
    if c.question:
        words += [Word("est-ce"), Word("que")]
    return words + noun_phrase(c.subject) + _predicate(c) + _rest(c)


def _predicate(c: Clause) -> list[Word]:
    """The verb with its clitics, auxiliaries, negation and adverbs.

    "ne" precedes the finite verb, "pas" or "jamais" follows it; clitics precede the infinitive if there is one, else
    the finite verb. A participle with être agrees with the subject, one with avoir with a direct object that precedes
    it.
    """
    verb, person = c.verb, _person(c.subject)
    auxiliary, main = ((c, "auxiliary"),), ((c, "verb"),)
    clitics = _clitics(c)
    inner: list[Word] = []
    if c.tense == "present":
        finite = Word(verb.present[person], main)
    elif c.tense == "past" and verb.imperfect:
        finite = Word(verb.imperfect[person], main)
    elif c.tense == "past":
        agrees_with = c.subject if verb.être else _preceding_object(c)
        participle = verb.participle
        if agrees_with is not None:
            participle = _participle(participle, agrees_with.gender, agrees_with.plural)
        finite = Word((ÊTRE if verb.être else AVOIR)[person], auxiliary)
        inner = [Word(participle, main)]
    else:
        finite = Word((ALLER if c.tense == "future" else POUVOIR)[person], auxiliary)
        inner, clitics = [*clitics, Word(verb.infinitive, main)], []
    words = [*clitics, finite]
    if c.negation:
        negation = ((c, "not"),)
        words = [Word("ne", negation), *words, Word("pas" if c.negation == "not" else "jamais", negation)]
    if c.frequency is not None:
        words += expression("french", c.frequency, (c, "frequency"))
    words += inner
    if c.manner is not None:
        words += expression("french", c.manner, (c, "manner"))
    if c.adjective is not None:
        words.append(Word(_agreed(c.adjective, c.subject.gender, c.subject.plural), ((c, "adjective"),)))
    return words


def _clitics(c: Clause) -> list[Word]:
    words = []
    if c.object is not None and isinstance(c.object.noun, Pronoun):
        words.append(Word(c.object.noun.clitics[c.verb.dative], ((c.object, "noun"),)))
    if c.recipient is not None and isinstance(c.recipient.noun, Pronoun):
        words.append(Word(c.recipient.noun.clitics[1], ((c.recipient, "noun"),)))
    return words


def _preceding_object(c: Clause) -> NounPhrase | None:
    """The direct object if it precedes the verb."""
    if c.gap == "object" or (c.object is not None and c.object.pronoun and not c.verb.dative):
        return c.object
    return None


def _rest(c: Clause) -> list[Word]:
    words: list[Word] = []
    if c.object is not None and c.gap != "object" and not c.object.pronoun:
        if c.verb.dative:
            words.append(Word("à", ((c, "to"),)))
        words += noun_phrase(c.object, negated=bool(c.negation) and not c.verb.dative)
    if c.recipient is not None and not c.recipient.pronoun:
        words += [Word("à", ((c, "to"),)), *noun_phrase(c.recipient)]
    if c.goal is not None:
        words += _place(c.goal)
    for place in (c.companion, c.place):
        if place is not None:
            words += _place(place)
    if c.time is not None and not c.front:
        words += expression("french", c.time, c)
    if c.then is not None:
        words.append(Word("et", ((c, "and"),)))
        if c.tense == "future":
            words += [*_clitics(c.then), Word(c.then.verb.infinitive, ((c.then, "verb"),))]
        else:
            words += _predicate(c.then)
    return words


def _place(place: Place) -> list[Word]:
    return expression("french", place.preposition, place) + noun_phrase(place.of)


def _person(subject: NounPhrase) -> int:
    return 0 if subject.noun is I else 2 if subject.plural else 1


# ---- noun phrases


def noun_phrase(np: NounPhrase, negated: bool = False) -> list[Word]:
    """Determiner, adjectives that precede, noun, adjectives that follow, relative clause.

    An indefinite one has "de" as the object of a negated verb, and in the plural before an adjective.
    """
    noun = np.noun
    name = Word(noun.french[np.several], ((np, "noun"),))
    if np.pronoun:
        return [name]
    words = [name]
    for adjective in np.adjectives:
        form = _agreed(adjective, noun.gender, np.several)
        if adjective.before:
            if noun.gender == "m" and not np.several and starts_with_vowel(name.text):
                form = adjective.french[2]
            words.insert(0, Word(form, ((np, adjective),)))
        else:
            words.append(Word(form, ((np, adjective),)))
    words = _determiner(np, negated, words[0] is not name) + words
    if np.relative is not None:
        c = np.relative
        words.append(Word("qui" if c.gap == "subject" else "que", ((c, "that"),)))
        if c.gap == "object":
            words += noun_phrase(c.subject)
        words += _predicate(c) + _rest(c)
    if np.other is not None:
        words += [Word("et", ((np, "and"),)), *noun_phrase(np.other, negated)]
    return words


def _determiner(np: NounPhrase, negated: bool, adjective_first: bool) -> list[Word]:
    parts = ((np, "determiner"),)
    if not np.determiner:
        return []
    if np.determiner == "many":
        return [Word("beaucoup", parts), Word("de", parts)]
    if np.determiner == "any" or (negated and np.determiner == "a"):
        return [Word("de", parts)]
    place = 2 if np.several else "mf".index(np.noun.gender)
    if np.determiner == "some":
        if np.several:
            return [Word("de" if adjective_first else "des", parts)]
        return [Word("de", parts), Word(DETERMINERS["the"][place], parts)]
    return [Word(DETERMINERS[np.determiner][place], parts)]


def _agreed(adjective: Adjective, gender: str, plural: bool) -> str:
    if gender == "f":
        return adjective.french[1] + "s" * plural
    return french_plural(adjective.french[0]) if plural else adjective.french[0]


def _participle(masculine: str, gender: str, plural: bool) -> str:
    form = masculine + "e" * (gender == "f")
    return form + "s" * (plural and not form.endswith("s"))


# ---- how neighbours change each other


def joined(words: list[Word]) -> list[Word]:
    """Elide before vowels, then contract prepositions with the remaining articles, from the last word to the first."""
    joined: list[Word] = []
    for word in reversed(words):
        text, parts = word
        if joined:
            following = joined[-1]
            if text in BEFORE_A_VOWEL and starts_with_vowel(following.text):
                word = Word(BEFORE_A_VOWEL[text], parts)
            elif (text, following.text) in CONTRACTED:
                joined[-1] = Word(CONTRACTED[text, following.text], parts + following.parts)
                continue
        joined.append(word)
    return joined[::-1]
