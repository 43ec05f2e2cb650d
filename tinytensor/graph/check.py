"""Check a picture of a graph: reconstruct the computation that it shows, and run it on the recorded arrays.

`Reader` uses only what the picture shows: its vertices, the arrows between them with the inputs that they lead to, the
number of iterations of a folded box, and the arrows of loops. From these it derives the inputs of each op in each
iteration. `check` runs the result, and compares it with the recorded computation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

from .calls import Index
from .fold import Fold
from .picture import Edge, Falsehood, Picture
from .plan import main_ops
from .program import Call, Program
from .runs import COMMUTATIVE, Column, Handed
from .structure import Op, Structure, around

Turns = tuple[tuple[str, int], ...]
"""For each folded scope around an op, outermost first, its id and the index of an iteration."""

MOST = 8
"""An error names at most this many faults."""


def check(picture: Picture, structure: Structure, shown: Structure, folds: list[Fold], program: Program) -> Program:
    """Return the computation that a picture shows. Raises Falsehood, with the faults, if it is not the recorded one.

    Args:
        structure: the recorded structure.
        shown: the part of it that the picture draws, after folding.
        folds: the runs that it shows once.
        program: the recorded program.
    """
    ops = {op.id: op for op in structure.ops}
    back = Reader(picture, structure, shown, folds)
    drawn = [member for op in shown.ops if op.id in back.drawn for member in back.members(op)]
    faults = list(_faults_of_form(picture, structure, drawn))
    calls = {call.output: call for call in program.calls}
    read: dict[str, Call] = {}
    for place, inputs in back.all():
        op, made = ops[place], calls[ops[place].output]
        wrong = [
            f"{op.name} at {op.origin} reads {_said(structure, v)} as {name}; the picture says {_said(structure, w)}"
            for name, v, w in zip(op.operands, op.inputs, inputs)
            if v != w and not program.are_equal(v, w)
        ]
        faults.extend(wrong)
        if made.output in read:
            faults.append(f"{op.name} at {op.origin} is in two places")
        read[made.output] = made._replace(inputs=tuple(w or x for w, x in zip(inputs, made.inputs)))
    faults.extend(back.faults)
    faults.extend(f"{op.name} at {op.origin} is not in it" for op in main_ops(structure) if op.output not in read)
    results = tuple(v for v in structure.outputs if v in read)
    told_calls = tuple(read[call.output] for call in program.calls if call.output in read)
    told = Program(told_calls, program.leaves, program.names, results)
    if not faults:
        faults.extend(told.differences(program))
    if faults:
        rest = f"\n  and {len(faults) - MOST} more" if len(faults) > MOST else ""
        raise Falsehood("the picture shows another computation:\n  " + "\n  ".join(faults[:MOST]) + rest)
    return told


def _said(structure: Structure, value: str | None) -> str:
    if value is None:
        return "nothing"
    found = next(v for v in structure.values if v.id == value)
    maker = next((op for op in structure.ops if op.id == found.maker), None)
    return found.name or (f"the result of {maker.name} at {maker.origin}" if maker else found.kind)


class Reader:
    """Reads a picture: the inputs of each op in each iteration."""

    def __init__(self, picture: Picture, structure: Structure, shown: Structure, folds: list[Fold]) -> None:
        self.faults: list[str] = []
        index = Index(shown)
        self.shown, self.makers, self.scopes = index.ops, index.makers, index.scopes
        self.folds = {fold.scope: fold for fold in folds}
        self.kinds = {vertex.id: vertex.kind for vertex in picture.vertices}
        self.values = {value.id: value for value in structure.values}
        self.drawn = {i: vertex.id for vertex in picture.vertices for i in vertex.ops}
        self.places: dict[str, dict[str, int]] = {  # of the ops in a run's iterations
            fold.scope: {op.id: i for turn in fold.run.turns for i, op in enumerate(turn)} for fold in folds
        }
        self.groups: dict[str, tuple[str, tuple[Op, ...]]] = {}  # ops outside of a run, one an iteration, and the run
        for fold in folds:
            for ops in (*fold.run.slices, *fold.ends.one_each):
                self.groups[ops[0].id] = fold.scope, ops
        self.arrows: dict[tuple[str, int], list[tuple[Edge, str]]] = {}  # by reader, with the arrays that they carry
        for edge in picture.edges:
            if edge.kind in ("data", "residual", "loop"):
                for op, i, value in edge.reads:
                    self.arrows.setdefault((op, i), []).append((edge, value))
        self.together = {op: (fold.scope, places) for fold in folds for op, places in fold.ends.together.items()}
        self.stand_ins = {member.id: op for op in self.shown.values() for member in self.members(op)}

    def all(self) -> Iterator[tuple[str, tuple[str | None, ...]]]:
        """Yield the id of each op in each iteration, with the ids of its inputs."""
        for op in self.shown.values():
            if op.id in self.drawn:
                for turns in self._every_turn(self._around(op)):
                    inputs = [None if v is None else self._read(op, i, v, turns) for i, v in enumerate(op.inputs)]
                    yield self._original(op, turns).id, tuple(inputs)

    def members(self, op: Op) -> list[Op]:
        """Return the ops that one drawn op represents."""
        return [self._original(op, turns) for turns in self._every_turn(self._around(op))]

    def _around(self, op: Op) -> list[str]:
        """Return the folded scopes around an op, outermost first; the run if it is one of the ops in `groups`."""
        found = [place for place in around(op.scope, self.scopes) if place in self.folds]
        return [*found[::-1], *([self.groups[op.id][0]] if op.id in self.groups else [])]

    def _every_turn(self, scopes: list[str]) -> Iterator[Turns]:
        counts = [range(len(self.folds[scope].run.turns)) for scope in scopes]
        return (tuple(zip(scopes, numbers)) for numbers in itertools.product(*counts))

    def _original(self, op: Op, turns: Turns) -> Op:
        """Return the op that a drawn op represents in these iterations."""
        for scope, k in reversed(turns):
            if scope in self.folds and op.id in self.groups and self.groups[op.id][0] == scope:
                op = self.groups[op.id][1][k]
            else:
                op = self.folds[scope].run.turns[k][self.places[scope][op.id]]
        return op

    def _read(self, op: Op, i: int, value: str, turns: Turns) -> str | None:
        """Return the value of one input of one op in these iterations."""
        every = self.arrows.get((op.id, i), [])
        before = self._handed(op, i, [(edge, value) for edge, value in every if edge.kind == "loop"], turns)
        if before is not None:
            return before
        arrows = [(edge, value) for edge, value in every if edge.kind != "loop"]
        maker = self.makers.get(value)
        if not arrows:
            if maker is not None and self.drawn.get(maker.id) not in (None, self.drawn[op.id]):
                self.faults.append(f"no arrow leads to {op.name} at {op.origin} for {op.operands[i]}")
                return None
            if maker is not None:
                return self._result(maker, turns, self._turn_of(op, i))
            kind = self.kinds[self.drawn[op.id]]  # the slice of an iteration has its index in its label
            if kind == "op" or (kind != "input" and self.values[value].kind == "input" and not turns):
                self.faults.append(f"no arrow leads to {op.name} at {op.origin} for {op.operands[i]}")
            return self._of_own(op, i, value, turns)
        if len(arrows) > 1:
            self.faults.append(f"{len(arrows)} arrows lead to {op.name} at {op.origin} for {op.operands[i]}")
        arrow, value = arrows[0]
        maker = self.makers.get(value)
        if maker is None:
            return self._of_own(op, i, value, turns)
        return self._result(maker, turns, self._turn_of(op, i) if "all " in arrow.operand else ())

    def _turn_of(self, op: Op, i: int) -> Turns:
        """Return the iteration whose result is an input of an op, if the op uses the results of all iterations."""
        scope, places = self.together.get(op.id, ("", ()))
        return ((scope, places.index(i)),) if i in places else ()

    def _handed(self, op: Op, i: int, loops: list[tuple[Edge, str]], turns: Turns) -> str | None:
        """Return the value from the previous iteration if a loop's arrow or the order of layers shows it, or None."""
        for level, column in self._columns(op, i, turns):
            scope, k = turns[level]
            fold = self.folds[scope]
            here = [value for edge, value in loops if edge.scope == scope]
            maker = None
            if k == 0:
                continue
            if here:
                maker = self.makers[here[0]]
            elif fold.first_argument and op.inputs[i] == fold.first_argument:
                maker = self.stand_ins[fold.run.turns[0][next(iter(fold.run.handed.values()))].id]
            elif isinstance(column.rule, Handed):
                detail = self.stand_ins[fold.run.turns[0][column.rule.maker].id]
                if detail.id not in self.drawn or self._is_hidden(scope, op):
                    maker = detail
            if maker is not None:
                return self._result(maker, (*turns[:level], (scope, k - 1)), ())
        return None

    def _is_hidden(self, scope: str, op: Op) -> bool:
        """Return True if a closed module that shows an op hides a folded scope within it."""
        return self.drawn.get(op.id, "") in around(self.scopes[scope].parent, self.scopes)

    def _columns(self, op: Op, i: int, turns: Turns) -> Iterator[tuple[int, Column]]:
        """Yield the columns of an input, innermost first, each with the level of its run in `turns`."""
        for level, (scope, _) in reversed([*enumerate(turns)]):
            inner = self._original(op, turns[level + 1 :])  # in the first iteration of this run
            column = self.folds[scope].run.columns.get((self.places[scope].get(inner.id, -1), i))
            if column is not None:
                yield level, column

    def _result(self, maker: Op, turns: Turns, turn: Turns) -> str:
        """Return the result of a drawn op in the iterations of its reader and in `turn`; in the last of other loops."""
        known = {**dict(turns), **dict(turn)}
        scopes = self._around(maker)
        found = tuple([(scope, known.get(scope, len(self.folds[scope].run.turns) - 1)) for scope in scopes])
        return self._original(maker, found).output

    def _of_own(self, op: Op, i: int, value: str, turns: Turns) -> str:
        """Return an array from outside of the run; if each iteration has its own, that of `turns`."""
        for level, column in self._columns(op, i, turns):
            if column.rule == "own":
                value = column.values[turns[level][1]]
        return value


def _faults_of_form(picture: Picture, structure: Structure, drawn: list[Op]) -> Iterator[str]:
    """Yield faults that make the picture ambiguous, or its number of parameters wrong."""
    tails: dict[str, list[Edge]] = {}
    kinds = {vertex.id: vertex.kind for vertex in picture.vertices}
    leaving = {edge.tail for edge in picture.edges}
    for edge in picture.edges:
        if edge.kind in ("data", "residual"):
            tails.setdefault(edge.head, []).append(edge)
    for vertex in picture.vertices:
        if vertex.kind in ("op", "module") and vertex.id not in leaving and not vertex.failed:
            yield f"nothing reads {vertex.heading} ({vertex.id})"
        names = [edge.operand for edge in tails.get(vertex.id, ()) if edge.operand]
        several = [name for name, count in Counter(names).items() if count > 1 and "all " not in name]
        if vertex.kind == "op" and several and vertex.title not in COMMUTATIVE:
            yield f"two arrays are the {several[0]} of {vertex.heading} ({vertex.id})"
        reads = {edge.tail for edge in tails.get(vertex.id, ()) if kinds[edge.tail] not in ("parameter", "mask")}
        ordered = vertex.title not in COMMUTATIVE and vertex.ops == (vertex.id,) and not vertex.mathematics
        if vertex.kind == "op" and ordered and len(reads) == 2 and not names:
            yield f"nothing says who is who in {vertex.heading} ({vertex.id})"
    named = Counter(vertex.title for vertex in picture.vertices if vertex.kind == "input" and not vertex.ops)
    yield from (f"{count} inputs are called {name}" for name, count in named.items() if count > 1)
    values = {value.id: value for value in structure.values}
    told = sum(vertex.counts for vertex in picture.vertices)
    read = {v for op in drawn for v in op.inputs if v}
    known = {values[v].same_as or v for v in read if values[v].kind == "parameter"}
    numbers = sum(math.prod(values[v].shape) for v in known)
    if told != numbers:
        yield f"its vertices count {told:,} numbers in parameters, the computation reads {numbers:,}"
