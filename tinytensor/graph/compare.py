"""Two graphs side by side: what one model has that the other has not.

print(tt.compare(post_norm, pre_norm))
tt.compare(post_norm, pre_norm).save("difference.svg")
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files import atomic_write
from .dot import to_dot
from .picture import Box, Edge, Picture, Vertex
from .short_text import shape_text
from .svg import render, to_svg

if TYPE_CHECKING:
    from .graph import Graph

SUFFIXES = (".svg", ".png", ".pdf", ".dot", ".txt")


class Entry(NamedTuple):
    """A vertex of one of the graphs.

    Attributes:
        path: of the module that it stands in, with its own name.
        what: the op, the class of the module, or the array.
        detail: its shape, and what is written in it: formula, parameters, numbers of parameters.
    """

    path: str
    what: str
    detail: str

    def __str__(self) -> str:
        return "  ".join(filter(None, self))


class Comparison:
    """Two graphs, vertex by vertex in the order of computation; a notebook shows the text, `save` writes pictures.

    Attributes:
        only_a, only_b: what one has and the other has not.
        changed: pairs that stand in the same place and differ in shape or detail.
        same: what both have.
    """

    def __init__(self, a: Graph, b: Graph, options: dict[str, Any]) -> None:
        self._pictures = tuple(graph.picture(**{"direction": "TB"} | options) for graph in (a, b))
        self._marks: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.only_a: list[Entry] = []
        self.only_b: list[Entry] = []
        self.changed: list[tuple[Entry, Entry]] = []
        self.same: list[Entry] = []
        rows = [_rows(picture) for picture in self._pictures]
        keys = [[(entry.path, entry.what) for _, entry in found] for found in rows]
        for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
            if kind == "equal":
                for one, other in zip(rows[0][i:i_end], rows[1][j:j_end]):
                    self._pair(one, other)
                continue
            for side, found, mark in ((0, rows[0][i:i_end], "minus"), (1, rows[1][j:j_end], "plus")):
                (self.only_a, self.only_b)[side].extend(entry for _, entry in found)
                self._marks[side].update((place, mark) for place, _ in found)

    def _pair(self, one: tuple[str, Entry], other: tuple[str, Entry]) -> None:
        if one[1].detail == other[1].detail:
            self.same.append(one[1])
            return
        self.changed.append((one[1], other[1]))
        for side, (place, _) in enumerate((one, other)):
            self._marks[side][place] = "changed"

    @property
    def titles(self) -> tuple[str, str]:
        """What the graphs are called."""
        a, b = (picture.title for picture in self._pictures)
        return (a, b) if a != b else ("a", "b")

    def __repr__(self) -> str:
        return (
            f"<comparison: {len(self.only_a)} only in {self.titles[0]}, {len(self.only_b)} only in {self.titles[1]}, "
            f"{len(self.changed)} changed, {len(self.same)} the same>"
        )

    def __str__(self) -> str:
        a, b = self.titles
        lines = [
            f"a: {a}, {self._pictures[0].description}",
            f"b: {b}, {self._pictures[1].description}",
            f"{len(self.same)} the same",
        ]
        lines += [f"- {entry}" for entry in self.only_a]
        lines += [f"+ {entry}" for entry in self.only_b]
        lines += [f"~ {one} -> {other.detail}" for one, other in self.changed]
        return "\n".join(lines)

    def picture(self) -> Picture:
        """Both graphs in one, each in a box, with what differs marked by a sign, a thick line and a colour."""
        vertices: list[Vertex] = []
        edges: list[Edge] = []
        boxes: list[Box] = []
        for name, title, picture, marks in zip("ab", self.titles, self._pictures, self._marks):
            boxes.append(Box(name, title, title, None, (title,)))
            boxes.extend(
                dataclasses.replace(box, id=name + box.id, parent=name + box.parent if box.parent else name)
                for box in picture.boxes
            )
            vertices.extend(
                dataclasses.replace(
                    vertex,
                    id=name + vertex.id,
                    box=name + vertex.box if vertex.box else name,
                    mark=marks.get(vertex.id, ""),
                )
                for vertex in picture.vertices
            )
            edges.extend(dataclasses.replace(e, tail=name + e.tail, head=name + e.head) for e in picture.edges)
        first = self._pictures[0]
        title = " and ".join(self.titles)
        return Picture(tuple(vertices), tuple(edges), tuple(boxes), first.direction, title, repr(self)[1:-1])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it: .svg, .png or .pdf, both graphs beside each other; .dot, what Graphviz reads; .txt, the text.

        Raises ValueError for other endings, DrawingError where Graphviz is missing.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(f"compare: {path} ends in {suffix!r}; expected one of {', '.join(SUFFIXES)}")
        if suffix == ".txt":
            content = f"{self}\n".encode()
        elif suffix == ".dot":
            content = to_dot(self.picture()).encode()
        elif suffix == ".svg":
            content = to_svg(self.picture()).encode()
        else:
            content = render(to_dot(self.picture()), suffix[1:])
        atomic_write(path, content)


def compare(a: Graph, b: Graph, **options: Any) -> Comparison:
    """What one graph has that the other has not, and what stands in the same place with another shape.

    Vertices are matched by the path of their module and what they are, in the order of computation, so that one that
    was put in between shifts no others.

    Args:
        a, b: graphs of `tt.record()` or `tt.draw`.
        **options: how much of them, as for pictures, for example `depth=3`; see `tinytensor.graph.Options`.

    Raises TypeError where one is no graph, ValueError for options that do not exist.
    """
    for name, graph in (("a", a), ("b", b)):
        if not hasattr(graph, "picture"):
            raise TypeError(f"compare: {name} is a {type(graph).__name__}; expected a graph, as tt.record() gives one")
    return Comparison(a, b, options)


def _rows(picture: Picture) -> list[tuple[str, Entry]]:
    """The vertices that compute or are given, each with its id."""
    paths = {box.id: ".".join(box.path[1:]) for box in picture.boxes}
    rows = []
    for vertex in picture.vertices:
        if vertex.kind == "gradient":
            continue
        name = vertex.name if vertex.kind == "module" else vertex.title if vertex.kind == "parameter" else ""
        path = ".".join(filter(None, (paths.get(vertex.box or "", ""), name)))
        detail = ", ".join([shape_text(vertex.shape), *vertex.lines])
        rows.append((vertex.id, Entry(path, vertex.title if vertex.kind != "parameter" else "parameter", detail)))
    return rows
