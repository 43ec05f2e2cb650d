"""Layer normalisation, and normalisation by the root mean square."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor

from .precision import raised


@tt.op(wide=True)
def _layer_norm(x, weight, bias, *, eps):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axis.

    ∂L/∂x = (h − mean(h) − y ⊙ mean(h ⊙ y)) / √(variance + ε), h = g ⊙ weight, y = (x − mean) / √(variance + ε)
    ∂L/∂weight = Σ g ⊙ y, over the rows
    ∂L/∂bias = Σ g, over the rows
    """
    deviation = x - tt.mean(x, axis=-1, keepdims=True)
    variance = tt.mean(deviation * deviation, axis=-1, keepdims=True)
    out = deviation / tt.sqrt(variance + eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


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


@tt.op(wide=True)
def _rms_norm(x, weight, *, axes, eps):
    """x / sqrt(mean(x²) + eps) * weight, the mean over the last axes.

    ∂L/∂x = (h − y ⊙ mean(h ⊙ y)) / √(mean(x²) + ε), h = g ⊙ weight, y = x / √(mean(x²) + ε)
    ∂L/∂weight = Σ g ⊙ y, over the rows
    """
    out = x / tt.sqrt(tt.mean(x * x, axis=axes, keepdims=True) + eps)
    return out if weight is None else out * weight


@raised
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """Normalisation by the root mean square (Zhang and Sennrich 2019, equation 4) over the last dimensions.

    Layer normalisation without the mean and the bias. Shapes: input (..., *normalized_shape); weight of shape
    `normalized_shape`, or None. `eps` defaults to the distance from 1 to the next number of the input's dtype.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape or tuple(getattr(weight, "shape", shape)) != shape:
        raise ValueError(
            f"rms_norm: input {tuple(input.shape)} must end in normalized_shape {shape}, and weight "
            f"{None if weight is None else tuple(weight.shape)} be of it"
        )
    axes = tuple(range(-len(shape), 0))
    return _rms_norm(input, weight, axes=axes, eps=float(np.finfo(input.dtype).eps) if eps is None else eps)
