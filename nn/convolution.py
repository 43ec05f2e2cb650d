"""Convolution as a layer."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .functional.convolution import padding_around
from .functional.windows import sizes
from .module import Module
from .parameter import Parameter


class Convolution(Module):
    """The base of the convolutions: everything but the number of axes they slide along."""

    axes: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels < 1 or out_channels < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups must divide in_channels and out_channels, and all be positive; got groups {groups}, "
                f"in_channels {in_channels}, out_channels {out_channels}"
            )
        if padding_mode != "zeros":
            raise ValueError(
                f"{name}: padding_mode must be 'zeros', the only one here (F.pad has others); got {padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sizes(name, "kernel_size", kernel_size, self.axes, 1)
        self.stride = sizes(name, "stride", stride, self.axes, 1)
        self.dilation = sizes(name, "dilation", dilation, self.axes, 1)
        around = padding_around(name, padding, self.kernel_size, self.stride, self.dilation)
        self.padding = padding if isinstance(padding, str) else tuple(before for before, _ in around)
        self.groups = groups
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(tt.empty(shape, dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(tt.empty((out_channels,), dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight and the bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # U(-1 / sqrt(fan_in), 1 / sqrt(fan_in))
        if self.bias is not None:
            bound = 1 / math.sqrt(init.fans(self.weight)[0])
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.axes:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.axes:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias is not None else text + ", bias=False"


class Conv1d(Convolution):
    """Apply one linear map to the neighbourhood of every position of a sequence.

    With kernel_size 1 it is a Linear layer at every position, as section 3.3 of Vaswani et al. 2017 also describes the
    feed-forward network.

    Args:
        in_channels, out_channels: the numbers of channels of each position, before and after.
        kernel_size: the number of positions that each result is computed from.
        stride, padding, dilation, groups: as for `F.conv1d`.
        bias: whether to add a bias.
        padding_mode: "zeros"; for PyTorch's others, apply `F.pad` first.

    Shapes: input (batch, in_channels, length) or (in_channels, length), weight (out_channels, in_channels / groups,
    kernel_size), bias (out_channels,). Both start from U(-k, k) with k = 1 / sqrt(in_channels / groups * kernel_size).
    """

    axes = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(Convolution):
    """Apply one linear map to the neighbourhood of every point of an image (LeCun et al. 1989).

    Args:
        in_channels, out_channels: the numbers of channels of each point, before and after.
        kernel_size: height and width of the neighbourhood, one number for both or two.
        stride, padding, dilation, groups: as for `F.conv2d`.
        bias: whether to add a bias.
        padding_mode: "zeros"; for PyTorch's others, apply `F.pad` first.

    Shapes: input (batch, in_channels, height, width), or without the batch, weight (out_channels, in_channels / groups,
    *kernel_size), bias (out_channels,). Both start from U(-k, k) with k = 1 / sqrt(elements of one filter).
    """

    axes = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
