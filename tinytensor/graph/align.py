"""Match the parts of two computations: calls of modules by their names, ops by their order.

Both are trees: modules hold modules and ops. On each level, the alignment of the two sequences fits as much as possible
(Needleman and Wunsch 1970), so an extra layer does not shift everything after it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .calls import Call, Index, call_tree
from .cost import MOVEMENT
from .fold import Folded, fold, unfolded, unrolled
from .options import Options
from .plan import main_ops
from .short_text import count_text, shape_text
from .structure import Op, Structure, around

Item = Call | Op
MarkName = Literal["same", "inside", "changed", "moved", "only a", "only b"]

LONGEST = 1500
"""Levels with more items that differ are not compared, since the steps grow with the square of the number."""


@dataclass(frozen=True)
class Part:
    """An op, or a call of a module, in one of two graphs that are compared.

    Attributes:
        id: the id of the `Op` or the `Scope`.
        path: its place, as "encoder.layers.0.norm1"; for an op, the path of the module around it and the op's name.
        name: the name of the module in the module around it, or of the op.
        kind: the module's class; "op", "stage" or "formula".
        shape: the shape of its result.
        parameters: how many numbers its parameters hold.
        flops: an estimate of its multiplications and additions.
        repeated: "× 6" if it represents several identical parts.
    """

    id: str
    path: str
    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    flops: int
    repeated: str = ""


@dataclass(frozen=True)
class Match:
    """A part of one graph and its counterpart in another; or a part that only one of them has.

    Attributes:
        a, b: the parts; None if absent from a graph.
        mark: "same", contents included; "inside" if only the contents differ; "changed"; "moved" to another place in
            the order of calls; "only a", "only b".
        what: the changes, in words.
        inside: the contents of a module.
    """

    a: Part | None
    b: Part | None
    mark: MarkName
    what: tuple[str, ...] = ()
    inside: tuple[Match, ...] = ()

    def walk(self) -> Iterator[Match]:
        """This match and all inside it, outer ones first."""
        yield self
        for match in self.inside:
            yield from match.walk()


class Side:
    """One of the two graphs: the parts that are drawn, level by level, and their descriptions."""

    def __init__(self, folded: Folded, constants: bool) -> None:
        shown = folded.structure
        if not constants:
            shown = dataclasses.replace(shown, ops=tuple(main_ops(shown)))
        self.ops = shown.ops
        index = Index(shown)
        self.items, self.makers = call_tree(shown, index), index.makers
        self.index = Index(folded.whole)
        self.labels = folded.labels
        self._every: dict[str, list[Op]] = {}  # by id of a scope; including ops that folding left out
        for op in folded.whole.ops:
            for place in around(op.scope, self.index.scopes):
                self._every.setdefault(place, []).append(op)

    def part(self, item: Item) -> Part:
        """The description of an op or a call."""
        shape = self.index.values[_ops(item)[-1].output].shape
        if isinstance(item, Op):
            path = self.index.path(item)
            return Part(item.id, path, item.name, "op", shape, self.count([item]), item.flops)
        scope, ops = item.scope, self._every[item.scope.id]
        return Part(
            scope.id, scope.place, scope.name, scope.kind, shape, self.count(ops), sum(op.flops for op in ops),
            self.labels.get(scope.id, ""),
        )  # fmt: skip

    def count(self, ops: Sequence[Op]) -> int:
        """How many numbers there are in the parameters that the ops read."""
        values = self.index.values
        read = {v for op in ops for v in op.inputs if v is not None and values[v].kind == "parameter"}
        return sum(math.prod(values[v].shape) for v in read)

    def source(self, value: str) -> str:
        """The name of an array, for a sentence."""
        maker = self.makers.get(value)
        return self.index.values[value].name or (self.part(maker).path if maker is not None else "an input")


def align(first: Structure, second: Structure, options: Options) -> tuple[Match, ...]:
    """The parts of two computations side by side, if these options draw them.

    Raises ValueError if too many items of one level differ.
    """
    folding = unrolled if options.unroll else fold if options.fold else unfolded
    return _Alignment(*(Side(folding(structure), options.constants) for structure in (first, second))).matches()


class _Pair(NamedTuple):
    """Items that belong together, before their differences are found; `moved` is the place in the second graph."""

    a: Item | None
    b: Item | None
    moved: str = ""
    inside: tuple[_Pair, ...] = ()


class _Alignment:
    def __init__(self, one: Side, other: Side) -> None:
        self.one, self.other = one, other
        self.partner: dict[str, Op] = {}  # ops of the second graph by the id of their partner in the first
        self.loose: set[tuple[bool, str]] = set()  # ops that moved or have no partner: of the second graph?, id
        self.leaves: dict[str, str] = {}  # pairs of arrays from outside, matched in the order of their first use

    def matches(self) -> tuple[Match, ...]:
        return tuple([self._match(pair) for pair in self._level(self.one.items, self.other.items)])

    # ---- what belongs together

    def _level(self, first: list[Item], second: list[Item]) -> tuple[_Pair, ...]:
        """The pairs inside two modules; a call has moved if its partner is elsewhere in the order."""
        rows = aligned(first, second)
        left = {_name(a): a for a, b in rows if b is None and isinstance(a, Call)}
        right = {_name(b): b for a, b in rows if a is None and isinstance(b, Call)}
        moved = left.keys() & right.keys()
        found = []
        for a, b in rows:
            name = _name(a or b)
            if name in moved and b is None and a is left[name]:
                found.append(self._pair(a, right[name], _where(second, right[name])))
            elif not (name in moved and a is None and b is right[name]):
                found.append(self._pair(a, b))
        return tuple(found)

    def _pair(self, a: Item | None, b: Item | None, moved: str = "") -> _Pair:
        another = isinstance(a, Call) and isinstance(b, Call) and _is_another(a, b)  # their contents do not match
        if moved or a is None or b is None or another:
            self.loose |= {(False, op.id) for op in _ops(a)} | {(True, op.id) for op in _ops(b)}
        if isinstance(a, Op) and isinstance(b, Op):
            self.partner[a.id] = b
        first, second = (item.items if isinstance(item, Call) and not another else [] for item in (a, b))
        return _Pair(a, b, moved, self._level(first, second))

    # ---- what differs

    def _match(self, pair: _Pair) -> Match:
        a = self.one.part(pair.a) if pair.a is not None else None
        b = self.other.part(pair.b) if pair.b is not None else None
        inside = tuple([self._match(inner) for inner in pair.inside])
        if a is None or b is None:
            return Match(a, b, "only b" if a is None else "only a", (), inside)
        what = list(_changes(a, b))
        if isinstance(pair.a, Op) and isinstance(pair.b, Op):
            what += self._op_changes(pair.a, pair.b)
        mark: MarkName = "changed" if what else "same"
        if pair.moved:
            mark, what = "moved", [pair.moved, *what]
        elif not what and any(match.mark != "same" for match in inside):
            mark = "inside"
        return Match(a, b, mark, tuple(what), inside)

    def _op_changes(self, a: Op, b: Op) -> Iterator[str]:
        """Changes of an op's numbers and sources; sources skip ops that moved and ops that only one graph has."""
        if a.parameters != b.parameters:
            former, now = (dict(op.parameters) for op in (a, b))
            for name in {**former, **now}:
                if former.get(name) != now.get(name):
                    yield f"{name} {former.get(name, 'none')} → {now.get(name, 'none')}".lstrip()
        if (False, a.id) in self.loose:
            return
        for v, w in zip(a.inputs, b.inputs):
            if v is not None and w is not None and not self._is_alike(self._origin(v, False), self._origin(w, True)):
                yield f"reads {self.one.source(v)} → {self.other.source(w)}"

    def _is_alike(self, v: str, w: str) -> bool:
        """True if an array of the first graph corresponds to one of the second."""
        maker, other = self.one.makers.get(v), self.other.makers.get(w)
        if maker is None or other is None:
            return maker is other and self.leaves.setdefault(v, w) == w
        return self.partner.get(maker.id) is other

    def _origin(self, value: str, second: bool) -> str:
        """The array behind a value, before the ops that moved or that only one graph has."""
        side = self.other if second else self.one
        while value in side.makers and (second, side.makers[value].id) in self.loose:
            before = next((v for v in side.makers[value].inputs if v is not None), None)
            if before is None:
                break
            value = before
        return value


def _changes(a: Part, b: Part) -> Iterator[str]:
    if a.name != b.name and a.name != a.kind:
        yield f"{a.name} → {b.name}"
    if a.kind != b.kind:
        yield f"{a.kind} → {b.kind}"
    if a.repeated != b.repeated:
        yield f"{a.repeated or 'once'} → {b.repeated or 'once'}"
    if a.parameters != b.parameters and (a.kind != "op" or (a.parameters and b.parameters)):
        yield f"parameters {count_text(a.parameters)} → {count_text(b.parameters)}"
    if a.shape != b.shape:
        yield f"result {shape_text(a.shape)} → {shape_text(b.shape)}"


def _ops(item: Item | None) -> list[Op]:
    return item.ops if isinstance(item, Call) else [item] if item is not None else []


def _name(item: Item | None) -> str:
    return item.scope.name if isinstance(item, Call) else item.name if item is not None else ""


def _where(items: list[Item], item: Item) -> str:
    place = items.index(item) + 1
    return f"before {_name(items[place])}" if place < len(items) else "last"


# ---- one level


def aligned(first: Sequence[Item], second: Sequence[Item]) -> list[tuple[Item | None, Item | None]]:
    """Two sequences side by side, in the order of both; the pairs have the largest sum of fits.

    Raises ValueError if both sides have more than 1,500 items left between their equal ends.
    """
    fit = _Fit(first, second)
    begin, end, most = 0, 0, min(len(first), len(second))
    while begin < most and fit(first[begin], second[begin]) == _Fit.best:
        begin += 1
    while end < most - begin and fit(first[-1 - end], second[-1 - end]) == _Fit.best:
        end += 1
    head = [*zip(first[:begin], second[:begin])]
    tail = [*zip(first[len(first) - end :], second[len(second) - end :])]
    one, other = first[begin : len(first) - end], second[begin : len(second) - end]
    if min(len(one), len(other)) > LONGEST:
        raise ValueError(
            f"compare: {len(one):,} and {len(other):,} ops and calls that differ are in one module, more than the "
            f"{LONGEST:,} that can be compared; mark the iterations of loops by tt.named_scope, so that equal ones fold"
        )
    return [*head, *_best(one, other, fit), *tail]


class _Fit:
    """How well two items fit, from 0 (not at all)."""

    best = 6

    def __init__(self, first: Sequence[Item], second: Sequence[Item]) -> None:
        self.names = [{_name(item) for item in items if isinstance(item, Call)} for items in (first, second)]

    def __call__(self, a: Item, b: Item) -> int:
        if isinstance(a, Op) and isinstance(b, Op):
            shapes = len(a.inputs) == len(b.inputs)
            return 4 + (a.parameters == b.parameters) + shapes if a.name == b.name else 0
        if not isinstance(a, Call) or not isinstance(b, Call):
            return 0
        if a.scope.name == b.scope.name:
            return 4 + (a.scope.kind == b.scope.kind) + (a.signature == b.signature)
        renamed = a.scope.name not in self.names[1] and b.scope.name not in self.names[0]
        return 2 if renamed and not _is_another(a, b) else 0


def _is_another(a: Call, b: Call) -> bool:
    """True if two calls have different classes, and fewer than half of their names in common (Dice's coefficient)."""
    one, other = ({_name(item) for item in call.items} - MOVEMENT for call in (a, b))
    return a.scope.kind != b.scope.kind and 2 * len(one & other) / max(1, len(one) + len(other)) < 0.5


def _best(one: Sequence[Item], other: Sequence[Item], fit: _Fit) -> list[tuple[Item | None, Item | None]]:
    """By dynamic programming: `sums[i][j]` is the best sum from item i of one and item j of the other on."""
    sums = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in reversed(range(len(one))):
        for j in reversed(range(len(other))):
            both = fit(one[i], other[j])
            sums[i][j] = max(sums[i + 1][j], sums[i][j + 1], both + sums[i + 1][j + 1] if both else 0)
    found: list[tuple[Item | None, Item | None]] = []
    i = j = 0
    while i < len(one) or j < len(other):
        both = fit(one[i], other[j]) if i < len(one) and j < len(other) else 0
        if both and sums[i][j] == both + sums[i + 1][j + 1]:
            found.append((one[i], other[j]))
            i, j = i + 1, j + 1
        elif j == len(other) or (i < len(one) and sums[i][j] == sums[i + 1][j]):
            found.append((one[i], None))
            i += 1
        else:
            found.append((None, other[j]))
            j += 1
    return found
