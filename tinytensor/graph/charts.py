"""Code that all charts of a graph share: text, SVG, files, notebooks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..machine.files import atomic_write
from ..pages.notebook import framed
from .dot import FONT, GREY, INK, STYLES
from .label import text_width
from .short_text import escape

PAPER, DARK_PAPER, DARK_INK, DARK_GREY = "#ffffff", "#0d1117", "#e6edf3", "#a8b1bb"

# The first eight colours of `nn.visualize`, which the colour-blind tell apart too: in light, in dark.
COLOURS = (
    ("#0072b2", "#4aa8e0"), ("#d55e00", "#f0803c"), ("#009e73", "#1fc699"), ("#b8558f", "#e08fbf"),
    ("#994e18", "#ba6e39"), ("#1649ae", "#947be4"), ("#5c4700", "#c1be00"), ("#746a66", "#e2e3e3"),
)  # fmt: skip


class Chart:
    """A chart: `print` shows it as a table, `save` writes it, a notebook draws it."""

    title: str

    def to_text(self) -> str:
        """The chart as a table, for the terminal."""
        raise NotImplementedError

    def to_svg(self) -> str:
        """The chart as SVG, with a title, a description, and colours that follow the reader's dark mode."""
        raise NotImplementedError

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
        svg = self.to_svg()
        width, height = (float(svg.partition(f'{side}="')[2].partition('"')[0]) for side in (" width", " height"))
        return {"text/html": framed(svg, width, height, self.title), "text/plain": self.to_text()}


def document(width: float, height: float, title: str, description: str, parts: list[str]) -> str:
    """An SVG document of these elements, below its title."""
    rules = [
        f".tt-chart {{ background: {DARK_PAPER} }}",
        f".tt-chart .paper {{ fill: {DARK_PAPER} }}",
        f".tt-chart .ink {{ fill: {DARK_INK} }}",
        f".tt-chart .grey {{ fill: {DARK_GREY} }}",
        f".tt-chart .halo {{ stroke: {DARK_PAPER} }}",
        f".tt-chart .rule {{ stroke: {DARK_GREY} }}",
        *(f".tt-chart .c{i} {{ fill: {dark} }}" for i, (_, dark) in enumerate(COLOURS)),
        *(f".tt-chart .{kind} {{ fill: {look[4]}; stroke: {look[5]} }}" for kind, look in STYLES.items()),
    ]
    lines = "\n".join(rules)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-chart" role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="{FONT}" font-size="12">\n<title>{escape(title)}</title>\n'
        f"<desc>{escape(description)}</desc>\n<style>\n@media (prefers-color-scheme: dark) {{\n{lines}\n}}\n</style>\n"
        f'<rect class="paper" width="{width:g}" height="{height:g}" fill="{PAPER}"/>\n'
        f"{text(16, 24, title, size=15, bold=True)}{''.join(parts)}</svg>\n"
    )


def text(
    x: float, y: float, words: str, *, size: float = 12, anchor: str = "start", bold: bool = False, grey: bool = False
) -> str:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    ink = f'class="grey" fill="{GREY}"' if grey else f'class="ink" fill="{INK}"'
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{weight}'
    return f"<text {place} {ink}>{escape(words)}</text>\n"


def fitted(words: str, width: float, size: float) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis; "" if not even one letter fits."""
    if text_width(words, size) <= width:
        return words
    while words and text_width(f"{words}…", size) > width:
        words = words[:-1]
    return f"{words}…" if len(words) > 1 else ""


def rule(x1: float, y1: float, x2: float, y2: float, dash: str = "") -> str:
    """A thin line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="rule" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{GREY}" fill="none"{dashes}/>\n'


def ticks(high: float) -> list[float]:
    """Round numbers from 0 to the first at or above `high`, about five."""
    if high <= 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(high / 4))
    step *= next(m for m in (1, 2, 5, 10) if high / (m * step) <= 6)
    return [i * step for i in range(math.ceil(high / step - 1e-9) + 1)]


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
