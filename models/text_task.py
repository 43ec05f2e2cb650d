"""Translation of real text: batches of sentences of like length, filled by the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .corpus import Corpus
from .tasks import BOS, EOS, Batch, padded
from .tokenizer import Tokenizer


class TextTask:
    """Pairs of sentences as ids, in batches.

    Every epoch sees each pair once. Pairs are sorted by length and cut into batches, so that little is padding; pairs
    of the same lengths change places, and so do the batches, from epoch to epoch. The batch of a step follows from the
    seed and the step's number alone.

    Args:
        corpus: the pairs.
        tokenizer: makes ids of them.
        seed: the order of the pairs follows from it.
        max_length: longer sentences (in subwords, with the end) are left out.
        max_tokens: of a batch: the number of pairs times the longer of the longest sides, padding included.

    Attributes:
        pairs: ids of source and target, without begin and end.
        too_long: how many pairs were left out.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, *, seed: int = 0, max_length: int = 256, max_tokens: int = 4096
    ) -> None:
        self.name = "translation"
        self.tokenizer, self.seed, self.max_length = tokenizer, seed, max_length
        encoded = [(tokenizer.encode(s), tokenizer.encode(t)) for s, t in zip(corpus.sources, corpus.targets)]
        self.pairs = [(s, t) for s, t in encoded if max(len(s), len(t)) < max_length]
        self.too_long = len(encoded) - len(self.pairs)
        lengths = [(max(len(s), len(t)), len(s), len(t)) for s, t in self.pairs]
        self._lengths = np.array(lengths, dtype=np.int64).reshape(-1, 3)
        self._cuts = _cuts(np.sort(self._lengths[:, 0]) + 1, max_tokens)
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None

    @property
    def batches(self) -> int:
        """How many batches are an epoch."""
        return len(self._cuts)

    def training_batch(self, step: int, size: int = 1) -> Batch:
        """The batch of a training step; `size` is for tasks that count sequences."""
        epoch, place = divmod(step, self.batches)
        if self._epoch is None or self._epoch[0] != epoch:
            rng = np.random.default_rng((self.seed, 0, epoch))
            shuffled = rng.permutation(len(self.pairs))
            keys = self._lengths[shuffled]
            order = shuffled[np.lexsort((keys[:, 2], keys[:, 1], keys[:, 0]))]
            self._epoch = epoch, order, rng.permutation(self.batches)
        _, order, batches = self._epoch
        start, end = self._cuts[batches[place]]
        return self.make_batch([self.pairs[i] for i in order[start:end]])

    def all_batches(self) -> list[Batch]:
        """Every pair once, for validation: batches of like lengths."""
        order = np.lexsort((self._lengths[:, 2], self._lengths[:, 1], self._lengths[:, 0]))
        return [self.make_batch([self.pairs[i] for i in order[a:b]]) for a, b in self._cuts]

    @staticmethod
    def make_batch(pairs: Sequence[tuple[list[int], list[int]]]) -> Batch:
        """Pairs of ids as a padded batch."""
        return Batch(
            padded([[*s, EOS] for s, _ in pairs]),
            padded([[BOS, *t] for _, t in pairs]),
            padded([[*t, EOS] for _, t in pairs]),
        )


def _cuts(lengths: np.ndarray, max_tokens: int) -> list[tuple[int, int]]:
    """Where sorted lengths are cut so that no batch has more than so many tokens (one pair at least)."""
    cuts, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > max_tokens:
            cuts.append((start, end))
            start = end
    return cuts
