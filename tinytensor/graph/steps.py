"""Find the iterations of loops: ops and calls that repeat and pass on their results, like a recurrence.

    for t in range(20):
        h = tt.tanh(x[:, t] @ W + h @ U)

Each iteration gets a stage, "step 1" to "step 20", so that a picture can show one iteration (`fold`), and a page all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from .calls import Call, Index, call_tree
from .runs import NUMBER, Run
from .structure import Op, Scope, Structure, around

FEWEST = 3
"""A loop has at least this many iterations; fewer are drawn one after the other."""

LONGEST = 64
"""An iteration has at most this many ops and calls."""

TRIES = 4
"""The number of lengths of an iteration to try from each item, the shortest first."""

MOST, GROUPS = 90, 12
"""On a page, a module with more items than the first is divided into at most GROUPS stages of 10, 100, ... items."""

Items = Sequence[Call | Op]


def with_steps(structure: Structure) -> Structure:
    """Put a stage around each iteration of the loops of a structure.

    The same source lines call a loop's ops in each iteration, each iteration uses a result of the previous one, and a
    picture of one iteration determines the inputs of the others (see `runs`).
    """
    return _Finder(structure).result()


def turns_of(structure: Structure) -> tuple[Structure, set[str], set[str]]:
    """Find the iterations of all loops that are not within another loop, to draw each of them.

    Returns the structure with a stage around the ops of each iteration after its slice of the input; the ids of these
    stages, or of the module's call if an iteration is a single call; and the ids of the ops that return an iteration's
    slice of an array from before the loop, like x[:, t].
    """
    finder = _Unrolling(structure)
    return finder.result(), finder.turns, finder.slices


def with_pages(structure: Structure) -> Structure:
    """Put a stage, whose id begins with t, around each iteration of the loops of a page.

    A loop is a repetition of ops from the same source lines. Many iterations, or many items in a module, are grouped in
    stages of tens, hundreds, ...: "step 1 … step 200", of "step 1 … step 100", of "step 1 … step 10". Unlike folding
    this omits nothing, so the items of one stage can differ. Linear in the size of the structure.
    """
    return _Pages(structure).result()


class _Finder:
    letter = "s"  # of the ids of new stages
    folds = True  # if a picture of one iteration must determine the inputs of the others

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
        """Put the iterations of loops among the items of a module into stages; return the items to search next."""
        for turns in self.loops(items):
            if len(turns) > 1:
                for number, turn in enumerate(turns, 1):
                    self.stage(level, turn, f"step {number}")
        return items

    def loops(self, items: Items) -> Iterator[list[Items]]:
        """Yield the iterations of each loop; an item outside of loops as a single iteration."""
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
        """Return the iterations of the loop that begins at an item; an empty list if no loop does.

        `refused` gets, for a length of iterations, the index up to which they are identical but cannot be folded.
        """
        for end in ends:
            length = end - start
            if length > LONGEST:
                break
            turn = items[start:end]
            if isinstance(turn[0], Call) and len(set(keys[start:end])) == 1 and self.folds:
                continue  # `fold` finds identical calls without stages
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
                refused[length] = start + (len(turns) - FEWEST) * length  # so that later items do not try it again
        return []

    def stage(self, level: Scope | None, items: Items, name: str) -> Call:
        """Put consecutive items into a new stage."""
        path = (*(level.path if level is not None else ()), name)
        place = f"{self.letter}{self.count + len(self.made) + 1}"
        self.made.append(Scope(place, name, "stage", path, level.id if level is not None else None))
        self.parents.update((item.scope.id if isinstance(item, Call) else item.id, place) for item in items)
        return Call(self.made[-1], self.index, ops_of(items), [*items])

    def key(self, item: Call | Op) -> object:
        """Return a key that is equal for corresponding items of the iterations of a loop."""
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
        """Put a stage around items: "step 1 … step 10", or with the numbers of its ops."""
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
            if turns > FEWEST and len(set(turn)) > 1:  # three items are easy to read, like queries, keys and values
                return [items[start + i * length : start + (i + 1) * length] for i in range(turns)]
        return []

    def key(self, item: Call | Op) -> object:
        """Return an op's name and line, or a module's or stage's name."""
        if isinstance(item, Op):
            return (item.name, item.origin) if item.origin is not None else item.id
        return item.scope.kind, item.scope.name, self.key(item.items[0]) if item.scope.kind == "formula" else ""


def _is_slice(op: Op, made: set[str]) -> bool:
    return op.name == "getitem" and op.inputs[0] not in made


def ops_of(turn: Items) -> list[Op]:
    return [op for item in turn for op in (item.ops if isinstance(item, Call) else (item,))]
