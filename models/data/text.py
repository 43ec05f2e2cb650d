"""Translation of real text: batches of sentences of similar length, filled by the number of tokens."""

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

    Every epoch sees each pair once. Pairs are sorted by length and cut into batches, to keep padding small; each epoch
    shuffles pairs of the same lengths, and the batches. The seed and the step's number alone determine the batch of a
    step.

    Args:
        corpus: the pairs.
        tokenizer: turns them into ids.
        seed: determines the order of the pairs.
        max_length: leave out longer sentences (in subwords, with the end).
        max_tokens: the most tokens of a batch: the number of pairs times the longest side, padding included.
        subword_dropout: every epoch draws the ids of its training batches anew, with this probability of leaving out a
            merge of subwords (see `SubwordDropout`). The first draw determines the number of pairs in a batch, so later
            ones may have slightly more than `max_tokens` tokens.

    Attributes:
        pairs: ids of source and target, without begin and end.
        too_long: the number of pairs left out.
        first_too_long: the place of the first of them in the corpus.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, *, seed: int = 0, max_length: int = 256, max_tokens: int = 4096,
        subword_dropout: float = 0.0,
    ) -> None:  # fmt: skip
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
        """The number of batches in an epoch."""
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
        """Every pair once, for validation: batches of similar lengths."""
        pairs = _by_length(self.pairs)
        return [Batch.of(pairs[a:b]) for a, b in self._cuts]

    def _drawn(self, epoch: int) -> list[Pair]:
        """The pairs for an epoch, drawn anew with dropout; a pair that becomes too long stays unchanged."""
        if self._dropout is None:
            return self.pairs
        ids = self._dropout.draw(int(np.random.default_rng((self.seed, 1, epoch)).integers(2**63)))
        drawn = zip(ids[: len(self.pairs)], ids[len(self.pairs) :])
        return [new if max(map(len, new)) < self.max_length else pair for pair, new in zip(self.pairs, drawn)]


def _lengths(pairs: Sequence[Pair]) -> np.ndarray:
    """The lengths of each pair's longer side, its source and its target."""
    lengths = [(max(len(s), len(t)), len(s), len(t)) for s, t in pairs]
    return np.array(lengths, dtype=np.int64).reshape(-1, 3)


def _by_length(pairs: Sequence[Pair]) -> list[Pair]:
    lengths = _lengths(pairs)
    return [pairs[i] for i in np.lexsort((lengths[:, 2], lengths[:, 1], lengths[:, 0]))]
