"""Products of matrices inside compiled loops.

Every thread computes by itself, so that what is divided among threads needs no BLAS: its own threads would wait for
ours. Small matrices take less time than they take a BLAS, and large ones about as much.

Of b a panel of some columns is copied at a time, turned where it lies the other way round, and where a is the transpose
of what lies there, a block of it, for each tile what that needs: then what a tile reads lies together, in the cache
(`tiles.py`). All that is compiled once and called by its address; as a function of Numba it would be compiled anew into
every loop that calls it.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic, register_jitable

from .compiling import part
from .pool import empty
from .tiles import COLUMNS, HEIGHTS, TILE, WIDE, adding, copy_vector, padded, turn_block

DEPTH = 256  # terms that are added at a time
BLOCK = 1 << 17  # elements of a at a time: with a panel of b, what the cache of a core holds
FEW = 48  # rows or columns of a result for which it does not pay to copy what can be read where it lies
MARGIN = 2  # terms more that a tile's copy of a has room for, since whole vectors are written
PANEL = (DEPTH + COLUMNS) * COLUMNS  # elements, with a margin for the last block that is turned

TALL, MIDDLE, LOW = HEIGHTS
add_tall, add_middle, add_low = (adding(rows, TILE.vectors) for rows in HEIGHTS)
narrow_tall, narrow_middle, narrow_low = (adding(rows, 1) for rows in HEIGHTS)


def product(dtype: Any) -> tuple[int, Any]:
    """What `multiply` needs: the address of the product for a dtype, and memory for its copies.

    No two threads may use the memory at a time. The address is an argument of the loops, since none may be kept on
    disk with them.
    """
    return _compiled(np.dtype(dtype)).address, empty(PANEL + BLOCK + TALL * (DEPTH + MARGIN), dtype)


@part
def multiply(product, a, turn_a, b, turn_b, keep, out):
    """out = a b, or out += a b where it is to `keep` what is there, a and b transposed first where they are to turn.

    Rows may lie apart, but not the elements of a row. There is at least one term for each element of the result.
    """
    address, memory = product
    size = memory.itemsize
    a_row, a_step = (size, a.strides[0]) if turn_a else (a.strides[0], size)
    inner = a.shape[0] if turn_a else a.shape[1]
    _call(  # type: ignore[call-arg]
        address,
        (
            memory.dtype.type(0), size, memory.ctypes.data, a.ctypes.data, a_row, a_step, b.ctypes.data, b.strides[0],
            np.int64(turn_b), np.int64(keep), out.ctypes.data, out.strides[0], out.shape[0], out.shape[1], inner,
        ),
    )  # fmt: skip


@intrinsic
def _call(typing: Any, address: Any, arguments: Any) -> Any:
    """Call what lies at an address, a function of C, with these numbers."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers = cgutils.unpack_tuple(builder, values[1])
        kind = ir.FunctionType(ir.VoidType(), [number.type for number in numbers])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), numbers)
        return context.get_dummy_value()

    return types.void(address, arguments), write


@functools.cache
def _compiled(dtype: Any) -> Any:
    """`_multiply` for a dtype, as a function of C."""
    signature = types.void(numba.from_dtype(dtype), *[types.int64] * 14)
    try:
        return numba.cfunc(signature, cache=True, error_model="numpy")(_multiply)
    except (RuntimeError, NumbaError):  # no folder that could be written to
        return numba.cfunc(signature, error_model="numpy")(_multiply)


within = register_jitable(inline="always")  # to be optimised once, where it is called


def _multiply(zero, size, copies, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, columns, inner):
    """`multiply`, with addresses in place of arrays: element (i, k) of a lies at a + i * a_row + k * a_step.

    All distances are in bytes, as `size` is, that of an element; `zero` only tells the dtype.
    """
    b_step, copy = size if turn_b else b_row, copies + PANEL * size
    most = _even(inner, DEPTH)
    high = _up(_even(rows, max(TALL, BLOCK // (most + MARGIN))), TALL)
    for k in range(0, inner, most):
        depth = min(most, inner - k)
        for i in range(0, rows, high):
            some = min(high, rows - i)
            block, step, group = a + i * a_row + k * a_step, a_step, TALL * a_row
            if a_row == size and columns > FEW:
                step, group = TALL * size, TALL * (depth + MARGIN) * size
                for first in range(0, some * size, step):
                    width = min(step, some * size - first)
                    _copy_rows(zero, block + first, a_step, depth, width, copy + first * (depth + MARGIN), step)
                block = copy
            for j in range(0, columns * size, WIDE):
                wide, panel, panel_row = min(WIDE, columns * size - j), copies, WIDE
                if turn_b:
                    _turn(zero, size, b + k * b_step + j // size * b_row, b_row, wide // size, depth * size, panel)
                elif some > FEW:
                    _copy_rows(zero, b + k * b_step + j, b_row, depth, wide, panel, WIDE)
                else:
                    panel, panel_row = b + k * b_step + j, b_row
                result, each = out + i * out_row + j, WIDE if wide == WIDE else TILE.vector
                for c in range(0, wide, each):
                    _multiply_panel(
                        zero, block, group, a_row, step, panel + c, panel_row, keep or k > 0, result + c, out_row, some,
                        min(each, wide - c), depth,
                    )  # fmt: skip


_up = register_jitable(padded)


@part
def _even(length, most):
    """The length of parts, of at most so much, that are as long as each other."""
    parts = -(-length // most)
    return -(-length // parts)


@part
def _copy_rows(zero, source, source_row, rows, width, out, out_row):
    for r in range(rows):
        for c in range(0, width, TILE.vector):
            copy_vector(zero, source + r * source_row + c, width - c, out + r * out_row + c)  # type: ignore[call-arg]


@within
def _turn(zero, size, source, source_row, rows, width, out):
    """The transpose of rows, as a panel."""
    lanes = TILE.vector // size
    for r in range(0, rows, lanes):
        for n in range(-(-width // TILE.vector)):
            c = n * TILE.vector
            turn_block(  # type: ignore[call-arg]
                zero, source + r * source_row + c, source_row, rows - r, width - c, out + n * lanes * WIDE + r * size,
                WIDE,
            )  # fmt: skip


@within
def _multiply_panel(zero, a, a_group, a_row, a_step, b, b_row, keep, out, out_row, rows, width, inner):
    """All rows of a tile's columns, or of a vector's or less."""
    i = 0
    while i < rows:
        left = rows - i
        high = TALL if left >= TALL else MIDDLE if left >= MIDDLE else LOW
        x, y = a + i // TALL * a_group + i % TALL * a_row, out + i * out_row
        if width == WIDE:  # a constant, from which the compiler knows that all of a tile's columns are there
            if high == TALL:
                add_tall(zero, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
            elif high == MIDDLE:
                add_middle(zero, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
            else:
                add_low(zero, x, a_row, a_step, b, b_row, keep, y, out_row, WIDE, inner)
        elif high == TALL:
            narrow_tall(zero, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
        elif high == MIDDLE:
            narrow_middle(zero, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
        else:
            narrow_low(zero, x, a_row, a_step, b, b_row, keep, y, out_row, width, inner)
        i += high
