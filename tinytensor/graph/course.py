"""The course of a computation over time: what is kept in memory after each op, and how long each op took.

graph.memory().save("memory.svg")
print(graph.timeline())
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..files import atomic_write
from .label import text_width
from .short_text import bytes_text, escape, seconds_text
from .structure import Op, Structure

if TYPE_CHECKING:
    from .graph import Graph

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860.0, 70.0, 20.0, 56.0, 46.0
FORWARD, BACKWARD = ("#0072b2", "#4aa8e0"), ("#b34700", "#ff9d5c")  # in light and in dark
MOST_ROWS = 12


class Moment(NamedTuple):
    """One op's turn.

    Attributes:
        op: its name.
        module: the path of the module that it ran in, "" outside of any.
        backward: whether the turn is of the backward pass.
        alive: the bytes that are kept after it for the rest of the backward pass.
        seconds: how long it took; None if that was not measured.
    """

    op: str
    module: str
    backward: bool
    alive: int
    seconds: float | None


class Course:
    """The turns of all ops, forward and then backward; `print` shows the largest, `save` draws them.

    Attributes:
        moments: the turns in order.
    """

    what = ""

    def __init__(self, graph: Graph) -> None:
        self.title = graph.title or "Computation graph"
        self.moments = _moments(graph.structure)
        if not self.moments:
            raise ValueError(f"{self.what}: nothing was computed within tt.record()")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture (.svg) or the table (.txt), whole or not at all. Raises ValueError for other endings."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".txt"):
            raise ValueError(f"{self.what}: {path} ends in {suffix!r}; expected .svg or .txt")
        atomic_write(path, (self.to_svg() if suffix == ".svg" else f"{self}\n").encode())

    def to_svg(self) -> str:
        """The picture, with a title and a description, for light and dark backgrounds."""
        raise NotImplementedError

    def _svg(self, height: float, about: str, body: Iterable[str]) -> str:
        dark = (
            ".tt-course { background: #0d1117 } .tt-course text { fill: #e6edf3 } .tt-course .paper { fill: #0d1117 } "
            f".tt-course .forward {{ fill: {FORWARD[1]} }} .tt-course .backward {{ fill: {BACKWARD[1]} }} "
            ".tt-course line { stroke: #8b949e } .tt-course .inside { fill: #1a1a1a }"
        )
        key = "".join(
            f'<rect class="{name}" x="{x}" y="34" width="12" height="12" fill="{colours[0]}"/>'
            f'<text x="{x + 17}" y="44" font-size="12">{name}</text>'
            for name, x, colours in (("forward", LEFT, FORWARD), ("backward", LEFT + 90, BACKWARD))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-course" role="img" width="{WIDTH:g}" '
            f'height="{height:g}" viewBox="0 0 {WIDTH:g} {height:g}" font-family="Helvetica,Arial,sans-serif">\n'
            f"<title>{escape(self.title)}</title><desc>{escape(about)}</desc>\n"
            f"<style>@media (prefers-color-scheme: dark) {{ {dark} }}</style>\n"
            f'<rect class="paper" width="{WIDTH:g}" height="{height:g}" fill="#ffffff"/>\n'
            f'<text x="{LEFT:g}" y="22" font-size="15" font-weight="bold">{escape(self.title)}: {self.what}</text>'
            f"{key}\n{''.join(body)}</svg>\n"
        )


class Memory(Course):
    """What is kept in memory for the backward pass, after each op of the forward pass and of the backward pass.

    Parameters are there anyway and do not count; arrays that die within an op do not either.
    """

    what = "memory kept for the backward pass"

    @property
    def peak(self) -> Moment:
        """The turn after which the most is kept."""
        return max(self.moments, key=lambda moment: moment.alive)

    def __str__(self) -> str:
        """The peak, and the ops that add the most."""
        added = Counter[str]()
        before = 0
        for moment in self.moments:
            if not moment.backward:
                added[_called(moment)] += moment.alive - before
                before = moment.alive
        rows = [(bytes_text(size), name) for name, size in added.most_common(MOST_ROWS) if size > 0]
        return "\n".join([f"peak: {bytes_text(self.peak.alive)} after {_called(self.peak)}", *_table(rows)])

    def to_svg(self) -> str:
        height = 320.0
        most = max(self.peak.alive, 1)
        step = (WIDTH - LEFT - RIGHT) / len(self.moments)
        floor = height - BOTTOM
        body = []
        for i, moment in enumerate(self.moments):
            tall = (floor - TOP - 14) * moment.alive / most
            body.append(_bar(moment, LEFT + i * step, floor - tall, step, tall, bytes_text(moment.alive)))
        at = LEFT + (self.moments.index(self.peak) + 0.5) * step
        text = f"{bytes_text(self.peak.alive)} after {_called(self.peak)}"
        half = text_width(text, 11) / 2
        at = min(max(at, LEFT + half), WIDTH - RIGHT - half)
        body.append(f'<text x="{at:.1f}" y="{TOP + 6:g}" font-size="11" text-anchor="middle">{escape(text)}</text>')
        body.append(f'<line x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{floor:g}" y2="{floor:g}" stroke="#5a5a5a"/>')
        body.append(f'<text x="{LEFT:g}" y="{height - 22:g}" font-size="12">op after op</text>')
        return self._svg(height, f"{len(self.moments)} turns; the peak is {text}.", body)


class Timeline(Course):
    """How long each op took, one after the other: the forward pass above, the backward pass below."""

    what = "time of each op"

    def __str__(self) -> str:
        """All together, and the ops that took the longest."""
        spent: dict[str, float] = {}
        for moment in self.moments:
            name = ("backward of " if moment.backward else "") + _called(moment)
            spent[name] = spent.get(name, 0.0) + (moment.seconds or 0.0)
        whole = sum(spent.values()) or 1.0
        longest = sorted(spent.items(), key=lambda item: -item[1])[:MOST_ROWS]
        rows = [(f"{x / whole:.0%}", f"{seconds_text(x)}  {name}") for name, x in longest if x > 0]
        return "\n".join([f"{seconds_text(whole)} in {len(self.moments)} turns", *_table(rows)])

    def to_svg(self) -> str:
        height, tall = 230.0, 56.0
        both = [[m for m in self.moments if m.backward is backward] for backward in (False, True)]
        longest = max(sum(m.seconds or 0.0 for m in turns) for turns in both) or 1.0
        scale = (WIDTH - LEFT - RIGHT) / longest
        body = []
        for row, turns in enumerate(both):
            x, y = LEFT, TOP + 14 + row * (tall + 12)
            for moment in turns:
                width = (moment.seconds or 0.0) * scale
                body.append(_bar(moment, x, y, width, tall, seconds_text(moment.seconds or 0.0)))
                room = text_width(moment.op, 10) + 6 <= width
                if room:
                    body.append(
                        f'<text x="{x + width / 2:.1f}" y="{y + tall / 2 + 3:g}" font-size="10" text-anchor="middle" '
                        f'class="inside" fill="#ffffff">{escape(moment.op)}</text>'
                    )
                x += width
        body.append(f'<text x="{LEFT:g}" y="{height - 16:g}" font-size="12">0</text>')
        end = f'x="{WIDTH - RIGHT:g}" y="{height - 16:g}" font-size="12" text-anchor="end"'
        body.append(f"<text {end}>{seconds_text(longest)}</text>")
        return self._svg(height, f"{len(self.moments)} turns; the longer pass took {seconds_text(longest)}.", body)


def _bar(moment: Moment, x: float, y: float, width: float, height: float, amount: str) -> str:
    kind, colour = ("backward", BACKWARD[0]) if moment.backward else ("forward", FORWARD[0])
    about = f"{'backward of ' if moment.backward else ''}{_called(moment)}: {amount}"
    place = f'x="{x:.2f}" y="{y:.2f}" width="{max(width - 0.5, 0.3):.2f}" height="{height:.2f}"'
    return f'<rect class="{kind}" {place} fill="{colour}"><title>{escape(about)}</title></rect>\n'


def _called(moment: Moment) -> str:
    return f"{moment.op} in {moment.module}" if moment.module else moment.op


def _table(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(first) for first, _ in rows), default=0)
    return [f"{first:>{width}}  {second}" for first, second in rows]


def _moments(structure: Structure) -> list[Moment]:
    """Every op's turn; backward in the order in which the engine went, or, before it did, the other way round."""
    parameters = {value.id for value in structure.values if value.kind == "parameter"}
    paths = {scope.id: ".".join(scope.path) for scope in structure.scopes}

    def moment(op: Op, backward: bool, alive: int) -> Moment:
        seconds = op.seconds if not backward else op.step.seconds if op.step is not None else None
        return Moment(op.name, paths.get(op.scope or "", ""), backward, alive, seconds)

    kept: dict[str, int] = {}  # bytes by memory
    keepers = Counter[str]()  # how many ops still keep a memory
    found = []
    for op in structure.ops:
        for saved in op.saved:
            if saved.value not in parameters:
                kept[saved.memory] = max(kept.get(saved.memory, 0), saved.nbytes)
                keepers[saved.memory] += 1
        found.append(moment(op, False, sum(kept.values())))
    ran = sorted((op for op in structure.ops if op.step is not None), key=lambda op: op.step.number if op.step else 0)
    for op in ran or [op for op in reversed(structure.ops) if op.differentiable]:
        for saved in op.saved:
            if saved.value not in parameters:
                keepers[saved.memory] -= 1
                if not keepers[saved.memory]:
                    kept.pop(saved.memory, None)
        found.append(moment(op, True, sum(kept.values())))
    return found
