"""Losses as modules: each holds the options of the function in `nn.functional` that computes it.

`reduction` is "mean", "sum" or "none" everywhere.
"""

from __future__ import annotations

from typing import Any, Never

from tinytensor import Tensor

from . import functional as F
from .module import Module

REDUCTIONS = ("mean", "sum", "none")


class Loss(Module):
    """What the losses share: `reduction`, checked."""

    def __init__(self, reduction: str, called: tuple[Any, ...] = ()) -> None:
        super().__init__()
        if called:
            name = type(self).__name__
            raise TypeError(f"{name} is a module: make one, then call it: {name}()(input, target)")
        if reduction not in REDUCTIONS:
            raise ValueError(f"{type(self).__name__}: reduction must be one of {REDUCTIONS}, got {reduction!r}")
        self.reduction = reduction


class CrossEntropyLoss(Loss):
    """Minus the log-probability of the target class, from logits.

    Args:
        weight: of each class, (classes).
        ignore_index: a target that counts for nothing; where all are such, the mean is 0.
        label_smoothing: how much of the target's probability is spread evenly over all classes (Szegedy et al. 2016).

    Shapes: input (batch, classes, ...) or (classes), target the same without classes (ids), or of the input's shape
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
    """Minus the input at the target class, the input being log-probabilities.

    Args:
        weight: of each class, (classes).
        ignore_index: a target that counts for nothing.

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


class BCEWithLogitsLoss(Loss):
    """-(target log σ(input) + (1 - target) log(1 - σ(input))), computed so that large logits do no harm.

    Args:
        weight: of each element, broadcast.
        pos_weight: of the positive part, broadcast: above 1 it finds more positives, below 1 it is surer of them.

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
