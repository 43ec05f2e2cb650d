"""A picture in TikZ, for papers: Graphviz lays it out, and LaTeX sets its text in the fonts of the paper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .dot import GREY, INK, PALE, STYLES, to_dot
from .heat import RAMP
from .label import CELL, TITLE, lines_of
from .picture import Picture, Vertex
from .short_text import printable
from .svg import render
from .tex import OTHER, tex

SHAPES = {
    "rounded": ", rounded corners=0.35em", "dashed": ", dashed", "bold": ", line width=0.13em", "ellipse": ", ellipse",
    "cylinder": ", cylinder, shape border rotate=90, aspect=0.08",
    "doubleoctagon": ", chamfered rectangle, double, double distance=0.1em",
}  # fmt: skip
KINDS = {
    "data": "draw=grey", "residual": "draw=grey, line width=0.17em", "gradients": "draw=gradientline",
    "loop": "draw=grey, dashed, line width=0.13em", "uses": "draw=grey, dotted", "cell": "draw=grey, line width=0.03em",
    "box": "draw=grey, fill=pale, rounded corners=0.5em",
    "name": "font=\\small, text=grey, fill=pale, anchor=west, xshift=0.4em",
    "label": "font=\\footnotesize, text=grey, fill=white, fill opacity=0.6, text opacity=1",
}  # fmt: skip
COLOURS = {"ink": INK, "grey": GREY, "pale": PALE} | {f"heat{i}": colour for i, colour in enumerate(RAMP)}
for _kind, (_shape, _style, _fill, _line, *_) in STYLES.items():
    _looks = "".join(SHAPES.get(word, "") for word in (*_style.split(","), _shape))
    KINDS[_kind] = f"draw={_kind}line, fill={_kind}fill{_looks}"
    COLOURS |= {f"{_kind}fill": _fill, f"{_kind}line": _line}


def to_tikz(picture: Picture) -> str:
    """The picture as a `tikzpicture`, in ASCII, for pdfLaTeX, LuaLaTeX and XeLaTeX; its first lines say what it needs.

    Its unit is the em of the text around it. The title and the notes are comments, for the caption to tell.

    Raises DrawingError if Graphviz is missing.
    """
    laid = json.loads(render(to_dot(picture), "json"))
    places = {item["name"]: item for item in laid.get("objects", ())}
    boxes = [(box, places[f"cluster_{box.id}"]) for box in picture.boxes if f"cluster_{box.id}" in places]
    body = [line for box, place in boxes for line in _box(place, 6 * bool(box.label))]
    body += [line for vertex in picture.vertices for line in _vertex(vertex, picture, places[vertex.id])]
    body += [line for edge in laid.get("edges", ()) for line in _edge(edge)]
    body += [_text("name", f"{place['bb'].split(',')[0]},{place['lp'].split(',')[1]}", place) for _, place in boxes]
    drawn = set(re.findall(r"\[tt (\w+)", "".join(body)))
    kinds = [f"  tt {kind}/.style={{{look}}}," for kind, look in KINDS.items() if kind in drawn]
    used = {"ink", *re.findall(r"=(\w+)", "".join([*kinds, *body]))}
    return "\n".join([
        *(f"% {printable(x).encode('ascii', 'replace').decode()}" for x in (picture.title, *picture.notes)),
        r"% In the preamble: \usepackage{tikz} \usetikzlibrary{arrows.meta, shapes.geometric, shapes.misc}",
        OTHER,
        *(rf"\definecolor{{{name}}}{{HTML}}{{{c[1:].upper()}}}" for name, c in COLOURS.items() if name in used),
        r"\begin{tikzpicture}[x=0.077em, y=0.077em, line width=0.07em, >={Stealth[length=0.45em]},",
        "  every node/.style={align=center, inner sep=0.1em, text=ink},",
        *kinds, "]", *body, r"\end{tikzpicture}", "",
    ])  # fmt: skip


def _box(place: dict[str, Any], behind: int) -> Iterator[str]:
    """A box, with two more cards behind it if it stands for several."""
    x0, y0, x1, y1 = map(float, place["bb"].split(","))
    for n in range(behind, -1, -3):
        look = ", dashed" * ("dashed" in place["style"])
        yield f"\\draw[tt box{look}] ({x0 + n:g},{y0 - n:g}) rectangle ({x1 + n:g},{y1 - n:g});"


def _vertex(vertex: Vertex, picture: Picture, place: dict[str, Any]) -> Iterator[str]:
    x, y = map(float, place["pos"].split(","))
    width, height = (72 * float(place[side]) for side in ("width", "height"))
    look = f"tt {vertex.kind}, minimum width={width / TITLE:.2f}em, minimum height={height / TITLE:.2f}em"
    if place["fillcolor"] in RAMP:
        look += f", draw=grey, fill=heat{RAMP.index(place['fillcolor'])}" + ", text=white" * (place["fontcolor"] != INK)
    text, pattern = "", vertex.pattern or ()
    for row in lines_of(vertex, picture):
        line = "".join(rf"\textbf{{\boldmath {tex(part)}}}" if bold else tex(part) for part, bold in row.parts)
        text += f"{line}\\\\" if row.size == TITLE else f"{{\\footnotesize {line}}}\\\\[-0.2em]"
    if pattern:
        text += rf"\rule{{0pt}}{{{CELL * len(pattern) / TITLE:.2f}em}}"
    text = text.removesuffix("[-0.2em]").removesuffix(r"\\")
    yield f"\\node[{look}] ({vertex.id}) at ({x:g},{y:g}) {{{text}}};"
    for i, cells in enumerate(pattern):
        for j, hidden in enumerate(cells):
            corner = f"{x + CELL * (j - len(cells) / 2):g},{y - height / 2 + 5 + CELL * (len(pattern) - 1 - i):g}"
            yield f"\\draw[tt cell, fill={'grey' if hidden else 'white'}] ({corner}) rectangle ++({CELL},{CELL});"


def _edge(edge: dict[str, Any]) -> Iterator[str]:
    """An edge along Graphviz's curve, up to the tips of its arrows, and its label."""
    ends = {point[0]: point[2:] for point in edge["pos"].split() if point[0] in "se"}
    points = [point for point in edge["pos"].split() if point[0] not in "se"]
    points[0], points[-1] = ends.get("s", points[0]), ends.get("e", points[-1])
    way = "".join(f" .. controls ({a}) and ({b}) .. ({c})" for a, b, c in zip(points[1::3], points[2::3], points[3::3]))
    kind = "gradients" if edge["class"] == "gradient" else edge["class"]
    yield f"\\draw[tt {kind}{', <-' * ('s' in ends)}{', ->' * ('e' in ends)}] ({points[0]}){way};"
    if "lp" in edge:
        yield _text("label", edge["lp"], edge)


def _text(kind: str, at: str, place: dict[str, Any]) -> str:
    written = "".join(part["text"] for part in place["_ldraw_"] if part["op"] == "T").replace("\u200b", "")
    return f"\\node[tt {kind}] at ({at}) {{{tex(written)}}};"
