"""Dropout, of a layer's input and of attention weights."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable
from tinytensor.typing import ArrayLike

from .checks import check_probability
from .precision import unchanged


@tt.op
def _dropout(input, keep, *, scale):
    """input * keep * scale.

    ∂L/∂input = g ⊙ keep scale
    """
    return input * keep * scale


@unchanged
def dropout(
    input: ArrayLike, p: float = 0.5, training: bool = True, *, generator: tt.random.Generator | None = None
) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    Without `training`, returns the input unchanged. Random numbers come from `generator`, by default the library's own.
    """
    check_probability("dropout", p)
    x = input if isinstance(input, Tensor) else tt.asarray(input)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    return _dropout(x, tt.random.bernoulli(1 - p, x.shape, device=x.device, generator=generator), scale=1 / (1 - p))


def dropout1d(input: ArrayLike, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels (Tompson et al. 2015): (batch, channels, length), or without the batch."""
    return _of_channels("dropout1d", 1, input, p, training)


def dropout2d(input: ArrayLike, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of images: (batch, channels, height, width), or without the batch."""
    return _of_channels("dropout2d", 2, input, p, training)


def _of_channels(name: str, axes: int, input: ArrayLike, p: float, training: bool) -> Tensor:
    check_probability(name, p)
    x = input if isinstance(input, Tensor) else tt.asarray(input)
    if x.ndim not in (axes + 1, axes + 2):
        raise ValueError(f"{name}: expected {axes + 2} dimensions, or {axes + 1} without a batch, got {x.shape}")
    if not training or p == 0:
        return x
    ones = tt.ones((*x.shape[: x.ndim - axes], *[1] * axes), dtype=x.dtype, device=x.device)
    return x * dropout(ones, p)


class Dropped(metaclass=Replaceable):
    """Which attention weights dropout keeps, and by how much it scales them.

    Attributes:
        keep: booleans, or numbers, that broadcast to the weights: 0 for a dropped weight.
        scale: 1 / (1 - p), the factor for the weights it keeps.
    """

    def __init__(self, keep: Any, scale: float) -> None:
        self.keep, self.scale = keep, scale

    @staticmethod
    @may_be_faster
    def draw(p: float, shape: tuple[int, ...], device: str) -> Dropped:
        """Draw it for weights of a shape (..., target, source), each dropped with probability p."""
        return Dropped(tt.random.bernoulli(1 - p, shape, device=device), 1 / (1 - p) if p < 1 else 0.0)

    def apply(self, weights: Tensor) -> Tensor:
        """weights * keep * scale."""
        return weights * self.keep * self.scale
