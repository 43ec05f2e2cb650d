"""Show repeated structure once: calls of modules that follow each other and are built alike.

The layers of a stack differ only in their parameters, so a picture shows one of them and says how many there are. Calls
that share their parameters too are the same layer again. Stages named by `named_scope` fold likewise, as the turns of a
loop: their names may differ in numbers, and so may the places they read, x[0], x[1], ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .calls import Call, Index, call_tree, input_pairs, links
from .short_text import TIMES
from .steps import turns_of, with_steps
from .structure import Op, Structure


class Loop(NamedTuple):
    """The ids of a value that each turn hands to the next, and of its surroundings.

    Attributes:
        value: the value.
        at_first: the value in its place in the first turn.
        reader: the op that reads it.
        scope: the turn.
    """

    value: str
    at_first: str
    reader: str
    scope: str


@dataclass
class Folded:
    """A structure in which the first of each run of alike calls represents all.

    Attributes:
        whole: the structure before folding, with the turns of its loops as stages.
        structure: the structure without the others; readers of their results now read the first one's.
        labels: by id of a scope that represents several, "× 6".
        again: the scopes among them whose turns share their parameters; in the others, each has its own.
        names: by id of such a scope, the names of the first and the last.
        members: by id of an op that represents several, those ops.
        turns, slices: if loops are unrolled, the ids of the scopes of their turns, and of the ops that take each
            turn's slice of the input.
        loops: the values that turns hand to the next.
    """

    whole: Structure
    structure: Structure
    labels: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: dict[str, list[Op]] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    turns: set[str] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)


def unfolded(structure: Structure) -> Folded:
    """The structure as it is."""
    return Folded(structure, structure)


def unrolled(structure: Structure) -> Folded:
    """The structure with nothing folded, and with the turns of its loops."""
    turns = turns_of(structure)
    return Folded(turns.structure, turns.structure, turns=turns.scopes, slices=turns.slices)


def fold(structure: Structure) -> Folded:
    """Fold every run of two or more; linear in the size of the structure."""
    structure = with_steps(structure)
    index = Index(structure)
    folded = unfolded(structure)
    stand_ins: dict[str, str] = {}  # ids of left-out ops, values and scopes -> ids of their stand-ins
    levels = [call_tree(structure, index)]
    while levels:
        for run in _runs(levels.pop(), index):
            again = _is_same_again(run, index)
            if len(run) > 1 and not _read_elsewhere(run, index, again):
                folded.labels[run[0].scope.id] = f"{TIMES} {len(run)}"
                if again:
                    folded.again.add(run[0].scope.id)
                _merge(run, folded, stand_ins)
            levels.append(run[0].items)
    if stand_ins:
        _merge_slices(index, folded, stand_ins)
        _merge_readers(structure, folded, stand_ins)
        folded.structure = _without(structure, stand_ins)
    return folded


def _merge(run: list[Call], folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let the first call represent all; changes `folded` and `stand_ins`."""
    first, *others = (call.scope for call in run)
    folded.names[first.id] = (first.name, others[-1].name)
    if first.id in folded.again:
        made = {op.output for op in run[0].ops}
        for op, after in zip(run[0].ops, run[1].ops):
            handed = {w: v for v, w in zip(op.inputs, after.inputs) if w in made}
            folded.loops.extend(Loop(str(w), str(v), op.id, first.id) for w, v in handed.items())
    stand_ins.update((scope.id, first.id) for scope in others)
    for original, *alike in zip(*(call.ops for call in run)):
        folded.members.setdefault(original.id, [original]).extend(alike)
        for op in alike:
            stand_ins[op.id], stand_ins[op.output] = original.id, original.output


def _merge_slices(index: Index, folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let one slice represent all that were made before a loop, one for each of its turns."""
    for members in list(folded.members.values()):
        for given in zip(*(op.inputs for op in members)):
            makers = [index.makers.get(value or "") for value in given]
            slices = [op for op in makers if op is not None and op.name == "getitem" and op.id not in stand_ins]
            first = slices[0] if slices else None
            if first is None or len({op.id for op in slices}) < len(members) or first.id in folded.members:
                continue
            same_source = {(op.inputs[0], op.scope) for op in slices} == {(first.inputs[0], first.scope)}
            if same_source and all(len(index.readers[op.output]) == 1 for op in slices):
                folded.members[first.id] = slices
                for op in slices[1:]:
                    stand_ins[op.id], stand_ins[op.output] = first.id, first.output


def _merge_readers(structure: Structure, folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let one op represent all that read each call of a run alike, as those of a `stack` after a loop do."""
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


# ---- runs of alike calls


def _runs(items: list[Call | Op], index: Index) -> Iterator[list[Call]]:
    """Each call among the items, together with the alike ones that follow it at once."""
    run: list[Call] = []
    for item in items:
        if run and isinstance(item, Call) and _continues(run, item, index):
            run.append(item)
            continue
        if run:
            yield run
        run = [item] if isinstance(item, Call) else []
    if run:
        yield run


def _continues(run: list[Call], call: Call, index: Index) -> bool:
    """True if a call is like the calls of a run, and its wiring to the last one is like theirs to each other."""
    last = run[-1]
    if len(call.ops) != len(last.ops) or call.signature != last.signature:
        return False
    if any(index.differ(v, w) for v, w in input_pairs(last.ops, call.ops)):
        return False
    return len(run) == 1 or links(last.ops, call.ops) == links(run[-2].ops, last.ops)


def _read_elsewhere(run: list[Call], index: Index, again: bool) -> bool:
    """True if an op outside the run also reads a value that one call hands to another: then the calls do not fold.

    The turns of a loop do, if the readers outside read all of them alike, as a `stack` of all states does.
    """
    inside = {op.id: call for call in run for op in call.ops}
    for ops in zip(*(call.ops for call in run)):
        readers = [index.readers.get(op.output, ()) for op in ops]
        handed = any(inside.get(r.id, call) is not call for call, found in zip(run, readers) for r in found)
        outside = [[r for r in found if r.id not in inside] for found in readers]
        alike = again and len({tuple(map(_reading, found)) for found in outside}) == 1
        if handed and any(outside[:-1]) and not alike:
            return True
    return False


def _reading(op: Op) -> object:
    """A key that is equal for ops that read the results of all turns alike."""
    return op.name, op.scope, op.parameters, len(op.inputs)


def _is_same_again(run: list[Call], index: Index) -> bool:
    """True if every call reads the parameters of the first one, and neither its own nor none.

    Stages have no parameters of their own, so stages that read none are the same again.
    """
    pairs = [pair for call in run[1:] for pair in input_pairs(run[0].ops, call.ops)]
    shared = [v == w for v, w in pairs if index.is_parameter(v) and index.is_parameter(w)]
    return all(shared) and (bool(shared) or run[0].scope.kind == "stage")


# ---- the structure without the others


def _final(name: str, stand_ins: dict[str, str]) -> str:
    """The last stand-in in the chain of stand-ins."""
    while name in stand_ins:
        name = stand_ins[name]
    return name


def _without(structure: Structure, stand_ins: dict[str, str]) -> Structure:
    left_out = set(stand_ins)
    scopes = [scope for scope in structure.scopes if scope.id not in left_out]
    kept_scopes = {scope.id for scope in scopes}
    while True:  # leave out the scopes inside of those, too
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
