"""Short sentences with a word whose translation depends on another word, which self-attention must find.

    the woman finds a box in the garden and closes it.  ->  la femme trouve une boîte dans le jardin et la ferme.
    Marie watched the phone that Paul sold.             ->  Marie a regardé le téléphone que Paul a vendu.
    Paul sold her chair.                                ->  Paul a vendu sa chaise.
    Paul gave her a chair.                              ->  Paul lui a donné une chaise.

They also belong to the grammar, but are so few and so short that a small model learns them within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from .lexicon import NAMES, NOUNS, SHE, VERBS, pronoun_for
from .meaning import Clause, Meaning, NounPhrase, Place
from .pairs import Pair, translate
from .speaker import ADJECTIVES_OF, COMMON_PEOPLE, PLACES, SECOND, TAKING, WHERE, Speaker

THINGS = [noun for noun in NOUNS if "person" not in noun.kinds and noun.countable and SECOND[noun]]
INDOORS = [place for place in PLACES if "at" not in place.kinds]
GIVING = [verb for verb in VERBS if "recipient" in verb.frames]


def context_pairs(name: str, seed: int | str, held_out: bool) -> Iterator[Pair]:
    """Endless sentence pairs of this kind; arguments and errors as for `pairs`."""
    speaker = ContextSpeaker(seed)
    while True:
        pair = translate(name, speaker.meaning())
        if pair.held_out == held_out:
            yield pair


class ContextSpeaker(Speaker):
    """Makes meanings for such sentences."""

    def meaning(self) -> Meaning:
        """Make the next meaning."""
        noun = self._pick(THINGS)
        adjectives = (self._pick(ADJECTIVES_OF[noun]),) if ADJECTIVES_OF[noun] and self._chance(0.3) else ()
        thing = NounPhrase(noun, self._pick(("the", "a")), adjectives=adjectives)
        kind = self._pick(("it", "that", "hers", "to her"))
        verb, second = self._pick(GIVING if kind == "to her" else TAKING[noun]), self._pick(SECOND[noun])
        clause = Clause(self._person(), verb, self._pick(("past", "present")), object=thing)
        combinations = [(adjective.english, noun.english[0]) for adjective in adjectives]
        if kind in ("it", "hers") and "place" in verb.frames and self._chance(0.6):
            clause.place = Place(WHERE["in"], NounPhrase(self._pick(INDOORS), "the"))
        if kind == "it":
            clause.then = Clause(clause.subject, second, clause.tense, object=NounPhrase(pronoun_for(noun, False)))
        elif kind == "that":
            thing.relative = Clause(self._person(), second, "past", object=thing, gap="object")
        elif kind == "hers":
            thing.determiner = "her"
        else:
            clause.recipient = NounPhrase(SHE)
        said = (verb, second) if kind in ("it", "that") else (verb,)
        return Meaning((clause,), combinations + [(each.english[0], noun.english[0]) for each in said])

    def _person(self) -> NounPhrase:
        if self._chance(0.5):
            return NounPhrase(self._pick(NAMES))
        return NounPhrase(self._pick(COMMON_PEOPLE), "the")
