"""The schedule that depends on the loss."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler, check_optimizer, for_each_group


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` after more than `patience` epochs without a better loss.

    `step(loss)` takes the loss (or an accuracy, with `mode="max"`), a number or a Tensor of one element.

    Args:
        mode: "min" if smaller is better, "max" if larger is.
        factor: the factor of the rates, below 1.
        patience: the number of epochs without improvement to tolerate.
        threshold: the least improvement; relative to the best so far (`threshold_mode` "rel"), or absolute ("abs").
        cooldown: the number of epochs after a reduction that do not count.
        min_lr: the lowest rate, or one for each parameter group.
        eps: skip a reduction by less than this.

    Raises ValueError for arguments out of range, and at a reduction if groups were added to the optimiser that a list
    `min_lr` lacks.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer(self, optimizer)
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor!r}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = for_each_group("min_lr", min_lr, optimizer)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        self.last_epoch = 0
        self._last_lr = self._present()

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take the epoch's loss, and set the learning rates of the next one."""
        self.last_epoch += 1
        current = float(metrics)
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._present()

    @property
    def in_cooldown(self) -> bool:
        """True during the epochs after a reduction that do not count."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float) -> bool:
        margin = self.threshold if self.mode == "max" else -self.threshold
        bar = self.best * (1 + margin) if self.threshold_mode == "rel" else self.best + margin
        return value > bar if self.mode == "max" else value < bar

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if self.default_min_lr is not None:
            self.min_lrs = [self.default_min_lr] * len(groups)  # groups may have been added
        if len(self.min_lrs) != len(groups):
            raise ValueError(
                f"ReduceLROnPlateau: min_lr has {len(self.min_lrs)} values for {len(groups)} parameter groups; a group "
                "was added, so set min_lrs anew"
            )
        for group, lowest in zip(groups, self.min_lrs):
            reduced = max(group["lr"] * self.factor, lowest)
            if group["lr"] - reduced > self.eps:
                group["lr"] = reduced
