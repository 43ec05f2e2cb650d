"""Pictures of a student's engine: its graph computed once more by tinytensor, with the student's own ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

import tinytensor as tt
from tinytensor.graph import Graph
from tinytensor.primitive import OPS


def declared(op: Any) -> Any:
    """A student's op as one of tinytensor: the same forward function, the same rules. It is not registered."""
    registered = dict(OPS)
    try:
        return tt.op(**op.rules)(op.forward)
    finally:
        OPS.clear()
        OPS.update(registered)


def graph_of(result: Any, names: Mapping[str, Any] | None = None, **options: Any) -> Graph:
    """The graph behind a Value of the student's engine, as tinytensor draws its own.

    Every op is computed anew from the data of the leaves, in the order of `made`; `parts` become boxes.

    Args:
        result: a Value: `data`, `wants`, `op`, `parents`, `parameters`, `made`, `parts`.
        names: names of Values.
        options: how to draw it, as for `tt.draw`.

    Raises ValueError if the result wants no gradient, or is a leaf.
    """
    if not result.wants or result.op is None:
        raise ValueError("graph_of: expected a Value that an op has made and that wants a gradient")
    ops = {value.op: declared(value.op) for value in _in_order(result) if value.op is not None}
    tensors: dict[Any, tt.Tensor] = {}
    boxes: list[tuple[str, Any]] = []  # those that are open, each in the one before
    with tt.record():
        for value in _in_order(result):
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], zip(value.parts, boxes)))
            while len(boxes) > same:
                boxes.pop()[1].__exit__(None, None, None)
            for name in value.parts[same:]:
                boxes.append((name, tt.named_scope(name)))
                boxes[-1][1].__enter__()
            if value.op is None:
                tensors[value] = tt.tensor(value.data, requires_grad=value.wants)
            else:
                tensors[value] = ops[value.op](*(tensors[p] for p in value.parents), **value.parameters)
        while boxes:
            boxes.pop()[1].__exit__(None, None, None)
    named = {name: tensors[value] for name, value in (names or {}).items() if value in tensors}
    return tt.draw(tensors[result], names=named, **options)


def _in_order(result: Any) -> Iterable[Any]:
    """All Values that a result was computed from, itself the last."""
    found, waiting = {result}, [result]
    while waiting:
        for parent in waiting.pop().parents:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return sorted(found, key=lambda value: value.made)
