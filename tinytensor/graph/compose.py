"""From a `Structure` to a `Picture`: the vertices that show its ops and values, and the edges between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from . import heat as heating
from .build import FEW
from .cost import MOVEMENT
from .describe import describe
from .fold import Loop, fold, unfolded, unrolled
from .options import Options
from .picture import Box, Edge, EdgeKind, Picture, Vertex, VertexKind
from .plan import main_ops, plan, residuals
from .short_text import MINUS, bytes_text, count_text, numbers_text, plural, shape_text
from .structure import Op, Scope, Structure, Value
from .words import Speaker, Words, role

COMMUTATIVE = frozenset({
    "add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "hypot", "logaddexp",
})  # fmt: skip
"""Ops whose result does not depend on the order of their inputs."""

OPERANDS = {"x1": "left", "x2": "right"}
"""Labels for inputs of ops whose own names say nothing."""

PROJECTED = {1: ("Q, K, V", "", ""), 2: ("Q", "K, V", ""), 3: ("Q", "K", "V")}
"""The contents of the inputs of a fused multi-head op, by the number of different inputs."""

SMALL = 40
"""A graph of at most this many ops shows the numbers of its small arrays."""

MANY = 2000
"""A picture with more vertices than this is drawn only if the user insists."""

COLUMN = 900
"""Graphs that would be wider than this many pixels are drawn from top to bottom, unless the options say otherwise.
Notebooks and pages show this width at full size."""


def look(
    structure: Structure,
    options: Options,
    title: str | None,
    failed: str | None = None,
    ran: int | None = None,
    misfits: Mapping[tuple[int, ...], str] | None = None,
) -> Picture:
    """The picture of a structure.

    Args:
        failed: the id of the op that an error is about.
        ran: how many ops ran, if the structure has formulas in place of some.
        misfits: the text of each shape that has axes that do not fit.

    Raises ValueError if it would have more than 2,000 vertices and `options.large` is off, or if the heat asked for was
    not measured.
    """
    return _Look(structure, options, failed, misfits or {}).picture(title, ran)


def _within(name: str, path: tuple[str, ...]) -> str:
    """A parameter's name without the part that the box around it shows, wherever the recording began."""
    for start in range(1, len(path)):
        inner = ".".join([*path[start:], ""])
        if name.startswith(inner) or f".{inner}" in name:
            return name.partition(inner)[2]
    return name


def _is_chain(group: list[Op]) -> bool:
    """True if a vertex shows several ops that only move numbers."""
    return len(group) > 1 and all(op.name in MOVEMENT for op in group)


def _from_to(first: str, last: str) -> str:
    return first if first == last else " … ".join(filter(None, (first, last)))


class _Look:
    def __init__(
        self, structure: Structure, options: Options, failed: str | None, misfits: Mapping[tuple[int, ...], str]
    ) -> None:
        self.options = options
        self.failed, self.misfits = failed, misfits
        folding = unrolled if options.unroll else fold if options.fold else unfolded
        self.folded = folding(structure)
        self.structure = structure = self.folded.whole
        self.shown = self.folded.structure
        self.plan = plan(self.shown, options, self.folded.turns, failed)
        self.speaker = Speaker(structure)
        self.around = residuals(structure)
        self.scopes = {scope.id: scope for scope in (*structure.scopes, *self.shown.scopes)}  # shown ones override
        self.values = {value.id: value for value in structure.values}
        self.several: set[str] = set()  # arrays that represent others with other numbers
        for members in self.folded.members.values():
            self._note_several(members)
        self.originals = {op.id: op for op in structure.ops}
        self.every = list(structure.ops) if options.constants else main_ops(structure)  # the folded ones too
        self.inside: dict[str, list[Op]] = {scope.id: [] for scope in structure.scopes}
        for op in self.every:
            place = op.scope
            while place is not None:
                self.inside[place].append(op)
                place = self.scopes[place].parent
        self.makers = {op.output: op for op in self.plan.ops}
        self.groups: dict[str, list[Op]] = {}  # by vertex
        self.readers: dict[str, list[Op]] = {}  # by value
        for op in self.plan.ops:
            self.groups.setdefault(self.plan.drawn[op.id], []).append(op)
            for value in op.inputs:
                if value is not None:
                    self.readers.setdefault(value, []).append(op)
        self.vertices: dict[str, Vertex] = {}
        self.mirrored: set[str] = set()  # boxes that have a box of gradients beside them
        self.edges: dict[tuple[str, str, str, EdgeKind], Edge] = {}

    def _note_several(self, members: list[Op]) -> None:
        """Name the result of ops drawn once after the last one's, which others read; note arrays that differ."""
        first, last = members[0], members[-1]
        made = self.values[first.output]
        self.values[first.output] = dataclasses.replace(made, name=self.values[last.output].name)
        pairs = zip(first.inputs, last.inputs)
        self.several |= {v for v, w in pairs if v is not None and v != w and self.values[v].maker is None}

    def picture(self, title: str | None, ran: int | None) -> Picture:
        for op in self.plan.ops:
            self._add(op)
        drawn = [output for output in self.shown.outputs if output in self.makers]
        for i, output in enumerate(drawn):
            self._add_output(i, self.values[output], len(drawn))
        for loop in self.folded.loops:
            self._add_loop(loop)
        if self.options.backward:
            self._add_gradients()
        if len(self.vertices) > MANY and not self.options.large:
            raise ValueError(
                f"draw: the picture would have {len(self.vertices):,} vertices, more than anyone can read; close "
                "modules (a smaller depth, or collapse), or pass large=True"
            )
        vertices = list(self.vertices.values())
        numbers = [v.heat for v in vertices]
        options = self.options
        scale = heating.scale(options.heat, numbers) if options.heat else None
        notes = (*([self._saved_note()] if options.saved else []), *self._heat_notes(numbers))
        direction = options.direction or ("TB" if self._width() > COLUMN and not options.unroll else "LR")
        description = describe(self.structure, self.every, self.folded.labels, self.around, ran)
        edges = tuple(self.edges.values())
        return Picture(
            tuple(vertices), edges, self._boxes(), direction, title or "Computation graph", description, scale, notes,
            self._levels(), options.legend, options.apart,
        )  # fmt: skip

    def _levels(self) -> tuple[tuple[str, ...], ...]:
        """Vertices to draw side by side: inputs at the start of the computation (not later ones), and their readers."""
        if self.options.unroll:
            return self._columns()
        computed = {edge.head for edge in self.edges.values() if edge.kind == "data" and edge.tail in self.groups}
        late = {edge.tail for edge in self.edges.values() if edge.kind == "data" and edge.head in computed}
        first = [v.id for v in self.vertices.values() if v.kind == "input" and v.id not in late]
        readers = [e.head for e in self.edges.values() if e.tail in first]
        return tuple(tuple(dict.fromkeys(level)) for level in (first, readers) if len(first) > 1 and len(readers) > 1)

    def _columns(self) -> tuple[tuple[str, ...], ...]:
        """For time from left to right: pairs of a step of the input and its reader."""
        return tuple((e.tail, e.head) for e in self.edges.values() if self._is_step(e.tail))

    def _is_step(self, place: str) -> bool:
        """True if a vertex is a turn's slice of the input, x[:, t], which has a vertex of its own."""
        return place in self.folded.slices

    # ---- ops and modules

    def _add(self, op: Op) -> None:
        place = self.plan.drawn[op.id]
        if op.id in self.plan.turned:
            return
        inputs = [self._unturned(value) for value in op.inputs if value is not None]
        incoming = [] if self._is_step(place) else [(value, self._tail(value, op)) for value in inputs]
        if self._is_step(place) and place not in self.vertices:
            self.vertices[place] = dataclasses.replace(self._op(place), kind="input", name="")
        elif place not in self.vertices:
            self.vertices[place] = self._module(self.scopes[place]) if place in self.scopes else self._op(place)
        operands = self._operands(op, place, incoming)
        for value, tail in incoming:
            if tail is None or tail == place:
                continue
            closed = place != op.id and op.id not in self.plan.joined  # then the picture hides what it goes around
            kind: EdgeKind = "residual" if self.around.get(op.id) == value and not closed else "data"
            self._connect(tail, place, self.values[value], kind, operands.get(value, ""))

    def _operands(self, op: Op, place: str, incoming: list[tuple[str, str | None]]) -> dict[str, str]:
        """The names that the vertex at `place` has for its inputs, if it reads several and their order matters."""
        if place in self.scopes:
            given = list(self.scopes[place].arguments)
        elif op.name in COMMUTATIVE or op.id != place or self.vertices[place].mathematics:
            return {}  # also for chains of movement, for guards, and if the vertex itself shows the operands, as Q Kᵀ
        else:
            names = [OPERANDS.get(name, name) for name in op.operands]
            if op.name == "multi_head":
                names[:3] = PROJECTED[sum(value is not None for value in op.inputs[:3])]
            given = [(name, self._unturned(value)) for name, value in zip(names, op.inputs) if value is not None]
        tails = dict(incoming)
        called: dict[str, list[str]] = {}
        for name, value in given:
            tail = self.vertices.get(tails.get(value) or "")
            if not self.values[value].mask and (tail is None or tail.kind != "parameter"):
                called.setdefault(value, []).append(name)
        if sum(map(len, called.values())) < 2 or any("arrays" in names for names in called.values()):
            return {}
        return {value: ", ".join(names) for value, names in called.items()}

    def _unturned(self, value: str) -> str:
        """The matrix behind a transpose that is written in the product that reads it; else the value itself."""
        maker = self.makers.get(value)
        return str(maker.inputs[0]) if maker is not None and maker.id in self.plan.turned else value

    def _tail(self, value: str, reader: Op) -> str | None:
        """The vertex that a value leaves; None if it is a detail of a closed module."""
        maker = self.makers.get(value)
        return self.plan.drawn[maker.id] if maker is not None else self._leaf(self.values[value], reader)

    def _op(self, place: str) -> Vertex:
        """The vertex of an op with its guards, or of a chain of ops that only move numbers."""
        group = self.groups[place]
        op = next(o for o in group if o.id == place)
        value = self.values[group[-1].output]
        name = value.name if value.id not in self.shown.outputs else ""
        words = self._words_of(group, op)
        lines = [words.detail] if words.detail else []
        if op.id == self.failed:
            shapes = [self.values[v].shape for v in op.inputs if v is not None]
            lines = ["on " + " and ".join(self.misfits.get(shape, shape_text(shape)) for shape in shapes)]
        if op.id in self.around:
            lines.append("residual")
        lines.extend(self._heat_lines(group))
        mathematics = "" if op.id == self.failed else words.title
        numbers = () if op.id in self.folded.members else self._numbers(value, name)  # one of several has its own
        return Vertex(
            op.id, "op", "rearrange" if _is_chain(group) else op.name, name, (*lines, *self._saved_lines(group)),
            value.shape, value.dtype, self._box(op.scope), ". ".join(self._words(o) for o in group), self._heat(group),
            failed=any(o.id == self.failed for o in group), mathematics=mathematics, numbers=numbers,
        )  # fmt: skip

    def _words_of(self, group: list[Op], op: Op) -> Words:
        """The details of a vertex; if it shows several ops that differ in them, those of the first and the last."""
        if _is_chain(group):
            return self.speaker.chain(group)
        if any(o.name == "subtract" for o in group[:-1]) and op.name == "exp":
            return Words("", f"x {MINUS} max x")
        every = self.folded.members.get(op.id, [self.originals[op.id]])
        first, last = self.speaker.words(every[0]), self.speaker.words(every[-1])
        if first == last:
            return first
        return Words(_from_to(first.title, last.title), _from_to(first.detail, last.detail))

    def _numbers(self, value: Value, name: str) -> tuple[str, ...]:
        """The numbers of a small array and its gradient, if the graph is small too."""
        hidden = self.options.heat is not None or value.id in self.several
        if len(self.structure.ops) > SMALL or hidden or not value.numbers:
            return ()
        gradient = value.gradient.numbers if value.gradient is not None and not self.options.backward else None
        rows = [f"= {value.numbers}"]
        if gradient is not None:
            rows.append(f"∂L/∂{name or 'out'} = {numbers_text(gradient)}")
        return tuple(rows)

    def _module(self, scope: Scope) -> Vertex:
        group, inside = self.groups[scope.id], self.inside[scope.id]
        last = self.values[group[-1].output]
        parameters = {v: self.values[v] for op in inside for v in op.inputs if v and self.values[v].owned}
        count = sum(math.prod(v.shape) for v in parameters.values())
        around = sum(op.id in self.around for op in inside)
        formula = scope.kind == "formula"
        lines = []
        if count:
            each = " each" if scope.id in self.folded.labels and scope.id not in self.folded.again else ""
            lines.append(f"{count_text(count)} parameters{each}")
        if around:
            lines.append(plural(around, "residual connection"))
        label = self.folded.labels.get(scope.id)
        if label:
            lines.append(label)
        lines.extend(self._heat_lines(group))
        title = scope.name if formula or scope.kind == "stage" else scope.kind
        name = "" if title == scope.name else self._names(scope)
        if any(op.id in self.plan.joined and op.id in self.around for op in group):
            title = "Add & Norm"
        words = (
            f"{'formula' if formula else 'module'} {'.'.join(scope.path)} ({scope.kind}): {plural(len(inside), 'op')}, "
            f"{count:,} parameters, result {shape_text(last.shape)} {last.dtype}"
        )
        return Vertex(
            scope.id, "module", title, name, (*lines, *self._saved_lines(group)), last.shape, last.dtype,
            self._box(scope.parent), words, self._heat(group), failed=any(op.id == self.failed for op in group),
        )  # fmt: skip

    def _words(self, op: Op) -> str:
        value = self.values[op.output]
        parts = [f"{value.name} = {op.name}" if value.name else op.name, op.detail]
        parts.append(f"{shape_text(value.shape)} {value.dtype}")
        parts.extend(f"keeps {bytes_text(kept.nbytes)}: {kept.why}" for kept in op.saved)
        if op.step is not None:
            parts.append(f"gradient norm {op.step.arrived.norm:.4g}")
        parts.append(op.origin or "")
        return "; ".join(part for part in parts if part)

    def _heat(self, ops: list[Op]) -> float | None:
        if self.options.heat is None:
            return None
        every = [member for op in ops for member in self.folded.members.get(op.id, [op])]
        return heating.of_ops(self.options.heat, every, self.values)

    def _heat_lines(self, ops: list[Op]) -> list[str]:
        """The measurement, and its share of the whole."""
        number, kind = self._heat(ops), self.options.heat
        if number is None or kind is None:
            return []
        text = heating.KINDS[kind][1](number)
        if kind == "grad":
            return [f"norm {text}"]
        together = max(len(self.folded.members.get(op.id, ())) for op in ops)
        whole = heating.of_ops(kind, list(self.structure.ops), self.values)
        share = f"{number / whole:.0%} · ".replace("%", " %") if whole else ""
        return [f"{share}{text}" + (f", all {together} together" if together > 1 else "")]

    def _heat_notes(self, numbers: list[float | None]) -> tuple[str, ...]:
        """The share of the whole that went into masks and checks, which no vertex shows."""
        kind = self.options.heat
        if kind is None or kind == "grad":
            return ()
        whole = heating.of_ops(kind, list(self.structure.ops), self.values) or 0.0
        rest = whole - math.fsum(n for n in numbers if n is not None)
        if rest < whole / 200:
            return ()
        share = f"{rest / whole:.0%}".replace("%", " %")
        return (f"{share} ({heating.KINDS[kind][1](rest)}) in masks and checks, which constants=True draws",)

    def _saved_lines(self, ops: list[Op]) -> list[str]:
        if not self.options.saved:
            return []
        kept = self._kept([member for op in ops for member in self.folded.members.get(op.id, [op])])
        if not kept:
            return []
        ids = [saved.value for op in ops for saved in op.saved if saved.memory in kept and saved.value]
        names = [self.values[v].name for v in ids if self.values[v].name]
        who = f": {', '.join(dict.fromkeys(names))}" if names and len(ops) == 1 else ""
        return [f"keeps {bytes_text(sum(kept.values()))}{who}"]

    def _kept(self, ops: list[Op]) -> dict[str, int]:
        """The bytes that ops keep, once for each memory. Parameters exist anyway, so they do not count."""
        found: dict[str, int] = {}
        for op in ops:
            for saved in op.saved:
                if not saved.value or self.values[saved.value].kind != "parameter":
                    found[saved.memory] = max(found.get(saved.memory, 0), saved.nbytes)
        return found

    def _saved_note(self) -> str:
        kept = self._kept(list(self.structure.ops))
        return f"kept until the backward pass: {bytes_text(sum(kept.values()))} in {plural(len(kept), 'array')}"

    # ---- arrays from outside, and results

    def _leaf(self, value: Value, reader: Op) -> str | None:
        kind: VertexKind = "input"
        if value.mask:
            kind = "mask"
        elif value.kind == "parameter":
            kind = "parameter"
        elif not value.dtype.startswith(("int", "uint")) and (value.kind == "result" or not value.name):
            kind = "constant"
        if self.plan.drawn[reader.id] != reader.id and (
            kind == "constant" or (kind == "parameter" and (value.owned or self.options.unroll))
        ):
            return None
        if value.id not in self.vertices:
            box = None if kind == "input" else self._common_box(value.id)
            name = value.name or (f"{value.mask} mask" if value.mask else self._role(value.id, reader) or kind)
            if box is not None:
                module = self.scopes[box]
                while module.kind == "formula" and module.parent is not None:
                    module = self.scopes[module.parent]
                name = _within(name, module.path)
            lines = (value.mask,) if value.mask not in name else ()
            words = f"{kind} {name}, {shape_text(value.shape)} {value.dtype}"
            gradient = value.gradient
            if gradient is not None:
                words += f"; gradient norm {gradient.norm:.4g}"
            hot = gradient.norm if gradient is not None and self.options.heat == "grad" else None
            self.vertices[value.id] = Vertex(
                value.id, kind, name, "", lines, value.shape, value.dtype, box, words, hot, value.pattern,
                numbers=self._numbers(value, name),
            )  # fmt: skip
        return value.id

    def _role(self, value: str, reader: Op) -> str:
        """The name that an array has in the op or module that reads it; "" if it says nothing."""
        taken = {v.title for v in self.vertices.values() if v.kind == "input"} | {
            self.values[v].name for v in self.readers
        }
        closed, around = (self.scopes.get(place or "") for place in (self.plan.drawn[reader.id], reader.scope))
        return role(value, reader, closed, around, taken)

    def _add_output(self, number: int, value: Value, count: int) -> None:
        maker = self.makers[value.id]
        if maker.id == self.failed:
            return
        name = value.name or ("output" if count == 1 else f"output {number + 1}")
        place = f"r{number + 1}"
        words = f"output {name}, {shape_text(value.shape)} {value.dtype}"
        numbers = self._numbers(value, "")[:1] if not value.name else ()  # the op shows those of a named result
        self.vertices[place] = Vertex(
            place, "output", name, "", (), value.shape, value.dtype, None, words, numbers=numbers
        )
        self._connect(self.plan.drawn[maker.id], place, value)

    def _connect(self, tail: str, head: str, value: Value, kind: EdgeKind = "data", operand: str = "") -> None:
        label = shape_text(value.shape) if value.shape else ""
        known = self.edges.get((tail, head, label, kind))
        if known is None or operand not in known.operand:
            both = ", ".join(name for name in (known.operand if known else "", operand) if name)
            self.edges[tail, head, label, kind] = Edge(tail, head, label, kind, both)

    def _add_loop(self, loop: Loop) -> None:
        """Add the arrow from the result of one turn to its reader in the next turn."""
        maker = self.makers.get(loop.value)
        if maker is not None and loop.reader in self.plan.drawn:
            tail, head = self.plan.drawn[maker.id], self.plan.drawn[loop.reader]
            given = self.scopes[head].arguments if head in self.scopes else ()
            argument = next((word for word, value in given if value == loop.at_first), "")
            label = ", ".join(filter(None, (self.values[loop.value].name or argument, self.folded.labels[loop.scope])))
            self.edges[tail, head, label, "loop"] = Edge(tail, head, label, "loop")

    # ---- boxes

    def _box(self, scope: str | None) -> str | None:
        while scope is not None and scope not in self.plan.open:
            scope = self.scopes[scope].parent
        return scope

    def _common_box(self, value: str) -> str | None:
        """The innermost open box around all readers of a value."""
        paths = []
        for op in self.readers[value]:
            path, box = [], self._box(op.scope)
            while box is not None:
                path.append(box)
                box = self._box(self.scopes[box].parent)
            paths.append(path[::-1])
        shared = None
        for together in zip(*paths):
            if len(set(together)) > 1:
                break
            shared = together[0]
        return shared

    def _names(self, scope: Scope) -> str:
        first, last = self.folded.names.get(scope.id, (scope.name, scope.name))
        return first if first == last else " … ".join(filter(None, (first, last)))

    def _boxes(self) -> tuple[Box, ...]:
        boxes = [
            Box(s.id, self._names(s), s.kind, self._box(s.parent), s.path, self.folded.labels.get(s.id, ""))
            for s in self.shown.scopes
            if s.id in self.plan.open
        ]
        gradients = [
            dataclasses.replace(box, id=f"g{box.id}", name=f"∇ {box.name}", parent=box.parent and f"g{box.parent}")
            for box in boxes
            if box.id in self.mirrored
        ]
        return (*boxes, *gradients)

    # ---- gradients

    def _add_gradients(self) -> None:
        """Add a gradient beside every vertex that gradients flow through, and the edges reversed."""
        mirrored: dict[str, str] = {}
        for vertex in list(self.vertices.values()):
            group = self.groups.get(vertex.id, [])
            value = self.values.get(vertex.id)
            if vertex.kind not in ("parameter", "output") and not any(op.differentiable for op in group):
                continue
            arrived = value.gradient if value is not None else None
            for op in group:
                arrived = op.step.arrived if op.step is not None else arrived
            title = f"∂L/∂{vertex.title}" if vertex.kind in ("parameter", "output") else f"∇ {vertex.title}"
            lines = (f"norm {arrived.norm:.3g}",) if arrived is not None else ()
            if arrived is not None and arrived.numbers is not None and math.prod(vertex.shape) <= FEW:
                lines = (f"= {numbers_text(arrived.numbers)}",)
            mirrored[vertex.id] = place = f"g{vertex.id}"
            words = f"gradient of {vertex.name or vertex.title}, {shape_text(vertex.shape)}"
            self.vertices[place] = Vertex(
                place,
                "gradient",
                title,
                vertex.name,
                lines,
                vertex.shape,
                vertex.dtype,
                self._mirrored(vertex.box),
                words,
            )
        for edge in list(self.edges.values()):
            if edge.tail in mirrored and edge.head in mirrored:
                tail, head = mirrored[edge.head], mirrored[edge.tail]
                self.edges[tail, head, edge.label, "gradient"] = Edge(tail, head, edge.label, "gradient")
        for origin, place in mirrored.items():
            if any(op.saved for op in self.groups.get(origin, ())):
                self.edges[origin, place, "", "uses"] = Edge(origin, place, "", "uses")

    def _mirrored(self, box: str | None) -> str | None:
        """The box for the gradients of the vertices in a box."""
        if box is None:
            return None
        self.mirrored.add(box)
        self._mirrored(self._box(self.scopes[box].parent))
        return f"g{box}"

    def _width(self) -> float:
        """Roughly how many pixels the picture takes from left to right: its longest path."""
        width = {
            v.id: 9 * max([len(v.title) + len(v.name), *(0.7 * len(x) for x in v.lines)]) + 30
            for v in self.vertices.values()
        }
        reach = dict(width)
        ahead: dict[str, list[Edge]] = {}
        waiting = dict.fromkeys(self.vertices, 0)
        for edge in self.edges.values():
            if edge.kind in ("data", "residual"):
                ahead.setdefault(edge.tail, []).append(edge)
                waiting[edge.head] += 1
        ready = [v for v, n in waiting.items() if not n]
        while ready:
            vertex = ready.pop()
            for edge in ahead.get(vertex, ()):
                reach[edge.head] = max(reach[edge.head], reach[vertex] + 7 * len(edge.label) + 40 + width[edge.head])
                waiting[edge.head] -= 1
                if not waiting[edge.head]:
                    ready.append(edge.head)
        return max(reach.values(), default=0)
