"""Forward and backward of a step's batches, on two threads where that is faster: the halves of a large batch, or two
small batches, are computed side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn

from ..data.batch import AnyBatch
from .loss import cross_entropy


def forward_backward(model: Any, batches: Sequence[AnyBatch], label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Add to every `.grad` that of the mean loss over all target tokens of the batches.

    The gradients of one group of `grouped` are there before the next begins, so that memory holds the graphs of one
    group only.

    Args:
        model: called as `model(*batch.inputs)`, gives logits (batch, target, vocabulary).

    Returns the logits for the last batch, and the loss, both without a graph.
    """
    tokens = max(sum(batch.tokens for batch in batches), 1)
    groups = grouped(model, batches)
    logits: list[Any] = []

    def loss_of(group: list[AnyBatch], place: int) -> Tensor:
        batch = group[place]
        out = model(*batch.inputs)
        logits[place] = out.detach()
        return cross_entropy(out, batch, label_smoothing) * (batch.tokens / tokens)

    total = None
    for group in groups:
        logits[:] = [None] * len(group)
        losses = [partial(loss_of, group, place) for place in range(len(group))]
        loss = nn.parallel.backward_of_sum(losses, model.parameters())
        total = loss if total is None else total + loss
    assert total is not None
    is_whole = groups[-1][-1] is batches[-1]
    return logits[-1] if is_whole else tt.concat(logits), total


def grouped(model: nn.Module, batches: Sequence[AnyBatch]) -> list[list[AnyBatch]]:
    """What is computed side by side, group after group: the halves of a large batch, or two small batches."""
    groups: list[list[AnyBatch]] = []
    for batch in batches:
        if nn.parallel.worth_splitting(model.parameters(), batch.tokens):
            groups.append(halves(batch))
        elif groups and len(groups[-1]) == 1:
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return groups


def halves(batch: AnyBatch) -> list[AnyBatch]:
    """A batch as two of half as many sequences, of the same lengths; a single sequence stays as it is."""
    middle = len(batch.target_out) // 2
    if not middle:
        return [batch]
    rows = slice(None, middle), slice(middle, None)
    return [replace(batch, **{name: array[some] for name, array in vars(batch).items()}) for some in rows]
