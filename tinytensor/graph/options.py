"""Options for drawing a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from .structure import Scope

Direction = Literal["LR", "TB", "RL", "BT"]

ALLOWED: dict[str, tuple[Any, ...]] = {
    "fused": ("auto", "formula", "folded"),
    "heat": (None, "time", "bytes", "flops", "grad"),
    "direction": (None, "LR", "TB", "RL", "BT"),
}


@dataclass(frozen=True)
class Options:
    """How to draw a graph.

    Attributes:
        depth: how many boxes may be nested. A module within another one does not count if it only holds others, and
            normalisations open last, so that attention is visible before them.
        collapse: modules to draw as one vertex: names, paths such as "encoder.layers.0", classes such as "Linear", or a
            function of the module's `Scope`.
        fused: draw the ops of a fused op's formula ("formula"), or one vertex ("folded"); "auto" folds if the picture
            shows the ops that ran: with `backward`, `saved` or `heat`.
        fold: draw one of several consecutive modules with identical structure, and one iteration of a loop.
        unroll: draw every iteration of a loop, each as one vertex, with its step of the input below, and to its right
            the value that it passes on.
        constants: also draw how masks and other arrays without a gradient were computed, and the ops that guard a
            formula against overflow and 0 / 0: in a softmax the largest number and two `where`s, which otherwise are
            drawn with the exp and the sum that they guard. Pictures of the ops that ran (see `fused`) always show them.
        backward: draw the gradients next to the computation.
        saved: show the arrays that are kept in memory until the backward pass, and their size.
        heat: colour by "time", "bytes", "flops" or "grad" (the norm of the gradient, after a backward pass).
        repeat: how often each op runs again on the recorded arrays for heat="time"; the median counts.
        direction: "LR" from left to right, "TB" from top to bottom, ...; None: "TB" for graphs with long paths.
        apart: draw an arrow for each of query, key and value, even if they are one array, as in the figures of Vaswani
            et al. 2017.
        legend: explain the kinds of vertices and edges below an SVG; None: from three kinds on.
        large: draw even more than 2,000 vertices.

    Raises ValueError if one of these has a value that is not allowed.
    """

    depth: int = 2
    collapse: str | Callable[[Scope], bool] | Iterable[str] = ()
    fused: Literal["auto", "formula", "folded"] = "auto"
    fold: bool = True
    unroll: bool = False
    constants: bool = False
    backward: bool = False
    saved: bool = False
    heat: Literal["time", "bytes", "flops", "grad"] | None = None
    repeat: int = 5
    direction: Direction | None = None
    apart: bool = False
    legend: bool | None = None
    large: bool = False

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"draw: {name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
        if isinstance(self.depth, bool) or not isinstance(self.depth, int) or self.depth < 0:
            raise ValueError(f"draw: depth is {self.depth!r}; expected an integer from 0")
        if isinstance(self.repeat, bool) or not isinstance(self.repeat, int) or self.repeat < 1:
            raise ValueError(f"draw: repeat is {self.repeat!r}; expected an integer from 1")
        if not callable(self.collapse) and not isinstance(self.collapse, Iterable):
            raise ValueError(f"draw: collapse is {self.collapse!r}; expected names or a function of a Scope")

    @property
    def formulas(self) -> bool:
        """True if fused ops are drawn as their formula."""
        return self.fused == "formula" or (self.fused == "auto" and not self._of_what_ran)

    @property
    def idealises(self) -> bool:
        """True if guards are drawn with the op that they guard."""
        return not self.constants and not self._of_what_ran

    @property
    def _of_what_ran(self) -> bool:
        return self.backward or self.saved or self.heat is not None

    def collapses(self, scope: Scope) -> bool:
        """Return True if a module is drawn as one vertex."""
        if callable(self.collapse):
            return bool(self.collapse(scope))
        names = (self.collapse,) if isinstance(self.collapse, str) else tuple(self.collapse)
        path = ".".join(scope.path)
        return any(name in (scope.name, scope.kind, path) or path.endswith(f".{name}") for name in names)
