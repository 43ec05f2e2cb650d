"""Normalisation of channels as layers."""

from __future__ import annotations

from typing import ClassVar

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


class BatchNorm(Module):
    """The base of the normalisations over a batch; subclasses add the shapes of their inputs."""

    inputs: ClassVar[dict[int, str]]
    """The shapes of inputs, by their number of axes."""

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: DType = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def empty() -> Tensor:
            return tt.empty((num_features,), dtype=dtype, device=device)

        for name, present in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(empty()) if present else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, empty() if track_running_stats else None)
        count = tt.zeros((), dtype=tt.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget all batches seen so far: mean 0 and variance 1."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.copy_(0)

    def reset_parameters(self) -> None:
        """Forget all batches seen so far, and set the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.inputs or input.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: expected {' or '.join(self.inputs.values())} with {self.num_features} "
                f"channels, got {input.shape}"
            )
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.copy_(self.num_batches_tracked + 1)
            if self.momentum is None:  # the mean over all batches so far
                momentum = 1 / int(self.num_batches_tracked.item())
        by_batch = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, by_batch, momentum, self.eps
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(BatchNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of a batch (Ioffe and Szegedy 2015).

    Training uses the mean and variance of the batch, and running ones follow them; evaluation uses the running ones.

    Args:
        num_features: the number of channels.
        eps: keeps the root away from zero.
        momentum: how far the running statistics move to a batch's, from 0 to 1; None: the mean over all batches.
        affine: whether to learn a weight and a bias, from ones and zeros; `bias`: whether to learn the bias.
        track_running_stats: whether to keep running statistics; if not, evaluation computes as training does.

    Shapes: input (batch, channels) or (batch, channels, length), the output the same. The `state_dict` has
    running_mean, running_var and num_batches_tracked as well.
    """

    inputs: ClassVar[dict[int, str]] = {2: "(batch, channels)", 3: "(batch, channels, length)"}


class BatchNorm2d(BatchNorm):
    """`BatchNorm1d` of images: statistics of each channel over batch, height and width.

    Shapes: input (batch, channels, height, width), the output the same. Arguments as for `BatchNorm1d`.
    """

    inputs: ClassVar[dict[int, str]] = {4: "(batch, channels, height, width)"}


class GroupNorm(Module):
    """Layer normalisation of groups of channels in each sample, independent of other samples (Wu and He 2018).

    Args:
        num_groups: the number of groups of channels: 1 for all together, num_channels for each alone.
        num_channels: the number of channels.
        eps: keeps the root away from zero.
        affine: whether to learn a weight and a bias for each channel; `bias`: whether to learn the bias.

    Shapes: input (batch, channels, ...), the output the same.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: DType = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_groups must divide num_channels, got {num_groups} and {num_channels}")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, present in (("weight", affine), ("bias", affine and bias)):
            values = tt.empty((num_channels,), dtype=dtype, device=device)
            self.register_parameter(name, Parameter(values) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
