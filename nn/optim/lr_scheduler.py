"""Schedules of the learning rate, under PyTorch's names and with PyTorch's values.

A scheduler sets the learning rate of every parameter group when it is made and at each `step()`, to be called after
the optimiser's. Most compute the new rate from the present one (the chained form), so several of them may work on one
optimiser, and a rate that was changed by hand stays changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import tinytensor as tt

from .optimizer import Optimizer


class LRScheduler:
    """The base of all schedulers; one of your own writes `get_lr`.

    Args:
        optimizer: whose parameter groups get the rates.
        last_epoch: the number of steps already taken; -1 at the beginning. Otherwise every group must have its
            `"initial_lr"`, as groups loaded from a `state_dict` have.

    Attributes:
        base_lrs: the learning rate of each group at the beginning.
        last_epoch: how often `step` was called.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an Optimizer, got a {type(optimizer).__name__}")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr', which is needed to go on from "
                    f"last_epoch {last_epoch}; load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._last_lr: list[float] = []
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, from the present rates or from `base_lrs`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rate that each group was given last."""
        return list(self._last_lr)

    def step(self) -> None:
        """Go on to the next epoch (or step) and set its learning rates."""
        self._step_count += 1
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _present(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser, as plain values."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave, here or in PyTorch. The rates themselves are the optimiser's state.

        Raises ValueError for the state of another kind of scheduler or of other groups; nothing is changed then.
        """
        own = self.state_dict()
        missing = sorted(set(own) - set(state_dict))
        unknown = sorted(key for key in set(state_dict) - set(own) if not key.startswith("_"))
        if missing or unknown:
            raise ValueError(
                f"{type(self).__name__}: load_state_dict: missing: {', '.join(missing) or 'nothing'}; "
                f"not known: {', '.join(unknown) or 'nothing'}"
            )
        if len(state_dict["base_lrs"]) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}: load_state_dict: expected {len(self.base_lrs)} parameter groups, "
                f"got {len(state_dict['base_lrs'])}"
            )
        self._load({key: state_dict[key] for key in own})

    def _load(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch: lr = base_lr * lr_lambda(epoch).

    Args:
        lr_lambda: the function, or one for each parameter group. Functions are not saved; of callable objects, the
            attributes are.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: {len(self.lr_lambdas)} functions for {groups} parameter groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * float(function(self.last_epoch)) for base, function in zip(self.base_lrs, self.lr_lambdas)]

    def state_dict(self) -> dict[str, Any]:
        saved = [None if _is_function(f) else dict(f.__dict__) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def _load(self, state: dict[str, Any]) -> None:
        saved = state.pop("lr_lambdas")
        super()._load(state)
        for function, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                function.__dict__.update(attributes)


def _is_function(value: Any) -> bool:
    return not hasattr(value, "__dict__") or hasattr(value, "__code__")


class StepLR(LRScheduler):
    """The rate times gamma every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size must be at least 1, got {step_size!r}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._present()
        return [lr * self.gamma for lr in self._present()]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the epochs `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = dict(Counter(milestones))
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma ** self.milestones.get(self.last_epoch, 0) for lr in self._present()]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to eta_min in T_max epochs, and up again.

    Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5, without the restarts:
    lr = eta_min + (base_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2, computed from the present rate.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max must be at least 1, got {T_max!r}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, low = self.last_epoch, self.eta_min
        angle = math.pi / self.T_max
        if self._step_count == 1:  # just made: the rate is the one to begin, or to go on, with
            return self._present()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # just after the bottom, where the ratio would be 0 / 0
            return [lr + (base - low) * (1 - math.cos(angle)) / 2 for base, lr in zip(self.base_lrs, self._present())]
        ratio = (1 + math.cos(angle * epoch)) / (1 + math.cos(angle * (epoch - 1)))
        return [ratio * (lr - low) + low for lr in self._present()]


class TransformerLR(LRScheduler):
    """The schedule of the Transformer: a linear warm-up, then down with the inverse square root of the step.

    Vaswani et al. 2017, "Attention Is All You Need", section 5.3, equation 3, times a factor:

        lrate = factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)

    The first step of the optimiser is step 1. Every group gets this rate, whatever rate it was made with.

    Args:
        d_model: the model's width.
        warmup_steps: when the rate is highest.
        factor: what the rate is multiplied by; 1 in the paper.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        d_model: int,
        warmup_steps: int = 4000,
        factor: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        if d_model < 1 or warmup_steps < 1:
            raise ValueError(
                f"TransformerLR: d_model and warmup_steps must be at least 1, got {d_model!r} and {warmup_steps!r}"
            )
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step = self.last_epoch + 1
        rate = self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5)
        return [rate] * len(self.base_lrs)


if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
