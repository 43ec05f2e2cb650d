"""The loss over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .chart import chart
from .svg import Picture
from .tokens import isolated
from .weights import to_numpy


def loss_curve(losses: Any, *, steps: Any = None, log: bool = False, title: str = "Loss") -> Picture:
    """The loss against the training step.

    A loss that is not finite leaves a gap.

    Args:
        losses: the numbers, one for each step; or a dict of several such, as `{"training": ..., "validation": ...}`,
            where one of fewer numbers may be given as a pair (steps, numbers).
        steps: at which steps; default: 1, 2, ...
        log: whether the axis of the loss is logarithmic.
        title: above the picture.

    Raises ValueError where numbers and steps differ in length or nothing is finite.
    """
    named = losses if isinstance(losses, Mapping) else {"loss": losses}
    curves = {str(name): _curve(str(name), values, steps) for name, values in named.items()}
    if not curves:
        raise ValueError("loss_curve: no losses were given")
    ends = [f"{isolated(name)} from {y[0]:.4g} to {y[-1]:.4g}" for name, (_, y) in curves.items()]
    description = f"Over the steps, {'; '.join(ends)}."
    return chart(curves, title=title, x_name="step", y_name="loss", log=log, description=description)


def _curve(name: str, values: Any, steps: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == 1:
        steps, values = values
    if isinstance(values, (list, tuple)):
        values = [float(v) for v in values]  # losses as they come out of a training loop may be Tensors
    y = to_numpy(values).astype(np.float64)
    x = np.arange(1.0, y.size + 1) if steps is None else to_numpy(steps).astype(np.float64)
    if y.ndim != 1 or x.shape != y.shape or not y.size:
        raise ValueError(
            f"loss_curve: {name} has shape {y.shape} and its steps {x.shape}; expected as many numbers as steps, at "
            "least one"
        )
    return x, y
