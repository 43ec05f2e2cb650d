"""SVG for the pictures that are drawn without Graphviz: elements, colours, and the document around them.

    cat = Element("text", "the <cat>", x=10, y=20, fill=INK)
    Picture(200, 40, "A word", "One word, in the colour of text.", [cat]).save("word.svg")

Text is escaped without characters that XML cannot hold, numbers are short, and the same picture is the same text in
every run. A colour is an attribute for light backgrounds, which every program understands, and a class with another
colour for readers who prefer dark ones.
"""

from __future__ import annotations

import base64
import math
import os
import re
import unicodedata
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

from .html_page import save_page

MINUS = "\N{MINUS SIGN}"
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Picture:
    """An SVG document; a notebook shows it, `str()` is its text.

    Args:
        width, height: in pixels.
        title, description: its name and its content, for readers who cannot see it.
        children: the elements.
    """

    def __init__(
        self, width: float, height: float, title: str, description: str, children: Iterable[Element] = ()
    ) -> None:
        self.width, self.height = math.ceil(width), math.ceil(height)
        self.title, self.description = title, description
        self.children = list(children)

    def __str__(self) -> str:
        used: dict[str, str] = {}
        body: list[str] = []
        for child in self.children:
            child.write(body, used)
        background: list[str] = []
        Element("rect", width=self.width, height=self.height, fill=PAPER).write(background, used)
        rules = "".join(f"\n.tt-picture {selector} {{ {rule} }}" for selector, rule in sorted(used.items()))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-picture" role="img" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" font-family="{escape(FONT)}" '
            f'font-size="13">\n<title>{clean(self.title)}</title>\n<desc>{clean(self.description)}</desc>\n'
            f"<style>\n@media (prefers-color-scheme: dark) {{{rules}\n}}\n</style>\n"
            f"{''.join(background)}{''.join(body)}</svg>\n"
        )

    def __repr__(self) -> str:
        return f"<picture {self.width}x{self.height}: {self.title}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The SVG in a frame of its own for a notebook, and a line of text for one that only shows text."""
        title = f"{self.title}: {self.description}"
        return {"text/html": framed(str(self), self.width, self.height, title), "text/plain": title}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file whose name ends in .svg, whole or not at all.

        Raises ValueError for another ending, OSError if the file cannot be written.
        """
        save_page("save", path, self.__str__, (".svg",))


class Element:
    """An element of SVG.

    Args:
        tag: its name.
        children: elements, and text, which is escaped.
        attributes: a hyphen in SVG's name is an underscore here (`stroke_width`), and a name that Python reserves
            ends in one (`class_`). Numbers have up to three decimals; None leaves the attribute out; `fill` and
            `stroke` take a Colour.
    """

    __slots__ = ("attributes", "children", "tag")

    def __init__(self, tag: str, *children: Element | str, **attributes: Any) -> None:
        self.tag = tag
        self.children = list(children)
        self.attributes = attributes

    def write(self, parts: list[str], used: dict[str, str]) -> None:
        """Append the text of the element; `used` gets the styles for dark backgrounds, by selector."""
        given = {name.rstrip("_").replace("_", "-"): v for name, v in self.attributes.items() if v is not None}
        classes = given.pop("class", "").split()
        for name, value in given.items():
            if isinstance(value, Colour):
                classes.append(f"{name}-{value.name}")
                used[f".{name}-{value.name}"] = f"{name}: {value.dark}"
                given[name] = value.light
        if "light-only" in classes or "dark-only" in classes:
            used[".light-only"], used[".dark-only"] = "display: none", "display: inline"
        if classes:
            given["class"] = " ".join(classes)
        parts.append(f"<{self.tag}")
        for name, value in given.items():
            parts.append(f' {name}="{clean(value) if isinstance(value, str) else number(float(value))}"')
        if not self.children:
            parts.append("/>\n")
            return
        parts.append(">")
        for child in self.children:
            if isinstance(child, Element):
                child.write(parts, used)
            else:
                parts.append(clean(child))
        parts.append(f"</{self.tag}>\n")


class Colour(NamedTuple):
    """A colour for light backgrounds, and its counterpart for dark ones."""

    name: str
    light: str
    dark: str


INK = Colour("ink", "#1a1a1a", "#e6edf3")
MUTED = Colour("muted", "#5a5a5a", "#a8b1bb")
RULE = Colour("rule", "#d4d4d4", "#3a424c")
PANEL = Colour("panel", "#f6f6f6", "#161b22")
PAPER = Colour("paper", "#ffffff", "#0d1117")

# The first four are Okabe and Ito's (2008). A search found the others: any two differ, for the colour-blind too, as
# much as two of the first four do, and a line in any of them is visible on its background.
SERIES = (
    Colour("blue", "#0072b2", "#4aa8e0"),
    Colour("vermillion", "#d55e00", "#f0803c"),
    Colour("green", "#009e73", "#1fc699"),
    Colour("purple", "#b8558f", "#e08fbf"),
    Colour("series-5", "#994e18", "#ba6e39"),
    Colour("series-6", "#1649ae", "#947be4"),
    Colour("series-7", "#5c4700", "#c1be00"),
    Colour("series-8", "#746a66", "#e2e3e3"),
    Colour("series-9", "#112a99", "#7d76a6"),
    Colour("series-10", "#331159", "#c6b2f5"),
    Colour("series-11", "#ff10d9", "#ffbaff"),
    Colour("series-12", "#512a19", "#d9c568"),
    Colour("series-13", "#4a0036", "#e53aa2"),
    Colour("series-14", "#a770ee", "#b73bee"),
    Colour("series-15", "#76226e", "#8fd19f"),
    Colour("series-16", "#6c1ad7", "#84b26e"),
)


def framed(svg: str, width: float, height: float, title: str) -> str:
    """An SVG for a notebook: in a frame of its own, so that its ids and styles meet no others, as wide as its column.

    Jupyter shows a notebook from somebody else without frames and styles until its reader trusts it. Then the image
    is visible, which a style hides. (The attribute `hidden` would not do: JupyterLab's own styles show every image.)

    Args:
        svg: the document.
        width, height: the size in pixels; the height only sets the proportion.
        title: its content, for those who cannot see it.
    """
    page = f"<!DOCTYPE html><style>body{{margin:0}}svg{{display:block;width:100%;height:auto}}</style>{svg}"
    size = f"width:100%;max-width:{width:.0f}px;aspect-ratio:{width:.0f}/{height:.0f}"
    image = base64.b64encode(svg.encode()).decode()
    return (
        "<style>.tt-instead{display:none!important}</style>"
        f'<iframe srcdoc="{escape(page)}" style="border:0;{size}" title="{escape(title)}"></iframe>'
        f'<img class="tt-instead" alt="{escape(title)}" src="data:image/svg+xml;base64,{image}">'
    )


def titled(width: float, height: float, title: str, description: str, children: Iterable[Element]) -> Picture:
    """A picture with its title above the elements, and wide enough for it."""
    width = max(width, BOLD * text_width(title, 15) + 32)
    return Picture(width, height, title, description, [heading(title), *children])


def legend(x: float, y: float, entries: Iterable[tuple[dict[str, Any], str]]) -> tuple[list[Element], float]:
    """Samples of fills or of lines, each with its meaning behind it, in a row from x on; and where that ends."""
    found: list[Element] = []
    for look, text in entries:
        wide = 12 if "fill" in look else 28
        if "fill" in look:
            found.append(Element("rect", x=x, y=y - 10, width=wide, height=12, **look))
        else:
            found.append(Element("line", x1=x, x2=x + wide, y1=y - 4, y2=y - 4, **look))
        found.append(Element("text", text, x=x + wide + 6, y=y, font_size=12, fill=MUTED))
        x += wide + 24 + text_width(text, 12)
    return found, x - 18


def heading(title: str) -> Element:
    return Element("text", title, x=16, y=24, font_size=15, font_weight="bold", fill=INK)


def clean(text: str) -> str:
    """Text for XML: escaped, with U+FFFD in place of characters that XML cannot hold."""
    return escape(NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def number(value: float, digits: int = 3) -> str:
    """A number without trailing zeros. Raises ValueError if it is not finite: nothing can be drawn there."""
    if not math.isfinite(value):
        raise ValueError(f"svg: cannot draw at {value}; expected a finite number")
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# ---- the width of text, without a font to ask

NARROW, WIDE, BROAD = set("iIjlt.,:;'|!()[]/\\ fr-"), set("mMW@%—…"), set("wGOQ+<=>~^#&×−→∅")

BOLD = 1.13  # by this factor bold text is wider


def text_width(text: str, size: float = 13) -> float:
    """The approximate width of text of that size, at least that in DejaVu Sans, the widest of the fonts."""
    return size * sum(_em(c) for c in text)


def _em(c: str) -> float:
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(c) in "WF":
        return 1.25 if ord(c) > 0x1F000 else 1.05
    if c in NARROW:
        return 0.41
    return 1.0 if c in WIDE else 0.84 if c in BROAD else 0.76 if c.isupper() else 0.64


def shorten(text: str, width: float, size: float = 13) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if text_width(text, size) <= width:
        return text
    room = width / size - _em("…")
    kept = 0
    for c in text:
        room -= _em(c)
        if room < 0:
            break
        kept += 1
    while kept > 0 and (_em(text[kept]) == 0 or text[kept - 1] == "\N{ZERO WIDTH JOINER}"):  # one sign in several parts
        kept -= 1
    return f"{text[:kept]}…"


# ---- round numbers


def linear_ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers from low to high."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 8)
    digits = 12 - math.floor(math.log10(step))
    return [round(i * step, digits) for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]
