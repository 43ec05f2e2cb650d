"""Samplers: in which order the samples of a dataset are taken, and which of them make a batch.

A sampler is gone through once for each epoch, and gives indices; a batch sampler gives lists of them. One that draws
its order keeps a `generator` of its own, so that `DataLoader.state_dict` can save it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

import tinytensor as tt


class SequentialSampler:
    """All indices in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler:
    """All indices in an order that is drawn anew for each epoch.

    Args:
        data_source: the dataset.
        replacement: draw each index from all of them, so that some come several times and others never.
        num_samples: how many are drawn; as many as there are if not given. Without replacement further ones are of
            another order.
        generator: what draws. If not given, one that starts from a number of the default generator.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: tt.random.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator or own_generator()

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.replacement:
            yield from self.generator.integers(size, shape=self.num_samples).tolist()
            return
        for done in range(0, self.num_samples, max(size, 1)):
            yield from self.generator.permutation(size).tolist()[: self.num_samples - done]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler:
    """The indices of a sampler, so many at a time.

    Args:
        sampler: what gives the indices.
        batch_size: how many a batch has.
        drop_last: leave out the last batch where it has fewer.

    Raises ValueError for a batch size below 1.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"BatchSampler: batch_size must be an integer of at least 1, got {batch_size!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    @property
    def generator(self) -> tt.random.Generator | None:
        """What the sampler draws its order with; None where it draws none."""
        return getattr(self.sampler, "generator", None)

    def __iter__(self) -> Iterator[list[int]]:
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        samples: Any = self.sampler
        full, rest = divmod(len(samples), self.batch_size)
        return full + (rest > 0 and not self.drop_last)


class TokenBatchSampler:
    """Batches of sequences of like length, filled by the number of tokens, so that little is padding.

    Sequences are sorted by length and cut into batches; in each epoch those of one length change places, and so do the
    batches. Vaswani et al. 2017, section 5.1, make batches so.

    Args:
        lengths: of each sequence, padding not counted; of pairs, the longer side's.
        max_tokens: how many tokens a batch has at most: sequences times the longest of them. A sequence that is longer
            is a batch of its own.
        shuffle: whether orders are drawn. Without it, batches go from short to long.
        generator: what draws. If not given, one that starts from a number of the default generator.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        shuffle: bool = True,
        generator: tt.random.Generator | None = None,
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.generator = (generator or own_generator()) if shuffle else None
        self._cuts = cuts_by_tokens(np.sort(self.lengths), max_tokens)

    def __iter__(self) -> Iterator[list[int]]:
        if self.generator is None:
            samples, batches = np.arange(len(self.lengths)), range(len(self._cuts))
        else:
            samples = self.generator.permutation(len(self.lengths)).numpy()
            batches = self.generator.permutation(len(self._cuts)).tolist()
        samples = samples[np.argsort(self.lengths[samples], kind="stable")]
        for i in batches:
            yield samples[slice(*self._cuts[i])].tolist()

    def __len__(self) -> int:
        return len(self._cuts)


def cuts_by_tokens(lengths: np.ndarray, max_tokens: int) -> list[tuple[int, int]]:
    """Where sorted lengths are cut so that no batch has more than so many tokens (one sequence at least)."""
    cuts, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > max_tokens:
            cuts.append((start, end))
            start = end
    return cuts


def own_generator() -> tt.random.Generator:
    """A generator that starts from a number of the default one: drawing with it disturbs nobody else's numbers."""
    return tt.random.Generator(int(tt.random.default_generator.integers(2**62).item()))
