"""Two graphs side by side: the parts that only one has, and the parts that differ."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..machine.files import atomic_write
from .align import Match, Part, align
from .beside import beside
from .graph import Graph, Pictured, with_changes, write
from .marks import MARKS
from .options import Options
from .picture import Picture
from .short_text import count_text, plural, printable, shape_text

SUFFIXES = (".svg", ".png", ".pdf", ".dot", ".gv", ".mmd", ".txt")
SIGNS = (MARKS["only a"].sign, MARKS["only b"].sign)


def compare(a: Graph, b: Graph, *, names: tuple[str, str] | None = None, **options: Any) -> Comparison:
    """The differences of two graphs: their modules and ops side by side, aligned by names and the order of calls.

        with tt.record() as before:
            post_norm(x)
        with tt.record() as after:
            pre_norm(x)
        tt.compare(before, after).save("difference.svg")

    Args:
        a, b: the graphs, as `tt.record` or `tt.draw` give them.
        names: the names of the graphs; default: their titles, or "A" and "B".
        **options: defaults for its pictures, for example `depth=3`; see `Options`.

    Raises TypeError for anything but a graph, ValueError for a graph without ops and for options that do not exist.
    """
    for which, graph in (("first", a), ("second", b)):
        if not isinstance(graph, Graph):
            raise TypeError(
                f"compare: the {which} is a {type(graph).__name__}; expected a graph, as `with tt.record() as graph:` "
                "gives it"
            )
        if not graph.ops:
            raise ValueError(f"compare: the {which} graph is empty; compute within tt.record()")
    given = names if names is not None else (a.title or "A", b.title or "B")
    if len(given) != 2 or given[0] == given[1]:
        if names is not None:
            raise ValueError(f"compare: names are {names!r}; expected two that differ")
        given = ("A", "B")
    return Comparison(a, b, (str(given[0]), str(given[1])), options)


class Comparison(Pictured):
    """Two graphs side by side, as data, as text (`print`) and as a picture (`save`); `tt.compare` gives one.

    Consecutive identical layers count as one, as in pictures of graphs.

    Attributes:
        a, b: the graphs.
        names: the names of the graphs.
    """

    def __init__(self, a: Graph, b: Graph, names: tuple[str, str], options: dict[str, Any]) -> None:
        self.a, self.b = a, b
        self.names = names
        self._options = {"direction": "TB", "fused": "folded", "legend": False, **options}
        with_changes(Options(), self._options)

    # ---- the data

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """The parts of both, as a tree by modules."""
        return align(self.a.structure, self.b.structure, Options())

    @property
    def only_a(self) -> tuple[Part, ...]:
        """The parts that only the first graph has; of a module, not its contents again."""
        return tuple([match.a for match in _outermost(self.matches, "only a") if match.a is not None])

    @property
    def only_b(self) -> tuple[Part, ...]:
        """The parts that only the second graph has."""
        return tuple([match.b for match in _outermost(self.matches, "only b") if match.b is not None])

    @property
    def changed(self) -> tuple[Match, ...]:
        """Parts in the same place with another class, shape, number, parameters or sources; `what` names which."""
        return self._marked("changed")

    @property
    def moved(self) -> tuple[Match, ...]:
        """Modules that both graphs call, but at different places in the order."""
        return self._marked("moved")

    @property
    def same(self) -> tuple[Match, ...]:
        """Parts that are the same in both, contents included."""
        return self._marked("same")

    def _marked(self, mark: str) -> tuple[Match, ...]:
        return tuple([match for outer in self.matches for match in outer.walk() if match.mark == mark])

    def __repr__(self) -> str:
        return f"<comparison of {self.names[0]} and {self.names[1]}: {self._summary()}>"

    def _summary(self) -> str:
        parts = [
            f"{sign} {len(alone)} only in {name}"
            for sign, alone, name in zip(SIGNS, (self.only_a, self.only_b), self.names)
            if alone
        ]
        parts += [
            f"{MARKS[mark].sign} {len(found)} {mark}"
            for mark, found in (("changed", self.changed), ("moved", self.moved))
            if found
        ]
        return ", ".join(parts) or "no difference"

    def _sizes(self) -> list[str]:
        return [f"{name}: {_size(graph)}" for name, graph in zip(self.names, (self.a, self.b))]

    # ---- as text

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """A tree by modules for the terminal; parts that are the same take one line each."""
        rows = [row for match in self.matches for row in _rows(match, 0)]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        sizes = [f"{sign} {size}" for sign, size in zip(SIGNS, self._sizes())]
        lines = [*sizes, self._summary(), ""]
        for row in rows:
            cells = [f"{text:<{width}}" for text, width in zip(row, widths)]
            lines.append("  ".join([*cells, row[4]]).rstrip())
        return "\n".join(printable(line) for line in lines) + "\n"

    # ---- as a picture

    def picture(self, **options: Any) -> Picture:
        """Both graphs side by side: counterparts are at one height, signs mark differences.

        Args:
            **options: fields of `Options`, for both.
        """
        picture = beside((self.a, self.b), self.names, self._sizes(), {**self._options, **options})
        summary = self._summary()
        return dataclasses.replace(picture, notes=(summary,), description=f"{summary}. {picture.description}")

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the comparison; the ending of the path says how.

        .svg, .png, .pdf: the picture, laid out by Graphviz; .dot or .gv: the text that Graphviz reads; .mmd: Mermaid;
        .txt: the tree.

        Without Graphviz, writes the .dot file next to the path and raises DrawingError with the install command.
        Raises ValueError for other endings.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(f"compare: {path} ends in {suffix!r}; expected one of {', '.join(SUFFIXES)}")
        if suffix == ".txt":
            atomic_write(target, self.to_text().encode())
        else:
            write(self.picture(**options), target)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The picture and the tree for a notebook, or only the tree if the picture cannot be drawn."""
        return super()._repr_mimebundle_() | {"text/plain": self.to_text()}


def _outermost(matches: tuple[Match, ...], mark: str) -> Iterator[Match]:
    for match in matches:
        if match.mark == mark:
            yield match
        else:
            yield from _outermost(match.inside, mark)


# ---- words


def _rows(match: Match, depth: int) -> Iterator[tuple[str, str, str, str, str]]:
    """The rows of a match and its contents: the sign and the name, parameters, flops, shape, changes."""
    part = match.a or match.b
    assert part is not None
    sign = MARKS[match.mark].sign if match.mark != "inside" else ""
    kind = "" if part.kind in ("op", "stage", "formula", part.name) else part.kind
    label = " ".join(filter(None, (part.name, kind, part.repeated)))
    parts = [p for p in (match.a, match.b) if p is not None]
    numbers = [_both([count_text(getattr(p, name)) for p in parts]) for name in ("parameters", "flops")]
    cells = [f"{text} {name}" if text != "0" else "" for text, name in zip(numbers, ("parameters", "flops"))]
    said = [text for text in match.what if not text.startswith(("parameters ", "result "))]
    shape = _both([shape_text(p.shape) for p in parts])
    yield f"{sign:<1} {'  ' * depth}{label}", cells[0], cells[1], shape, "; ".join(said)
    alone = match.a is None or match.b is None
    if alone or any(inner.mark != "same" for inner in match.inside):
        for inner in match.inside:
            if not alone or inner.inside:  # of a part that only one has, the modules
                yield from _rows(inner, depth + 1)


def _both(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else " → ".join(texts)


def _size(graph: Graph) -> str:
    structure = graph.structure
    read = {v for op in structure.ops for v in op.inputs}
    count = sum(math.prod(v.shape) for v in structure.values if v.id in read and v.kind == "parameter")
    ops, work = plural(len(structure.ops), "op"), count_text(graph.flops)
    return f"{ops}, {count_text(count)} parameters, {work} flops"
