"""Pooling: of each window its largest number, or its mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import ArrayLike

from .precision import raised
from .windows import AXES, count_positions, pad, sizes, windows, zeros_around


@tt.op
def _max_pool(x, *, kernel, stride, dilation, around):
    """The largest number of each window over the last axes; what is put around x never is.

    ∂L/∂x = g where x is the largest of a window, shared evenly among equal ones, added up where windows overlap
    """
    if any(map(any, around)):
        x = pad(x, [n for pair in reversed(around) for n in pair], value=-math.inf)
    return tt.max(windows(x, kernel, stride, dilation), axis=-1 - len(kernel))


def max_pool1d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The largest of `kernel_size` neighbours, at every `stride`-th position.

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions).

    Args:
        stride: how many positions it goes on; default: kernel_size.
        padding: how many positions that never are the largest stand on either side, at most half of kernel_size.
        dilation: how far apart the neighbours are.
        ceil_mode, return_indices: False.

    Equal largest numbers share the gradient evenly (in PyTorch the first of them has it all).
    Raises ValueError where sizes do not fit.
    """
    refuse("max_pool1d", ceil_mode, return_indices)
    return _largest("max_pool1d", 1, input, kernel_size, stride, padding, dilation)


def max_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The largest number of each window of an image (Ranzato et al. 2007).

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions).

    Args:
        kernel_size, stride, padding, dilation: as for `max_pool1d`, one number, or two for height and width.
        ceil_mode, return_indices: False.
    """
    refuse("max_pool2d", ceil_mode, return_indices)
    return _largest("max_pool2d", 2, input, kernel_size, stride, padding, dilation)


def refuse(name: str, ceil_mode: bool, return_indices: bool = False) -> None:
    """Raise ValueError for what pools leave out, and say how it is done."""
    if ceil_mode:
        raise ValueError(f"{name}: ceil_mode is left out; put F.pad in front, so that the last window is a whole one")
    if return_indices:
        raise ValueError(f"{name}: return_indices is left out; tt.argmax of what F.unfold gives are the places")


def _largest(
    name: str, axes: int, input: ArrayLike, kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> Tensor:
    x = tt.asarray(input)
    apart = sizes(name, "dilation", dilation, axes, 1)
    kernel, steps, around = _window(name, axes, x, kernel_size, stride, padding, apart)
    return _max_pool(x, kernel=kernel, stride=steps, dilation=apart, around=around)


@raised
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
        stride: how many positions it goes on; default: kernel_size.
        padding: how many zeros stand on either side, at most half of kernel_size.
        ceil_mode: False.
        count_include_pad: whether these zeros count in the mean.
    """
    refuse("avg_pool1d", ceil_mode)
    return _mean("avg_pool1d", 1, input, kernel_size, stride, padding, count_include_pad, None)


@raised
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
        kernel_size, stride, padding: as for `avg_pool1d`, one number, or two for height and width.
        ceil_mode: False.
        count_include_pad: whether the zeros around count in the mean.
        divisor_override: what the sum is divided by in place of the size of the window.
    """
    refuse("avg_pool2d", ceil_mode)
    return _mean("avg_pool2d", 2, input, kernel_size, stride, padding, count_include_pad, divisor_override)


def _mean(
    name: str,
    axes: int,
    input: ArrayLike,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    x = tt.asarray(input)
    near = (1,) * axes
    kernel, steps, around = _window(name, axes, x, kernel_size, stride, padding, near)

    def sums(x: Tensor) -> Tensor:
        return tt.sum(windows(zeros_around(x, around), kernel, steps, near), axis=-1 - axes)

    if divisor_override is not None:
        return sums(x) / divisor_override
    if count_include_pad:
        return sums(x) / math.prod(kernel)
    return sums(x) / sums(tt.ones(x.shape[-axes:], dtype=x.dtype, device=x.device))


def _window(
    name: str, axes: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Kernel, stride and padding of a pool, checked: a number each for every axis, of padding two."""
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
    count_positions(name, x.shape[-axes:], kernel, steps, dilation, around)
    return kernel, steps, around


# ---- to a size that is given


@raised
def adaptive_avg_pool1d(input: ArrayLike, output_size: Any) -> Tensor:
    """Means of as many stretches as there are to be results, evenly spread: (..., length) -> (..., output_size)."""
    x = tt.asarray(input)
    return _averaged(x, sizes("adaptive_avg_pool1d", "output_size", output_size, 1, 1)[0])


@raised
def adaptive_avg_pool2d(input: ArrayLike, output_size: Any) -> Tensor:
    """Means of as many windows as there are to be results, evenly spread over an image.

    Result i along an axis of n is the mean from floor(i n / size) up to ceil((i + 1) n / size).

    Args:
        input: (..., height, width).
        output_size: height and width of the result, one number for both, or two; None leaves a side as it is.
    """
    x = tt.asarray(input)
    if x.ndim < 2:
        raise ValueError(f"adaptive_avg_pool2d: expected (..., height, width), got {x.shape}")
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    wanted = [n if size is None else size for size, n in zip(given, x.shape[-2:])]
    height, width = sizes("adaptive_avg_pool2d", "output_size", [*wanted, *given[2:]], 2, 1)
    return tt.matrix_transpose(_averaged(tt.matrix_transpose(_averaged(x, width)), height))


def _averaged(x: Tensor, size: int) -> Tensor:
    """Means along the last axis, as a product with a matrix of shares."""
    length = x.shape[-1]
    if size == length:
        return x
    if size == 1:
        return tt.mean(x, axis=-1, keepdims=True)
    shares = np.zeros((length, size))
    for i in range(size):
        first, last = i * length // size, -(-(i + 1) * length // size)
        shares[first:last, i] = 1 / (last - first)
    return tt.matmul(x, tt.asarray(shares, dtype=x.dtype, device=x.device))
