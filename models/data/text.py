"""Translation of real text: batches of sentences of like length, filled by the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .batch import Batch
from .corpus import Corpus
from .sampler import cuts_by_tokens
from .subword_dropout import SubwordDropout
from .tokenizer import Tokenizer

Pair = tuple[list[int], list[int]]


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
        subword_dropout: every epoch draws the ids of its training batches anew, with this probability that a merge of
            subwords is left out (see `SubwordDropout`). How many pairs a batch holds follows from the first draw, so
            that later ones may have some tokens more than `max_tokens`.

    Attributes:
        pairs: ids of source and target, without begin and end.
        too_long: how many pairs were left out.
        first_too_long: the first of them, by its place in the corpus.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        *,
        seed: int = 0,
        max_length: int = 256,
        max_tokens: int = 4096,
        subword_dropout: float = 0.0,
    ) -> None:
        self.name = "translation"
        self.tokenizer, self.seed, self.max_length = tokenizer, seed, max_length
        encoded = [(tokenizer.encode(s), tokenizer.encode(t)) for s, t in zip(corpus.sources, corpus.targets)]
        kept = [i for i, (s, t) in enumerate(encoded) if max(len(s), len(t)) < max_length]
        self.pairs = [encoded[i] for i in kept]
        self.too_long = len(encoded) - len(kept)
        self.first_too_long = min(set(range(len(encoded))) - set(kept), default=None)
        texts = [side[i] for side in (corpus.sources, corpus.targets) for i in kept]
        self._dropout = SubwordDropout(tokenizer, texts, subword_dropout) if subword_dropout else None
        longest = _lengths(self._drawn(0))[:, 0]
        self._cuts = cuts_by_tokens(np.sort(longest) + 1, max_tokens)
        self._epoch: tuple[int, list[list[Pair]]] | None = None

    @property
    def batches(self) -> int:
        """How many batches are an epoch."""
        return len(self._cuts)

    def training_batch(self, step: int, size: int = 1) -> Batch:
        """The batch of a training step; `size` is for tasks that count sequences."""
        epoch, place = divmod(step, self.batches)
        if self._epoch is None or self._epoch[0] != epoch:
            rng = np.random.default_rng((self.seed, 0, epoch))
            pairs = self._drawn(epoch)
            pairs = _by_length([pairs[i] for i in rng.permutation(len(pairs))])
            self._epoch = epoch, [pairs[slice(*self._cuts[i])] for i in rng.permutation(self.batches)]
        return Batch.of(self._epoch[1][place])

    def all_batches(self) -> list[Batch]:
        """Every pair once, for validation: batches of like lengths."""
        pairs = _by_length(self.pairs)
        return [Batch.of(pairs[a:b]) for a, b in self._cuts]

    def _drawn(self, epoch: int) -> list[Pair]:
        """The pairs as an epoch sees them; a pair that becomes too long stays as it is."""
        if self._dropout is None:
            return self.pairs
        ids = self._dropout.draw(int(np.random.default_rng((self.seed, 1, epoch)).integers(2**63)))
        drawn = zip(ids[: len(self.pairs)], ids[len(self.pairs) :])
        return [new if max(map(len, new)) < self.max_length else pair for pair, new in zip(self.pairs, drawn)]


def _lengths(pairs: Sequence[Pair]) -> np.ndarray:
    """Of each pair the length of the longer side, of the source and of the target."""
    lengths = [(max(len(s), len(t)), len(s), len(t)) for s, t in pairs]
    return np.array(lengths, dtype=np.int64).reshape(-1, 3)


def _by_length(pairs: Sequence[Pair]) -> list[Pair]:
    lengths = _lengths(pairs)
    return [pairs[i] for i in np.lexsort((lengths[:, 2], lengths[:, 1], lengths[:, 0]))]
