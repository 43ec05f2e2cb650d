"""Initial values of parameters, drawn reproducibly from a seed.

Every function fills a Tensor in place, outside any graph, and returns it. Names, arguments and distributions are
PyTorch's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, random
from tinytensor.random import Generator

from .parameter import here

GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for the initial weights of a nonlinearity's layer that keeps the variance from layer to layer.

    Args:
        nonlinearity: "linear", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: the negative slope of a leaky ReLU; default 0.01.

    Raises ValueError for another name.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueError(
            f"calculate_gain: unknown nonlinearity {nonlinearity!r}; expected one of {', '.join(GAINS)}, leaky_relu"
        )
    return GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight of shape (out_features, in_features, ...)."""
    if tensor.ndim < 2:
        raise ValueError(f"init: fan_in and fan_out need a Tensor of 2 dimensions or more, got shape {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with tt.no_grad():
        return tensor.copy_(values)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from the uniform distribution U(a, b)."""
    if here.skips:
        return tensor
    values = random.uniform(tensor.shape, a, b, dtype=tensor.dtype, device=tensor.device, generator=generator)
    return _fill(tensor, values)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from the normal distribution N(mean, std²)."""
    if here.skips:
        return tensor
    values = random.normal(tensor.shape, mean, std, dtype=tensor.dtype, device=tensor.device, generator=generator)
    return _fill(tensor, values)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with numbers from the normal distribution N(mean, std²), without those outside [a, b].

    Inverts the distribution function: draws uniform numbers between its values at a and at b.
    """
    from scipy.special import ndtr, ndtri

    low, high = float(ndtr((a - mean) / std)), float(ndtr((b - mean) / std))
    uniform = random.uniform(tensor.shape, low, high, dtype=tt.float64, generator=generator)
    values = np.clip(ndtri(uniform.numpy()) * std + mean, a, b)
    return _fill(tensor, values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    return _fill(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return _fill(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return _fill(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: expected 2 dimensions, got shape {tensor.shape}")
    return _fill(tensor, tt.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from U(-a, a) with a = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from N(0, std²) with std = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 12)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"init: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from U(-bound, bound) with bound = gain sqrt(3 / fan) (He et al. 2015, equation 10).

    Args:
        a: the negative slope of the leaky ReLU that follows; 0 for a ReLU.
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
        nonlinearity: as in `calculate_gain`.
    """
    if tensor.size == 0:
        return tensor
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill from N(0, std²) with std = gain / sqrt(fan); arguments as for `kaiming_uniform_`."""
    if tensor.size == 0:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with a random matrix whose shorter side is orthonormal, times `gain` (Saxe, McClelland and Ganguli 2014).

    It is Q of the QR decomposition of normal numbers, with signs that make every direction equally likely. A Tensor of
    more than 2 dimensions counts as (tensor.shape[0], the rest). Raises ValueError for fewer than 2 dimensions.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: expected 2 dimensions or more, got shape {tensor.shape}")
    if tensor.size == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    drawn = random.normal((rows, columns), dtype=tt.float64, generator=generator).numpy()
    q, r = np.linalg.qr(drawn if rows >= columns else drawn.T)
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return _fill(tensor, np.reshape(gain * (q if rows >= columns else q.T), tensor.shape))


if not TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
