"""Fast pairs of activation functions, and softmax on raw arrays, which attention computes with as well."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..functional.activations import _gelu, _gelu_tanh, _log_softmax, _softmax, relu
from ..functional.nonlinearities import _silu

FAR = 1e4  # from there on a GELU is x or 0 to the last digit

# ---- ReLU


@relu.forward
def relu_forward(xp, input):
    out = xp.asarray(xp.maximum(input, 0))
    return out, (out,)


@relu.backward
def relu_backward(xp, g, saved, needs):
    (out,) = saved
    g = xp.contiguous(g)
    if relu_gradient := xp.kernel("relu_gradient", g, out):
        return (relu_gradient(g, out),)
    return (xp.where(out <= 0, g.dtype.type(0), g),)


# ---- GELU and SiLU: x times a share of it, which grows from 0 to 1


def multiply(xp: Any, name: str, x: Any, share_of: Callable[[Any], Any]) -> tuple[Any, tuple[Any, ...]]:
    """x * share_of(x), and what the gradient needs."""
    if (function := xp.kernel(name, x)) is not None:
        return function(x), (x,)
    share = share_of(x)
    return x * share, (x, share)


def differentiate(xp: Any, name: str, g: Any, saved: Any, slope: Callable[[Any, Any], Any]) -> tuple[Any]:
    """The gradient for x; `slope` is x times that of the share, given x and the share."""
    if len(saved) == 1:
        return (xp.kernel(f"{name}_gradient", *saved)(xp.contiguous(g), *saved),)
    return ((saved[1] + slope(*saved)) * g,)


ROOT = math.sqrt(2 / math.pi)


@_gelu.forward
def gelu_forward(xp, x):
    return multiply(xp, "gelu", x, lambda x: 0.5 + 0.5 * xp.erf(x * math.sqrt(0.5)))


@_gelu.backward
def gelu_backward(xp, g, saved, needs):
    return differentiate(xp, "gelu", g, saved, lambda x, share: x * (0.5 * ROOT * xp.exp(-0.5 * (x * x))))


@_gelu_tanh.forward
def gelu_tanh_forward(xp, x):
    return multiply(xp, "gelu_tanh", x, lambda x: 0.5 + 0.5 * xp.tanh(ROOT * x * (1 + 0.044715 * (x * x))))


@_gelu_tanh.backward
def gelu_tanh_backward(xp, g, saved, needs):
    def slope(x, share):  # far out it is 0, and would meet infinity
        return x * (share * (1 - share) * (2 * ROOT * (1 + 3 * 0.044715 * xp.minimum(x * x, FAR**2))))

    return differentiate(xp, "gelu_tanh", g, saved, slope)


@_silu.forward
def silu_forward(xp, x):
    return multiply(xp, "silu", x, xp.sigmoid)


@_silu.backward
def silu_backward(xp, g, saved, needs):
    return differentiate(xp, "silu", g, saved, lambda x, share: x * (share * (1 - share)))


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


def softmax_rows(xp: Any, x: Any) -> None:
    """Turn a contiguous raw array into its softmax over the last axis, in place; rows of -inf become zeros."""
    if not x.size:
        return
    if softmax := xp.kernel("softmax", x):
        return softmax(x)
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
