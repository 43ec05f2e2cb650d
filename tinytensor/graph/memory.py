"""Memory over time: the arrays that are alive after each op, forward and backward."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from ..pages.svg import INK, PAPER, RULE, SERIES, Element, Picture, linear_ticks, shorten, titled
from .calls import Index
from .charts import Chart, grouping, rule, text
from .short_text import bytes_text, plural, shape_text
from .structure import Op, Structure

VIEWS = frozenset({"reshape", "permute_dims", "matrix_transpose", "expand_dims", "squeeze", "broadcast_to", "flip"})
"""Ops whose result shares the memory of their input."""

MOST_BANDS = 6
GRADIENTS = "gradients"


class Moment(NamedTuple):
    """The moment after an op was computed, or after its turn in the backward pass."""

    op: Op
    backward: bool


@dataclass(frozen=True)
class Alive:
    """An array while it is in memory.

    Attributes:
        kind: "kept" until the backward pass; "passing": read by a later op, or a result; "gradient".
        op: the op that keeps or made it; for the gradient of a result, the op that made the result; else None.
        name: its name; for a gradient, the name of the array it belongs to.
        value: the id of its Value, or of the Value whose gradient it is; "" if only a fast pair knows it.
        begin, end: the first moment with it, and the first moment after that without it.
    """

    kind: Literal["kept", "passing", "gradient"]
    op: Op | None
    name: str
    value: str
    nbytes: int
    begin: int
    end: int


class Memory(Chart):
    """The arrays that are alive after each op, forward and then backward; `graph.memory()` gives one.

    It counts the arrays that ops keep for the backward pass, results that a later op reads, and gradients, each as
    large as its array. It does not count parameters, which exist anyway, nor the memory that an op needs while it runs.
    If a graph has not gone backward yet, the moments follow the order in which it would.

    Attributes:
        moments: the ops in order, forward, then backward.
        arrays: the arrays, each with its begin and end.
        totals: bytes at each moment.
    """

    title = "Memory over time"

    def __init__(self, structure: Structure) -> None:
        self._index = Index(structure)
        self.moments = _moments(structure)
        self.arrays = tuple(_Lives(structure, self.moments).all())
        self.totals = self._over_time(self.arrays)

    @property
    def peak(self) -> int:
        """The most bytes at once."""
        return max(self.totals)

    @property
    def peak_moment(self) -> int:
        """The number of the first moment at the peak."""
        return self.totals.index(self.peak)

    def at(self, moment: int) -> tuple[Alive, ...]:
        """The arrays that are alive at the moment with that number, the largest first."""
        moment = range(len(self.moments))[moment]
        found = [array for array in self.arrays if array.begin <= moment < array.end]
        return tuple(sorted(found, key=lambda array: -array.nbytes))

    def __repr__(self) -> str:
        return f"<memory: at most {bytes_text(self.peak)}, {self._when(self.peak_moment)}>"

    def _when(self, moment: int) -> str:
        op, backward = self.moments[moment]
        return f"after {'the gradient of ' * backward}{self._index.path(op)}"

    # ---- by module

    @cached_property
    def bands(self) -> dict[str, tuple[int, ...]]:
        """Bytes at each moment by module: the largest modules, the others together, and gradients."""
        paths = {scope.id: scope.path for scope in self._index.scopes.values()}
        places = [paths.get(a.op.scope or "", ()) if a.op is not None else () for a in self.arrays]
        group = grouping((path, a.nbytes) for path, a in zip(places, self.arrays) if a.kind != "gradient")
        groups: dict[str, list[Alive]] = {}
        for path, array in zip(places, self.arrays):
            groups.setdefault(GRADIENTS if array.kind == "gradient" else group(path), []).append(array)
        found = {name: self._over_time(arrays) for name, arrays in groups.items()}
        gradients = found.pop(GRADIENTS, None)
        largest = sorted(found, key=lambda name: -max(found[name]))[:MOST_BANDS]
        bands = {name: row for name, row in found.items() if name in largest}
        others = [row for name, row in found.items() if name not in largest]
        if others:
            bands[f"{len(others)} others"] = tuple(map(sum, zip(*others)))
        return bands | ({GRADIENTS: gradients} if gradients else {})

    def _over_time(self, arrays: Iterable[Alive]) -> tuple[int, ...]:
        """Bytes at each moment."""
        changes = [0] * (len(self.moments) + 1)
        for array in arrays:
            changes[array.begin] += array.nbytes
            changes[array.end] -= array.nbytes
        return tuple(itertools.accumulate(changes[:-1]))

    # ---- its faces

    def to_text(self) -> str:
        """The peak and its parts, by module and by array, and a bar for each op (or for several, if many ran)."""
        peak = self.peak_moment
        there = self.at(peak)
        lines = [
            f"{self._counts()}; at most {bytes_text(self.peak)} {self._when(peak)}; parameters are not counted",
            "",
            f"{'at the peak':<12}{'at most':<12}by module",
            *(f"{bytes_text(row[peak]):<12}{bytes_text(max(row)):<12}{name}" for name, row in self.bands.items()),
            "",
            "largest at the peak",
            *(f"{bytes_text(array.nbytes):<12}{self._words(array)}" for array in there[:10]),
            *([f"{bytes_text(sum(a.nbytes for a in there[10:])):<12}{len(there) - 10} more"] if there[10:] else []),
            "",
            "over time",
        ]
        step = -(-len(self.moments) // 32)
        for start in range(0, len(self.moments), step):
            at = max(range(start, min(start + step, len(self.moments))), key=self.totals.__getitem__)
            bar = "█" * round(24 * self.totals[at] / (self.peak or 1))
            lines.append(f"{bytes_text(self.totals[at]):<12}{bar:<24}  {self._when(at)}")
        return "\n".join(lines) + "\n"

    def _counts(self) -> str:
        back = sum(moment.backward for moment in self.moments)
        return f"memory of {plural(len(self.moments) - back, 'op')} forward, {back} backward"

    def _words(self, array: Alive) -> str:
        value = self._index.values.get(array.value)
        shape = f" {shape_text(value.shape)} {value.dtype}" if value is not None else ""
        where = self._index.path(array.op) if array.op is not None else ""
        if array.kind == "gradient":
            return f"gradient of {array.name or where}{shape}"
        maker = self._index.makers.get(array.value)
        what = array.name or (f"result of {self._index.path(maker)}" if maker is not None else "array")
        return f"{what}{shape}" + (f", kept by {where}" if array.kind == "kept" else "")

    def picture(self) -> Picture:
        """Areas by module, one on top of the other, with the peak marked."""
        width, left, right, top, base = 900.0, 76.0, 884.0, 64.0, 344.0
        marks = linear_ticks(0, self.peak)

        def x(moment: float) -> float:
            return left + moment * (right - left) / len(self.moments)

        def y(count: float) -> float:
            return base - count * (base - top) / (marks[-1] or 1)

        parts = [line for mark in marks for line in (
            rule(left, y(mark), right, y(mark), stroke=RULE), text(left - 8, y(mark) + 4, bytes_text(mark), "end"),
        )]  # fmt: skip
        floor, numbers, legend, said = [0] * len(self.moments), [], [], []
        rows = -(-len(self.bands) // 2)
        for i, (name, row) in enumerate(self.bands.items()):
            fill, most = SERIES[7 if name == GRADIENTS else i], max(row)
            said.append(f"{name}: at most {bytes_text(most)}")
            ceiling = [a + b for a, b in zip(floor, row)]
            area = {"d": _under(ceiling, x, y) + _under(floor, x, y), "fill": fill, "fill_rule": "evenodd"}
            parts.append(Element("path", Element("title", f"{i + 1} {said[-1]}"), stroke=PAPER, **area))
            highest = [at for at, n in enumerate(row) if n == most]
            at = highest[len(highest) // 2]
            if y(0) - y(most) >= 13:  # else there is no room for its number
                look = {"fill": INK, "stroke": PAPER, "stroke_width": 3, "paint_order": "stroke", "font_weight": "bold"}
                numbers.append(
                    text(x(at + 0.5), y(floor[at] + most / 2) + 4, f"{i + 1}", "middle", pointer_events="none", **look)
                )
            across, down = 16 + 440 * (i // rows), base + 56 + 20 * (i % rows)
            legend.append(Element("rect", x=across, y=down - 11, width=14, height=14, fill=fill))
            legend.append(text(across + 22, down, shorten(f"{i + 1}  {said[-1]}", 400, 12), fill=INK))
            floor = ceiling
        forward = sum(not moment.backward for moment in self.moments)
        axis = [rule(left, base, right, base)]
        axis.append(text(x(forward / 2), base + 20, f"forward: {plural(forward, 'op')}", "middle"))
        if forward < len(self.moments):
            axis.append(rule(x(forward), top, x(forward), base + 26))
            words = f"backward: {plural(len(self.moments) - forward, 'op')}"
            axis.append(text(x((forward + len(self.moments)) / 2), base + 20, words, "middle"))
        peak = x(self.peak_moment + 0.5)
        anchor = "start" if peak < width / 3 else "end" if peak > width * 2 / 3 else "middle"
        words = f"peak {bytes_text(self.peak)}, {self._when(self.peak_moment)}"
        words = shorten(words, 2 * min(peak, width - peak) if anchor == "middle" else 560, 12)
        axis += [rule(peak, top - 8, peak, y(self.peak)), text(peak, top - 12, words, anchor, fill=INK)]
        description = (
            f"{self._counts()}. At most {bytes_text(self.peak)}, {self._when(self.peak_moment)}. By module: "
            + "; ".join(said)
        )
        children = [*parts, *numbers, *axis, *legend]
        return titled(width, base + 60 + 20 * rows, self.title, description, children)


def _under(row: Sequence[int], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """The outline of the area under a staircase; each step is as wide as a run of moments without a change."""
    begins = [at for at, n in enumerate(row) if not at or row[at - 1] != n]
    steps = [f"V{y(row[at]):.1f}H{x(end):.1f}" for at, end in zip(begins, [*begins[1:], len(row)])]
    return f"M{x(0):.1f} {y(0):.1f}{''.join(steps)}V{y(0):.1f}Z"


# ---- what lives from when to when


def _moments(structure: Structure) -> tuple[Moment, ...]:
    """All ops forward, then the ops that had their turn backward; if none had one, the ops that will."""
    back = [op for op, _ in structure.turns] or [op for op in reversed(structure.ops) if op.differentiable]
    return (*(Moment(op, False) for op in structure.ops), *(Moment(op, True) for op in back))


class _Lives(Index):
    def __init__(self, structure: Structure, moments: Sequence[Moment]) -> None:
        super().__init__(structure)
        self.structure = structure
        self.made = {op.output: i for i, op in enumerate(structure.ops)}
        self.turn = {moment.op.id: i for i, moment in enumerate(moments) if moment.backward}
        self.over = len(moments)
        self.again: dict[int, int] = {}  # for each checkpoint, the moment at which it is computed again
        self.root: dict[str, str] = {}  # for each value, the value whose memory it shares
        for op in structure.ops:
            view = op.name in VIEWS and op.inputs[0] is not None
            if op.again and op.id in self.turn:
                self.again[op.again] = min(self.again.get(op.again, self.over), self.turn[op.id])
            self.root[op.output] = self.root.get(str(op.inputs[0]), str(op.inputs[0])) if view else op.output

    def all(self) -> Iterable[Alive]:
        kept = self._kept()
        yield from kept
        forward = {self.root.get(array.value, array.value) for array in kept if array.begin < len(self.made)}
        yield from self._passing(forward)
        yield from self._gradients()

    def _kept(self) -> list[Alive]:
        """Each kept memory once, from its making or its first keeper until the last keeper has had its turn.

        Ops within a checkpoint keep theirs from the moment at which they are computed again; until then, the checkpoint
        keeps what it was given, and its results, with which it compares the second ones.
        """
        found: dict[str, Alive] = {}
        for memory, alive in self._of_checkpoints():
            end = max(alive.end, found[memory].end if memory in found else 0)
            found[memory] = dataclasses.replace(alive, end=end)
        for i, op in enumerate(self.structure.ops):
            for saved in op.saved:
                value = self.values.get(saved.value)
                if value is not None and value.kind == "parameter":
                    continue
                begin = min(self.made.get(self.root.get(saved.value, saved.value), i), i)
                if op.again:  # of what came from outside, the checkpoint itself keeps the memory until then
                    begin = self.again.get(op.again, self.over)
                end = self.turn.get(op.id, self.over)
                name = value.name if value is not None else ""
                known = found.setdefault(saved.memory, Alive("kept", op, name, saved.value, saved.nbytes, begin, end))
                found[saved.memory] = Alive(
                    "kept", known.op, known.name, known.value or saved.value, max(known.nbytes, saved.nbytes),
                    min(known.begin, begin), max(known.end, end),
                )  # fmt: skip
        return list(found.values())

    def _of_checkpoints(self) -> Iterable[tuple[str, Alive]]:
        """Arrays that checkpoints keep until they compute again, each with its memory."""
        within = {op.output: op.again for op in self.structure.ops}
        memories = {saved.value: saved.memory for op in self.structure.ops for saved in op.saved}
        for op in self.structure.ops:
            for value in filter(None, op.inputs):
                for number in {op.again, within.get(value, op.again)} - {0}:
                    if value in within and within[value] != op.again:
                        of, end = self.values[value], self.again.get(number, self.over)
                        alive = Alive("kept", op, of.name, value, of.nbytes, self.made[value], end)
                        yield memories.get(value, value), alive

    def _passing(self, kept: set[str]) -> Iterable[Alive]:
        """Results that are not kept, until the last op that reads them; outputs, to the end."""
        last: dict[str, int] = {}
        for i, op in enumerate(self.structure.ops):
            for value in op.inputs:
                if value is not None:
                    last[self.root.get(value, value)] = i
        results = {self.root.get(value, value) for value in self.structure.outputs}
        for i, op in enumerate(self.structure.ops):
            result = self.values[op.output]
            if self.root[op.output] == op.output and op.output not in kept:
                end = self.over if op.output in results else max(last.get(op.output, i), i + 1)
                yield Alive("passing", op, result.name, result.id, result.nbytes, i, end)

    def _gradients(self) -> Iterable[Alive]:
        """Yield gradients: from the last reader's backward step to the maker's, or of parameters to the end."""
        begun: dict[str, int] = {}
        for op in self.structure.ops:
            for value in op.inputs:
                wanted = value is not None and (value in self.makers or self.values[value].kind == "parameter")
                if wanted and op.id in self.turn:
                    begun[str(value)] = min(begun.get(str(value), self.over), self.turn[op.id])
        for name, begin in begun.items():
            maker, of = self.makers.get(name), self.values[name]
            end = self.over if maker is None else self.turn.get(maker.id, begin)
            if begin < end:
                yield Alive("gradient", maker, of.name, name, of.nbytes, begin, end)
