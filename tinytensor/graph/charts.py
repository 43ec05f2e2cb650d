"""Code that all charts of a graph share: their forms, and the modules that they tell apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..machine.files import atomic_write
from ..pages.svg import MUTED, Element, Picture


class Chart:
    """A chart: `print` shows it as a table, `save` writes it, a notebook draws it."""

    title: str

    def to_text(self) -> str:
        """The chart as a table, for the terminal."""
        raise NotImplementedError

    def picture(self) -> Picture:
        """The chart, drawn."""
        raise NotImplementedError

    def to_svg(self) -> str:
        """The chart as SVG, with a title, a description, and colours that follow the reader's dark mode."""
        return str(self.picture())

    def __str__(self) -> str:
        return self.to_text()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it: .svg, the chart; .txt, the table. Raises ValueError for other endings."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".txt"):
            raise ValueError(f"save: {os.fspath(path)} ends in {suffix!r}; expected .svg or .txt")
        atomic_write(path, (self.to_svg() if suffix == ".svg" else self.to_text()).encode())

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The HTML and the text for a notebook."""
        return self.picture()._repr_mimebundle_() | {"text/plain": self.to_text()}


def text(x: float, y: float, words: str, anchor: str = "start", **attributes: Any) -> Element:
    """Return a line of text for a chart."""
    look: dict[str, Any] = {"font_size": 12, "fill": MUTED, "text_anchor": anchor, **attributes}
    return Element("text", words, x=x, y=y, **look)


def rule(x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> Element:
    """A thin line."""
    return Element("line", x1=x1, y1=y1, x2=x2, y2=y2, **{"stroke": MUTED, **attributes})


def grouping(sizes: Iterable[tuple[tuple[str, ...], float]]) -> Callable[[tuple[str, ...]], str]:
    """A function from a path to the module in it that names its group.

    The groups are as far out as possible, but none has more than two thirds of the whole, if modules allow it.
    """
    rows = [(path, size) for path, size in sizes if path]
    deepest = max((len(path) for path, _ in rows), default=1)
    for length in range(1, deepest + 1):
        groups: dict[tuple[str, ...], float] = {}
        for path, size in rows:
            groups[path[:length]] = groups.get(path[:length], 0) + size
        if max(groups.values(), default=0) * 3 <= sum(groups.values()) * 2:
            break
    return lambda path: ".".join(path[1:length]) or "".join(path[:1]) or "outside of modules"
