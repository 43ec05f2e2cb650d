"""Layer normalisation and dropout."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .precision import raised


@tt.op
def _layer_norm(x, weight, bias, *, eps):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axis."""
    deviation = x - tt.mean(x, axis=-1, keepdims=True)
    variance = tt.mean(deviation * deviation, axis=-1, keepdims=True)
    out = deviation / tt.sqrt(variance + eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


@_layer_norm.forward
def _(xp, x, weight, bias, *, eps):
    rows = xp.contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if layer_norm := xp.kernel("layer_norm", rows, weight, bias):
        out, normal, scale = layer_norm(rows, weight, bias, eps)
        return out.reshape(x.shape), (normal, scale, weight)
    normal, out = xp.empty_like(rows), xp.empty_like(rows)
    scale = xp.empty((len(rows), 1), dtype=rows.dtype)

    def part(i: slice) -> None:
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

    xp.in_parts(part, len(rows), 4 * rows.size, width=rows.shape[1])
    return out.reshape(x.shape), (normal, scale, weight)


@_layer_norm.backward
def _(xp, g, kept, needs, *, eps):
    normal, scale, weight = kept
    g_rows = xp.contiguous(g).reshape(normal.shape)
    if gradient := xp.kernel("layer_norm_gradient", g_rows, normal, scale, weight):
        g_x, g_weight, g_bias = gradient(g_rows, normal, scale, weight)
        return g_x.reshape(g.shape), g_weight if needs[1] else None, g_bias if needs[2] else None
    g_x = xp.empty_like(normal) if needs[0] else None
    sums: dict[int, tuple[Any, Any]] = {}  # of each part, for weight and bias

    def part(i: slice) -> None:
        h = g_rows[i] * normal[i] if needs[1] else None
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
            xp.multiply(h, scale[i], out=g_x[i])

    xp.in_parts(part, len(normal), 5 * normal.size, width=normal.shape[1])
    g_weight, g_bias = (
        sum(sums[start][place] for start in sorted(sums)) if needs[1 + place] else None for place in (0, 1)
    )
    return None if g_x is None else g_x.reshape(g.shape), g_weight, g_bias


@raised
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Layer normalisation (Ba, Kiros and Hinton 2016, equation 4) over the last dimensions.

    Shapes: input (..., *normalized_shape); weight and bias of shape `normalized_shape`, or None.
    The variance is computed in two passes, so that a large mean costs no accuracy.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise ValueError(f"layer_norm: input {tuple(input.shape)} does not end in normalized_shape {shape}")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != shape:
            raise ValueError(f"layer_norm: {name} {tuple(value.shape)} is not of normalized_shape {shape}")
    if len(shape) == 1:
        return _layer_norm(input, weight, bias, eps=eps)
    size = math.prod(shape)
    flat = tt.reshape(input, (*input.shape[: -len(shape)], size))
    weight, bias = (None if v is None else tt.reshape(v, (size,)) for v in (weight, bias))
    return tt.reshape(_layer_norm(flat, weight, bias, eps=eps), input.shape)


@tt.op
def _dropout(input, keep, *, scale):
    """input * keep * scale."""
    return input * keep * scale


@_dropout.forward
def _(xp, input, keep, *, scale):
    return _drop(xp, input, keep, scale), (keep,)


@_dropout.backward
def _(xp, g, kept, needs, *, scale):
    return _drop(xp, g, kept[0], scale), None


def _drop(xp: Any, x: Any, keep: Any, scale: float) -> Any:
    x, keep = xp.contiguous(x), xp.contiguous(keep)
    out = xp.empty_like(x)
    flat, mask, values = (a.reshape(-1) for a in (out, keep, x))
    xp.in_parts(lambda i: drop_into(xp, values[i], mask[i], scale, flat[i]), x.size, 4 * x.size, width=1)
    return out


def drop_into(xp: Any, x: Any, keep: Any, scale: float, out: Any) -> None:
    """Write x * keep * scale into `out`, which may be x: contiguous raw arrays."""
    if keep.dtype.kind == "b" and (drop := xp.kernel("drop", x, out)):
        return drop(x, keep, scale, out)
    xp.multiply(x, keep, out=out)
    out *= scale


def dropout(input: Any, p: float = 0.5, training: bool = True, *, generator: Any = None) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    Without `training` the input as it is. Random numbers come from `generator`, by default the library's own.
    """
    check_probability("dropout", p)
    x = input if isinstance(input, Tensor) else tt.asarray(input)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    return _dropout(x, tt.random.bernoulli(1 - p, x.shape, device=x.device, generator=generator), scale=1 / (1 - p))


def check_probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability must be from 0 to 1, got {p}")
