"""Position-wise feed-forward networks, plain (Vaswani et al. 2017, section 3.3) and gated (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from .layers import Dropout, Linear
from .module import Module


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU with its approximation by tanh, as in GPT-2."""
    return F.gelu(x, approximate="tanh")


PLAIN: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu}
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "bilinear": lambda x: x,
    "glu": tt.sigmoid,
    "reglu": F.relu,
    "geglu": F.gelu,
    "geglu_tanh": gelu_tanh,
    "swiglu": F.silu,  # Shazeer calls it Swish
}


class FeedForward(Module):
    """FFN(x) = f(x W₁) W₂, or with a gate FFN(x) = (f(x W) ⊙ x V) W₂.

    Plain, as in section 3.3 of Vaswani et al. 2017: "relu", "gelu" (Hendrycks and Gimpel 2016), "gelu_tanh", "silu".
    Gated, as in equations 5 and 6 of Shazeer (2020), "GLU Variants Improve Transformer": "glu" (f the sigmoid, Dauphin
    et al. 2017), "bilinear" (none), "reglu", "geglu", "geglu_tanh" and "swiglu" (f = SiLU).

    Args:
        d_model: the size of input and output.
        d_ff: the inner size. A gated network has three matrices instead of two: 2/3 of the size gives as many weights.
        activation: one of the names above.
        dropout: within it, after the activation.
        bias: whether the maps add a bias.

    `up` is W₁ or V, `down` W₂, and `gate`, only in gated networks, W.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: str = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        *,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        if activation not in PLAIN and activation not in GATES:
            raise ValueError(
                f"FeedForward: unknown activation {activation!r}; expected one of {', '.join([*PLAIN, *GATES])}"
            )
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.activation = activation
        self.gate = Linear(d_model, d_ff, **factory) if activation in GATES else None
        self.up = Linear(d_model, d_ff, **factory)
        self.down = Linear(d_ff, d_model, **factory)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            inner = PLAIN[self.activation](self.up(x))
        else:
            inner = GATES[self.activation](self.gate(x)) * self.up(x)
        return self.down(self.dropout(inner))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"
