"""A picture of a compiled function: its loops with their formulas, products and other calls, and arrays in memory."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from ..graph.graph import Pictured, write
from ..graph.picture import Edge, Picture, Vertex, VertexKind
from ..graph.short_text import MINUS, plural, shape_text
from .tape import REDUCTIONS, Recorded

COMPARISON, SUM, PRODUCT, ATOM = range(4)  # how tightly a term holds together
SIGNS = {
    "add": ("+", SUM), "subtract": (MINUS, SUM), "multiply": ("·", PRODUCT), "divide": ("/", PRODUCT),
    "matmul": ("@", PRODUCT), "less": ("<", COMPARISON), "less_equal": ("≤", COMPARISON),
    "greater": (">", COMPARISON), "greater_equal": ("≥", COMPARISON), "equal": ("=", COMPARISON),
    "not_equal": ("≠", COMPARISON),
}  # fmt: skip
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
HALVES = {"forward_of": "{}", "backward_of": "gradients of {}"}
LONGEST = 56  # characters of a formula, from which on a part of it has a row to itself

Term = tuple[str, int]


class Loops(Pictured):
    """The picture of a compiled function, which `compiled.loops()` makes."""

    def __init__(self, whole: Any, backward: bool) -> None:
        self.backward, self._whole = backward, whole

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture; the ending of the path says how, as for `Graph.save`: .svg, .png, .pdf, .dot, .mmd, .txt.

        Without Graphviz, writes the .dot file next to the path and raises DrawingError with the install command.
        """
        target = Path(path)
        if target.suffix.lower() not in (endings := (".svg", ".png", ".pdf", ".dot", ".gv", ".mmd", ".txt")):
            raise ValueError(f"loops: {path} ends in {target.suffix!r}; expected one of {', '.join(endings)}")
        write(self.picture(), target)

    def picture(self, **options: Any) -> Picture:
        """The content of the picture; it has no options."""
        if options:
            raise TypeError(f"loops: got {next(iter(options))!r}; this picture has no options")
        whole = self._whole
        names = _Names(whole)
        results = [(x, "") for x in whole.forward.results[: whole.counts[0]]]
        results += [(x, f"{whole.names[i]}.grad = ") for i, x in whole.gradients]
        results += [(x, f"{whole.names[i]} ← ") for i, x in whole.writes]
        drawn = _Drawn(names, whole.forward, results, {*whole.saved})  # also for the names that the gradients read
        if self.backward:
            names[whole.backward.given[-1]] = f"∂L/∂{names[whole.forward.results[whole.main]]}"
            leading = [i for i, leads in zip(whole.places, whole.leads[whole.main]) if leads]
            gradients = [(x, f"∂L/∂{whole.names[i]} = ") for x, i in zip(whole.backward.results, leading)]
            drawn = _Drawn(names, whole.backward, gradients, set())
        loops = sum(hasattr(step, "loop") for step in drawn.program.steps)
        return Picture(
            tuple(drawn.vertices),
            tuple(Edge(tail, head, text) for (tail, head), text in drawn.edges.items()),
            (),
            "TB",
            f"{whole.name}: gradients" if self.backward else whole.name,
            f"A compiled function: {plural(loops, 'loop')}, and the calls between them.",
        )

    def __repr__(self) -> str:
        return f"<Loops of {self._whole.name}>"


class _Names(dict[Recorded, str]):
    """The names of arrays: of inputs, and v1, v2, ... of what steps compute."""

    def __init__(self, whole: Any) -> None:
        super().__init__(zip(whole.tape.inputs, whole.names))
        self.parameters = {x for x, name in self.items() if "." in name}
        self.count, self.in_full = 0, dict[Recorded, str]()

    def new(self, x: Recorded) -> str:
        self.count += 1
        self[x] = f"v{self.count}"
        return self[x]


class _Drawn:
    """The vertices and edges of one program."""

    def __init__(self, names: _Names, program: Any, results: list[tuple[Recorded, str]], kept: set[Recorded]) -> None:
        self.names, self.program = names, program
        self.vertices, self.edges = list[Vertex](), dict[tuple[str, str], str]()
        self._makers: dict[Recorded, str] = {}
        self._behind: dict[Recorded, Recorded] = {}  # views, and the arrays that they show
        for i, step in enumerate(program.steps):
            if hasattr(step, "source"):
                self._behind[step.result] = self._behind.get(step.source, step.source)
                names[step.result], names.in_full[step.result] = self._view(step.line)
            else:
                self._step(f"step{i}", step, kept)
        for i, (x, what) in enumerate(results):
            name = what + names.get(x, str(x))
            self.vertices.append(Vertex(f"output{i}", "output", name, shape=x.shape, words=f"result {name}"))
            self._read(x, f"output{i}")

    def _read(self, x: Recorded, by: str) -> None:
        x = self._behind.get(x, x)
        if x not in self._makers:
            self._makers[x] = place = f"input{len(self._makers)}"
            kind: VertexKind = "parameter" if x in self.names.parameters else "input"
            if x in self.program.constants:
                self.names[x], kind = "constant", "constant"
            name = self.names.get(x, str(x))
            self.vertices.append(Vertex(place, kind, name, shape=x.shape, words=f"{kind} {name}"))
        self.edges[self._makers[x], by] = shape_text(x.shape)

    def _view(self, line: Any) -> tuple[str, str]:
        """The name of a view, and the name from which a permutation of it reads: that has its shape as well."""
        (x,), axes = line.operands, line.options.get("axes", ())
        name = self.names.get(x, str(x))
        if line.name == "reshape":
            base = self._behind.get(x, x)  # a reshape of a reshape may be the array itself
            is_same = line.result.shape in (x.shape, base.shape if name == self.names.get(base) else x.shape)
            return name, name if is_same else f"{name}.reshape{line.result.shape}"
        name = self.names.in_full.get(x, name)
        if line.name == "permute_dims" and axes == (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2):
            name = f"{name}ᵀ" if name[-1] != "ᵀ" else name[:-1]
        else:
            name = f"{name}.{line.name}{tuple(axes) if axes else line.arguments[1:]}"
        return name, name

    def _step(self, place: str, step: Any, kept: set[Recorded]) -> None:
        loop = getattr(step, "loop", None)
        lines = loop.lines if loop else [step.line]
        made = {line.result for line in lines}
        for x in {x: None for line in lines for x in line.operands if x not in made}:
            self._read(x, place)
        outputs = dict.fromkeys(step.outputs if loop else [step.result])
        told = {x: self.names.new(x) for x in outputs}
        self._makers.update(dict.fromkeys(outputs, place))
        rows = _formulas(lines, told, self.names if loop else {**self.names, **self.names.in_full})
        kind: VertexKind = "op" if loop else "module"
        shape = shape_text(loop.shape if loop else step.result.shape)
        title = "loop" if loop else _function(step.line)
        again = [name for x, name in told.items() if x in kept]
        details = [shape] if loop or step.result.dtype.char != "O" else ["several arrays"]
        details += [f"kept for gradients: {', '.join(again)}"] if again else []
        words = f"{title}, {shape}: {'; '.join(rows)}"
        self.vertices.append(Vertex(place, kind, title, lines=tuple(details), numbers=tuple(rows), words=words))


def _function(line: Any) -> str:
    """The name of what a call computes; of an op with a pair made by hand, which half."""
    if line.name in HALVES:
        return HALVES[line.name].format(line.arguments[0])
    return str(line.result.dtype) if line.name == "astype" else line.name


def _formulas(lines: Any, outputs: dict[Recorded, str], names: dict[Recorded, str]) -> list[str]:
    """A row for each result that is stored, read twice, or long."""
    readers = Counter(x for line in lines for x in line.operands)
    terms: dict[Recorded, Term] = {}
    rows: list[str] = []
    for line in lines:
        x, (text, level) = line.result, _term(line, terms, names)
        if x not in outputs and readers[x] == 1 and len(text) < LONGEST:
            terms[x] = text, level
            continue
        name = outputs.get(x) or f"t{1 + sum(row.startswith('t') for row in rows)}"
        terms[x] = name, ATOM
        rows.append(f"{name} = {text}")
    return rows


def _term(line: Any, terms: dict[Recorded, Term], names: dict[Recorded, str]) -> Term:
    """A line as mathematics writes it, and how tightly that holds together."""

    def operand(x: Any, least: int) -> str:
        if isinstance(x, (tuple, list)):
            return ", ".join(operand(each, COMPARISON) for each in x)
        if isinstance(x, slice):
            return ":".join("" if end is None else str(end) for end in (x.start, x.stop))
        if not isinstance(x, Recorded):
            return (
                "..."
                if x is ...
                else f"{x:.6g}".replace("-", MINUS)
                if isinstance(x, float)
                else str(x).replace("-", MINUS)
            )
        text, level = terms.get(x, (names.get(x, str(x)), ATOM))
        return text if level >= least else f"({text})"

    given, name = line.arguments, line.name
    if name in SIGNS:
        sign, level = SIGNS[name]
        return f"{operand(given[0], level)} {sign} {operand(given[1], level + 1)}", level
    if name == "broadcast_to":
        return terms.get(given[0], (operand(given[0], COMPARISON), ATOM))
    if name == "negative":
        return f"{MINUS}{operand(given[0], PRODUCT)}", SUM
    if name == "sqrt":
        return f"√{operand(given[0], ATOM)}", ATOM
    if name in REDUCTIONS:
        axes = ",".join(map(str, line.options["axis"])).translate(SUBSCRIPTS)
        return f"{'Σ' if name == 'sum' else name}{axes} {operand(given[0], PRODUCT)}", SUM
    if name in ("getitem", "part"):
        return f"{operand(given[0], ATOM)}[{operand(given[1], COMPARISON)}]", ATOM
    options = [f"{key}={value}" for key, value in line.options.items() if not isinstance(value, (list, Recorded))]
    given = given[name in HALVES :]
    if name == "astype":
        given, options = given[:1], []
    return f"{_function(line)}({', '.join([*[operand(x, COMPARISON) for x in given], *options])})", ATOM
