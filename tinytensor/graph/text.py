"""A picture as text: a tree for the terminal, and Mermaid, which Markdown pages draw."""

from __future__ import annotations

import json

from .dot import INK, STYLES, contents
from .picture import Box, Picture, Vertex
from .short_text import cut, printable, shape_text


def to_text(picture: Picture) -> str:
    """A tree: boxes and, in them, a line for each vertex with the shape of its result and its inputs.

    head                                   formula
      matmul      4×4        from query, mT
    """
    inside = contents(picture)
    order = {v.id: i for i, v in enumerate(picture.vertices)}
    sources: dict[str, list[str]] = {}
    names = _Names(picture)
    for edge in picture.edges:
        if edge.kind == "loop":
            sources.setdefault(edge.head, []).append(f"{names.of(edge.tail, edge.head)} of the turn before")
        elif edge.kind != "uses":
            named = edge.operand not in ("", "left", "right")  # the order shows left and right
            operand = f" as {edge.operand}" if named else ""
            sources.setdefault(edge.head, []).append(f"{names.of(edge.tail, edge.head)}{operand}")
    first = {b.id: 0 for b in picture.boxes}
    for box in reversed(picture.boxes):
        first[box.id] = min((order[i.id] if isinstance(i, Vertex) else first[i.id] for i in inside[box.id]), default=0)
    rows: list[tuple[str, str, str]] = []

    def visit(place: str | None, indent: str) -> None:
        items = inside[place]
        for item in sorted(items, key=lambda i: order[i.id] if isinstance(i, Vertex) else first[i.id]):
            if isinstance(item, Box):
                if inside[item.id]:
                    kind = "" if item.kind == item.name else item.kind
                    rows.append((f"{indent}{' '.join(x for x in (item.name, kind, item.label) if x)}", "", ""))
                    visit(item.id, indent + "  ")
            else:
                given = dict.fromkeys(sources.get(item.id, ()))
                origin = f"from {', '.join(given)}" if given else item.kind
                details = [*item.lines, *item.numbers]
                detail = f"  ({', '.join(details)})" if details else ""
                mark = "!! " if item.failed else ""
                rows.append((f"{indent}{mark}{names.row(item)}", shape_text(item.shape), origin + detail))

    visit(None, "")
    width = min(max((len(row[0]) for row in rows), default=0), 48)
    middle = max((len(row[1]) for row in rows), default=0)
    lines = [picture.title, picture.description, *picture.notes]
    if picture.scale is not None:
        scale = picture.scale
        lines.append(f"{scale.name}: from {scale.text(scale.low)} to {scale.text(scale.high)}")
    lines += [f"{a:<{width}}  {b:<{middle}}  {c}".rstrip() for a, b, c in rows]
    return "\n".join(printable(line) for line in lines) + "\n"


class _Names:
    """Names of vertices in a tree: the name, with its path if another box has the same name, or with a number."""

    def __init__(self, picture: Picture) -> None:
        self.vertices = {v.id: v for v in picture.vertices}
        self.boxes = {box.id: box for box in picture.boxes}
        self.local: dict[str, str] = {}
        taken: dict[tuple[str | None, str], int] = {}
        self.known: dict[str, set[str | None]] = {}  # the boxes that have a name in them
        for vertex in picture.vertices:
            name = vertex.name or vertex.heading
            taken[vertex.box, name] = number = taken.get((vertex.box, name), 0) + 1
            self.local[vertex.id] = name if number == 1 else f"{name} ({number})"
            self.known.setdefault(self.local[vertex.id], set()).add(vertex.box)
        counts: dict[str, int] = {}
        self.whole: dict[str, str] = {}  # names with their paths, numbered where two boxes have one path
        for vertex in picture.vertices:
            path = self.boxes[vertex.box].path[1:] if vertex.box is not None else ()
            name = ".".join([*path, self.local[vertex.id]])
            counts[name] = number = counts.get(name, 0) + 1
            self.whole[vertex.id] = name if number == 1 else f"{name} ({number})"

    def of(self, place: str, reader: str) -> str:
        """The name of a vertex in the row of one that reads it."""
        name, box = self.local[place], self.vertices[place].box
        if len(self.known[name]) == 1 or box == self.vertices[reader].box:
            return name
        return self.whole[place]

    def row(self, vertex: Vertex) -> str:
        """The name of a vertex in its own row, with its heading."""
        heading = f"{vertex.join if vertex.kind == 'op' else ' '}{vertex.heading}" if vertex.name else ""
        return f"{self.local[vertex.id]}{heading}"


SHAPES = {
    "op": ("[", "]"), "module": ("[[", "]]"), "parameter": ("[(", ")]"), "input": ("([", "])"),
    "constant": ("([", "])"), "mask": ("[/", "/]"), "output": ("{{", "}}"), "gradient": ("(", ")"),
    "unread": ("(", ")"),
}  # fmt: skip
ARROWS = {"data": "-->", "residual": "==>", "gradient": "-.->", "uses": "-.-", "loop": "-.->"}


def to_mermaid(picture: Picture) -> str:
    """The picture as a Mermaid flowchart, for Markdown pages."""
    inside = contents(picture)
    title = json.dumps(printable(cut(picture.title, 90)), ensure_ascii=False)  # YAML reads JSON too
    lines = ["---", f"title: {title}", "---", f"flowchart {picture.direction}"]
    lines += [f"  accTitle: {_quoted(picture.title)}", f"  accDescr: {_quoted(picture.description, 400)}"]

    def visit(place: str | None, indent: str) -> None:
        for item in inside[place]:
            if isinstance(item, Vertex):
                begin, end = SHAPES[item.kind]
                title = f"{item.name}{item.join}{item.heading}" if item.name and item.kind == "op" else item.heading
                parts = [title, item.name if item.kind == "module" else "", *item.lines]
                text = "<br>".join(_quoted(part) for part in parts if part)
                lines.append(f'{indent}{item.id}{begin}"{text}"{end}')
            elif inside[item.id]:
                title = " ".join(x for x in (item.name, "" if item.kind == item.name else item.kind, item.label) if x)
                lines.append(f'{indent}subgraph {item.id}["{_quoted(title)}"]')
                visit(item.id, indent + "  ")
                lines.append(f"{indent}end")

    visit(None, "  ")
    for edge in picture.edges:
        text = " ".join(filter(None, (edge.operand, edge.label)))
        label = f'|"{_quoted(text)}"|' if text else ""
        lines.append(f"  {edge.tail} {ARROWS[edge.kind]}{label} {edge.head}")
    for kind, (_, _, fill, line, _, _) in STYLES.items():
        ids = [vertex.id for vertex in picture.vertices if vertex.kind == kind]
        if ids:
            lines.append(f"  classDef {kind} fill:{fill},stroke:{line},color:{INK}")
            lines.append(f"  class {','.join(ids)} {kind}")
    return "\n".join(lines) + "\n"


def _quoted(text: str, length: int = 90) -> str:
    """Text for use in quotation marks, with Mermaid's own characters escaped."""
    return "".join(f"#{ord(c)};" if c in '#"<>`;{}' else c for c in printable(cut(text, length)))
