"""A page to explore a graph: modules open and close, each vertex shows its details.

The page lays out the open modules by dagre (MIT license, see `dagre.min.js`), the inside of each on its own; this
file writes the words and numbers, which are data of the graph.
"""

from __future__ import annotations

import dataclasses
import math
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..machine.files import atomic_write
from ..pages.html_page import html_page
from ..tracing import Statistics
from .build import Builder
from .label import lines_of, room
from .options import Options
from .picture import Box, Picture, Vertex
from .short_text import bytes_text, count_text, escape, numbers_text, plural, seconds_text, shape_text
from .structure import Op, Structure, Value
from .text import to_text
from .words import typeset

if TYPE_CHECKING:
    from .graph import Graph

DEEPEST = 99

Row = list[Any]
"""The name of a detail, its text, and the id of the vertex that it leads to, if any."""


def explore(graph: Graph, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
    """Write the page; see `Graph.explore`."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"explore: {os.fspath(path)} has the ending {Path(path).suffix!r}; expected .html")
    atomic_write(path, page(graph, options).encode())


def page(graph: Graph, options: dict[str, Any]) -> str:
    """The page as the text of its one file."""
    default = Options()
    given = {name: value for name, value in vars(graph.options).items() if value != getattr(default, name)}
    whole = {"depth": DEEPEST, "fold": False, "large": True, "direction": "TB"}
    chosen = {"fused": "folded"} | given | options | whole
    picture = graph.picture(**chosen)
    structure, builder = graph._build(dataclasses.replace(default, **chosen))
    folder = resources.files(__package__)
    title = escape(graph.title or "A computation graph")
    scripts = [(folder / name).read_text(encoding="utf-8") for name in ("dagre.min.js", "explore.js")]
    return html_page(
        title,
        BODY.format(title=title, description=escape(picture.description), tree=escape(to_text(picture))),
        _Data(picture, structure, builder).content(),
        style=(folder / "explore.css").read_text(encoding="utf-8"),
        script="\n".join(scripts),
        inline_styles=True,
    )


class _Data:
    """The data that the page shows, as plain values."""

    def __init__(self, picture: Picture, structure: Structure, builder: Builder) -> None:
        self.picture = picture
        self.structure = structure
        self.nodes: dict[str, Any] = dict(builder.nodes)
        self.vertices = {vertex.id: vertex for vertex in picture.vertices}
        self.values = {value.id: value for value in structure.values}
        self.ops = {op.id: op for op in structure.ops}
        self.scopes = {scope.id: scope for scope in structure.scopes}
        self.boxes = {box.id: box for box in picture.boxes}
        self.inside: dict[str, list[Op]] = {box.id: [] for box in picture.boxes}
        for op in structure.ops:
            place = op.scope
            while place is not None:
                if place in self.inside:
                    self.inside[place].append(op)
                place = self.scopes[place].parent

    def content(self) -> dict[str, Any]:
        return {
            "vertices": [self._vertex(vertex) for vertex in self.picture.vertices],
            "boxes": [self._box(box) for box in self.picture.boxes],
            "edges": [[e.tail, e.head, e.kind, e.operand, e.label] for e in self.picture.edges],
            "gradients": any(op.step is not None for op in self.structure.ops),
        }

    # ---- vertices

    def _vertex(self, vertex: Vertex) -> dict[str, Any]:
        lines = lines_of(vertex, self.picture)
        width, height = room(vertex, lines)
        op, value = self.ops.get(vertex.id), self._value(vertex)
        return {
            "id": vertex.id,
            "kind": vertex.kind,
            "box": vertex.box,
            "size": [math.ceil(width), math.ceil(height)],
            "lines": [["".join(text for text, _ in line.parts), line.size] for line in lines],
            "words": vertex.words,
            "flows": bool(value is not None and (value.gradient is not None or (op is not None and op.differentiable))),
            "rows": self._rows(vertex, op, value),
        }

    def _value(self, vertex: Vertex) -> Value | None:
        op = self.ops.get(vertex.id)
        if op is not None:
            return self.values[op.output]
        if vertex.kind == "output":
            return self.values[self.structure.outputs[int(vertex.id[1:]) - 1]]
        return self.values.get(vertex.id)

    def _rows(self, vertex: Vertex, op: Op | None, value: Value | None) -> list[Row]:
        rows: list[Row] = [["kind", f"{vertex.kind} {vertex.title}"]]
        if vertex.box is not None:
            rows.append(["module", ".".join(self.boxes[vertex.box].path), vertex.box])
        rows.extend(
            ["reads" + (f" as {e.operand}" if e.operand else ""), self._called(e.tail, e.label), e.tail]
            for e in self.picture.edges
            if e.head == vertex.id and e.kind in ("data", "residual")
        )
        rows.extend(
            ["read by", self._called(e.head, ""), e.head]
            for e in self.picture.edges
            if e.tail == vertex.id and e.kind in ("data", "residual")
        )
        if value is not None:
            size = f"{shape_text(value.shape)} {value.dtype}, {bytes_text(value.nbytes)}"
            rows.append(["result" if op is not None else "array", size])
        if op is not None:
            rows.extend(self._of_op(op))
        if value is not None:
            node = self.nodes.get(vertex.id)
            if node is not None and node.traced:
                rows.extend(["values", text] for text in _statistics(Statistics.of(node.values[-1])))
            elif value.numbers:
                rows.append(["values", value.numbers])
            gradient = value.gradient
            if gradient is not None:
                rows.extend(["gradient", text] for text in _statistics(gradient))
        return [row for row in rows if row[1]]

    def _of_op(self, op: Op) -> list[Row]:
        return [
            ["formula", typeset(op.formula)],
            [
                "parameters",
                ", ".join(f"{name} = {text}" if name and text else name or text for name, text in op.parameters),
            ],
            ["operations", f"{count_text(op.flops)} flops" if op.flops else ""],
            ["time", seconds_text(op.seconds) if op.seconds is not None else ""],
            *(["keeps", f"{bytes_text(saved.nbytes)}: {saved.why}"] for saved in op.saved),
            ["line", op.origin or ""],
        ]

    def _called(self, place: str, label: str) -> str:
        vertex = self.vertices[place]
        return f"{vertex.name or vertex.heading}{', ' + label if label else ''}"

    # ---- modules

    def _box(self, box: Box) -> dict[str, Any]:
        ops = self.inside[box.id]
        owned = {v: self.values[v] for op in ops for v in op.inputs if v is not None and self.values[v].owned}
        count = sum(math.prod(value.shape) for value in owned.values())
        seconds = [op.seconds for op in ops if op.seconds is not None]
        saved = {kept.memory: kept.nbytes for op in ops for kept in op.saved if not self._is_parameter(kept.value)}
        scope = self.scopes[box.id]
        title = box.name if box.kind in ("formula", "stage") else box.kind
        rows: list[Row] = [
            ["kind", f"{'formula' if box.kind == 'formula' else 'module'} {box.kind}"],
            ["path", ".".join(box.path)],
            *(["is given", f"{word}: {self._shape(value)}"] for word, value in scope.arguments),
            ["holds", plural(len(ops), "op")],
            ["parameters", f"{count:,} numbers in {plural(len(owned), 'array')}" if count else ""],
            ["operations", f"{count_text(sum(op.flops for op in ops))} flops"],
            ["keeps", f"{bytes_text(sum(saved.values()))} until the backward pass" if saved else ""],
            ["time", seconds_text(math.fsum(seconds)) if seconds else ""],
        ]
        note = f"{count_text(count)} parameters" if count else plural(len(ops), "op")
        return {
            "id": box.id,
            "parent": box.parent,
            "formula": box.kind == "formula",
            "title": title,
            "name": "" if title == box.name else box.name,
            "path": ".".join(box.path),
            "note": note,
            "rows": [row for row in rows if row[1]],
        }

    def _is_parameter(self, value: str) -> bool:
        return bool(value) and self.values[value].kind == "parameter"

    def _shape(self, value: str) -> str:
        found = self.values.get(value)
        return f"{shape_text(found.shape)} {found.dtype}" if found is not None else ""


def _statistics(found: Statistics) -> list[str]:
    """The numbers of a small array, or the statistics of a large one."""
    if found.numbers is not None and not (isinstance(found.numbers, list) and len(found.numbers) > 16):
        return [numbers_text(found.numbers) if found.numbers != [] else "no elements"]
    rest = "" if found.finite else ", not finite"
    return [f"norm {found.norm:.4g}, from {found.minimum:.4g} to {found.maximum:.4g}, mean {found.mean:.4g}{rest}"]


BODY = """\
<header>
<h1>{title}</h1>
<input id="search" type="search" placeholder="search ( / )" aria-label="Search for ops, modules, parameters">
<output id="hits"></output>
<span class="buttons">
<button id="open" title="Open all modules">open all</button>
<button id="close" title="Close all modules">close all</button>
<button id="out" title="Smaller (-)" aria-label="Smaller">−</button>
<button id="in" title="Larger (+)" aria-label="Larger">+</button>
<button id="fit" title="The whole graph (0)">fit</button>
</span>
<fieldset aria-label="Which pass">
<label><input type="radio" name="pass" value="forward" checked> forward</label>
<label><input type="radio" name="pass" value="backward"> backward</label>
</fieldset>
</header>
<main>
<section id="graph" tabindex="0" role="application" aria-label="The graph; arrow keys walk, Enter opens and closes">
<svg id="drawing" role="img" aria-label="{description}"><g id="scene"></g></svg>
</section>
<section id="panel" aria-label="What is selected" tabindex="0"></section>
</main>
<footer>
<details><summary>The graph as text</summary><pre>{tree}</pre></details>
<span class="help">Drag to move, wheel to zoom; click a module to open it, its title to close it. Keys: arrows walk,
Enter opens and closes, / searches, + − 0 zoom, Escape leaves.</span>
</footer>
<noscript><p>To explore the graph needs JavaScript; as text:</p><pre>{tree}</pre></noscript>
<p id="say" role="status"></p>"""
