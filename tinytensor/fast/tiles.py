"""The inside of a matrix product, in the vectors of the processor: a tile of the result, and the copying before it.

A tile of the result stays in the registers of a core while all its terms are added: for every step along the inner
dimension a few vectors of b are loaded, and an element of each of some rows of a is multiplied by them (Goto and van de
Geijn 2008, "Anatomy of high-performance matrix multiplication"). `products.py` makes products of any matrices of this.

Places are addresses and distances bytes, so that each function is compiled once for a dtype, whatever array holds the
numbers; `real`, a number, only tells the dtype.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiling import part

COLUMNS = 32  # a multiple of the columns of a tile, on every processor


class Tile(NamedTuple):
    """A tile that fits the registers: rows, vectors of a row, and bytes of a vector."""

    rows: int
    vectors: int
    vector: int


def _tile(features: dict[str, bool]) -> Tile:
    """For a processor: most registers hold sums, so many that each has rested when its next term comes."""
    if features.get("avx512f"):
        return Tile(12, 2, 64)
    return Tile(6, 2, 32 if features.get("avx2") else 16)


TILE = _tile(llvmlite.binding.get_host_cpu_features())
LINE = 64  # bytes that come from memory together
WIDE = TILE.vectors * TILE.vector  # bytes of a row
HEIGHTS = TILE.rows, TILE.rows // 3, 1  # of tiles, so that any number of rows is made of them


@part
def padded(length: int, to: int) -> int:
    """The least multiple of a number that is no less than a length."""
    return -(-length // to) * to


class Writer:
    """Writes instructions for vectors of one kind of number into a compiled function."""

    def __init__(self, context: Any, builder: Any, real: Any) -> None:
        self.builder, self.size = builder, real.bitwidth // 8
        self.lanes = TILE.vector // self.size
        self.number = context.get_value_type(real)
        self.vector = ir.VectorType(self.number, self.lanes)
        self.zeros = self.vector([0.0] * self.lanes)
        self.all = ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), [1] * self.lanes)

    def whole(self, number: int) -> Any:
        return ir.IntType(64)(number)

    def place(self, start: Any, distance: Any, vectors: int = 0, kind: Any = None) -> Any:
        """The place at a distance from an address, and vectors further; of a vector by default."""
        address = self.builder.add(start, self.builder.add(distance, self.whole(vectors * TILE.vector)))
        return self.builder.inttoptr(address, (kind or self.vector).as_pointer())

    def everywhere(self, value: Any) -> Any:
        """A vector of one value, in all places."""
        kind = ir.VectorType(value.type, self.lanes)
        first = self.builder.insert_element(kind(ir.Undefined), value, ir.IntType(32)(0))
        return self.shuffled(first, first, [0] * self.lanes)

    def shuffled(self, x: Any, y: Any, order: list[int]) -> Any:
        """The elements of two vectors, counted through, in an order."""
        kind = ir.VectorType(ir.IntType(32), self.lanes)
        return self.builder.shuffle_vector(x, y, ir.Constant(kind, order))

    def within(self, length: Any) -> Any:
        """The places of a vector that begin in its first so many bytes: all of them where the length is larger."""
        lengths = self.everywhere(length)
        return self.builder.icmp_signed(
            "<", ir.Constant(lengths.type, [self.size * i for i in range(self.lanes)]), lengths
        )

    def number_at(self, place: Any) -> Any:
        value = self.builder.load(place)
        value.align = self.size
        return value

    def load(self, place: Any, mask: Any) -> Any:
        """A vector, with zeros for places outside of the mask, which are not read."""
        kinds = [place.type, ir.IntType(32), mask.type, self.vector]
        return self._call("load", self.vector, kinds, [place, ir.IntType(32)(self.size), mask, self.zeros])

    def store(self, value: Any, place: Any, mask: Any) -> None:
        """Write what the mask has of a vector."""
        kinds = [value.type, place.type, ir.IntType(32), mask.type]
        self._call("store", ir.VoidType(), kinds, [value, place, ir.IntType(32)(self.size), mask])

    def _call(self, name: str, result: Any, kinds: list[Any], values: list[Any]) -> Any:
        full = f"llvm.masked.{name}.v{self.lanes}f{8 * self.size}.p0"
        function = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, kinds), full)
        return self.builder.call(function, values)


def prefetch(builder: Any, place: Any, to_write: bool = False) -> None:
    """Have the line of a place in the cache by the time it is read or written; harmless where nothing is."""
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
    call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(call, [place, number(int(to_write)), number(3), number(1)])  # wanted soon, and data


def opaque(builder: Any, value: Any) -> Any:
    """The same number, as one that the compiler knows nothing of; no instruction is left of it.

    It would make each place of the one before otherwise, and a step would wait for these sums, one after the other.
    """
    return builder.asm(ir.FunctionType(value.type, [value.type]), "", "=r,0", [value], False)


def _multiply_add(builder: Any, total: Any, factor: Any, term: Any) -> Any:
    return builder.fadd(total, builder.fmul(factor, term, flags=("contract",)), flags=("contract",))


def adding(rows: int, vectors: int, multiply_add: Any = _multiply_add) -> Any:
    """The function that computes a tile of so many rows, and of up to so many vectors, by its `width`.

    out = a b, or out += a b where it is to `keep` what is there; element (i, k) of a is at a + i * a_row + k * a_step.
    """
    sums = [(r, v) for r in range(rows) for v in range(vectors)]

    def add(typing: Any, real: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_row: Any, keep: Any, out: Any,
            out_row: Any, width: Any, inner: Any) -> Any:  # fmt: skip
        place, whole = types.intp, types.int64
        signature = types.void(real, place, whole, whole, place, whole, types.boolean, place, whole, whole, whole)

        def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _, a, a_row, a_step, b, b_row, keep, out, out_row, width, inner = values
            to = Writer(context, builder, real)
            masks = [to.within(builder.sub(width, to.whole(v * TILE.vector))) for v in range(vectors)]
            for r, v in sums:
                if v * TILE.vector % LINE == 0:  # rows may lie pages apart, where the processor foresees nothing
                    place = to.place(out, builder.mul(to.whole(r), out_row), v, ir.IntType(8))
                    prefetch(builder, place, to_write=True)
            # The processor adds once and twice a distance to a place as it reads: so each three rows have a place.
            starts = [builder.add(a, builder.mul(to.whole(r), a_row)) for r in range(0, rows, 3)]
            before = builder.block
            step, finish, keeping, writing, end = (builder.append_basic_block() for _ in range(5))
            builder.branch(step)

            builder.position_at_end(step)
            k = builder.phi(ir.IntType(64))
            places = [builder.phi(ir.IntType(64)) for _ in starts]
            totals = [builder.phi(to.vector) for _ in sums]
            row = builder.mul(k, b_row)
            terms = [to.load(to.place(b, row, v), masks[v]) for v in range(vectors)]
            added: list[Any] = []
            for r in range(rows):
                place = to.place(places[r // 3], builder.mul(to.whole(r % 3), a_row), kind=to.number)
                factor = to.everywhere(to.number_at(place))
                for term in terms:
                    added.append(multiply_add(builder, totals[len(added)], factor, term))
            following = builder.add(k, to.whole(1))
            k.add_incoming(to.whole(0), before)
            k.add_incoming(following, step)
            for now, start in zip(places, starts):
                now.add_incoming(start, before)
                now.add_incoming(opaque(builder, builder.add(now, a_step)), step)
            for total, more in zip(totals, added):
                total.add_incoming(to.zeros, before)
                total.add_incoming(more, step)
            builder.cbranch(builder.icmp_signed("<", following, inner), step, finish)

            builder.position_at_end(finish)
            results = [(to.place(out, builder.mul(to.whole(r), out_row), v), masks[v]) for r, v in sums]
            builder.cbranch(builder.trunc(keep, ir.IntType(1)), keeping, writing)
            builder.position_at_end(keeping)
            for total, there in zip(added, results):
                to.store(builder.fadd(to.load(*there), total), *there)
            builder.branch(end)
            builder.position_at_end(writing)
            for total, there in zip(added, results):
                to.store(total, *there)
            builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return signature, write

    return intrinsic(add)


@intrinsic
def copy_vector(typing: Any, real: Any, source: Any, width: Any, out: Any) -> Any:
    """Copy a vector: read so many bytes, and fill up with zeros."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, source, width, out = values
        to = Writer(context, builder, real)
        to.store(to.load(to.place(source, to.whole(0)), to.within(width)), to.place(out, to.whole(0)), to.all)
        return context.get_dummy_value()

    return types.void(real, types.intp, types.int64, types.intp), write


@intrinsic
def turn_block(typing: Any, real: Any, source: Any, source_row: Any, rows: Any, width: Any, out: Any,
               out_row: Any) -> Any:  # fmt: skip
    """Write the transpose of a block: of each of up to a vector's length of rows a vector, or so many bytes.

    It is all written, and what has no element in the block is of no use. Pairs of rows exchange halves, then quarters,
    and so on to single elements (Eklundh 1972).
    """
    place, whole = types.intp, types.int64

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, source, source_row, rows, width, out, out_row = values
        to = Writer(context, builder, real)
        mask, last = to.within(width), builder.sub(rows, to.whole(1))
        vectors = []
        for r in range(to.lanes):
            row = builder.select(builder.icmp_signed("<", to.whole(r), last), to.whole(r), last)
            vectors.append(to.load(to.place(source, builder.mul(row, source_row)), mask))
        half = to.lanes // 2
        while half:
            first = [c if not c & half else to.lanes + c - half for c in range(to.lanes)]
            second = [c + half if not c & half else to.lanes + c for c in range(to.lanes)]
            for r in range(to.lanes):
                if not r & half:
                    x, y = vectors[r], vectors[r + half]
                    vectors[r], vectors[r + half] = to.shuffled(x, y, first), to.shuffled(x, y, second)
            half //= 2
        for r, vector in enumerate(vectors):
            to.store(vector, to.place(out, builder.mul(to.whole(r), out_row)), to.all)
        return context.get_dummy_value()

    return types.void(real, place, whole, whole, whole, place, whole), write
