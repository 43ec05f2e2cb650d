"""The linear map."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.messages import aligned

from .precision import lowered


@tt.op
def _linear(x, weight, bias):
    """x W^T + b.

    ∂L/∂x = g W
    ∂L/∂weight = gᵀ x
    ∂L/∂bias = Σ g, over the rows
    """
    y = tt.matmul(x, tt.matrix_transpose(weight))
    return y if bias is None else y + bias


@lowered
def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """x W^T + b.

    Shapes: input (..., in_features), weight (out_features, in_features), bias (out_features,) -> (..., out_features).
    Raises ValueError, with both shapes, if they do not fit, and TypeError for integers.
    """
    input = input if isinstance(input, Tensor) else tt.asarray(input, device=weight.device)
    shape, weight_shape = input.shape, weight.shape
    if input.dtype.kind not in "fc" or len(weight_shape) != 2 or not shape or shape[-1] != weight_shape[1]:
        raise _unfit(input, weight)
    if bias is not None and tuple(bias.shape) != (weight_shape[0],):
        raise ValueError(_misfit({"weight": weight_shape, "bias": bias.shape}, (-2, -1), "out_features"))
    return _linear(input, weight, bias)


def _unfit(input: Tensor, weight: Any) -> Exception:
    if input.dtype.kind not in "fc":
        return TypeError(
            f"linear: expected floats, got {input.dtype} of shape {input.shape}; write x.float(), or look ids up in an "
            "nn.Embedding"
        )
    return ValueError(_misfit({"input": input.shape, "weight": tuple(weight.shape)}, (-1, -1), "in_features"))


def _misfit(shapes: dict[str, tuple[int, ...]], axes: tuple[int, int], what: str) -> str:
    """The message for two shapes that do not agree, with the axis of each."""
    (one, first), (other, second) = shapes.items()
    return (
        f"linear: {one} {tuple(first)} and {other} {tuple(second)} do not agree in {what}\n"
        f"{aligned(shapes, lambda operand, axis: axis == axes[operand])}"
    )
