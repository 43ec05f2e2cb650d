"""The loss of a batch, and how much of the batch is right."""

from __future__ import annotations

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.nn import functional as F

from ..data.batch import PAD, AnyBatch, Batch


def cross_entropy(logits: Tensor, batch: AnyBatch, label_smoothing: float = 0.0) -> Tensor:
    """The mean over the batch's target tokens; padding does not count.

    Args:
        logits: (batch, target, vocabulary).
        label_smoothing: Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017.
    """
    target = tt.asarray(batch.target_out.reshape(-1), device=logits.device)
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(rows, target, ignore_index=PAD, label_smoothing=label_smoothing)


def accuracies(logits: Tensor, batch: AnyBatch) -> dict[str, float]:
    """The share of target tokens, and of whole answers where there are any, that the most likely ids get right."""
    guess = tt.argmax(logits, axis=-1)
    target = tt.asarray(batch.target_out, device=logits.device)
    counted = target != PAD
    right = (guess == target) | ~counted
    shares = {"token accuracy": tt.sum(right & counted).item() / max(int(tt.sum(counted).item()), 1)}
    if isinstance(batch, Batch):  # a stretch of text is no answer
        shares["sequence accuracy"] = tt.mean(tt.astype(tt.all(right, axis=1), tt.float32)).item()
    return shares
