"""The linear map, and the look-up of rows that is one with one-hot inputs."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.messages import aligned

from .precision import lowered

FLOPS = 16  # multiplications and additions of a product that take the time of one element-wise operation


@tt.op
def _linear(x, weight, bias):
    """x W^T + b."""
    y = tt.matmul(x, tt.matrix_transpose(weight))
    return y if bias is None else y + bias


@_linear.forward
def _(xp, x, weight, bias):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])  # one product, whatever the batch
    out = xp.empty((len(rows), len(weight)), dtype=rows.dtype)

    def part(i: slice) -> None:
        xp.matmul(rows[i], weight.T, out=out[i])
        if bias is not None:
            out[i] += bias

    xp.in_parts(part, len(rows), rows.size * len(weight) // FLOPS, product=True)
    return out.reshape(*x.shape[:-1], len(weight)), (rows, weight)


@_linear.backward
def _(xp, g, kept, needs):
    rows, weight = kept
    count, features = len(rows), len(weight)
    g_rows = xp.contiguous(g).reshape(count, features)
    g_x = xp.empty(rows.shape, dtype=rows.dtype) if needs[0] else None
    g_weight = xp.empty(weight.shape, dtype=rows.dtype) if needs[1] else None
    sums: dict[int, Any] = {}

    def part(i: slice) -> None:
        if needs[0]:
            xp.matmul(g_rows[i], weight, out=g_x[i])
        if needs[1]:
            j = slice(i.start * features // count, i.stop * features // count) if count else slice(None)
            xp.matmul(g_rows[:, j].T, rows, out=g_weight[j])
        if needs[2]:
            sums[i.start] = xp.sum(g_rows[i], axis=0)

    xp.in_parts(part, count, 2 * rows.size * features // FLOPS, product=True)
    g_bias = sum(sums[start] for start in sorted(sums)) if needs[2] else None
    return None if g_x is None else g_x.reshape(*g.shape[:-1], rows.shape[1]), g_weight, g_bias


@lowered
def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """x W^T + b.

    Shapes: input (..., in_features), weight (out_features, in_features), bias (out_features,) -> (..., out_features).
    Raises ValueError, with both shapes, where they do not fit.
    """
    input = input if isinstance(input, Tensor) else tt.asarray(input, device=weight.device)
    shape, weight_shape = input.shape, weight.shape
    if len(weight_shape) != 2 or not shape or shape[-1] != weight_shape[1]:
        raise ValueError(_misfit({"input": shape, "weight": weight_shape}, (-1, -1), "in_features"))
    if bias is not None and tuple(bias.shape) != (weight_shape[0],):
        raise ValueError(_misfit({"weight": weight_shape, "bias": bias.shape}, (-2, -1), "out_features"))
    return _linear(input, weight, bias)


def _misfit(shapes: dict[str, tuple[int, ...]], axes: tuple[int, int], what: str) -> str:
    """Two shapes that do not agree, the first in one of the axes, the second in the other."""
    (one, first), (other, second) = shapes.items()
    return (
        f"linear: {one} {tuple(first)} and {other} {tuple(second)} do not agree in {what}\n"
        f"{aligned(shapes, lambda operand, axis: axis == axes[operand])}"
    )


@tt.op
def _embedding(weight, ids, *, padding_idx):
    """Row ids[i] of the weight for each i."""
    if padding_idx is None:
        return tt.take(weight, ids, axis=0)
    rows = tt.take(weight, ids, axis=0)
    return tt.where(tt.expand_dims(ids == padding_idx, axis=-1), rows.detach(), rows)


@_embedding.forward
def _(xp, weight, ids, *, padding_idx):
    return weight[ids], (ids, len(weight))


@_embedding.backward
def _(xp, g, kept, needs, *, padding_idx):
    ids, length = kept
    g_weight = xp.add_rows(xp.reshape(g, (-1, g.shape[-1])), xp.reshape(ids, (-1,)), length)
    if padding_idx is not None:
        g_weight[padding_idx] = 0
    return g_weight, None


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Row input[i] of the weight for each id: shapes (...), (num_embeddings, embedding_dim) -> (..., embedding_dim).

    The row `padding_idx` gets no gradient. Raises TypeError for ids that are no integers, and IndexError for ids out of
    range; on a GPU where a number is read next.
    """
    ids = beside(input, weight)
    length = weight.shape[0]
    if ids.dtype.kind not in "iu":
        raise TypeError(f"embedding: ids must be integers, got {ids.dtype}")
    if padding_idx is not None:
        if not -length <= padding_idx < length:
            raise IndexError(f"embedding: padding_idx {padding_idx} is out of range for {length} rows")
        padding_idx %= length
    check_range("embedding", "ids", ids, length)
    return _embedding(weight, ids, padding_idx=padding_idx)


def beside(value: Any, other: Tensor) -> Tensor:
    """Numbers and arrays as a Tensor on the other's device; a Tensor as it is, since nothing moves silently."""
    return value if isinstance(value, Tensor) else tt.asarray(value, device=other.device)


def check_range(name: str, what: str, ids: Tensor, length: int, *, at_once: bool = False) -> None:
    """Raise IndexError unless every id is from 0 to length - 1 (NumPy would take negative ones, CuPy any).

    Unless `at_once`, a GPU may tell later, where a number is read next: to look at once would mean to wait.
    """
    if ids.size:
        xp = for_array(ids._data)
        (xp.check_range_at_once if at_once else xp.check_range)(name, what, ids._data, length)
