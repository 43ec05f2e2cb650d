"""Schedules along a cosine, once or with warm restarts."""

from __future__ import annotations

import math

from ..optimizer import Optimizer
from .scheduler import LRScheduler


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to eta_min in T_max epochs, and up again.

    Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5, without the restarts:
    lr = eta_min + (base_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2, computed from the present rate.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max must be at least 1, got {T_max!r}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, low = self.last_epoch, self.eta_min
        angle = math.pi / self.T_max
        if self._just_made:
            return self._present()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # just after the bottom, where the ratio would be 0 / 0
            return [lr + (base - low) * (1 - math.cos(angle)) / 2 for base, lr in zip(self.base_lrs, self._present())]
        ratio = (1 + math.cos(angle * epoch)) / (1 + math.cos(angle * (epoch - 1)))
        return [ratio * (lr - low) + low for lr in self._present()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate down to eta_min, again and again, each `T_mult` times as long as the last.

    Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5:
    lr = eta_min + (base_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2, after T_cur of the T_i epochs of the present
    turn.

    Args:
        T_0: the number of epochs of the first turn.
        T_mult: how many times longer each turn is than the one before.
        eta_min: the lowest rate.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"CosineAnnealingWarmRestarts: {name} must be an integer of at least 1, got {value!r}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def _start(self, last_epoch: int = -1) -> None:
        self.T_cur, self.T_i = last_epoch, self.T_0
        super()._start(last_epoch)

    def step(self) -> None:
        """Go on to the next epoch (or step); after the last one of a turn, begin the next turn."""
        self.T_cur += 1
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        super().step()

    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]
