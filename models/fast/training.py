"""Forward and backward of a training step, sooner: in halves on two threads, or launched at once on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.fast.texts import Way, replaced
from tinytensor.nn.channel_normalization import BatchNorm

from ..data.batch import AnyBatch
from ..training import loss as textbook

STEPS = Way(
    "forward and backward of a training step", "models.training.loss:ForwardBackward.__call__",
    calls=("models.training.loss:cross_entropy",),
)  # fmt: skip


def forward_backward(
    own: textbook.ForwardBackward, batches: Sequence[AnyBatch], label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor] | None:
    """The results of `ForwardBackward`; None where its own lines are to compute.

    The gradients of one group of `grouped` are there before the next begins, so that memory holds the graphs of one
    group only.
    """
    model = own.model
    if not STEPS.holds() or replaced:  # gradients are added up in another order, by other calls
        return None
    parameter = next(model.parameters(), None)
    if parameter is not None and parameter.device == "gpu":
        if own not in _on_gpu:
            _on_gpu[own] = OnGpu(model)
        return _on_gpu[own](batches, label_smoothing)
    groups = grouped(model, batches)
    if all(len(group) == 1 for group in groups) or not all(map(is_row_wise, model.modules())):
        return None
    tokens = max(sum(batch.tokens for batch in batches), 1)
    logits: list[Any] = []

    def loss_of(group: list[AnyBatch], place: int) -> Tensor:
        batch = group[place]
        out = model(*batch.inputs)
        logits[place] = out.detach()
        return textbook.cross_entropy(out, batch, label_smoothing) * (batch.tokens / tokens)

    total: Any = None
    for group in groups:
        logits[:] = [None] * len(group)
        losses = [partial(loss_of, group, place) for place in range(len(group))]
        loss = nn.parallel.backward_of_sum(losses, model.parameters())
        total = loss if total is None else total + loss
    is_whole = groups[-1][-1] is batches[-1]
    return logits[-1] if is_whole else tt.concat(logits), total


def is_row_wise(module: nn.Module) -> bool:
    """True if a module is one of ours that computes for each sequence apart, and nobody listens to it."""
    is_ours = type(module).__module__.startswith("tinytensor.") and "forward" not in vars(module)
    is_heard = module._forward_hooks or module._forward_pre_hooks
    return is_ours and not is_heard and not isinstance(module, BatchNorm)


def grouped(model: nn.Module, batches: Sequence[AnyBatch]) -> list[list[AnyBatch]]:
    """Groups of batches, each computed side by side: the halves of a large one, or two small ones."""
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


class OnGpu:
    """The same for one model on a GPU: one batch after another, each launched at once where it can be."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.step = nn.compile_step(self._loss_and_logits, model, warn=False)  # that of recurrent models reads lengths

    def __call__(self, batches: Sequence[AnyBatch], label_smoothing: float) -> tuple[Tensor, Tensor]:
        tokens = max(sum(batch.tokens for batch in batches), 1)
        total: Any = None
        for batch in batches:
            ids = [tt.asarray(x, device="gpu") for x in vars(batch).values()]
            weight: Any = 1.0
            if len(batches) > 1:  # as an array, since a number would be recorded as it is
                weight = tt.asarray(batch.tokens / tokens, dtype=next(self.model.parameters()).dtype, device="gpu")
            loss, logits = self.step(type(batch), label_smoothing, weight, *ids)
            total = loss if total is None else total + loss
        return logits, total

    def _loss_and_logits(
        self, kind: type[AnyBatch], label_smoothing: float, weight: Any, *ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        batch = kind(*ids)
        logits = self.model(*batch.inputs)
        return textbook.cross_entropy(logits, batch, label_smoothing) * weight, logits


_on_gpu: WeakKeyDictionary[textbook.ForwardBackward, OnGpu] = WeakKeyDictionary()

textbook.ForwardBackward.__call__.faster = forward_backward  # type: ignore[attr-defined]
