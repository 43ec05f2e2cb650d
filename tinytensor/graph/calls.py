"""Calls of modules and their contents, level by level, for code that looks for repeated structure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .structure import Op, Scope, Structure, Value, around

NUMBER = re.compile(r"\d+")


class Index:
    """The parts of a structure by id; `makers` maps each value to the op that made it, `readers` to its readers."""

    def __init__(self, structure: Structure) -> None:
        self.ops = {op.id: op for op in structure.ops}
        self.scopes = {scope.id: scope for scope in structure.scopes}
        self.outputs = frozenset(structure.outputs)
        self.values = {value.id: value for value in structure.values}
        self.makers = {op.output: op for op in structure.ops}
        self.readers: dict[str, list[Op]] = {}
        for op in structure.ops:
            for value in op.inputs:
                if value is not None:
                    self.readers.setdefault(value, []).append(op)

    def readers_of(self, value: str) -> list[Op]:
        """The ops that read a value, each once."""
        return list({op.id: op for op in self.readers.get(value, ())}.values())

    def path(self, op: Op) -> str:
        """The place of an op: the names of the modules within the outermost one, and its own."""
        return ".".join([*(self.scopes[op.scope].path[1:] if op.scope is not None else ()), op.name])

    def are_equal(self, one: str, other: str) -> bool:
        """True if two arrays without a gradient are known to hold the same numbers."""
        first, second = self.values[one], self.values[other]
        alike = (first.shape, first.dtype, first.checksum) == (second.shape, second.dtype, second.checksum)
        return bool(first.checksum) and alike

    def is_own(self, value: str, ops: Sequence[Op]) -> bool:
        """True for a parameter, and for a constant array that only these ops read, as the mask of a dropout is."""
        kind, shape = self.values[value].kind, self.values[value].shape
        if kind == "constant" and shape:
            return {op.id for op in self.readers[value]} <= {op.id for op in ops}
        return kind == "parameter"


@dataclass(eq=False)
class Call:
    """A call of a module, or a stage.

    Attributes:
        ops: all ops that were computed in it.
        items: the same in order, with each inner call instead of its ops.
    """

    scope: Scope
    index: Index
    ops: list[Op] = field(default_factory=list)
    items: list[Call | Op] = field(default_factory=list)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """Equal for identical calls: the same ops on the same shapes in the same modules, wired the same way inside.

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
        for place in around(op.scope, index.scopes):
            call = calls[place]
            call.ops.append(op)
            _append_once(call.items, item)
            item = call
        _append_once(outermost, item)
    return outermost


def _append_once(items: list[Call | Op], item: Call | Op) -> None:
    if not items or items[-1] is not item:
        items.append(item)
