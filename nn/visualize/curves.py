"""Curves of any numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .chart import chart, read_curve
from .svg import Picture
from .tokens import isolated


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
