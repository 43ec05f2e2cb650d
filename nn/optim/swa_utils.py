"""Averages of weights over training: exponential moving averages (EMA) and stochastic weight averaging (SWA).

    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    for batch in batches:
        ...
        optimizer.step()
        averaged.update_parameters(model)
    averaged(x)  # or, for code that has hold of the model: with averaged.swapped_into(model): evaluate(model)

The average of weights is often a better model than the last of them (Polyak & Juditsky 1992, "Acceleration of
Stochastic Approximation by Averaging"; Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better
Generalization"). It costs one copy of the weights, and a pass over them for each update.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tinytensor as tt

from ..module import Module
from .lr_scheduler.scheduler import LRScheduler, for_each_group, in_common
from .optimizer import Optimizer

Average = Callable[[tt.Tensor, tt.Tensor, int], tt.Tensor]
Averages = Callable[[list[tt.Tensor], list[tt.Tensor], int], None]

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


class AveragedModel(Module):
    """A copy of a model whose weights are the average of the model's at each `update_parameters`.

    Call it like the model. Its `state_dict` has the model's names after `module.`, and `n_averaged`. Only weights are
    averaged; buffers are those of the last update, or with `use_buffers=True` averages, too.

    Args:
        model: the model to copy; its own training is not affected.
        device: the device of the copy; default: the model's.
        avg_fn: returns the new average of one Tensor, from the old one, the model's, and the number averaged so far;
            default: the mean of all (`get_swa_avg_fn`).
        multi_avg_fn: the same for lists of Tensors; it changes the first list in place.
        use_buffers: average buffers as well.

    Attributes:
        module: the copy.
        n_averaged: the number of models averaged, a 0-d Tensor.

    Raises ValueError if both functions are given.
    """

    n_averaged: tt.Tensor

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", tt.asarray(0, dtype=tt.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    @tt.no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add the model's present weights to the average; the first weights are the first average.

        Raises ValueError for a model whose weights have other shapes, and then changes nothing.
        """
        count = int(self.n_averaged.item())
        averages, present = self._alike(model)
        moved = [theta.to(average.device, average.dtype) for average, theta in zip(averages, present)]
        if count == 0:
            for average, theta in zip(averages, moved):
                average.copy_(theta)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, moved, count)
        else:
            update = self.avg_fn or get_swa_avg_fn()
            for average, theta in zip(averages, moved):
                average.copy_(update(average, theta, count).astype(average.dtype))
        if not self.use_buffers:
            for buffer, theirs in zip(self.module.buffers(), model.buffers()):
                buffer.copy_(theirs.to(buffer.device))
        self.n_averaged.copy_(tt.asarray(count + 1, device=self.n_averaged.device))

    @contextmanager
    def swapped_into(self, model: Module) -> Iterator[None]:
        """Within it the model has the averaged weights, and after it its own again, even after an error.

        For code that uses the model itself, for example to evaluate or to save it. (PyTorch has no such method.)
        """
        averages, present = self._alike(model)
        own = [theta.clone() for theta in present]
        _write(present, averages)
        try:
            yield
        finally:
            _write(present, own)

    def _alike(self, model: Module) -> tuple[list[tt.Tensor], list[tt.Tensor]]:
        """The Tensors to average, of the copy and of the model."""
        averages, present = _states(self.module, self.use_buffers), _states(model, self.use_buffers)
        for i, (average, theta) in enumerate(itertools.zip_longest(averages, present)):
            shapes = [None if each is None else each.shape for each in (average, theta)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"AveragedModel: this is another model than the one it was made of: Tensor {i} has shape "
                    f"{shapes[0]} in the average, {shapes[1]} in the model"
                )
        return averages, present


def _states(model: Module, buffers: bool) -> list[tt.Tensor]:
    """The Tensors to average, sharing the model's memory, without its graphs."""
    return [each.detach() for each in itertools.chain(model.parameters(), model.buffers() if buffers else ())]


def _write(into: list[tt.Tensor], values: list[tt.Tensor]) -> None:
    with tt.no_grad():
        for theta, value in zip(into, values):
            theta.copy_(value.to(theta.device))


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average: average_t = decay * average_{t-1} + (1 - decay) * theta_t.

    Raises ValueError for a decay that is not from 0 to 1.
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: decay must be from 0 to 1, got {decay!r}")

    def ema_update(average: tt.Tensor, theta: tt.Tensor, num_averaged: int) -> tt.Tensor:
        return decay * average + (1 - decay) * theta

    return ema_update


def get_swa_avg_fn() -> Average:
    """The mean of all: average_{n+1} = average_n + (theta - average_n) / (n + 1)."""

    def swa_update(average: tt.Tensor, theta: tt.Tensor, num_averaged: int) -> tt.Tensor:
        return average + (theta - average) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for lists of Tensors; it changes the first list in place."""
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` for lists of Tensors; it changes the first list in place."""
    return _in_place(get_swa_avg_fn())


def _in_place(update: Average) -> Averages:
    def update_all(averages: list[tt.Tensor], thetas: list[tt.Tensor], num_averaged: int) -> None:
        for average, theta in zip(averages, thetas):
            average.copy_(update(average, theta, num_averaged).astype(average.dtype))

    return update_all


@tt.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Recompute the statistics of batch normalisations (modules with `reset_running_stats`) after averaging weights.

    Their running statistics, which belong to other weights, become the means over all batches of one pass.

    Args:
        loader: gives batches; of a tuple or list, the model gets the first item.
        device: the device to move the batches to, if given.
    """
    normalisations: list[Any] = [module for module in model.modules() if hasattr(module, "reset_running_stats")]
    if not normalisations:
        return
    momenta, training = [module.momentum for module in normalisations], model.training
    model.train()
    for module in normalisations:
        module.reset_running_stats()
        module.momentum = None
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for module, momentum in zip(normalisations, momenta):
            module.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """From the present rate to a constant one for averaging weights (Izmailov et al. 2018, section 3.2).

    lr = lr_0 + (swa_lr - lr_0) * a, where a goes from 0 to 1 in `anneal_epochs`, along half a cosine or a straight
    line; computed from the present rate.

    Args:
        swa_lr: the rate at the end, or one for each parameter group.
        anneal_epochs: the number of epochs to get there.
        anneal_strategy: "cos" or "linear".

    Raises ValueError for another strategy, or a negative number of epochs.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an integer of at least 0, got {anneal_epochs!r}")
        for group, rate in zip(optimizer.param_groups, for_each_group("swa_lr", swa_lr, optimizer)):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _take_in(self, group: dict[str, Any]) -> None:
        group["swa_lr"] = in_common(self, "swa_lr")
        super()._take_in(group)

    def get_lr(self) -> list[float]:
        step = self._step_count - 1 if self.anneal_epochs else 1
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates

    def _way(self, step: int) -> float:
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2
