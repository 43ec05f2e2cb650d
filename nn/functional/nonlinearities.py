"""Further activation functions, element by element: relatives of ReLU, the sigmoid and tanh, and gated ones.

At a kink the gradient is that of the flat side, as for ReLU.
"""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import fusible
from tinytensor.typing import ArrayLike, DType, Operand

from .activations import softmax
from .checks import beside, check_dim
from .precision import raised

# ---- a gate that the input itself opens: x times a number from 0 to 1


@tt.op
def _silu(x):
    """x σ(x).

    ∂L/∂x = g ⊙ (σ(x) + x ⊙ σ(x) ⊙ (1 − σ(x)))
    """
    return x * tt.sigmoid(x)


@raised
def silu(input: ArrayLike) -> Tensor:
    """x σ(x), also called Swish (Hendrycks and Gimpel 2016; Ramachandran, Zoph and Le 2017)."""
    x = tt.asarray(input)
    return _silu(x) if x.dtype.kind == "f" else x * tt.sigmoid(x)  # casts integers and refuses complex numbers


@raised
@fusible
def mish(input: ArrayLike) -> Tensor:
    """x tanh(softplus(x)) (Misra 2019)."""
    x = tt.asarray(input)
    return x * tt.tanh(tt.softplus(x))


@fusible
def hardsigmoid(input: ArrayLike) -> Tensor:
    """relu6(x + 3) / 6: a sigmoid of three straight lines (Howard et al. 2019)."""
    return relu6(tt.asarray(input) + 3) / 6


@fusible
def hardswish(input: ArrayLike) -> Tensor:
    """x relu6(x + 3) / 6: SiLU with such a sigmoid (Howard et al. 2019, section 5.2)."""
    x = tt.asarray(input)
    return x * hardsigmoid(x)


@raised
def glu(input: ArrayLike, dim: int = -1) -> Tensor:
    """a σ(b), where a and b are the halves of the input along `dim` (Dauphin et al. 2017, equation 1).

    Raises ValueError for an odd length, IndexError for a `dim` that the input does not have.
    """
    x = tt.asarray(input)
    axis = check_dim("glu", x, dim)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: dimension {dim} of an input of shape {x.shape} must be even, to be halved")
    a, b = tt.split(x, 2, axis=axis)
    return a * tt.sigmoid(b)


# ---- ReLU with another negative side


@raised
@fusible
def elu(input: ArrayLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x) - 1) (Clevert, Unterthiner and Hochreiter 2016, equation 15)."""
    x = tt.asarray(input)
    negative = tt.where(x > 0, 0.0, x)  # so that exp does not overflow where it is not needed
    return tt.where(x > 0, x, alpha * tt.expm1(negative))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@fusible
def selu(input: ArrayLike) -> Tensor:
    """λ elu(x, α), with λ and α such that mean 0 and variance 1 stay from layer to layer (Klambauer et al. 2017)."""
    return SELU_SCALE * elu(input, SELU_ALPHA)


@raised
@fusible
def celu(input: ArrayLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x / alpha) - 1): an ELU whose slope has no jump (Barron 2017).

    Raises ValueError unless alpha is above 0.
    """
    if not alpha > 0:
        raise ValueError(f"celu: alpha must be above 0, got {alpha}")
    return alpha * elu(tt.asarray(input) / alpha)


@fusible
def leaky_relu(input: ArrayLike, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope x (Maas, Hannun and Ng 2013)."""
    x = tt.asarray(input)
    return tt.where(x > 0, x, negative_slope * x)


def prelu(input: ArrayLike, weight: Operand) -> Tensor:
    """x where x > 0, else w x, with a learnt slope w (He et al. 2015, equation 1).

    Args:
        input: (batch, channels, ...), (channels,) or (), which takes only one slope.
        weight: (channels,), or (1,) for all.

    Raises ValueError if they do not fit.
    """
    x = tt.asarray(input)
    w: Any = beside(weight, x)
    channels = x.shape[1] if x.ndim > 1 else x.size
    if w.ndim > 1 or w.size not in (1, channels):
        raise ValueError(f"prelu: input {x.shape} has {channels} channels; weight {w.shape} must have as many, or 1")
    if w.size > 1 and x.ndim > 1:
        w = tt.reshape(w, (-1, *[1] * (x.ndim - 2)))
    return tt.where(x > 0, x, (tt.reshape(w, ()) if w.size == 1 else w) * x)


# ---- ReLU with an upper limit, and steps


@fusible
def hardtanh(input: ArrayLike, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]: a tanh of three straight lines."""
    x = tt.asarray(input)
    return tt.where(x <= min_val, min_val, tt.where(x >= max_val, max_val, x))


def relu6(input: ArrayLike) -> Tensor:
    """min(max(x, 0), 6) (Krizhevsky 2010)."""
    return hardtanh(input, 0.0, 6.0)


@fusible
def threshold(input: ArrayLike, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else `value`."""
    x = tt.asarray(input)
    return tt.where(x <= threshold, value, x)


# ---- smooth relatives of ReLU and of the sigmoid


@raised
@fusible
def softplus(input: ArrayLike, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, a smooth ReLU (Dugas et al. 2001); x itself where beta x > threshold."""
    x = tt.asarray(input)
    return tt.where(x * beta > threshold, x, tt.softplus(x * beta) / beta)


@raised
@fusible
def logsigmoid(input: ArrayLike) -> Tensor:
    """log σ(x) = -log(1 + exp(-x)), also where σ(x) would be 0."""
    return -tt.softplus(-tt.asarray(input))


@fusible
def softsign(input: ArrayLike) -> Tensor:
    """x / (1 + |x|) (Turian, Bergstra and Bengio 2009)."""
    x = tt.asarray(input)
    return x / (1 + tt.abs(x))


def softmin(input: ArrayLike, dim: int = -1, *, dtype: DType = None) -> Tensor:
    """softmax(-x) along `dim`: the smallest number gets the most. `dtype`: cast x to it first."""
    x = tt.asarray(input if dtype is None else tt.astype(input, dtype))
    return softmax(-x, dim=check_dim("softmin", x, dim))


# ---- shrinking small numbers


@fusible
def tanhshrink(input: ArrayLike) -> Tensor:
    """x - tanh(x)."""
    x = tt.asarray(input)
    return x - tt.tanh(x)


@fusible
def hardshrink(input: ArrayLike, lambd: float = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x."""
    x = tt.asarray(input)
    return tt.where(tt.abs(x) <= lambd, 0.0, x)


@fusible
def softshrink(input: ArrayLike, lambd: float = 0.5) -> Tensor:
    """x - min(max(x, -lambd), lambd): moves x towards 0 by lambd, and to 0 if it is within lambd of it.

    Raises ValueError for a lambd below 0.
    """
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must be at least 0, got {lambd}")
    x = tt.asarray(input)
    return x - tt.clip(x, -lambd, lambd)
