"""Translation between toy languages as a task: pairs from a seed, as batches of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

import numpy as np

from ..batch import EOS, PAD, Batch
from ..tokenizer import known
from . import everyday
from .pairs import LANGUAGES, LONGEST, NAMED, Pair, languages_of, pairs, written


class Vocabulary:
    """The words of a language and their ids, known before any sentence: sorted, after pad, bos and eos.

    English has 433 ids, French 667, Korean 840. With the words of everyday sentences, which come last, they have 450,
    687 and 861.
    """

    def __init__(self, language: str, everyday_too: bool = False) -> None:
        self.language = language
        words = LANGUAGES[language].vocabulary()
        more = everyday.vocabulary(NAMED[LANGUAGES[language]]) - words if everyday_too else ()
        self.words = ["<pad>", "<bos>", "<eos>", *sorted(words), *sorted(more)]
        self._ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Iterable[str]) -> list[int]:
        """The ids of words.

        Raises ValueError that names all words that the language does not have.
        """
        words = list(words)
        try:
            return [self._ids[word] for word in words]
        except KeyError:
            unknown = [word for word in dict.fromkeys(words) if word not in self._ids]
        said = "is no word" if len(unknown) == 1 else "are no words"
        alike = ", ".join(repr(word.lower()) for word in unknown if word.lower() in self._ids)
        hint = f"it has {alike}" if alike else "Vocabulary.words has those that are"
        raise ValueError(f"{', '.join(map(repr, unknown))} {said} of this toy language; {hint}")

    def tokens(self, ids: Any) -> list[str]:
        """The words of ids up to the end of the sentence. Raises ValueError for an id that no word has."""
        before_end = takewhile(lambda i: i not in (EOS, PAD), known(np.asarray(ids).tolist(), len(self)))
        return [self.words[i] for i in before_end]

    def text(self, ids: Any) -> str:
        """Ids up to the end of the sentence, as written text."""
        return written(self.tokens(ids), self.language)


class TranslationTask:
    """Sentences and their translation.

    Args:
        name: "en-fr" or "en-ko".
        seed: determines all sentences, but not the combinations kept for testing.
        together: the number of batches to draw together and divide by length, to keep padding small. If one training
            step sums their gradients, it sees the same pairs as in one batch.
        everyday_too: whether training also has everyday sentences ("give me a second, please."), see `everyday`. The
            test pairs are the same.

    Attributes:
        source, target: the vocabularies.
        max_length: the most words of a sentence, without its end.

    Raises ValueError for another name.
    """

    max_length = LONGEST

    def __init__(self, name: str = "en-fr", seed: int = 0, together: int = 1, everyday_too: bool = False) -> None:
        languages_of(name)
        self.name, self.seed, self.together, self.everyday_too = name, seed, together, everyday_too
        self.source, self.target = (Vocabulary(language, everyday_too) for language in name.split("-"))
        self._made: tuple[tuple[int, int], list[list[Pair]]] | None = None  # the last pairs, and which they are

    def training_batch(self, step: int, size: int) -> Batch:
        """The batch of a training step: always the same for the same seed and step."""
        return self.make_batch(self.training_pairs(step, size))

    def training_pairs(self, step: int, size: int) -> list[Pair]:
        """The pairs of a training step, without combinations that are kept for testing.

        Two in three are the longest of three drawn: a long sentence is more likely to have such a combination and be
        left out, and it shows more of the grammar.
        """
        group, place = divmod(step, self.together)
        if self._made is None or self._made[0] != (group, size):
            endless = pairs(self.name, f"training {self.seed} {group}", False, self.everyday_too)
            counts = [3 if i % 3 else 1 for i in range(self.together * size)]
            drawn = [max(islice(endless, count), key=_lengths) for count in counts]
            drawn.sort(key=_lengths)
            order = np.random.default_rng((self.seed, group)).permutation(self.together).tolist()
            self._made = (group, size), [drawn[i * size : (i + 1) * size] for i in order]
        return self._made[1][place]

    def test_pairs(self, count: int) -> list[Pair]:
        """Different pairs, each with a combination that training never shows; the first are the same for any count."""
        found: dict[tuple[str, ...], Pair] = {}
        endless = pairs(self.name, f"test {self.seed}", held_out=True)
        while len(found) < count:
            pair = next(endless)
            found.setdefault(pair.source, pair)
        return list(found.values())

    def make_batch(self, pairs: Sequence[Pair]) -> Batch:
        """Pairs as a padded batch."""
        return Batch.of((self.source.ids(pair.source), self.target.ids(pair.target)) for pair in pairs)

    def to_text(self, ids: Any) -> str:
        """Ids of the target language up to the end of the sentence, as written text."""
        return self.target.text(ids)


def _lengths(pair: Pair) -> tuple[int, int]:
    return len(pair.target), len(pair.source)
