"""The fast pairs of normalisation: in one pass where there is a kernel; for backward only the normalised rows."""

from __future__ import annotations

import math
from typing import Any

from ..functional.normalization import _layer_norm, _rms_norm


@_layer_norm.forward
def layer_norm_forward(xp, x, weight, bias, *, eps):
    out, normal, scale = normalize(xp, "layer_norm", x, 1, weight, bias, eps)
    return out, (normal, scale, weight)


@_layer_norm.backward
def layer_norm_backward(xp, g, saved, needs, *, eps):
    return differentiate(xp, "layer_norm", needs, g, *saved)


@_rms_norm.forward
def rms_norm_forward(xp, x, weight, *, axes, eps):
    weights = None if weight is None else weight.reshape(-1)
    out, normal, scale = normalize(xp, "rms_norm", x, len(axes), weights, None, eps)
    return out, (normal, scale, weights)


@_rms_norm.backward
def rms_norm_backward(xp, g, saved, needs, *, axes, eps):
    g_x, g_weight, _ = differentiate(xp, "rms_norm", (*needs, False), g, *saved)
    return g_x, g_weight.reshape(g.shape[-len(axes) :]) if needs[1] else None


def normalize(xp: Any, name: str, x: Any, axes: int, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """The norm over so many last axes, the normalised rows before weight and bias, and the factor of each (n, 1)."""
    columns = math.prod(x.shape[-axes:])
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-axes]), columns)
    if norm := xp.kernel(name, rows, weight, bias):
        out, normal, scale = norm(rows, weight, bias, eps)
        return out.reshape(x.shape), normal, scale
    deviation = rows - xp.row_sum(rows) / columns if name == "layer_norm" else rows  # two passes: then its variance
    square = xp.row_dot(deviation, deviation) / columns + eps
    scale = 1 / xp.sqrt(square) * (square / square if name == "layer_norm" else 1)  # NaN where squares overflow
    normal = deviation * scale
    out = normal * (1 if weight is None else weight) + (0 if bias is None else bias)
    return out.reshape(x.shape), normal, scale


def differentiate(xp: Any, name: str, needs: Any, g: Any, normal: Any, scale: Any, weight: Any) -> tuple[Any, ...]:
    """The gradients for x, weight and bias, None where one is not needed."""
    g_rows = xp.contiguous(g).reshape(normal.shape)
    if gradient := xp.kernel(f"{name}_gradient", g_rows, normal, scale, weight):
        found = gradient(g_rows, normal, scale, weight)
        return found[0].reshape(g.shape), *(each if needed else None for each, needed in zip(found[1:], needs[1:]))
    g_weight = xp.sum(g_rows * normal, axis=0) if needs[1] else None
    g_bias = xp.sum(g_rows, axis=0) if needs[2] else None
    if not needs[0]:
        return None, g_weight, g_bias
    # With h = g * weight: scale * (h - mean(h) - normal * mean(h * normal)), the RMS norm's without mean(h)
    h = g_rows * (1 if weight is None else weight)
    h_mean = xp.row_sum(h) / normal.shape[1] if name == "layer_norm" else 0
    g_x = scale * (h - h_mean - normal * (xp.row_dot(h, normal) / normal.shape[1]))
    return g_x.reshape(g.shape), g_weight, g_bias
