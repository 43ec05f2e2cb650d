"""Pooling: the largest number of each window, or its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import ArrayLike

from .precision import summed
from .windows import AXES, count_positions, pad, sizes, windows, zeros_around


@tt.op
def _max_pool(x, *, kernel, stride, dilation, around):
    """the largest number of each window; windows lie on the last axes, and what is put around x is never the largest.

    ∂L/∂x = g where x is the largest of a window, shared evenly among equal ones, added up where windows overlap
    """
    return tt.max(windows(_lowest_around(x, around), kernel, stride, dilation), axis=-1 - len(kernel))


def _lowest_around(x: Tensor, around: Sequence[tuple[int, int]]) -> Tensor:
    """x with `around` (before, after) -inf along each of its last axes."""
    if not any(map(any, around)):
        return x
    return pad(x, [n for pair in reversed(around) for n in pair], value=-math.inf)


def max_pool1d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of `kernel_size` neighbours, at every `stride`-th position.

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions).

    Args:
        stride: the step from window to window, in positions; default: kernel_size.
        padding: the number of positions to add on either side, never the largest; at most half of kernel_size.
        dilation: the distance between neighbours.
        ceil_mode: whether a window that begins before the end may reach beyond it, so that no number is left out.
        return_indices: whether to return a pair, the numbers and their positions (the first of equal ones, int64).

    Equal largest numbers share the gradient evenly (in PyTorch the first of them gets it all).
    Raises ValueError if sizes do not fit.
    """
    return _largest("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest number of each window of an image (Ranzato et al. 2007).

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions).

    Args:
        kernel_size, stride, padding, dilation: as for `max_pool1d`, one number, or two for height and width.
        ceil_mode: as for `max_pool1d`.
        return_indices: the same; the position in an image is row * width + column.
    """
    return _largest("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _largest(
    name: str,
    axes: int,
    input: ArrayLike,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x = tt.asarray(input)
    apart = sizes(name, "dilation", dilation, axes, 1)
    kernel, steps, around = _window(name, axes, x, kernel_size, stride, padding, apart, ceil_mode)
    out = _max_pool(x, kernel=kernel, stride=steps, dilation=apart, around=around)
    return (out, _places(x.detach(), kernel, steps, apart, around)) if return_indices else out


def _places(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], around: Sequence[tuple[int, int]]
) -> Tensor:
    """The position of the largest number of each window, counted along the last axes: row * width + column."""
    held = windows(_lowest_around(x, around), kernel, stride, dilation)
    element = tt.argmax(held, axis=-1 - len(kernel))
    place = tt.zeros_like(element)
    for axis in range(-len(kernel), 0):
        within = element // math.prod(kernel[axis:][1:]) % kernel[axis]
        first = tt.arange(element.shape[axis], device=x.device) * stride[axis] - around[axis][0]
        first = tt.reshape(first, (-1, *[1] * (-1 - axis)))
        place = place * x.shape[axis] + first + within * dilation[axis]
    return place


@summed
def avg_pool1d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of `kernel_size` neighbours, at every `stride`-th position.

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions).

    Args:
        stride: the step from window to window, in positions; default: kernel_size.
        padding: the number of zeros on either side, at most half of kernel_size.
        ceil_mode: whether a window that begins before the end may reach beyond it; missing positions do not count.
        count_include_pad: whether the zeros on either side count in the mean.
    """
    return _mean("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@summed
def avg_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of an image (LeCun et al. 1989).

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions).

    Args:
        kernel_size, stride, padding, ceil_mode: as for `avg_pool1d`, one number, or two for height and width.
        count_include_pad: whether the zeros around count in the mean.
        divisor_override: divide the sum by this instead of the size of the window.
    """
    return _mean("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _mean(
    name: str,
    axes: int,
    input: ArrayLike,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    x = tt.asarray(input)
    near = (1,) * axes
    kernel, steps, around = _window(name, axes, x, kernel_size, stride, padding, near, ceil_mode)

    def sums(x: Tensor, around: Sequence[tuple[int, int]]) -> Tensor:
        return tt.sum(windows(zeros_around(x, around), kernel, steps, near), axis=-1 - axes)

    if divisor_override is not None:
        return sums(x, around) / divisor_override
    count = [before if count_include_pad else 0 for before, _ in around]  # zeros on either side that count
    beyond = tuple((before - n, after - n) for n, (before, after) in zip(count, around))
    if not any(map(any, beyond)):
        return sums(x, around) / math.prod(kernel)
    lengths = tuple(length + 2 * n for length, n in zip(x.shape[-axes:], count))
    return sums(x, around) / sums(tt.ones(lengths, dtype=x.dtype, device=x.device), beyond)


def _window(
    name: str,
    axes: int,
    x: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Check and return kernel, stride and padding of a pool: one number per axis each, two of padding."""
    if x.ndim not in (axes + 1, axes + 2) or x.dtype.kind != "f":
        raise ValueError(
            f"{name}: expected floats of shape (batch, channels, {', '.join(AXES[axes])}), or without the batch, got "
            f"{x.dtype} of shape {x.shape}"
        )
    kernel = sizes(name, "kernel_size", kernel_size, axes, 1)
    steps = kernel if stride is None else sizes(name, "stride", stride, axes, 1)
    widths = sizes(name, "padding", padding, axes, 0)
    if any(2 * n > k for n, k in zip(widths, kernel)):
        raise ValueError(f"{name}: padding must be at most half of kernel_size, got {widths} and {kernel}")
    around = tuple((n, n) for n in widths)
    if ceil_mode:
        around = tuple(
            (n, n + _beyond(length + 2 * n, k, s, d, length + n))
            for n, length, k, s, d in zip(widths, x.shape[-axes:], kernel, steps, dilation)
        )
    count_positions(name, x.shape[-axes:], kernel, steps, dilation, around)
    return kernel, steps, around


def _beyond(length: int, kernel: int, stride: int, dilation: int, end: int) -> int:
    """How far one more window would reach beyond this length if it begins before `end`; else 0."""
    whole, left = divmod(length - dilation * (kernel - 1) - 1, stride)
    return stride - left if left and (whole + 1) * stride < end else 0


# ---- to a given size


@summed
def adaptive_avg_pool1d(input: ArrayLike, output_size: Any) -> Tensor:
    """Means of `output_size` evenly spread stretches: (..., length) -> (..., output_size)."""
    x = tt.asarray(input)
    return _averaged(x, sizes("adaptive_avg_pool1d", "output_size", output_size, 1, 1)[0])


@summed
def adaptive_avg_pool2d(input: ArrayLike, output_size: Any) -> Tensor:
    """Means of evenly spread windows of an image, one window per result.

    Result i along an axis of n is the mean from floor(i n / size) up to ceil((i + 1) n / size).

    Args:
        input: (..., height, width).
        output_size: height and width of the result, one number for both, or two; None keeps the size of a side.
    """
    x = tt.asarray(input)
    if x.ndim < 2:
        raise ValueError(f"adaptive_avg_pool2d: expected (..., height, width), got {x.shape}")
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    wanted = [n if size is None else size for size, n in zip(given, x.shape[-2:])]
    height, width = sizes("adaptive_avg_pool2d", "output_size", [*wanted, *given[2:]], 2, 1)
    return tt.matrix_transpose(_averaged(tt.matrix_transpose(_averaged(x, width)), height))


def _averaged(x: Tensor, size: int) -> Tensor:
    """Means along the last axis, one for each window; NaN and infinity stay in the windows that hold them."""
    length = x.shape[-1]
    if size == length:
        return x
    if size == 1:
        return tt.mean(x, axis=-1, keepdims=True)
    first = np.arange(size) * length // size
    count = -(-(np.arange(size) + 1) * length // size) - first
    places = first[:, None] + np.arange(count.max())  # (size, widest)
    windows = x[..., tt.asarray(np.minimum(places, length - 1), device=x.device)]
    inside = tt.asarray(places < (first + count)[:, None], device=x.device)
    return tt.sum(tt.where(inside, windows, 0.0), axis=-1) / tt.asarray(count, dtype=x.dtype, device=x.device)
