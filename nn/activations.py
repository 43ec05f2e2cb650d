"""Activation functions as modules."""

from __future__ import annotations

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType, Extended

from . import functional as F
from .init import constant_
from .module import Module
from .parameter import Parameter


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


class SiLU(Module):
    """x σ(x), also called Swish (Hendrycks and Gimpel 2016; Ramachandran, Zoph and Le 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input)


class Mish(Module):
    """x tanh(softplus(x)) (Misra 2019)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input)


class Hardsigmoid(Module):
    """A sigmoid of three straight lines: min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input)


class Hardswish(Module):
    """x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, section 5.2)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input)


class SELU(Module):
    """λ elu(x, α), which keeps mean 0 and variance 1 from layer to layer (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input)


class ReLU6(Module):
    """min(max(x, 0), 6) (Krizhevsky 2010)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input)


class LogSigmoid(Module):
    """log σ(x), also where σ(x) would be 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|) (Turian, Bergstra and Bengio 2009)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class ELU(Module):
    """x where x > 0, else alpha (exp(x) - 1) (Clevert, Unterthiner and Hochreiter 2016)."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(Module):
    """x where x > 0, else alpha (exp(x / alpha) - 1), for an alpha above 0 (Barron 2017)."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class LeakyReLU(Module):
    """x where x > 0, else negative_slope x (Maas, Hannun and Ng 2013)."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, and x itself where beta x > threshold (Dugas et al. 2001)."""

    def __init__(self, beta: float = 1.0, threshold: Extended = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """x, no lower than min_val and no higher than max_val."""

    def __init__(self, min_val: Extended = -1.0, max_val: Extended = 1.0) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: min_val must be below max_val, got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Threshold(Module):
    """x where x > threshold, else `value`."""

    def __init__(self, threshold: Extended, value: Extended) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class Hardshrink(Module):
    """0 where |x| <= lambd, else x."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards 0 by lambd, and 0 where |x| <= lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class GLU(Module):
    """a σ(b), where a and b are the halves of the input along dimension `dim` (Dauphin et al. 2017)."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """softmax(-x), the sum over dimension `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """x where x > 0, else w x, with a learnt slope w (He et al. 2015, equation 1).

    Args:
        num_parameters: 1 for one slope, or the number of channels for one slope each.
        init: the initial value of the slopes.

    Shapes: input (batch, channels, ...), weight (num_parameters,).
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: DType = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(tt.empty((num_parameters,), dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to their initial value."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
