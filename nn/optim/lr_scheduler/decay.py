"""Schedules that multiply the rate by a number at some epochs: steps, lines and powers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..optimizer import Optimizer
from .scheduler import LRScheduler


class StepLR(LRScheduler):
    """The rate times gamma every `step_size` epochs: lr = base_lr * gamma^floor(epoch / step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size must be at least 1, got {step_size!r}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._present()
        return [lr * self.gamma for lr in self._present()]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the epochs `milestones`: lr = base_lr * gamma^(number reached)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = dict(Counter(milestones))
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma ** self.milestones.get(self.last_epoch, 0) for lr in self._present()]


class ExponentialLR(LRScheduler):
    """The rate times gamma every epoch: lr = base_lr * gamma^epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._just_made:
            return self._present()
        return [lr * self.gamma for lr in self._present()]


class ConstantLR(LRScheduler):
    """A part of the rate for some epochs, then all of it: lr = base_lr * (factor if epoch < total_iters else 1)."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 < factor <= 1:
            raise ValueError(f"ConstantLR: factor must be above 0 and at most 1, got {factor!r}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._present()]
        if self.last_epoch == self.total_iters:
            return [lr / self.factor for lr in self._present()]
        return self._present()


class LinearLR(LRScheduler):
    """A straight line from `start_factor` to `end_factor` in `total_iters` epochs; the usual warm-up.

    lr = base_lr * (start_factor + (end_factor - start_factor) * min(epoch, total_iters) / total_iters), computed from
    the present rate.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor!r}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be from 0 to 1, got {end_factor!r}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._present()]
        if self._just_made or self.last_epoch > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1 + rise / before) for lr in self._present()]


class PolynomialLR(LRScheduler):
    """Down to 0 in `total_iters` epochs: lr = base_lr * (1 - min(epoch, total_iters) / total_iters)^power.

    A power of 1 gives a straight line. Computed from the present rate.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._just_made or self.last_epoch > self.total_iters:
            return self._present()
        left, before = (1 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return [lr * (left / before) ** self.power for lr in self._present()]
