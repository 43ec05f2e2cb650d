"""A picture in the DOT language: the same text in every run and on every machine."""

from __future__ import annotations

import html
import textwrap
from typing import Any

from ..machine.extras import how_to_install
from .heat import RAMP
from .label import CELL, SMALL, Line, lines_of, room, text_width
from .marks import attributes
from .picture import Box, Edge, Picture, Vertex, VertexKind
from .short_text import cut, printable

FONT = "Helvetica"  # all of a list of fonts is a single unknown name to graphviz-pure, which then measures Times
FONTS = "Helvetica,Arial,sans-serif"
INK, GREY, PALE, RED = "#1a1a1a", "#5a5a5a", "#f6f6f6", "#d00000"

# Each kind has a shape of its own besides its colour, so that print and every eye show it; the colours are from the
# palette of Okabe and Ito (2008), which the colour-blind tell apart. In order: shape, further style, fill and line in
# light, fill and line in dark.
STYLES: dict[VertexKind, tuple[str, str, str, str, str, str]] = {
    "op": ("box", "rounded,filled", "#e3f0f9", "#0072b2", "#0c2f47", "#56b4e9"),
    "module": ("box", "filled,bold", "#eceaf6", "#5b4aa0", "#2a2350", "#b3a6ee"),
    "parameter": ("cylinder", "filled", "#fdf1d8", "#b87400", "#453005", "#e69f00"),
    "input": ("ellipse", "filled", "#dff4ed", "#007a58", "#063b2c", "#1fc699"),
    "constant": ("ellipse", "filled,dashed", "#f2f2f2", "#6b6b6b", "#24292f", "#a8b1bb"),
    "mask": ("box", "filled,dashed", "#f2f2f2", "#6b6b6b", "#24292f", "#a8b1bb"),
    "output": ("doubleoctagon", "filled", "#f8e8f1", "#a3487b", "#43213a", "#e08fbf"),
    "gradient": ("box", "rounded,filled,dashed", "#fde8dc", "#b34700", "#4a1f06", "#ff9d5c"),
    "unread": ("box", "rounded,filled,dotted", "#f2f2f2", "#8a8a8a", "#24292f", "#6b7580"),
}
EDGES = {
    "data": {},
    "residual": {"style": "bold", "penwidth": "2.2"},
    "gradient": {"style": "solid", "dir": "back", "color": "#b34700"},
    "loop": {"style": "dashed", "penwidth": "1.6", "constraint": "false"},
    "uses": {"style": "dotted", "constraint": "false", "arrowhead": "none"},
}


class DrawingError(RuntimeError):
    """Raised if a picture cannot be laid out: Graphviz or the package `graphviz` is missing, or Graphviz fails."""


def to_dot(picture: Picture) -> str:
    """The picture as DOT, with the size of everything, so that the layout does not depend on a machine's fonts.

    Raises DrawingError if the package `graphviz`, which writes DOT, is missing.
    """
    try:
        import graphviz
    except ModuleNotFoundError:
        raise DrawingError(f"drawing needs `{how_to_install('viz')}` (the package graphviz is missing)") from None

    tall = picture.upright
    dot = graphviz.Digraph(
        graph_attr={
            "rankdir": picture.direction,
            "fontname": FONT,
            "fontcolor": INK,
            "nodesep": "0.22" if tall else "0.3",
            "ranksep": "0.2" if tall else "0.4",
            "newrank": "true",
        },
        node_attr={"fontname": FONT, "fontcolor": INK, "fontsize": "13", "fixedsize": "true"},
        edge_attr={"fontname": FONT, "fontcolor": GREY, "fontsize": "10", "color": GREY, "arrowsize": "0.6"},
    )
    title = textwrap.wrap(printable(picture.title), 90, max_lines=4, placeholder=" …") or [""]
    heading = [Line(((line, True),), 15) for line in title]
    heading += [Line(((cut(printable(note), 90), False),), 11) for note in picture.notes]
    dot.attr(label=_table(heading), labelloc="t", fontsize="15")
    inside = contents(picture)
    if any(edge.rises for edge in picture.edges):  # Graphviz begins with the input, so that its side is the left one
        inside = {place: sorted(items, key=lambda item: isinstance(item, Box)) for place, items in inside.items()}
    _write(dot, inside, None, picture)
    if picture.scale is not None:
        dot.node("scale", label=_legend(picture), shape="plaintext", fixedsize="false", **{"class": "scale"})
    for places in picture.levels:
        with dot.subgraph() as side_by_side:
            side_by_side.attr(rank="same")
            for place in places:
                side_by_side.node(place)
    level = {place for places in picture.levels for place in places}
    for edge in picture.edges:
        tail, head = ends(edge)
        straight = {"weight": "20"} if {tail, head} <= level else {}
        if edge.rises:
            straight["dir"] = "back"
        for operand in edge.operand.split(", ") if picture.apart else [edge.operand]:
            text = " · ".join(filter(None, (operand, "" if tall and edge.kind != "loop" else edge.label)))
            label = _table([Line(((printable(text), False),), 10)], 8) if text else ""
            dot.edge(tail, head, label=label, **EDGES[edge.kind], **straight, **{"class": edge.kind})
    return dot.source


def ends(edge: Edge) -> tuple[str, str]:
    """The upper and the lower end of an edge in a picture that goes down."""
    return (edge.head, edge.tail) if edge.rises or edge.kind == "gradient" else (edge.tail, edge.head)


def contents(picture: Picture) -> dict[str | None, list[Vertex | Box]]:
    """The boxes and vertices directly in each box, by its id, boxes first; under None those in no box."""
    inside: dict[str | None, list[Vertex | Box]] = {place: [] for place in (None, *(box.id for box in picture.boxes))}
    parts: tuple[Vertex | Box, ...] = (*picture.boxes, *picture.vertices)
    for part in parts:
        inside[part.parent if isinstance(part, Box) else part.box].append(part)
    return inside


def _table(lines: list[Line], beside: float = 0, side: str = "CENTER") -> str:
    """Lines as one of Graphviz's HTML-like labels, with a size that does not depend on fonts."""
    width = round(max(line.width for line in lines) + beside)
    size = f'FIXEDSIZE="TRUE" WIDTH="{width}" HEIGHT="{round(sum(line.height for line in lines))}"'
    plain = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"'
    return f'<<TABLE {plain}><TR><TD {size} ALIGN="{side}">{_text(lines)}</TD></TR></TABLE>>'


def _text(lines: list[Line]) -> str:
    rows = []
    for line in lines:
        strong = f'<FONT COLOR="{RED}"><B>{{}}</B></FONT>' if line.size == SMALL else "<B>{}</B>"  # misfit axes
        parts = "".join(strong.format(_escape(text)) if bold and text else _escape(text) for text, bold in line.parts)
        rows.append(f'<FONT POINT-SIZE="{line.size:g}">{parts}</FONT>' if parts and line.size != 13 else parts)
    return "<BR/>".join(rows)


def _write(dot: Any, inside: dict[str | None, list[Vertex | Box]], place: str | None, picture: Picture) -> None:
    """Write the vertices directly in a box, and the boxes in it."""
    for item in inside[place]:
        if isinstance(item, Vertex):
            dot.node(item.id, **_look(item, picture))
        elif inside[item.id]:
            with dot.subgraph(name=f"cluster_{item.id}") as box:
                title = item.name if item.kind in ("formula", "stage") else f"{item.name} · {item.kind}"
                if item.kind == item.name.removeprefix("∇ "):
                    title = item.name
                parts = [(cut(printable(title), 60) or "module", False)]
                if item.label:
                    parts.append((f"  {printable(item.label)}", True))
                if item.kind == "formula":
                    parts.append(("  formula", False))
                line = Line(tuple(parts), 12)
                slack = max(8, 0.08 * line.width)  # points, for fonts wider than Helvetica, such as DejaVu Sans
                box.attr(label=_table([line], slack, "LEFT"), labeljust="l", fontcolor=GREY)
                style = "rounded,filled,dashed" if item.kind == "formula" else "rounded,filled"
                box.attr(style=style, fillcolor=PALE, color=GREY)
                if item.mark:
                    box.attr(**attributes(item.mark, style) | {"fillcolor": PALE})
                _write(box, inside, item.id, picture)


def _look(vertex: Vertex, picture: Picture) -> dict[str, str]:
    shape, style, fill, line, _, _ = STYLES[vertex.kind]
    ink = INK
    names: str = vertex.kind
    if vertex.heat is not None and picture.scale is not None:
        place = picture.scale.place(vertex.heat)
        fill, ink, names = RAMP[place], INK if place < DARK else "#ffffff", f"{vertex.kind} heat{place}"
        line = GREY
    if vertex.failed:
        fill, line, style, names = "#ffe3e0", RED, f"{style},bold", f"{vertex.kind} failed"
    look = {"shape": shape, "style": style, "fillcolor": fill, "color": line, "class": names}
    if ink != INK:
        look["fontcolor"] = ink
    if vertex.failed:
        look["penwidth"] = "3"
    if vertex.mark:
        look |= attributes(vertex.mark, style)
    lines = lines_of(vertex, picture)
    width, height = room(vertex, lines)
    if vertex.kind == "input":
        look["ordering"] = "out"  # its readers follow the order of computation, as Q, K, V
    return look | {"label": _label(vertex, lines), "width": f"{width / 72:.3f}", "height": f"{height / 72:.3f}"}


DARK = 5
"""Text is white on the colours from this place of the ramp on, which are dark."""


def _label(vertex: Vertex, lines: list[Line]) -> str:
    text = _text(lines)
    if vertex.pattern is None:
        return f"<{text}>"
    rows = "".join(
        "<TR>" + "".join(f'<TD {SIZE} BGCOLOR="{"#4d4d4d" if cell else "#ffffff"}"></TD>' for cell in row) + "</TR>"
        for row in vertex.pattern
    )
    size = f'FIXEDSIZE="TRUE" WIDTH="{CELL * len(vertex.pattern[0]) + 1}" HEIGHT="{CELL * len(vertex.pattern) + 1}"'
    cells = f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="0" {size}>{rows}</TABLE>'
    return (
        f'<<TABLE BORDER="0" CELLSPACING="2"><TR><TD>{text}</TD></TR><TR><TD ALIGN="CENTER">{cells}</TD></TR></TABLE>>'
    )


SIZE = f'FIXEDSIZE="TRUE" WIDTH="{CELL}" HEIGHT="{CELL}"'


def _legend(picture: Picture) -> str:
    scale = picture.scale
    assert scale is not None
    cells = "".join(f'<TD BGCOLOR="{colour}" WIDTH="28" HEIGHT="12"></TD>' for colour in RAMP)
    how = " (logarithmic)" if scale.logarithmic else ""
    ends = [scale.text(x) for x in (scale.low, scale.middle, scale.high)]
    name = cut(scale.name + how, 60)
    width = round(text_width(name, 13))
    return (
        '<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0">'
        f'<TR><TD COLSPAN="8" WIDTH="{width}" ALIGN="LEFT">{_escape(name)}</TD></TR>'
        f'<TR>{cells}</TR><TR><TD COLSPAN="2" ALIGN="LEFT">{_escape(ends[0])}</TD><TD COLSPAN="4">'
        f'{_escape(ends[1])}</TD><TD COLSPAN="2" ALIGN="RIGHT">{_escape(ends[2])}</TD></TR></TABLE>>'
    )


def _escape(text: str) -> str:
    """Text for one of Graphviz's HTML-like labels. A zero-width space keeps it from expanding `\\N` and the like."""
    return html.escape(printable(text), quote=False).replace("\\", "&#92;&#8203;")
