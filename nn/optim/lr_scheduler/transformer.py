"""The schedule of the Transformer."""

from __future__ import annotations

from ..optimizer import Optimizer
from .scheduler import LRScheduler


class TransformerLR(LRScheduler):
    """The schedule of the Transformer: a linear warm-up, then down with the inverse square root of the step.

    Vaswani et al. 2017, "Attention Is All You Need", section 5.3, equation 3, times a factor:

        lrate = factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)

    The first step of the optimiser is step 1. Every group gets this rate, whatever its initial rate.

    Args:
        d_model: the model's width.
        warmup_steps: the step with the highest rate.
        factor: the factor of the rate; 1 in the paper.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        d_model: int,
        warmup_steps: int = 4000,
        factor: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        if d_model < 1 or warmup_steps < 1:
            raise ValueError(
                f"TransformerLR: d_model and warmup_steps must be at least 1, got {d_model!r} and {warmup_steps!r}"
            )
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step = self.last_epoch + 1
        rate = self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5)
        return [rate] * len(self.base_lrs)
