"""Identical sequences of ops that follow each other: iterations of a loop, layers of a stack, heads side by side.

A picture shows the first sequence and the number of sequences. That is correct if a reader can derive the inputs of all
the others, and the ops that use their results. `Run` is the proof: for each input from outside of an iteration it has
the rule by which iterations differ (`Column`), and `ends` finds a rule for the ops that use their results.
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
    """The rule of an input that comes from the previous iteration: the index of the op that produced it."""

    maker: int


Rule = Literal["same", "own", "slice"] | Handed


@dataclass
class Column:
    """The values of one input of the iterations, from outside of each iteration.

    Attributes:
        values: by iteration.
        rule: "same": one value, or arrays with equal elements; "own": a separate parameter for each (or a constant that
            no other op uses), or several parameters by rotation; "slice": x[0], x[1], ... of one array; or `Handed`.
    """

    values: list[str]
    rule: Rule | None = None


class Ends(NamedTuple):
    """The ops that use a run's results, except ops that only use the last iteration's.

    Attributes:
        together: ops that use the results of all iterations in order, like `stack`, with the indices of these inputs.
        one_each: ops, one for each iteration, that only use its result, like a `reshape` before a `concat`.
        results: ids of results of the first iteration, if those of all iterations are results of the whole.
    """

    together: dict[str, tuple[int, ...]]
    one_each: list[tuple[Op, ...]]
    results: set[str]


class Run:
    """A list of identical iterations; `takes` adds the next iteration if a rule covers its differences."""

    def __init__(self, turn: Sequence[Op], index: Index) -> None:
        self.index = index
        self.turns = [turn]
        self.columns: dict[tuple[int, int], Column] = {}  # by the indices of the op and of its input
        self._steps: dict[int, list[int]] = {}  # differences of the numbers in the keys of `x[t]`
        made = {op.output: i for i, op in enumerate(turn)}
        for i, op in enumerate(turn):
            for j, value in enumerate(op.inputs):
                if value is not None and value not in made:
                    self.columns[i, j] = Column([value])

    def takes(self, turn: Sequence[Op]) -> bool:
        """Add one more iteration if it is like the others; otherwise change nothing."""
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
        """Return True if two ops compute the same; the index of x[t] may grow by a constant step."""
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
        """Return the rule by which an input has one more value; None if no rule holds."""
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
        """Return True if a value is one more separate parameter, or parameters repeat by rotation: a, b, a, b."""
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
        """Return True if x[i] follows x[i - 1], and only this iteration uses it."""
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
        """Loop-carried inputs: index of the op and of its input, to the index of the op that produced the value."""
        return {place: column.rule.maker for place, column in self.columns.items() if isinstance(column.rule, Handed)}

    @property
    def slices(self) -> list[tuple[Op, ...]]:
        """Groups of ops, one for each iteration, that return the iterations' slices of an array."""
        found = [column.values for column in self.columns.values() if column.rule == "slice"]
        return [tuple([self.index.makers[v] for v in values]) for values in map(list, dict.fromkeys(map(tuple, found)))]

    def ends(self) -> Ends | None:
        """Return the ops that use its results; None if the first iteration does not determine their inputs."""
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
        """Return True if only one op uses all results but the last, and it uses all of them, adjacent and in order."""
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
        """Return True if each result but the last has one reader, these are identical, and an op uses their results."""
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
        ends.one_each.append(tuple(alike))
        readers[-1].remove(alike[-1])
        return True


def _key(op: Op) -> object:
    return op.name, op.exact, op.scope, len(op.inputs)


def _step(one: Op, other: Op) -> list[int] | None:
    """Return the differences of the numbers in the parameters: zeros if equal; None if more than numbers differ."""
    if one.exact == other.exact:
        return [0] * len(NUMBER.findall(one.exact))
    if one.name != "getitem" or NUMBER.split(one.exact) != NUMBER.split(other.exact):
        return None
    return [int(b) - int(a) for a, b in zip(NUMBER.findall(one.exact), NUMBER.findall(other.exact))]
