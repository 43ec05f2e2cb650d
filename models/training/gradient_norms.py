"""How large the gradient is, layer by layer: where it vanishes or explodes (Pascanu et al. 2013)."""

from __future__ import annotations

import tinytensor as tt
from tinytensor import Tensor, nn


def norms_by_layer(model: nn.Module, total: float) -> dict[str, float]:
    """The Euclidean norm of the gradient of each layer's parameters, in the order of the model.

    Args:
        total: the norm of the whole gradient. Gradients that were clipped since, all by one factor, count as before.
    """
    squares: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            layer = layer_of(name)
            squares[layer] = squares.get(layer, 0.0) + tt.sum(tt.square(parameter.grad))
    norms = {layer: square.item() ** 0.5 for layer, square in squares.items()}
    now = sum(norm**2 for norm in norms.values()) ** 0.5
    return {layer: norm * total / now if now else 0.0 for layer, norm in norms.items()}


def layer_of(parameter: str) -> str:
    """The layer that a parameter is counted with: `encoder.layers.0.linear1.weight` with `encoder.layers.0`.

    That is its module, or of numbered modules the one with the number.
    """
    modules = parameter.split(".")[:-1]
    numbers = [i + 1 for i, part in enumerate(modules) if part.isdecimal()]
    return ".".join(modules[: numbers[0] if numbers else None]) or parameter
