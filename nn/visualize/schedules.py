"""The learning rate over training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .chart import chart
from .svg import Picture
from .tokens import isolated
from .weights import to_numpy


def learning_rate_schedule(
    schedule: Any, steps: int | None = None, *, log: bool = False, title: str = "Learning rate"
) -> Picture:
    """The learning rate against the step.

    Args:
        schedule: a scheduler of `nn.optim.lr_scheduler`, which does not change; a function from the step, 0, 1, ...,
            to the rate; the rates themselves; or a dict of several of these by name.
        steps: how many steps to draw; optional if the rates are given.
        log: True if the axis of the rate is logarithmic.
        title: a line above the picture.

    Raises ValueError if steps are missing, and for a `ReduceLROnPlateau`, which waits for losses.
    """
    named = schedule if isinstance(schedule, Mapping) else {"learning rate": schedule}
    curves = {}
    for name, item in named.items():
        rates = np.asarray(_rates(item, steps), dtype=np.float64)
        if rates.ndim != 1 or not rates.size:
            raise ValueError(f"learning_rate_schedule: {name} has shape {rates.shape}; expected one rate for each step")
        curves[str(name)] = (np.arange(float(rates.size)), rates)
    if not curves:
        raise ValueError("learning_rate_schedule: no schedule was given")
    tops = [
        f"{isolated(name)} is highest, {y.max():.3g}, at step {int(y.argmax())} of {y.size}"
        for name, (_, y) in curves.items()
    ]
    description = f"{'; '.join(tops)}."
    return chart(curves, title=title, x_name="step", y_name="learning rate", log=log, description=description)


def _rates(schedule: Any, steps: int | None) -> Any:
    if not isinstance(schedule, LRScheduler) and not callable(schedule):
        return to_numpy(schedule)[:steps]
    if steps is None or steps < 1:
        raise ValueError(f"learning_rate_schedule: steps is {steps}; expected how many steps to draw, at least 1")
    if isinstance(schedule, LRScheduler):
        return _rehearse(schedule, steps)
    rate: Callable[[int], float] = schedule
    return [float(rate(step)) for step in range(steps)]


def _rehearse(scheduler: LRScheduler, steps: int) -> list[float]:
    """The rates of the first group from now on, by a twin of the scheduler on groups without parameters."""
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ValueError(
            "learning_rate_schedule: what a ReduceLROnPlateau does depends on losses to come; give the rates as numbers"
        )
    groups = [{k: v for k, v in group.items() if k != "params"} for group in scheduler.optimizer.param_groups]
    twin = copy.deepcopy(scheduler, {id(scheduler.optimizer): SimpleNamespace(param_groups=groups)})
    rates = [groups[0]["lr"]]
    while len(rates) < steps:
        twin.step()
        rates.append(groups[0]["lr"])
    return rates
