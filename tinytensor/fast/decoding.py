"""A position more of sequences whose keys and values are kept, in compiled loops: all layers of a decoder in one.

A step of decoding has a row for each branch, and wants no gradient. Its products take microseconds, so that the
interpreter, if it were asked for each op of each layer, would take most of the time.

As in `sublayers.py`, loops are told where arrays lie, and what they call is compiled once and called by its address.
Distances are in bytes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import passes
from .activations import ACTIVATIONS
from .compiling import address, addresses, call, called, distances, loop, numbers, or_zeros
from .compiling import fits as fits
from .compiling import places as places
from .few_rows import FEW, dots, mix
from .pool import empty
from .products import MEMORY, multiply, product

FIRST, SEEN, OUT, SEEN_OUT, INNER, OUTER, NORM1, NORM2, NORM3 = range(0, 18, 2)  # where the address of a weight stands
BRANCHES = 8  # of an item; of more, products that copy the keys are faster


def as_mask(hidden: Any, dtype: Any) -> Any:
    """What is added to scores (batch, heads, branches, places) to hide what `hidden`, which broadcasts to it, says.

    None where nothing is hidden.
    """
    if hidden is None or not hidden.any():
        return None
    return np.ascontiguousarray(np.where(hidden, dtype.type(-math.inf), dtype.type(0)))


def _where(mask: Any) -> tuple[int, ...]:
    """Of a mask or None: its address, and `distances`."""
    return (0 if mask is None else address(mask), *distances(mask))


# ---- the decoder of a Transformer


class Stack:
    """The layers of a decoder as the loop takes them.

    Args:
        layers: for each the arrays of weight and bias, None where there is none, of the projections of self-attention
            and of attention to the memory, of their outputs, of the feed-forward network's maps, and of the norms.
        sizes: for each the inner size, the heads of both attentions, and whether norms are first.
        activations: for each the name of one of `ACTIVATIONS`.
        reals: for each the scales of both attentions, and eps of the three norms.
        norm: weight and bias of the norm at the end, None where there is none, and its eps.
    """

    def __init__(
        self, layers: list[list[Any]], sizes: list[list[int]], activations: list[str], reals: list[list[float]],
        norm: tuple[Any, Any, float],
    ) -> None:  # fmt: skip
        dtype, d = layers[0][NORM1].dtype, len(layers[0][NORM1])
        for arrays in layers:
            for n in (OUT, SEEN_OUT, OUTER, NORM1, NORM2, NORM3):  # what is added with a bias, there or not
                arrays[n + 1] = or_zeros(arrays[n + 1], d, dtype)
        ends = norm[:2] if norm[0] is None else (norm[0], or_zeros(norm[1], d, dtype))
        self.arrays = layers, ends  # so that they stay where they are
        self.addresses, self.norm = np.array([places(*arrays) for arrays in layers]), places(*ends)
        self.sizes = np.array([[*row, _activation(name, dtype)] for row, name in zip(sizes, activations)])
        self.reals = np.array([*reals, [norm[2]] * len(reals[0])], dtype)
        self.functions, self.dtype = functions_for(dtype), dtype
        self.widest, self.heads = max(row[0] for row in sizes), max(max(row[1:3]) for row in sizes)

    def step(self, x: Any, where: Any, room: int, source: int, places: int, mask: Any, memory_mask: Any) -> Any:
        """What the layers make of x (batch, branches, d).

        Args:
            where: for each layer the addresses of keys and values side by side, (batch, source, 2 * d) of the memory
                and (batch, room, 2 * d), of which the first `places` are there; those of x are written behind them.
            mask, memory_mask: as of `as_mask`.
        """
        batch, branches, d = x.shape
        rows, longest = batch * branches, max(places + branches, source)
        scratch = empty(MEMORY + rows * (9 * d + 2 * self.widest + 1) + branches * self.heads * longest, x.dtype)
        out = empty(x.shape, x.dtype)
        sizes = np.array([batch, branches, d, self.widest, room, source, places, *_where(mask), *_where(memory_mask)])
        _step(
            self.functions, self.addresses, self.sizes, self.reals, self.norm, where, sizes, address(x), address(out),
            address(scratch), address(scratch) + MEMORY * x.itemsize,
        )  # fmt: skip
        return out


@loop
def _step(functions, weights, layer_sizes, reals, norm, where, sizes, given, out, copies, x):
    linear, attend, append, add, normalize = functions[:5]
    batch, branches, d, widest, room, source, places = sizes[:7]
    mask, mask_item, mask_head, mask_row, hidden, hidden_item, hidden_head, hidden_row = sizes[7:]
    size, rows, zero, last = reals.itemsize, batch * branches, reals.dtype.type(0), len(weights)
    row, shared, one = d * size, (size, functions.ctypes.data, copies), rows * d * size
    other, inside, branch, attended, normal = x + one, x + 2 * one, x + 3 * one, x + 4 * one, x + 5 * one
    own = normal + one
    inner = own + 3 * one
    active = inner + rows * widest * size
    factor = active + rows * widest * size
    scores = factor + rows * size
    call(append, (zero, rows, 1, d, given, row, x, row, row))
    for n in range(last):
        at, real, width, norm_first = weights[n], reals[n], layer_sizes[n, 0], layer_sizes[n, 3] > 0
        memory, kept = where[n]
        for sublayer in range(3):
            norm_weight, norm_bias, eps = at[NORM1 + 2 * sublayer], at[NORM1 + 2 * sublayer + 1], real[2 + sublayer]
            y = inside if norm_first else x
            if norm_first:
                call(normalize, (eps, rows, d, x, norm_weight, norm_bias, y, normal, factor))
            if sublayer == 0:
                call(linear, (zero, *shared, rows, d, 3 * d, y, at[FIRST], at[FIRST + 1], own))
                new = kept + places * 2 * row
                call(append, (zero, batch, branches, 2 * d, own + row, 3 * row, new, room * 2 * row, 2 * row))
                seen, heads = places + branches, layer_sizes[n, 1]
                call(
                    attend,
                    (
                        real[0], *shared, batch, branches, seen, heads, d // heads, d, own, 3 * row, kept,
                        room * 2 * row, mask, mask_item, mask_head, mask_row, False, scores, attended,
                    ),
                )  # fmt: skip
                call(linear, (zero, *shared, rows, d, d, attended, at[OUT], 0, branch))
                bias = at[OUT + 1]
            elif sublayer == 1:
                call(linear, (zero, *shared, rows, d, d, y, at[SEEN], at[SEEN + 1], own))  # keys and values are there
                heads = layer_sizes[n, 2]
                call(
                    attend,
                    (
                        real[1], *shared, batch, branches, source, heads, d // heads, d, own, row, memory,
                        source * 2 * row, hidden, hidden_item, hidden_head, hidden_row, False, scores, attended,
                    ),
                )  # fmt: skip
                call(linear, (zero, *shared, rows, d, d, attended, at[SEEN_OUT], 0, branch))
                bias = at[SEEN_OUT + 1]
            else:
                call(linear, (zero, *shared, rows, d, width, y, at[INNER], at[INNER + 1], inner))
                call(layer_sizes[n, 4], (zero, rows * width, inner, active))
                call(linear, (zero, *shared, rows, width, d, active, at[OUTER], 0, branch))
                bias = at[OUTER + 1]
            call(add, (zero, rows, d, x, branch, bias, other, 0, 0, 0, 0))
            if norm_first:
                x, other = other, x
            else:
                call(normalize, (eps, rows, d, other, norm_weight, norm_bias, x, normal, factor))
    if norm[0]:
        call(normalize, (reals[last, 0], rows, d, x, norm[0], norm[1], out, normal, factor))
    else:
        call(append, (zero, rows, 1, d, x, row, out, row, row))


# ---- a layer of a language model


class Block:
    """A layer of a language model as the loop takes it.

    Args:
        arrays: weight and bias, None where there is none, of the projections, of attention's output, of the maps up and
            down, of the gate, and of both norms.
        activation: the name of one of `ACTIVATIONS`.
        norms: eps of both norms.

    Attributes:
        d: the size of the vectors.
        heads, head_dim, kv_size: as those of the attention.
    """

    def __init__(
        self, arrays: list[Any], heads: int, kv_heads: int, scale: float, is_interleaved: bool, activation: str,
        is_rms: bool, norms: tuple[float, float],
    ) -> None:  # fmt: skip
        (projected, self.d), inner, dtype = arrays[0].shape, len(arrays[4]), arrays[0].dtype
        for n in (2, 6, 10, 12):  # what is added with a bias, there or not
            arrays[n + 1] = or_zeros(arrays[n + 1], self.d, dtype)
        self.arrays = arrays  # so that they stay where they are
        self.addresses, self.functions, self.dtype = places(*arrays), functions_for(dtype, is_rms), dtype
        self.heads, self.head_dim, self.inner = heads, projected // (heads + 2 * kv_heads), inner
        self.kv_size = 2 * kv_heads * self.head_dim
        self.sizes = self.d, inner, heads, self.head_dim, self.kv_size, is_interleaved, _activation(activation, dtype)
        self.reals = np.array([scale, *norms], dtype)

    def step(self, x: Any, kept: Any, places: int, mask: Any, shifts: bool, angles: tuple[Any, Any]) -> Any:
        """What the layer makes of x (batch, branches, d).

        Args:
            kept: room for keys and values side by side, (batch, room, kv_size), of which the first `places` are there;
                those of x are written behind them.
            mask: as of `as_mask`; or, with `shifts`, other numbers to add to the scores.
            angles: cos and sin, (batch * branches, size / 2), or None where nothing is turned.
        """
        batch, branches, d = x.shape
        rows, attended = batch * branches, self.heads * self.head_dim
        elements = rows * (4 * d + attended + self.kv_size + attended + 3 * self.inner + 1)
        scratch = empty(MEMORY + elements + branches * self.heads * (places + branches), x.dtype)
        out = empty(x.shape, x.dtype)
        cos, sin = (0 if angle is None else address(angle) for angle in angles)
        sizes = np.array([batch, branches, kept.shape[1], places, *_where(mask), shifts, cos, sin, *self.sizes])
        _block(
            self.functions, self.addresses, self.reals, sizes, address(x), address(kept), address(out),
            address(scratch), address(scratch) + MEMORY * x.itemsize,
        )  # fmt: skip
        return out


@loop
def _block(functions, at, reals, sizes, x, kept, out, copies, y):
    linear, attend, append, add, normalize, turn, multiply_by = functions[:7]
    batch, branches, room, places, mask, mask_item, mask_head, mask_row, shifts, cos, sin = sizes[:11]
    d, inner, heads, head, kept_width, is_interleaved, activation = sizes[11:]
    scale, size, rows, zero = reals[0], reals.itemsize, batch * branches, reals.dtype.type(0)
    width, shared, one = heads * head, (size, functions.ctypes.data, copies), rows * d * size
    projected, kept_row = width + kept_width, kept_width * size
    branch, middle, normal, attended = y + one, y + 2 * one, y + 3 * one, y + 4 * one
    own = attended + rows * width * size
    hidden = own + rows * projected * size
    gate = hidden + rows * inner * size
    active = gate + rows * inner * size
    factor = active + rows * inner * size
    scores = factor + rows * size

    for sublayer in range(2):
        given, norm = (middle, 12) if sublayer else (x, 10)
        call(normalize, (reals[1 + sublayer], rows, d, given, at[norm], at[norm + 1], y, normal, factor))
        if sublayer == 0:
            call(linear, (zero, *shared, rows, d, projected, y, at[0], at[1], own))
            if cos:
                turned = width + kept_width // 2
                call(turn, (zero, rows, turned, head, cos, sin, is_interleaved, own, projected))
            new = kept + places * kept_row
            keys = own + width * size
            call(append, (zero, batch, branches, kept_width, keys, projected * size, new, room * kept_row, kept_row))
            call(
                attend,
                (
                    scale, *shared, batch, branches, places + branches, heads, head, kept_width // 2, own,
                    projected * size, kept, room * kept_row, mask, mask_item, mask_head, mask_row, shifts, scores,
                    attended,
                ),
            )  # fmt: skip
            call(linear, (zero, *shared, rows, width, d, attended, at[2], 0, branch))
            call(add, (zero, rows, d, x, branch, at[3], middle, 0, 0, 0, 0))
        else:
            call(linear, (zero, *shared, rows, d, inner, y, at[4], at[5], hidden))
            if at[8]:
                call(linear, (zero, *shared, rows, d, inner, y, at[8], at[9], gate))
                call(activation, (zero, rows * inner, gate, active))
                call(multiply_by, (zero, rows * inner, hidden, active))
            else:
                call(activation, (zero, rows * inner, hidden, active))
            call(linear, (zero, *shared, rows, inner, d, active, at[6], 0, branch))
            call(add, (zero, rows, d, middle, branch, at[7], out, 0, 0, 0, 0))


# ---- what both are made of


@called
def linear(real, size, functions, copies, rows, inner, columns, x, weight, bias, out):
    """out = x weightᵀ + bias, which is not there at 0."""
    functions, row = numbers(functions, size), inner * size
    if rows <= FEW or inner == 0:  # a product has terms
        call(functions[DOTS], (real, size, rows, columns, inner, x, row, weight, row, bias, out, columns * size))
    else:
        own = functions[PRODUCT], real, size, copies
        multiply(own, x, row, False, weight, row, True, False, out, columns * size, rows, columns, inner)
        if bias:
            call(functions[ADD_VECTOR], (real, rows, columns, bias, out, columns))


@called
def attend(
    scale, size, functions, copies, batch, branches, places, heads, head, width, query, query_row, kept, kept_item,
    mask, mask_item, mask_head, mask_row, shifts, scores, out,
):  # fmt: skip
    """Concat(head_1, ..., head_h): the first columns of `query` attend to keys and values that are kept of their item.

    A place has `width` numbers of keys, and as many of values. Where the query has n times as many heads as they have,
    n one after the other share the same keys and values. `copies` is where `product` may write.
    """
    functions, out_row, kept_row = numbers(functions, size), heads * head * size, 2 * width * size
    own, few, row = (functions[PRODUCT], scale, size, copies), branches <= BRANCHES or places == 0, places * size
    shared = heads * head // width
    for b in range(batch):
        rows, keys, into = query + b * branches * query_row, kept + b * kept_item, out + b * branches * out_row
        for h in range(heads):
            q, k, weights = rows + h * head * size, keys + h // shared * head * size, scores + h * branches * row
            if few:
                call(functions[DOTS], (scale, size, branches, places, head, q, query_row, k, kept_row, 0, weights, row))
            else:
                multiply(own, q, query_row, False, k, kept_row, True, False, weights, row, branches, places, head)
        hidden = mask + b * mask_item if mask else mask
        call(functions[SOFTMAX], (scale, heads, branches, places, scores, hidden, mask_head, mask_row, shifts))
        for h in range(heads):
            v = keys + (width + h // shared * head) * size
            weights, y = scores + h * branches * row, into + h * head * size
            if few:
                call(functions[MIX], (scale, branches, places, head, weights, row, v, kept_row, y, out_row))
            else:
                multiply(own, weights, row, False, v, kept_row, False, False, y, out_row, branches, head, places)


@called
def append(real, items, branches, columns, source, source_row, out, out_item, out_row):
    """Copy rows of so many columns: those of an item lie one behind the other, the items anywhere."""
    for r in range(items * branches):
        x = numbers(source + r * source_row, real)
        y = numbers(out + r // branches * out_item + r % branches * out_row, real)
        for i in range(columns):
            y[i] = x[i]


DOTS, MIX, PRODUCT, ADD_VECTOR, SOFTMAX = range(7, 12)  # where those stand that others of these call


def functions_for(dtype: Any, is_rms: bool = False) -> Any:
    """The addresses of what the loops call, in the order in which they take it, with one of both norms."""
    norm = passes.normalize_by_size if is_rms else passes.normalize
    return addresses(
        dtype, linear, attend, append, passes.add, norm, passes.turn, passes.multiply_by, dots, mix, product,
        passes.add_vector, passes.softmax,
    )  # fmt: skip


def _activation(name: str, dtype: Any) -> int:
    """Where a function of `ACTIVATIONS` lies."""
    return ACTIVATIONS[name][0](dtype).address
