"""A picture before it is laid out, as plain data: its vertices, the edges between them, the boxes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .heat import Scale
from .options import Direction

VertexKind = Literal["op", "module", "parameter", "input", "constant", "mask", "output", "gradient", "unread"]
EdgeKind = Literal["data", "residual", "gradient", "uses", "loop"]


class Falsehood(AssertionError):
    """A picture shows another computation than the recorded one."""


@dataclass(frozen=True)
class Vertex:
    """One thing in the picture.

    Attributes:
        title: the op, the class of a module, or the name of an array.
        mathematics: for an op, the expression that a paper would write.
        numbers: for a small array, its values and its gradient, a line each.
        name: the name of the result, or of the module in the module that holds it.
        lines: further lines of text.
        shape, dtype: the shape and dtype of the array that leaves it.
        box: the id of the box around it.
        words: a sentence about it, for tooltips and screen readers.
        heat: the number behind its colour.
        pattern: the cells of a small mask, True where attention is forbidden.
        failed: True if an error is about it.
        mark: in a comparison with another graph, the difference from its counterpart.
        counts: how many numbers its parameters hold that no vertex before it counts.
        ops: the ids of the ops that it shows or hides.
    """

    id: str
    kind: VertexKind
    title: str
    name: str = ""
    lines: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    box: str | None = None
    words: str = ""
    heat: float | None = None
    pattern: tuple[tuple[bool, ...], ...] | None = None
    failed: bool = False
    mathematics: str = ""
    numbers: tuple[str, ...] = ()
    mark: str = ""
    counts: int = 0
    ops: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The bold text in it."""
        return self.mathematics or self.title

    @property
    def join(self) -> str:
        """The text between the name of its result and its heading: an equals sign only before a whole term."""
        return ": " if self.heading[0] in "+÷×−√" or (" " in self.heading and self.title == "rearrange") else " = "


@dataclass(frozen=True)
class Edge:
    """An array on its way from `tail` to `head`.

    Attributes:
        kind: "residual" goes around the ops between; "gradient" goes backwards; "uses" leads from an op that kept an
            array to the gradient that reads it; "loop" leads from the result of an iteration to the next.
        operand: its name in the op or module at its head, if that has several inputs and their order matters.
        reads: the ids of the ops that read it, each with the place of the input, and the id of the array (of a
            loop, the array of the previous iteration).
        scope: of a loop, the id of the scope whose iterations it joins.
        rises: True if its head is drawn above its tail, as on the right of a U-Net.
    """

    tail: str
    head: str
    label: str
    kind: EdgeKind = "data"
    operand: str = ""
    reads: tuple[tuple[str, int, str], ...] = ()
    scope: str = ""
    rises: bool = False


@dataclass(frozen=True)
class Box:
    """A module or a formula that is drawn open.

    Attributes:
        name: its name in the module that holds it; "layers.0 … layers.5" if it represents several.
        kind: the module's class; "stage" or "formula".
        label: how many it represents: "× 6".
        mark: the same as for a vertex.
    """

    id: str
    name: str
    kind: str
    parent: str | None
    path: tuple[str, ...]
    label: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Picture:
    """A whole picture, in the order in which it is written down.

    Attributes:
        levels: ids of vertices to draw side by side.
        apart: True if a value that is several operands of an op has an arrow for each.
        legend: True if a legend explains its kinds; None: from three kinds on.
    """

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    boxes: tuple[Box, ...]
    direction: Direction
    title: str
    description: str
    scale: Scale | None = None
    notes: tuple[str, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()
    legend: bool | None = None
    apart: bool = False

    @property
    def upright(self) -> bool:
        """True if it goes down or up: then vertices show the shapes; on edges they would make it twice as long."""
        return self.direction in ("TB", "BT")
