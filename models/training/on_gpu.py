"""Forward and backward of a step's batches on a GPU, one batch after another, each launched at once where it can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn

from ..data.batch import AnyBatch
from .loss import cross_entropy


class ForwardBackwardOnGpu:
    """What `halves.forward_backward` does for one model, with the same arguments and results."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.step = nn.compile_step(self._loss_and_logits, model, warn=False)  # that of recurrent models reads lengths

    def _loss_and_logits(
        self, kind: type[AnyBatch], label_smoothing: float, weight: Any, *ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        batch = kind(*ids)
        logits = self.model(*batch.inputs)
        return cross_entropy(logits, batch, label_smoothing) * weight, logits

    def __call__(self, model: Any, batches: Sequence[AnyBatch], label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        tokens = max(sum(batch.tokens for batch in batches), 1)
        total: Any = None
        for batch in batches:
            ids = [tt.asarray(x, device="gpu") for x in vars(batch).values()]
            weight: Any = 1.0
            if len(batches) > 1:  # as an array, since a number would be recorded as it is
                weight = tt.asarray(batch.tokens / tokens, dtype=next(model.parameters()).dtype, device="gpu")
            loss, logits = self.step(type(batch), label_smoothing, weight, *ids)
            total = loss if total is None else total + loss
        return logits, total
