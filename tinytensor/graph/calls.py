"""Calls of modules and their contents, level by level, for code that looks for repeated structure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .structure import Op, Scope, Structure, Value

NUMBER = re.compile(r"\d+")


class Index:
    """The parts of a structure by id; `makers` maps each value to the op that made it, `readers` to its readers."""

    def __init__(self, structure: Structure) -> None:
        self.scopes = {scope.id: scope for scope in structure.scopes}
        self.values = {value.id: value for value in structure.values}
        self.makers = {op.output: op for op in structure.ops}
        self.readers: dict[str, list[Op]] = {}
        for op in structure.ops:
            for value in op.inputs:
                if value is not None:
                    self.readers.setdefault(value, []).append(op)

    def is_parameter(self, value: str | None) -> bool:
        return value is not None and self.values[value].kind == "parameter"

    def differ(self, one: str | None, other: str | None) -> bool:
        """True if two inputs of alike calls differ in another way: masks that hide other places, or other numbers
        given as constant arrays without dimensions, as a factor is."""
        if one == other or one is None or other is None:
            return False
        first, second = self.values[one], self.values[other]
        factors = first.shape == () and (first.kind, second.kind) == ("constant", "constant")
        return first.hidden != second.hidden or (factors and first.numbers != second.numbers)


@dataclass(eq=False)
class Call:
    """A call of a module, or a stage.

    Attributes:
        ops: all ops that were computed in it.
        items: the same in order, with each inner call in place of its ops.
    """

    scope: Scope
    index: Index
    ops: list[Op] = field(default_factory=list)
    items: list[Call | Op] = field(default_factory=list)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """Equal for alike calls: the same ops on the same shapes in the same modules, wired the same way inside.

        Values from outside have numbers in the order of their first use. A layer's frozen parameter differs from a
        trained one.
        """
        scopes, values = self.index.scopes, self.index.values
        depth = len(self.scope.path)
        numbers: dict[str, int] = {}
        stage = self.scope.kind == "stage"
        rows: list[object] = [self.scope.kind, NUMBER.sub("", self.scope.name) if stage else ""]
        for op in self.ops:
            wires = tuple([None if v is None else numbers.setdefault(v, len(numbers)) for v in op.inputs])
            numbers.setdefault(op.output, len(numbers))
            inner = scopes[op.scope].path[depth:] if op.scope is not None else ()
            sizes = tuple([None if v is None else _size(values[v]) for v in op.inputs])
            result = values[op.output].shape, values[op.output].dtype
            parameters = () if stage and op.name == "getitem" else op.parameters
            rows.append((op.name, inner, wires, sizes, result, parameters, op.differentiable))
        return tuple(rows)


def _size(value: Value) -> object:
    """The shape, and for a module's parameter its kind, which tells if it is trained."""
    return value.shape, value.kind if value.owned else ""


def call_tree(structure: Structure, index: Index) -> list[Call | Op]:
    """The items of the outermost level."""
    calls = {scope.id: Call(scope, index) for scope in structure.scopes}
    outermost: list[Call | Op] = []
    for op in structure.ops:
        item: Call | Op = op
        place = op.scope
        while place is not None:
            call = calls[place]
            call.ops.append(op)
            _append_once(call.items, item)
            item, place = call, call.scope.parent
        _append_once(outermost, item)
    return outermost


def _append_once(items: list[Call | Op], item: Call | Op) -> None:
    if not items or items[-1] is not item:
        items.append(item)


def links(before: Sequence[Op], after: Sequence[Op]) -> tuple[object, ...]:
    """The wiring to alike ops before: for each input "same", else the place of the op there that made it, or None."""
    made = {op.output: i for i, op in enumerate(before)}
    pairs = input_pairs(before, after)
    return tuple("same" if v == w else made.get(w) if w is not None else None for v, w in pairs)


def input_pairs(one: Sequence[Op], other: Sequence[Op]) -> list[tuple[str | None, str | None]]:
    """The inputs of two alike sequences of ops, side by side."""
    return [pair for first, second in zip(one, other) for pair in zip(first.inputs, second.inputs)]
