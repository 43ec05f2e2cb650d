"""Masked words as a task (Devlin et al. 2019, section 3.1): sentences of the toy English with words hidden in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from .batch import BOS, PAD, TextBatch, padded
from .languages import Vocabulary, context_pairs
from .languages.pairs import pairs

SHARE = 0.15  # of the words to predict


class MaskedWordTask:
    """Sentences with 15 % of the words to predict: eight in ten are hidden, one is replaced, one stays unchanged.

    Args:
        seed: determines the sentences, and the words hidden in them.

    Attributes:
        vocabulary: the words.
        mask_id: the id of a hidden word, after those of all words.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.vocabulary = Vocabulary("en", everyday_too=True)
        self.mask_id = len(self.vocabulary)

    def __len__(self) -> int:
        """The number of ids."""
        return self.mask_id + 1

    def training_batch(self, step: int, size: int) -> TextBatch:
        """The batch of a training step: always the same for the same seed and step."""
        everyday = pairs("en-fr", f"masked {self.seed} {step}", False, True)
        context = context_pairs("en-fr", f"masked {self.seed} {step}", held_out=False)
        both = (pair.source for two in zip(everyday, context) for pair in two)
        return self.asked(self.ids(list(islice(both, size))), np.random.default_rng((self.seed, step)))

    def test_batches(self, count: int, size: int = 250) -> Iterator[TextBatch]:
        """Sentences with combinations of words that training never shows; all words to predict are hidden."""
        found = [pair.source for pair in islice(context_pairs("en-fr", f"test {self.seed}", held_out=True), count)]
        rng = np.random.default_rng((self.seed, 0, 0))
        for start in range(0, count, size):
            ids = self.ids(found[start : start + size])
            chosen = (rng.random(ids.shape) < SHARE) & (ids > BOS)
            yield TextBatch(np.where(chosen, self.mask_id, ids), np.where(chosen, ids, PAD))

    def asked(self, ids: Any, rng: np.random.Generator) -> TextBatch:
        """A training batch of sentences (batch, length), with words to predict drawn at random."""
        chosen = (rng.random(ids.shape) < SHARE) & (ids > BOS)
        kind = rng.random(ids.shape)
        others = rng.integers(BOS + 1, self.mask_id, ids.shape)
        changed = np.where(kind < 0.8, self.mask_id, np.where(kind < 0.9, others, ids))
        return TextBatch(np.where(chosen, changed, ids), np.where(chosen, ids, PAD))

    def ids(self, sentences: Sequence[Sequence[str]]) -> Any:
        """The ids of sentences, each after a bos: (sentences, longest), padded. "[mask]" is a hidden word."""
        rows = [[self.mask_id if word == HIDDEN else self.vocabulary.ids([word])[0] for word in s] for s in sentences]
        return padded([[BOS, *row] for row in rows])

    def word(self, i: int) -> str:
        """The word of an id."""
        return HIDDEN if i == self.mask_id else self.vocabulary.words[i]


HIDDEN = "[mask]"
