"""Numbers as colours: even steps in a perceptual colour space, and tables of them as squares or as pixels."""

from __future__ import annotations

import base64
import functools
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from .svg import RULE, Colour, Element

STEPS = 64
HIDDEN = Colour("hidden", "#e6d8bd", "#4a4030")
STROKE = Colour("hatch", "#86744c", "#a3926c")
Box = tuple[float, float, float, float]  # x, y, width, height


class Ramp:
    """Colours from one end to the other, in steps that look alike.

    They are on straight lines in Oklab (Ottosson 2020), so lightness, which every eye and every printer keeps, changes
    evenly with the number.

    Args:
        name: the beginning of the names of its colours.
        light, dark: the colours it goes through on light and on dark backgrounds.
    """

    def __init__(self, name: str, light: Sequence[str], dark: Sequence[str]) -> None:
        self.name, self.light, self.dark = name, light, dark

    @functools.cached_property
    def colours(self) -> list[Colour]:
        pairs = zip(_between(self.light), _between(self.dark))
        return [Colour(f"{self.name}-{i}", *pair) for i, pair in enumerate(pairs)]

    def __call__(self, share: float) -> Colour:
        """The colour at a share of the way, from 0 to 1."""
        return self.colours[round(share * STEPS)]


WEIGHTS = Ramp("weight", ["#ffffff", "#0072b2", "#00284d"], ["#0d1117", "#1f78b4", "#c9ecff"])
SIGNED = Ramp("signed", ["#0a5b94", "#f7f7f7", "#b04a00"], ["#6fc1f5", "#161b22", "#ff9b57"])


def _between(ends: Sequence[str]) -> list[str]:
    lab = np.array([TO_LAB @ np.cbrt(TO_LMS @ _linear(end)) for end in ends])
    at = np.linspace(0, len(ends) - 1, STEPS + 1)
    return [_to_hex(np.array([np.interp(a, range(len(ends)), lab[:, c]) for c in range(3)])) for a in at]


# Ottosson (2020), "A perceptual color space for image processing"
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def _linear(colour: str) -> np.ndarray:
    """Red, green and blue from 0 to 1, in proportion to light."""
    srgb = np.array(rgb(colour)) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _to_hex(lab: np.ndarray) -> str:
    linear = np.clip(np.linalg.solve(TO_LMS, np.linalg.solve(TO_LAB, lab) ** 3), 0, 1)
    srgb = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(float(c) * 255):02x}" for c in srgb)


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def ink_on(colour: Colour) -> Colour:
    """The colour of text on a colour: black or white, whichever has more contrast, in both modes."""
    luminances = [_linear(shade) @ LUMINANCE for shade in (colour.light, colour.dark)]
    shades = ["light" if luminance < EVEN else "dark" for luminance in luminances]
    ink = {"light": "#ffffff", "dark": "#000000"}
    return Colour(f"on-{'-'.join(shades)}", *(ink[shade] for shade in shades))


LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue, as WCAG 2.2 defines it
EVEN = 0.179  # black and white have the same contrast, 4.6, on a colour with this luminance


# ---- tables


def squares(
    shares: np.ndarray, hidden: np.ndarray | None, ramp: Ramp, box: Box, title: Callable[[int, int], str]
) -> Element:
    """A table of shares (rows, columns) as rectangles in a box, each with a title."""
    x, y, width, height = box
    rows, columns = shares.shape
    w, h = width / columns, height / rows
    cells, hatch = Element("g", shape_rendering="crispEdges"), []
    for i in range(rows):
        for j in range(columns):
            masked = hidden is not None and hidden[i, j]
            left, top = x + j * w, y + i * h
            place = {"x": left, "y": top, "width": w, "height": h, "fill": HIDDEN if masked else ramp(shares[i, j])}
            text = title(i, j)
            cells.children.append(Element("rect", Element("title", text), class_="masked" * bool(masked), **place))
            if masked:
                hatch.append((left, top + h, left + w, top))
    return Element("g", cells, *hatching(hatch))


def hatching(lines: Sequence[tuple[float, float, float, float]], stroke: Colour = STROKE) -> list[Element]:
    """Diagonals (x1, y1, x2, y2) over squares, if any, tell them apart without colours. Hovering ignores them."""
    path = "".join(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" for x1, y1, x2, y2 in lines)
    return [Element("path", d=path, stroke=stroke, stroke_width=0.8, fill="none", pointer_events="none")] * bool(path)


def pixels(shares: np.ndarray, hidden: np.ndarray | None, ramp: Ramp, box: Box) -> list[Element]:
    """The same table as an image with a pixel for each number: once in light colours and once in dark ones."""
    x, y, width, height = box
    indices = np.round(shares * STEPS).astype(np.uint8)
    if hidden is not None:
        indices = np.where(hidden, np.uint8(STEPS + 1), indices)
    place = {"x": x, "y": y, "width": width, "height": height, "preserveAspectRatio": "none"}
    images = []
    for name, colours in (("light", [c.light for c in ramp.colours]), ("dark", [c.dark for c in ramp.colours])):
        data = png(indices, [rgb(c) for c in [*colours, getattr(HIDDEN, name)]])
        href = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        display = "none" if name == "dark" else None
        image = Element("image", href=href, class_=f"{name}-only", display=display, **place)
        image.attributes["style"] = "image-rendering: pixelated"
        images.append(image)
    return images


def frame(x: float, y: float, width: float, height: float) -> Element:
    """A thin line around a table."""
    box = {"x": x - 0.5, "y": y - 0.5, "width": width + 1, "height": height + 1}
    return Element("rect", fill="none", stroke=RULE, pointer_events="none", **box)


def png(indices: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> bytes:
    """A PNG image of (rows, columns) of indices into a palette (ISO/IEC 15948, colour type 3)."""
    rows, columns = indices.shape
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(indices, dtype=np.uint8))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(c) for c in palette)
    parts = [(b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def scale(ramp: Ramp, x: float, y: float, width: float, ticks: Sequence[tuple[float, str]], ink: Colour) -> Element:
    """A bar of all colours, with the number (share, text) under some of them."""
    bar = Element("g", font_size=11, class_="scale", shape_rendering="crispEdges")
    for i, colour in enumerate(ramp.colours):
        step = width / len(ramp.colours)
        bar.children.append(Element("rect", x=x + i * step, y=y, width=step + 0.5, height=10, fill=colour))
    for share, text in ticks:
        at = x + share * width
        bar.children.append(Element("text", text, x=at, y=y + 22, text_anchor="middle", fill=ink))
    return bar
