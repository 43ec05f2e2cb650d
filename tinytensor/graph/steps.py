"""Turns of a loop: ops and calls that repeat and hand on their results, as the steps of a recurrence do.

    for t in range(20):
        h = tt.tanh(x[:, t] @ W + h @ U)

Each turn gets a stage, "step 1" to "step 20", so that a picture can show one of them (`fold`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .calls import Call, Index, call_tree
from .runs import NUMBER, Run
from .structure import Op, Scope, Structure

FEWEST = 3
"""A loop has at least this many turns; fewer are drawn one after the other."""

LONGEST = 64
"""A turn has at most this many ops and calls."""

TRIES = 4
"""How many lengths of a turn to try from each place on, the shortest first."""


def with_steps(structure: Structure) -> Structure:
    """The structure with a stage around each turn of its loops.

    The same lines call a loop's own ops in each turn, each turn reads a result of the one before, and a picture of one
    turn can tell what the others read (see `runs`).
    """
    return _Finder(structure, slices_outside=False).result()


def turns_of(structure: Structure) -> tuple[Structure, set[str], set[str]]:
    """The turns of all loops that are not within another loop, to be drawn one by one.

    Returns the structure with a stage around the ops of each turn after its slice of the input; the ids of all turns,
    of these stages, or of the module's call if a turn is one; and the ids of the ops that take a turn's slice of an
    array from before the loop, as x[:, t] does.
    """
    finder = _Finder(structure, slices_outside=True)
    return finder.result(), finder.turns, finder.slices


class _Finder:
    def __init__(self, structure: Structure, slices_outside: bool) -> None:
        self.structure = structure
        self.count = len(structure.scopes)
        self.slices_outside = slices_outside
        self.turns: set[str] = set()
        self.slices: set[str] = set()
        self.index = Index(structure)
        self.steps: dict[str, list[Scope]] = {}  # new scopes by the id of the one around them, "" for none
        self.of_op: dict[str, str] = {}
        self.of_scope: dict[str, str] = {}
        levels = [call_tree(structure, self.index)]
        while levels:
            items, before = levels.pop(), len(self.turns)
            self.look_through(items)
            if not slices_outside or len(self.turns) == before:
                levels.extend(item.items for item in items if isinstance(item, Call))

    def look_through(self, items: Sequence[Call | Op]) -> None:
        keys = [_key(item) for item in items]
        places: dict[object, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        ahead = {i: found[n : n + TRIES] for found in places.values() for n, i in enumerate(found, 1)}
        refused: dict[int, int] = {}
        i = 0
        while i < len(items):
            turns = self._loop(items, keys, i, ahead[i], refused)
            if turns:
                self._wrap(turns)
                i += sum(map(len, turns))
            else:
                i += 1

    def _loop(
        self, items: Sequence[Call | Op], keys: list[object], start: int, ends: list[int], refused: dict[int, int]
    ) -> list[Sequence[Call | Op]]:
        """The turns of the loop that begins at an item; none if there is no loop.

        Notes in `refused`, for a length of turns, the place up to which they are alike, but cannot be folded.
        """
        for end in ends:
            length = end - start
            if length > LONGEST:
                break
            turn = items[start:end]
            if isinstance(turn[0], Call) and len(set(keys[start:end])) == 1 and not self.slices_outside:
                continue  # alike calls are folded as they are
            if start < refused.get(length, 0) or any(isinstance(item, Op) and item.origin is None for item in turn):
                continue
            run, turns = Run(_ops(turn), self.index), [turn]
            while len(turns) < 2 or run.handed:
                at = start + len(turns) * length
                if keys[at : at + length] != keys[start:end] or not run.takes(_ops(items[at : at + length])):
                    break
                turns.append(items[at : at + length])
            if len(turns) >= FEWEST and run.handed:
                if self.slices_outside or run.ends() is not None:
                    return turns
                refused[length] = start + (len(turns) - FEWEST) * length  # else each place would try it once more
        return []

    def _wrap(self, turns: list[Sequence[Call | Op]]) -> None:
        first = turns[0][0]
        parent = first.scope.parent if isinstance(first, Call) else first.scope
        path = self.index.scopes[parent].path if parent is not None else ()
        made = {op.output for turn in turns for op in _ops(turn)}
        for number, turn in enumerate(turns, 1):
            if self.slices_outside:
                slices = [item for item in turn if isinstance(item, Op) and _is_slice(item, made)]
                self.slices.update(item.id for item in slices)
                turn = [item for item in turn if item not in slices]
                if len(turn) == 1 and isinstance(turn[0], Call):
                    self.turns.add(turn[0].scope.id)
                    continue
            self.count += 1
            self.turns.add(f"s{self.count}")
            name = f"step {number}"
            step = Scope(f"s{self.count}", name, "stage", (*path, name), parent)
            self.steps.setdefault(parent or "", []).append(step)
            for item in turn:
                if isinstance(item, Call):
                    self.of_scope[item.scope.id] = step.id
                else:
                    self.of_op[item.id] = step.id

    def result(self) -> Structure:
        scopes = list(self.steps.get("", ()))  # outer ones come before inner ones
        for scope in self.structure.scopes:
            scopes.append(dataclasses.replace(scope, parent=self.of_scope.get(scope.id, scope.parent)))
            scopes.extend(self.steps.get(scope.id, ()))
        ops = tuple([dataclasses.replace(op, scope=self.of_op.get(op.id, op.scope)) for op in self.structure.ops])
        return dataclasses.replace(self.structure, ops=ops, scopes=tuple(scopes))


def _is_slice(op: Op, made: set[str]) -> bool:
    return op.name == "getitem" and op.inputs[0] not in made


def _key(item: Call | Op) -> object:
    """A key that is equal for the same place in each turn of a loop."""
    if isinstance(item, Call):
        return item.scope.name, item.signature
    return item.name, item.origin, len(item.inputs), tuple(NUMBER.split(item.exact))


def _ops(turn: Sequence[Call | Op]) -> list[Op]:
    return [op for item in turn for op in (item.ops if isinstance(item, Call) else (item,))]
