"""Schedules that go up and down, and the momentum the other way: once, or again and again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .functions import is_function
from .scheduler import LRScheduler, check_optimizer, for_each_group, in_common


class OneCycleLR(LRScheduler):
    """Up to a high rate and down to almost none in a given number of steps; the momentum goes down and up meanwhile.

    Smith & Topin 2018, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates". In a
    phase from a to b, after the part p of it, the rate is b + (a - b) * (1 + cos(pi * p)) / 2:

        max_lr / div_factor  ->  max_lr  ->  max_lr / div_factor / final_div_factor

    Call `step` after every batch, `total_steps` - 1 times.

    Args:
        max_lr: the highest rate, or one for each parameter group.
        total_steps: the number of steps of the cycle; or give `epochs` and `steps_per_epoch`.
        epochs, steps_per_epoch: their product is the number of steps.
        pct_start: the share of the steps with a rising rate.
        anneal_strategy: "cos", or "linear" for straight lines.
        cycle_momentum: whether the momentum (of Adam: beta1) changes as well.
        base_momentum: the lowest momentum, at the highest rate; or one for each group.
        max_momentum: the highest momentum, at the ends.
        div_factor: how many times smaller the first rate is than the highest.
        final_div_factor: how many times smaller the last rate is than the first.
        three_phase: go down as far as up, and then to the last rate.

    Raises ValueError for arguments out of range, for an optimiser without a momentum to change, and for more steps
    than `total_steps`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(self, optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps < 1:
            raise ValueError(f"OneCycleLR: the number of steps must be an integer of at least 1, got {total_steps!r}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be from 0 to 1, got {pct_start!r}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        top = pct_start * total_steps - 1
        phases = [(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            phases.append((2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            phases.append((total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            phases.append((total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(names, phase)) for phase in phases]
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, for_each_group("max_lr", max_lr, optimizer)):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1("OneCycleLR", optimizer)
            _set_momenta(optimizer, base_momentum, max_momentum, self.use_beta1, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _take_in(self, group: dict[str, Any]) -> None:
        momenta = ("max_momentum", "base_momentum") if self.cycle_momentum else ()
        for name in ("max_lr", "initial_lr", "min_lr", *momenta):
            group[name] = in_common(self, name)
        super()._take_in(group)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of {self.total_steps}; the cycle is over")
        start: float = 0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        end = phase["end_step"]
        part = (step - start) / (end - start) if end != start else 1.0
        if self._anneal_func_type == "cos":
            part = (1 - math.cos(math.pi * part)) / 2
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                low, high = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, low + (high - low) * part, self.use_beta1)
        return [
            group[phase["start_lr"]] + (group[phase["end_lr"]] - group[phase["start_lr"]]) * part for group in groups
        ]


class CyclicLR(LRScheduler):
    """Up and down in straight lines, again and again; the momentum goes down and up meanwhile.

    Smith 2017, "Cyclical Learning Rates for Training Neural Networks". With x the distance from the nearest valley, 1
    at the peak, lr = base_lr + (max_lr - base_lr) * x * scale. Call `step` after every batch.

    Args:
        base_lr, max_lr: the lowest and the highest rate, or one for each parameter group.
        step_size_up: the number of rising steps.
        step_size_down: the number of falling steps; default: `step_size_up`.
        mode: "triangular", every peak alike; "triangular2", half as high each time; "exp_range", times gamma^step.
        gamma: for "exp_range".
        scale_fn: instead of a mode, the scale as a function. Functions are not saved, but the attributes of callable
            objects are.
        scale_mode: the argument of `scale_fn`: the number of the "cycle", from 1, or the "iterations", from 0.
        cycle_momentum: whether the momentum (of Adam: beta1) changes as well.
        base_momentum: the lowest momentum, at the peaks; or one for each group.
        max_momentum: the highest momentum, in the valleys.

    Raises ValueError for an unknown mode, and for an optimiser without a momentum to change.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(self, optimizer)
        if mode not in MODES and scale_fn is None:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(MODES)}, or give a scale_fn; got {mode!r}")
        down = step_size_up if step_size_down is None else step_size_down
        if step_size_up < 1 or down < 1:
            raise ValueError(f"CyclicLR: it must rise and fall for at least 1 step, got {step_size_up!r} and {down!r}")
        base_lrs = for_each_group("base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for group, lowest in zip(optimizer.param_groups, base_lrs):
                group["lr"] = lowest
        self.max_lrs = for_each_group("max_lr", max_lr, optimizer)
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else MODES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1("CyclicLR", optimizer)
            momenta = _set_momenta(optimizer, base_momentum, max_momentum, self.use_beta1, last_epoch)
            self.base_momentums, self.max_momentums = momenta
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of a cycle's height, at the cycle x or the iteration x (`scale_mode`)."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return MODES[self.mode][1](self.gamma, x)

    def _take_in(self, group: dict[str, Any]) -> None:
        names = ("max_lr", "base_momentum", "max_momentum") if self.cycle_momentum else ("max_lr",)
        group["initial_lr"] = in_common(self, "base_lr", self.base_lrs)
        group |= {name: in_common(self, name, getattr(self, f"{name}s")) for name in names}
        for name in names:
            setattr(self, f"{name}s", [*getattr(self, f"{name}s"), group[name]])
        super()._take_in(group)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        x = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = x * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * height, self.use_beta1)
        return [base + (highest - base) * height for base, highest in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        scale = self._scale_fn_custom
        return {**super().state_dict(), "_scale_fn_custom": None if is_function(scale) else dict(scale.__dict__)}

    def _load(self, state: dict[str, Any]) -> None:
        attributes = state.pop("_scale_fn_custom")
        super()._load(state)
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)


MODES: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "triangular": ("cycle", lambda gamma, cycle: 1.0),
    "triangular2": ("cycle", lambda gamma, cycle: 0.5 ** (cycle - 1)),
    "exp_range": ("iterations", lambda gamma, iteration: gamma**iteration),
}
"""By mode: the argument of the scale, and its function of gamma and that argument."""


def _uses_beta1(name: str, optimizer: Optimizer) -> bool:
    if not {"momentum", "betas"} & set(optimizer.defaults):
        raise ValueError(
            f"{name}: {type(optimizer).__name__} has no momentum and no betas to change; pass cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def _set_momenta(
    optimizer: Optimizer, base: Any, highest: Any, use_beta1: bool, last_epoch: int
) -> tuple[list[float], list[float]]:
    """The lowest and the highest momentum of each group; at the beginning, store them in the groups."""
    lows = for_each_group("base_momentum", base, optimizer)
    highs = for_each_group("max_momentum", highest, optimizer)
    if last_epoch == -1:
        for group, low, high in zip(optimizer.param_groups, lows, highs):
            _set_momentum(group, high, use_beta1)
            group["max_momentum"], group["base_momentum"] = high, low
    return lows, highs


def _set_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
