"""Matrices as tiles: coloured cells, with their numbers if there are few, and names of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .ramp import HIDDEN, SIGNED, WEIGHTS, Ramp, frame, hatching, ink_on, pixels, scale, squares
from .svg import INK, MINUS, MUTED, Element, number, text_width
from .tokens import fitted, isolated

FONT, LINE = 12.0, 26.0
LONGEST_LABEL = 120.0
LARGEST_CELL, HIGHEST, NARROWEST, SMALLEST_STEP = 30.0, 480.0, 160.0, 14.0
MOST_SQUARES = 5000


@dataclass(frozen=True, eq=False)
class Scale:
    """From numbers to colours: two colours from 0 outwards if some numbers are negative, else one.

    Attributes:
        most: the number of the strongest colour.
        signed: True if the ramp goes through 0.
    """

    most: float
    signed: bool

    @staticmethod
    def of(values: Sequence[np.ndarray]) -> Scale:
        """The scale for all finite numbers of several matrices; the others have no colour."""
        finite = np.concatenate([v[np.isfinite(v)] for v in values])
        return Scale(float(np.abs(finite).max(initial=0.0)) or 1.0, bool((finite < 0).any()))

    @property
    def ramp(self) -> Ramp:
        return SIGNED if self.signed else WEIGHTS

    def shares(self, values: np.ndarray) -> np.ndarray:
        """How far along the ramp each number is; numbers that are not finite count as 0."""
        shares = np.where(np.isfinite(values), values, 0.0) / self.most
        return (shares + 1) / 2 if self.signed else shares

    def ticks(self) -> list[tuple[float, str]]:
        """The numbers below the bar of the scale, as (share, text)."""
        most = f"{self.most:.3g}"
        return [(0, MINUS + most), (0.5, "0"), (1, most)] if self.signed else [(0, "0"), (1, most)]

    def legend(
        self, ends: tuple[str, str], more: str = "", *, masked: bool = False, hatched: bool = True
    ) -> tuple[list[Element], float]:
        """The bar with a text at each end, a sample of a masked cell, another text, and where that ends."""
        bar = 16 + (text_width(ends[0], 12) + 14 if ends[0] else 0.0)
        at = bar + 216 + text_width(ends[1], 12)
        texts = [(ends[0], 16.0), (ends[1], bar + 194), ("masked" * masked, at + 18), (more, at + 80 * masked)]
        found = [scale(self.ramp, bar, 36, 180, self.ticks(), MUTED)]
        found += [Element("text", text, x=x, y=45, font_size=12, fill=MUTED) for text, x in texts if text]
        if masked:
            found.append(Element("rect", x=at, y=35, width=12, height=12, fill=HIDDEN))
            found += hatching([(at, 47, at + 12, 35)] * hatched)
        return found, texts[-1][1] + text_width(more, 12)


@dataclass(frozen=True, eq=False)
class Tile:
    """A matrix for a picture.

    Attributes:
        values: (rows, columns), float64; cells without a finite number are hatched.
        scale: the scale of its colours.
        numbers: True if the cells hold their numbers.
        rows, columns: labels; None for none.
        room: its largest width; with numbers, it is as wide as they are.
        size: the width and height of its cells; None: the tile chooses.
        inside: texts for the cells of a single row, in place of their numbers.
    """

    values: np.ndarray
    scale: Scale
    numbers: bool
    rows: list[str] | None = None
    columns: list[str] | None = None
    room: float = 640.0
    size: tuple[float, float] | None = None
    inside: list[str] | None = None

    @cached_property
    def texts(self) -> np.ndarray:
        """Its numbers as text, all in one format."""
        return written(self.values) if self.inside is None else np.array([self.inside], dtype=object)

    @cached_property
    def cell(self) -> tuple[float, float]:
        """The width and height of a cell: given, as large as its number needs, or as large as the picture allows."""
        if self.size is not None:
            return self.size
        if self.numbers:
            return max(34.0, max(text_width(text, FONT) for text in self.texts.flat) + 10), LINE
        rows, columns = self.values.shape
        side = min(LARGEST_CELL, self.room / columns, HIGHEST / rows)
        return max(side, min(LINE, NARROWEST / columns)), max(side, min(LINE, NARROWEST / rows))

    @property
    def width(self) -> float:
        return self.cell[0] * self.values.shape[1]

    @property
    def height(self) -> float:
        return self.cell[1] * self.values.shape[0]

    @property
    def left(self) -> float:
        """The width of the labels of the rows."""
        return 0.0 if self.rows is None else _widest(self.rows) + 8

    @property
    def above(self) -> float:
        """The height of the labels of the columns."""
        if self.columns is None:
            return 0.0
        return 20.0 if self._level else _widest(self.columns) * 0.75 + 18

    @property
    def overhang(self) -> float:
        """How far slanted labels may reach beyond the right side."""
        return 0.0 if self.columns is None or self._level else max(0.0, _widest(self.columns) * 0.75 - self.cell[0] / 2)

    @property
    def _level(self) -> bool:
        """True if level labels of columns fit beside each other without touching."""
        shown = _shown(self.columns or [], self.cell[0])
        apart = shown[1][0] - shown[0][0] if len(shown) > 1 else self.values.shape[1]
        return _widest([name for _, name in shown]) <= self.cell[0] * apart - 4

    def draw(self, x: float, y: float) -> Element:
        """The tile, with the corner of its first cell at x, y."""
        box = (x, y, self.width, self.height)
        hidden = None if np.isfinite(self.values).all() else ~np.isfinite(self.values)
        shares = self.scale.shares(self.values)
        if self.values.size > MOST_SQUARES:
            cells = pixels(shares, hidden, self.scale.ramp, box)
        else:
            cells = [squares(shares, hidden, self.scale.ramp, box, self._title)]
        cells.append(frame(*box))
        if self.numbers:
            cells.append(self._numbers(x, y, shares))
        return Element("g", *cells, *self._labels(x, y), class_="tile")

    def _title(self, i: int, j: int) -> str:
        """The tooltip of a cell."""
        columns = self.columns if self.inside is None else self.inside
        row, column = (str(at) if names is None else names[at] for at, names in ((i, self.rows), (j, columns)))
        return f"{isolated(row)}, {isolated(column)}: {self.values[i, j]:.6g}".replace("-", MINUS)

    def _numbers(self, x: float, y: float, shares: np.ndarray) -> Element:
        w, h = self.cell
        texts = Element("g", font_size=FONT, text_anchor="middle", pointer_events="none", class_="numbers")
        for (i, j), text in np.ndenumerate(self.texts):
            ink = ink_on(self.scale.ramp(float(shares[i, j])) if np.isfinite(self.values[i, j]) else HIDDEN)
            place = {"x": x + (j + 0.5) * w, "y": y + (i + 0.5) * h + FONT * 0.35}
            texts.children.append(fitted(text, w - 6, FONT, fill=ink, **place))
        return texts

    def _labels(self, x: float, y: float) -> list[Element]:
        w, h = self.cell
        labels = []
        for i, name in _shown(self.rows or [], h):
            place = {"x": x - 8, "y": y + (i + 0.5) * h + FONT * 0.35, "text_anchor": "end", "class_": "row"}
            labels.append(fitted(name, LONGEST_LABEL, FONT, fill=INK, **place))
        for j, name in _shown(self.columns or [], w):
            place = {"x": x + (j + 0.5) * w, "y": y - 7, "text_anchor": "middle", "class_": "column"}
            if not self._level:
                at = x + (j + 0.5) * w + FONT * 0.25
                turn = f"rotate(-45 {number(at)} {number(y - 7)})"
                place |= {"x": at, "text_anchor": "start", "transform": turn}
            labels.append(fitted(name, LONGEST_LABEL, FONT, fill=INK, **place))
        return labels


def _shown(labels: Sequence[str], room: float) -> list[tuple[int, str]]:
    """The labels that have room, with their places; labels that are all numbers get room to stay level."""
    apart = max(SMALLEST_STEP, _widest(labels) + 6 if all(name.isdigit() for name in labels) else 0.0)
    step = next(s for s in (m * 10**e for e in range(9) for m in (1, 2, 5)) if s * room >= apart)
    return [(i, labels[i]) for i in range(0, len(labels), step)]


def _widest(labels: Sequence[str]) -> float:
    return min(LONGEST_LABEL, max((text_width(name, FONT) for name in labels), default=0.0))


def written(values: np.ndarray) -> np.ndarray:
    """The numbers of a matrix as text: as integers if all are, else with two decimals or two digits."""
    finite = values[np.isfinite(values)]
    most = float(np.abs(finite).max(initial=0.0))
    digits = ".2f" if 0.1 <= most < 1000 or most == 0 else ".1e"
    if most < 10_000 and (finite == np.round(finite)).all():
        digits = ".0f"

    def write(value: float) -> str:
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "∞" if value > 0 else f"{MINUS}∞"
        text = f"{value:{digits}}" if value or digits != ".1e" else "0"
        return (text if text.strip("-0.") else text.removeprefix("-")).replace("-", MINUS)

    return np.vectorize(write, otypes=[object])(values)
