"""Show repeated structure once: consecutive calls of modules with identical structure.

The layers of a stack differ only in their parameters, so a picture shows one layer and the number of layers. Calls that
also share their parameters are the same layer again. Stages named by `named_scope` fold in the same way, as iterations
of a loop: their names may differ in numbers, and they may use different slices x[0], x[1], ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .calls import Call, Index, call_tree
from .runs import Ends, Handed, Run
from .short_text import TIMES
from .steps import turns_of, with_steps
from .structure import Op, Structure


class Loop(NamedTuple):
    """A loop-carried value, which each iteration passes to the next, by ids.

    Attributes:
        value: the value.
        at_first: the first iteration's input, which the value replaces in all others.
        reader: the op that uses the value, and the index of the input.
        scope: the scope of the iteration.
    """

    value: str
    at_first: str
    reader: tuple[str, int]
    scope: str


class Fold(NamedTuple):
    """A run that is shown once, by its first iteration.

    Attributes:
        scope: the id of the first iteration's scope.
        run: all iterations.
        ends: the ops that use their results.
        first_argument: if each layer passes one value to the next as its first argument, that argument of the first
            layer; "" if arrows show all values that layers pass on.
    """

    scope: str
    run: Run
    ends: Ends
    first_argument: str


@dataclass
class Folded:
    """A structure in which the first of each run of identical calls represents all.

    Attributes:
        whole: the structure before folding, with each iteration of its loops as a stage.
        structure: the structure without the other calls; ops that used their results now use the first call's.
        folds: the folded runs, outer runs first.
        labels: by id of a scope that represents several, "× 6".
        again: the scopes among them whose iterations share their parameters; in the others, each has its own.
        names: by id of such a scope, the names of the first and the last.
        members: by id of an op that represents several, those ops.
        turns, slices: if loops are unrolled, the ids of the scopes of their iterations, and of the ops that return
            each iteration's slice of the input.
        loops: the loop-carried values that arrows show.
    """

    whole: Structure
    structure: Structure
    folds: list[Fold] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: dict[str, list[Op]] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    turns: set[str] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)


def unfolded(structure: Structure) -> Folded:
    """Wrap the structure without any folding."""
    return Folded(structure, structure)


def unrolled(structure: Structure) -> Folded:
    """Return the structure with nothing folded, and with each iteration of its loops as a stage."""
    structure, turns, slices = turns_of(structure)
    return Folded(structure, structure, turns=turns, slices=slices)


def fold(structure: Structure) -> Folded:
    """Fold every run of two or more calls that the first one can represent; linear in the size of the structure."""
    structure = with_steps(structure)
    index = Index(structure)
    folded = unfolded(structure)
    stand_ins: dict[str, str] = {}  # ids of left-out ops, values and scopes -> ids of their stand-ins
    levels = [call_tree(structure, index)]
    while levels:
        for calls, run in _runs(levels.pop(), index):
            ends = run.ends() if len(calls) > 1 else None
            if ends is not None:
                _merge(calls, run, ends, folded, stand_ins)
            levels.extend(call.items for call in (calls if ends is None else calls[:1]))
    if stand_ins:
        folded.structure = _without(structure, stand_ins)
        folded.loops = [
            loop._replace(
                value=_final(loop.value, stand_ins), reader=(_final(loop.reader[0], stand_ins), loop.reader[1])
            )
            for loop in folded.loops
        ]
        folded.folds = [one._replace(first_argument=_final(one.first_argument, stand_ins)) for one in folded.folds]
    return folded


def _merge(calls: list[Call], run: Run, ends: Ends, folded: Folded, stand_ins: dict[str, str]) -> None:
    """Let the first call represent all; changes `folded` and `stand_ins`."""
    scope, *others = (call.scope for call in calls)
    folded.labels[scope.id] = f"{TIMES} {len(calls)}" if run.handed else f"{TIMES} {len(calls)} side by side"
    folded.names[scope.id] = (scope.name, others[-1].name)
    again = _is_same_again(run, scope.kind)
    if again:
        folded.again.add(scope.id)
    first_argument = "" if again else _first_argument(calls[0], run, ends)
    folded.folds.append(Fold(scope.id, run, ends, first_argument))
    if not first_argument:
        for (i, j), maker in run.handed.items():
            reader, value = calls[0].ops[i], calls[0].ops[maker].output
            folded.loops.append(Loop(value, str(reader.inputs[j]), (reader.id, j), scope.id))
    stand_ins.update((other.id, scope.id) for other in others)
    for original, *alike in (*zip(*run.turns), *run.slices, *ends.one_each):
        every = folded.members.setdefault(original.id, [original])
        for op in alike:
            every.extend(folded.members.pop(op.id, [op]))
            stand_ins[op.id], stand_ins[op.output] = original.id, original.output


def _first_argument(call: Call, run: Run, ends: Ends) -> str:
    """Return the first argument of a layer if it is all that layers pass on, and their only result; otherwise ""."""
    handed = {str(call.ops[i].inputs[j]) for i, j in run.handed}
    first = call.scope.arguments[0][1] if call.scope.arguments else ""
    plain = handed == {first} and len(set(run.handed.values())) == 1 and not (ends.together or ends.results)
    reads = {place for place, column in run.columns.items() if column.values[0] == first}
    return first if plain and reads == set(run.handed) else ""


# ---- runs of identical calls


def _runs(items: list[Call | Op], index: Index) -> Iterator[tuple[list[Call], Run]]:
    """Group the calls among the items into runs of consecutive, identical calls."""
    calls: list[Call] = []
    run: Run | None = None
    for item in items:
        call = item if isinstance(item, Call) else None
        if call and run is not None and call.signature == calls[0].signature and run.takes(call.ops):
            calls.append(call)
            continue
        if run is not None:
            yield calls, run
        calls, run = ([call], Run(call.ops, index)) if call else ([], None)
    if run is not None:
        yield calls, run


def _is_same_again(run: Run, kind: str) -> bool:
    """Return True if every iteration uses the parameters of the first, and at least one parameter.

    Stages do not have parameters, so stages that use no parameter are the same stage again.
    """
    index = run.index
    rules = [c.rule for c in run.columns.values() if index.values[c.values[0]].kind == "parameter"]
    shared = [rule == "same" for rule in rules if not isinstance(rule, Handed)]
    return all(shared) and (bool(shared) or kind == "stage")


# ---- the structure without the others


def _final(name: str, stand_ins: dict[str, str]) -> str:
    """Return the last stand-in in the chain of stand-ins."""
    while name in stand_ins:
        name = stand_ins[name]
    return name


def _without(structure: Structure, stand_ins: dict[str, str]) -> Structure:
    kept: set[str | None] = {None}
    for scope in structure.scopes:  # outer ones come before inner ones
        if scope.id not in stand_ins and scope.parent in kept:
            kept.add(scope.id)
    ops = [
        dataclasses.replace(op, inputs=tuple([v if v is None else _final(v, stand_ins) for v in op.inputs]))
        for op in structure.ops
        if op.id not in stand_ins
    ]
    scopes = [
        dataclasses.replace(scope, arguments=tuple([(word, _final(v, stand_ins)) for word, v in scope.arguments]))
        for scope in structure.scopes
        if scope.id in kept
    ]
    used = {v for op in ops for v in (*op.inputs, op.output)}
    return Structure(
        tuple(ops),
        tuple(v for v in structure.values if v.id in used),
        tuple(scopes),
        tuple(dict.fromkeys(_final(v, stand_ins) for v in structure.outputs)),
    )
