"""A time line of ops: when each ran, and in which module, forward and backward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..pages.svg import INK, Colour, Element, Picture, legend, linear_ticks, shorten, titled
from .calls import Index
from .charts import Chart, grouping, rule, text
from .dot import STYLES
from .picture import VertexKind
from .short_text import plural, seconds_text
from .structure import Op, Structure, around

NARROW = 0.5
"""Bars with fewer pixels are not drawn; the bar of the module around them shows their time."""


@dataclass(frozen=True)
class Bar:
    """The time of an op, or of a call of a module with its contents.

    Attributes:
        id: the id of the `Op` or the `Scope`.
        name: the name of the op, or of the module in the module around it.
        path: its place, as "encoder.layers.0.norm1"; for an op, the path of the module around it and the op's name.
        kind: "op", or the module's class; "stage" or "formula".
        depth: how many modules are around it.
        begin, end: in seconds from the beginning of the forward pass.
        backward: True for a step of the backward pass.
    """

    id: str
    name: str
    path: str
    kind: str
    depth: int
    begin: float
    end: float
    backward: bool

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.end - self.begin


class Timeline(Chart):
    """The time line of a graph; `graph.timeline()` gives one.

    The time of an op in the forward pass runs from the end of the op before to its own end, so it includes the Python
    code in between. The time of a step of the backward pass is that of its gradient rules. Recording itself does not
    count.

    Attributes:
        bars: modules and ops, in the order in which they began, outer ones first.
        forward, backward: seconds of both passes; `backward` is 0 if it was not recorded.
    """

    title = "Time line of ops"

    def __init__(self, structure: Structure) -> None:
        index = Index(structure)
        ahead = [(op, op.seconds) for op in structure.ops if op.seconds is not None]
        back = [(op, step.seconds) for op, step in structure.turns]
        self.forward = sum(seconds for _, seconds in ahead)
        self.backward = sum(seconds for _, seconds in back)
        self.bars = (*_bars(ahead, index, 0.0, False), *_bars(back, index, self.forward, True))
        self._paths = {op.id: index.scopes[op.scope].path if op.scope is not None else () for op in structure.ops}

    @property
    def seconds(self) -> float:
        """The seconds of both passes."""
        return self.forward + self.backward

    @property
    def _ops(self) -> list[Bar]:
        return [bar for bar in self.bars if bar.kind == "op"]

    def __repr__(self) -> str:
        return f"<time line: {self._passes()}>"

    def _passes(self) -> str:
        back = f", backward {seconds_text(self.backward)}" if self.backward else ""
        return f"forward {seconds_text(self.forward)}{back}"

    # ---- its faces

    def to_text(self) -> str:
        """The time by op, by module, and the slowest single ops; "back" is the backward pass."""
        group = grouping((self._paths[bar.id], bar.seconds) for bar in self._ops)
        slowest = sorted(self._ops, key=lambda bar: -bar.seconds)[:12]
        rows = [
            self._passes(),
            "",
            f"{'time':<10}{'share':<8}{'forward':<10}{'back':<10}by op",
            *self._table(lambda bar: bar.name, 12),
            "",
            f"{'time':<10}{'share':<8}{'forward':<10}{'back':<10}by module",
            *self._table(lambda bar: group(self._paths[bar.id]), 12),
            "",
            f"{'time':<10}{'share':<8}the slowest",
            *(f"{seconds_text(b.seconds):<10}{self._share(b.seconds):<8}{_words(b)}" for b in slowest),
        ]
        return "\n".join(rows) + "\n"

    def _table(self, key: Callable[[Bar], str], most: int) -> Iterator[str]:
        """Lines of sums, the largest first."""
        sums: dict[str, list[float]] = {}
        for bar in self._ops:
            row = sums.setdefault(key(bar), [0.0, 0.0, 0.0])
            row[bar.backward] += bar.seconds
            row[2] += not bar.backward
        found = sorted(sums.items(), key=lambda item: -sum(item[1][:2]))
        for name, (ahead, back, calls) in found[:most]:
            numbers = [seconds_text(ahead + back), self._share(ahead + back), seconds_text(ahead), seconds_text(back)]
            yield f"{numbers[0]:<10}{numbers[1]:<8}{numbers[2]:<10}{numbers[3]:<10}{name}, {plural(int(calls), 'op')}"
        rest = sum(ahead + back for _, (ahead, back, _) in found[most:])
        if rest:
            yield f"{seconds_text(rest):<10}{self._share(rest):<28}{len(found) - most} others"

    def _share(self, seconds: float) -> str:
        return f"{seconds / self.seconds:.1%}".replace("%", " %") if self.seconds else ""

    def picture(self) -> Picture:
        """Bars over seconds: each module above its contents, the backward pass to the right of the forward pass."""
        width, left, top, row = 900.0, 16.0, 76.0, 22.0
        across = (width - 2 * left) / (self.seconds or 1.0)
        base = top + row * (1 + max(bar.depth for bar in self.bars))
        kinds: list[tuple[VertexKind, str]] = [("module", "module"), ("op", "op"), ("gradient", "its gradient rules")]
        entries = [(_look(kind), words) for kind, words in kinds[: 2 + bool(self.backward)]]
        (parts, _), hidden = legend(left, 48, entries), 0
        for bar in self.bars:
            if bar.seconds * across < NARROW:
                hidden += bar.kind == "op"
                continue
            x, y, long = left + bar.begin * across, top + bar.depth * row, bar.seconds * across
            told = Element("title", f"{_words(bar)}: {seconds_text(bar.seconds)}, {self._share(bar.seconds)}")
            kind: VertexKind = "module" if bar.kind != "op" else "gradient" if bar.backward else "op"
            parts.append(Element("rect", told, x=x, y=y, width=long, height=row - 2, **_look(kind)))
            name = shorten(bar.name, long - 6, 11)
            if len(name) > 1:
                parts.append(text(x + 3, y + 14, name, font_size=11, fill=INK, pointer_events="none"))
        parts.append(rule(left, base + 4, width - left, base + 4))
        for mark in linear_ticks(0, self.seconds)[:-1]:
            at = left + mark * across
            parts.append(rule(at, base + 4, at, base + 9))
            parts.append(text(at, base + 24, seconds_text(mark) if mark else "0", "middle" if mark else "start"))
        if self.backward:
            turn = left + self.forward * across
            parts.append(rule(turn, top - 8, turn, base + 9))
        described = f"{self._passes()}. " + "; ".join(list(self._table(lambda bar: bar.name, 5)))
        if hidden:
            parts.append(text(left, base + 46, f"{plural(hidden, 'op')} too short to be drawn", font_size=11))
        title = f"{self.title}: {self._passes()}"
        return titled(width, base + (56 if hidden else 36), title, " ".join(described.split()), parts)


def _bars(runs: Sequence[tuple[Op, float]], index: Index, start: float, backward: bool) -> list[Bar]:
    """The bars of ops, one after the other, and of the modules around them, which begin and end with their ops."""
    bars: list[Bar] = []
    standing: list[tuple[str, int]] = []  # the modules around, and the place of their bars
    now = start
    for op, seconds in runs:
        places = [*around(op.scope, index.scopes)][::-1]
        shared = 0
        while shared < min(len(standing), len(places)) and standing[shared][0] == places[shared]:
            shared += 1
        del standing[shared:]
        for depth, name in enumerate(places[shared:], shared):
            scope = index.scopes[name]
            standing.append((name, len(bars)))
            bars.append(Bar(name, scope.name, scope.place, scope.kind, depth, now, now, backward))
        bars.append(Bar(op.id, op.name, index.path(op), "op", len(places), now, now + seconds, backward))
        now += seconds
        for _, bar in standing:
            bars[bar] = dataclasses.replace(bars[bar], end=now)
    return bars


def _words(bar: Bar) -> str:
    kind = "" if bar.kind in ("op", "stage", "formula", bar.path) else f" ({bar.kind})"
    return f"{'gradient of ' * bar.backward}{bar.path}{kind}"


def _look(kind: VertexKind) -> dict[str, Any]:
    _, _, fill, line, dark_fill, dark_line = STYLES[kind]
    return {"fill": Colour(kind, fill, dark_fill), "stroke": Colour(kind, line, dark_line)}
