"""The size of the gradient, layer by layer, to see where it vanishes or explodes (Pascanu et al. 2013)."""

from __future__ import annotations

import tinytensor as tt
from tinytensor import Tensor, nn


def norms_by_layer(model: nn.Module, total: float) -> dict[str, float]:
    """The Euclidean norm of the gradient of each layer's parameters, in the order of the model.

    Args:
        total: the norm of the whole gradient. If it was clipped since, by one factor, the norms are those before.
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
    """The layer of a parameter: `encoder.layers.0` for `encoder.layers.0.linear1.weight`.

    That is its module, or the first numbered module around it.
    """
    modules = parameter.split(".")[:-1]
    numbers = [i + 1 for i, part in enumerate(modules) if part.isdecimal()]
    return ".".join(modules[: numbers[0] if numbers else None]) or parameter
