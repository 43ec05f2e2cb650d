"""Turns of a loop: ops and calls that repeat and hand on their results, as the steps of a recurrence do.

    for t in range(20):
        h = tt.tanh(x[:, t] @ W + h @ U)

Each turn gets a stage, "step 1" to "step 20", so that a picture can show one of them (`fold`), and a page one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from .calls import Call, Index, call_tree
from .runs import NUMBER, Run
from .structure import Op, Scope, Structure, around

FEWEST = 3
"""A loop has at least this many turns; fewer are drawn one after the other."""

LONGEST = 64
"""A turn has at most this many ops and calls."""

TRIES = 4
"""How many lengths of a turn to try from each place on, the shortest first."""

MOST, GROUPS = 90, 12
"""On a page, a module with more items than the first is divided into at most GROUPS stages of 10, 100, ... items."""

Items = Sequence[Call | Op]


def with_steps(structure: Structure) -> Structure:
    """The structure with a stage around each turn of its loops.

    The same lines call a loop's own ops in each turn, each turn reads a result of the one before, and a picture of one
    turn can tell what the others read (see `runs`).
    """
    return _Finder(structure).result()


def turns_of(structure: Structure) -> tuple[Structure, set[str], set[str]]:
    """The turns of all loops that are not within another loop, to be drawn one by one.

    Returns the structure with a stage around the ops of each turn after its slice of the input; the ids of all turns,
    of these stages, or of the module's call if a turn is one; and the ids of the ops that take a turn's slice of an
    array from before the loop, as x[:, t] does.
    """
    finder = _Unrolling(structure)
    return finder.result(), finder.turns, finder.slices


def with_pages(structure: Structure) -> Structure:
    """The structure with a stage, whose id begins with t, around each turn of the loops of a page.

    A loop is what the same lines compute again and again. Where there are many turns, or many items in a module, these
    stand in stages of tens, hundreds, ...: "step 1 … step 200", of "step 1 … step 100", of "step 1 … step 10". Unlike
    folding this leaves nothing out, so the items of one stage need not be alike. Linear in the size of the structure.
    """
    return _Pages(structure).result()


class _Finder:
    letter = "s"  # of the ids of new stages
    folds = True  # if a picture of one turn must tell what the others read

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.index = Index(structure)
        self.count = len(structure.scopes)
        self.made: list[Scope] = []
        self.parents: dict[str, str] = {}  # of ops and scopes that are in a new stage
        levels: list[tuple[Scope | None, Items]] = [(None, call_tree(structure, self.index))]
        while levels:
            levels.extend(
                (item.scope, item.items) for item in self.look_through(*levels.pop()) if isinstance(item, Call)
            )

    def look_through(self, level: Scope | None, items: Items) -> Items:
        """Put the turns of loops among the items of a module into stages; returns what to look through next."""
        for turns in self.loops(items):
            if len(turns) > 1:
                for number, turn in enumerate(turns, 1):
                    self.stage(level, turn, f"step {number}")
        return items

    def loops(self, items: Items) -> Iterator[list[Items]]:
        """The turns of each loop; an item in no loop as one turn."""
        keys = [self.key(item) for item in items]
        places: dict[object, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        ahead = {i: found[n : n + TRIES] for found in places.values() for n, i in enumerate(found, 1)}
        refused: dict[int, int] = {}
        i = 0
        while i < len(items):
            turns = self.loop(items, keys, i, ahead[i], refused) or [items[i : i + 1]]
            yield turns
            i += sum(map(len, turns))

    def loop(
        self, items: Items, keys: list[object], start: int, ends: list[int], refused: dict[int, int]
    ) -> list[Items]:
        """The turns of the loop that begins at an item; none if there is no loop.

        Notes in `refused`, for a length of turns, the place up to which they are alike, but cannot be folded.
        """
        for end in ends:
            length = end - start
            if length > LONGEST:
                break
            turn = items[start:end]
            if isinstance(turn[0], Call) and len(set(keys[start:end])) == 1 and self.folds:
                continue  # alike calls are folded as they are
            if start < refused.get(length, 0) or any(isinstance(item, Op) and item.origin is None for item in turn):
                continue
            run, turns = Run(ops_of(turn), self.index), [turn]
            while len(turns) < 2 or run.handed:
                at = start + len(turns) * length
                if keys[at : at + length] != keys[start:end] or not run.takes(ops_of(items[at : at + length])):
                    break
                turns.append(items[at : at + length])
            if len(turns) >= FEWEST and run.handed:
                if not self.folds or run.ends() is not None:
                    return turns
                refused[length] = start + (len(turns) - FEWEST) * length  # else each place would try it once more
        return []

    def stage(self, level: Scope | None, items: Items, name: str) -> Call:
        """Put items that follow each other into a new stage."""
        path = (*(level.path if level is not None else ()), name)
        place = f"{self.letter}{self.count + len(self.made) + 1}"
        self.made.append(Scope(place, name, "stage", path, level.id if level is not None else None))
        self.parents.update((item.scope.id if isinstance(item, Call) else item.id, place) for item in items)
        return Call(self.made[-1], self.index, ops_of(items), [*items])

    def key(self, item: Call | Op) -> object:
        """A key that is equal for the same place in each turn of a loop."""
        if isinstance(item, Call):
            return item.scope.name, item.signature
        return item.name, item.origin, len(item.inputs), tuple(NUMBER.split(item.exact))

    def result(self) -> Structure:
        scopes = {
            scope.id: dataclasses.replace(scope, parent=self.parents.get(scope.id, scope.parent))
            for scope in (*self.structure.scopes, *self.made)
        }
        ops = tuple([dataclasses.replace(op, scope=self.parents.get(op.id, op.scope)) for op in self.structure.ops])
        outer_first = dict.fromkeys(place for op in ops for place in [*around(op.scope, scopes)][::-1])
        return dataclasses.replace(self.structure, ops=ops, scopes=tuple([scopes[place] for place in outer_first]))


class _Unrolling(_Finder):
    folds = False

    def __init__(self, structure: Structure) -> None:
        self.turns: set[str] = set()
        self.slices: set[str] = set()
        super().__init__(structure)

    def look_through(self, level: Scope | None, items: Items) -> Items:
        found = [turns for turns in self.loops(items) if len(turns) > 1]
        for turns in found:
            made = {op.output for turn in turns for op in ops_of(turn)}
            for number, turn in enumerate(turns, 1):
                slices = [item for item in turn if isinstance(item, Op) and _is_slice(item, made)]
                self.slices.update(item.id for item in slices)
                rest = [item for item in turn if item not in slices]
                alone = rest[0] if len(rest) == 1 and isinstance(rest[0], Call) else None
                self.turns.add((alone or self.stage(level, rest, f"step {number}")).scope.id)
        return [] if found else items


class _Pages(_Finder):
    letter = "t"

    def look_through(self, level: Scope | None, items: Items) -> Items:
        parts: list[Call | Op] = []
        for turns in self.loops(items):
            steps = turns[0] if len(turns) == 1 else [self.stage(level, x, f"step {i}") for i, x in enumerate(turns, 1)]
            parts.extend([self.group(level, steps)] if len(steps) > 10 else steps)
        if len(parts) > MOST:
            size = 10
            while len(parts) > GROUPS * size:
                size *= 10
            tens = [parts[i : i + size] for i in range(0, len(parts), size)]
            parts = [self.group(level, ten) if len(ten) > 1 else ten[0] for ten in tens]
        return parts

    def group(self, level: Scope | None, items: Items) -> Call:
        """A stage around items: "step 1 … step 10", or with the numbers of its ops."""
        names = [item.scope.name if isinstance(item, Call) else "…" for item in items]
        if len(set(names)) < len(names) or "…" in "".join(names):
            first, *_, last = [int(op.id[1:]) for op in ops_of(items)]
            return self.stage(level, items, f"ops {first} … {last}")
        return self.stage(level, items, f"{names[0]} … {names[-1]}")

    def loop(
        self, items: Items, keys: list[object], start: int, ends: list[int], refused: dict[int, int]
    ) -> list[Items]:
        for length in [end - start for end in ends if end - start <= LONGEST]:
            turn, turns = keys[start : start + length], 1
            while keys[start + turns * length : start + (turns + 1) * length] == turn:
                turns += 1
            if turns > FEWEST and len(set(turn)) > 1:  # three are seen at once, as queries, keys and values are
                return [items[start + i * length : start + (i + 1) * length] for i in range(turns)]
        return []

    def key(self, item: Call | Op) -> object:
        """An op's name and line, a module's or stage's name."""
        if isinstance(item, Op):
            return (item.name, item.origin) if item.origin is not None else item.id
        return item.scope.kind, item.scope.name, self.key(item.items[0]) if item.scope.kind == "formula" else ""


def _is_slice(op: Op, made: set[str]) -> bool:
    return op.name == "getitem" and op.inputs[0] not in made


def ops_of(turn: Items) -> list[Op]:
    return [op for item in turn for op in (item.ops if isinstance(item, Call) else (item,))]
