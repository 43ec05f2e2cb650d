"""Embedding: the look-up of rows, which is a linear map of one-hot inputs."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .checks import beside, check_range
from .precision import unchanged


@tt.op
def _embedding(weight, ids, *, padding_idx):
    """rows of the weight for ids.

    ∂L/∂weight = Σ of the rows of g with the same id, at that row
    """
    if padding_idx is None:
        return tt.take(weight, ids, axis=0)
    rows = tt.take(weight, ids, axis=0)
    return tt.where(tt.expand_dims(ids == padding_idx, axis=-1), rows.detach(), rows)


@unchanged
def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Row input[i] of the weight for each id: shapes (...), (num_embeddings, embedding_dim) -> (..., embedding_dim).

    The row `padding_idx` gets no gradient. On a GPU, threads add the gradients for one row in any order, so the last
    digits may differ from run to run.

    Raises TypeError for ids that are not integers, ValueError for a weight that is not a matrix, and IndexError for ids
    out of range; on a GPU only when a number is next read.
    """
    ids, length = beside(input, weight), weight.shape[0]
    if weight.ndim != 2:
        raise ValueError(f"embedding: the weight must be (num_embeddings, embedding_dim), got shape {weight.shape}")
    if ids.dtype.kind not in "iu":
        raise TypeError(f"embedding: ids must be integers, got {ids.dtype}")
    if padding_idx is not None:
        if not -length <= padding_idx < length:
            raise IndexError(f"embedding: padding_idx {padding_idx} is out of range for {length} rows")
        padding_idx %= length
    check_range("embedding", "ids", ids, length, later=True)
    return _embedding(weight, ids, padding_idx=padding_idx)


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """A row of zeros for each id, with a 1 at the id: (...) -> (..., num_classes), of integers.

    num_classes -1 means one more than the largest id. Raises IndexError for ids out of range.
    """
    return tt.one_hot(tensor, num_classes)
