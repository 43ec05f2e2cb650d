"""Vectors in a plane: as arrows from the origin, or as points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .curves import tick_text
from .svg import BOLD, INK, MINUS, MUTED, RULE, SERIES, Colour, Element, Picture, linear_ticks, text_width, titled
from .tokens import isolated, visible
from .weights import real

LEFT, TOP, MARGIN, WIDEST, HIGHEST = 56.0, 48.0, 24.0, 560.0, 460.0
FONT, HEAD, ARC = 13.0, 10.0, 38.0
MOST_WORDS = 20

Point = tuple[float, float]
Box = tuple[float, float, float, float]


def vectors(
    values: Any,
    *,
    arrows: bool = True,
    angle: Any = None,
    projection: Any = None,
    ways: Any = (),
    title: str = "Vectors",
    x_label: str = "",
    y_label: str = "",
) -> Picture:
    """Vectors of two numbers in a plane whose axes share one unit.

        a, b = (1.0, 2.0), (3.0, 1.0)
        visualize.vectors({"a": a, "b": b}, angle=("a", "b"), projection=("a", "b")).save("dot.svg")

    A name without room is only in the title of its point.

    Args:
        values: for each name its two numbers, or (vector, 2), named by their indices.
        arrows: draw arrows from the origin; otherwise points, such as words in a plane.
        angle: the names of two vectors; the picture shows the angle between them.
        projection: the names of two vectors; the first is projected on the second.
        ways: pairs of names, with an arrow from the first to the second, as from "man" to "king".
        title: a line above the picture.
        x_label, y_label: the names of the axes.

    Raises ValueError for other shapes, numbers that are not finite, names that do not exist, and the angle or the
    projection of a vector of length 0.
    """
    points = _read(values)
    between, shadow = _pair(points, angle, "angle"), _pair(points, projection, "projection")
    shown = [*points.values(), *([(0.0, 0.0)] if arrows else []), *([_foot(points, shadow)] if shadow else [])]
    plane = _Plane.around(shown)
    colours = {name: SERIES[i % len(SERIES)] if arrows else SERIES[0] for i, name in enumerate(points)}

    children = _axes(plane, x_label, y_label)
    labels = _Labels(plane)
    if shadow:
        children += _projected(plane, points, shadow, colours[shadow[0]], labels)
    if between:
        children += _angle(plane, points, between, labels)
    for start, end in (_pair(points, way, "ways") or way for way in ways):
        children.append(_arrow(plane, points[end], points[start], MUTED, "way"))
    for name, point in points.items():
        shape = _arrow(plane, point, (0.0, 0.0) if arrows else point, colours[name], "vector")
        shape.children.append(Element("title", f"{isolated(name)}: {point[0]:.4g}, {point[1]:.4g}"))
        children.append(shape)
        x, y = plane(point)
        labels.taken.append((x - 3, y - 3, x + 3, y + 3))  # no name covers the point
    children += [text for name, point in points.items() if (text := labels.name(name, plane(point), colours[name]))]
    return titled(LEFT + plane.width + MARGIN, TOP + plane.height + 46, title, _words(points, between), children)


def _words(points: dict[str, Point], between: tuple[str, str] | None) -> str:
    """The plane in words, for those who cannot see it."""
    parts = [f"{isolated(name)} at {x:.4g}, {y:.4g}" for name, (x, y) in list(points.items())[:MOST_WORDS]]
    if len(points) > MOST_WORDS:
        parts.append(f"and {len(points) - MOST_WORDS} more")
    if between:
        one, other = map(isolated, between)
        parts.append(f"the angle between {one} and {other} is {_degrees(points, between):.4g} degrees")
    return f"{'; '.join(parts)}."


# ---- what the user gave


def _read(values: Any) -> dict[str, Point]:
    items = values.items() if isinstance(values, Mapping) else enumerate(real(values, "vectors: values"))
    points = {}
    for name, item in items:
        pair = real(item, f"vectors: {name}", "two finite numbers")
        if pair.shape != (2,) or not np.isfinite(pair).all():
            raise ValueError(f"vectors: {name} has shape {pair.shape}, {pair}; expected two finite numbers")
        points[str(name)] = (float(pair[0]), float(pair[1]))
    if not points:
        raise ValueError("vectors: no vector was given")
    return points


def _pair(points: dict[str, Point], names: Any, option: str) -> tuple[str, str] | None:
    if names is None:
        return None
    found = [] if isinstance(names, str) else [str(name) for name in names]
    if len(found) != 2 or not set(found) <= set(points):
        raise ValueError(f"vectors: {option} is {names!r}; expected the names of two of {', '.join(points)}")
    if option != "ways" and any(math.hypot(*points[name]) == 0 for name in found):
        raise ValueError(f"vectors: {option}: a vector of length 0 has no direction")
    return found[0], found[1]


def _foot(points: dict[str, Point], pair: tuple[str, str]) -> Point:
    """The end of the projection of one vector on another."""
    (ax, ay), (bx, by) = points[pair[0]], points[pair[1]]
    share = (ax * bx + ay * by) / (bx * bx + by * by)
    return share * bx, share * by


def _degrees(points: dict[str, Point], pair: tuple[str, str]) -> float:
    (ax, ay), (bx, by) = points[pair[0]], points[pair[1]]
    return math.degrees(math.atan2(abs(ax * by - ay * bx), ax * bx + ay * by))


# ---- the plane


@dataclass(frozen=True)
class _Plane:
    """From numbers to pixels, with one unit for both axes.

    Attributes:
        low, high: the corners, lower left and upper right.
        unit: the pixels in 1.
    """

    low: Point
    high: Point
    unit: float

    @staticmethod
    def around(points: list[Point]) -> _Plane:
        array = np.array(points)
        low, high = array.min(axis=0), array.max(axis=0)
        room = 0.1 * float((high - low).max()) or 1.0
        low, high = low - room, high + room
        unit = min(WIDEST / (high[0] - low[0]), HIGHEST / (high[1] - low[1]))
        return _Plane((float(low[0]), float(low[1])), (float(high[0]), float(high[1])), float(unit))

    @property
    def width(self) -> float:
        return (self.high[0] - self.low[0]) * self.unit

    @property
    def height(self) -> float:
        return (self.high[1] - self.low[1]) * self.unit

    def __call__(self, point: Point) -> Point:
        return LEFT + (point[0] - self.low[0]) * self.unit, TOP + (self.high[1] - point[1]) * self.unit


def _axes(plane: _Plane, x_label: str, y_label: str) -> list[Element]:
    (left, bottom), (right, top) = plane(plane.low), plane(plane.high)
    grid, names = Element("g", stroke=RULE), Element("g", font_size=12, fill=MUTED)
    longest = max(plane.high[0] - plane.low[0], plane.high[1] - plane.low[1])
    for axis in (0, 1):
        low, high = plane.low[axis], plane.high[axis]
        for tick in linear_ticks(low, low + longest):
            if not low <= tick <= high:
                continue
            x, y = plane((tick, tick))
            ends = {"x1": x, "x2": x, "y1": top, "y2": bottom}
            place = {"x": x, "y": bottom + 18, "text_anchor": "middle"}
            if axis == 1:
                ends = {"x1": left, "x2": right, "y1": y, "y2": y}
                place = {"x": left - 8, "y": y + 4, "text_anchor": "end"}
            grid.children.append(Element("line", stroke_width=2 if tick == 0 else 1, **ends))
            names.children.append(Element("text", tick_text(tick), **place))
    names.children.append(Element("text", x_label, x=(left + right) / 2, y=bottom + 36, text_anchor="middle"))
    names.children.append(Element("text", y_label, x=16, y=top - 8))
    return [grid, names]


def _arrow(plane: _Plane, point: Point, start: Point, fill: Colour, class_: str) -> Element:
    """An arrow from one point to another, as one shape; if it has no length, a dot."""
    (x, y), (x0, y0) = plane(point), plane(start)
    length = math.hypot(x - x0, y - y0)
    if length == 0:
        return Element("circle", r=3.5, cx=x, cy=y, fill=fill, class_=class_)
    dx, dy = (x - x0) / length, (y - y0) / length
    neck, head = max(length - HEAD, 0.0), min(HEAD, length)
    outline = [(0.0, 1.0), (neck, 1.0), (neck, head / 2), (length, 0.0), (neck, -head / 2), (neck, -1.0), (0.0, -1.0)]
    corners = [f"{x0 + along * dx - side * dy:.2f} {y0 + along * dy + side * dx:.2f}" for along, side in outline]
    return Element("path", d=f"M{'L'.join(corners)}Z", fill=fill, class_=class_)


def _angle(plane: _Plane, points: dict[str, Point], pair: tuple[str, str], labels: _Labels) -> list[Element]:
    """An arc from one vector to the other, and its degrees."""
    x0, y0 = plane((0.0, 0.0))
    first, second = (math.atan2(points[name][1], points[name][0]) for name in pair)
    turn = (second - first + math.pi) % (2 * math.pi) - math.pi
    ends = [f"{x0 + ARC * math.cos(a):.2f} {y0 - ARC * math.sin(a):.2f}" for a in (first, first + turn)]
    arc = f"M{ends[0]}A{ARC:g} {ARC:g} 0 0 {int(turn < 0)} {ends[1]}"
    text = f"{_degrees(points, pair):.4g}°"
    middle, reach = first + turn / 2, ARC + 10 + text_width(text, FONT) / 2
    at = x0 + reach * math.cos(middle), y0 - reach * math.sin(middle) + 4
    return [
        Element("path", d=arc, stroke=INK, stroke_width=1.2, fill="none", class_="angle"),
        labels.text(text, at, INK, "angle"),
    ]


def _projected(
    plane: _Plane, points: dict[str, Point], pair: tuple[str, str], colour: Colour, labels: _Labels
) -> list[Element]:
    """The shadow of one vector on another, its length, and a dashed line from the vector's head to the shadow's end."""
    (x0, y0), (x, y), tip = plane((0.0, 0.0)), plane(_foot(points, pair)), plane(points[pair[0]])
    a, b = points[pair[0]], points[pair[1]]
    length = f"{(a[0] * b[0] + a[1] * b[1]) / math.hypot(*b):.4g}".replace("-", MINUS)
    text = f"|{isolated(visible(pair[0]))}| cos = {length}"
    away = math.atan2(y - tip[1], x - tip[0]) if tip != (x, y) else math.pi / 2
    reach = 14 + abs(math.cos(away)) * text_width(text, FONT) / 2
    at = (x0 + x) / 2 + reach * math.cos(away), (y0 + y) / 2 + reach * math.sin(away) + 4
    shadow = {"x1": x0, "y1": y0, "x2": x, "y2": y, "stroke": colour, "stroke_width": 9, "stroke_opacity": 0.35}
    return [
        Element("line", class_="projection", **shadow),
        Element("line", x1=tip[0], y1=tip[1], x2=x, y2=y, stroke=MUTED, stroke_width=1.2, stroke_dasharray="4 4"),
        labels.text(text, at, INK, "projection"),
    ]


# ---- names that do not cover each other


class _Labels:
    """Finds room for names; `taken` are the boxes (left, top, right, bottom) already in use."""

    def __init__(self, plane: _Plane) -> None:
        (left, bottom), (right, top) = plane(plane.low), plane(plane.high)
        self.around = (left, top - 14, right + MARGIN - 4, bottom)
        self.taken: list[Box] = []

    def text(self, text: str, middle: Point, fill: Colour, class_: str) -> Element:
        """A text at a fixed place."""
        wide = text_width(text, FONT) / 2
        self.taken.append((middle[0] - wide, middle[1] - FONT, middle[0] + wide, middle[1] + 3))
        place = {"x": middle[0], "y": middle[1], "text_anchor": "middle", "class_": class_}
        return Element("text", text, font_size=FONT, fill=fill, **place)

    def name(self, name: str, point: Point, fill: Colour) -> Element | None:
        """A name beside its point, on the first side with room; None if no side has any."""
        text = visible(name)
        wide, (x, y) = BOLD * text_width(text, FONT), point
        for dx, dy in ((8, -6), (8, 14), (-8 - wide, -6), (-8 - wide, 14), (-wide / 2, -10), (-wide / 2, 20), (9, 4)):
            left, base = x + dx, y + dy
            box = (left, base - FONT + 2, left + wide, base + 2)
            inside = self.around[0] <= left and box[2] <= self.around[2] and self.around[1] <= box[1]
            if inside and box[3] <= self.around[3] and not any(_meet(box, other) for other in self.taken):
                self.taken.append(box)
                place = {"x": left, "y": base, "font_weight": "bold", "class_": "name"}
                return Element("text", isolated(text), font_size=FONT, fill=fill, **place)
        return None


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
