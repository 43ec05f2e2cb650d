"""From a `Structure` to a `Picture`: the vertices that show its ops and values, and the edges between them."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping

from . import heat as heating
from .build import FEW
from .calls import Index
from .cost import MOVEMENT
from .describe import describe
from .fold import Loop, fold, unfolded, unrolled
from .options import Options
from .picture import Box, Edge, EdgeKind, Picture, Vertex, VertexKind
from .plan import main_ops, plan, residuals
from .runs import COMMUTATIVE
from .short_text import MINUS, TIMES, bytes_text, count_text, numbers_text, plural, shape_text
from .structure import Op, Scope, Structure, Value, around
from .words import OPERANDS, Speaker, Words, role

BOTH = ("x1", "x2")
"""Operands of ops whose order matters; a parameter among them is not a weight, unless it follows a product."""

PROJECTED = {1: ("Q, K, V", "", ""), 2: ("Q", "K, V", ""), 3: ("Q", "K", "V")}
"""The contents of the inputs of a fused multi-head op, by the number of different inputs."""

SMALL = 40
"""A graph of at most this many ops shows the numbers of its small arrays."""

MANY = 2000
"""A picture with more vertices than this is drawn only if the user insists."""

COLUMN = 900
"""Graphs that would be wider than this many pixels are drawn from top to bottom, unless the options say otherwise.
Notebooks and pages show this width at full size."""


def _is_chain(group: list[Op]) -> bool:
    """True if a vertex shows several ops that only move numbers."""
    return len(group) > 1 and all(op.name in MOVEMENT for op in group)


def _from_to(first: str, last: str) -> str:
    return first if first == last else " … ".join(filter(None, (first, last)))


class Look:
    """One look at a structure; call `picture` once.

    Args:
        failed: the id of the op that an error is about.
        misfits: the text of each shape that has axes that do not fit.
    """

    def __init__(
        self,
        structure: Structure,
        options: Options,
        failed: str | None = None,
        misfits: Mapping[tuple[int, ...], str] | None = None,
    ) -> None:
        self.options = options
        self.failed, self.misfits = failed, misfits or {}
        folding = unrolled if options.unroll else fold if options.fold else unfolded
        self.folded = folding(structure)
        self.structure = structure = self.folded.whole
        self.shown = self.folded.structure
        self.plan = plan(self.folded, options, failed)
        self.residuals = residuals(structure)
        self.scopes = {scope.id: scope for scope in (*structure.scopes, *self.shown.scopes)}  # shown ones override
        self.values = {value.id: value for value in structure.values}
        for members in self.folded.members.values():  # others read the last one's result, so it has that one's name
            made, last = (self.values[op.output] for op in (members[0], members[-1]))
            self.values[made.id] = dataclasses.replace(made, name=last.name)
        self.several: dict[str, int] = {}  # arrays that represent others with other numbers, and how many
        self.together: dict[tuple[str, int], int] = {}  # places of ops that read the results of that many turns
        self.all_turns: dict[str, int] = {}  # results of that many turns
        self.names: Counter[str] = Counter()  # of inputs
        self.counted: dict[str, str] = {}  # parameters, and the vertex that counts them
        self._note_folds()
        self.originals = {op.id: op for op in structure.ops}
        self.every = list(structure.ops) if options.constants else main_ops(structure)  # the folded ones too
        self.inside: dict[str, list[Op]] = {scope.id: [] for scope in structure.scopes}
        for op in self.every:
            for place in around(op.scope, self.scopes):
                self.inside[place].append(op)
        index = Index(dataclasses.replace(self.shown, ops=tuple(self.plan.ops)))
        self.makers, self.readers = index.makers, index.readers
        self.speaker = Speaker(structure, self._call_parameters())
        self.groups: dict[str, list[Op]] = {}  # by vertex
        for op in self.plan.ops:
            self.groups.setdefault(self.plan.drawn[op.id], []).append(op)
        self.vertices: dict[str, Vertex] = {}
        self.mirrored: set[str] = set()  # boxes with a box of gradients next to them
        self.edges: dict[tuple[str, str, str, EdgeKind], Edge] = {}

    def _note_folds(self) -> None:
        for folded in self.folded.folds:
            for column in folded.run.columns.values():
                if column.rule == "own":
                    self.several[column.values[0]] = len(set(column.values))
            count, ends = len(folded.run.turns), folded.ends
            self.all_turns.update(dict.fromkeys(ends.results, count))
            self.together.update(((op, i), count) for op, places in ends.together.items() for i in places)
            alike = [ops[0] for ops in ends.one_each]
            self.together.update(((op.id, i), count) for op in alike for i, v in enumerate(op.inputs) if v is not None)

    def _call_parameters(self) -> dict[str, str]:
        """Names of parameters in formulas: the last part, or the full name if it is ambiguous in the box.

        Outside of boxes, the second of a name gets that of its module as well.
        """
        names: dict[str | None, dict[str, str]] = {}  # by box
        for value in [v for v in self.values.values() if v.kind == "parameter" and v.id in self.readers]:
            box = self._common_box(value.id)
            here = names.setdefault(box, {})
            if box is None and value.name in here.values() and value.module:
                value = self.values[value.id] = dataclasses.replace(value, name=f"{value.module}.{value.name}")
            here[value.id] = self._within(value.name, box)
        called: dict[str, str] = {}
        for here in names.values():
            ends = Counter(name.rpartition(".")[2] for name in here.values())
            called.update((v, name) for v, name in here.items() if ends[name.rpartition(".")[2]] > 1)
        columns = [column.values for folded in self.folded.folds for column in folded.run.columns.values()]
        return {other: called[every[0]] for every in columns if every[0] in called for other in every} | called

    def _within(self, name: str, box: str | None) -> str:
        """A parameter's name without the part that the box around it shows, wherever the recording began."""
        modules = [place for place in around(box, self.scopes) if self.scopes[place].kind not in ("formula", "stage")]
        path = self.scopes[modules[0]].path if modules else ()
        for start in range(1, len(path)):
            inner = ".".join([*path[start:], ""])
            if name.startswith(inner) or f".{inner}" in name:
                return name.partition(inner)[2]
        return name

    def picture(self, title: str | None = None, ran: int | None = None) -> Picture:
        """Return the picture; `ran` is the number of ops that ran, if formulas replace some of them.

        Raises ValueError if it would have more than 2,000 vertices and `options.large` is off, or if the heat asked for
        was not measured.
        """
        for op in self.plan.ops:
            self._add(op)
        drawn = [output for output in self.shown.outputs if output in self.makers]
        for i, output in enumerate(drawn):
            self._add_output(i, self.values[output], len(drawn))
        for op in self.plan.ops:
            if op.output not in self.readers and op.output not in drawn and op.id != self.failed:
                self._add_unread(self.values[op.output])
        self._name_results()
        for loop in self.folded.loops:
            self._add_loop(loop)
        if self.options.backward:
            self._add_gradients()
        if len(self.vertices) > MANY and not self.options.large:
            raise ValueError(
                f"draw: the picture would have {len(self.vertices):,} vertices, more than anyone can read; close "
                "modules (a smaller depth, or collapse), or pass large=True"
            )
        vertices = [
            dataclasses.replace(vertex, ops=tuple([op.id for op in self.groups.get(vertex.id, ())]))
            for vertex in self.vertices.values()
        ]
        numbers = [v.heat for v in vertices]
        options = self.options
        scale = heating.scale(options.heat, numbers) if options.heat else None
        notes = (*([self._saved_note()] if options.saved else []), *self._heat_notes(numbers))
        direction = options.direction or ("TB" if self._width() > COLUMN and not options.unroll else "LR")
        description = describe(self.structure, self.every, self.folded.labels, self.residuals, ran)
        edges = tuple(self.edges.values())
        return Picture(
            tuple(vertices), edges, self._boxes(), direction, title or "Computation graph", description, scale, notes,
            self._levels(), options.legend, options.apart,
        )  # fmt: skip

    def _levels(self) -> tuple[tuple[str, ...], ...]:
        """Vertices to draw side by side: inputs at the start of the computation (not later ones), and their readers."""
        if self.options.unroll:  # time from left to right: pairs of a step of the input and its reader
            return tuple((e.tail, e.head) for e in self.edges.values() if self._is_step(e.tail))
        computed = {edge.head for edge in self.edges.values() if edge.kind == "data" and edge.tail in self.groups}
        late = {edge.tail for edge in self.edges.values() if edge.kind == "data" and edge.head in computed}
        first = [v.id for v in self.vertices.values() if v.kind == "input" and v.id not in late]
        readers = [e.head for e in self.edges.values() if e.tail in first]
        return tuple(tuple(dict.fromkeys(level)) for level in (first, readers) if len(first) > 1 and len(readers) > 1)

    def _is_step(self, place: str) -> bool:
        """Return True if a vertex is an iteration's slice of the input, x[:, t], which has a separate vertex."""
        if place not in self.folded.slices:
            return False
        source = self.values[str(self.originals[place].inputs[0])]
        return source.kind != "parameter" and source.id not in self.makers

    # ---- ops and modules

    def _add(self, op: Op) -> None:
        place = self.plan.drawn[op.id]
        if op.id in self.plan.turned:
            return
        places = [(value, (op.id, i)) for i, value in enumerate(op.inputs) if value is not None]
        inputs = [self._unturned(value, place) for value, place in places]
        incoming = [] if self._is_step(place) else [(value, self._tail(value, op)) for value, _ in inputs]
        if self._is_step(place) and place not in self.vertices:
            self.vertices[place] = dataclasses.replace(self._op(place), kind="input", name="")
        elif place not in self.vertices:
            self.vertices[place] = self._module(self.scopes[place]) if place in self.scopes else self._op(place)
        operands = self._operands(op, place, incoming)
        for (value, tail), (_, read) in zip(incoming, inputs):
            if tail is None or tail == place:
                continue
            closed = place != op.id and op.id not in self.plan.joined  # then the picture hides what it goes around
            kind: EdgeKind = "residual" if self.residuals.get(op.id) == value and not closed else "data"
            operand = "" if read in self.together else operands.get(value, "")  # "all 6" says it
            self._connect(tail, place, self.values[value], kind, operand, read)

    def _operands(self, op: Op, place: str, incoming: list[tuple[str, str | None]]) -> dict[str, str]:
        """The names that the vertex at `place` has for its inputs, if it reads several and their order matters."""
        is_list = len(set(op.operands)) < len(op.operands) and place not in self.scopes  # as of a concat or a stack
        if place in self.scopes:
            given = list(self.scopes[place].arguments)
        elif op.name in COMMUTATIVE or op.id != place or self._names_its_operands(op):
            return {}  # also for chains of movement, for guards, and if the vertex itself shows the operands, as Q Kᵀ
        else:
            names = [str(i + 1) if is_list else OPERANDS.get(name, name) for i, name in enumerate(op.operands)]
            if op.name == "multi_head":
                names[:3] = PROJECTED[sum(value is not None for value in op.inputs[:3])]
            given = [(name, self._unturned(value)[0]) for name, value in zip(names, op.inputs) if value is not None]
        tails = dict(incoming)
        called: dict[str, list[str]] = {}
        for name, value in given:
            tail = self.vertices.get(tails.get(value) or "")
            is_weight = tail is not None and tail.kind == "parameter" and (op.operands != BOTH or op.name == "matmul")
            is_mask = self.values[value].mask and op.operands != BOTH
            if not is_mask and not (is_weight and name != "left"):
                called.setdefault(value, []).append(name)
        if sum(map(len, called.values())) < 2 or (is_list and len(called) < 2):
            return {}
        return {value: ", ".join(names) for value, names in called.items()}

    def _names_its_operands(self, op: Op) -> bool:
        mathematics = self.vertices[op.id].mathematics
        names = [self.values[v].name for v in dict.fromkeys(op.inputs) if v is not None]
        if len(set(names)) < len(names):  # a − a, of two turns
            return False
        return bool(mathematics) and op.name != "multi_head" and "left" not in mathematics

    def _unturned(self, value: str, place: tuple[str, int] = ("", 0)) -> tuple[str, tuple[str, int]]:
        """The matrix behind a transpose that is written in the product that reads it, and the place of its reader; else
        the value itself and the place."""
        maker = self.makers.get(value)
        if maker is None or maker.id not in self.plan.turned:
            return value, place
        return str(maker.inputs[0]), (maker.id, 0)

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
        if op.id in self.residuals:
            lines.append("residual")
        lines.extend(self._again_lines(group))
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
        shifts = [o for o in group if o.name == "subtract"]
        if shifts and op.name == "exp":
            of = self.speaker.symbol(shifts[0].inputs[0], shifts[0]) or self.speaker.unnamed(op)
            return Words("", f"{of} {MINUS} max {of}")
        every = self._all_of([self.originals[op.id]])
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
            rows.append(f"∂{value.gradient_of or 'L'}/∂{name or 'out'} = {numbers_text(gradient)}")
        return tuple(rows)

    def _module(self, scope: Scope) -> Vertex:
        group, inside = self.groups[scope.id], self.inside[scope.id]
        last = self.values[group[-1].output]
        sums = sum(op.id in self.residuals for op in inside)
        formula = scope.kind == "formula"
        lines = []
        count, numbers, text = self._counted(scope, inside)
        lines.extend(text)
        if sums:
            lines.append(plural(sums, "residual connection"))
        label = self.folded.labels.get(scope.id)
        if label:
            lines.append(label)
        lines.extend(self._again_lines(group))
        lines.extend(self._heat_lines(group))
        title = scope.name if formula or scope.kind == "stage" else scope.kind
        name = "" if title == scope.name else self._names(scope)
        if any(op.id in self.plan.joined and op.id in self.residuals for op in group):
            title = "Add & Norm"
        words = (
            f"{'formula' if formula else 'module'} {'.'.join(scope.path)} ({scope.kind}): {plural(len(inside), 'op')}, "
            f"{numbers:,} parameters, result {shape_text(last.shape)} {last.dtype}"
        )
        return Vertex(
            scope.id, "module", title, name, (*lines, *self._saved_lines(group)), last.shape, last.dtype,
            self._box(scope.parent), words, self._heat(group), failed=any(op.id == self.failed for op in group),
            counts=count,
        )  # fmt: skip

    def _counted(self, scope: Scope, inside: list[Op]) -> tuple[int, int, list[str]]:
        """Count the elements of a closed module's parameters: those that no previous vertex counts, and those of one
        call; and return the label."""
        one = self._parameters(inside)
        new = {v: n for v, n in self._parameters(self._all_of(inside)).items() if v not in self.counted}
        others = {v: n for v, n in one.items() if v in self.counted}
        size, total = sum(n for v, n in one.items() if v in new), sum(new.values())
        lines = []
        if size:
            text = f"{count_text(size)} parameters"
            whole = self.folded.labels.get(scope.id)
            times = self._own_turns(scope.id if whole else scope.parent)
            if total == size * times:
                text += " each" if whole and times > 1 else ""
            elif total == size:
                text += ", the same each time"
            elif total % size == 0:
                text = f"{total // size} {TIMES} {text}, used in turn"
            else:
                text = f"{count_text(total)} parameters in all"
            frozen = sum(n for v, n in new.items() if self.values[v].frozen)
            lines.append(text + (" (frozen)" if frozen == total else f", {frozen:,} of them frozen" if frozen else ""))
        if others:
            names = ", ".join(dict.fromkeys(self.counted[v] for v in others))
            lines.append(f"{count_text(sum(others.values()))} parameters shared with {names}")
        self.counted.update(dict.fromkeys(new, self._names(scope) or scope.kind))
        return total, sum(one.values()), lines

    def _parameters(self, ops: list[Op]) -> dict[str, int]:
        """The parameters of modules that ops read, each with its size."""
        read = [self.values[v] for op in ops for v in op.inputs if v is not None and self._is_hidden(self.values[v])]
        return {value.same_as or value.id: math.prod(value.shape) for value in read}

    def _is_hidden(self, value: Value) -> bool:
        """True for a parameter that a closed module hides."""
        return value.kind == "parameter" and (value.owned or self.options.unroll)

    def _all_of(self, ops: list[Op]) -> list[Op]:
        """Some ops, with those that they represent."""
        return [member for op in ops for member in self.folded.members.get(op.id, [op])]

    def _own_turns(self, scope: str | None) -> int:
        """How many calls the runs around it, itself included, represent, if their calls have their own parameters."""
        counts = {fold.scope: len(fold.run.turns) for fold in self.folded.folds if fold.scope not in self.folded.again}
        return math.prod(counts.get(place, 1) for place in around(scope, self.scopes))

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
        kind = self.options.heat
        return heating.of_ops(kind, self._all_of(ops), self.values) if kind is not None else None

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

    def _again_lines(self, ops: list[Op]) -> list[str]:
        shown = self.options.backward or self.options.saved
        return ["computed again in the backward pass"] if shown and all(op.again for op in ops) else []

    def _saved_lines(self, ops: list[Op]) -> list[str]:
        kept = self._kept(self._all_of(ops)) if self.options.saved else {}
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
        if self.plan.drawn[reader.id] in self.scopes and (kind == "constant" or self._is_hidden(value)):
            return None
        if value.id not in self.vertices:
            box = None if kind == "input" else self._common_box(value.id)
            name = value.name or (f"{value.mask} mask" if value.mask else self._role(value.id, reader) or kind)
            name = self._within(name, box)
            if kind == "input" or (kind == "parameter" and box is None):
                self.names[name] += 1
                name += f" ({self.names[name]})" if self.names[name] > 1 else ""
            lines = (value.mask,) if value.mask not in name else ()
            words = f"{kind} {name}, {shape_text(value.shape)} {value.dtype}"
            gradient = value.gradient
            if gradient is not None:
                words += f"; gradient norm {gradient.norm:.4g}"
            hot = gradient.norm if gradient is not None and self.options.heat == "grad" else None
            own = ("each turn its own",) * (self.several.get(value.id, 1) > 1)  # as noise, or the mask of a dropout
            counts, more = self._counted_leaf(value, box) if kind == "parameter" else (0, own)
            self.vertices[value.id] = Vertex(
                value.id, kind, name, "", (*lines, *more), value.shape, value.dtype, box, words, hot, value.pattern,
                numbers=self._numbers(value, name), counts=counts,
            )  # fmt: skip
        return value.id

    def _counted_leaf(self, value: Value, box: str | None) -> tuple[int, tuple[str, ...]]:
        """Count the elements of a parameter, and of those that it represents, unless another vertex counts them; and
        return the lines of the label."""
        places = [(op, i) for op in self.readers[value.id] for i, v in enumerate(op.inputs) if v == value.id]
        every = {str(op.inputs[i]) for first, i in places for op in self._all_of([first])}
        every = {v for v in every if self.values[v].kind == "parameter"}  # the others come from the previous iteration
        new = {self.values[v].same_as or v for v in every} - self.counted.keys()
        lines = []
        turns = self._own_turns(box)
        folded = (self.scopes[place] for place in around(box, self.scopes) if place in self.folded.labels)
        if not new and not value.same_as and self.counted[value.id]:
            lines.append(f"of {self.counted[value.id]}")
        elif 1 < len(every) < turns:
            lines.append(f"{len(every)}, used in turn")
        elif turns > 1 and len(every) == 1:
            lines.append("the same each time")
        elif len(every) > 1 and any(scope.kind == "stage" for scope in folded):
            lines.append("each turn its own")
        if value.frozen:
            lines.append("frozen")
        self.counted.update(dict.fromkeys(new, value.name))
        return len(new) * math.prod(value.shape), tuple(lines)

    def _role(self, value: str, reader: Op) -> str:
        """The name that an array has in the op or module that reads it; "" if it says nothing."""
        taken = {self.values[v].name for v in self.readers}
        taken |= {v.title for v in self.vertices.values() if v.kind == "input"}
        closed, module = (self.scopes.get(place or "") for place in (self.plan.drawn[reader.id], reader.scope))
        return role(value, reader, closed, module, taken)

    def _add_output(self, number: int, value: Value, count: int) -> None:
        maker = self.makers[value.id]
        if maker.id == self.failed:
            return
        name = value.name or ("output" if count == 1 else f"output {number + 1}")
        turns = self.all_turns.get(value.id, 0)
        place = f"r{number + 1}"
        words = f"output {name}, {shape_text(value.shape)} {value.dtype}"
        numbers = self._numbers(value, "")[:1] if not value.name else ()  # the op shows those of a named result
        self.vertices[place] = Vertex(
            place, "output", name, "", (), value.shape, value.dtype, None, words, numbers=numbers
        )
        self._connect(self.plan.drawn[maker.id], place, value, turns=turns)

    def _name_results(self) -> None:
        """Say at the arrows that leave a closed module with several results which one they carry."""
        results: dict[str, list[str]] = {}
        for tail, _, value, _ in self.edges:
            if tail in self.scopes and value not in results.setdefault(tail, []):
                results[tail].append(value)
        for key, edge in self.edges.items():
            every = results.get(edge.tail, ())
            if len(every) > 1:
                name = self.values[key[2]].name or f"result {every.index(key[2]) + 1}"
                self.edges[key] = dataclasses.replace(edge, operand=": ".join(filter(None, (name, edge.operand))))

    def _add_unread(self, value: Value) -> None:
        """Add a vertex for a result that no op uses, and that is not a result of the whole."""
        place = f"n{value.id}"
        title = f"read by Python: {value.read}" if value.read else "not used"
        words = f"{value.name or 'a result'}, {shape_text(value.shape)} {value.dtype}, {title}"
        self.vertices[place] = Vertex(place, "unread", title, "", (), value.shape, value.dtype, None, words)
        self._connect(self.plan.drawn[self.makers[value.id].id], place, value)

    def _connect(
        self, tail: str, head: str, value: Value, kind: EdgeKind = "data", operand: str = "",
        read: tuple[str, int] | None = None, turns: int = 0,
    ) -> None:  # fmt: skip
        label = shape_text(value.shape) if value.shape else ""
        turns = turns or self.together.get(read or ("", 0), 0)
        operand = ", ".join(filter(None, (operand, f"all {turns}" if turns else "")))
        reads = ((*read, value.id),) if read else ()
        self._add_edge(Edge(tail, head, label, kind, operand, reads), value.id)

    def _add_edge(self, edge: Edge, carries: str) -> None:
        """Add an edge, or its readers and its operand to the one that carries the same there."""
        known = self.edges.get((edge.tail, edge.head, carries, edge.kind), edge)
        if known is not edge:
            operands = (known.operand, "" if edge.operand in known.operand else edge.operand)
            both = ", ".join(filter(None, operands))
            edge = dataclasses.replace(known, operand=both, reads=known.reads + edge.reads)
        self.edges[edge.tail, edge.head, carries, edge.kind] = edge

    def _add_loop(self, loop: Loop) -> None:
        """Add the arrow from the result of an iteration to the op that uses it in the next iteration."""
        maker, (reader, _) = self.makers.get(loop.value), loop.reader
        if maker is None or reader not in self.plan.drawn:
            return
        tail, head = self.plan.drawn[maker.id], self.plan.drawn[reader]
        hides = around(self.scopes[loop.scope].parent, self.scopes)
        if tail != head or head not in hides:  # a closed module around the loop does not show it
            given = self.scopes[head].arguments if head in self.scopes else ()
            argument = next((word for word, value in given if value == loop.at_first), "")
            label = self.values[loop.value].name or argument or "next turn"
            reads = ((*loop.reader, loop.value),)
            self._add_edge(Edge(tail, head, label, "loop", "", reads, loop.scope), f"{label} {loop.scope}")

    # ---- boxes

    def _box(self, scope: str | None) -> str | None:
        return next((place for place in around(scope, self.scopes) if place in self.plan.open), None)

    def _common_box(self, value: str) -> str | None:
        """The innermost open box around all readers of a value."""
        first, *others = ([*around(op.scope, self.scopes)] for op in self.readers[value])
        return next((box for box in first if box in self.plan.open and all(box in path for path in others)), None)

    def _names(self, scope: Scope) -> str:
        return _from_to(*self.folded.names.get(scope.id, (scope.name, scope.name)))

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
        """Add a gradient next to every vertex that gradients flow through, and the edges reversed."""
        wanted = {op.id: op.wants for op in self.plan.ops}
        flows = [e for e in self.edges.values() if any(wanted[op][i : i + 1] == (True,) for op, i, _ in e.reads)]
        moved = {place for edge in flows for place in (edge.tail, edge.head)}  # the result that was differentiated, too
        moved |= {edge.head for edge in self.edges.values() if not edge.reads and edge.tail in moved}
        mirrored: dict[str, str] = {}
        for vertex in list(self.vertices.values()):
            group = self.groups.get(vertex.id, [])
            value = self.values.get(vertex.id)
            if vertex.id not in moved and not any(any(op.wants) for op in group):
                continue
            arrived = value.gradient if value is not None else None
            for op in group:
                arrived = op.step.arrived if op.step is not None else arrived
            of = next((o for op in group for o in [self.values[op.output].gradient_of] if o), "L")
            title = f"∂{of}/∂{vertex.title}" if vertex.kind in ("parameter", "output") else f"∇ {vertex.heading}"
            lines = (f"norm {arrived.norm:.3g}",) if arrived is not None else ()
            if arrived is not None and arrived.numbers is not None and math.prod(vertex.shape) <= FEW:
                lines = (f"= {numbers_text(arrived.numbers)}",)
            mirrored[vertex.id] = place = f"g{vertex.id}"
            words = f"gradient of {vertex.name or vertex.title}, {shape_text(vertex.shape)}"
            box = self._mirrored(vertex.box)
            self.vertices[place] = Vertex(
                place, "gradient", title, vertex.name, lines, vertex.shape, vertex.dtype, box, words
            )
        for edge in list(self.edges.values()):
            if edge.tail in mirrored and edge.head in mirrored and (edge in flows or not edge.reads):
                tail, head = mirrored[edge.head], mirrored[edge.tail]
                self.edges[tail, head, edge.label, "gradient"] = Edge(tail, head, edge.label, "gradient")
        for origin, place in mirrored.items():
            if any(op.saved for op in self.groups.get(origin, ())):
                self.edges[origin, place, "", "uses"] = Edge(origin, place, "", "uses")

    def _mirrored(self, box: str | None) -> str | None:
        """The box for the gradients of the vertices in a box."""
        self.mirrored.update(place for place in around(box, self.scopes) if place in self.plan.open)
        return box and f"g{box}"

    def _width(self) -> float:
        """Roughly how many pixels the picture takes from left to right: its longest path."""
        width = {
            v.id: 9 * max([len(v.title) + len(v.name), *(0.7 * len(x) for x in v.lines)]) + 30
            for v in self.vertices.values()
        }
        reach = dict(width)
        for edge in self.edges.values():  # in the order of computation
            if edge.kind in ("data", "residual"):
                further = reach[edge.tail] + 7 * len(edge.label) + 40 + width[edge.head]
                reach[edge.head] = max(reach[edge.head], further)
        return max(reach.values(), default=0)
