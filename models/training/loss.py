"""The loss of a batch, its gradients, and accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable
from tinytensor.nn import functional as F

from ..data.batch import AnyBatch, Batch


class ForwardBackward(metaclass=Replaceable):
    """Adds the gradient of the mean loss over all target tokens of some batches to every `.grad`.

    Args:
        model: called as `model(*batch.inputs)`, gives logits (batch, target, vocabulary).
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @may_be_faster
    def __call__(self, batches: Sequence[AnyBatch], label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """The logits for the last batch, and the loss, both without a graph."""
        tokens = max(sum(batch.tokens for batch in batches), 1)
        total: Any = None
        for batch in batches:
            logits = self.model(*batch.inputs)
            loss = cross_entropy(logits, batch, label_smoothing) * (batch.tokens / tokens)
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        return logits.detach(), total


def cross_entropy(logits: Tensor, batch: AnyBatch, label_smoothing: float = 0.0) -> Tensor:
    """The mean cross-entropy of the batch's target tokens; padding does not count.

    Args:
        logits: (batch, target, vocabulary).
        label_smoothing: Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017.
    """
    target = tt.asarray(batch.target_out.reshape(-1), device=logits.device)
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(rows, target, ignore_index=batch.ignored, label_smoothing=label_smoothing)


def accuracies(logits: Tensor, batch: AnyBatch) -> dict[str, float]:
    """The share of target tokens, and of whole answers if there are any, that the likeliest ids get right."""
    guess = tt.argmax(logits, axis=-1)
    target = tt.asarray(batch.target_out, device=logits.device)
    counted = target != batch.ignored
    right = (guess == target) | ~counted
    shares = {"token accuracy": tt.sum(right & counted).item() / max(int(tt.sum(counted).item()), 1)}
    if isinstance(batch, Batch):  # a stretch of text is not an answer
        shares["sequence accuracy"] = tt.mean(tt.astype(tt.all(right, axis=1), tt.float32)).item()
    return shares
