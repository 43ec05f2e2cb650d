"""Stages of a page: the turns of loops, and tens, hundreds, ... of what a module or stage holds in great numbers.

A loop of 200 turns is "step 1 … step 200", of "step 1 … step 100", of "step 1 … step 10", of "step 1". Unlike folding
(`fold.py`) this leaves nothing out, so the items of one stage need not be alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from .picture import Box, Picture
from .steps import FEWEST, LONGEST
from .structure import Structure

MOST = 90
"""A module or stage with more items than this is divided into at most GROUPS stages of 10, 100, ... items."""

GROUPS = 12

LOOSE = ("input", "output", "parameter", "constant", "mask")
"""Kinds of vertices that stand beside what reads or computes them; the first two outermost, if they are few."""


class Stages:
    """`Stages(picture, structure).picture` is the picture with stages among its boxes, made in linear time."""

    def __init__(self, picture: Picture, structure: Structure) -> None:
        self.kinds = {vertex.id: vertex.kind for vertex in picture.vertices}
        self.lines = {op.id: (op.name, op.origin) for op in structure.ops if op.origin is not None}
        self.boxes = {box.id: box for box in picture.boxes}
        self.place = {v.id: v.box for v in picture.vertices} | {b.id: b.parent for b in picture.boxes}
        self.near: dict[str, list[str]] = {}  # readers, and makers of outputs
        for edge in picture.edges:
            self.near.setdefault(edge.tail, []).append(edge.head)
            self.near.setdefault(edge.head, []).append(edge.tail)
        self.items: dict[str | None, list[str]] = {None: []}  # of each box, in order
        self.ops: dict[str, tuple[int, int]] = {}  # the numbers of the first and the last op in each item
        for number, vertex in enumerate([v for v in picture.vertices if v.kind not in LOOSE], 1):
            self.ops[vertex.id] = number, number
        for vertex in picture.vertices:
            item, place = vertex.id, vertex.box
            while place is not None and place not in self.items:
                self.items[place] = [item]
                item, place = place, self.boxes[place].parent
            self.items[place].append(item)
        levels = list(self.items)
        while levels:
            levels.extend(self._divide(levels.pop()))
        vertices = tuple([dataclasses.replace(v, box=self.place[v.id]) for v in picture.vertices])
        boxes = tuple([dataclasses.replace(b, parent=self.place[b.id]) for b in self.boxes.values()])
        self.picture = dataclasses.replace(picture, vertices=vertices, boxes=boxes)

    def _divide(self, level: str | None) -> list[str]:
        """Put the items of a module or stage into stages; returns these."""
        before = len(self.boxes)
        loose = [item for item in self.items[level] if self.kinds.get(item) in LOOSE]
        parts: list[str] = []
        for turns in self._loops([item for item in self.items[level] if self.kinds.get(item) not in LOOSE]):
            alone = len(turns) == 1
            steps = turns[0] if alone else [self._stage(level, turn, f"step {i}") for i, turn in enumerate(turns, 1)]
            parts.extend([self._stage(level, steps)] if len(steps) > 10 else steps)
        if len(parts) + len(loose) > MOST and len(parts) > 10:
            size = 10
            while len(parts) > GROUPS * size:
                size *= 10
            tens = [parts[i : i + size] for i in range(0, len(parts), size)]
            parts = [self._stage(level, ten) if len(ten) > 1 else ten[0] for ten in tens]
        few = level is None and sum(self.kinds[item] in LOOSE[:2] for item in loose) <= MOST // 3
        self.items[level] = parts
        for item in loose:
            stage = None if few and self.kinds[item] in LOOSE[:2] else self._around(item, level)
            self.place[item] = level if stage is None else stage
            self.items[self.place[item]].append(item)
        return list(self.boxes)[before:]

    def _stage(self, level: str | None, items: list[str], name: str = "") -> str:
        """A stage around items that follow each other: "step 1 … step 10", or with the numbers of its ops."""
        names = [self.boxes[item].name if item in self.boxes else "…" for item in items]
        if not name and (len(set(names)) < len(names) or "…" in "".join(names)):
            name = f"ops {self._ops(items[0])[0]} … {self._ops(items[-1])[1]}"
        name = name or f"{names[0]} … {names[-1]}"
        path = self.boxes[level].path if level is not None else ()
        stage = f"t{len(self.boxes) + 1}"
        self.boxes[stage] = Box(stage, name, "stage", level, (*path, name))
        self.items[stage], self.place[stage] = items, level
        self.place.update(dict.fromkeys(items, stage))
        return stage

    def _ops(self, item: str) -> tuple[int, int]:
        """The numbers of the first and the last op in an item."""
        if item not in self.ops:
            inside = [self._ops(one) for one in self.items[item] if self.kinds.get(one) not in LOOSE]
            self.ops[item] = inside[0][0], inside[-1][1]
        return self.ops[item]

    def _around(self, item: str, level: str | None) -> str | None:
        """The stage on a level around all that reads or computes an item; None if there is none."""
        found = set()
        for place in self.near.get(item, ()):
            while self.place[place] != level:
                place = str(self.place[place])
            found.add(place)
        stage = found.pop() if len(found) == 1 else ""
        return stage if stage.startswith("t") else None

    def _loops(self, items: list[str]) -> Iterator[list[list[str]]]:
        """The turns of each loop, which the same lines compute again and again; an item in no loop as one turn."""
        keys = [self._key(item) for item in items]
        i = 0
        while i < len(items):
            count, length = 1, 1
            for n in range(2, min(LONGEST, (len(items) - i) // FEWEST) + 1):
                if keys[i + n] == keys[i] and keys[i + 1 : i + n] != keys[i : i + n - 1]:
                    turn, again = keys[i : i + n], 1
                    while keys[i + again * n : i + (again + 1) * n] == turn:
                        again += 1
                    if again >= FEWEST:
                        count, length = again, n
                        break
            yield [items[i + t * length : i + (t + 1) * length] for t in range(count)]
            i += count * length

    def _key(self, item: str) -> object:
        """A key that is equal in each turn of a loop: an op's name and line, a module's or stage's name."""
        box = self.boxes.get(item)
        if box is None:
            return self.lines.get(item, item)
        return box.kind, box.name, self._key(self.items[item][0]) if box.kind == "formula" else ""
