"""Schedules by your own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler, check_optimizer, in_common


class _ByFunction(LRScheduler):
    """The base of `LambdaLR` and `MultiplicativeLR`: a function for each group, and how to save it."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(self, optimizer)
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"{type(self).__name__}: {len(self.lr_lambdas)} functions for {groups} parameter groups")
        super().__init__(optimizer, last_epoch)

    def _take_in(self, group: dict[str, Any]) -> None:
        self.lr_lambdas.append(in_common(self, "lr_lambda", self.lr_lambdas))
        super()._take_in(group)

    def state_dict(self) -> dict[str, Any]:
        saved = [None if is_function(f) else dict(f.__dict__) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def _load(self, state: dict[str, Any]) -> None:
        saved = state.pop("lr_lambdas")
        super()._load(state)
        self.lr_lambdas = self.lr_lambdas[: len(saved)]
        for function, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch: lr = base_lr * lr_lambda(epoch).

    Args:
        lr_lambda: the function, or one for each parameter group. Functions are not saved, but the attributes of
            callable objects are.
    """

    def get_lr(self) -> list[float]:
        return [base * float(function(self.last_epoch)) for base, function in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(_ByFunction):
    """The present rate times a function of the epoch: lr = base_lr * lr_lambda(1) * ... * lr_lambda(epoch).

    Arguments as for `LambdaLR`.
    """

    def get_lr(self) -> list[float]:
        if self._just_made:
            return self._present()
        return [lr * float(function(self.last_epoch)) for lr, function in zip(self._present(), self.lr_lambdas)]

    def _restart(self) -> None:
        """In a `SequentialLR`, go on from the present rate, and begin with lr_lambda(0), as in PyTorch."""
        self.last_epoch = -1
        self.step()


def is_function(value: Any) -> bool:
    """True if it has no attributes to save: a function, a built-in one, or None."""
    return not hasattr(value, "__dict__") or hasattr(value, "__code__")
