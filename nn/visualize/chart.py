"""Curves over a common pair of axes: the base of pictures of schedules, losses and others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .svg import INK, MINUS, MUTED, RULE, SERIES, Element, Picture, text_width, titled
from .tokens import fitted, isolated
from .weights import to_numpy

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 20.0, 62.0, 52.0
DASHES = (None, "7 3", "2 3", "9 3 2 3")  # they tell lines apart when colours do not
MOST_POINTS = 2000
LONGEST_NAME = 200.0

Curve = tuple[np.ndarray, np.ndarray]


def chart(
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
    """Lines over a common pair of axes, with a legend if there are several.

    Values that are not finite break a line; with more than 2,000 points, it draws the smallest and the largest value of
    each stretch.

    Args:
        curves: for each name, steps and values.
        log, log_x: True if the axis of the values, or of the steps, is logarithmic; then numbers that are not positive
            break the line.
        markers: True if each point has a dot.

    Raises ValueError if nothing can be drawn.
    """
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


def read_curve(who: str, name: str, values: Any, x: Any = None, *, first: float = 0.0) -> Curve:
    """The steps and the values of one curve, as float64.

    Args:
        who: the function that errors name.
        values: numbers, one for each step; or a pair (steps, numbers).
        x: the steps, unless values are a pair; default: counted from `first`.

    Raises ValueError if numbers and steps differ in length.
    """
    if isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == 1:
        x, values = values
    y = _numbers(values)
    steps = np.arange(first, y.size + first) if x is None else _numbers(x)
    if y.ndim != 1 or steps.shape != y.shape or not y.size:
        raise ValueError(
            f"{who}: {name} has shape {y.shape} and its steps {steps.shape}; expected as many numbers as steps, at "
            "least one"
        )
    return steps, y


def _numbers(values: Any) -> np.ndarray:
    if isinstance(values, (list, tuple)):
        values = [float(v) for v in values]  # losses of a training loop may be Tensors
    return to_numpy(values).astype(np.float64)


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
        names.children.append(
            Element("text", tick_text(tick), x=at, y=base + 19, text_anchor="middle", class_="x-tick")
        )
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


def linear_ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers from low to high."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 8)
    digits = 12 - math.floor(math.log10(step))
    return [round(i * step, digits) for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


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
