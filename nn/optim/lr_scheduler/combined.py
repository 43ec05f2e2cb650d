"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler


class _Combined(LRScheduler):
    """The base of both: schedules of one optimiser, and their states."""

    def __init__(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name}: expected at least one scheduler, got none")
        self.optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: scheduler {i} is a ReduceLROnPlateau, whose step needs a loss; call it by itself"
                )
            if scheduler.optimizer is not self.optimizer:
                raise ValueError(f"{name}: scheduler {i}, a {type(scheduler).__name__}, is of another optimizer")
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [each.state_dict() for each in self._schedulers]}

    def _check_state(self, state_dict: dict[str, Any]) -> None:
        super()._check_state(state_dict)
        saved = state_dict["_schedulers"]
        if len(saved) != len(self._schedulers):
            raise ValueError(
                f"{type(self).__name__}: load_state_dict: expected {len(self._schedulers)} schedulers, got {len(saved)}"
            )
        for scheduler, state in zip(self._schedulers, saved):
            scheduler._check_state(state)

    def _load(self, state: dict[str, Any]) -> None:
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers")):
            scheduler.load_state_dict(saved)
        super()._load(state)

    def _restart(self) -> None:
        self._back_to_the_initial_rates()
        self._start()

    def _back_to_the_initial_rates(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"])


class SequentialLR(_Combined):
    """One schedule after the other: for example a warm-up, and then a cosine.

    Each begins at its own epoch 0, from the initial rate, when its turn comes (`MultiplicativeLR` goes on from the
    present rate).

    Args:
        schedulers: schedulers of this optimiser, in order. Undoes their changes to the rates when they were made.
        milestones: the epochs when the second, the third, ... begins.

    Raises ValueError for schedulers of another optimiser, for a `ReduceLROnPlateau`, and unless there is one milestone
    fewer than schedulers.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: expected {len(schedulers) - 1} milestones for {len(schedulers)} schedulers, got "
                f"{len(milestones)}"
            )
        self._milestones = list(milestones)
        self._back_to_the_initial_rates()
        self._start(last_epoch)

    def _start(self, last_epoch: int = -1) -> None:
        self.last_epoch = last_epoch + 1
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._retake()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:
        """Go on to the next epoch (or step), with the next schedule if its turn has come."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedules at once: each changes the rate from the one before it.

    Args:
        schedulers: schedulers of one optimiser.
        optimizer: their optimiser.

    Raises ValueError for schedulers of another optimiser, and for a `ReduceLROnPlateau`.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        super().__init__(optimizer, schedulers)
        self._last_lr = self._present()

    def _start(self, last_epoch: int = -1) -> None:
        for scheduler in self._schedulers:
            scheduler._start(last_epoch)
        self._last_lr = self._present()

    def _retake(self) -> None:
        for scheduler in self._schedulers:
            scheduler._retake()
        self._last_lr = self._present()

    def step(self) -> None:
        """Let every schedule take its step."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()
