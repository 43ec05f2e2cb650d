"""Repeated structure, once: calls of modules that follow each other and are built alike.

The layers of a stack differ in their parameters and in nothing else, so a picture shows one of them and says how many
there are. Calls that share their parameters as well are the same layer again. Stages named by `named_scope` are folded
likewise, as the turns of a loop: their names may differ in numbers, and so may the places they read, x[0], x[1], ...
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .structure import Op, Scope, Structure

NUMBER = re.compile(r"\d+")


@dataclass
class Folded:
    """A structure in which the first of each run of alike calls stands for all.

    Attributes:
        structure: with the others left out; what read their results now reads the first one's.
        labels: by id of a scope that stands for several, "6 alike" or "×6" (the same parameters again).
        names: by id of such a scope, the names of the first and the last.
        members: by id of an op that stands for several, the ops it stands for.
    """

    structure: Structure
    labels: dict[str, str] = field(default_factory=dict)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: dict[str, list[Op]] = field(default_factory=dict)


def fold(structure: Structure) -> Folded:
    """Fold every run of two or more; linear in the size of the structure."""
    index = _Index(structure)
    folded = Folded(structure)
    stand_ins: dict[str, str] = {}  # ids of ops, values and scopes that are left out -> what stands for them
    levels = [_call_tree(structure, index)]
    while levels:
        for run in _runs(levels.pop()):
            if len(run) > 1 and not _read_elsewhere(run, index):
                folded.labels[run[0].scope.id] = _label(run, index)
                _merge(run, folded, stand_ins)
            levels.append(run[0].items)
    if stand_ins:
        _merge_readers(structure, folded, stand_ins)
        folded.structure = _without(structure, stand_ins)
    return folded


def _merge(run: list[_Call], folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let the first call stand for all; changes `folded` and `stand_ins`."""
    first, *others = (call.scope for call in run)
    folded.names[first.id] = (first.name, others[-1].name)
    stand_ins.update((scope.id, first.id) for scope in others)
    for original, *alike in zip(*(call.ops for call in run)):
        folded.members.setdefault(original.id, [original]).extend(alike)
        for op in alike:
            stand_ins[op.id], stand_ins[op.output] = original.id, original.output


def _merge_readers(structure: Structure, folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let one stand for all ops that read each call of a run alike, as those of a `stack` after a loop do."""
    visible = {value.id for value in structure.values if value.name} | set(structure.outputs)
    known: dict[object, Op] = {}
    for op in structure.ops:
        if op.id in stand_ins or op.output in visible:
            continue
        inputs = tuple([v if v is None else _final(v, stand_ins) for v in op.inputs])
        first = known.setdefault((op.name, inputs, op.parameters, op.scope), op)
        if first.inputs != op.inputs:
            stand_ins[op.id], stand_ins[op.output] = first.id, first.output
            folded.members.setdefault(first.id, [first]).append(op)


# ---- calls, and what they hold


class _Index:
    """What a structure has, by id; `readers` has for each value the ops that read it."""

    def __init__(self, structure: Structure) -> None:
        self.scopes = {scope.id: scope for scope in structure.scopes}
        self.values = {value.id: value for value in structure.values}
        self.readers: dict[str, list[Op]] = {}
        for op in structure.ops:
            for value in op.inputs:
                if value is not None:
                    self.readers.setdefault(value, []).append(op)

    def is_parameter(self, value: str | None) -> bool:
        return value is not None and self.values[value].kind == "parameter"


@dataclass(eq=False)
class _Call:
    """A call of a module, or a stage.

    Attributes:
        ops: all that were computed in it.
        items: the same in order, where what an inner call computed stands as that call.
    """

    scope: Scope
    index: _Index
    ops: list[Op] = field(default_factory=list)
    items: list[_Call | Op] = field(default_factory=list)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """What makes two calls alike: the same ops on the same shapes in the same modules, wired the same way inside.

        Values from outside are numbered in the order of their first use.
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
            sizes = tuple([None if v is None else values[v].shape for v in (*op.inputs, op.output)])
            parameters = () if stage and op.name == "getitem" else op.parameters
            rows.append((op.name, inner, wires, sizes, parameters, op.differentiable))
        return tuple(rows)


def _call_tree(structure: Structure, index: _Index) -> list[_Call | Op]:
    """The items of the outermost level."""
    calls = {scope.id: _Call(scope, index) for scope in structure.scopes}
    outermost: list[_Call | Op] = []
    for op in structure.ops:
        item: _Call | Op = op
        place = op.scope
        while place is not None:
            call = calls[place]
            call.ops.append(op)
            _append_once(call.items, item)
            item, place = call, call.scope.parent
        _append_once(outermost, item)
    return outermost


def _append_once(items: list[_Call | Op], item: _Call | Op) -> None:
    if not items or items[-1] is not item:
        items.append(item)


# ---- runs of alike calls


def _runs(items: list[_Call | Op]) -> Iterator[list[_Call]]:
    """Each call among the items, together with the alike ones that follow it at once."""
    run: list[_Call] = []
    for item in items:
        if run and isinstance(item, _Call) and _continues(run, item):
            run.append(item)
            continue
        if run:
            yield run
        run = [item] if isinstance(item, _Call) else []
    if run:
        yield run


def _continues(run: list[_Call], call: _Call) -> bool:
    """Whether a call is like those of a run, and wired to the last one as they are to each other."""
    last = run[-1]
    if len(call.ops) != len(last.ops) or call.signature != last.signature:
        return False
    return len(run) == 1 or _links(last, call) == _links(run[-2], last)


def _links(before: _Call, after: _Call) -> tuple[object, ...]:
    """How a call is wired to the alike one before it: each input is what that one read or made there, or neither."""
    made = {op.output: i for i, op in enumerate(before.ops)}
    return tuple("same" if v == w else made.get(w) if w is not None else None for v, w in _input_pairs(before, after))


def _input_pairs(one: _Call, other: _Call) -> list[tuple[str | None, str | None]]:
    """What two alike calls read, side by side."""
    return [pair for first, second in zip(one.ops, other.ops) for pair in zip(first.inputs, second.inputs)]


def _read_elsewhere(run: list[_Call], index: _Index) -> bool:
    """Whether what one call hands to another is read outside of them as well: then they are not one."""
    computed_in = {op.id: call for call in run for op in call.ops}
    for call in run:
        for op in call.ops:
            readers = {computed_in.get(reader.id) for reader in index.readers.get(op.output, ())} - {call}
            if None in readers and len(readers) > 1:
                return True
    return False


def _label(run: list[_Call], index: _Index) -> str:
    """×6 where every call reads the parameters of the first one, "6 alike" where they have their own or none.

    Stages have no parameters of their own, so that without any they are the same again.
    """
    pairs = [pair for call in run[1:] for pair in _input_pairs(run[0], call)]
    shared = [v == w for v, w in pairs if index.is_parameter(v) and index.is_parameter(w)]
    again = all(shared) and (bool(shared) or run[0].scope.kind == "stage")
    return f"\N{MULTIPLICATION SIGN}{len(run)}" if again else f"{len(run)} alike"


# ---- the structure without the others


def _final(name: str, stand_ins: dict[str, str]) -> str:
    """What stands for something in the end."""
    while name in stand_ins:
        name = stand_ins[name]
    return name


def _without(structure: Structure, stand_ins: dict[str, str]) -> Structure:
    left_out = set(stand_ins)
    scopes = [scope for scope in structure.scopes if scope.id not in left_out]
    kept_scopes = {scope.id for scope in scopes}
    while True:  # scopes inside of those left out go as well
        inner = {scope.id for scope in scopes if scope.parent is not None and scope.parent not in kept_scopes}
        if not inner:
            break
        kept_scopes -= inner
        scopes = [scope for scope in scopes if scope.id not in inner]
    ops = [
        dataclasses.replace(op, inputs=tuple([v if v is None else _final(v, stand_ins) for v in op.inputs]))
        for op in structure.ops
        if op.id not in left_out
    ]
    scopes = [
        dataclasses.replace(scope, arguments=tuple([(word, _final(v, stand_ins)) for word, v in scope.arguments]))
        for scope in scopes
    ]
    used = {v for op in ops for v in (*op.inputs, op.output)}
    return Structure(
        tuple(ops),
        tuple(v for v in structure.values if v.id in used),
        tuple(scopes),
        tuple(dict.fromkeys(_final(v, stand_ins) for v in structure.outputs)),
    )
