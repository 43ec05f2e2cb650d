"""Products of matrices inside compiled loops.

Each of our threads multiplies by itself: the threads of a BLAS would wait for ours. Small matrices take less time than
in a BLAS, large ones about as much.

First b is copied into panels, each as wide as a tile, transposed if need be; a is copied too if it is read transposed.
A tile (`tiles.py`) then reads contiguous memory that is in the cache. The product is compiled once and called by its
address; as a Numba function it would be compiled again into each loop that calls it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from .compiling import address, call, called, part
from .pool import empty
from .tiles import COLUMNS, HEIGHTS, TILE, WIDE, adding, copy_vector, padded, turn_block

DEPTH = 256  # terms that are added at a time
BLOCK = 1 << 17  # elements of a at a time: with panels of b, about what the cache of a core holds
PANELS = 8  # of b that are copied at a time: of a row, what lies together comes from memory together
FEW, NARROW = 48, 64  # rows of a result for which b is read where it lies, and columns for which a turned a is
MARGIN = 2  # terms more that a tile's copy of a has room for, since whole vectors are written
PANEL = (DEPTH + 1) * COLUMNS  # elements, with a margin, since lines that lie evenly apart drive each other out

TALL, MIDDLE, LOW = HEIGHTS

rounded: Any = None  # in place of `product` in float32, if `tt.set_float32_matmul_precision` asks for it

MEMORY = PANELS * PANEL + BLOCK + TALL * (DEPTH + MARGIN)
"""Elements that a product needs for its copies; no two threads may use the same at a time."""


def multiply_arrays(a: Any, turn_a: bool, b: Any, turn_b: bool, out: Any, keep: bool = False) -> None:
    """out = a b, or out += a b where it is to `keep` what is there, a and b transposed first where they are to turn.

    Rows may lie apart, but not the elements of a row. There is at least one term for each element of the result.
    """
    copies, size = empty(MEMORY, out.dtype), out.itemsize
    a_row, a_step = (size, a.strides[0]) if turn_a else (a.strides[0], size)
    chosen(out.dtype)(out.dtype).ctypes(
        0, size, address(copies), address(a), a_row, a_step, address(b), b.strides[0], turn_b, keep, address(out),
        out.strides[0], *out.shape, len(a) if turn_a else a.shape[1],
    )  # fmt: skip


def chosen(dtype: Any) -> Any:
    """The product for a dtype, as it is to be computed now."""
    return product if rounded is None or dtype != np.float32 else rounded


@part
def multiply(own, a, a_row, turn_a, b, b_row, turn_b, keep, out, out_row, rows, columns, inner):
    """The same for loops, of matrices that lie at addresses.

    Distances from row to row are in bytes. `own` is what a loop needs: the address of `product`, then its first three
    arguments.
    """
    address, real, size, copies = own
    a_row, a_step = (size, a_row) if turn_a else (a_row, size)
    call(
        address,
        (real, size, copies, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, columns, inner),
    )


@part
def multiply_each(
    own, count, a, a_next, a_row, turn_a, b, b_next, b_shared, b_row, turn_b, out, out_next, out_shared, out_row, rows,
    columns, inner,
):  # fmt: skip
    """Products of so many matrices a, with the distances from one to the next in bytes, too.

    So many of them share a matrix b, or a result, into which they are added up: 1 where each has its own.
    """
    for n in range(count):
        multiply(
            own, a + n * a_next, a_row, turn_a, b + n // b_shared * b_next, b_row, turn_b, n % out_shared > 0,
            out + n // out_shared * out_next, out_row, rows, columns, inner,
        )  # fmt: skip


within = register_jitable(inline="always")  # to be optimised once, where it is called


@called
def product(real, size, copies, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, columns, inner):
    """`multiply`, where element (i, k) of a lies at a + i * a_row + k * a_step.

    All distances are in bytes, as `size` is, that of an element; `real` only tells the dtype. `copies` is where MEMORY
    elements may be written.
    """
    b_step, b_column = (size, b_row) if turn_b else (b_row, size)
    panel, most, high = PANEL * size, _even(inner, DEPTH), rows
    if rows * (most + MARGIN) > BLOCK:  # asked first, since few products need the divisions
        high = padded(_even(rows, max(TALL, BLOCK // (most + MARGIN))), TALL)
    for k in range(0, inner, most):
        depth = min(most, inner - k)
        for i in range(0, rows, high):
            some = min(high, rows - i)
            block, step, tile = a + i * a_row + k * a_step, a_step, TALL * a_row
            if a_row == size and columns > NARROW:
                step, tile, copy = TALL * size, TALL * (depth + MARGIN) * size, copies + PANELS * panel
                _copy_for_tiles(real, block, a_step, depth, some * size, copy, step, tile)
                block = copy
            for j in range(0, columns * size, PANELS * WIDE):
                width, source = min(PANELS * WIDE, columns * size - j), b + k * b_step + j // size * b_column
                if some > FEW and not turn_b:
                    _copy_panels(real, source, b_row, depth, width, copies, panel)
                for p in range(0, width, WIDE):
                    wide = min(WIDE, width - p)
                    if turn_b:
                        place, place_row = copies, WIDE
                        _turn(real, size, source + p // size * b_row, b_row, wide // size, depth * size, place)
                    elif some > FEW:
                        place, place_row = copies + p // WIDE * panel, WIDE
                    else:
                        place, place_row = source + p, b_row
                    result, each = out + i * out_row + j + p, WIDE if wide == WIDE else TILE.vector
                    for c in range(0, wide, each):
                        _multiply_panel(
                            real, block, tile, a_row, step, place + c, place_row, keep or k > 0, result + c, out_row,
                            some, min(each, wide - c), depth,
                        )  # fmt: skip


@part
def _even(length, most):
    """The length of parts, of at most so much, that are as long as each other."""
    if length <= most:
        return length
    parts = -(-length // most)
    return -(-length // parts)


@part
def _copy_for_tiles(real, source, source_row, rows, width, out, step, tile):
    """Copy what a tile reads of all rows, a step of each; then what the next tile reads, `tile` bytes behind."""
    for first in range(0, width, step):
        left = min(step, width - first)
        for r in range(rows):
            place, to = source + r * source_row + first, out + r * step
            for c in range(0, left, TILE.vector):
                copy_vector(real, place + c, left - c, to + c)  # type: ignore[call-arg]
        out += tile


@part
def _copy_panels(real, source, source_row, rows, width, out, panel):
    """Of each row, in one piece, what goes to each panel; from one panel to the next it is so many bytes."""
    for r in range(rows):
        for c in range(0, width, WIDE):
            place, to = source + r * source_row + c, out + r * WIDE + c // WIDE * panel
            if width - c >= WIDE:  # a constant, for which the compiler needs no mask
                _copy(real, place, WIDE, to)
            else:
                _copy(real, place, width - c, to)


@part
def _copy(real, source, width, out):
    """So many bytes in whole vectors: the last is filled up with zeros."""
    whole = width // TILE.vector * TILE.vector
    for c in range(0, whole, TILE.vector):
        copy_vector(real, source + c, TILE.vector, out + c)  # type: ignore[call-arg]
    if whole < width:
        copy_vector(real, source + whole, width - whole, out + whole)  # type: ignore[call-arg]


@within
def _turn(real, size, source, source_row, rows, width, out):
    """The transpose of rows, as a panel."""
    lanes = TILE.vector // size
    for r in range(0, rows, lanes):
        for n in range(-(-width // TILE.vector)):
            c = n * TILE.vector
            place, to = source + r * source_row + c, out + n * lanes * WIDE + r * size
            if rows - r >= lanes and width - c >= TILE.vector:  # constants, for which it needs none
                turn_block(real, place, source_row, lanes, TILE.vector, to, WIDE)  # type: ignore[call-arg]
            else:
                turn_block(real, place, source_row, rows - r, width - c, to, WIDE)  # type: ignore[call-arg]


def in_panels(tall, middle, low, narrow_tall, narrow_middle, narrow_low):
    """The product of all rows with a panel, by functions for tiles of each height, as wide as a tile or less."""

    @within
    def multiply_panel(real, a, a_tile, a_row, a_step, b, b_row, keep, out, out_row, rows, width, inner):
        i = 0
        while i < rows:
            left = rows - i
            high = TALL if left >= TALL else MIDDLE if left >= MIDDLE else LOW
            x, y = a + i // TALL * a_tile + i % TALL * a_row, out + i * out_row
            if width == WIDE:  # a constant, from which the compiler knows that all of a tile's columns are there
                if high == TALL:
                    tall(real, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
                elif high == MIDDLE:
                    middle(real, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
                else:
                    low(real, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
            elif high == TALL:
                narrow_tall(real, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
            elif high == MIDDLE:
                narrow_middle(real, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
            else:
                narrow_low(real, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
            i += high

    return multiply_panel


_multiply_panel = in_panels(*[adding(rows, vectors) for vectors in (TILE.vectors, 1) for rows in HEIGHTS])
