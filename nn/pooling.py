"""Pooling as layers: the largest number of each window, or its mean."""

from __future__ import annotations

from typing import Any

from tinytensor import Tensor

from . import functional as F
from .functional.windows import sizes
from .module import Module


class MaxPool(Module):
    """The base of the pools of largest numbers: their options."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _options(self) -> tuple[Any, ...]:
        """The options in the order of the functions' arguments."""
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(MaxPool):
    """The largest of `kernel_size` neighbours, at every `stride`-th position (default: at every `kernel_size`-th).

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions). Arguments as for
    `F.max_pool1d`.
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._options())


class MaxPool2d(MaxPool):
    """The largest number of each window of an image (Ranzato et al. 2007).

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions). Arguments as for
    `F.max_pool2d`.
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._options())


class AvgPool1d(Module):
    """The mean of `kernel_size` neighbours, at every `stride`-th position (default: at every `kernel_size`-th).

    Args:
        padding: the number of zeros on either side.
        ceil_mode: whether a window that begins before the end may reach beyond it.
        count_include_pad: whether these zeros count in the mean.

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions).
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = sizes("AvgPool1d", "kernel_size", kernel_size, 1, 1)
        self.stride = self.kernel_size if stride is None else sizes("AvgPool1d", "stride", stride, 1, 1)
        self.padding = sizes("AvgPool1d", "padding", padding, 1, 0)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window of an image (LeCun et al. 1989).

    Args:
        padding: the number of zeros on each side.
        ceil_mode: whether a window that begins before the end may reach beyond it.
        count_include_pad: whether these zeros count in the mean.
        divisor_override: divide the sum by this instead of the size of the window.

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions).
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool1d(Module):
    """Means of `output_size` evenly spread stretches: (..., length) -> (..., output_size)."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(Module):
    """Means of evenly spread windows of an image, one per result: (..., height, width) -> (..., *output_size).

    Args:
        output_size: height and width, one number for both, or two; None keeps the size of a side.
    """

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"
