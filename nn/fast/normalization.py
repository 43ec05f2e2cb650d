"""The fast pairs of normalisation: row after row in the cache, and for backward only the normalised rows."""

from __future__ import annotations

import math
from typing import Any

from ..functional.normalization import _layer_norm, _rms_norm


@_layer_norm.forward
def layer_norm_forward(xp, x, weight, bias, *, eps):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if layer_norm := xp.kernel("layer_norm", rows, weight, bias):
        out, normal, scale = layer_norm(rows, weight, bias, eps)
        return out.reshape(x.shape), (normal, scale, weight)
    normal, out = xp.fresh_like(rows), xp.fresh_like(rows)
    scale = xp.fresh((len(rows), 1), dtype=rows.dtype)

    def normalize_rows(i: slice) -> None:
        mean = xp.row_sum(rows[i]) / rows.shape[1]
        deviation = xp.subtract(rows[i], mean, out=normal[i])  # two passes: the variance of what is left
        scale[i] = 1 / xp.sqrt(xp.row_dot(deviation, deviation) / rows.shape[1] + eps)
        deviation *= scale[i]
        if weight is None:
            out[i] = deviation
        else:
            xp.multiply(deviation, weight, out=out[i])
        if bias is not None:
            out[i] += bias

    xp.in_parts(normalize_rows, len(rows), 4 * rows.size, width=rows.shape[1])
    return out.reshape(x.shape), (normal, scale, weight)


@_layer_norm.backward
def layer_norm_backward(xp, g, saved, needs, *, eps):
    normal, scale, weight = saved
    g_rows = xp.contiguous(g).reshape(normal.shape)
    if gradient := xp.kernel("layer_norm_gradient", g_rows, normal, scale, weight):
        g_rows, g_weight, g_bias = gradient(g_rows, normal, scale, weight)
        return g_rows.reshape(g.shape), g_weight if needs[1] else None, g_bias if needs[2] else None
    g_x: Any = xp.fresh(g.shape, dtype=normal.dtype) if needs[0] else None
    g_x_rows: Any = g_x.reshape(normal.shape) if needs[0] else None
    sums: dict[int, tuple[Any, Any]] = {}  # for weight and bias, by the first row of each part

    def gradients_of_rows(i: slice) -> None:
        h = xp.multiply(g_rows[i], normal[i], out=xp.fresh_like(normal[i])) if needs[1] else None
        sums[i.start] = (
            xp.sum(h, axis=0) if needs[1] else None,
            xp.sum(g_rows[i], axis=0) if needs[2] else None,
        )
        if needs[0]:
            # With h = g * weight: scale * (h - mean(h) - normal * mean(h * normal))
            h = xp.copy(g_rows[i]) if weight is None else xp.multiply(g_rows[i], weight, out=h)
            along = xp.row_dot(h, normal[i]) / normal.shape[1]
            h -= xp.row_sum(h) / normal.shape[1]
            h -= normal[i] * along
            xp.multiply(h, scale[i], out=g_x_rows[i])

    xp.in_parts(gradients_of_rows, len(normal), 5 * normal.size, width=normal.shape[1])
    g_weight, g_bias = (
        sum(sums[start][place] for start in sorted(sums)) if needs[1 + place] else None for place in (0, 1)
    )
    return g_x, g_weight, g_bias


# ---- by the root mean square


@_rms_norm.forward
def rms_norm_forward(xp, x, weight, *, axes, eps):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[: -len(axes)]), math.prod(x.shape[-len(axes) :]))
    weights = None if weight is None else weight.reshape(-1)
    if rms_norm := xp.kernel("rms_norm", rows, weights):
        out, normal, scale = rms_norm(rows, weights, eps)
        return out.reshape(x.shape), (normal, scale, weight)
    normal = xp.fresh_like(rows)
    out = normal if weight is None else xp.fresh_like(rows)
    scale = xp.fresh((len(rows), 1), dtype=rows.dtype)

    def normalize_rows(i: slice) -> None:
        scale[i] = 1 / xp.sqrt(xp.row_dot(rows[i], rows[i]) / rows.shape[1] + eps)
        xp.multiply(rows[i], scale[i], out=normal[i])
        if weights is not None:
            xp.multiply(normal[i], weights, out=out[i])

    xp.in_parts(normalize_rows, len(rows), 3 * rows.size, width=rows.shape[1])
    return out.reshape(x.shape), (normal, scale, weight)


@_rms_norm.backward
def rms_norm_backward(xp, g, saved, needs, *, axes, eps):
    normal, scale, weight = saved
    g_rows = xp.contiguous(g).reshape(normal.shape)
    weights = None if weight is None else weight.reshape(-1)
    if gradient := xp.kernel("rms_norm_gradient", g_rows, normal, scale, weights):
        g_rows, g_weight = gradient(g_rows, normal, scale, weights)
        return g_rows.reshape(g.shape), g_weight.reshape(weight.shape) if needs[1] else None
    g_x: Any = xp.fresh(g.shape, dtype=normal.dtype) if needs[0] else None
    g_x_rows: Any = g_x.reshape(normal.shape) if needs[0] else None
    sums: dict[int, Any] = {}  # for the weight, by the first row of each part

    def gradients_of_rows(i: slice) -> None:
        if needs[1]:
            sums[i.start] = xp.sum(g_rows[i] * normal[i], axis=0)
        if needs[0]:
            # With h = g * weight: scale * (h - normal * mean(h * normal))
            h = g_rows[i] if weights is None else g_rows[i] * weights
            along = xp.row_dot(h, normal[i]) / normal.shape[1]
            xp.subtract(h, normal[i] * along, out=g_x_rows[i])
            g_x_rows[i] *= scale[i]

    xp.in_parts(gradients_of_rows, len(normal), 5 * normal.size, width=normal.shape[1])
    g_weight = sum(sums[start] for start in sorted(sums)).reshape(weight.shape) if needs[1] else None
    return g_x, g_weight
