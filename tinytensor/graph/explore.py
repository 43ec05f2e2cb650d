"""A page to explore a graph: modules open and close, each vertex shows its details.

The page lays out what is open by dagre (MIT license, see `dagre.min.js`), the inside of each module on its own; this
file writes the words and numbers, which are data of the graph. Loops stand in stages (`steps.with_pages`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from ..node import written_since
from ..pages.html_page import html_page, text_of
from ..tracing import Statistics
from .calls import Index
from .label import SMALL, TITLE, lines_of, room
from .options import Options
from .picture import Box, Picture, Vertex
from .short_text import bytes_text, count_text, escape, numbers_text, plural, seconds_text, shape_text
from .steps import MOST, with_pages
from .structure import Op, Value, around
from .text import to_text
from .words import typeset

if TYPE_CHECKING:
    from .graph import Graph

FORMULAS = 1000
"""The page of a graph of at most this many ops has the formulas of its fused ops, too."""


def page(graph: Graph, options: dict[str, Any]) -> str:
    """The page as the text of its one file; see `Graph.explore`."""
    default = vars(Options())
    given = {name: value for name, value in vars(graph.options).items() if value != default[name]}
    whole = {"depth": 99, "fold": False, "unroll": False, "backward": False, "large": True, "direction": "TB"}
    chosen = given | options | whole
    asked = chosen.get("fused", default["fused"])
    ran = drawn = _Part(graph, chosen | {"fused": "folded"})
    if asked == "formula" or (asked == "auto" and len(ran.structure.ops) <= FORMULAS):
        drawn = _Part(graph, chosen | {"fused": "formula"})
    told = drawn.picture if asked == "formula" else ran.picture
    title = escape(graph.title or "A computation graph")
    dagre, layout, script = (text_of(__package__, name) for name in ("dagre.min.js", "layout.js", "explore.js"))
    return html_page(
        title,
        BODY.format(title=title, description=escape(told.description), tree=escape(to_text(told))),
        _Data(ran, drawn).content() | {"formulas": asked == "formula"},
        style=text_of(__package__, "graph_page.css") + text_of(__package__, "explore.css"),
        script=f"{script}\nfunction layouter() {{\n{dagre}\n{layout}\nreturn layOut;\n}}\n",
        inline_styles=True,
    )


class _Part(Index):
    """A picture with the structure behind it, and the parts of both by id."""

    def __init__(self, graph: Graph, options: dict[str, Any]) -> None:
        self.graph, self.options = graph, Options(**options)
        self.picture = graph.picture(**options)
        self.structure, builder = graph._build(self.options)
        super().__init__(self.structure)
        self.vertices = {vertex.id: vertex for vertex in self.picture.vertices}
        self.nodes: dict[str, Any] = builder.nodes


class _Data:
    """The data that the page shows, as plain values.

    Args:
        ran: the ops that ran, of which modules and formulas tell.
        drawn: the same, or with formulas instead of fused ops.
    """

    def __init__(self, ran: _Part, drawn: _Part) -> None:
        self.ran, self.drawn = ran, drawn
        staged = with_pages(drawn.structure)
        self.picture = _without_crowd(drawn.graph._picture(drawn.options, lambda _: staged))
        scopes = {scope.id: scope for scope in staged.scopes}
        self.formulas = self._formulas()
        self.inside: dict[str, list[Op]] = {box.id: [] for box in self.picture.boxes}
        formulas = {op.id: formula for formula, op in self.formulas.items()}
        drawn_in = {drawn.nodes[op.id]: op.scope for op in staged.ops}
        for op in ran.structure.ops:
            for box in around(formulas.get(op.id) or drawn_in[ran.nodes[op.id]], scopes):
                if box in self.inside:
                    self.inside[box].append(op)

    def _formulas(self) -> dict[str, Op]:
        """The fused op that ran, by the id of the scope of its formula."""
        drawn = set(self.drawn.nodes.values())
        fused = [op for op in self.ran.structure.ops if self.ran.nodes[op.id] not in drawn]
        formulas = [scope.id for scope in self.drawn.structure.scopes if scope.kind == "formula"]
        return dict(zip(formulas, fused, strict=True))

    def content(self) -> dict[str, Any]:
        return {
            "vertices": [self._vertex(vertex) for vertex in self.picture.vertices],
            "boxes": [self._box(box) for box in self.picture.boxes],
            "edges": [[e.tail, e.head, e.kind, e.operand, e.label] for e in self.picture.edges],
            "gradients": any(op.step is not None for op in self.ran.structure.ops),
        }

    # ---- vertices

    def _vertex(self, vertex: Vertex) -> dict[str, Any]:
        op, value = self.drawn.ops.get(vertex.id), self._value(vertex)
        return {
            "id": vertex.id,
            "kind": vertex.kind,
            "box": vertex.box,
            **_shown(vertex, self.picture),
            "flows": bool(value is not None and (value.gradient is not None or (op is not None and op.differentiable))),
            "rows": [["kind", f"{vertex.kind} {vertex.title}"], *_rows(op, value, self.drawn.nodes.get(vertex.id))],
        }

    def _value(self, vertex: Vertex) -> Value | None:
        values, op = self.drawn.values, self.drawn.ops.get(vertex.id)
        if op is not None:
            return values[op.output]
        if vertex.kind == "output":
            return values[self.drawn.structure.outputs[int(vertex.id[1:]) - 1]]
        return values.get(vertex.id)

    # ---- modules, stages and formulas

    def _box(self, box: Box) -> dict[str, Any]:
        ops = self.inside[box.id]
        values = self.ran.values
        owned = {v: values[v] for op in ops for v in op.inputs if v is not None and values[v].owned}
        count = sum(math.prod(value.shape) for value in owned.values())
        kind = box.name if box.kind in ("formula", "stage") else box.kind
        name = "" if kind == box.name else box.name
        note = f"{count_text(count)} parameters" if count else plural(len(ops), "op")
        fused = self.formulas.get(box.id)
        content = {
            "id": box.id,
            "parent": box.parent,
            "formula": fused is not None,
            "long": box.id.startswith("t"),  # then it stays closed at first, as a picture folds it
            "title": " · ".join(filter(None, (name, kind))),
            "path": ".".join(box.path),
            "note": note,
        }
        if fused is not None:
            vertex = self.ran.vertices[fused.id]
            rows = _rows(fused, values[fused.output], self.ran.nodes[fused.id])
            return content | _shown(vertex, self.ran.picture) | {"rows": [["kind", f"op {fused.name}"], *rows]}
        seconds = [op.seconds for op in ops if op.seconds is not None]
        kept = [one for op in ops for one in op.saved if not one.value or values[one.value].kind != "parameter"]
        saved = {one.memory: one.nbytes for one in kept}
        arguments = self.drawn.scopes[box.id].arguments if box.id in self.drawn.scopes else ()
        given = [(word, self.drawn.values.get(value)) for word, value in arguments]
        rows = [
            ["kind", "stage" if box.kind == "stage" else f"module {box.kind}"],
            ["path", ".".join(box.path)],
            *(["is given", f"{word}: {shape_text(v.shape)} {v.dtype}"] for word, v in given if v is not None),
            ["holds", plural(len(ops), "op")],
            ["parameters", f"{count:,} numbers in {plural(len(owned), 'array')}" if count else ""],
            ["operations", f"{count_text(sum(op.flops for op in ops))} flops"],
            ["keeps", f"{bytes_text(sum(saved.values()))} until the backward pass" if saved else ""],
            ["time", seconds_text(math.fsum(seconds)) if seconds else ""],
        ]
        lines = [[kind, TITLE], [" · ".join(filter(None, (name, note))), SMALL]]
        shown = {"lines": lines, "size": [0, 42], "words": ".".join(box.path)}
        return content | shown | {"rows": [row for row in rows if row[1]]}


def _without_crowd(picture: Picture) -> Picture:
    """The picture with inputs, results and what nothing reads in the box of their neighbours, if they are many."""
    boxes = {vertex.id: vertex.box for vertex in picture.vertices}
    crowd = {v.id for v in picture.vertices if v.box is None and v.kind in ("input", "output", "unread")}
    near: dict[str, set[str | None]] = {place: set() for place in boxes}
    for edge in picture.edges if len(crowd) > MOST // 3 else ():
        near[edge.tail].add(boxes[edge.head])
        near[edge.head].add(boxes[edge.tail])
    only = {place: next(iter(near[place])) for place in crowd if len(near[place]) == 1}
    vertices = [dataclasses.replace(v, box=only.get(v.id, v.box)) for v in picture.vertices]
    return dataclasses.replace(picture, vertices=tuple(vertices))


def _shown(vertex: Vertex, picture: Picture) -> dict[str, Any]:
    """The text of a vertex, and its words for those who cannot see it."""
    lines = lines_of(vertex, picture)
    width, height = room(vertex, lines)
    shown = [["".join(text for text, _ in line.parts), line.size] for line in lines]
    return {"size": [math.ceil(width), math.ceil(height)], "lines": shown, "words": vertex.words}


def _rows(op: Op | None, value: Value | None, node: Any) -> list[list[str]]:
    """Details of a value and of the op that made it: the name of each, and its text."""
    rows: list[list[str]] = []
    if value is not None:
        size = f"{shape_text(value.shape)} {value.dtype}, {bytes_text(value.nbytes)}"
        rows.append(["result" if op is not None else "array", size])
    if op is not None:
        given = ", ".join(f"{name} = {text}" if name and text else name or text for name, text in op.parameters)
        rows += [
            ["formula", typeset(op.formula)],
            ["parameters", given],
            ["operations", f"{count_text(op.flops)} flops" if op.flops else ""],
            ["time", seconds_text(op.seconds) if op.seconds is not None else ""],
            *(["keeps", f"{bytes_text(saved.nbytes)}: {saved.why}"] for saved in op.saved),
            ["line", op.origin or ""],
        ]
    if value is not None:
        if node is not None and node.traced:
            array = node.values[-1] if node.seen[-1] is None else node.seen[-1]
            stale = node.seen[-1] is None and written_since(node.serial, (array,)) is not None
            rows += [["values", text] for text in (["written since"] if stale else _statistics(Statistics.of(array)))]
        elif value.numbers:
            rows.append(["values", value.numbers])
        if value.gradient is not None:
            rows += [["gradient", text] for text in _statistics(value.gradient)]
    return [row for row in rows if row[1]]


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
<noscript>To explore the graph needs JavaScript; without it there is its text:</noscript>
<details><summary>The graph as text</summary><pre>{tree}</pre></details>
<span class="help">Drag to move, wheel to zoom; click a module to open it, its title to close it. Keys: arrows walk,
Enter opens and closes, / searches, + − 0 zoom, Escape leaves.</span>
</footer>
<p id="say" role="status"></p>"""
