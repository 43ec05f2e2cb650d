"""Convolution over sequences and images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .checks import beside
from .precision import lowered
from .windows import AXES, count_positions, sizes, windows, zeros_around


@tt.op
def _convolution(x, weight, bias, *, stride, dilation, around, groups):
    """W C + b; each column of C is what the window holds at a position.

    ∂L/∂x = Wᵀ g, added up where windows overlap
    ∂L/∂weight = g Cᵀ
    ∂L/∂bias = Σ g, over batch and positions
    """
    held = windows(zeros_around(x, around), weight.shape[2:], stride, dilation)
    batch, count, out_channels = len(x), held.shape[3:], len(weight)
    columns = tt.reshape(held, (batch, groups, held.shape[1] // groups * held.shape[2], -1 if held.size else 0))
    rows = tt.reshape(weight, (groups, out_channels // groups, columns.shape[2]))
    y = tt.reshape(tt.matmul(rows, columns), (batch, out_channels, *count))
    return y if bias is None else y + tt.reshape(bias, (-1, *[1] * len(count)))


@lowered
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """y[o, t] = b[o] + the sum over c and j of W[o, c, j] x[c, t stride + j dilation]: one W for all positions t.

    Args:
        input: (batch, in_channels, length), or without the batch. Channels come before positions, as in PyTorch.
        weight: (out_channels, in_channels / groups, kernel_size).
        bias: (out_channels,) or None.
        stride: the step from one result to the next, in positions.
        padding: the number of zeros on either side; "valid" for none, "same" to keep the length.
        dilation: the distance between neighbouring positions of a window.
        groups: the number of groups of channels, each with its own weights and results.

    Returns (batch, out_channels, length of the result), the length being
    (length + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.
    Raises ValueError if shapes or sizes do not fit, TypeError for integers.
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@lowered
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """y[o, s, t] = b[o] + the sum over c, i, j of W[o, c, i, j] x[c, s + i, t + j] (LeCun et al. 1989).

    Args:
        input: (batch, in_channels, height, width), or without the batch.
        weight: (out_channels, in_channels / groups, height and width of the kernel).
        bias: (out_channels,) or None.
        stride, padding, dilation: as for `conv1d`, one number, or two for height and width.
        groups: the number of groups of channels; `in_channels` for one filter per channel.

    Returns (batch, out_channels, height and width of the result).
    Raises ValueError if shapes or sizes do not fit, TypeError for integers.
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def _convolve(
    name: str, axes: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    x = beside(input, weight)
    steps, apart = sizes(name, "stride", stride, axes, 1), sizes(name, "dilation", dilation, axes, 1)
    _check(name, axes, x, weight, bias, groups)
    kernel = weight.shape[2:]
    around = padding_around(name, padding, kernel, steps, apart)
    count_positions(name, x.shape[-axes:], kernel, steps, apart, around)
    options = {"stride": steps, "dilation": apart, "around": around, "groups": groups}
    if x.ndim == axes + 2:
        return _convolution(x, weight, bias, **options)
    return tt.squeeze(_convolution(tt.expand_dims(x, axis=0), weight, bias, **options), 0)


def padding_around(
    name: str, padding: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The numbers of zeros before and after the input, along each axis that the kernel slides along."""
    if not isinstance(padding, str):
        return tuple((n, n) for n in sizes(name, "padding", padding, len(kernel), 0))
    if padding not in ("same", "valid"):
        raise ValueError(f"{name}: padding must be 'same', 'valid' or an integer, got {padding!r}")
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if any(step != 1 for step in stride):
        raise ValueError(f"{name}: padding='same' needs stride 1, got {stride[0] if len(stride) == 1 else stride}")
    reaches = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return tuple((reach // 2, reach - reach // 2) for reach in reaches)


def _check(name: str, axes: int, x: Tensor, weight: Any, bias: Any, groups: int) -> None:
    """Raise TypeError or ValueError unless input, weight and bias fit together."""
    if x.dtype.kind not in "fc":
        raise TypeError(f"{name}: expected floats, got {x.dtype} of shape {x.shape}; write x.float()")
    if x.ndim not in (axes + 1, axes + 2) or weight.ndim != axes + 2 or 0 in weight.shape:
        kernel = "kernel_size" if axes == 1 else "*kernel_size"
        raise ValueError(
            f"{name}: expected an input (batch, in_channels, {', '.join(AXES[axes])}), or without the batch, and a "
            f"weight (out_channels, in_channels / groups, {kernel}), none of them 0; "
            f"got {x.shape} and {tuple(weight.shape)}"
        )
    channels = x.shape[-1 - axes]
    (parts,) = sizes(name, "groups", groups, 1, 1)
    if parts * weight.shape[1] != channels or weight.shape[0] % parts:
        raise ValueError(
            f"{name}: input {x.shape} has {channels} channels, weight {tuple(weight.shape)} is for "
            f"{parts * weight.shape[1]} of them in {parts} groups, which divide its {weight.shape[0]} out_channels"
        )
    if bias is not None and tuple(bias.shape) != weight.shape[:1]:
        raise ValueError(f"{name}: bias {tuple(bias.shape)} must be ({weight.shape[0]},), as weight {weight.shape}")
