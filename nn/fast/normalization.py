"""The fast pairs of normalisation: row after row in the cache, and for backward only the normalised rows."""

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
    normal, out = xp.fresh_like(rows), xp.fresh_like(rows)
    scale = xp.fresh((len(rows), 1), dtype=rows.dtype)

    def normalize_rows(i: slice) -> None:
        deviation = rows[i]
        if name == "layer_norm":  # two passes: the variance of what is left
            deviation = xp.subtract(rows[i], xp.row_sum(rows[i]) / columns, out=normal[i])
        scale[i] = 1 / xp.sqrt(xp.row_dot(deviation, deviation) / columns + eps)
        xp.multiply(deviation, scale[i], out=normal[i])
        xp.multiply(normal[i], 1 if weight is None else weight, out=out[i])
        if bias is not None:
            out[i] += bias

    xp.in_parts(normalize_rows, len(rows), 4 * rows.size, width=columns)
    return out.reshape(x.shape), normal, scale


def differentiate(xp: Any, name: str, needs: Any, g: Any, normal: Any, scale: Any, weight: Any) -> tuple[Any, ...]:
    """The gradients for x, weight and bias, None where one is not needed."""
    g_rows = xp.contiguous(g).reshape(normal.shape)
    if gradient := xp.kernel(f"{name}_gradient", g_rows, normal, scale, weight):
        found = gradient(g_rows, normal, scale, weight)
        return found[0].reshape(g.shape), *(each if needed else None for each, needed in zip(found[1:], needs[1:]))
    g_x: Any = xp.fresh(normal.shape, dtype=normal.dtype) if needs[0] else None
    sums: dict[int, tuple[Any, Any]] = {}  # for weight and bias, by the first row of each part

    def gradients_of_rows(i: slice) -> None:
        h = xp.fresh_like(normal[i])
        sums[i.start] = (
            xp.sum(xp.multiply(g_rows[i], normal[i], out=h), axis=0) if needs[1] else None,
            xp.sum(g_rows[i], axis=0) if needs[2] else None,
        )
        if needs[0]:
            # With h = g * weight: scale * (h - mean(h) - normal * mean(h * normal)), the RMS norm's without mean(h)
            xp.multiply(g_rows[i], 1 if weight is None else weight, out=h)
            along = xp.row_dot(h, normal[i]) / normal.shape[1]
            if name == "layer_norm":
                h -= xp.row_sum(h) / normal.shape[1]
            h -= normal[i] * along
            xp.multiply(h, scale[i], out=g_x[i])

    xp.in_parts(gradients_of_rows, len(normal), 5 * normal.size, width=normal.shape[1])
    of_parameters = [
        sum(sums[start][place] for start in sorted(sums)) if needed else None for place, needed in enumerate(needs[1:])
    ]
    return g_x.reshape(g.shape) if needs[0] else None, *of_parameters
