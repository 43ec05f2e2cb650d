"""Lines of a whole function that are written in another way, with the same result and less work.

`Tape.rewrite` calls these before it writes a line: they return the array that replaces the result, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...record.tape import NAMES, Recorded

WORTH_SHARING = 1 << 15  # elements whose sum threads share


def rewrite(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Recorded | None:
    """Return a recorded array that equals the result of a line and takes less time, or None."""
    return RULES[name](*arguments, **options) if name in RULES else None


def _matmul(a: Recorded, b: Recorded) -> Any:
    """Columns times rows: products of numbers. Rows of several matrices times one and the same: one longer matrix."""
    if min(a.ndim, b.ndim) > 1 == a.shape[-1] and a.dtype == b.dtype and a.dtype.kind == "f":
        return NAMES.add(NAMES.multiply(a, b), 0.0)  # a sum begins with 0, so that it is no -0
    if not a.ndim > 2 == b.ndim or not a.size:
        return None
    product = NAMES.matmul(NAMES.reshape(a, (-1, a.shape[-1])), b)
    return NAMES.reshape(product, (*a.shape[:-1], b.shape[-1]))


def _sum(x: Recorded, axis: tuple[int, ...]) -> Any:
    """A sum of all elements: of the sums of rows, which threads share. One of products: a product of longer rows."""
    if axis == tuple(range(x.ndim)) and x.size >= WORTH_SHARING and min(x.shape[0], x.shape[-1]) > 1 < x.ndim:
        return NAMES.sum(NAMES.sum(x, axis=-1, keepdims=True), axis=axis[:-1], keepdims=True)
    line = x.tape.makers.get(x)
    if line is None or line.name != "matmul" or axis != tuple(range(x.ndim - 2)) or not axis:
        return None
    a, b = line.operands
    if a.shape[:-2] != b.shape[:-2]:
        return None
    columns = NAMES.reshape(NAMES.permute_dims(a, (*axis, -1, -2)), (-1, a.shape[-2]))
    product = NAMES.matmul(NAMES.permute_dims(columns, (1, 0)), NAMES.reshape(b, (-1, b.shape[-1])))
    return NAMES.reshape(product, (*[1] * len(axis), *product.shape))


def _permute_dims(x: Recorded, axes: tuple[int, ...]) -> Any:
    """One permutation after another: one. A transposed product, A B: B^T A^T, whose result is contiguous."""
    line = x.tape.makers.get(x)
    if line is not None and line.name == "permute_dims":
        return NAMES.permute_dims(line.operands[0], tuple(line.options["axes"][i] for i in axes))
    if line is None or line.name != "matmul" or axes != (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2):
        return None
    a, b = line.operands
    if not a.ndim == b.ndim == x.ndim:
        return None
    return NAMES.matmul(NAMES.permute_dims(b, axes), NAMES.permute_dims(a, axes))


def _reshape(x: Recorded, shape: tuple[int, ...]) -> Any:
    """One shape after another: the last one, unless the first is a copy in another order."""
    line = x.tape.makers.get(x)
    if line is None or line.name != "reshape":
        return None
    (source,) = line.operands
    made = x.tape.makers.get(source)
    is_copied = made is not None and made.name in ("broadcast_to", "flip", "getitem", "part", "permute_dims")
    return NAMES.reshape(source, shape) if shape == source.shape or not is_copied else None


def _add(a: Any, b: Any) -> Any:
    """Two parts of one array, each with zeros around it: both written into one array."""
    made = [x.tape.makers.get(x) for x in (a, b) if isinstance(x, Recorded)]
    lines = [line for line in made if line is not None and line.name in ("scatter", "place")]
    if len(lines) < 2 or (a.shape, a.dtype) != (b.shape, b.dtype):
        return None
    parts: list[Any] = []
    for line in lines:
        parts += [line.arguments[:2]] if line.name == "scatter" else line.arguments[0]
    if all(len(key) == 1 and isinstance(key[0], Recorded) for _, key in parts):
        return _rows_of_a_table(parts, a.shape)
    if any(isinstance(each, Recorded) for _, key in parts for each in key):
        return None
    counts = np.zeros(a.shape, np.int8)
    for _, key in parts:
        counts[key] += 1
    if counts.max(initial=0) > 1:
        return None
    return a.tape.write("place", (tuple(parts),), {"covers": bool(counts.all())}, a.shape, a.dtype)


def _rows_of_a_table(parts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    rows = NAMES.concat([NAMES.reshape(x, (-1, *shape[1:])) for x, _ in parts], axis=0)
    ids = NAMES.concat([NAMES.reshape(key[0], (-1,)) for _, key in parts], axis=0)
    return NAMES.scatter(rows, (ids,), shape)


RULES: dict[str, Callable[..., Any]] = {
    "add": _add, "matmul": _matmul, "permute_dims": _permute_dims, "reshape": _reshape, "sum": _sum,
}  # fmt: skip
