"""A position more of sequences whose keys and values are kept, in compiled loops: all layers of a decoder in one.

A step of decoding has a row for each branch, and wants no gradient. Its products take microseconds, so that the
interpreter, if it were asked for each op of each layer, would take most of the time. Compiling takes seconds, once;
then the loops are read from disk.

A mask is added to the scores, and is empty where there is none: `as_mask`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compiling import _array
from .compiling import places as places
from .few_rows import FEW, _multiply
from .gemm import ADDRESSES, multiply
from .loops import _exp, _layer_norm, loop
from .loops import fits as fits
from .sublayers import _softmax

RELU, GELU, GELU_TANH, SILU, SIGMOID, IDENTITY = range(6)
FIRST, SEEN, OUT, SEEN_OUT, INNER, OUTER, NORM1, NORM2, NORM3 = range(0, 18, 2)  # where the address of a weight stands


def as_mask(hidden: Any, dtype: Any) -> Any:
    """What is added to scores (batch, heads, branches, places) to hide what `hidden`, which broadcasts to it, says."""
    if hidden is None or not hidden.any():
        return np.empty((0, 0, 0, 0), dtype)
    return np.ascontiguousarray(np.where(hidden, dtype.type(-math.inf), dtype.type(0)))


# ---- the decoder of a Transformer


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
        self.addresses = np.array([places(*arrays) for arrays in layers])
        self.sizes, self.reals = np.array(sizes), np.array(reals)
        self.norm, self.eps = places(*norm[:2]), norm[2]

    def step(self, x: Any, where: Any, room: int, source: int, places: int, mask: Any, memory_mask: Any) -> Any:
        """What the layers make of x (batch, branches, d).

        Args:
            where: for each layer the addresses of keys and values side by side, (batch, source, 2 * d) of the memory
                and (batch, room, 2 * d), of which the first `places` are there; those of x are written behind them.
        """
        out = x.copy()
        _step(
            ADDRESSES[x.dtype], out, self.addresses, self.sizes, self.reals, self.norm, self.eps, where, room, source,
            places, mask, memory_mask,
        )  # fmt: skip
        return out


@loop
def _vector(address, size, like):
    """Likewise; empty where there is none."""
    return _array(address, (size if address else 0,), like)


@loop
def _step(
    gemm, out, addresses, sizes, reals, norm, norm_eps, where, room, source, places, mask, memory_mask
):  # fmt: skip
    batch, branches, d = out.shape
    x = out.reshape(-1, d)
    y, attended, query, own = np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty((len(x), 3 * d), x.dtype)
    for n in range(len(addresses)):
        at, eps, first = addresses[n], reals[n, 2:], sizes[n, 4] > 0
        memory = _array(where[n, 0], (batch, source, 2 * d), x)
        kept = _array(where[n, 1], (batch, room, 2 * d), x)

        _before(x, at[NORM1:], eps[0], first, y)
        _linear(gemm, y, at[FIRST:], own)
        for r in range(len(x)):
            for i in range(2 * d):
                kept[r // branches, places + r % branches, i] = own[r, d + i]
        _attend(gemm, own, branches, kept, places + branches, mask, False, sizes[n, 1], reals[n, 0], attended)
        _linear(gemm, attended, at[OUT:], y)
        _after(x, y, at[NORM1:], eps[0], first)

        _before(x, at[NORM2:], eps[1], first, y)
        _linear(gemm, y, at[SEEN:], query)  # the first rows of all: keys and values are there
        _attend(gemm, query, branches, memory, source, memory_mask, False, sizes[n, 2], reals[n, 1], attended)
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
    weight = _array(at[0], (out.shape[1], x.shape[1]), x)
    bias = _vector(at[1], out.shape[1], x)
    if x.shape[0] <= FEW:
        _multiply(x, weight, bias, 0, out.shape[1], out)
        return
    multiply(gemm, x, False, weight, True, 0, out)
    if bias.size:
        for r in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[r, i] += bias[i]


@loop
def _attend(gemm, query, branches, kept, places, mask, shifts, heads, scale, out):
    """Concat(head_1, ..., head_h): the first columns of `query` attend to keys and values of their item.

    So many of the heads one after the other share one of keys and values as there are fewer of these.
    """
    batch, width = kept.shape[0], kept.shape[2] // 2
    size, shared = out.shape[1] // heads, out.shape[1] // width
    weights = np.empty((batch, heads, branches, places), out.dtype)
    for b in range(batch):
        rows = query[b * branches : (b + 1) * branches]
        for h in range(heads):
            first = h // shared * size
            key = kept[b, :places, first : first + size]
            multiply(gemm, rows[:, h * size : (h + 1) * size], False, key, True, 0, weights[b, h])
    _softmax(weights, 0, batch, mask, shifts, out.dtype.type(scale))
    for b in range(batch):
        rows = out[b * branches : (b + 1) * branches]
        for h in range(heads):
            first = width + h // shared * size
            value = kept[b, :places, first : first + size]
            multiply(gemm, weights[b, h], False, value, False, 0, rows[:, h * size : (h + 1) * size])


@loop
def _activate(x, activation):
    flat, one = x.reshape(-1), x.dtype.type(1)
    if activation == RELU:
        for i in range(flat.size):
            flat[i] = 0 * one if flat[i] <= 0 else flat[i]
    elif activation == GELU:
        for i in range(flat.size):
            flat[i] *= x.dtype.type(0.5 * (1 + math.erf(flat[i] / math.sqrt(2))))
    elif activation == GELU_TANH:  # 1 + tanh(u) is twice the sigmoid of 2 u
        slope, bend = x.dtype.type(2 * math.sqrt(2 / math.pi)), x.dtype.type(0.044715)
        for i in range(flat.size):
            flat[i] *= _sigmoid(slope * flat[i] * (one + bend * flat[i] * flat[i]))
    elif activation == SILU:
        for i in range(flat.size):
            flat[i] *= _sigmoid(flat[i])
    elif activation == SIGMOID:
        for i in range(flat.size):
            flat[i] = _sigmoid(flat[i])


@loop
def _sigmoid(x):
    most = type(x)(80)
    return type(x)(1) / (type(x)(1) + _exp(most if -x > most else -x))


# ---- a layer of a language model


class Block:
    """A layer of a language model as the loop takes it; the numbers are those of `_block`.

    Args:
        arrays: weight and bias, None where there is none, of the projections, of attention's output, of the maps up and
            down, of the gate, and of both norms.
        norms: eps of both norms.

    Attributes:
        d: the size of the vectors.
        heads, head_dim, kv_size: as those of the attention.
    """

    def __init__(
        self, arrays: list[Any], heads: int, kv_heads: int, scale: float, is_interleaved: bool, activation: int,
        is_rms: bool, norms: tuple[float, float],
    ) -> None:  # fmt: skip
        self.arrays = arrays  # so that they stay where they are
        self.addresses = places(*arrays)
        (projected, self.d), inner = arrays[0].shape, len(arrays[4])
        self.heads, self.head_dim = heads, projected // (heads + 2 * kv_heads)
        self.kv_size = 2 * kv_heads * self.head_dim
        self.settings = (
            projected,
            inner,
            heads,
            kv_heads,
            float(scale),
            is_interleaved,
            activation,
            is_rms,
            *map(float, norms),
        )

    def step(self, x: Any, kept: Any, places: int, mask: Any, shifts: bool, angles: tuple[Any, Any]) -> Any:
        """What the layer makes of x (batch, branches, d), beside keys and values that are kept, as for `Stack.step`.

        Args:
            mask: as of `as_mask`; or, with `shifts`, other numbers to add to the scores.
            angles: cos and sin, (batch * branches, size / 2) or, where nothing is turned, empty.
        """
        out = x.copy()
        _block(ADDRESSES[x.dtype], out, self.addresses, kept, places, mask, shifts, *angles, *self.settings)
        return out


@loop
def _block(
    gemm, out, at, kept, places, mask, shifts, cos, sin, projected, inner, heads, kv_heads, scale, is_interleaved,
    activation, is_rms, eps1, eps2,
):  # fmt: skip
    branches, d = out.shape[1:]
    x, size = out.reshape(-1, d), projected // (heads + 2 * kv_heads)
    y, own = np.empty_like(x), np.empty((len(x), projected), x.dtype)
    attended, hidden = np.empty((len(x), heads * size), x.dtype), np.empty((len(x), inner), x.dtype)

    _norm(x, at[10:], eps1, is_rms, y)
    _linear(gemm, y, at, own)
    if cos.size:
        _turn(own, (heads + kv_heads) * size, size, cos, sin, is_interleaved)
    for r in range(len(x)):
        for i in range(kept.shape[2]):
            kept[r // branches, places + r % branches, i] = own[r, heads * size + i]
    _attend(gemm, own, branches, kept, places + branches, mask, shifts, heads, scale, attended)
    _linear(gemm, attended, at[2:], y)
    _after(x, y, at, eps1, True)

    _norm(x, at[12:], eps2, is_rms, y)
    _linear(gemm, y, at[4:], hidden)
    if at[8]:
        gate = np.empty_like(hidden)
        _linear(gemm, y, at[8:], gate)
        _activate(gate, activation)
        for r in range(len(x)):
            for i in range(inner):
                hidden[r, i] *= gate[r, i]
    else:
        _activate(hidden, activation)
    _linear(gemm, hidden, at[6:], y)
    _after(x, y, at, eps2, True)


@loop
def _norm(x, norm, eps, is_rms, out):
    if not is_rms:
        _normalize(x, norm, eps, out)
        return
    weight = _vector(norm[0], x.shape[1], x)
    for r in range(x.shape[0]):
        squares = 0.0
        for i in range(x.shape[1]):
            squares += x[r, i] ** 2
        factor = x.dtype.type(1 / math.sqrt(squares / x.shape[1] + eps))
        for i in range(x.shape[1]):
            out[r, i] = x[r, i] * factor * weight[i]


@loop
def _turn(rows, end, size, cos, sin, is_interleaved):
    """Turn the heads of each row up to column `end` by its angles."""
    step, apart = (2, 1) if is_interleaved else (1, size // 2)
    for r in range(len(rows)):
        for first in range(0, end, size):
            for i in range(size // 2):
                j = first + i * step
                a, b = rows[r, j], rows[r, j + apart]
                rows[r, j] = a * cos[r, i] - b * sin[r, i]
                rows[r, j + apart] = a * sin[r, i] + b * cos[r, i]
