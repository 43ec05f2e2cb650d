"""A position more of sequences whose keys and values are kept: all layers of a decoder in one compiled loop.

A step of decoding has a row for each branch, and wants no gradient. Its products take microseconds, so that the
interpreter, if it were asked for each op of each layer, would take most of the time. Compiling takes seconds, once; then
the loop is read from disk.

A mask is added to the scores, and is empty where there is none: `as_mask`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from .gemm import ADDRESSES, multiply
from .loops import FEW, _few_rows, _layer_norm, loop
from .sublayers import _softmax

RELU, GELU = range(2)
FIRST, SEEN, OUT, SEEN_OUT, INNER, OUTER, NORM1, NORM2, NORM3 = range(0, 18, 2)  # where the address of a weight stands


def as_mask(hidden: Any, dtype: Any) -> Any:
    """What is added to scores (batch, heads, branches, places) to hide what `hidden`, which broadcasts to it, says."""
    if hidden is None or not hidden.any():
        return np.empty((0, 0, 0, 0), dtype)
    return np.where(hidden, dtype.type(-math.inf), dtype.type(0))


class Stack:
    """The layers of a decoder as the loop takes them: by address, since how many there are is not its affair.

    Args:
        layers: for each the arrays of weight and bias, None where there is none, of the projections of self-attention
            and of attention to the memory, of their outputs, of the feed-forward network's maps, and of the norms.
        sizes: for each the inner size, the heads of both attentions, the activation, and whether norms are first.
        reals: for each the scales of both attentions, and eps of the three norms.
        norm: weight and bias of the norm at the end, None where there is none, and its eps.
    """

    def __init__(
        self, layers: list[list[Any]], sizes: list[list[int]], reals: list[list[float]], norm: tuple[Any, Any, float]
    ) -> None:
        self.arrays = layers, norm  # so that they stay where they are
        self.addresses = np.array([[address(array) for array in arrays] for arrays in layers])
        self.sizes, self.reals = np.array(sizes), np.array(reals)
        self.norm, self.eps = np.array([address(array) for array in norm[:2]]), norm[2]

    def step(self, x: Any, kept: list[Any], memories: list[Any], places: int, mask: Any, memory_mask: Any) -> Any:
        """What the layers make of x (batch, branches, d).

        Args:
            kept: for each layer room for keys and values side by side, (batch, room, 2 * d), of which the first
                `places` are there; those of x are written behind them.
            memories: likewise keys and values of the memory, (batch, source, 2 * d).
        """
        out = x.copy()
        where = np.array([(address(a), address(b)) for a, b in zip(kept, memories)])
        _step(
            ADDRESSES[x.dtype], out, self.addresses, self.sizes, self.reals, self.norm, self.eps, where,
            kept[0].shape[1], memories[0].shape[1], places, mask, memory_mask,
        )  # fmt: skip
        return out


def address(array: Any) -> int:
    """Where an array lies; 0 for None."""
    return 0 if array is None else array.__array_interface__["data"][0]


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def turn(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), turn


@loop
def _vector(address, size, like):
    """The array that lies there; empty where there is none."""
    return carray(_pointer(address), (size if address else 0,), like.dtype)


@loop
def _step(
    gemm, out, addresses, sizes, reals, norm, norm_eps, where, room, source, places, mask, memory_mask
):  # fmt: skip
    batch, branches, d = out.shape
    x = out.reshape(-1, d)
    y, attended, query, own = np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty((len(x), 3 * d), x.dtype)
    for n in range(len(addresses)):
        at, eps, first = addresses[n], reals[n, 2:], sizes[n, 4] > 0
        kept = carray(_pointer(where[n, 0]), (batch, room, 2 * d), x.dtype)
        memory = carray(_pointer(where[n, 1]), (batch, source, 2 * d), x.dtype)

        _before(x, at[NORM1:], eps[0], first, y)
        _linear(gemm, y, at[FIRST:], own)
        for r in range(len(x)):
            for i in range(2 * d):
                kept[r // branches, places + r % branches, i] = own[r, d + i]
        _attend(gemm, own, branches, kept, places + branches, mask, sizes[n, 1], reals[n, 0], attended)
        _linear(gemm, attended, at[OUT:], y)
        _after(x, y, at[NORM1:], eps[0], first)

        _before(x, at[NORM2:], eps[1], first, y)
        _linear(gemm, y, at[SEEN:], query)  # the first rows of all: keys and values are there
        _attend(gemm, query, branches, memory, source, memory_mask, sizes[n, 2], reals[n, 1], attended)
        _linear(gemm, attended, at[SEEN_OUT:], y)
        _after(x, y, at[NORM2:], eps[1], first)

        _before(x, at[NORM3:], eps[2], first, y)
        hidden = np.empty((len(x), sizes[n, 0]), x.dtype)
        _linear(gemm, y, at[INNER:], hidden)
        _activate(hidden, sizes[n, 3])
        _linear(gemm, hidden, at[OUTER:], y)
        _after(x, y, at[NORM3:], eps[2], first)
    if norm[0]:
        _normalize(x, norm, norm_eps, x)


@loop
def _before(x, norm, eps, norm_first, y):
    """What a sub-layer is given."""
    if norm_first:
        _normalize(x, norm, eps, y)
    else:
        for r in range(x.shape[0]):
            for i in range(x.shape[1]):
                y[r, i] = x[r, i]


@loop
def _after(x, y, norm, eps, norm_first):
    """Add to x what a sub-layer gave."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += y[r, i]
    if not norm_first:
        _normalize(x, norm, eps, x)


@loop
def _normalize(x, norm, eps, out):
    normal, scale, d = np.empty_like(x), np.empty((len(x), 1), x.dtype), x.shape[1]
    _layer_norm(x, _vector(norm[0], d, x), None, eps, out, normal, scale)
    if norm[1]:
        bias = _vector(norm[1], d, x)
        for r in range(len(x)):
            for i in range(d):
                out[r, i] += bias[i]


@loop
def _linear(gemm, x, at, out):
    """out = x weightᵀ + bias, with as many rows of the weight as there are columns of the result."""
    weight = carray(_pointer(at[0]), (out.shape[1], x.shape[1]), x.dtype)
    bias = _vector(at[1], out.shape[1], x)
    if x.shape[0] <= FEW:
        _few_rows(x, weight, bias, 0, out.shape[1], out)
        return
    multiply(gemm, x, False, weight, True, 0, out)
    if bias.size:
        for r in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[r, i] += bias[i]


@loop
def _attend(gemm, query, branches, kept, places, mask, heads, scale, out):
    """Concat(head_1, ..., head_h): the first columns of `query` attend to keys and values of their item."""
    batch, d = kept.shape[0], out.shape[1]
    size = d // heads
    weights = np.empty((batch, heads, branches, places), out.dtype)
    for b in range(batch):
        rows = query[b * branches : (b + 1) * branches]
        for h in range(heads):
            columns = slice(h * size, (h + 1) * size)
            multiply(gemm, rows[:, columns], False, kept[b, :places, columns], True, 0, weights[b, h])
    _softmax(weights, 0, batch, mask, False, out.dtype.type(scale))
    for b in range(batch):
        rows = out[b * branches : (b + 1) * branches]
        for h in range(heads):
            value = kept[b, :places, d + h * size : d + (h + 1) * size]
            multiply(gemm, weights[b, h], False, value, False, 0, rows[:, h * size : (h + 1) * size])


@loop
def _activate(x, activation):
    flat, zero = x.reshape(-1), x.dtype.type(0)
    if activation == RELU:
        for i in range(flat.size):
            flat[i] = zero if flat[i] <= zero else flat[i]
    else:
        for i in range(flat.size):
            flat[i] *= x.dtype.type(0.5 * (1 + math.erf(flat[i] / math.sqrt(2))))
