"""Convolution over sequences."""

from __future__ import annotations

import operator
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .checks import beside
from .precision import lowered


@lowered
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """y[o, t] = b[o] + the sum over c and j of W[o, c, j] x[c, t stride + j dilation]: one W for all positions t.

    Args:
        input: (batch, in_channels, length), or without the batch. Channels come before positions, as in PyTorch.
        weight: (out_channels, in_channels / groups, kernel_size).
        bias: (out_channels,) or None.
        stride: how many positions it goes on for each result.
        padding: how many zeros stand on either side; "valid" for none, "same" for as many as keep the length.
        dilation: how far apart the positions are that one result is computed from.
        groups: into how many parts the channels are divided, each with weights and results of its own.

    Returns (batch, out_channels, length of the result), the length being
    (length + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.
    Raises ValueError where shapes or sizes do not fit, TypeError for integers.
    """
    x = beside(input, weight)
    stride, dilation = single("conv1d", "stride", stride, 1), single("conv1d", "dilation", dilation, 1)
    _check(x, weight, bias, groups)
    out_channels, kernel_size = weight.shape[0], weight.shape[-1]
    reach = dilation * (kernel_size - 1)
    left, right = zeros_around("conv1d", padding, stride, reach)
    length = (x.shape[-1] + left + right - reach - 1) // stride + 1
    if length < 1:
        raise ValueError(
            f"conv1d: {kernel_size} positions, {dilation} apart, do not fit into an input of length {x.shape[-1]} with "
            f"{left} + {right} zeros of padding"
        )
    if left or right:
        before, after = (tt.zeros((*x.shape[:-1], n), dtype=x.dtype, device=x.device) for n in (left, right))
        x = tt.concat([before, x, after], axis=-1)
    # For each j, what W[:, :, j] meets at all positions t.
    windows = [x[..., j * dilation : j * dilation + (length - 1) * stride + 1 : stride] for j in range(kernel_size)]
    columns = tt.reshape(tt.stack(windows, axis=-2), (*x.shape[:-2], groups, weight.shape[1] * kernel_size, length))
    rows = tt.reshape(weight, (groups, out_channels // groups, weight.shape[1] * kernel_size))
    y = tt.reshape(tt.matmul(rows, columns), (*x.shape[:-2], out_channels, length))
    return y if bias is None else y + tt.expand_dims(beside(bias, y), axis=1)


def single(name: str, what: str, value: Any, least: int) -> int:
    """The number that a size is given as, alone or as the only one of a sequence."""
    number = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{name}: {what} must be an integer, or a sequence of one, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name}: {what} must be at least {least}, got {number}")
    return number


def zeros_around(name: str, padding: Any, stride: int, reach: int) -> tuple[int, int]:
    """How many zeros stand before and after the input, for windows from one position to `reach` behind it."""
    if not isinstance(padding, str):
        return (single(name, "padding", padding, 0),) * 2
    if padding not in ("same", "valid"):
        raise ValueError(f"{name}: padding must be 'same', 'valid' or an integer, got {padding!r}")
    if padding == "valid":
        return 0, 0
    if stride != 1:
        raise ValueError(f"{name}: padding='same' needs stride 1, got {stride}")
    return reach // 2, reach - reach // 2


def _check(x: Tensor, weight: Any, bias: Any, groups: int) -> None:
    """Raise TypeError or ValueError unless input, weight and bias fit together."""
    if x.dtype.kind not in "fc":
        raise TypeError(f"conv1d: expected floats, got {x.dtype} of shape {x.shape}; write x.float()")
    if x.ndim not in (2, 3) or weight.ndim != 3 or 0 in weight.shape:
        raise ValueError(
            "conv1d: expected an input (batch, in_channels, length), or without the batch, and a weight "
            "(out_channels, in_channels / groups, kernel_size), none of them 0; "
            f"got {x.shape} and {tuple(weight.shape)}"
        )
    if single("conv1d", "groups", groups, 1) * weight.shape[1] != x.shape[-2] or weight.shape[0] % groups:
        raise ValueError(
            f"conv1d: input {x.shape} has {x.shape[-2]} channels, weight {tuple(weight.shape)} is for "
            f"{groups * weight.shape[1]} of them in {groups} groups, which divide its {weight.shape[0]} out_channels"
        )
    if bias is not None and tuple(bias.shape) != weight.shape[:1]:
        raise ValueError(f"conv1d: bias {tuple(bias.shape)} must be ({weight.shape[0]},), as weight {weight.shape}")
