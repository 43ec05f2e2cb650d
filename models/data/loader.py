"""Batches of a dataset, epoch after epoch, resumable from any point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import tinytensor as tt
from tinytensor.nn.functional.settings import settings

from .collate import default_collate
from .dataset import all_at_once
from .sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Batches of a dataset: `for batch in loader` goes through all samples once, an epoch.

    Everything happens in the calling thread: there are no workers to start or wait for. If reading samples is slow,
    read them beforehand.

    `state_dict()` holds the loader's position after its last batch. A loader made with the same arguments that loads
    it by `load_state_dict` goes on with the very next batch, without reading earlier ones again.

    Args:
        dataset: an object with `__getitem__` and `__len__`.
        batch_size: the number of samples in a batch.
        shuffle: whether to draw a new order for each epoch.
        sampler: instead of `shuffle`, an iterable over the indices of an epoch.
        batch_sampler: instead of all these and `drop_last`, an iterable over lists of indices.
        num_workers: must be 0.
        collate_fn: makes a batch from a list of samples; default: `default_collate`.
        drop_last: leave out the last batch if it has fewer samples.
        generator: draws the order. Default: one seeded by a number from the default generator, so that the order
            follows from `tt.manual_seed`, and no other random number depends on it.

    Attributes:
        epoch: the number of finished epochs.

    Raises ValueError for arguments that exclude each other or are out of range.
    """

    @settings
    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        *,
        drop_last: bool = False,
        generator: tt.random.Generator | None = None,
    ) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise TypeError(
                f"DataLoader: expected a dataset with __getitem__ and __len__, got a {type(dataset).__name__}; of what "
                "can only be gone through, make a list"
            )
        if num_workers:
            raise ValueError(f"DataLoader: there are no workers; leave out num_workers={num_workers!r}")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: a batch_sampler decides on batch_size, shuffle, sampler and drop_last by itself"
            )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: a sampler decides on the order by itself; leave out shuffle")
        self.dataset = dataset
        if batch_sampler is None:
            if sampler is None:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or default_collate
        self.generator = getattr(batch_sampler, "generator", None)
        self.epoch = 0
        self._place: Place | None = None  # in the current epoch
        self._goes_on = False  # True if the next pass is the rest of one

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch; after `load_state_dict`, first the rest of one."""
        if not self._goes_on or self._place is None:
            self._place = Place()
        self._goes_on = False
        return self._batches(self._place)

    def _batches(self, place: Place) -> Iterator[Any]:
        # The order is drawn now, not when `iter` was called: others may have drawn from the generator since.
        if place.generator is None:
            place.generator = self._drawn_from()
        elif self.generator is not None:
            self.generator.set_state(place.generator)
        for indices in islice(iter(self.batch_sampler), place.batch, None):
            batch = all_at_once(self.dataset, indices) if self.collate_fn is default_collate else None
            if batch is None:
                batch = self.collate_fn([self.dataset[i] for i in indices])
            place.batch += 1
            yield batch
        if self._place is place:  # no other epoch has begun meanwhile
            self.epoch, self._place = self.epoch + 1, None

    def state_dict(self) -> dict[str, Any]:
        """The position of the loader, as plain numbers."""
        place = self._place or Place()
        try:
            batches = len(self)
        except TypeError:  # a custom sampler may have no length
            batches = None
        sizes = {"samples": len(self.dataset), "batches": batches}
        generator = self._drawn_from() if place.generator is None else place.generator
        return {"epoch": self.epoch, "batch": place.batch, **sizes, "generator": generator}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`. The next `for` goes through the rest of that epoch.

        Raises ValueError, and changes nothing, for the state of a dataset or batch size that gives other numbers of
        samples or batches, or of another kind of order.
        """
        expected = self.state_dict()
        if set(state_dict) != set(expected):
            raise ValueError(f"DataLoader: load_state_dict expects {sorted(expected)}, got {sorted(state_dict)}")
        for size in ("samples", "batches"):
            if state_dict[size] != expected[size]:
                raise ValueError(
                    f"DataLoader: load_state_dict: the state is of {state_dict[size]} {size} in an epoch, here there "
                    f"are {expected[size]}"
                )
        if (state_dict["generator"] is None) != (self.generator is None):
            kinds = {True: "in the order of the dataset", False: "in an order that is drawn"}
            raise ValueError(
                f"DataLoader: load_state_dict: the state is of batches {kinds[state_dict['generator'] is None]}, these "
                f"are {kinds[self.generator is None]}"
            )
        if self.generator is not None:
            self.generator.set_state(state_dict["generator"])
        self.epoch = int(state_dict["epoch"])
        self._place = Place(state_dict["generator"], int(state_dict["batch"]))
        self._goes_on = True

    def _drawn_from(self) -> dict[str, Any] | None:
        return None if self.generator is None else self.generator.get_state()


@dataclass
class Place:
    """A position in an epoch.

    Attributes:
        generator: the generator's state before it drew the epoch's order; None before that.
        batch: the number of batches already given.
    """

    generator: dict[str, Any] | None = None
    batch: int = 0
