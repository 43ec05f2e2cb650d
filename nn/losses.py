"""Losses as modules: each holds the options of its function in `nn.functional`.

`reduction` is "mean", "sum" or "none" everywhere.
"""

from __future__ import annotations

from typing import Any, Never

from tinytensor import Tensor

from . import functional as F
from .module import Module


class Loss(Module):
    """The base of the losses: it checks `reduction`."""

    REDUCTIONS: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, reduction: str, called: tuple[Any, ...] = ()) -> None:
        super().__init__()
        if called:
            name = type(self).__name__
            raise TypeError(f"{name} is a module: make one, then call it: {name}()(input, target)")
        if reduction not in self.REDUCTIONS:
            raise ValueError(f"{type(self).__name__}: reduction must be one of {self.REDUCTIONS}, got {reduction!r}")
        self.reduction = reduction


class CrossEntropyLoss(Loss):
    """Minus the log-probability of the target class, from logits.

    Args:
        weight: the weight of each class, (classes).
        ignore_index: a target that does not count; if all targets are ignored, the mean is 0.
        label_smoothing: the share of the target's probability to spread evenly over all classes (Szegedy et al. 2016).

    Shapes: input (batch, classes, ...) or (classes), target the same without classes (ids), or the input's shape
    (probabilities).
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        *called: Never,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction, called)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(Loss):
    """Minus the input, log-probabilities, at the target class.

    Args:
        weight: the weight of each class, (classes).
        ignore_index: a target that does not count.

    Shapes: input (batch, classes, ...) or (classes), target the same without classes.
    """

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, *called: Never, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction, called)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(Loss):
    """(input - target)²."""

    def __init__(self, *called: Never, reduction: str = "mean") -> None:
        super().__init__(reduction, called)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """|input - target|."""

    def __init__(self, *called: Never, reduction: str = "mean") -> None:
        super().__init__(reduction, called)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """|d| - beta / 2 for a difference d, but d² / (2 beta) where |d| is below beta (Girshick 2015)."""

    def __init__(self, *called: Never, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction, called)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """d² / 2 for a difference d, but delta (|d| - delta / 2) where |d| is delta and more (Huber 1964)."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(Loss):
    """target (log target - input), where the input holds log-probabilities (Kullback and Leibler 1951).

    Args:
        reduction: "batchmean" for the mean over the batch, the divergence as defined; "mean" is the mean over all
            elements.
        log_target: whether the target holds log-probabilities as well.
    """

    REDUCTIONS = (*Loss.REDUCTIONS, "batchmean")

    def __init__(self, *called: Never, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, called)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CosineEmbeddingLoss(Loss):
    """1 - cos of two vectors that belong together (target 1), max(0, cos - margin) of others (target -1).

    Shapes: inputs (batch, features), target (batch,); or without the batch.
    """

    def __init__(self, margin: float = 0.0, *called: Never, reduction: str = "mean") -> None:
        super().__init__(reduction, called)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class BCELoss(Loss):
    """-(target log input + (1 - target) log(1 - input)), of probabilities; for logits BCEWithLogitsLoss is exact.

    Args:
        weight: the weight of each element, broadcast.

    Shapes: input and target the same.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, *called: Never, reduction: str = "mean") -> None:
        super().__init__(reduction, called)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """-(target log σ(input) + (1 - target) log(1 - σ(input))), stable for large logits.

    Args:
        weight: the weight of each element, broadcast.
        pos_weight: the weight of the positive part, broadcast: above 1 finds more positives, below 1 surer ones.

    Shapes: input and target the same.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        *called: Never,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(reduction, called)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
