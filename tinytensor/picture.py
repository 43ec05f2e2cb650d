"""The graph behind Tensors as plain data, and as a picture: what `draw` makes.

`build` walks the nodes that the ops left behind; `Graph.to_dot` writes the graph in the DOT language, and Graphviz lays
it out. Nothing in it depends on addresses, clocks or the order of a set, so the same computation gives the same DOT
text in every run.
"""

from __future__ import annotations

import html
import itertools
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .drawing import DrawingError
from .files import atomic_write
from .node import Node
from .tensor import Tensor

Kind = Literal["op", "parameter", "input", "output"]


@dataclass(frozen=True)
class Vertex:
    """One thing in the picture: an op, a leaf that wants a gradient ("parameter"), an input without, an output.

    Attributes:
        id: n1, n2, ... in the order of a depth-first walk that sees the inputs of an op before it.
        name: of the op, or what the user called the Tensor.
        shape, dtype: of the array that leaves it.
        scope: the modules around it, outermost first.
        tensor: what the user called an op's result, if anything.
        detail: the op's parameters, compactly.
        origin: the source line of the call, if it was recorded.
    """

    id: str
    kind: Kind
    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: tuple[str, ...] = ()
    tensor: str = ""
    detail: str = ""
    origin: str | None = None


@dataclass(frozen=True)
class Edge:
    """A Tensor on its way from one vertex, `tail`, to another, `head`."""

    tail: str
    head: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    """A module: the box around what was computed in it. `parent` is the box it stands in, if any."""

    id: str
    path: tuple[str, ...]
    parent: str | None


@dataclass(frozen=True)
class Graph:
    """A computation as plain data, in the order of the picture: vertices, edges between them, clusters around them."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...]
    title: str | None = None
    rankdir: str = "LR"

    def __repr__(self) -> str:
        return f"<graph: {self.description()}>"

    def description(self) -> str:
        """What the picture shows, in one line."""
        counts = [(kind, sum(v.kind == kind for v in self.vertices)) for kind in STYLES]
        return ", ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in counts if n)

    def to_dot(self) -> str:
        """The graph in the DOT language, the same text in every run."""
        import graphviz

        dot = graphviz.Digraph(
            graph_attr={
                "rankdir": self.rankdir,
                "fontname": FONT,
                "fontcolor": INK,
                "nodesep": "0.3",
                "ranksep": "0.4",
            },
            node_attr={"fontname": FONT, "fontcolor": INK, "fontsize": "13", "margin": "0.14,0.07", "height": "0.4"},
            edge_attr={"fontname": FONT, "fontcolor": GREY, "fontsize": "10", "color": GREY, "arrowsize": "0.6"},
        )
        if self.title:
            dot.attr(label=f"<<B>{_escape(self.title)}</B>>", labelloc="t", fontsize="15")
        inside: dict[tuple[str, ...], list[Vertex | Cluster]] = {(): []}
        for cluster in self.clusters:
            inside[cluster.path] = []
            inside[cluster.path[:-1]].append(cluster)
        for vertex in self.vertices:
            inside[vertex.scope].append(vertex)
        _write(dot, inside, ())
        for edge in self.edges:
            dot.edge(edge.tail, edge.head, label=f" {_shape(edge.shape)} ")
        return dot.source

    def to_svg(self) -> str:
        """The picture as SVG, with a title, a description, and colours that follow the reader's dark mode.

        Raises DrawingError where Graphviz is missing.
        """
        return _finish(self, _render(self.to_dot(), "svg").decode())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: .svg, .png, .pdf, or .dot for the text that Graphviz reads.

        Without Graphviz, the text is written beside it, as .dot, and DrawingError says what to install.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in (".svg", ".png", ".pdf", ".dot", ".gv"):
            raise ValueError(f"draw: {path} ends in {suffix!r}; expected .svg, .png, .pdf or .dot")
        if suffix in (".dot", ".gv"):
            atomic_write(target, self.to_dot().encode())
            return
        try:
            picture = self.to_svg().encode() if suffix == ".svg" else _render(self.to_dot(), suffix[1:])
        except DrawingError as error:
            text = target.with_suffix(".dot")
            atomic_write(text, self.to_dot().encode())
            raise DrawingError(f"{error}; the graph is in {text}") from None
        atomic_write(target, picture)

    def _repr_svg_(self) -> str | None:
        try:
            return self.to_svg()
        except DrawingError as error:
            warnings.warn(str(error), stacklevel=2)
            return None


# ---- from nodes to a graph


def build(roots: list[Node], named: list[tuple[str, Tensor]], title: str | None, rankdir: str) -> Graph:
    """The graph behind some nodes. Raises RuntimeError if a part of it was freed."""
    # An array's id is a safe key here: the caller's Tensors and the nodes keep these arrays alive.
    names: dict[Node | int, str] = {}
    for name, tensor in named:
        names.setdefault(_key(tensor._data) if tensor._node is None else tensor._node, name)
    nodes = _walk(roots)
    scopes: dict[Node | int, tuple[str, ...]] = {}  # for leaves: the innermost module around all that read them
    for node in nodes:
        for value in _inputs(node):
            scopes[_key(value)] = _common(scopes.get(_key(value), node.scope), node.scope)

    vertices: list[Vertex] = []
    edges: list[Edge] = []
    ids: dict[Node | int, str] = {}
    leaves = itertools.count(1)
    tops = set(roots)  # their names stand on the outputs

    def add(kind: Kind, value: Any, name: str, scope: tuple[str, ...] = (), **more: Any) -> str:
        vertices.append(
            Vertex(f"n{len(vertices) + 1}", kind, name, tuple(value.shape), str(value.dtype), scope, **more)
        )
        return vertices[-1].id

    for node in nodes:
        if node.op is None:
            ids[node] = add("parameter", node, names.get(node) or f"x{next(leaves)}", scopes.get(node, ()))
            continue
        for value in _inputs(node):
            key = _key(value)
            if key not in ids:  # a constant; one that the user named is given from outside of all modules
                ids[key] = add("input", value, names.get(key) or "constant", () if key in names else scopes[key])
        called = "" if node in tops else names.get(node, "")
        ids[node] = add("op", node, node.name, node.scope, tensor=called, detail=_detail(node), origin=node.origin)
        edges.extend(Edge(ids[_key(value)], ids[node], tuple(value.shape)) for value in _inputs(node))
    for i, root in enumerate(roots):
        name = "output" if len(roots) == 1 else f"output {i + 1}"
        edges.append(Edge(ids[root], add("output", root, names.get(root) or name), tuple(root.shape)))
    return Graph(tuple(vertices), tuple(edges), _clusters(vertices), title, rankdir)


def _walk(roots: list[Node]) -> list[Node]:
    """Every node behind the roots once, each after its parents, in the order of a depth-first walk."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            order.append(node)
        elif node not in seen:
            if node.kept is None:
                raise RuntimeError(
                    f"draw: the graph behind {node.name} {tuple(node.shape)} was already used and freed; draw before "
                    "backward, or pass retain_graph=True to it"
                )
            seen.add(node)
            stack.append((node, True))
            stack.extend((p, False) for p in reversed(node.parents) if p is not None and p not in seen)
    return order


def _inputs(node: Node) -> list[Any]:
    """What flows into a node, in the order of its arguments: nodes, and the constant arrays that were recorded."""
    pairs = itertools.zip_longest(node.parents, node.constants)
    return [c if p is None else p for p, c in pairs if p is not None or hasattr(c, "dtype")]


def _key(value: Any) -> Node | int:
    return value if isinstance(value, Node) else id(value)


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(x for x, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b)))


def _clusters(vertices: list[Vertex]) -> tuple[Cluster, ...]:
    found: dict[tuple[str, ...], Cluster] = {}
    for vertex in vertices:
        for depth in range(1, len(vertex.scope) + 1):
            path = vertex.scope[:depth]
            if path not in found:
                parent = found[path[:-1]].id if depth > 1 else None
                found[path] = Cluster(f"cluster_{len(found) + 1}", path, parent)
    return tuple(found.values())


# ---- from values to short text


def _detail(node: Node) -> str:
    """An op's parameters and the numbers among its inputs, as `x2=0.5, axis=1, keepdims`, without what is off."""
    assert node.op is not None
    given = [
        ("" if node.op.variadic else node.op.inputs[i], value)
        for i, value in enumerate(node.constants)
        if value is not None and not hasattr(value, "dtype")
    ]
    texts = []
    for name, value in (*given, *node.params.items()):
        if value is None or value is False or (name == "dtype" and value == node.dtype):
            continue
        if value is True:
            texts.append(name)
        elif name == "key":
            parts = value if isinstance(value, tuple) else (value,)
            texts.append(f"[{', '.join(_short(part) for part in parts)}]")
        else:
            texts.append(f"{name}={_short(value)}" if name else _short(value))
    return _cut(", ".join(texts), 36)


def _short(value: Any) -> str:
    """A parameter in few characters; arrays by dtype and shape, and never an address."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            return _short(value[0])
        shown = [_short(v) for v in value[:4]] + ["…"] * (len(value) > 4)
        return f"({', '.join(shown)})"
    if isinstance(value, slice):
        ends = ["" if end is None else _short(end) for end in (value.start, value.stop)]
        return ":".join(ends if value.step is None else [*ends, _short(value.step)])
    if isinstance(value, np.dtype):
        return value.name
    if hasattr(value, "dtype"):
        return f"{value.dtype} {_shape(value.shape)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is Ellipsis:
        return "..."
    if value is None or isinstance(value, (int, complex, str)):
        return _cut(str(value), 24)
    return getattr(value, "__name__", type(value).__name__)


def _shape(shape: tuple[int, ...]) -> str:
    return "\N{MULTIPLICATION SIGN}".join(map(str, shape)) or "scalar"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _escape(text: str) -> str:
    """Text for one of Graphviz's HTML-like labels. A zero-width space keeps it from expanding `\\N` and the like."""
    return html.escape(_printable(_cut(text, 60)), quote=False).replace("\\", "&#92;&#8203;")


def _printable(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


# ---- from a graph to a picture

FONT = "Helvetica,Arial,sans-serif"
INK, GREY, PALE = "#1a1a1a", "#5a5a5a", "#f6f6f6"

# What a kind is must show in print and to every eye, so each has a shape of its own besides its colour; the colours
# are from the palette of Okabe and Ito (2008), which the colour-blind tell apart. In order: shape, further style,
# fill and line in light, fill and line in dark.
STYLES: dict[Kind, tuple[str, str, str, str, str, str]] = {
    "op": ("box", "rounded,filled", "#e3f0f9", "#0072b2", "#0c2f47", "#56b4e9"),
    "parameter": ("cylinder", "filled", "#fdf1d8", "#b87400", "#453005", "#e69f00"),
    "input": ("ellipse", "filled", "#dff4ed", "#007a58", "#063b2c", "#1fc699"),
    "output": ("doubleoctagon", "filled", "#f8e8f1", "#a3487b", "#43213a", "#e08fbf"),
}


def _write(dot: Any, inside: dict[tuple[str, ...], list[Vertex | Cluster]], path: tuple[str, ...]) -> None:
    """The vertices directly in a module, and its submodules as boxes."""
    for item in inside[path]:
        if isinstance(item, Vertex):
            shape, style, fill, line, _, _ = STYLES[item.kind]
            label = f"<B>{_escape(item.name)}</B>"
            if item.tensor:
                label = f"{_escape(item.tensor)} = {label}"
            if item.detail:
                label += f'<BR/><FONT POINT-SIZE="10">{_escape(item.detail)}</FONT>'
            look = {"shape": shape, "style": style, "fillcolor": fill, "color": line}
            dot.node(item.id, label=f"<{label}>", **look, **{"class": item.kind})
        else:
            with dot.subgraph(name=item.id) as box:
                box.attr(label=f"<{_escape(item.path[-1]) or 'module'}>", labeljust="l", fontsize="12", fontcolor=GREY)
                box.attr(style="rounded,filled", fillcolor=PALE, color=GREY)
                _write(box, inside, item.path)


def _render(dot: str, kind: str) -> bytes:
    """Lay out and draw: by the `dot` program, or by pygraphviz, whose wheel carries Graphviz."""
    import graphviz

    try:
        return graphviz.pipe("dot", kind, dot.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        pass
    except graphviz.CalledProcessError as error:
        raise DrawingError(f"draw: Graphviz failed: {error}") from error
    try:
        import pygraphviz
    except ImportError:
        raise DrawingError("draw: pictures need Graphviz: pip install -e '.[viz]'") from None
    return pygraphviz.AGraph(string=dot).draw(format=kind, prog="dot")


def _finish(graph: Graph, svg: str) -> str:
    """Graphviz's SVG with what it leaves out: a role, a title and a description, words for every part, a dark mode."""
    by_id = {v.id: v for v in graph.vertices}
    titles = {v.id: _describe(v) for v in graph.vertices}
    titles |= {c.id: f"module {'.'.join(c.path)}" for c in graph.clusters}
    titles |= {f"{e.tail}->{e.head}": f"{_title(by_id[e.tail])}, {_shape(e.shape)}" for e in graph.edges}
    svg = re.sub(
        r"<title>([^<]*)</title>",
        lambda match: f"<title>{html.escape(_printable(titles.get(html.unescape(match[1]), '')))}</title>",
        svg[svg.index("<svg") :],
    )
    opening, _, rest = svg.partition(">")
    opening = opening.replace("<svg", '<svg role="img" class="tinytensor"', 1)
    title = html.escape(_printable(graph.title or "Computation graph"))
    words = f"<title>{title}</title><desc>{graph.description()}</desc>"
    return f"{opening}>\n{words}\n<style>{_dark_mode()}</style>{rest}"


def _title(vertex: Vertex) -> str:
    return f"{vertex.tensor} = {vertex.name}" if vertex.tensor else vertex.name


def _describe(vertex: Vertex) -> str:
    parts = [f"{vertex.kind} {_title(vertex)}", vertex.detail, f"{_shape(vertex.shape)} {vertex.dtype}", vertex.origin]
    return "; ".join(part for part in parts if part)


def _dark_mode() -> str:
    rules = [
        ".graph > polygon { fill: #0d1117 }",
        "text { fill: #e6edf3 }",
        ".cluster > path { fill: #161b22; stroke: #8b949e }",
        ".edge text { fill: #a8b1bb }",
        ".edge path, .tinytensor .edge polygon { stroke: #a8b1bb }",
        ".edge polygon { fill: #a8b1bb }",
    ]
    for kind, (*_, fill, line) in STYLES.items():
        parts = ", ".join(f".tinytensor .{kind} {part}" for part in ("path", "polygon", "ellipse"))
        rules.append(f"{parts.removeprefix('.tinytensor ')} {{ fill: {fill}; stroke: {line} }}")
    lines = "".join(f"\n.tinytensor {rule}" for rule in rules)
    return f"\n@media (prefers-color-scheme: dark) {{{lines}\n}}\n"
