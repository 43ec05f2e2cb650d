"""The film of a backward pass: one HTML file that plays it step by step over the graph's picture.

It shows data of the graph: the steps that the engine noted while it ran, the arrays that the recording kept, the source
of the rules. The page neither lays out nor computes anything; it shows one step after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import for_array
from ..node import Node, written_since
from ..pages.html_page import html_page, text_of
from ..tracing import Statistics, Step, stretched
from .build import sources
from .calls import Index
from .compose import Look
from .dot import ends, to_dot
from .mathematics import gradients_of, in_words, mathematics
from .options import Options
from .picture import Picture
from .short_text import cut, escape, shape_text, short
from .source import function_text, rule_text
from .structure import Op, Value
from .svg import _finish, render
from .words import typeset

if TYPE_CHECKING:
    from .graph import Graph

FEW = 60
"""The film shows a graph of at most this many ops whole: every module open, none folded."""

MOST, MOST_STEPS = 2000, 10_000
"""The most vertices, which Graphviz lays out in ten seconds at the worst, and the most ops."""


def page(graph: Graph, options: dict[str, Any]) -> str:
    """The film as the text of its one file; see `Graph.player`."""
    picture, data = film(graph, options)
    drawing = render(to_dot(picture), "svg").decode()
    content = data | {"vertices": {}, "edges": {}}
    rising = {"->".join(ends(edge)): f"{edge.tail}->{edge.head}" for edge in picture.edges if edge.rises}
    for id_, kind, name in re.findall(r'<g id="(\w+)" class="([^"]*)">\s*<title>([^<]*)</title>', drawing):
        name = rising.get(name := name.replace("&#45;", "-").replace("&gt;", ">"), name)
        if kind.startswith("node"):
            content["vertices"][name] = id_
        elif kind.startswith("edge"):
            content["edges"].setdefault(f"{name} {kind.partition(' ')[2]}", []).append(id_)
    title = escape(graph.title or "The backward pass, step by step")
    return html_page(
        title,
        BODY.format(title=title, picture=_finish(picture, drawing)),
        content,
        style=text_of(__package__, "graph_page.css") + text_of(__package__, "film.css"),
        script=text_of(__package__, "film.js"),
        inline_styles=True,
    )


def film(graph: Graph, options: dict[str, Any]) -> tuple[Picture, dict[str, Any]]:
    """The picture that the film plays over, and its data as plain values. Raises the errors of `Graph.player`."""
    if options.get("fused", "folded") not in ("auto", "folded"):
        raise ValueError(f"player: fused={options['fused']!r}; a film shows what ran, so fused ops are one vertex each")
    default = vars(Options())
    given = {name: value for name, value in vars(graph.options).items() if value != default[name]}
    few = {"depth": FEW, "fold": False} if len(graph._nodes) <= FEW else {}
    chosen = few | given | options | {"fused": "folded", "large": True}
    picture = graph.picture(**chosen)
    if len(picture.vertices) > MOST or len(graph._nodes) > MOST_STEPS:
        raise ValueError(
            f"player: the film would show {len(picture.vertices):,} vertices and {len(graph._nodes):,} steps, and it "
            f"shows at most {MOST:,} and {MOST_STEPS:,}; record less of it, or close modules (a smaller depth, or "
            "collapse); graph.explore shows a graph of any size"
        )
    return picture, _Film(graph, Options(**chosen), picture).data()


class Contribution(NamedTuple):
    """The part that one op added to the gradient of one of its inputs.

    Attributes:
        step: the step of the op, counted from 0.
        place: the place of the input.
        gradient: statistics of the part.
    """

    step: int
    place: int
    gradient: Statistics


class _Film(Index):
    def __init__(self, graph: Graph, options: Options, picture: Picture) -> None:
        structure, builder = graph._build(options)
        super().__init__(structure)
        self.nodes: dict[str, Any] = builder.nodes
        self.turns = structure.turns
        self._check()
        self.turn = {op.id: i for i, (op, _) in enumerate(self.turns)}

        self.shapes = {vertex.id: vertex for vertex in picture.vertices}
        self.drawn = {op: vertex.id for vertex in picture.vertices for op in vertex.ops}
        self.ways = {  # by the op that reads, and the place of the input
            (op, place): f"{edge.tail}->{edge.head} {edge.kind}"
            for edge in picture.edges
            if edge.kind != "loop"
            for op, place, _ in edge.reads
        }
        members = Look(structure, options).folded.members
        self.first = {op.id: first for first, every in members.items() for op in every}  # which is drawn for the op

        self.arrays: list[list[Any]] = []
        self.array_ids: dict[Any, int] = {}
        self.held: list[Any] = []  # keeps the objects alive, so that no id is used twice
        self.texts: dict[str, int] = {}
        self.leaves: dict[str, Node] = {}
        self.gifts: dict[str, list[Contribution]] = {}  # by value
        for i, (op, step) in enumerate(self.turns):
            for place, (value, source, left) in enumerate(zip(op.inputs, sources(self.nodes[op.id]), step.left)):
                if value is not None and left is not None:
                    self.gifts.setdefault(value, []).append(Contribution(i, place, left))
                    if value not in self.makers or self.makers[value].step is None:
                        self.leaves[value] = source

    def _check(self) -> None:
        if not self.turns:
            raise ValueError(
                "player: no backward pass went through this graph; compute within tt.record() and call backward() on "
                "a result, then make the film"
            )
        if len({step.number for _, step in self.turns}) < len(self.turns):
            raise ValueError(
                "player: several backward passes went through this graph, and a film shows one; record each with its "
                "own tt.record()"
            )

    def data(self) -> dict[str, Any]:
        """The data that the page shows."""
        ops = [op for op in self.ops.values() if self._vertex(op) is not None and self.nodes[op.id].traced]
        places = {op.id: i for i, op in enumerate(ops)}
        return {
            "ops": [self._op(op) for op in ops],
            "steps": [self._step(op, step) | {"op": places[op.id]} for op, step in self.turns],
            "leaves": [self._leaf(value, node) for value, node in self.leaves.items()],
            "arrays": self.arrays,
            "texts": list(self.texts),
        }

    # ---- an op, as it was computed

    def _op(self, op: Op) -> dict[str, Any]:
        node = self.nodes[op.id]
        vertex = self._vertex(op)
        name = self.values[op.output].name
        inside = self.shapes[vertex] if vertex != op.id and vertex in self.shapes else None
        return {
            "name": op.name,
            "title": f"{cut(name, 40)} = {op.name}" if name else op.name,
            "module": ".".join(self.scopes[op.scope].path) if op.scope is not None else "",
            "line": (op.origin or "").partition(", module ")[0],
            "detail": typeset(op.detail),
            "vertex": vertex,
            "inside": inside.name or inside.title if inside else "",
            "inputs": self._inputs_read(op, node),
            "result": self._array(node.values[-1], node),
            "edges": [e for e in [self._edge(op, i) for i in range(len(op.inputs))] if e],
        }

    def _vertex(self, op: Op) -> str | None:
        return self.drawn.get(self.first.get(op.id, op.id))

    def _edge(self, op: Op, place: int) -> str | None:
        """The key by which the page finds the edge of an input; None if that edge is not drawn."""
        return self.ways.get((self.first.get(op.id, op.id), place))

    def _input_name(self, op: Op, place: int) -> str:
        record = self.nodes[op.id].op
        return f"{record.inputs[0]}[{place}]" if record.variadic else record.inputs[place]

    def _named(self, value: str) -> str:
        """The name of an array, or its origin."""
        found = self.values[value]
        if found.name:
            return cut(found.name, 40)
        maker = self.makers.get(value)
        return found.kind if maker is None else f"result of {maker.name}"

    # ---- a step

    def _step(self, op: Op, step: Step) -> dict[str, Any]:
        node = self.nodes[op.id]
        gifts = self.gifts.get(op.output, [])
        rules = [
            self._rule(op, place, left, step.given[place])
            for place, left in enumerate(step.left)
            if left is not None and op.inputs[place] is not None
        ]
        start = not gifts and step.number == 1
        note = ""
        if start:
            note = "The pass begins here, with the gradient that backward() was given (1 unless told otherwise)."
        elif node.hooks:
            note = "A hook of this Tensor saw the gradient, and may have changed it."
        elif not gifts or not _adds_up(gifts, step.arrived):
            note = "A part of it comes from ops that are not in this graph, or was given to backward()."
        elif len(gifts) > 1:
            note = f"{len(gifts)} paths join here, so their gradients are added."
        shown = {
            "of": cut(self.values[op.output].name, 40) or "out",
            "arrived": self._statistics(step.arrived),
            "terms": [self._term(gift) for gift in gifts],
            "note": note,
            "rules": rules,
        }
        ends = [f"{self._vertex(op)}->{v} data" for v in self.shapes if start and v.startswith("r")]
        if ends:
            shown["ends"] = ends
        if op.fused:
            shown["fused"] = [typeset(op.formula), self._text(function_text(node.op.function))]
            shown["reads"] = self._inputs_read(op, node)
        return shown

    def _term(self, gift: Contribution) -> list[Any]:
        giver, _ = self.turns[gift.step]
        return [gift.step, self._input_name(giver, gift.place), self._statistics(gift.gradient)]

    def _rule(self, op: Op, place: int, left: Statistics, given: tuple[int, ...] | None) -> dict[str, Any]:
        node, value = self.nodes[op.id], op.inputs[place]
        assert value is not None
        target = self.values[value]
        shown: dict[str, Any] = {
            "input": self._input_name(op, place),
            "to": self._named(value),
            "kind": target.kind,
            "left": self._statistics(left),
            "edge": self._edge(op, place),
            "vertex": self._vertex(self.makers[value]) if value in self.makers else value,
        }
        if value in self.makers and self.makers[value].id in self.turn:
            shown["next"] = self.turn[self.makers[value].id]
        if given is not None and given != target.shape:
            axes = ", ".join(map(str, stretched(given, target.shape)))
            why = f"along which {shown['input']} was broadcast"
            shown["summed"] = f"the rule gave shape {shape_text(given)}, summed over axis {axes}, {why}"
        if op.fused:
            shown["formula"] = gradients_of(node.op.function).get(shown["input"], "")
        else:
            rule, reads = node.op.rules[node.op.inputs[0 if node.op.variadic else place]]
            text = rule_text(rule)
            code = text.formula or f"the rule of {op.name} (its source is not at hand)"
            short = mathematics(text.formula) or in_words(rule)
            shown["formula"] = short or code
            shown["source"] = self._text("\n\n".join(filter(None, (code if short else "", text.source))))
            shown["reads"] = [self._read(name, node, place, target) for name in reads if name not in ("xp", "g")]
        return shown

    def _read(self, name: str, node: Any, place: int, target: Value) -> list[Any]:
        """The row for a name that a rule reads: the name, a word about it, and its array if it has one."""
        record = node.op
        if name == "out":
            return ["out", "the result", self._array(node.values[-1], node)]
        if name == "shape":
            return ["shape", str(tuple(target.shape)), None]
        if name == "index":
            return ["index", str(place), None]
        if name in record.params:
            value = node.params.get(name, record.defaults.get(name))
            return [name, short(value), None]
        if record.variadic:
            return [name, ", ".join(shape_text(tuple(a.shape)) for a in node.values[:-1]), None]
        value = node.values[record.inputs.index(name)]
        if not hasattr(value, "dtype"):
            return [name, short(value), None]
        source = node.sources[record.inputs.index(name)]
        return [name, cut(getattr(source, "variable", ""), 40), self._array(value, node)]

    def _inputs_read(self, op: Op, node: Any) -> list[list[Any]]:
        return [
            [self._input_name(op, i), self._named(value), self._array(node.values[i], node)]
            for i, value in enumerate(op.inputs[: len(node.values) - 1])
            if value is not None
        ]

    # ---- the end

    def _leaf(self, value: str, node: Node) -> dict[str, Any]:
        """The data of a Tensor where gradients end, with every gradient that reached it."""
        gifts = self.gifts[value]
        gradient = node.grad
        note, total = "", _total(gifts)
        if gradient is not None:
            total = Statistics.of(gradient._data)
            if not _adds_up(gifts, total):
                note = ".grad also holds what earlier backward passes put there, or a hook changed it."
        return {
            "name": self._named(value),
            "kind": self.values[value].kind,
            "shape": shape_text(self.values[value].shape),
            "vertex": value,
            "gradient": None if total is None else self._statistics(total),
            "terms": [self._term(gift) for gift in gifts],
            "note": note,
        }

    # ---- arrays and texts, each once

    def _array(self, array: Any, node: Any) -> int:
        """The place of an array of the forward pass among `arrays`."""
        then = next((s for v, s in zip(node.values, node.seen) if v is array and s is not None), None)
        array = array if then is None else then  # as it was computed with, whatever wrote it later
        key = id(array) if then is None else (then.dtype.char, then.shape, for_array(then).to_numpy(then).tobytes())
        known = self.array_ids.get(key)
        if known is None:
            self.held.append(array)
            changed = then is None and written_since(node.renewed or node.serial, (array,)) is not None
            known = self.array_ids[key] = len(self.arrays)
            caption, *shown = _show(Statistics.of(array), array)
            self.arrays.append([caption + ", changed in place since" * changed, *shown])
        return known

    def _statistics(self, statistics: Statistics) -> int:
        known = self.array_ids.get(id(statistics))
        if known is None:
            self.held.append(statistics)
            known = self.array_ids[id(statistics)] = len(self.arrays)
            self.arrays.append(_show(statistics))
        return known

    def _text(self, text: str) -> int | None:
        if not text:
            return None
        return self.texts.setdefault(text, len(self.texts))


# ---- sums


def _total(gifts: list[Contribution]) -> Statistics | None:
    """The sum of the contributions; None if there are several and some have no numbers."""
    if len(gifts) == 1:
        return gifts[0].gradient
    if any(gift.gradient.numbers is None for gift in gifts):
        return None
    return Statistics.of(np.sum([np.asarray(gift.gradient.numbers, dtype=np.float64) for gift in gifts], axis=0))


def _adds_up(gifts: list[Contribution], total: Statistics) -> bool:
    """True if a gradient is the sum of its contributions, or if they cannot be summed or are not finite."""
    found = _total(gifts)
    if found is None or not found.finite:
        return True
    if found.numbers is None:
        return math.isclose(found.norm, total.norm, rel_tol=1e-3)
    size = max(gift.gradient.norm for gift in gifts)
    return bool(np.allclose(found.numbers, total.numbers, rtol=0, atol=2e-3 * size))


# ---- numbers as text

ROW = 8
"""Vectors take rows of this many numbers."""

WIDE = 6
"""Rows with more numbers than this have narrower gaps."""


def _show(statistics: Statistics, array: Any = None) -> list[Any]:
    """A caption, the numbers with a tint for each; for a large array, statistics and a map of tints."""
    caption = shape_text(statistics.shape)
    if statistics.numbers is not None:
        return [caption, _numbers(statistics.numbers, statistics.shape), _tints(np.asarray(statistics.numbers))]
    names = {"norm": "norm", "min": "minimum", "max": "maximum", "mean": "mean"}
    texts = _aligned([[_digits(getattr(statistics, name))] for name in names.values()])
    lines = [f"{name:<4}  {text}" for name, text in zip(names, texts)]
    return [caption + ("" if statistics.finite else ", not finite"), "\n".join(lines), *_small_map(array)]


STEPS = 9
"""The number of shades for each sign."""


def _tints(x: np.ndarray) -> list[int]:
    """Each number relative to the largest magnitude, from -9 to 9; empty for non-floats, zeros and infinities."""
    largest = np.abs(x).max(initial=0.0) if x.dtype.kind == "f" else 0.0
    return np.rint(x.ravel() / largest * STEPS).astype(int).tolist() if 0 < largest < math.inf else []


def _small_map(array: Any) -> list[Any]:
    """An array of two or more dimensions as a map of at most 16 x 16 cells; each cell is the mean of a part."""
    if array is None or array.ndim < 2 or array.dtype.kind != "f":
        return []
    x = np.asarray(for_array(array).to_numpy(array), dtype=np.float64).reshape(-1, array.shape[-1])
    for axis in (0, 1):
        starts = np.unique(np.linspace(0, x.shape[axis], min(x.shape[axis], MAP) + 1).astype(int)[:-1])
        counts = np.diff([*starts, x.shape[axis]])
        x = np.add.reduceat(x, starts, axis=axis) / np.expand_dims(counts, 1 - axis)
    return [_tints(x), x.shape[1]]


MAP = 16


def _numbers(numbers: Any, shape: tuple[int, ...]) -> str:
    """Numbers in rows and columns, with aligned decimal points; an array of matrices as one after the other."""
    if 0 in shape:
        return "no elements"
    flat = [_digits(x) for x in np.asarray(numbers, dtype=object).ravel()]
    if len(shape) < 2:
        return "\n".join(_aligned([flat[i : i + ROW] for i in range(0, len(flat), ROW)]))
    columns, size = shape[-1], shape[-1] * shape[-2]
    lines = _aligned([flat[i : i + columns] for i in range(0, len(flat), columns)])
    rows = size // columns
    parts = []
    for i, index in enumerate(np.ndindex(shape[:-2])):
        heading = [f"[{', '.join(map(str, index))}]"] if len(shape) > 2 else []
        parts.append("\n".join(heading + lines[i * rows : (i + 1) * rows]))
    return "\n".join(parts)


def _digits(x: Any) -> str:
    """A number in at most four significant digits, 5.8e-4; integers whole."""
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int):
        return str(x)
    text = re.sub(r"e([+-])0*(\d+)", lambda match: f"e{match[1].replace('+', '')}{match[2]}", f"{x:.4g}")
    return "0" if text == "-0" else text


def _aligned(rows: Iterable[list[str]]) -> list[str]:
    """Rows of numbers as lines, with the decimal points of each column aligned."""
    split = [[(whole, dot + part) for whole, dot, part in (text.partition(".") for text in row)] for row in rows]
    widths: list[tuple[int, int]] = []
    for column in range(max(map(len, split), default=0)):
        cells = [row[column] for row in split if column < len(row)]
        widths.append((max(len(whole) for whole, _ in cells), max(len(part) for _, part in cells)))
    gap = " " if len(widths) > WIDE else "  "
    return [
        gap.join(whole.rjust(left) + part.ljust(right) for (whole, part), (left, right) in zip(row, widths)).rstrip()
        for row in split
    ]


BODY = """\
<header>
<h1>{title}</h1>
<fieldset aria-label="Which pass">
<label><input type="radio" name="part" value="forward"> forward</label>
<label><input type="radio" name="part" value="backward" checked> backward</label>
</fieldset>
<div class="buttons">
<button id="first" aria-label="First step" title="First step (Home)">|◀&#xFE0E;</button>
<button id="back" aria-label="Step back" title="Step back (Arrow left)">◀&#xFE0E;</button>
<button id="play" aria-label="Play" title="Play or pause (Space)">▶&#xFE0E; play</button>
<button id="next" aria-label="Step forward" title="Step forward (Arrow right)">▶&#xFE0E;</button>
<button id="last" aria-label="Last step" title="Last step (End)">▶&#xFE0E;|</button>
</div>
<input id="slider" type="range" min="1" value="1" aria-label="Step">
<output id="count"></output>
<label>Speed <select id="speed">
<option value="0.5">half</option><option value="1" selected>normal</option><option value="2">double</option>
<option value="5">fast</option></select></label>
<label><input id="fit" type="checkbox"> whole graph</label>
</header>
<main>
<section id="graph" aria-label="The graph" tabindex="0">{picture}</section>
<section id="panel" aria-label="This step" tabindex="0"></section>
</main>
<footer>
<span class="key now">this op</span> <span class="key in">gradient that arrives</span>
<span class="key out">gradient that leaves</span> <span class="key done">passed before</span>
<span class="help">Space plays, arrow keys step, Home and End jump; click an op to go to it.</span>
</footer>
<noscript><p>The film needs JavaScript: each step of the backward pass shows its op, the gradient that arrives, the
rules with their numbers, and what leaves. Without it the picture of the graph is all there is.</p></noscript>
<p id="say" role="status"></p>"""
