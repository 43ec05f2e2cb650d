"""Pooling as layers: of each window its largest number, or its mean."""

from __future__ import annotations

from typing import Any

from tinytensor import Tensor

from . import functional as F
from .functional.pooling import refuse
from .functional.windows import sizes
from .module import Module


class MaxPool(Module):
    """What the pools of largest numbers share: their options."""

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
        refuse(type(self).__name__, ceil_mode, return_indices)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            "ceil_mode=False"
        )


class MaxPool1d(MaxPool):
    """The largest of `kernel_size` neighbours, at every `stride`-th position (default: at every `kernel_size`-th).

    Shapes: (batch, channels, length), or without the batch -> (batch, channels, positions). Arguments as
    `F.max_pool1d`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation)


class MaxPool2d(MaxPool):
    """The largest number of each window of an image (Ranzato et al. 2007).

    Shapes: (batch, channels, height, width), or without the batch -> (batch, channels, *positions). Arguments as
    `F.max_pool2d`.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation)


class AvgPool1d(Module):
    """The mean of `kernel_size` neighbours, at every `stride`-th position (default: at every `kernel_size`-th).

    Args:
        padding: how many zeros stand on either side.
        count_include_pad: whether they count in the mean.

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
        refuse("AvgPool1d", ceil_mode)
        self.kernel_size = sizes("AvgPool1d", "kernel_size", kernel_size, 1, 1)
        self.stride = self.kernel_size if stride is None else sizes("AvgPool1d", "stride", stride, 1, 1)
        self.padding = sizes("AvgPool1d", "padding", padding, 1, 0)
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, count_include_pad=self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window of an image (LeCun et al. 1989).

    Args:
        padding: how many zeros stand on each side.
        count_include_pad: whether they count in the mean.
        divisor_override: what the sum is divided by in place of the size of the window.

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
        refuse("AvgPool2d", ceil_mode)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            count_include_pad=self.count_include_pad,
            divisor_override=self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool1d(Module):
    """Means of as many stretches as there are to be results: (..., length) -> (..., output_size)."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(Module):
    """Means of as many windows of an image as there are to be results: (..., height, width) -> (..., *output_size).

    Args:
        output_size: height and width, one number for both, or two; None leaves a side as it is.
    """

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"
