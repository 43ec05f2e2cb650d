"""Operands in error messages: a shape and a dtype, and several shapes under each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def describe(value: Any) -> str:
    """An operand in an error message: shape and dtype of an array, a number as it is."""
    if hasattr(value, "dtype"):
        return f"{tuple(value.shape)} {value.dtype}"
    return repr(value)


def aligned(shapes: Mapping[str, Sequence[int]], misfits: Callable[[int, int], bool] | None = None) -> str:
    """Shapes under each other, last axis under last axis; axes that do not fit are in brackets.

        x1   2  [3]
        x2   3  [4]

    Args:
        shapes: by the name of the operand.
        misfits: says if an axis of an operand does not fit, by the operand's number and the axis counted from the end
            (-1 is the last); default: lengths that do not broadcast.
    """
    rows = [tuple(shape) for shape in shapes.values()]

    def differ(_: int, axis: int) -> bool:
        return len({row[axis] for row in rows if len(row) >= -axis} - {1}) > 1

    wrong = misfits or differ
    width = max((len(row) for row in rows), default=0)
    cells = [
        [f"[{row[axis]}]" if wrong(i, axis) else f" {row[axis]} " for axis in range(-len(row), 0)]
        for i, row in enumerate(rows)
    ]
    cells = [["" for _ in range(width - len(row))] + row for row in cells]
    widths = [max(len(row[j]) for row in cells) for j in range(width)]
    names = max(map(len, shapes))
    lines = [
        f"  {name:<{names}}  " + " ".join(cell.rjust(w) for cell, w in zip(row, widths))
        for name, row in zip(shapes, cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def operands(op: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """The operands' shapes axis by axis, with axes that do not fit in brackets; "" for fewer than two."""
    if len(shapes) < 2:
        return ""
    rows = list(shapes.values())
    if op != "matmul" or min(map(len, rows)) == 0:
        return "\n" + aligned(shapes)
    inner = (-1, -1 if len(rows[1]) == 1 else -2)
    unequal = rows[0][-1] != rows[1][inner[1]]

    def misfits(operand: int, axis: int) -> bool:
        if axis >= -2:
            return unequal and axis == inner[operand]
        return len({row[axis] for row in rows if len(row) >= -axis} - {1}) > 1

    return "\n" + aligned(shapes, misfits)
