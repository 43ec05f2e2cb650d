"""Curves over a common pair of axes: of any numbers, of losses over training, of learning rates."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .svg import INK, MINUS, MUTED, RULE, SERIES, Element, Picture, linear_ticks, text_width, titled
from .tokens import fitted, isolated
from .weights import real, to_numpy

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 20.0, 62.0, 52.0
DASHES = (None, "7 3", "2 3", "9 3 2 3")  # they tell lines apart when colours do not
MOST_POINTS = 2000
LONGEST_NAME = 200.0

Curve = tuple[np.ndarray, np.ndarray]


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
    read = {str(name): _read_curve("curves", str(name), item) for name, item in named.items()}
    if not read:
        raise ValueError("curves: no curve was given")
    description = "; ".join(_words(name, x, y) for name, (x, y) in read.items())
    return _chart(
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
    curves = {str(name): _read_curve("loss_curve", str(name), y, steps, first=1.0) for name, y in named.items()}
    if not curves:
        raise ValueError("loss_curve: no losses were given")
    ends = [f"{isolated(name)} from {y[0]:.4g} to {y[-1]:.4g}" for name, (_, y) in curves.items()]
    description = f"Over the steps, {'; '.join(ends)}."
    return _chart(curves, title=title, x_name="step", y_name="loss", log=log, description=description)


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
    return _chart(curves, title=title, x_name="step", y_name="learning rate", log=log, description=description)


def _rates(schedule: Any, steps: int | None) -> Any:
    if not isinstance(schedule, LRScheduler) and not callable(schedule):
        return to_numpy(schedule)[:steps]
    if steps is None or steps < 1:
        raise ValueError(f"learning_rate_schedule: steps is {steps}; expected how many steps to draw, at least 1")
    if isinstance(schedule, LRScheduler):
        return _rehearse(schedule, steps)
    return [float(schedule(step)) for step in range(steps)]


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


# ---- how they are drawn


def _chart(
    curves: Mapping[str, Curve],
    *,
    title: str,
    x_name: str,
    y_name: str,
    description: str,
    log: bool = False,
    log_x: bool = False,
    markers: bool = False,
) -> Picture:
    """Lines over a common pair of axes, with a legend if there are several; `curves` says more of the arguments."""
    drawable = {name: _drawable(x, y, log_x, log) for name, (x, y) in curves.items()}
    x_seen, y_seen = (np.concatenate([numbers[np.isfinite(numbers)] for numbers in c]) for c in zip(*drawable.values()))
    if not y_seen.size:
        positive = " positive" if log or log_x else ""
        raise ValueError(f"{title}: no value can be drawn; expected finite{positive} numbers")
    across = _Axis.around(float(x_seen.min()), float(x_seen.max()), log_x, LEFT, WIDTH - RIGHT)
    low, high = float(y_seen.min()), float(y_seen.max())
    down = _Axis.around(low if log or low >= high / 3 else min(low, 0.0), high, log, HEIGHT - BOTTOM, TOP)

    x_name, y_name = _axis_name(x_name, log_x), _axis_name(y_name, log)
    children = _axes(across, down, x_name, y_name)
    legend = _Legend.of(list(drawable), y_name)
    for i, (name, (x, y)) in reversed(list(enumerate(drawable.items()))):
        places = [(across(a), down(b)) if math.isfinite(b) else (math.nan, math.nan) for a, b in zip(*_thinned(x, y))]
        line = Element("path", d=_path(places), stroke_linejoin="round", class_="curve", **_look(i))
        line.children.append(Element("title", isolated(name)))
        children.append(line)
        if markers:
            dots = [Element("circle", cx=a, cy=b, r=3) for a, b in places if math.isfinite(b)]
            children.append(Element("g", *dots, fill=SERIES[i % len(SERIES)], class_="markers"))
        if len(drawable) > 1:
            children += legend.entry(i, name)
    return titled(WIDTH + legend.beside, max(HEIGHT, legend.bottom), title, description, children)


def _read_curve(who: str, name: str, values: Any, x: Any = None, *, first: float = 0.0) -> Curve:
    """The steps and the values of one curve, as float64.

    Args:
        who: the function that errors name.
        values: numbers, one for each step; or a pair (steps, numbers).
        x: the steps, unless values are a pair; default: counted from `first`.

    Raises ValueError if numbers and steps differ in length.
    """
    if isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == 1:
        x, values = values
    y = _numbers(who, name, values)
    steps = np.arange(first, y.size + first) if x is None else _numbers(who, f"x of {name}", x)
    if y.ndim != 1 or steps.shape != y.shape or not y.size:
        raise ValueError(
            f"{who}: {name} has shape {y.shape} and its steps {steps.shape}; expected as many numbers as steps, at "
            "least one"
        )
    return steps, y


def _numbers(who: str, name: str, values: Any) -> np.ndarray:
    if isinstance(values, (list, tuple)):
        values = [float(v) for v in values]  # losses of a training loop may be Tensors
    return real(values, f"{who}: {name}")


def _drawable(x: np.ndarray, y: np.ndarray, log_x: bool, log: bool) -> Curve:
    """The curve with NaN for points that have no place on the axes."""
    x = np.where(np.isfinite(x) & ((x > 0) | (not log_x)), x, np.nan)
    return x, np.where(np.isfinite(x) & np.isfinite(y) & ((y > 0) | (not log)), y, np.nan)


# ---- axes


@dataclass(frozen=True)
class _Axis:
    """From numbers to pixels.

    Attributes:
        low, high: the numbers at its ends; for a logarithmic axis, their logarithms.
        ticks: round numbers.
        begin, end: the pixels at its ends.
    """

    low: float
    high: float
    ticks: list[float]
    log: bool
    begin: float
    end: float

    @staticmethod
    def around(low: float, high: float, log: bool, begin: float, end: float) -> _Axis:
        """An axis that has both numbers and the ticks around them."""
        ticks = _log_ticks(low, high) if log else linear_ticks(low, high)
        low, high = min(low, ticks[0]), max(high, ticks[-1])
        if log:
            low, high = math.log10(low), math.log10(high)
        low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
        return _Axis(low, high, ticks, log, begin, end)

    def __call__(self, value: float) -> float:
        share = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def _axis_name(name: str, log: bool) -> str:
    return ", ".join(filter(None, [name, "logarithmic" * log]))


def _axes(across: _Axis, down: _Axis, x_name: str, y_name: str) -> list[Element]:
    """The lines, numbers and names of the axes."""
    grid = Element("g", stroke=RULE, stroke_width=1)
    names = Element("g", font_size=12, fill=MUTED)
    for tick in down.ticks:
        grid.children.append(Element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=down(tick), y2=down(tick)))
        place = {"x": LEFT - 8, "y": down(tick) + 4, "text_anchor": "end"}
        names.children.append(Element("text", tick_text(tick), class_="y-tick", **place))
    for tick in across.ticks:
        at, base = across(tick), HEIGHT - BOTTOM
        grid.children.append(Element("line", x1=at, x2=at, y1=base, y2=base + 5))
        place = {"x": at, "y": base + 19, "text_anchor": "middle"}
        names.children.append(Element("text", tick_text(tick), class_="x-tick", **place))
    middle = (LEFT + WIDTH - RIGHT) / 2
    names.children.append(Element("text", x_name, x=middle, y=HEIGHT - 12, text_anchor="middle"))
    names.children.append(Element("text", y_name, x=16, y=TOP - 14))
    return [grid, names]


# ---- the legend


@dataclass(frozen=True)
class _Legend:
    """The names of curves: in a line above the curves if they fit, otherwise in a column beside them.

    Attributes:
        places: left and baseline of each name.
        beside: how much wider the column makes the picture.
        bottom: the lower end of the column; 0 without one.
    """

    places: list[tuple[float, float]]
    beside: float
    bottom: float

    @staticmethod
    def of(names: Sequence[str], y_name: str) -> _Legend:
        widths = [text_width(name, 12) for name in names]
        ends = WIDTH - RIGHT - np.cumsum([w + 48 for w in widths[::-1]])[::-1] + 48
        if ends[0] - 32 > 16 + text_width(y_name, 12) + 24:
            return _Legend([(float(x), TOP - 14) for x in ends], 0.0, 0.0)
        places = [(WIDTH + 40, TOP + 14 + 20.0 * i) for i in range(len(names))]
        return _Legend(places, 56 + min(LONGEST_NAME, max(widths)), places[-1][1] + 16)

    def entry(self, i: int, name: str) -> list[Element]:
        """A name, and a sample of its line before it."""
        x, y = self.places[i]
        text = fitted(name, LONGEST_NAME, 12, x=x, y=y, fill=INK)
        return [text, Element("line", x1=x - 32, x2=x - 6, y1=y - 4, y2=y - 4, **_look(i))]


def _look(i: int) -> dict[str, Any]:
    """The look of a line by its number; after one round of colours, the dashes change."""
    dash = DASHES[(i + i // len(SERIES)) % len(DASHES)]
    return {"stroke": SERIES[i % len(SERIES)], "stroke_width": 2, "stroke_dasharray": dash, "fill": "none"}


# ---- lines


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Lines between finite points; a single point between gaps is 2 pixels long."""
    parts, open_ = [], False
    for i, (x, y) in enumerate(points):
        if not math.isfinite(y):
            open_ = False
            continue
        parts.append(f"{'L' if open_ else 'M'}{x:.2f} {y:.2f}")
        if not open_ and (i + 1 == len(points) or not math.isfinite(points[i + 1][1])):
            parts.append("h2")
        open_ = True
    return "".join(parts)


def _thinned(x: np.ndarray, y: np.ndarray) -> Curve:
    """The curve, or the least and the greatest value of every stretch if it has more than `MOST_POINTS` points."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept: set[int] = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), MOST_POINTS // 4):
        values = y[stretch]
        gaps = stretch[~np.isfinite(values)]
        kept.update(gaps[:1].tolist())
        if len(gaps) < len(stretch):
            kept.update((int(stretch[np.nanargmin(values)]), int(stretch[np.nanargmax(values)])))
    chosen = sorted(kept)
    return x[chosen], y[chosen]


# ---- round numbers


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around the values; also 2 and 5 times them if there are few."""
    first, last = max(math.floor(math.log10(low)), -307), min(math.ceil(math.log10(high)), 308)
    if last - first > 3:
        return [10.0**e for e in range(first, last + 1, 1 + (last - first) // 8)]
    every = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    below = [t for t in every if t <= low * (1 + 1e-9)] or every[:1]
    above = [t for t in every if t >= high * (1 - 1e-9)] or every[-1:]
    return [t for t in every if below[-1] <= t <= above[0]]


def tick_text(value: float) -> str:
    return f"{value:g}".replace("-", MINUS) if abs(value) < 1e6 else f"{value:.3g}"
