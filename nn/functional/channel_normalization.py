"""Normalisation of channels: over the batch, or over groups of them in each sample."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import fusible

from .normalization import layer_norm
from .precision import raised


@raised
def batch_norm(
    input: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel (Ioffe and Szegedy 2015, Algorithms 1 and 2).

    Args:
        input: (batch, channels, ...).
        running_mean, running_var: (channels,), the mean and variance for evaluation. Training takes those of the
            batch, over all axes except the channels, and moves the running ones towards them, in place, by `momentum`
            of the difference; the running variance moves towards the unbiased estimate, n / (n - 1) times the variance
            of the n numbers. None: do not keep them.
        weight, bias: (channels,), or None.

    Raises ValueError in training for one number per channel, and in evaluation without running statistics.
    """
    x = tt.asarray(input)
    if x.ndim < 2:
        raise ValueError(f"batch_norm: expected (batch, channels, ...), got {x.shape}")
    if x.dtype == tt.float16:  # whose squares end at 65504
        wide = batch_norm(x.float(), running_mean, running_var, weight, bias, training, momentum, eps)
        return tt.astype(wide, tt.float16)
    axes, each = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    if training:
        count = math.prod(x.shape[axis] for axis in axes)
        if count < 2:
            raise ValueError(f"batch_norm: in training it takes more than one number for each channel, got {x.shape}")
        out, mean, variance = _by_batch(x, axes, weight, bias, eps)
        for running, seen in ((running_mean, mean), (running_var, variance * (count / (count - 1)))):
            if running is not None:
                with tt.no_grad():
                    running.copy_((1 - momentum) * running + momentum * tt.reshape(seen, (-1,)))
        return out
    if running_mean is None or running_var is None:
        raise ValueError("batch_norm: without running_mean and running_var there is training=True only")
    return _standardized(x, tt.reshape(running_mean, each), tt.reshape(running_var, each), weight, bias, eps)


@fusible
def _by_batch(x: Tensor, axes: tuple[int, ...], weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The result in training, and the mean and the variance of the batch."""
    mean = tt.mean(x, axis=axes, keepdims=True)
    variance = tt.mean(tt.square(x - mean), axis=axes, keepdims=True)
    return _standardized(x, mean, variance, weight, bias, eps), mean.detach(), variance.detach()


@fusible
def _standardized(x: Tensor, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    return _scaled((x - mean) / tt.sqrt(variance + eps), weight, bias)


@raised
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Layer normalisation of each of `num_groups` groups of channels, in each sample (Wu and He 2018).

    Shapes: input (batch, channels, ...), weight and bias (channels,), or None.
    Raises ValueError unless `num_groups` divides the channels.
    """
    x = tt.asarray(input)
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ValueError(
            f"group_norm: expected (batch, channels, ...), and num_groups to divide the channels; got {x.shape} and "
            f"{num_groups}"
        )
    size = math.prod(x.shape[1:]) // num_groups
    out = layer_norm(tt.reshape(x, (len(x), num_groups, size)), (size,), eps=eps)
    return _scaled(tt.reshape(out, x.shape), weight, bias)


@fusible
def _scaled(x: Tensor, weight: Any, bias: Any) -> Tensor:
    """x * weight + bias, with one weight and one bias per channel."""
    each = (-1, *[1] * (x.ndim - 2))
    if weight is not None:
        x = x * tt.reshape(weight, each)
    return x if bias is None else x + tt.reshape(bias, each)
