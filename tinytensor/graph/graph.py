"""The graph of a computation, as data and as pictures."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..machine.files import atomic_write
from ..node import Node
from ..pages.html_page import save_page
from ..pages.svg import framed
from ..tensor import Tensor
from .build import Builder, walk
from .compose import Look
from .dot import to_dot
from .fold import unfolded
from .heat import measured_again
from .memory import Memory
from .options import Options
from .picture import Picture
from .plan import main_ops, plan
from .program import Program
from .short_text import count_text
from .structure import Op, Scope, Structure, Value
from .svg import DrawingError, render, to_svg
from .text import to_mermaid, to_text
from .tikz import to_tikz
from .timeline import Timeline
from .ushape import as_u

SUFFIXES = (".svg", ".png", ".pdf", ".dot", ".gv", ".tex", ".mmd", ".json", ".txt", ".html")


MANY = 300
"""A picture with more vertices than this has no PNG in a notebook, which would be larger than all the rest."""

PIXELS = 4 / 3
"""CSS pixels in a point."""


class Pictured:
    """Anything with a picture, in all forms of that; options are fields of `Options`."""

    def picture(self, **options: Any) -> Picture:
        """The content of a picture, before it is laid out."""
        raise NotImplementedError

    def to_dot(self, **options: Any) -> str:
        """The picture in the DOT language, the same text in every run."""
        return to_dot(self.picture(**options))

    def to_svg(self, **options: Any) -> str:
        """The picture as SVG, with a title, a description, and colours that follow the reader's dark mode.

        Raises DrawingError if Graphviz is missing.
        """
        return to_svg(self.picture(**options))

    def to_mermaid(self, **options: Any) -> str:
        """The picture as a Mermaid flowchart, which Markdown pages draw."""
        return to_mermaid(self.picture(**options))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """For a notebook: the SVG, a PNG if it trusts no page, and the text; only a summary if nothing can be drawn."""
        try:
            return _bundle(self.picture())
        except (DrawingError, ValueError) as error:
            warnings.warn(str(error), stacklevel=2)
            return {"text/plain": repr(self)}


class Graph(Pictured):
    """A computation: as data (`ops`, `values`, `scopes`; `depth`, `flops`), and as pictures.

    `tt.record()` gives one, and so does `tt.draw`. Pictures take the fields of `Options` as keyword arguments:

        graph.save("loss.svg", depth=3, saved=True)
        print(graph.to_text(collapse="MultiheadAttention"))

    Each access makes the data anew, so that they include a later backward pass.

    Attributes:
        title: a line above the picture.
        options: the defaults for its pictures.
    """

    def __init__(
        self,
        nodes: list[Any],
        *,
        roots: list[Node] | None = None,
        names: Iterable[tuple[str, Tensor]] = (),
        title: str | None = None,
        failed: Node | None = None,
        misfits: Mapping[tuple[int, ...], str] | None = None,
        **options: Any,
    ) -> None:
        self._nodes = nodes
        self._roots = roots
        self._names = list(names)
        self.title = title
        self.options = with_changes(Options(), options)
        self._failed = failed  # the node that an error is about
        self._misfits = misfits or {}  # shapes of its operands, with the axes that do not fit in brackets

    @staticmethod
    def behind(roots: list[Node], **arguments: Any) -> Graph:
        """The graph behind some nodes. Raises RuntimeError if a part of it was freed."""
        return Graph(walk(roots), roots=roots, **arguments)

    # ---- the data

    @property
    def structure(self) -> Structure:
        """The ops that ran, the values between them, and the calls of modules."""
        return self._build(Options(fused="folded"))[0]

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops that ran, in order."""
        return self.structure.ops

    @property
    def values(self) -> tuple[Value, ...]:
        """The arrays that flow between them."""
        return self.structure.values

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The calls of modules, outer ones first."""
        return self.structure.scopes

    @property
    def depth(self) -> int:
        """The length of the longest path, in ops: how many must run one after the other, however many run at once.

        Paths lead from inputs, parameters and constants to a result; a fused op counts as one. The depth of a recurrent
        network grows with the length of the sequence, that of attention does not (Vaswani et al. 2017, table 1).
        """
        reach: dict[str | None, int] = {}  # by value
        for op in self.structure.ops:
            reach[op.output] = 1 + max((reach.get(value, 0) for value in op.inputs), default=0)
        return max(reach.values(), default=0)

    @property
    def flops(self) -> int:
        """An estimate of all floating-point operations of the forward pass; a multiply-add counts as two."""
        return sum(op.flops for op in self.structure.ops)

    def _build(self, options: Options) -> tuple[Structure, Builder]:
        builder = Builder(self._names)
        structure = builder.build(self._nodes, self._roots)
        if not options.formulas:
            return structure, builder
        chosen = plan(unfolded(structure), options)
        unfold = {
            builder.nodes[op.id]
            for op in chosen.ops
            if op.fused and chosen.drawn[op.id] == op.id and chosen.level[op.id] < options.depth
        }
        if not unfold:
            return structure, builder
        builder = Builder(self._names, unfold.__contains__)
        return builder.build(self._nodes, self._roots), builder

    def picture(self, **options: Any) -> Picture:
        """The content of a picture, before it is laid out.

        Raises ValueError for options that do not exist or do not fit.
        """
        return self._picture(with_changes(self.options, options))

    def _picture(self, chosen: Options, change: Callable[[Structure], Structure] = lambda x: x) -> Picture:
        structure, builder = self._build(chosen)
        if not structure.ops:
            raise ValueError("draw: nothing was computed within tt.record(); there is no graph to draw")
        if chosen.heat == "time":
            structure = measured_again(structure, builder.nodes, chosen.repeat)
        failed = next((place for place, node in builder.nodes.items() if node is self._failed), None)
        ran = len(main_ops(self.structure)) if chosen.formulas else None
        return as_u(Look(change(structure), chosen, failed, self._misfits).picture(self.title, ran))

    def check(self, **options: Any) -> Program:
        """Read the picture back into the computation that it shows, run that, and compare it with the recorded one.

        Every op must read what it read, in every turn of a folded loop; all parameters must be counted once; results
        must be the recorded numbers, but for rounding (of memory that was not written since).

        Returns the computation as the picture has it. Raises ValueError for a graph that was not recorded, and
        `tinytensor.graph.Falsehood`, which names what is wrong.
        """
        from .check import check  # only tests need its imports

        chosen = with_changes(self.options, options)
        structure, recorded = self._program(chosen, "check")
        looked = Look(structure, chosen)
        return check(looked.picture(), looked.structure, looked.shown, looked.folded.folds, recorded)

    def program(self) -> Program:
        """The computation as a program: its ops, operands and parameters, ready to run on other arrays.

        Raises ValueError for a graph that was not recorded.
        """
        return self._program(Options(fused="folded"), "program")[1]

    def _program(self, options: Options, what: str) -> tuple[Structure, Program]:
        structure, builder = self._build(options)
        if not all(node.traced for node in builder.nodes.values()):
            raise ValueError(f"{what}: compute within tt.record(); the graph behind a Tensor does not hold its numbers")
        return structure, builder.program(structure)

    def description(self, **options: Any) -> str:
        """The graph in a sentence: the description of its pictures, for those who cannot see them."""
        return self.picture(**options).description

    def __repr__(self) -> str:
        structure = self.structure
        return (
            f"<graph: {len(structure.ops)} ops, depth {self.depth}, {count_text(self.flops)} flops, "
            f"{len(structure.values)} values, {len(structure.scopes)} module calls>"
        )

    # ---- its faces

    def to_tikz(self, **options: Any) -> str:
        """The picture as a `tikzpicture` for LaTeX. Raises DrawingError if Graphviz is missing."""
        return to_tikz(self.picture(**options))

    def to_text(self, **options: Any) -> str:
        """The picture as a tree, for the terminal."""
        return to_text(self.picture(**options))

    def to_json(self) -> str:
        """All the data of the graph: `ops`, `values`, `scopes` and `outputs`, as `Structure` describes them."""
        return json.dumps(self.structure.as_dict(), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the graph in one form; the ending of the path says which.

        .svg, .png, .pdf, .tex (TikZ): the picture, laid out by Graphviz; .dot or .gv: the text that Graphviz reads;
        .mmd: Mermaid; .txt: the tree for a terminal; .json: the data; .html: the film of the backward pass (`player`).

        Without Graphviz, writes the .dot file next to the path and raises DrawingError with the install command.
        Raises ValueError for other endings.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(f"draw: {path} ends in {suffix!r}; expected one of {', '.join(SUFFIXES)}")
        if suffix == ".html":
            self.player(target, **options)
            return
        if suffix == ".json":
            atomic_write(target, self.to_json().encode())
            return
        write(self.picture(**options), target)

    def player(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the film of the backward pass: one HTML file that plays it step by step over the picture.

        Record the computation, call `backward()`, then make the film. Each step shows the op, its gradient rules, the
        gradient that arrives, with the sum if paths join, and the gradients that leave: numbers for arrays of up to 64
        elements, statistics for larger ones. It shows a graph of up to 60 ops whole unless options say otherwise.

        Raises ValueError for another ending than .html, for more than 2,000 vertices or 10,000 ops, or unless exactly
        one backward pass went through the graph; DrawingError if Graphviz is missing.
        """
        from .film import page  # only films need its imports

        save_page("player", path, lambda: page(self, options))

    def explore(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a page to explore the graph: one HTML file whose modules open and close at a click.

        It searches, zooms, follows edges by mouse or keyboard, and shows for each vertex its shapes, values, gradient,
        kept arrays and line of code. Modules can be opened, and so can turns of loops, and up to 1,000 ops also the
        formulas of fused ops; `fused="formula"` opens these with the modules.

        Raises ValueError for another ending than .html.
        """
        from .explore import page  # only these pages need its imports

        save_page("explore", path, lambda: page(self, options))

    def memory(self) -> Memory:
        """The memory in use after each op, forward and backward: as data, as text (`print`) and as a chart (`save`).

        Raises ValueError if nothing was computed.
        """
        structure = self.structure
        if not structure.ops:
            raise ValueError("memory: nothing was computed within tt.record()")
        return Memory(structure)

    def timeline(self, repeat: int | None = None) -> Timeline:
        """The time line of ops, forward and backward: as data, as text (`print`) and as a chart (`save`).

        Args:
            repeat: how often each op of the forward pass runs again on the recorded arrays; the median counts.
                Default: only the recorded run, in which the first ops pay for memory and waking threads.

        Raises ValueError if no time was measured: compute within `tt.record()`.
        """
        structure, builder = self._build(Options(fused="folded"))
        if not any(op.seconds is not None for op in structure.ops):
            raise ValueError("timeline: no time was measured; compute within tt.record()")
        return Timeline(structure if repeat is None else measured_again(structure, builder.nodes, repeat))


def _bundle(picture: Picture) -> dict[str, str]:
    """The picture by MIME type: HTML with the SVG in a frame, PNG, and the tree as text."""
    svg = to_svg(picture)
    size = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"', svg)
    width, height = (float(size[1]), float(size[2])) if size is not None else (600.0, 400.0)
    found = {"text/html": framed(svg, width * PIXELS, height * PIXELS, f"{picture.title}: {picture.description}")}
    if len(picture.vertices) <= MANY:
        found["image/png"] = base64.b64encode(render(to_dot(picture), "png")).decode()
    return found | {"text/plain": to_text(picture)}


def write(picture: Picture, target: Path) -> None:
    """Write a picture in the format of the path's ending.

    Without Graphviz, writes the .dot file next to the path and raises DrawingError with the install command.
    """
    formats = {".svg": to_svg, ".tex": to_tikz, ".mmd": to_mermaid, ".txt": to_text, ".dot": to_dot, ".gv": to_dot}
    suffix = target.suffix.lower()
    try:
        content = formats[suffix](picture).encode() if suffix in formats else render(to_dot(picture), suffix[1:])
    except DrawingError as error:
        text = target.with_suffix(".dot")
        atomic_write(text, to_dot(picture).encode())
        raise DrawingError(f"{error} (the graph is in {text.name})") from None
    atomic_write(target, content)


def with_changes(former: Options, changes: dict[str, Any]) -> Options:
    """Options with some of them changed. Raises ValueError for options that do not exist or do not fit."""
    known = {field.name for field in dataclasses.fields(Options)}
    for name in changes:
        if name not in known:
            raise ValueError(f"draw: there is no option {name!r}; there are {', '.join(sorted(known))}")
    return dataclasses.replace(former, **changes)
