"""The position-wise networks as sub-layers, plain and gated: see `sublayers.py`."""

from __future__ import annotations

from typing import Any

from . import passes, residual
from .activations import ACTIVATIONS
from .compiling import addresses, call, called, named
from .few_rows import dots
from .hashed import Dropping
from .pool import empty
from .products import MEMORY, multiply
from .residual import BLOCK, SUM, Residual, Share, Work, record


class FeedForward(Residual):
    """f(x) = drop(φ(x W₁ᵀ + b₁)) W₂ᵀ + b₂, or gated (φ(x Wᵀ + b) ⊙ (x Vᵀ + c)) W₂ᵀ + b₂ (Shazeer 2020, equation 6).

    Args:
        maps: weight and bias, or None, of each map: W₁ (inner, d) and W₂ (d, inner), or W, V and W₂; then of the norm.
        inner: of what the last map is given.
        activation: the name of φ in `ACTIVATIONS`.
    """

    def __init__(self, *maps: Any, inner: Dropping, activation: str, **residual: Any) -> None:
        *own, out, out_bias, norm_weight, norm_bias = maps
        weight, bias, up, up_bias = own if len(own) == 4 else (*own, own[0][:0], None)  # a plain one has no rows of V
        super().__init__((weight, up, out), (bias, up_bias, out_bias), norm_weight, norm_bias, **residual)
        self.width, self.is_gated, self.inner = len(weight), len(own) == 4, inner
        self.in_place = activation == "relu" and not self.is_gated
        self.activation = (None, None) if self.in_place else ACTIVATIONS[activation]

    def start(self, shares: list[Share], x: Any, memory: Any) -> Any:
        out, shape = super().start(shares, x, memory), (len(x), self.width)
        hidden = empty(shape, self.dtype)
        active = hidden if self.in_place else empty(shape, self.dtype)
        up = empty(shape, self.dtype) if self.is_gated else None
        (weight, up_weight, _), (bias, up_bias, _) = self.weights, self.biases
        maps = {"weight": weight, "bias": bias, "up_weight": up_weight, "up_bias": up_bias}
        drops = dict(zip(("inner_low", "inner_high", "inner_below"), self.inner.numbers))
        self.list_all(
            (Arrays, Sizes, Reals), {**maps, "hidden": hidden, "active": active, "up": up},
            {"width": self.width, "is_gated": self.is_gated, **drops}, {"inner_scale": self.inner.scale},
        )  # fmt: skip
        return out

    def work_forward(self, share: Share) -> Work:
        activate = passes.rectify if self.in_place else passes.activate
        functions = Forward(
            **self.there, activate=activate, function=self.activation[0], dots=dots, add_vector=passes.add_vector,
            multiply_by=passes.multiply_by,
        )  # fmt: skip
        return Work(_feed_forward, addresses(self.dtype, *functions), share.rows(self.length), MEMORY + BLOCK * self.d)

    def work_backward(self, share: Share) -> Work:
        activate = passes.rectify_gradient if self.in_place else passes.activate_gradient
        function, gradient = self.activation
        functions = Backward(
            **self.back, activate_gradient=activate, function=function, function_gradient=gradient,
            multiply_by=passes.multiply_by,
        )  # fmt: skip
        scratch = MEMORY + BLOCK * (2 * self.d + (2 - self.in_place + self.is_gated) * self.width)
        return Work(_feed_forward_gradient, addresses(self.dtype, *functions), share.rows(self.length), scratch)

    def in_order(self, weights: list[Any], vectors: list[Any]) -> list[Any]:
        found = super().in_order(weights, vectors)
        return found if self.is_gated else [*found[:2], *found[4:]]


Forward = record("Forward", "activate function dots add_vector multiply_by")
Backward = record("Backward", "activate_gradient function function_gradient multiply_by")
Arrays = record("Arrays", "weight up_weight bias up_bias hidden active up")
Gradients = record("Gradients", "weight up_weight out_weight")
Sizes = record("Sizes", "width is_gated inner_low inner_high inner_below")
Reals = record("Reals", "inner_scale")


@called
def _feed_forward(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at = named(functions, 0, Forward), named(places, 0, Arrays)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    row, wide, all_rows = n.d * size, n.width * size, stop - start
    own, total = (do.product, c.eps, size, scratch), scratch + MEMORY * size
    for first in range(start, stop, BLOCK):
        rows, inside = min(BLOCK, stop - first), at.inside + first * row
        hidden, active, up = at.hidden + first * wide, at.active + first * wide, at.up + first * wide
        residual.normalize(do, at, n, c, size, first, rows)
        residual.to_columns(own, do.dots, inside, at.weight, hidden, rows, n.width, n.d, all_rows)
        drops = first, n.inner_low, n.inner_high, n.inner_below
        call(do.activate, (c.inner_scale, do.function, rows, n.width, hidden, at.bias, active, *drops))
        if n.is_gated:
            residual.to_columns(own, do.dots, inside, at.up_weight, up, rows, n.width, n.d, all_rows)
            call(do.add_vector, (c.eps, rows, n.width, at.up_bias, up, n.width))
            call(do.multiply_by, (c.eps, rows * n.width, up, active))
        branch = total if n.norm_first else at.out + first * row
        residual.to_columns(own, do.dots, active, at.out_weight, branch, rows, n.d, n.width, all_rows)
        residual.sum_up(do, at, n, c, size, first, rows, total)


@called
def _feed_forward_gradient(real, size, functions, places, gradients, sizes, reals, scratch, start, stop):
    do, at, to = named(functions, 0, Backward), named(places, 0, Arrays), named(gradients, 0, Gradients)
    n, c = named(sizes, 0, Sizes), named(reals, real, Reals)
    row, wide, g_total = n.d * size, n.width * size, scratch + MEMORY * size
    g_inside = g_total + BLOCK * row
    g_active = g_inside + BLOCK * row
    g_hidden = g_active if at.active == at.hidden else g_active + BLOCK * wide
    g_up = g_hidden + BLOCK * wide
    sums = to.sums + 3 * n.d * SUM  # behind those of the norm and of the last bias
    own = do.product, c.scale, size, scratch
    for first in range(start, stop, BLOCK):
        rows, keep, inside = min(BLOCK, stop - first), first > start, at.inside + first * row
        hidden, active, up = at.hidden + first * wide, at.active + first * wide, at.up + first * wide
        residual.differentiate_sum(do, at, to, n, c, size, first, rows, g_total)
        multiply(own, g_total, row, False, at.out_weight, wide, False, False, g_active, wide, rows, n.width, n.d)
        multiply(own, g_total, row, True, active, wide, False, keep, to.out_weight, wide, n.d, n.width, rows)
        if n.is_gated:
            call(do.function, (c.scale, rows * n.width, hidden, g_up))
            call(do.multiply_by, (c.scale, rows * n.width, g_active, g_up))
            call(do.multiply_by, (c.scale, rows * n.width, up, g_active))
            call(do.add_rows_up, (c.scale, rows, n.width, g_up, n.width, sums + n.width * SUM))
            multiply(own, g_up, wide, True, inside, row, False, keep, to.up_weight, row, n.width, n.d, rows)
        drops = first, n.inner_low, n.inner_high, n.inner_below
        call(
            do.activate_gradient,
            (c.inner_scale, do.function_gradient, rows, n.width, g_active, hidden, g_hidden, sums, *drops),
        )
        multiply(own, g_hidden, wide, True, inside, row, False, keep, to.weight, row, n.width, n.d, rows)
        into = g_inside if n.norm_first else to.g_x + first * row
        multiply(own, g_hidden, wide, False, at.weight, row, False, not n.norm_first, into, row, rows, n.d, n.width)
        if n.is_gated:
            multiply(own, g_up, wide, False, at.up_weight, row, False, True, into, row, rows, n.d, n.width)
        residual.differentiate_norm(do, at, to, n, c, size, first, rows, g_inside)
