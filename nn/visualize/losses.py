"""The loss over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chart import chart, read_curve
from .svg import Picture
from .tokens import isolated


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
    curves = {
        str(name): read_curve("loss_curve", str(name), values, steps, first=1.0) for name, values in named.items()
    }
    if not curves:
        raise ValueError("loss_curve: no losses were given")
    ends = [f"{isolated(name)} from {y[0]:.4g} to {y[-1]:.4g}" for name, (_, y) in curves.items()]
    description = f"Over the steps, {'; '.join(ends)}."
    return chart(curves, title=title, x_name="step", y_name="loss", log=log, description=description)
