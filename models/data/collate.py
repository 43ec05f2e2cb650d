"""Make one batch from a list of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tinytensor as tt


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch from samples, with an additional first dimension, depending on their type.

    | samples | batch |
    |---|---|
    | Tensors, arrays | a Tensor, stacked |
    | float, int, bool | a Tensor of float64, int64, bool |
    | tuples, lists | a list of batches, one for each place; named tuples stay what they are |
    | dictionaries | a dictionary of batches |
    | texts | the list of them |

    Raises ValueError for samples of different lengths or shapes, TypeError for others.
    """
    first = batch[0]
    if isinstance(first, tt.Tensor):
        return tt.stack([_like(first, sample) for sample in batch])
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biufc":
        return tt.asarray(np.stack([_like(first, np.asarray(sample)) for sample in batch]))
    if isinstance(first, (bool, int)):
        return tt.asarray(list(batch))
    if isinstance(first, float):
        return tt.asarray(list(batch), dtype=tt.float64)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            raise ValueError(
                f"default_collate: samples of {min(lengths)} to {max(lengths)} parts make no batch; pass a collate_fn "
                "that pads them (nn.utils.rnn.pad_sequence, Batch.of)"
            )
        columns = [default_collate(column) for column in zip(*batch)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        f"default_collate: expected Tensors, arrays, numbers, texts, or tuples, lists and dictionaries of them, got a "
        f"{type(first).__name__}; pass a collate_fn"
    )


def _like(first: Any, sample: Any) -> Any:
    if sample.shape != first.shape:
        raise ValueError(
            f"default_collate: samples of shapes {first.shape} and {sample.shape} make no batch; pass a collate_fn "
            "that pads them (nn.utils.rnn.pad_sequence)"
        )
    return sample
