"""Alike sequences of ops, one after the other: the turns of a loop, the layers of a stack, the heads side by side.

A picture shows the first of them and says how many there are. It may, if a reader can tell from it what each of the
others reads and who reads their results. `Run` is the proof: it holds, for each place where a turn reads from outside,
the rule by which the turns differ there (`Column`), and `ends` finds a rule for the readers of their results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .calls import Index
from .structure import Op

NUMBER = re.compile(r"-?\d+")

COMMUTATIVE = frozenset({
    "add", "multiply", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "hypot", "logaddexp",
})  # fmt: skip
"""Ops whose result does not depend on the order of their inputs."""


class Handed(NamedTuple):
    """The rule of a place that reads a result of the turn before: the place of the op that made it."""

    maker: int


Rule = Literal["same", "own", "slice"] | Handed


@dataclass
class Column:
    """The values that alike turns read in one place, from outside of each turn.

    Attributes:
        values: by turn.
        rule: "same": one value, or arrays of the same numbers; "own": each its own parameter (or a constant that
            nobody else reads), or several used in turn; "slice": x[0], x[1], ... of one array; or `Handed`.
    """

    values: list[str]
    rule: Rule | None = None


class Ends(NamedTuple):
    """The readers of a run's results, as far as they do not read the last turn alone.

    Attributes:
        together: ops that read the results of all turns in order, as a `stack` does, with the places of those.
        alike: ops, one for each turn, that read that turn's result alone, as a `reshape` before a `concat` does.
        results: ids of results of the first turn, if all turns' are results of the whole.
    """

    together: dict[str, tuple[int, ...]]
    alike: list[tuple[Op, ...]]
    results: set[str]


class Run:
    """Alike turns; begins with one, and takes those that follow while it can say how they differ."""

    def __init__(self, turn: Sequence[Op], index: Index) -> None:
        self.index = index
        self.turns = [turn]
        self.columns: dict[tuple[int, int], Column] = {}  # by the place of the op, and of its input
        self._steps: dict[int, list[int]] = {}  # of the numbers in the keys of `x[t]`, from turn to turn
        made = {op.output: i for i, op in enumerate(turn)}
        for i, op in enumerate(turn):
            for j, value in enumerate(op.inputs):
                if value is not None and value not in made:
                    self.columns[i, j] = Column([value])

    def takes(self, turn: Sequence[Op]) -> bool:
        """Add one more turn, if it is like the others; else change nothing."""
        last = self.turns[-1]
        if len(turn) != len(last):
            return False
        made, before = ({op.output: i for i, op in enumerate(ops)} for ops in (turn, last))
        rules: dict[tuple[int, int], Rule] = {}
        steps: dict[int, list[int]] = {}
        for i, (op, former) in enumerate(zip(turn, last)):
            if not self._are_alike(i, former, op, steps):
                return False
            for j, (value, other) in enumerate(zip(op.inputs, former.inputs)):
                if (i, j) not in self.columns:
                    if value is not None and made.get(value) != before.get(str(other)):
                        return False
                    continue
                rule = None if value is None or value in made else self._rule(self.columns[i, j], value, before, turn)
                if rule is None:
                    return False
                rules[i, j] = rule
        for place, rule in rules.items():
            column = self.columns[place]
            column.rule = rule
            column.values.append(str(turn[place[0]].inputs[place[1]]))
        self._steps.update(steps)
        self.turns.append(turn)
        return True

    def _are_alike(self, place: int, one: Op, other: Op, steps: dict[int, list[int]]) -> bool:
        """True if two ops compute the same; those that read x[t] may differ in numbers that grow evenly."""
        values = self.index.values
        made, makes = values[one.output], values[other.output]
        if (one.name, len(one.inputs), one.differentiable) != (other.name, len(other.inputs), other.differentiable):
            return False
        if (made.shape, made.dtype) != (makes.shape, makes.dtype):
            return False
        if any((v is None) != (w is None) for v, w in zip(one.inputs, other.inputs)):
            return False
        step = _step(one, other)
        if step is None or (len(self.turns) > 1 and step != self._steps.get(place, [0] * len(step))):
            return False
        if any(step):
            steps[place] = step
        return True

    def _rule(self, column: Column, value: str, before: dict[str, int], turn: Sequence[Op]) -> Rule | None:
        """The rule by which a place reads one more value; None if no rule holds."""
        index, values, known = self.index, column.values, column.rule
        if known in (None, "same") and (value == values[0] or index.are_equal(value, values[0])):
            return "same"
        if value in before:
            handed = Handed(before[value])
            return handed if known in (None, handed) else None
        if known in (None, "own") and self._is_next_own(values, value, turn):
            return "own"
        return "slice" if known in (None, "slice") and self._is_next_slice(values, value, turn) else None

    def _is_next_own(self, values: list[str], value: str, turn: Sequence[Op]) -> bool:
        """True if a value is one more parameter of its own, or several are used in turn: a, b, a, b."""
        if not (self.index.is_own(value, turn) and self.index.is_own(values[-1], self.turns[-1])):
            return False
        one, other = (self.index.values[v] for v in (value, values[-1]))
        if (one.kind, one.frozen) != (other.kind, other.frozen):
            return False
        if value not in values and len(set(values)) == len(values):
            return int(value[1:]) > int(values[-1][1:])  # in the order in which they were met first
        period = values.index(values[0], 1) if values[0] in values[1:] else len(values)
        return value == values[len(values) - period]

    def _is_next_slice(self, values: list[str], value: str, turn: Sequence[Op]) -> bool:
        """True if x[i] follows x[i - 1], and this turn alone reads it."""
        one, other = (self.index.makers.get(v) for v in (values[-1], value))
        if one is None or other is None or one.name != "getitem" or other.name != "getitem":
            return False
        if one.inputs != other.inputs or one.scope != other.scope:
            return False
        alone = all(
            {op.id for op in self.index.readers[made.output]} <= {op.id for op in ops}
            for made, ops in ((one, self.turns[-1]), (other, turn))
        )
        step = _step(one, other)
        first = self.index.makers[values[0]]
        begun = _step(first, self.index.makers[values[1]]) if len(values) > 1 else step
        return alone and step is not None and any(step) and step == begun

    # ---- what the whole run is

    @property
    def handed(self) -> dict[tuple[int, int], int]:
        """For each place that reads a result of the turn before, the place of the op that made it."""
        return {place: column.rule.maker for place, column in self.columns.items() if isinstance(column.rule, Handed)}

    @property
    def slices(self) -> list[tuple[Op, ...]]:
        """Groups of ops, one for each turn, that take the turns' slices of an array."""
        found = [column.values for column in self.columns.values() if column.rule == "slice"]
        return [tuple([self.index.makers[v] for v in values]) for values in map(list, dict.fromkeys(map(tuple, found)))]

    def ends(self) -> Ends | None:
        """The readers of its results; None if a picture of one turn could not tell what they read."""
        ends = Ends({}, [], set())
        inside = {op.id for turn in self.turns for op in turn}
        side_by_side = not self.handed
        for i in range(len(self.turns[0])):
            made = [turn[i].output for turn in self.turns]
            readers = [[op for op in self.index.readers_of(value) if op.id not in inside] for value in made]
            results = [value in self.index.outputs for value in made]
            if all(results):
                ends.results.add(made[0])
            elif any(results[:-1]):
                return None
            if not any(readers[:-1]) and not (side_by_side and readers[-1]):
                continue
            if not self._together(made, readers, ends) and not self._one_by_one(readers, ends):
                return None
            if side_by_side and readers[-1]:
                return None
        return ends if ends.together or not side_by_side else None

    def _together(self, made: list[str], readers: list[list[Op]], ends: Ends) -> bool:
        """True if the only reader of all results but the last reads all of them, side by side and in order."""
        reader = readers[0][0] if readers[0] else None
        if reader is None or any(found != [reader] for found in readers[:-1]) or reader not in readers[-1]:
            return False
        places = [j for j, value in enumerate(reader.inputs) if value in made]
        whole = [reader.inputs[j] for j in places] == made and places == list(range(places[0], places[-1] + 1))
        takes_many = len(set(reader.operands)) < len(reader.operands) or reader.name in COMMUTATIVE
        if not whole or not takes_many or reader.id in ends.together:
            return False
        ends.together[reader.id] = tuple(places)
        readers[-1].remove(reader)
        return True

    def _one_by_one(self, readers: list[list[Op]], ends: Ends) -> bool:
        """True if each result but the last has one reader, these are alike, and their results are read together."""
        first = readers[0][0] if readers[0] else None
        if first is None or any(len(found) != 1 for found in readers[:-1]):
            return False
        alike = [*(found[0] for found in readers[:-1])]
        alike.extend(op for op in readers[-1][:1] if _key(op) == _key(first))
        if len(alike) < len(self.turns) or len({_key(op) for op in alike}) > 1:
            return False
        if sum(value is not None for value in first.inputs) != 1 or len({op.id for op in alike}) < len(alike):
            return False
        made = [op.output for op in alike]
        if any(self.index.values[value].name for value in made) or not self.index.outputs.isdisjoint(made):
            return False
        if not self._together(made, [self.index.readers_of(value) for value in made], ends):
            return False
        ends.alike.append(tuple(alike))
        readers[-1].remove(alike[-1])
        return True


def _key(op: Op) -> object:
    return op.name, op.exact, op.scope, len(op.inputs)


def _step(one: Op, other: Op) -> list[int] | None:
    """By how much the numbers in the parameters differ: all zeros if they are equal; None if more than numbers do."""
    if one.exact == other.exact:
        return [0] * len(NUMBER.findall(one.exact))
    if one.name != "getitem" or NUMBER.split(one.exact) != NUMBER.split(other.exact):
        return None
    return [int(b) - int(a) for a, b in zip(NUMBER.findall(one.exact), NUMBER.findall(other.exact))]
