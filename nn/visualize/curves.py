"""Curves: of any numbers, of losses over training, of learning rates."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .chart import chart, read_curve
from .svg import Picture
from .tokens import isolated
from .weights import to_numpy


def curves(
    values: Any,
    *,
    title: str = "Curves",
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
    markers: bool = False,
) -> Picture:
    """Curves over a common pair of axes; colours and dashes tell them apart.

        visualize.curves({"sin": (x, np.sin(x)), "cos": (x, np.cos(x))}, x_label="angle").save("waves.svg")

    Numbers that are not finite, or not positive on a logarithmic axis, leave a gap. With more than 2,000 points, it
    draws the smallest and the largest value of each stretch.

    Args:
        values: for each name its numbers (Tensors, arrays, lists), or a pair (x, numbers); default for x: 0, 1, ...;
            numbers or a pair alone are a curve without a name.
        title: a line above the picture.
        x_label, y_label: the names of the axes.
        log_x, log_y: True if the axis is logarithmic.
        markers: True if each point has a dot, useful for a few measurements.

    Raises ValueError if x and numbers differ in length or nothing can be drawn.
    """
    named = values if isinstance(values, Mapping) else {"curve": values}
    read = {str(name): read_curve("curves", str(name), item) for name, item in named.items()}
    if not read:
        raise ValueError("curves: no curve was given")
    description = "; ".join(_words(name, x, y) for name, (x, y) in read.items())
    return chart(
        read, title=title, x_name=x_label, y_name=y_label, description=f"{description}.", log=log_y, log_x=log_x,
        markers=markers,
    )  # fmt: skip


def _words(name: str, x: np.ndarray, y: np.ndarray) -> str:
    """A curve in words, for those who cannot see it."""
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return f"{isolated(name)} has no finite value"
    x, y = x[finite], y[finite]
    low, high = int(y.argmin()), int(y.argmax())
    return (
        f"{isolated(name)} goes from {y[0]:.4g} at {x[0]:.4g} to {y[-1]:.4g} at {x[-1]:.4g}; it is lowest, "
        f"{y[low]:.4g}, at {x[low]:.4g} and highest, {y[high]:.4g}, at {x[high]:.4g}"
    )


def loss_curve(losses: Any, *, steps: Any = None, log: bool = False, title: str = "Loss") -> Picture:
    """The loss against the training step.

    A loss that is not finite leaves a gap.

    Args:
        losses: the numbers, one for each step; or a dict of several curves, as `{"training": ..., "validation": ...}`;
            a curve with fewer numbers may be a pair (steps, numbers).
        steps: the steps of the numbers; default: 1, 2, ...
        log: True if the axis of the loss is logarithmic.
        title: a line above the picture.

    Raises ValueError if numbers and steps differ in length or nothing is finite.
    """
    named = losses if isinstance(losses, Mapping) else {"loss": losses}
    curves = {str(name): read_curve("loss_curve", str(name), y, steps, first=1.0) for name, y in named.items()}
    if not curves:
        raise ValueError("loss_curve: no losses were given")
    ends = [f"{isolated(name)} from {y[0]:.4g} to {y[-1]:.4g}" for name, (_, y) in curves.items()]
    description = f"Over the steps, {'; '.join(ends)}."
    return chart(curves, title=title, x_name="step", y_name="loss", log=log, description=description)


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
