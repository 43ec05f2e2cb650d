"""A picture before it is laid out: what stands in it, what connects it, which boxes are around it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .heat import Scale
from .options import Direction

VertexKind = Literal["op", "module", "parameter", "input", "constant", "mask", "output", "gradient"]
EdgeKind = Literal["data", "residual", "gradient", "uses", "loop"]


@dataclass(frozen=True)
class Vertex:
    """One thing in the picture.

    Attributes:
        title: the op, or the class of a module, or what an array is called.
        mathematics: of an op, what a paper would write in its place.
        numbers: of a small array, its values and its gradient, a line each.
        name: what the result is called, or the name of the module in the module that holds it.
        lines: further lines of text.
        shape, dtype: of the array that leaves it.
        box: the id of the box it stands in.
        words: a sentence about it, shown when pointed at and read aloud.
        heat: the number that its colour stands for.
        pattern: the cells of a small mask, True where attention is forbidden.
        failed: whether an error is about it.
        mark: beside another graph, how it differs from what is there.
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

    @property
    def heading(self) -> str:
        """What stands in bold in it."""
        return self.mathematics or self.title

    @property
    def join(self) -> str:
        """What stands between the name of its result and what is done: an equals sign only before a whole term."""
        return ": " if self.heading[0] in "+÷×−√" or (" " in self.heading and self.title == "rearrange") else " = "


@dataclass(frozen=True)
class Edge:
    """An array on its way from `tail` to `head`.

    Attributes:
        kind: "residual" goes around what lies between; "gradient" goes backwards; "uses" leads from what the
            computation kept to the gradient that reads it; "loop" from what one turn made to the next turn.
        operand: what the op or module at its head calls it, where it has several and their order matters.
    """

    tail: str
    head: str
    label: str
    kind: EdgeKind = "data"
    operand: str = ""


@dataclass(frozen=True)
class Box:
    """A module or a formula that stands open.

    Attributes:
        name: in the module that holds it; "layers.0 … layers.5" if it stands for several.
        kind: the module's class; "stage" or "formula".
        label: for how many it stands: "× 6".
        mark: as that of a vertex.
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
    """All of a picture, in the order in which it is written down.

    Attributes:
        levels: ids of vertices that stand side by side.
        apart: whether a value that is read as several operands has an arrow for each.
        legend: whether it says what its kinds mean; None: from three kinds on.
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
        """Whether it goes down or up: shapes stand in vertices then; on edges they would make it twice as long."""
        return self.direction in ("TB", "BT")
