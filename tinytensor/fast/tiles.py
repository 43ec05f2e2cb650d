"""Matrix products inside compiled loops, of matrices so small that a BLAS spends its time on preparing them.

A product is made of tiles of the result, each of which stays in the registers of a core while all its terms are added:
for every step along the inner dimension a few vectors of b are loaded, and an element of each of some rows of a is
multiplied by them (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"). Nothing is copied
first, so matrices have to lie well: the rows of b and of the result side by side, in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiling import loop

ROWS, COLUMNS = 12, 32
"""Results have a multiple of so many rows and columns, on every processor; `padded` rounds up."""


class Tile(NamedTuple):
    """What fits the registers: rows, vectors of a row, and bytes of a vector. It divides ROWS and COLUMNS."""

    rows: int
    vectors: int
    vector: int


def _tile(features: dict[str, bool]) -> Tile:
    """For a processor: most registers hold sums, so many that each has rested when its next term comes."""
    if features.get("avx512f"):
        return Tile(12, 2, 64)
    return Tile(6, 2, 32 if features.get("avx2") else 16)


TILE = _tile(llvmlite.binding.get_host_cpu_features())


def padded(length: int, to: int) -> int:
    """The least multiple of a number that is no less than a length."""
    return -(-length // to) * to


@loop
def multiply(
    a, a_start, a_row, a_step, b, b_start, b_row, b_panel, keep, out, out_start, out_row, rows, columns, inner
):
    """out = a b, or out += a b where it is to `keep` what is there; all in flat arrays.

    Element (i, k) of a lies at a_start + i * a_row + k * a_step, so a may be the transpose of what lies there. b lies
    in panels of COLUMNS columns, `b_panel` from one to the next (COLUMNS where rows are whole), its rows `b_row` apart,
    and those of the result `out_row`. `rows` and `columns` are multiples of ROWS and COLUMNS, `inner` is at least 1.
    """
    size = a.itemsize
    high, wide = TILE.rows, TILE.vectors * TILE.vector // size
    a_place, b_place, out_place = a.ctypes.data, b.ctypes.data, out.ctypes.data
    for j in range(0, columns, wide):
        panel = b_start + j // COLUMNS * b_panel + j % COLUMNS
        for i in range(0, rows, high):
            _multiply_tile(  # type: ignore[call-arg]
                a.dtype.type(0), a_place + (a_start + i * a_row) * size, a_row, a_step,
                b_place + panel * size, b_row, out_place + (out_start + i * out_row + j) * size, out_row, inner,
                keep,
            )  # fmt: skip


@intrinsic
def _multiply_tile(typing: Any, real: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_row: Any, out: Any, out_row: Any,
                   inner: Any, keep: Any) -> Any:  # fmt: skip
    """One tile: places are addresses, distances elements; `real` only tells the type."""
    place, whole = types.intp, types.int64
    signature = types.void(real, place, whole, whole, place, whole, place, whole, whole, types.boolean)
    size = real.bitwidth // 8
    lanes = TILE.vector // size
    sums = [(r, v) for r in range(TILE.rows) for v in range(TILE.vectors)]

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, a, a_row, a_step, b, b_row, out, out_row, inner, keep = values
        number = context.get_value_type(real)
        vector, counter, index = ir.VectorType(number, lanes), ir.IntType(64), ir.IntType(32)

        def at(start: Any, elements: Any, kind: Any) -> Any:
            place = builder.add(start, builder.mul(elements, counter(size)))
            return builder.inttoptr(place, kind.as_pointer())

        def result(r: int, v: int) -> Any:
            return at(out, builder.add(builder.mul(counter(r), out_row), counter(v * lanes)), vector)

        def load(place: Any) -> Any:
            value = builder.load(place)
            value.align = size
            return value

        before = builder.block
        fetch, step, finish = (builder.append_basic_block(name) for name in ("fetch", "step", "finish"))
        builder.cbranch(builder.trunc(keep, ir.IntType(1)), fetch, step)

        builder.position_at_end(fetch)
        kept = [load(result(r, v)) for r, v in sums]
        builder.branch(step)

        builder.position_at_end(step)
        k = builder.phi(counter)
        totals = [builder.phi(vector) for _ in sums]
        for start, block in ((None, before), (kept, fetch)):
            k.add_incoming(counter(0), block)
            for n, total in enumerate(totals):
                total.add_incoming(vector([0.0] * lanes) if start is None else start[n], block)
        row = builder.mul(k, b_row)
        columns = [load(at(b, builder.add(row, counter(v * lanes)), vector)) for v in range(TILE.vectors)]
        added: list[Any] = []
        for r, v in sums:
            if v == 0:  # an element of a, as often as a vector has places
                offset = builder.add(builder.mul(counter(r), a_row), builder.mul(k, a_step))
                element = builder.insert_element(vector(ir.Undefined), load(at(a, offset, number)), index(0))
                everywhere = ir.Constant(ir.VectorType(index, lanes), [0] * lanes)
                element = builder.shuffle_vector(element, vector(ir.Undefined), everywhere)
            term = builder.fmul(element, columns[v], flags=("contract",))
            added.append(builder.fadd(totals[len(added)], term, flags=("contract",)))
        following = builder.add(k, counter(1))
        k.add_incoming(following, builder.block)
        for total, new in zip(totals, added):
            total.add_incoming(new, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, inner), step, finish)

        builder.position_at_end(finish)
        for (r, v), new in zip(sums, added):
            builder.store(new, result(r, v)).align = size
        return context.get_dummy_value()

    return signature, write
