"""The legend of a picture: the meaning of its kinds of vertices and edges, as a strip below it."""

from __future__ import annotations

from collections.abc import Iterator

from .dot import EDGES, FONTS, GREY, PALE, STYLES
from .label import text_width
from .picture import Picture, VertexKind
from .short_text import escape

VERTICES: dict[VertexKind, str] = {
    "op": "op",
    "module": "module",
    "parameter": "parameter",
    "input": "input",
    "constant": "constant",
    "mask": "mask, hidden cells dark",
    "output": "result",
    "gradient": "gradient",
    "unread": "read no further",
}
LINES = {
    "residual": "goes around (residual)",
    "loop": "to the next turn",
    "gradient": "gradients flow",
    "uses": "kept for",
}

ENOUGH = 3
"""A picture with at least this many kinds has a legend unless the options say otherwise."""

HEIGHT, SAMPLE, GAP, SIZE = 20.0, 26.0, 18.0, 10.0


def entries(picture: Picture) -> list[tuple[str, str]]:
    """The kinds that occur, each with its meaning; none if the picture has no legend."""
    vertices = {vertex.kind for vertex in picture.vertices}
    lines = {edge.kind for edge in picture.edges}
    found: list[tuple[str, str]] = [(kind, text) for kind, text in VERTICES.items() if kind in vertices]
    found += [(f"{kind} line", text) for kind, text in LINES.items() if kind in lines]
    if any(box.kind == "formula" for box in picture.boxes):
        found.append(("formula", "formula of one op"))
    shown = picture.legend if picture.legend is not None else len(found) >= ENOUGH
    return found if shown else []


def legend(picture: Picture, width: float) -> tuple[str, float]:
    """The strip as SVG, with its upper left corner at 0, and its height; at most as wide as the picture."""
    x, y = 8.0, 4.0
    parts: list[str] = []
    for kind, text in entries(picture):
        length = SAMPLE + 6 + text_width(text, SIZE)
        if x > 8 and x + length > width - 8:
            x, y = 8.0, y + HEIGHT
        parts.extend(_sample(kind, x, y + HEIGHT / 2))
        parts.append(
            f'<text x="{x + SAMPLE + 6:.1f}" y="{y + HEIGHT / 2 + 3.5:.1f}" font-family="{FONTS}" '
            f'font-size="{SIZE:g}" fill="{GREY}">{escape(text)}</text>'
        )
        x += length + GAP
    if not parts:
        return "", 0.0
    return f'<g class="legend">{"".join(parts)}</g>', y + HEIGHT + 4


def _sample(kind: str, x: float, y: float) -> Iterator[str]:
    """A small sample of a kind, with its middle at height y."""
    if kind.endswith(" line"):
        name = kind.removesuffix(" line")
        look = EDGES[name]
        dash = {"dashed": "5,2", "dotted": "1,4"}.get(look.get("style", ""))
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        colour, width = look.get("color", GREY), look.get("penwidth", "1")
        yield f'<g class="edge {name}"><path fill="none" stroke="{colour}" stroke-width="{width}"{dashes} '
        yield f'd="M{x:g},{y:g}H{x + SAMPLE - 6:g}"/>'
        if look.get("arrowhead") != "none":
            yield f'<polygon fill="{colour}" stroke="{colour}" points="{x + SAMPLE - 6:g},{y - 3:g} '
            yield f'{x + SAMPLE:g},{y:g} {x + SAMPLE - 6:g},{y + 3:g}"/>'
        yield "</g>"
        return
    if kind == "formula":
        yield f'<g class="cluster"><path fill="{PALE}" stroke="{GREY}" stroke-dasharray="5,2" '
        yield f'd="M{x:g},{y - 6:g}h{SAMPLE:g}v12h-{SAMPLE:g}z"/></g>'
        return
    shape, style, fill, line, _, _ = next(look for name, look in STYLES.items() if name == kind)
    dash = ' stroke-dasharray="5,2"' if "dashed" in style else ""
    paint = f'fill="{fill}" stroke="{line}"{dash}'
    yield f'<g class="node {kind}">'
    if shape == "ellipse":
        yield f'<ellipse {paint} cx="{x + SAMPLE / 2:g}" cy="{y:g}" rx="{SAMPLE / 2:g}" ry="6"/>'
    elif shape == "cylinder":
        yield f'<path {paint} d="M{x:g},{y - 4:g}a{SAMPLE / 2:g},2.5 0 0 1 {SAMPLE:g},0v8a{SAMPLE / 2:g},2.5 0 0 1 '
        yield f'-{SAMPLE:g},0zM{x:g},{y - 4:g}a{SAMPLE / 2:g},2.5 0 0 0 {SAMPLE:g},0"/>'
    elif shape == "doubleoctagon":
        for r in (7.0, 4.5):
            a, b = x + 7 - r, x + SAMPLE - 7 + r
            upper, lower = f"{a + 5:g},{y - r:g} {b - 5:g},{y - r:g}", f"{b - 5:g},{y + r:g} {a + 5:g},{y + r:g}"
            right, left = f"{b:g},{y - r / 2:g} {b:g},{y + r / 2:g}", f"{a:g},{y + r / 2:g} {a:g},{y - r / 2:g}"
            yield f'<polygon {paint} points="{upper} {right} {lower} {left}"/>'
    elif "rounded" in style:
        yield f'<path {paint} d="M{x + 4:g},{y - 6:g}h{SAMPLE - 8:g}q4,0 4,4v4q0,4 -4,4h-{SAMPLE - 8:g}'
        yield 'q-4,0 -4,-4v-4q0,-4 4,-4z"/>'
    else:
        width = ' stroke-width="2"' if "bold" in style else ""
        yield f'<polygon {paint}{width} points="{x:g},{y - 6:g} {x + SAMPLE:g},{y - 6:g} '
        yield f'{x + SAMPLE:g},{y + 6:g} {x:g},{y + 6:g}"/>'
    yield "</g>"
