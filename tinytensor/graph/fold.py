"""Repeated structure, once: calls of modules that follow each other and are built alike.

The layers of a stack differ in their parameters and in nothing else, so a picture shows one of them and says how many
there are. Calls that share their parameters as well are the same layer again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from .structure import Op, Scope, Structure


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
    inside: dict[str, list[Op]] = {scope.id: [] for scope in structure.scopes}
    children: dict[str | None, list[Scope | Op]] = {None: []}
    children.update((scope.id, []) for scope in structure.scopes)
    by_id = {scope.id: scope for scope in structure.scopes}
    for op in structure.ops:
        item: Scope | Op = op
        place = op.scope
        while True:
            if not children[place] or children[place][-1] is not item:
                children[place].append(item)
            if place is None:
                break
            inside[place].append(op)
            item, place = by_id[place], by_id[place].parent

    parameters = {v.id for v in structure.values if v.kind == "parameter"}
    shapes = {v.id: v.shape for v in structure.values}
    canonical: dict[str, str] = {}  # ids of ops, values and scopes that are left out -> what stands for them
    result = Folded(structure)

    def run(first: Scope, others: list[Scope]) -> None:
        originals = inside[first.id]
        again: list[bool] = []  # for each parameter, whether it is the one that the first call reads there
        for other in others:
            for op, original in zip(inside[other.id], originals):
                canonical[op.id], canonical[op.output] = original.id, original.output
                result.members.setdefault(original.id, [original]).append(op)
                again += [v == w for v, w in zip(op.inputs, original.inputs) if v in parameters and w in parameters]
            canonical[other.id] = first.id
        count = len(others) + 1
        result.labels[first.id] = f"\N{MULTIPLICATION SIGN}{count}" if again and all(again) else f"{count} alike"
        result.names[first.id] = (first.name, others[-1].name)

    readers: dict[str | None, list[Op]] = {}
    for op in structure.ops:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)

    def read_elsewhere(first: Scope, others: list[Scope]) -> bool:
        """Whether what one call hands to another is read outside of them as well: then they are not one."""
        calls = {op.id: call.id for call in (first, *others) for op in inside[call.id]}
        for call in (first, *others):
            for op in inside[call.id]:
                found = {calls.get(reader.id) for reader in readers.get(op.output, ())} - {call.id}
                if None in found and len(found) > 1:
                    return True
        return False

    stack: list[str | None] = [None]
    while stack:
        items = children[stack.pop()]
        i = 0
        while i < len(items):
            item = items[i]
            i += 1
            if isinstance(item, Op):
                continue
            others: list[Scope] = []
            mark = signature(inside[item.id], item, by_id, shapes)
            wires = None
            while i < len(items) and isinstance(other := items[i], Scope):
                ops, before = inside[other.id], inside[(others or [item])[-1].id]
                if len(ops) != len(before) or signature(ops, other, by_id, shapes) != mark:
                    break
                if wires is not None and links(before, ops) != wires:
                    break
                wires = links(before, ops)
                others.append(other)
                i += 1
            if others and not read_elsewhere(item, others):
                run(item, others)
            stack.append(item.id)
    if canonical:
        result.structure = _without(structure, canonical)
    return result


def signature(
    ops: list[Op], scope: Scope, scopes: dict[str, Scope], shapes: dict[str, tuple[int, ...]]
) -> tuple[object, ...]:
    """What makes two calls alike: the same ops on the same shapes in the same modules, wired the same way inside.

    Values from outside are numbered in the order of their first use.
    """
    depth = len(scope.path)
    numbers: dict[str, int] = {}
    rows: list[object] = [scope.kind]
    for op in ops:
        wires = tuple([None if v is None else numbers.setdefault(v, len(numbers)) for v in op.inputs])
        numbers.setdefault(op.output, len(numbers))
        inner = scopes[op.scope].path[depth:] if op.scope is not None else ()
        sizes = tuple([None if v is None else shapes[v] for v in (*op.inputs, op.output)])
        rows.append((op.name, inner, wires, sizes, op.parameters, op.differentiable))
    return tuple(rows)


def links(before: list[Op], after: list[Op]) -> tuple[object, ...]:
    """How a call is wired to the alike one before it: each input is what that one read or made there, or neither."""
    made = {op.output: i for i, op in enumerate(before)}
    pairs = [pair for first, second in zip(before, after) for pair in zip(first.inputs, second.inputs)]
    return tuple("same" if v == w else made.get(w) if w is not None else None for v, w in pairs)


def _without(structure: Structure, canonical: dict[str, str]) -> Structure:
    def final(name: str) -> str:
        while name in canonical:
            name = canonical[name]
        return name

    left_out = set(canonical)
    scopes = [scope for scope in structure.scopes if scope.id not in left_out]
    kept_scopes = {scope.id for scope in scopes}
    while True:  # scopes inside of those left out go as well
        inner = {scope.id for scope in scopes if scope.parent is not None and scope.parent not in kept_scopes}
        if not inner:
            break
        kept_scopes -= inner
        scopes = [scope for scope in scopes if scope.id not in inner]
    ops = [
        dataclasses.replace(op, inputs=tuple([v if v is None else final(v) for v in op.inputs]))
        for op in structure.ops
        if op.id not in left_out
    ]
    used = {v for op in ops for v in (*op.inputs, op.output)}
    return Structure(
        tuple(ops),
        tuple(v for v in structure.values if v.id in used),
        tuple(scopes),
        tuple(dict.fromkeys(final(v) for v in structure.outputs)),
    )
