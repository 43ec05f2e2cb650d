"""Products of matrices inside compiled loops.

Every thread computes by itself, so that what is divided among threads needs no BLAS: its own threads would wait for
ours. Small matrices take less time than they take a BLAS, and large ones about as much.

Of b a panel of some columns is copied at a time, turned where it lies the other way round, and where a is the transpose
of what lies there, a block of it: then what a tile reads lies together, in the cache (`tiles.py`).
"""

from __future__ import annotations

from typing import Any

from .compiling import loop
from .pool import empty
from .tiles import COLUMNS, HEIGHTS, TILE, WIDE, adding, copy_vector, padded, turn_block

DEPTH = 512  # terms that are added at a time
BLOCK = 1 << 17  # elements of a at a time: with a panel of b, what the cache of a core holds
FEW = 48  # rows or columns of a result for which it does not pay to copy what can be read where it lies
MARGIN = 64  # elements at most between the rows of a copy of a, which no power of two is to be apart, as caches like
PANEL = (DEPTH + COLUMNS) * COLUMNS  # elements, with a margin for the last block that is turned

TALL, MIDDLE, LOW = HEIGHTS
add_tall, add_middle, add_low = (adding(rows, TILE.vectors) for rows in HEIGHTS)
narrow_tall, narrow_middle, narrow_low = (adding(rows, 1) for rows in HEIGHTS)


def scratch(dtype: Any) -> Any:
    """Memory for the copies of `multiply`, which only one thread may use at a time."""
    return empty(PANEL + BLOCK + DEPTH * (TALL + MARGIN), dtype)


@loop
def multiply(scratch, a, turn_a, b, turn_b, keep, out):
    """out = a b, or out += a b where it is to `keep` what is there, a and b transposed first where they are to turn.

    Rows may lie apart, but not the elements of a row. There is at least one term for each element of the result.
    """
    size = scratch.itemsize
    a_row, a_step = (size, a.strides[0]) if turn_a else (a.strides[0], size)
    _multiply(
        scratch, a.ctypes.data, a_row, a_step, b.ctypes.data, b.strides[0], turn_b, keep, out.ctypes.data,
        out.strides[0], out.shape[0], out.shape[1], a.shape[0] if turn_a else a.shape[1],
    )  # fmt: skip


@loop
def _multiply(scratch, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, columns, inner):
    """`multiply`, with addresses in place of arrays: element (i, k) of a lies at a + i * a_row + k * a_step."""
    size, zero = scratch.itemsize, scratch.dtype.type(0)
    b_step, copy = size if turn_b else b_row, scratch.ctypes.data + PANEL * size
    most = _even(inner, DEPTH)
    high = _padded(_even(rows, max(TALL, BLOCK // most)), TALL)
    apart = (_padded(high, COLUMNS) + COLUMNS // 2) * size
    for k in range(0, inner, most):
        depth = min(most, inner - k)
        for i in range(0, rows, high):
            some = min(high, rows - i)
            block, step = a + i * a_row + k * a_step, a_step
            if a_row == size and columns > FEW:
                _copy_rows(zero, block, step, depth, some * size, copy, apart)
                block, step = copy, apart
            _multiply_block(
                scratch, block, a_row, step, b + k * b_step, b_row, turn_b, keep or k > 0, out + i * out_row, out_row,
                some, columns * size, depth,
            )  # fmt: skip


_padded = loop(padded)


@loop
def _even(length, most):
    """The length of parts, of at most so much, that are as long as each other."""
    parts = -(-length // most)
    return -(-length // parts)


@loop
def _multiply_block(scratch, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, width, inner):
    """What fits the cache, panel by panel."""
    size, zero, copy = scratch.itemsize, scratch.dtype.type(0), scratch.ctypes.data
    for j in range(0, width, WIDE):
        wide, panel, apart = min(WIDE, width - j), copy, WIDE
        if turn_b:
            _turn(zero, b + j // size * b_row, b_row, wide // size, inner * size, panel, size)
        elif rows > FEW:
            _copy_rows(zero, b + j, b_row, inner, wide, panel, WIDE)
        else:
            panel, apart = b + j, b_row
        each = WIDE if wide == WIDE else TILE.vector
        for c in range(0, wide, each):
            _multiply_panel(
                zero, a, a_row, a_step, panel + c, apart, keep, out + j + c, out_row, rows, min(each, wide - c), inner
            )


@loop
def _copy_rows(zero, source, source_row, rows, width, out, out_row):
    for r in range(rows):
        for c in range(0, width, TILE.vector):
            copy_vector(zero, source + r * source_row + c, width - c, out + r * out_row + c)  # type: ignore[call-arg]


@loop
def _turn(zero, source, source_row, rows, width, out, size):
    """The transpose of rows, as a panel."""
    for r in range(0, rows, TILE.vector // size):
        for c in range(0, width, TILE.vector):
            turn_block(  # type: ignore[call-arg]
                zero, source + r * source_row + c, source_row, rows - r, width - c,
                out + c // size * WIDE + r * size, WIDE,
            )  # fmt: skip


@loop
def _multiply_panel(zero, a, a_row, a_step, b, b_row, keep, out, out_row, rows, width, inner):
    """All rows of a tile's columns, or of a vector's or less."""
    i = 0
    while i < rows:
        high = TALL if rows - i >= TALL else MIDDLE if rows - i >= MIDDLE else LOW
        _multiply_tile(
            zero, high, a + i * a_row, a_row, a_step, b, b_row, keep, out + i * out_row, out_row, width, inner
        )
        i += high


@loop
def _multiply_tile(zero, high, a, a_row, a_step, b, b_row, keep, out, out_row, width, inner):
    if width == WIDE:  # a constant, from which the compiler knows that all of a tile's columns are there
        if high == TALL:
            add_tall(zero, a, a_row, a_step, b, b_row, keep, out, out_row, WIDE, inner)
        elif high == MIDDLE:
            add_middle(zero, a, a_row, a_step, b, b_row, keep, out, out_row, WIDE, inner)
        else:
            add_low(zero, a, a_row, a_step, b, b_row, keep, out, out_row, WIDE, inner)
    elif high == TALL:
        narrow_tall(zero, a, a_row, a_step, b, b_row, keep, out, out_row, width, inner)
    elif high == MIDDLE:
        narrow_middle(zero, a, a_row, a_step, b, b_row, keep, out, out_row, width, inner)
    else:
        narrow_low(zero, a, a_row, a_step, b, b_row, keep, out, out_row, width, inner)
