"""Samplers choose the order of a dataset's samples, and the samples of each batch.

A loader iterates over a sampler once per epoch. A sampler gives indices, a batch sampler lists of them. One that draws
its order keeps its own `generator`, so that `DataLoader.state_dict` can save it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor.nn.functional.settings import settings


class SequentialSampler:
    """All indices in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler:
    """All indices in a random order, drawn anew for each epoch.

    Args:
        data_source: the dataset.
        replacement: draw each index from all of them, so that some come several times and others never.
        num_samples: how many indices to draw; default: the size of the dataset. Without replacement, further ones come
            from another order.
        generator: draws the order; default: one seeded by a number from the default generator.
    """

    @settings
    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: tt.random.Generator | None = None,
    ) -> None:  # fmt: skip
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator or own_generator()

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        if self.replacement:
            for start in range(0, self.num_samples, 4096):  # all at once may not fit into memory
                yield from self.generator.integers(size, shape=min(4096, self.num_samples - start)).tolist()
            return
        # All orders at once: if others drew from the generator meanwhile, its state would not tell the later ones.
        orders = [self.generator.permutation(size).tolist() for _ in range(0, self.num_samples, max(size, 1))]
        yield from [index for order in orders for index in order][: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler:
    """The indices of a sampler, `batch_size` at a time.

    Args:
        sampler: gives the indices.
        batch_size: the number of indices in a batch.
        drop_last: leave out the last batch if it has fewer.

    Raises ValueError for a batch size below 1.
    """

    @settings
    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if batch_size < 1:
            raise ValueError(f"BatchSampler: batch_size must be an integer of at least 1, got {batch_size!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    @property
    def generator(self) -> tt.random.Generator | None:
        """The sampler's generator; None if it has none."""
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
    """Batches of sequences of similar length, filled by the number of tokens, to keep padding small.

    Sequences are sorted by length and cut into batches; each epoch shuffles those of equal length, and the batches.
    Vaswani et al. 2017, section 5.1, batch in this way.

    Args:
        lengths: the length of each sequence without padding; of a pair, that of the longer side.
        max_tokens: the most tokens in a batch: sequences times the length of the longest. A sequence longer than that
            is its own batch.
        shuffle: whether to draw orders. Without it, batches go from short to long.
        generator: draws the orders; default: one seeded by a number from the default generator.
    """

    def __init__(
        self, lengths: Sequence[int], max_tokens: int, shuffle: bool = True,
        generator: tt.random.Generator | None = None,
    ) -> None:  # fmt: skip
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
    """The (start, end) of each batch of sorted lengths: at most `max_tokens` tokens, but at least one sequence."""
    cuts, start = [], 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * lengths[end] > max_tokens:
            cuts.append((start, end))
            start = end
    return cuts


def own_generator() -> tt.random.Generator:
    """A generator seeded by a number from the default one, so that its draws do not disturb other random numbers."""
    return tt.random.Generator(int(tt.random.default_generator.integers(2**62).item()))
