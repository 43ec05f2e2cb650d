"""Activation functions, softmax among them."""

from __future__ import annotations

import math

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import ArrayLike, DType

from .checks import check_dim
from .precision import raised, summed


@tt.op
def relu(input):
    """max(x, 0); element by element, with a gradient of 0 at 0.

    ∂L/∂input = g where input > 0, else 0
    """
    return tt.where(input <= 0, 0.0, input)


def tanh(input: ArrayLike) -> Tensor:
    """The hyperbolic tangent, element by element."""
    return tt.tanh(input)


def sigmoid(input: ArrayLike) -> Tensor:
    """1 / (1 + exp(-x)), element by element."""
    return tt.sigmoid(input)


# ---- GELU (Hendrycks and Gimpel 2016)


@tt.op
def _gelu(x):
    """x Φ(x); Φ(x) is the probability that a standard normal number is below x.

    ∂L/∂x = g ⊙ (Φ(x) + x ⊙ φ(x)), φ being the density of the normal distribution
    """
    return x * (0.5 * (1 + tt.erf(x * (1 / math.sqrt(2)))))


@tt.op(wide=True)
def _gelu_tanh(x):
    """GELU with the normal distribution approximated by a tanh.

    ∂L/∂x = g ⊙ ((1 + t) / 2 + x ⊙ (1 − t²) ⊙ u′ / 2), t = tanh(u), u = √(2 / π) (x + 0.044715 x³)
    """
    # Beyond 1e8 t is 1 or -1, and an infinite u′ would meet 1 - t² = 0.
    square = x * x if x.dtype.kind == "c" else tt.minimum(x * x, 1e8)
    return 0.5 * x * (1 + tt.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * square)))


@raised
def gelu(input: ArrayLike, approximate: str = "none") -> Tensor:
    """The Gaussian error linear unit, x * P(N(0, 1) <= x).

    Args:
        approximate: "none" for the exact function, "tanh" for its approximation.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return (_gelu if approximate == "none" else _gelu_tanh)(input)


# ---- softmax


@tt.op
def _softmax(x, *, axis):
    """exp(x_i) / sum_j exp(x_j).

    ∂L/∂x = out ⊙ (g − Σ g ⊙ out), the sum along the axis
    """
    if 0 in x.shape:  # no largest
        return tt.exp(x)
    largest = tt.max(x.detach(), axis=axis, keepdims=True)  # subtracted, so that no exponential overflows
    e = tt.exp(x - tt.where(largest == -math.inf, 0.0, largest))  # a row of -inf alone: exp(-inf - 0) = 0
    total = tt.sum(e, axis=axis, keepdims=True)
    return e / tt.where(total == 0, 1.0, total)  # and that row stays 0


@summed
def softmax(input: ArrayLike, dim: int = -1, *, dtype: DType = None) -> Tensor:
    """exp(x_i) / sum_j exp(x_j) along `dim`, without overflow.

    Args:
        dtype: cast the input to it first; float32 for 16-bit scores.

    A row of only -inf gives zeros with zero gradients (PyTorch: NaN), so that attention with everything masked stays
    harmless.
    """
    return _softmax(input if dtype is None else tt.astype(input, dtype), axis=check_dim("softmax", input, dim))


@tt.op
def _log_softmax(x, *, axis):
    """x_i - log sum_j exp(x_j); both are relative to the largest x, so that the difference keeps its digits.

    ∂L/∂x = g − softmax(x) ⊙ Σ g, the sum along the axis
    """
    if 0 in x.shape:  # no largest
        return tt.log(tt.exp(x))
    x = x - tt.max(x.detach(), axis=axis, keepdims=True)
    return x - tt.log(tt.sum(tt.exp(x), axis=axis, keepdims=True))


@summed
def log_softmax(input: ArrayLike, dim: int = -1, *, dtype: DType = None) -> Tensor:
    """log(softmax(x)) along `dim`, exact where softmax itself would underflow: [0, -1000] gives [0, -1000].

    Args:
        dtype: cast the input to it first.
    """
    return _log_softmax(input if dtype is None else tt.astype(input, dtype), axis=check_dim("log_softmax", input, dim))
