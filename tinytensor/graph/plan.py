"""Decide which ops of a computation are drawn and which modules are open, and find residual connections."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from .calls import Index
from .cost import MOVEMENT
from .fold import Folded
from .guards import guards
from .options import Options
from .structure import Op, Scope, Structure, around


@dataclass(frozen=True)
class Plan:
    """The ops and scopes to draw.

    Attributes:
        ops: the ops on the way to the results, in order.
        drawn: for each of them the id of its vertex: its own, or that of the outermost closed scope.
        level: for each of them, how many open boxes that count are around it.
        open: the ids of the open scopes.
        joined: ops that are drawn in the vertex of a neighbour: chains of movement as one, residual sums with the
            normalisation that follows ("Add & Norm" in the figures of Vaswani et al. 2017), guards with the op that
            they guard, and the turned.
        turned: transpositions that are written in the product that reads them, Q Kᵀ.
    """

    ops: list[Op]
    drawn: dict[str, str]
    level: dict[str, int]
    open: set[str]
    joined: set[str]
    turned: set[str]


def plan(folded: Folded, options: Options, to_see: str | None = None) -> Plan:
    """Plan by depth, by the modules that the user closes, the closed iterations, and an op that must be visible."""
    structure = folded.structure
    ops = list(structure.ops)
    if not options.constants:
        main = {op.id for op in main_ops(folded.whole)}
        ops = [op for op in ops if any(member.id in main for member in folded.members.get(op.id, [op]))]
    scopes = {scope.id: scope for scope in structure.scopes}
    alive = {place for op in ops for place in around(op.scope, scopes)}
    direct = Counter(op.scope for op in ops)
    holders = {scopes[place].parent for place in alive if scopes[place].kind != "formula"}  # of other modules
    seen = {place for op in ops if op.id == to_see for place in around(op.scope, scopes)}
    levels: dict[str | None, int] = {None: 0}  # of the open scopes
    for scope in structure.scopes:  # outer ones come before inner ones
        closed_anyway = options.collapses(scope) or scope.id in folded.turns
        if scope.id in alive and scope.parent in levels and not closed_anyway:
            level = levels[scope.parent]
            only_holds = scope.id in holders and direct[scope.id] == 0
            if only_holds and scope.parent is not None:
                levels[scope.id] = level
            elif level < options.depth - _later(scope, scope.id in holders | seen or direct[scope.id] > 1):
                levels[scope.id] = level + 1

    drawn, level_of = {}, {}
    for op in ops:
        closed = [place for place in around(op.scope, scopes) if place not in levels]
        drawn[op.id] = closed[-1] if closed else op.id
        level_of[op.id] = levels.get(op.scope, options.depth)
    if any(scope.kind not in ("formula", "stage") for scope in structure.scopes):
        level_of.update((op.id, options.depth) for op in ops if op.scope is None)  # next to modules, one step
    index = Index(dataclasses.replace(structure, ops=tuple(ops)))
    named = {v.id for v in structure.values if v.name} | index.outputs
    turned = _turned(index, drawn, named) if options.idealises else set()
    joined = _join(index, drawn, named, turned, residuals(structure), folded.labels)
    if options.idealises:
        for guard, guarded in guards(structure).items():
            if drawn.get(guard) == guard and guarded in drawn:
                drawn[guard] = guarded
                joined.add(guard)
    return Plan(ops, drawn, level_of, {place for place in levels if place is not None}, joined, turned)


def _turned(index: Index, drawn: dict[str, str], named: set[str]) -> set[str]:
    """Return transpositions without a name that only one input of an adjacent matrix product uses."""
    return {
        op.id
        for op in index.ops.values()
        if op.name == "matrix_transpose" and op.output not in named and len(index.readers.get(op.output, ())) == 1
        for reader in index.readers[op.output]
        if reader.name == "matmul" and reader.scope == op.scope
        if drawn[op.id] == op.id and drawn[reader.id] == reader.id
    }


def _join(
    index: Index, drawn: dict[str, str], named: set[str], turned: set[str], sums: Collection[str], runs: Collection[str]
) -> set[str]:
    """Join neighbours that are clearer in one vertex, like residual sums and norms that are not runs of several;
    changes `drawn`."""
    joined: set[str] = set()
    for op in index.ops.values():
        following = index.readers_of(op.output)
        if len(following) != 1 or op.output in index.outputs or (drawn[op.id] != op.id and op.id not in joined):
            continue
        after = following[0]
        norm = index.scopes.get(drawn[after.id])
        # The sum of a block is in another scope than the norm of the next one.
        is_norm = norm is not None and norm.kind.endswith("Norm") and norm.parent == op.scope
        if (is_norm and op.id in sums and drawn[after.id] not in runs) or op.id in turned:
            drawn[op.id] = drawn[after.id]
            joined.add(op.id)
        elif (
            op.name in MOVEMENT
            and after.name in MOVEMENT
            and len(set(after.inputs) - {None}) == 1  # one of several parts would hide its place
            and after.id not in turned
            and drawn[after.id] == after.id
            and op.scope == after.scope
            and op.output not in named
        ):
            drawn[after.id] = drawn[op.id]
            joined.add(after.id)
    return joined


def _later(scope: Scope, holds_several: bool) -> int:
    """How many more levels of depth a module needs to open than others.

    A module with a single op says more closed than as a box around the op, unless it holds a formula, and readers ask
    for the inside of a normalisation last.
    """
    if scope.kind.endswith("Norm"):
        return 2
    return 0 if holds_several else 1


def main_ops(structure: Structure) -> list[Op]:
    """The ops that gradients flow through, and the ops that compute what they read from these (a detached maximum,
    say) or take a part of a named input.

    If no gradient flows, the ops with floating or complex results replace them; all ops, if no op has such a result.
    """
    floats = {v.id: v.kind for v in structure.values if v.dtype.startswith(("float", "complex"))}
    moved: set[str | None] = {v.id for v in structure.values if v.kind == "parameter" or floats.get(v.id) == "input"}
    parts = {v.id for v in structure.values if v.kind == "input" and v.name and v.dtype != "bool"}
    wanted = {op.id for op in structure.ops if op.differentiable}
    if not wanted:
        moved = set(floats)
        wanted = {op.id for op in structure.ops if op.output in moved}
    for op in structure.ops:
        if op.name in MOVEMENT and op.inputs[0] in parts:  # a step or rows of a sequence, or its numbers as floats
            parts.add(op.output)
        if op.id in wanted or not moved.isdisjoint(op.inputs) or op.output in parts:
            moved.add(op.output)
    read: set[str | None] = set()
    found = []
    for op in reversed(structure.ops):
        if op.id in wanted or (op.output in moved and op.output in read):
            read.update(op.inputs)
            found.append(op)
    return found[::-1] or list(structure.ops)


REACH = 400
"""How many ops to search for a value that goes around them; longer detours are not called residual."""


def residuals(structure: Structure) -> dict[str, str]:
    """For the id of each op `x + f(x)`, both of one shape, the id of the value that goes around, `x`."""
    shapes = {v.id: v.shape for v in structure.values}  # in `x - mean(x)` they differ
    makers = {op.output: i for i, op in enumerate(structure.ops)}
    vectors = {  # biases and constants do not go around
        v.id for v in structure.values if v.kind == "constant" or (v.kind == "parameter" and len(v.shape) < 2)
    }
    found = {}
    for op in structure.ops:
        if op.name == "add" and len({shapes.get(str(v)) for v in op.inputs}) == 1 < len(set(op.inputs)):
            for around, through in (op.inputs, op.inputs[::-1]):
                if around not in vectors and _leads_to(structure, makers, str(around), str(through)):
                    found[op.id] = str(around)
                    break
    return found


def _leads_to(structure: Structure, makers: dict[str, int], start: str, end: str) -> bool:
    earliest = makers.get(start, -1)
    stack, seen = [end], set[int]()
    while stack and len(seen) < REACH:
        place = makers.get(stack.pop())
        if place is not None and place > earliest and place not in seen:
            seen.add(place)
            inputs = structure.ops[place].inputs
            if start in inputs:
                return True
            stack.extend(v for v in inputs if v is not None)
    return False
