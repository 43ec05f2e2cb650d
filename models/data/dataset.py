"""Datasets have a length and return sample i. A list is one; these are for arrays, parts, and your own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import tinytensor as tt

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """The base of datasets; your own one writes `__getitem__` and `__len__`.

    `DataLoader` takes anything that has these two, also a list.
    """

    def __getitem__(self, index: int) -> Sample:
        """Sample number `index`."""
        raise NotImplementedError(f"{type(self).__name__}: write __getitem__(index), which gives one sample")

    def __len__(self) -> int:
        """The number of samples."""
        raise NotImplementedError(f"{type(self).__name__}: write __len__(), the number of samples")


class TensorDataset(Dataset[tuple[tt.Tensor, ...]]):
    """Tensors (or arrays) of the same length; a sample is one row of each, as a tuple.

    Raises ValueError for no Tensors, for one without dimensions, and for different lengths.
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(tt.asarray(tensor) for tensor in tensors)
        shapes = [tensor.shape for tensor in self.tensors]
        if not shapes or any(not shape for shape in shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ValueError(f"TensorDataset: expected Tensors of the same length, got shapes {shapes}")

    def __getitem__(self, index: int) -> tuple[tt.Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset[Sample]):
    """The samples of a dataset at some indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def all_at_once(dataset: Any, indices: list[int]) -> list[tt.Tensor] | None:
    """The `default_collate` of samples of a `TensorDataset`, or of a part of one, by one look-up; else None."""
    while isinstance(dataset, Subset):
        indices, dataset = [dataset.indices[i] for i in indices], dataset.dataset
    return [tensor[indices] for tensor in dataset.tensors] if type(dataset) is TensorDataset else None


def random_split(
    dataset: Any, lengths: Sequence[float], generator: tt.random.Generator | None = None
) -> list[Subset[Any]]:
    """Split a dataset at random into parts with different samples, such as training and validation.

    Args:
        lengths: the numbers of samples of the parts, together all of them; or fractions that add up to 1, rounded
            down; the first parts get the rest.
        generator: chooses the samples; default: the default generator.

    Raises ValueError for lengths that do not add up.
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and all(0 <= length <= 1 for length in lengths):
        counts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(counts)):
            counts[i % len(counts)] += 1
    else:
        counts = [int(length) for length in lengths]
    if sum(counts) != size or any(count != length and length > 1 for count, length in zip(counts, lengths)):
        raise ValueError(f"random_split: {list(lengths)} do not add up to the dataset's {size} samples, or to 1")
    order = (generator or tt.random.default_generator).permutation(size).tolist()
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts)]
