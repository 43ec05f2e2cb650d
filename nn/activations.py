"""Activation functions as modules."""

from __future__ import annotations

from tinytensor import Tensor

from . import functional as F
from .module import Module


class ReLU(Module):
    """max(0, x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input)


class GELU(Module):
    """x Φ(x), with Φ the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        approximate: "none", or "tanh" for the paper's approximation 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Softmax(Module):
    """exp(x) / sum(exp(x)), the sum over dimension `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """x - log(sum(exp(x))), the sum over dimension `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
