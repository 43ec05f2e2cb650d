"""The text of a vertex, line by line, and the room that it takes.

Graphviz measures text with the fonts of the machine it runs on, so the same graph would have another layout on another
machine. Here widths come from one table, and Graphviz gets the size of everything.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from typing import NamedTuple

from .picture import Picture, Vertex
from .short_text import cut, printable, shape_text

TITLE, TEXT, SMALL = 13.0, 11.0, 10.0  # sizes of type, in points

# Widths of the characters of Helvetica Bold, from the space to the tilde, in thousandths of the size of type.
_WIDTHS = (
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611,
    556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389,
    280, 389, 584,
)  # fmt: skip


def text_width(text: str, size: float) -> float:
    """The width of a line of text in a bold sans-serif of that size, in points."""
    return size * sum(map(_em, text))


def _em(c: str) -> float:
    if " " <= c <= "~":
        return _WIDTHS[ord(c) - 32] / 1000
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(c) in "WF" else 0.62


class Line(NamedTuple):
    """A line of a label: its parts, each with True if it is bold, and the size of type."""

    parts: tuple[tuple[str, bool], ...]
    size: float

    @property
    def width(self) -> float:
        return sum(text_width(text, self.size) for text, _ in self.parts)

    @property
    def height(self) -> float:
        return math.ceil(self.size * 1.25)


LONGEST = 52
"""Details with more characters continue in the next line, up to MOST lines."""

MOST = 3

CELL = 9
"""A cell of a mask's pattern, in points."""


def lines_of(vertex: Vertex, picture: Picture) -> list[Line]:
    """The lines of a vertex; with shapes if the picture goes down or up, since edges then have none."""
    heading = (cut(printable(vertex.heading), 40), True)
    details = list(vertex.lines)
    parts = [heading]
    if vertex.name and vertex.kind == "op":
        parts.insert(0, (cut(printable(vertex.name), 40) + vertex.join, False))
    elif vertex.name:
        details.insert(0, vertex.name)
    shaped = picture.upright and vertex.kind != "output" and not vertex.failed and not vertex.numbers
    if shaped and vertex.kind != "gradient" and (vertex.shape or vertex.kind in ("op", "module")):
        details[:1] = [" · ".join([shape_text(vertex.shape), *details[:1]])]
    lines = [Line(tuple(parts), TITLE)]
    for detail in details:
        rows = textwrap.wrap(printable(detail), LONGEST, max_lines=MOST, placeholder=" …", break_on_hyphens=False)
        lines.extend(Line(_parts(row, vertex.failed), SMALL) for row in rows)
    lines.extend(Line(((printable(row), False),), TEXT) for row in vertex.numbers)
    return lines


def _parts(row: str, failed: bool) -> tuple[tuple[str, bool], ...]:
    """A line in parts; if the op failed, the axes in brackets, which do not fit, are bold."""
    if not failed:
        return ((row, False),)
    return tuple((part, part.startswith("[")) for part in re.split(r"(\[\d+\])", row) if part)


def room(vertex: Vertex, lines: list[Line]) -> tuple[float, float]:
    """The width and height in points that a vertex takes with these lines in its shape."""
    width, height = max(line.width for line in lines), sum(line.height for line in lines)
    if vertex.pattern is not None:
        width = max(width, CELL * len(vertex.pattern[0]) + 1)
        height += CELL * len(vertex.pattern) + 8
    if vertex.kind in ("input", "constant"):  # an ellipse around a rectangle
        return max(60.0, width * 1.2 + 22), height * 1.2 + 8
    if vertex.kind == "output":
        return max(60.0, width + 44), height + 22
    if vertex.kind == "parameter":
        return max(54.0, width + 18), height + 20
    return max(44.0, width + 20), height + 10
