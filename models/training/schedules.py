"""Optimising models: Adam, and schedules of its learning rate, as factors of the highest rate for `LambdaLR`."""

from __future__ import annotations

import math
from collections.abc import Callable

from tinytensor import nn


def warm_up_and_decay(warm_up: int, steps: int) -> Callable[[int], float]:
    """Up in a straight line over `warm_up` steps, then down along a cosine to 0 at `steps`."""

    def factor(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))

    return factor


def inverse_square_root(warm_up: int, steps: int) -> Callable[[int], float]:
    """Up in a straight line over `warm_up` steps, then down as 1 / sqrt(step) (Vaswani et al. 2017, section 5.3).

    It does not depend on the number of steps.
    """

    def factor(step: int) -> float:
        return min((step + 1) / warm_up, math.sqrt(warm_up / (step + 1)))

    return factor


SCHEDULES = {"cosine": warm_up_and_decay, "inverse-square-root": inverse_square_root}
"""By name, functions of the warm-up steps and all steps."""


def adam(
    model: nn.Module, schedule: str, learning_rate: float, warm_up: int, steps: int
) -> tuple[nn.optim.Adam, nn.optim.lr_scheduler.LambdaLR]:
    """Adam with the paper's constants (Vaswani et al. 2017, section 5.3), and its schedule, one of SCHEDULES."""
    optimizer = nn.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), eps=1e-9)
    return optimizer, nn.optim.lr_scheduler.LambdaLR(optimizer, SCHEDULES[schedule](warm_up, steps))
