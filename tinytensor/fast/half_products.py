"""Products of float32 matrices that round their inputs to bfloat16 and add in float32, twice as fast.

A processor with AVX512_BF16 multiplies pairs of neighbouring terms in one instruction. The copies that `products.py`
makes of panels are made as bfloat16 here, in pairs: of a row of a the pairs lie one after the other, of b the two rows
of a pair are interleaved. Rounding is to the nearest, ties to even; a NaN stays one.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiling import called, part
from .products import TALL, _even, _turn, in_panels
from .tiles import COLUMNS, HEIGHTS, TILE, WIDE, Writer, adding, padded

CAN = bool(llvmlite.binding.get_host_cpu_features().get("avx512bf16"))
"""True if the processor has the instructions."""

PAIR = 4  # bytes
DEPTH = 512  # terms that are added at a time; even
HIGH = 504  # rows of a at a time, whose copy the second cache holds; a multiple of the tile's
PANEL = DEPTH // 2 * COLUMNS  # pairs

if CAN:
    llvmlite.binding.initialize_native_asmparser()


def _dot_pairs(builder: Any, total: Any, factor: Any, term: Any) -> Any:
    kind = ir.FunctionType(total.type, [total.type, factor.type, term.type])
    return builder.asm(kind, "vdpbf16ps $3, $2, $0", "=v,0,v,v", [total, factor, term], False)


def _rounded(builder: Any, first: Any, second: Any) -> Any:
    """Two vectors of float32 as one of bfloat16, one behind the other."""
    kind = ir.FunctionType(first.type, [first.type, second.type])
    return builder.asm(kind, "vcvtne2ps2bf16 $1, $2, $0", "=v,v,v", [first, second], False)


@intrinsic
def _round_row(typing: Any, real: Any, source: Any, width: Any, out: Any) -> Any:
    """Write two vectors of a row, or so many bytes of them and zeros, as one of bfloat16."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, source, width, out = values
        to = Writer(context, builder, real)
        first, second = (
            to.load(to.place(source, to.whole(0), v), to.within(builder.sub(width, to.whole(v * TILE.vector))))
            for v in (0, 1)
        )
        to.store(_rounded(builder, first, second), to.place(out, to.whole(0)), to.all)
        return context.get_dummy_value()

    return types.void(real, types.intp, types.int64, types.intp), write


@intrinsic
def _round_pair(typing: Any, real: Any, source: Any, second: Any, width: Any, out: Any) -> Any:
    """Write a vector of pairs: of a row, and of the row so many bytes behind it (0: zeros), up to so many bytes."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, source, second, width, out = values
        to = Writer(context, builder, real)
        there = builder.select(builder.icmp_signed("==", second, to.whole(0)), to.whole(0), width)
        rows = [
            to.load(to.place(source, to.whole(0)), to.within(width)),
            to.load(to.place(source, second), to.within(there)),
        ]
        halves = builder.bitcast(_rounded(builder, *rows), ir.VectorType(ir.IntType(16), 2 * to.lanes))
        order = [place for i in range(to.lanes) for place in (i, to.lanes + i)]
        kind = ir.VectorType(ir.IntType(32), 2 * to.lanes)
        mixed = builder.shuffle_vector(halves, halves, ir.Constant(kind, order))
        to.store(builder.bitcast(mixed, to.vector), to.place(out, to.whole(0)), to.all)
        return context.get_dummy_value()

    return types.void(real, types.intp, types.int64, types.int64, types.intp), write


@part
def _copy_rows(real, source, source_row, rows, width, out, out_row):
    """Of some rows, as pairs one after the other."""
    for r in range(rows):
        place, to = source + r * source_row, out + r * out_row
        for c in range(0, width, 2 * TILE.vector):
            _round_row(real, place + c, width - c, to + c // 2)  # type: ignore[call-arg]


@part
def _copy_pairs(real, source, source_row, rows, width, out, out_row):
    """Of each two rows, interleaved, so many bytes."""
    for r in range(0, rows, 2):
        second = source_row if r + 1 < rows else 0
        for c in range(0, width, TILE.vector):
            _round_pair(  # type: ignore[call-arg]
                real, source + r * source_row + c, second, width - c, out + r // 2 * out_row + c
            )


@called
def rounded_product(real, size, copies, a, a_row, a_step, b, b_row, turn_b, keep, out, out_row, rows, columns, inner):
    """`products.product` of float32, whose inputs are rounded to bfloat16."""
    most, high = padded(_even(inner, DEPTH), 2), padded(_even(rows, HIGH), TALL)
    panel, turned = copies, copies + PANEL * PAIR
    block = turned + DEPTH * WIDE
    for k in range(0, inner, most):
        depth = min(most, inner - k)
        pairs = (depth + 1) // 2
        for i in range(0, rows, high):
            some, source = min(high, rows - i), a + i * a_row + k * a_step
            if a_step == size:
                step, row = PAIR, padded(pairs * PAIR, TILE.vector)
                tile = TALL * row
                _copy_rows(real, source, a_row, some, depth * size, block, row)
            else:
                step, row, tile = TALL * PAIR, PAIR, padded(pairs * TALL * PAIR + TILE.vector, TILE.vector)
                for n in range(-(-some // TALL)):
                    wide = min(step, some * size - n * step)
                    _copy_pairs(real, source + n * step, a_step, depth, wide, block + n * tile, step)
            for j in range(0, columns * size, WIDE):
                wide = min(WIDE, columns * size - j)
                if turn_b:
                    _turn(real, size, b + k * size + j // size * b_row, b_row, wide // size, depth * size, turned)
                    _copy_pairs(real, turned, WIDE, depth, WIDE, panel, WIDE)
                else:
                    _copy_pairs(real, b + k * b_row + j, b_row, depth, wide, panel, WIDE)
                _multiply_panel(
                    real, block, tile, row, step, panel, WIDE, keep or k > 0, out + i * out_row + j, out_row, some,
                    wide, pairs,
                )  # fmt: skip


_multiply_panel = in_panels(*2 * [adding(rows, TILE.vectors, _dot_pairs) for rows in HEIGHTS])
