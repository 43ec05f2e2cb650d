"""Curves over steps: what pictures of schedules and losses have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .svg import INK, MUTED, RULE, SERIES, Element, Picture, text_width
from .tokens import isolated

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 20.0, 62.0, 52.0
DASHES = (None, "7 3", "2 3", "9 3 2 3")  # what tells lines apart where colours do not
MOST_POINTS = 2000

Curve = tuple[np.ndarray, np.ndarray]


def chart(curves: Mapping[str, Curve], *, title: str, x_name: str, y_name: str, log: bool, description: str) -> Picture:
    """Lines over a common pair of axes, with a legend where there are several.

    Values that are not finite break a line; with more than 2,000 points, of each stretch the smallest and the largest
    value are drawn.

    Args:
        curves: for each name, steps and values.
        log: whether the values' axis is logarithmic; values that are not positive break the line then.

    Raises ValueError where nothing can be drawn.
    """
    drawable = {name: (x, np.where((y > 0) | (not log), y, np.nan)) for name, (x, y) in curves.items()}
    finite = np.concatenate([y[np.isfinite(y)] for _, y in drawable.values()])
    if not finite.size:
        raise ValueError(f"{title}: no value can be drawn; expected finite{' positive' if log else ''} numbers")
    steps = np.concatenate([x for x, _ in drawable.values()])
    x_ticks = _ticks(float(steps.min()), float(steps.max()))
    low, high = float(finite.min()), float(finite.max())
    y_ticks = _log_ticks(low, high) if log else _ticks(min(low, 0.0) if low < high / 3 else low, high)
    x_low, x_high = min(float(steps.min()), x_ticks[0]), max(float(steps.max()), x_ticks[-1])
    x_low, x_high = (x_low, x_high) if x_high > x_low else (x_low - 0.5, x_high + 0.5)
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])
    if log:
        low, high = math.log10(low), math.log10(high)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)

    def across(x: float) -> float:
        return LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        share = ((math.log10(y) if log else y) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    children = [Element("text", title, x=16, y=24, font_size=15, font_weight="bold", fill=INK)]
    grid = Element("g", stroke=RULE, stroke_width=1)
    names = Element("g", font_size=12, fill=MUTED)
    for tick in y_ticks:
        grid.children.append(Element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=down(tick), y2=down(tick)))
        place = {"x": LEFT - 8, "y": down(tick) + 4, "text_anchor": "end"}
        names.children.append(Element("text", _tick(tick), class_="y-tick", **place))
    for tick in x_ticks:
        at, base = across(tick), HEIGHT - BOTTOM
        grid.children.append(Element("line", x1=at, x2=at, y1=base, y2=base + 5))
        names.children.append(Element("text", _tick(tick), x=at, y=base + 19, text_anchor="middle", class_="x-tick"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    names.children.append(Element("text", x_name, x=middle, y=HEIGHT - 12, text_anchor="middle"))
    names.children.append(Element("text", y_name + (", logarithmic" if log else ""), x=16, y=TOP - 14))
    children += [grid, names]
    legend = WIDTH - RIGHT
    for i, (name, (x, y)) in reversed(list(enumerate(drawable.items()))):
        colour, dash = SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]
        look = {"stroke": colour, "stroke_width": 2, "stroke_dasharray": dash, "fill": "none"}
        points = _path([(across(a), down(b) if math.isfinite(b) else b) for a, b in zip(*_thinned(x, y))])
        line = Element("path", d=points, stroke_linejoin="round", class_="curve", **look)
        line.children.append(Element("title", isolated(name)))
        children.append(line)
        if len(drawable) > 1:
            legend -= text_width(name, 12)
            children.append(Element("text", isolated(name), x=legend, y=TOP - 14, font_size=12, fill=INK))
            children.append(Element("line", x1=legend - 32, x2=legend - 6, y1=TOP - 18, y2=TOP - 18, **look))
            legend -= 48
    return Picture(WIDTH, HEIGHT, title, description, children)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Lines between finite points; a point alone between gaps is a dot's width long."""
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
    """The least and the greatest value of every stretch, in their order, where there are more points than pixels."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept: set[int] = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), MOST_POINTS // 4):
        values = y[stretch]
        gaps = stretch[~np.isfinite(values)]
        kept.update(gaps[:1].tolist())
        if len(gaps) < len(stretch):
            kept.update((int(stretch[np.nanargmin(_finite(values))]), int(stretch[np.nanargmax(_finite(values))])))
    chosen = sorted(kept)
    return x[chosen], y[chosen]


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers from low to high."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 8)
    return [round(i * step, 12) for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around the values; also 2 and 5 times them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if last - first > 3:
        return [10.0**e for e in range(first, last + 1, 1 + (last - first) // 8)]
    every = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    below = [t for t in every if t <= low * (1 + 1e-9)] or every[:1]
    above = [t for t in every if t >= high * (1 - 1e-9)] or every[-1:]
    return [t for t in every if below[-1] <= t <= above[0]]


def _tick(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}") if abs(value) < 1e6 else f"{value:.3g}"
