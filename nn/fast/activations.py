"""Fast pairs of activation functions, and softmax on raw arrays, which attention computes with as well."""

from __future__ import annotations

import math
from typing import Any

from ..functional.activations import _gelu, _gelu_tanh, _log_softmax, _softmax, relu
from ..functional.nonlinearities import _silu

FAR = 1e4  # from there on a GELU is x or 0 to the last digit

# ---- ReLU


@relu.forward
def relu_forward(xp, input):
    out = xp.fresh(input.shape, dtype=input.dtype)
    x, y = xp.contiguous(input).reshape(-1), out.reshape(-1)

    def clip_below(i: slice) -> None:
        xp.maximum(x[i], 0, out=y[i])

    xp.in_parts(clip_below, out.size, out.size)
    return out, (out,)


@relu.backward
def relu_backward(xp, g, saved, needs):
    (out,) = saved
    g = xp.contiguous(g)
    if relu_gradient := xp.kernel("relu_gradient", g, out):
        return (relu_gradient(g, out),)
    g_input = xp.fresh(g.shape, dtype=g.dtype)
    g_flat, y, g_x = g.reshape(-1), out.reshape(-1), g_input.reshape(-1)

    def zero_gradients(i: slice) -> None:
        xp.zero_where(y[i] <= 0, g_flat[i], out=g_x[i])

    xp.in_parts(zero_gradients, g_x.size, 2 * g_x.size, width=8)  # pieces with room for what is written on the way
    return (g_input,)


# ---- GELU


@_gelu.forward
def gelu_forward(xp, x):
    if (gelu := xp.kernel("gelu", x)) is not None:
        return gelu(x), (x,)
    below = xp.erf(x * (1 / math.sqrt(2)))
    below += 1
    below *= 0.5
    return x * below, (x, below)


@_gelu.backward
def gelu_backward(xp, g, saved, needs):
    x = saved[0]
    if len(saved) == 1:
        return (xp.kernel("gelu_gradient", x)(xp.contiguous(g), x),)
    below = saved[1]
    slope = xp.exp(x * x * -0.5)
    slope *= x
    slope *= 1 / math.sqrt(2 * math.pi)
    slope += below
    slope *= g
    return (slope,)


@_gelu_tanh.forward
def gelu_tanh_forward(xp, x):
    if (gelu_tanh := xp.kernel("gelu_tanh", x)) is not None:
        return gelu_tanh(x), (x,)
    square = x * x
    inner = square * 0.044715
    inner += 1
    inner *= x
    inner *= math.sqrt(2 / math.pi)
    t = xp.tanh(inner)
    out = t + 1
    out *= 0.5
    out *= x
    return out, (x, square, t)


@_gelu_tanh.backward
def gelu_tanh_backward(xp, g, saved, needs):
    x = saved[0]
    if len(saved) == 1:
        return (xp.kernel("gelu_tanh_gradient", x)(xp.contiguous(g), x),)
    square, t = saved[1:]
    slope = xp.minimum(square, FAR**2)  # where 1 - t * t is 0, and would meet infinity
    slope *= 3 * 0.044715
    slope += 1
    slope *= math.sqrt(2 / math.pi)
    slope *= 1 - t * t
    slope *= x
    slope += t
    slope += 1
    slope *= 0.5
    slope *= g
    return (slope,)


# ---- SiLU


@_silu.forward
def silu_forward(xp, x):
    if (silu := xp.kernel("silu", x)) is not None:
        return silu(x), (x,)
    share = xp.sigmoid(x)
    return x * share, (x, share)


@_silu.backward
def silu_backward(xp, g, saved, needs):
    x = saved[0]
    if len(saved) == 1:
        return (xp.kernel("silu_gradient", x)(xp.contiguous(g), x),)
    share = saved[1]
    slope = 1 - share
    slope *= x
    slope += 1
    slope *= share
    slope *= g
    return (slope,)


# ---- softmax


@_softmax.forward
def softmax_forward(xp, x, *, axis):
    out = xp.copy(xp.moveaxis(x, axis, -1))
    softmax_rows(xp, out)
    out = xp.moveaxis(out, -1, axis)
    return out, (out,)


@_softmax.backward
def softmax_backward(xp, g, saved, needs, *, axis):
    gradient = xp.copy(xp.moveaxis(g, axis, -1))
    softmax_gradient_in_place(xp, gradient, xp.contiguous(xp.moveaxis(saved[0], axis, -1)))
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


@_log_softmax.forward
def log_softmax_forward(xp, x, *, axis):
    if not x.size:
        return xp.copy(x), (x,)
    x = xp.contiguous(xp.moveaxis(x, axis, -1))
    out = x - xp.row_max(x)
    out -= xp.log(xp.row_sum(xp.exp(out)))
    out = xp.moveaxis(out, -1, axis)
    return out, (out,)


@_log_softmax.backward
def log_softmax_backward(xp, g, saved, needs, *, axis):
    (out,) = saved
    gradient = xp.exp(out)
    gradient *= -xp.sum(g, axis=axis, keepdims=True)
    gradient += g
    return (gradient,)
