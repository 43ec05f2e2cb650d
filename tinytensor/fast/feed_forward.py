"""The position-wise networks as sub-layers, plain and gated: see `sublayers.py`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from . import passes
from .activations import ACTIVATIONS
from .compiling import addresses, call, called, named, or_zeros, places
from .few_rows import dots
from .hashed import Dropping
from .products import MEMORY, multiply
from .residual import BLOCK, SUM, Residual, Share, Work, to_columns

# ---- f(x) = drop(φ(x W₁ᵀ + b₁)) W₂ᵀ + b₂


class FeedForward(Residual):
    """The position-wise network; its weights are (inner, d) and (d, inner), φ is one of `ACTIVATIONS`."""

    def __init__(
        self, weight1: Any, bias1: Any, weight2: Any, bias2: Any, *norm: Any, inner: Dropping, activation: str,
        **residual: Any,
    ) -> None:  # fmt: skip
        super().__init__(*norm, **residual)
        self.width = len(weight1)
        self.weights, self.work = (weight1, weight2), 2 * weight1.size
        self.biases = or_zeros(bias1, self.width, self.dtype), or_zeros(bias2, self.d, self.dtype)
        self.inner, self.in_place = inner, activation == "relu"
        self.activation = (None, None) if self.in_place else ACTIVATIONS[activation]
        self.vectors = [self.d, self.d, self.d, self.width]  # norm, b₂, b₁

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out = super().start(shares, x, memory)
        self.hidden = self.empty((len(x), self.width), self.dtype)
        self.active = self.hidden if self.in_place else self.empty(self.hidden.shape, self.dtype)
        self.places = places(
            x, *self.weights, *self.biases, *self.norm, self.inside, self.hidden, self.active, self.normal,
            self.factor, out,
        )  # fmt: skip
        drops = *self.inner.numbers, *self.dropping.numbers
        self.sizes = np.array(Sizes(self.d, self.width, self.norm_first, *drops), np.int64)
        self.reals = np.array(Reals(self.eps, self.inner.scale, self.dropping.scale), self.dtype)
        return out

    def work_forward(self, share: Share) -> Work:
        rectify = passes.rectify_and_drop if self.inner else passes.rectify
        activate = rectify if self.in_place else passes.activate
        functions = Forward(**self.there, activate=activate, function=self.activation[0], dots=dots)
        return Work(_feed_forward, addresses(self.dtype, *functions), share.rows(self.length), MEMORY + BLOCK * self.d)

    def work_backward(self, share: Share) -> Work:
        widths = self.width if self.in_place else 2 * self.width
        activate = passes.rectify_gradient if self.in_place else passes.activate_gradient
        functions = Backward(**self.back, activate_gradient=activate, function=self.activation[1])
        scratch = MEMORY + BLOCK * (2 * self.d + widths)
        return Work(_feed_forward_gradient, addresses(self.dtype, *functions), share.rows(self.length), scratch)

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, bias2, bias1 = vectors
        return [weights[0], bias1, weights[1], bias2, norm_weight, norm_bias]


Forward = namedtuple("Forward", "product normalize activate function dots add")
Backward = namedtuple("Backward", "product copy normalize_gradient drop add_rows_up activate_gradient function")
Arrays = namedtuple(
    "Arrays", "x weight1 weight2 bias1 bias2 norm_weight norm_bias inside hidden active normal factor out"
)
Gradients = namedtuple("Gradients", "g g_x g_memory g_weight1 g_weight2 norm_sums")
Sizes = namedtuple("Sizes", "d width norm_first inner_low inner_high inner_below low high below")
Reals = namedtuple("Reals", "eps inner_scale scale")


@called
def _feed_forward(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, normalize, activate, function, dots, add = named(functions, 0, Forward)
    x, weight1, weight2, bias1, bias2, norm_weight, norm_bias, inside, hidden, active, normal, factor, out = named(
        places, 0, Arrays
    )
    d, width, norm_first, inner_low, inner_high, inner_below, low, high, below = named(sizes, 0, Sizes)
    eps, inner_scale, scale = named(reals, real, Reals)
    row, wide, total = d * size, width * size, scratch + MEMORY * size
    own = product, eps, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, h, a = min(BLOCK, stop - first), first * row, hidden + first * wide, active + first * wide
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(normalize, (eps, rows, d, x + i, norm_weight, norm_bias, inside + i, normed, scales))
        to_columns(own, dots, inside + i, weight1, h, rows, width, d, stop - start)
        drops = first, inner_low, inner_high, inner_below
        call(activate, (inner_scale, function, rows, width, h, bias1, a, *drops))
        branch, added = (total, out + i) if norm_first else (out + i, total)
        to_columns(own, dots, a, weight2, branch, rows, d, width, stop - start)
        call(add, (scale, rows, d, x + i, branch, bias2, added, first, low, high, below))
        if not norm_first:
            call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out + i, normed, scales))


@called
def _feed_forward_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, copy, normalize_gradient, drop, add_rows_up, activate_gradient, function = named(functions, 0, Backward)
    _, weight1, weight2, _, _, norm_weight, _, inside, hidden, active, normal, factor, _ = named(places, 0, Arrays)
    g, g_x, _, g_weight1, g_weight2, norm_sums = named(gradients, 0, Gradients)
    d, width, norm_first, inner_low, inner_high, inner_below, low, high, below = named(sizes, 0, Sizes)
    _, inner_scale, scale = named(reals, real, Reals)
    row, wide, g_total = d * size, width * size, scratch + MEMORY * size
    g_inside = g_total + BLOCK * row
    g_active = g_inside + BLOCK * row
    g_hidden = g_active if active == hidden else g_active + BLOCK * wide
    out_sums = norm_sums + 2 * d * SUM
    inner_sums = out_sums + d * SUM
    own = product, scale, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, keep = min(BLOCK, stop - first), first * row, first > start
        h, a = hidden + first * wide, active + first * wide
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(copy, (scale, rows, d, g + i, g_x + i, 0, 0, 0, 0))
        else:
            call(normalize_gradient, (scale, rows, d, g + i, normed, scales, norm_weight, g_x + i, norm_sums, False))
        call(drop, (scale, rows, d, g_x + i, g_total, first, low, high, below))
        call(add_rows_up, (scale, rows, d, g_total, d, out_sums))
        multiply(own, g_total, row, False, weight2, wide, False, False, g_active, wide, rows, width, d)
        drops = first, inner_low, inner_high, inner_below
        call(activate_gradient, (inner_scale, function, rows, width, g_active, h, g_hidden, inner_sums, *drops))
        multiply(own, g_hidden, wide, True, inside + i, row, False, keep, g_weight1, row, width, d, rows)
        multiply(own, g_total, row, True, a, wide, False, keep, g_weight2, wide, d, width, rows)
        into = g_inside if norm_first else g_x + i
        multiply(own, g_hidden, wide, False, weight1, row, False, not norm_first, into, row, rows, d, width)
        if norm_first:
            call(normalize_gradient, (scale, rows, d, g_inside, normed, scales, norm_weight, g_x + i, norm_sums, True))


# ---- f(x) = (φ(x Wᵀ + b) ⊙ (x Vᵀ + c)) W₂ᵀ + b₂ (Shazeer 2020, equations 5 and 6)


class GatedFeedForward(Residual):
    """The weights of gate and map up are (inner, d), that of the map down is (d, inner), φ is one of `ACTIVATIONS`."""

    def __init__(
        self, gate: Any, gate_bias: Any, up: Any, up_bias: Any, down: Any, down_bias: Any, *norm: Any, activation: str,
        **residual: Any,
    ) -> None:  # fmt: skip
        super().__init__(*norm, **residual)
        self.width, self.activation = len(up), ACTIVATIONS[activation]
        self.weights, self.work = (gate, up, down), 3 * up.size
        self.biases = [
            or_zeros(bias, len(weight), self.dtype)
            for bias, weight in zip((gate_bias, up_bias, down_bias), self.weights)
        ]
        self.vectors = [self.d, self.d, self.d, self.width, self.width]  # norm, bias down, of the gate, up

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out = super().start(shares, x, memory)
        self.inner = [self.empty((len(x), self.width), self.dtype) for _ in range(3)]  # gate, up, and what goes down
        self.places = places(
            x, *self.weights, *self.biases, *self.norm, self.inside, *self.inner, self.normal, self.factor, out
        )
        self.sizes = np.array(GatedSizes(self.d, self.width, self.norm_first, *self.dropping.numbers), np.int64)
        self.reals = np.array(GatedReals(self.eps, self.dropping.scale), self.dtype)
        return out

    def work_forward(self, share: Share) -> Work:
        more = {"add_vector": passes.add_vector, "multiply_by": passes.multiply_by, "dots": dots}
        functions = GatedForward(**self.there, **more, function=self.activation[0])
        return Work(_gated, addresses(self.dtype, *functions), share.rows(self.length), MEMORY + BLOCK * self.d)

    def work_backward(self, share: Share) -> Work:
        more = {"function": self.activation[0], "function_gradient": self.activation[1]}
        functions = GatedBackward(**self.back, **more, multiply_by=passes.multiply_by)
        scratch = MEMORY + BLOCK * (2 * self.d + 3 * self.width)
        return Work(_gated_gradient, addresses(self.dtype, *functions), share.rows(self.length), scratch)

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        norm_weight, norm_bias, *biases = vectors
        gate, up, down = weights
        return [gate, biases[1], up, biases[2], down, biases[0], norm_weight, norm_bias]


GatedForward = namedtuple("GatedForward", "product normalize add_vector function multiply_by dots add")
GatedBackward = namedtuple(
    "GatedBackward",
    "product copy normalize_gradient drop add_rows_up function function_gradient multiply_by",
)
GatedArrays = namedtuple(
    "GatedArrays",
    "x gate_weight up_weight down_weight gate_bias up_bias down_bias norm_weight norm_bias inside gate up inner normal "
    "factor out",
)
GatedGradients = namedtuple("GatedGradients", "g g_x g_memory g_gate_weight g_up_weight g_down_weight norm_sums")
GatedSizes = namedtuple("GatedSizes", "d width norm_first low high below")
GatedReals = namedtuple("GatedReals", "eps scale")


@called
def _gated(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, normalize, add_vector, function, multiply_by, dots, add = named(functions, 0, GatedForward)
    (
        x, gate_weight, up_weight, down_weight, gate_bias, up_bias, down_bias, norm_weight, norm_bias, inside, gate, up,
        inner, normal, factor, out,
    ) = named(places, 0, GatedArrays)  # fmt: skip
    d, width, norm_first, low, high, below = named(sizes, 0, GatedSizes)
    eps, scale = named(reals, real, GatedReals)
    row, wide, total = d * size, width * size, scratch + MEMORY * size
    own = product, eps, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, h = min(BLOCK, stop - first), first * row, first * wide
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(normalize, (eps, rows, d, x + i, norm_weight, norm_bias, inside + i, normed, scales))
        to_columns(own, dots, inside + i, gate_weight, gate + h, rows, width, d, stop - start)
        to_columns(own, dots, inside + i, up_weight, up + h, rows, width, d, stop - start)
        call(add_vector, (eps, rows, width, gate_bias, gate + h, width))
        call(add_vector, (eps, rows, width, up_bias, up + h, width))
        call(function, (eps, rows * width, gate + h, inner + h))
        call(multiply_by, (eps, rows * width, up + h, inner + h))
        branch, added = (total, out + i) if norm_first else (out + i, total)
        to_columns(own, dots, inner + h, down_weight, branch, rows, d, width, stop - start)
        call(add, (scale, rows, d, x + i, branch, down_bias, added, first, low, high, below))
        if not norm_first:
            call(normalize, (eps, rows, d, total, norm_weight, norm_bias, out + i, normed, scales))


@called
def _gated_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    product, copy, normalize_gradient, drop, add_rows_up, function, function_gradient, multiply_by = named(
        functions, 0, GatedBackward
    )
    _, gate_weight, up_weight, down_weight, _, _, _, norm_weight, _, inside, gate, up, inner, normal, factor, _ = named(
        places, 0, GatedArrays
    )
    g, g_x, _, g_gate_weight, g_up_weight, g_down_weight, norm_sums = named(gradients, 0, GatedGradients)
    d, width, norm_first, low, high, below = named(sizes, 0, GatedSizes)
    _, scale = named(reals, real, GatedReals)
    row, wide, g_total = d * size, width * size, scratch + MEMORY * size
    g_inside = g_total + BLOCK * row
    g_inner = g_inside + BLOCK * row
    g_up = g_inner + BLOCK * wide
    g_gate = g_up + BLOCK * wide
    down_sums = norm_sums + 2 * d * SUM
    gate_sums = down_sums + d * SUM
    up_sums = gate_sums + width * SUM
    own = product, scale, size, scratch
    for first in range(start, stop, BLOCK):
        rows, i, h, keep = min(BLOCK, stop - first), first * row, first * wide, first > start
        normed, scales = normal + i, factor + first * size
        if norm_first:
            call(copy, (scale, rows, d, g + i, g_x + i, 0, 0, 0, 0))
        else:
            call(normalize_gradient, (scale, rows, d, g + i, normed, scales, norm_weight, g_x + i, norm_sums, False))
        call(drop, (scale, rows, d, g_x + i, g_total, first, low, high, below))
        call(add_rows_up, (scale, rows, d, g_total, d, down_sums))
        multiply(own, g_total, row, False, down_weight, wide, False, False, g_inner, wide, rows, width, d)
        multiply(own, g_total, row, True, inner + h, wide, False, keep, g_down_weight, wide, d, width, rows)
        call(function, (scale, rows * width, gate + h, g_up))
        call(multiply_by, (scale, rows * width, g_inner, g_up))
        call(multiply_by, (scale, rows * width, up + h, g_inner))
        call(function_gradient, (scale, rows * width, g_inner, gate + h, g_gate))
        call(add_rows_up, (scale, rows, width, g_gate, width, gate_sums))
        call(add_rows_up, (scale, rows, width, g_up, width, up_sums))
        multiply(own, g_gate, wide, True, inside + i, row, False, keep, g_gate_weight, row, width, d, rows)
        multiply(own, g_up, wide, True, inside + i, row, False, keep, g_up_weight, row, width, d, rows)
        into = g_inside if norm_first else g_x + i
        multiply(own, g_gate, wide, False, gate_weight, row, False, not norm_first, into, row, rows, d, width)
        multiply(own, g_up, wide, False, up_weight, row, False, True, into, row, rows, d, width)
        if norm_first:
            call(normalize_gradient, (scale, rows, d, g_inside, normed, scales, norm_weight, g_x + i, norm_sums, True))
