"""The parts that sub-layers of `sublayers.py` share: the sum with x, its dropout, the norm, and shares of a batch.

All loops share one signature: a number of the dtype, the size of an element, the addresses of five lists (functions,
arrays, gradients, integers, reals), scratch memory, the first row or sentence and the one behind the last.
"""

from __future__ import annotations

import itertools
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from . import passes
from .compiling import address, addresses, call, called, named, or_zeros, part, places
from .few_rows import FEW
from .hashed import Dropping
from .pool import empty
from .products import chosen, multiply

BLOCK = 512  # rows that go through a sub-layer together
SUM = WORD = 8  # bytes of a sum, and of a whole number


class Norm:
    """norm(x), for the end of a stack, and what a sub-layer has of its own.

    Args:
        norm_weight, norm_bias, eps: of the norm.
        by_size: whether it is the RMS norm, which has no bias.
    """

    work = 0
    weights: tuple[Any, ...] = ()

    def __init__(self, norm_weight: Any, norm_bias: Any, *, eps: float, by_size: bool = False) -> None:
        self.normalize, self.normalize_gradient = passes.BY_SIZE if by_size else passes.BY_MEAN_AND_SIZE
        self.d, self.dtype, self.eps = norm_weight.size, norm_weight.dtype, eps
        self.norm = norm_weight, or_zeros(norm_bias, self.d, self.dtype)
        self.vectors = [self.d, self.d]

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        """Make the arrays for rows x; returns that of the result, which the loop forward fills."""
        out = self.make_norm(shares, x)
        self.places = places(x, *self.norm, out, self.normal, self.factor)
        self.sizes, self.reals = np.array([self.d], np.int64), np.array([self.eps], self.dtype)
        return out

    def make_norm(self, shares: list[Share], x: Any) -> Any:
        """Make the arrays that every sub-layer has; returns that of the result."""
        self.shares, self.x = shares, x  # and x is kept: loops know only where it lies
        self.length = len(x) // shares[-1].last
        self.normal, self.factor, self.out = (empty((len(x), width), x.dtype) for width in (self.d, 1, self.d))
        return self.out

    def work_forward(self, share: Share) -> Work:
        """The work of the loop forward for a share."""
        return Work(_normalize, addresses(self.dtype, self.normalize), share.rows(self.length))

    def work_backward(self, share: Share) -> Work:
        """And the loop backward."""
        return Work(_normalize_gradient, addresses(self.dtype, self.normalize_gradient), share.rows(self.length))

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        """The gradients of the parameters in their order, from those of weights and of vectors."""
        return vectors


class Residual(Norm):
    """The base of attention and the feed-forward network: the sum with x, its dropout, and the norm.

    Args:
        weights, biases: of the maps within f, the last of which gives what is added to x; a bias may be None.
        norm_weight, norm_bias, eps, by_size: of the norm.
        norm_first: whether it stands in front.
        dropping: of what is added to x.
    """

    def __init__(
        self, weights: tuple[Any, ...], biases: tuple[Any, ...], norm_weight: Any, norm_bias: Any, *, norm_first: bool,
        dropping: Dropping, **norm: Any,
    ) -> None:  # fmt: skip
        super().__init__(norm_weight, norm_bias, **norm)
        self.weights, self.norm_first, self.dropping = weights, norm_first, dropping
        self.biases = [or_zeros(bias, len(weight), self.dtype) for weight, bias in zip(weights, biases)]
        self.work = sum(weight.size for weight in weights)
        self.vectors += [self.d, *map(len, weights[:-1])]

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        self.inside = empty(x.shape, x.dtype) if self.norm_first else x  # what f is given
        return self.make_norm(shares, x)

    def list_all(self, fields: tuple[Any, Any, Any], arrays: Any, sizes: Any, reals: Any) -> None:
        """Make the lists that loops read: the arrays and numbers of all sub-layers, and those of one kind, by name."""
        (norm_weight, norm_bias), low, high, below = self.norm, *self.dropping.numbers
        of_arrays, of_sizes, of_reals = fields
        self.arrays = of_arrays(  # which keeps them alive: loops know only where they lie
            x=self.x, inside=self.inside, normal=self.normal, factor=self.factor, out=self.out, norm_weight=norm_weight,
            norm_bias=norm_bias, out_weight=self.weights[-1], out_bias=self.biases[-1], **arrays,
        )  # fmt: skip
        self.places = places(*self.arrays)
        numbers = of_sizes(d=self.d, norm_first=self.norm_first, low=low, high=high, below=below, **sizes)
        self.sizes = np.array(numbers, np.int64)
        self.reals = np.array(of_reals(eps=self.eps, scale=self.dropping.scale, **reals), self.dtype)

    @property
    def there(self) -> dict[str, Any]:
        """Functions that the loop forward calls, by their names."""
        return {"product": chosen(self.dtype), "normalize": self.normalize, "add": passes.add}

    @property
    def back(self) -> dict[str, Any]:
        """And those that the loop backward calls."""
        functions = {"drop": passes.drop, "add_rows_up": passes.add_rows_up}
        return {"product": chosen(self.dtype), "normalize_gradient": self.normalize_gradient, **functions}

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, out_bias, *biases = vectors
        return [*itertools.chain(*zip(weights, [*biases, out_bias])), norm_weight, norm_bias]


class Share(NamedTuple):
    """The sentences of a share, from the first to before the last, and its place among the shares."""

    place: int
    first: int
    last: int

    def rows(self, length: int) -> slice:
        """Those of sentences of this length."""
        return slice(self.first * length, self.last * length)


class Work(NamedTuple):
    """The work of a sub-layer's loop for a share: the loop, the functions it calls, its rows or sentences.

    `scratch` is how many elements it writes, for itself alone.
    """

    loop: Any
    functions: Any
    rows: slice
    scratch: int = 0

    def numbers(self, sublayer: Any, gradients: int) -> Numbers:
        """The same in numbers; `gradients` is where a list of the places of the share's lies, or 0."""
        lists = self.functions, sublayer.places, sublayer.sizes, sublayer.reals
        functions, places, sizes, reals = map(address, lists)
        loop = self.loop(sublayer.dtype).address
        return Numbers(loop, functions, places, gradients, sizes, reals, self.rows.start, self.rows.stop)


Numbers = namedtuple("Numbers", "loop functions places gradients sizes reals start stop")
ROW = WORD * len(Numbers._fields)


@called
def one_after_the_other(real, size, works, count, scratch):
    """Do what so many rows of numbers say, each those of a `Work`."""
    for n in range(count):
        row = named(works + n * ROW, 0, Numbers)
        lists = row.functions, row.places, row.gradients, row.sizes, row.reals
        call(row.loop, (real, size, *lists, scratch, row.start, row.stop))


class Gradient:
    """Of a sub-layer: for its x, and those of its parameters, added up over the rows of each share."""

    def __init__(self, sublayer: Any, g: Any, g_memory: Any) -> None:
        self.sublayer, self.g, self.g_memory = sublayer, g, g_memory
        self.g_x = empty(g.shape, g.dtype)
        count, weights, vectors = len(sublayer.shares), sublayer.weights, sublayer.vectors
        self.weights = [empty((count, *weight.shape), g.dtype) for weight in weights]
        self.sums = np.zeros((count, sum(vectors)))  # of biases and norms, side by side, in float64
        own = self.sums, *self.weights
        apart = np.array([0, 0, 0, *[part.strides[0] for part in own]], np.int64)
        self._places = places(g, self.g_x, g_memory, *own) + np.arange(count)[:, None] * apart

    def row(self, share: Share) -> int:
        """Where the list of places lies: of g and of a share's gradients for x, memory, vectors and weights."""
        return address(self._places) + share.place * self._places.strides[0]

    def totals(self) -> list[Any]:
        """The gradients of the parameters, in their order."""
        weights = [part[0] if len(part) == 1 else np.add.reduce(part, axis=0) for part in self.weights]
        sums, sizes = np.add.reduce(self.sums, axis=0).astype(self.g.dtype), self.sublayer.vectors
        vectors = [sums[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes))]
        return self.sublayer.in_order(weights, vectors)


@part
def to_columns(own, dots, x, weight, out, rows, columns, inner, all_rows):
    """out = x weightᵀ, of matrices whose rows lie one behind the other; of few rows by `dots`."""
    _, real, size, _ = own
    row, out_row = inner * size, columns * size
    if all_rows <= FEW or inner == 0:  # a product has terms
        call(dots, (real, size, rows, columns, inner, x, row, weight, row, 0, out, out_row))
    else:
        multiply(own, x, row, False, weight, row, True, False, out, out_row, rows, columns, inner)


# ---- what the loops of all sub-layers read, by name, and what they do before and behind f

COMMON = {
    "Forward": "product normalize add",  # functions
    "Backward": "product normalize_gradient drop add_rows_up",
    "Arrays": "x inside normal factor out norm_weight norm_bias out_weight out_bias",
    "Gradients": "g g_x g_memory sums",  # the sums of the norm, of the last bias, then of other biases
    "Sizes": "d norm_first low high below",
    "Reals": "eps scale",
}


def record(of: str, own: str) -> Any:
    """The names in a list that a loop reads: those that all sub-layers have there, and its own."""
    make: Any = namedtuple  # for mypy, which wants the names as a literal
    return make(of, f"{COMMON[of]} {own}")


@part
def normalize(do, at, n, c, size, first, rows):
    """Write norm(x) into `inside`, if the norm is in front."""
    i = first * n.d * size
    if n.norm_first:
        normal, factor = at.normal + i, at.factor + first * size
        call(do.normalize, (c.eps, rows, n.d, at.x + i, at.norm_weight, at.norm_bias, at.inside + i, normal, factor))


@part
def sum_up(do, at, n, c, size, first, rows, total):
    """out = x + drop(f), then the norm, if it is behind; f lies in `total` if the norm is in front, else in `out`."""
    i = first * n.d * size
    out = at.out + i
    branch, added = (total, out) if n.norm_first else (out, total)
    call(do.add, (c.scale, rows, n.d, at.x + i, branch, at.out_bias, added, first, n.low, n.high, n.below))
    if not n.norm_first:
        normal, factor = at.normal + i, at.factor + first * size
        call(do.normalize, (c.eps, rows, n.d, total, at.norm_weight, at.norm_bias, out, normal, factor))


@part
def differentiate_sum(do, at, to, n, c, size, first, rows, g_total):
    """Write the gradient for x but that through f into `g_x`, and the one for f into `g_total`."""
    i = first * n.d * size
    g, g_x, normal, factor = to.g + i, to.g_x + i, at.normal + i, at.factor + first * size
    if n.norm_first:
        call(do.drop, (c.scale, rows, n.d, g, g_x, 0, 0, 0, 0))
    else:
        call(do.normalize_gradient, (c.scale, rows, n.d, g, normal, factor, at.norm_weight, g_x, to.sums, False))
    call(do.drop, (c.scale, rows, n.d, g_x, g_total, first, n.low, n.high, n.below))
    call(do.add_rows_up, (c.scale, rows, n.d, g_total, n.d, to.sums + 2 * n.d * SUM))


@part
def differentiate_norm(do, at, to, n, c, size, first, rows, g_inside):
    """Add the gradient through a norm in front to `g_x`, given that for `inside`."""
    i = first * n.d * size
    if n.norm_first:
        g_x, normal, factor = to.g_x + i, at.normal + i, at.factor + first * size
        call(do.normalize_gradient, (c.scale, rows, n.d, g_inside, normal, factor, at.norm_weight, g_x, to.sums, True))


# ---- the norm at the end of a stack

Arrays = namedtuple("Arrays", "x weight bias out normal factor")
Gradients = namedtuple("Gradients", "g g_x g_memory sums")
Function = namedtuple("Function", "normalize")
Sizes = namedtuple("Sizes", "d")
Reals = namedtuple("Reals", "eps")


@called
def _normalize(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at, d = named(functions, 0, Function), named(places, 0, Arrays), named(sizes, 0, Sizes).d
    i, eps = start * d * size, named(reals, real, Reals).eps
    call(
        do.normalize,
        (eps, stop - start, d, at.x + i, at.weight, at.bias, at.out + i, at.normal + i, at.factor + start * size),
    )


@called
def _normalize_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at, d = named(functions, 0, Function), named(places, 0, Arrays), named(sizes, 0, Sizes).d
    to, i, rows, scales = named(gradients, 0, Gradients), start * d * size, stop - start, at.factor + start * size
    call(do.normalize, (real, rows, d, to.g + i, at.normal + i, scales, at.weight, to.g_x + i, to.sums, False))
