"""Activation functions, softmax among them."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.functions.reductions import normalize_axes

from .precision import raised


@tt.op
def relu(input):
    """max(x, 0), element by element; its gradient at 0 is 0."""
    return tt.where(input <= 0, 0.0, input)


@relu.forward
def _(xp, input):
    out = xp.empty(input.shape, dtype=input.dtype)
    x, y = xp.contiguous(input).reshape(-1), out.reshape(-1)
    xp.in_parts(lambda i: xp.maximum(x[i], 0, out=y[i]), out.size, out.size)
    return out, (out,)


@relu.backward
def _(xp, g, kept, needs):
    g = xp.contiguous(g)
    if relu_gradient := xp.kernel("relu_gradient", g, kept[0]):
        return (relu_gradient(g, kept[0]),)
    gradient = xp.empty(g.shape, dtype=g.dtype)
    h, y, flat = g.reshape(-1), kept[0].reshape(-1), gradient.reshape(-1)
    xp.in_parts(lambda i: xp.zero_where(y[i] <= 0, h[i], out=flat[i]), flat.size, 2 * flat.size)
    return (gradient,)


def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent, element by element."""
    return tt.tanh(input)


def sigmoid(input: Any) -> Tensor:
    """1 / (1 + exp(-x)), element by element."""
    return tt.sigmoid(input)


# ---- GELU (Hendrycks and Gimpel 2016)


@tt.op
def _gelu(x):
    """x times the probability that a standard normal number is below x."""
    return x * (0.5 * (1 + tt.erf(x * (1 / math.sqrt(2)))))


@_gelu.forward
def _(xp, x):
    below = xp.erf(x * (1 / math.sqrt(2)))
    below += 1
    below *= 0.5
    return x * below, (x, below)


@_gelu.backward
def _(xp, g, kept, needs):
    x, below = kept
    slope = xp.exp(x * x * -0.5)
    slope *= x
    slope *= 1 / math.sqrt(2 * math.pi)
    slope += below
    slope *= g
    return (slope,)


@tt.op
def _gelu_tanh(x):
    """GELU with the normal distribution approximated by a tanh."""
    return 0.5 * x * (1 + tt.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@_gelu_tanh.forward
def _(xp, x):
    square = x * x
    inner = square * 0.044715
    inner += 1
    inner *= x
    inner *= math.sqrt(2 / math.pi)
    t = xp.tanh(inner)
    out = t + 1
    out *= x
    out *= 0.5
    return out, (x, square, t)


@_gelu_tanh.backward
def _(xp, g, kept, needs):
    x, square, t = kept
    slope = square * (3 * 0.044715)
    slope += 1
    slope *= math.sqrt(2 / math.pi)
    slope *= x
    slope *= 1 - t * t
    slope += t
    slope += 1
    slope *= 0.5
    slope *= g
    return (slope,)


@raised
def gelu(input: Any, approximate: str = "none") -> Tensor:
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
    """exp(x_i) / sum_j exp(x_j)."""
    largest = tt.max(x.detach(), axis=axis, keepdims=True)
    e = tt.exp(x - tt.where(largest == -math.inf, 0.0, largest))
    total = tt.sum(e, axis=axis, keepdims=True)
    return e / tt.where(total == 0, 1.0, total)


@_softmax.forward
def _(xp, x, *, axis):
    out = xp.copy(xp.moveaxis(x, axis, -1))
    softmax_rows(xp, out)
    out = xp.moveaxis(out, -1, axis)
    return out, (out,)


@_softmax.backward
def _(xp, g, kept, needs, *, axis):
    gradient = xp.copy(xp.moveaxis(g, axis, -1))
    softmax_gradient_in_place(xp, gradient, xp.contiguous(xp.moveaxis(kept[0], axis, -1)))
    return (xp.moveaxis(gradient, -1, axis),)


SAFE = 40.0  # exp of numbers up to this size neither overflows nor vanishes in float32


def softmax_rows(xp: Any, x: Any, shift: bool = True) -> None:
    """Turn a contiguous raw array into its softmax over the last axis, in place; rows of -inf become zeros.

    Without `shift` the largest element of each row is not subtracted first: for elements up to SAFE, or -inf.
    """
    if not x.size:
        return
    if softmax := xp.kernel("softmax", x):
        return softmax(x)
    if shift:
        largest = xp.row_max(x)
        largest[largest == -math.inf] = 0
        x -= largest
    xp.exp(x, out=x)
    total = xp.row_sum(x)
    total[total == 0] = 1
    x /= total


def softmax_gradient_in_place(xp: Any, g: Any, out: Any) -> None:
    """Turn the gradient of a softmax into that of its input, out * (g - sum(g * out)), over the last axis."""
    if softmax_gradient := xp.kernel("softmax_gradient", g, out):
        return softmax_gradient(g, out)
    g -= xp.row_dot(g, out)
    g *= out


@raised
def softmax(input: Any, dim: int = -1) -> Tensor:
    """exp(x_i) / sum_j exp(x_j) along `dim`, without overflow.

    A row in which every entry is -inf gives zeros with zero gradients (PyTorch: NaN), so that attention with
    everything masked stays harmless.
    """
    return _softmax(input, axis=_axis("softmax", input, dim))


@tt.op
def _log_softmax(x, *, axis):
    """x_i - log sum_j exp(x_j)."""
    return x - tt.logsumexp(x, axis=axis, keepdims=True)


@_log_softmax.forward
def _(xp, x, *, axis):
    x = xp.contiguous(xp.moveaxis(x, axis, -1))
    out = x - xp.row_max(x)
    out -= xp.log(xp.row_sum(xp.exp(out)))
    out = xp.moveaxis(out, -1, axis)
    return out, (out,)


@_log_softmax.backward
def _(xp, g, kept, needs, *, axis):
    (out,) = kept
    gradient = xp.exp(out)
    gradient *= -xp.sum(g, axis=axis, keepdims=True)
    gradient += g
    return (gradient,)


@raised
def log_softmax(input: Any, dim: int = -1) -> Tensor:
    """log(softmax(x)) along `dim`, exact where softmax itself would underflow: [0, -1000] gives [0, -1000]."""
    return _log_softmax(input, axis=_axis("log_softmax", input, dim))


def _axis(name: str, input: Any, dim: int) -> int:
    ndim = input.ndim if hasattr(input, "ndim") else tt.asarray(input).ndim
    if ndim == 0 and dim in (-1, 0):
        raise ValueError(f"{name}: expected at least 1 dimension, got a 0-d Tensor; reshape it to (1,) first")
    return normalize_axes(dim, ndim)[0]
