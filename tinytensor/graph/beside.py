"""The picture of two graphs side by side: signs mark differences, counterparts are at one height."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from .align import MarkName, Match, align
from .calls import Index
from .graph import Graph, with_changes
from .marks import MARKS
from .options import Options
from .picture import Box, Picture, Vertex
from .short_text import shape_text
from .structure import Scope, Structure

SIDES = ("a", "b")


class Difference(NamedTuple):
    """The difference of a vertex or a box: its mark, its changes, and its counterpart's id, if it has one."""

    mark: MarkName
    what: tuple[str, ...] = ()
    counterpart: str | None = None


def beside(graphs: Sequence[Graph], names: Sequence[str], captions: Sequence[str], fields: dict[str, Any]) -> Picture:
    """One picture with a box for each of two graphs.

    Args:
        names: the names of the graphs.
        captions: the text above each.
        fields: fields of `Options`, for both; without a depth, parts that moved or that only one has are always drawn.

    Raises ValueError for options that do not exist or do not fit.
    """
    options = [with_changes(graph.options, fields) for graph in graphs]
    a, b = (graph._build(chosen)[0] for graph, chosen in zip(graphs, options))
    matches = align(a, b, options[0])
    if "depth" not in fields:
        options = [dataclasses.replace(chosen, depth=max(chosen.depth, _nesting(matches))) for chosen in options]
    alike = _alike(matches)
    options = [_with_closed(chosen, alike) for chosen in options]
    structures = [graph._build(chosen)[0] for graph, chosen in zip(graphs, options)]
    found = _differences(align(structures[0], structures[1], options[0]), structures)
    pictures = [graph.picture(**vars(chosen)) for graph, chosen in zip(graphs, options)]
    boxes: list[Box] = []
    vertices: list[Vertex] = []
    for side, picture, differences, name, caption in zip(SIDES, pictures, found, names, captions):
        boxes.append(Box(side, caption, "stage", None, (name,)))
        boxes += [_marked_box(box, side, differences.get(box.id)) for box in picture.boxes]
        vertices += [_marked(vertex, side, differences.get(vertex.id), names) for vertex in picture.vertices]
    edges = [
        dataclasses.replace(edge, tail=f"{side}_{edge.tail}", head=f"{side}_{edge.head}")
        for side, picture in zip(SIDES, pictures)
        for edge in picture.edges
    ]
    drawn = {vertex.id for vertex in vertices}
    levels = [
        (f"a_{place}", f"b_{difference.counterpart}")
        for place, difference in found[0].items()
        if difference.mark != "moved" and {f"a_{place}", f"b_{difference.counterpart}"} <= drawn
    ]
    description = ". ".join(f"{name}: {picture.description}" for name, picture in zip(names, pictures))
    first = pictures[0]
    return Picture(
        tuple(vertices), tuple(edges), tuple(boxes), first.direction, " and ".join(names), description,
        levels=tuple(levels), legend=first.legend, apart=first.apart,
    )  # fmt: skip


def _nesting(matches: Sequence[Match], around: int = 0) -> int:
    """How many modules are at most around a part that moved or that only one graph has: the depth that shows them."""
    found = [around if match.mark in ("only a", "only b", "moved") else 0 for match in matches]
    return max([*found, *(_nesting(match.inside, around + 1) for match in matches if match.inside)], default=0)


def _alike(matches: Sequence[Match]) -> set[str]:
    """Paths of modules without a difference: one vertex is enough to show them."""
    found: dict[str, bool] = {}
    for match in [inner for outer in matches for inner in outer.walk()]:
        both = match.a is not None and match.b is not None
        differs = both and (match.mark == "changed" or any(inner.mark != "same" for inner in match.inside))
        for part in (match.a, match.b):
            if part is not None and part.kind != "op":
                found[part.path] = found.get(part.path, True) and not differs
    return {path for path, alike in found.items() if alike}


def _with_closed(options: Options, paths: set[str]) -> Options:
    """Options that close the modules at these paths; the outermost, which has no path in another, stays open."""

    def collapse(scope: Scope) -> bool:
        return options.collapses(scope) or (scope.parent is not None and ".".join(scope.path[1:]) in paths)

    return dataclasses.replace(options, collapse=collapse)


def _differences(
    matches: Sequence[Match], structures: Sequence[Structure]
) -> tuple[dict[str, Difference], dict[str, Difference]]:
    """The differences in both graphs, by the ids of ops, of scopes and of arrays from outside."""
    found: tuple[dict[str, Difference], dict[str, Difference]] = ({}, {})
    one, other = (Index(structure) for structure in structures)
    for match in [inner for outer in matches for inner in outer.walk()]:
        parts = (match.a, match.b)
        for part, counterpart, differences in zip(parts, parts[::-1], found):
            if part is not None:
                differences[part.id] = Difference(match.mark, match.what, counterpart.id if counterpart else None)
        if match.a is None or match.b is None or match.a.kind != "op":
            continue
        for v, w in zip(one.ops[match.a.id].inputs, other.ops[match.b.id].inputs):
            if v is None or w is None or v in found[0] or w in found[1]:
                continue
            first, second = one.values[v], other.values[w]
            if "result" in (first.kind, second.kind):
                continue
            alike = first.shape == second.shape
            what = () if alike else (f"result {shape_text(first.shape)} → {shape_text(second.shape)}",)
            found[0][v] = Difference("same" if alike else "changed", what, w)
            found[1][w] = Difference("same" if alike else "changed", what, v)
    return found


def _said(what: Sequence[str]) -> list[str]:
    """The changes without those of sizes, which each vertex shows."""
    return [text for text in what if not text.startswith(("parameters ", "result "))]


def _marked(vertex: Vertex, side: str, difference: Difference | None, names: Sequence[str]) -> Vertex:
    """A vertex with its sign and its changes, if any. A vertex without a difference is only in this graph."""
    if vertex.kind == "output":
        difference = difference or Difference("same")
    mark, what, _ = difference or Difference("only a" if side == "a" else "only b")
    sign = MARKS[mark].sign
    said = _said(what)
    words = {
        "only a": f"only in {names[0]}",
        "only b": f"only in {names[1]}",
        "inside": "differs inside",
        "moved": f"moved: in {names[1]} {'; '.join(what)}",
        "changed": "; ".join(what),
    }.get(mark, "")
    lines = vertex.lines
    if mark == "inside":
        lines = (*lines, "differs inside")
    elif mark == "moved":
        lines = (*lines, "moved")
    elif mark == "changed" and said:
        lines = (*lines, "; ".join(said))
    changes: dict[str, Any] = {}
    if sign:
        at = "name" if vertex.name and vertex.kind == "op" else "mathematics" if vertex.mathematics else "title"
        changes[at] = f"{sign} {getattr(vertex, at)}"
    return dataclasses.replace(
        vertex, id=f"{side}_{vertex.id}", box=f"{side}_{vertex.box}" if vertex.box else side, lines=lines, mark=mark,
        words="; ".join(filter(None, (vertex.words, words))), **changes,
    )  # fmt: skip


def _marked_box(box: Box, side: str, difference: Difference | None) -> Box:
    """A box with its sign, unless all differences are in it and visible there."""
    mark = difference.mark if difference is not None else "same"
    if mark == "inside" or (mark == "changed" and difference is not None and not _said(difference.what)):
        mark = "same"
    return dataclasses.replace(
        box, id=f"{side}_{box.id}", parent=f"{side}_{box.parent}" if box.parent else side, mark=mark,
        name=f"{MARKS[mark].sign} {box.name}".strip(),
    )  # fmt: skip
