"""The training loop. Everything else that happens during training is in `callbacks.py`.

A run can be killed at any instant and resumed: the seed and the step's number determine the batch of a step, and
`Trainer.state_dict` holds everything else that the next step depends on, so a resumed run ends with the same bits as
an undisturbed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.machine import speed
from tinytensor.nn.functional.settings import settings

from ..data.batch import AnyBatch
from .interruption import Interrupted, Interruption
from .loss import ForwardBackward
from .not_finite import explain
from .progress import Progress

LOG_EVERY = 10  # steps: the log is the same whether or not anyone watches


class Task(Protocol):
    """The method that the loop calls on a task."""

    def training_batch(self, step: int, size: int) -> AnyBatch: ...


@dataclass(frozen=True)
class StepResult:
    """The results of a training step.

    Attributes:
        batches: the batches of the step.
        logits: (batch, target, vocabulary), for the last batch.
        loss: the mean over the target tokens of all batches.
        norm: the norm of the gradient before clipping.
        learning_rate: the learning rate of the update.
    """

    batches: Sequence[AnyBatch]
    logits: Tensor
    loss: Tensor
    norm: Tensor
    learning_rate: float

    @property
    def tokens(self) -> int:
        """The number of ids to predict."""
        return sum(batch.tokens for batch in self.batches)


class Callback:
    """Actions beside training. A subclass overrides the methods of the moments that it needs."""

    def begin(self, trainer: Trainer) -> None:
        """Before the first step."""

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        """After each step, which `trainer.step` already counts."""

    def end(self, trainer: Trainer) -> None:
        """After the last step, unless an exception ended training."""

    def state_dict(self) -> dict[str, Any]:
        """The values that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state, which also holds the keys of others."""


class Trainer:
    """Trains a sequence model on a task.

    Args:
        model: called as `model(*batch.inputs)`, gives logits (batch, target, vocabulary).
        optimizer, scheduler: the trainer calls the scheduler's `step` after each step of the optimiser.
        task: gives the batch of each step.
        callbacks: further actions, in this order at each moment.
        batch_size: sequences in a batch.
        max_norm: clip gradients to this norm (Pascanu et al. 2013).
        label_smoothing: that of the loss (Szegedy et al. 2016; section 5.4 of the Transformer paper).
        accumulate: the number of batches whose gradients make one step; the loss is the mean over all their tokens.
        show_every: steps between two lines of figures if the output is no terminal.

    Attributes:
        step: the number of finished steps, counted from the beginning of the run.
        steps: the number of steps after which training ends.
        progress: prints messages of callbacks.
    """

    @settings
    def __init__(
        self,
        model: nn.Module,
        optimizer: nn.optim.Optimizer,
        scheduler: nn.optim.lr_scheduler.LRScheduler,
        task: Task,
        callbacks: Sequence[Callback] = (),
        *,
        batch_size: int,
        max_norm: tt.typing.Extended = 1.0,
        label_smoothing: float = 0.0,
        accumulate: int = 1,
        show_every: int = 100,
    ) -> None:
        self.model: Any = model
        self.task: Any = task
        self.optimizer, self.scheduler, self.callbacks = optimizer, scheduler, callbacks
        self.batch_size, self.max_norm, self.label_smoothing = batch_size, max_norm, label_smoothing
        self.accumulate, self.show_every = accumulate, show_every
        self.step = self.steps = 0
        self.ended_early = False
        self.interruption = Interruption()
        self.forward_backward: Callable[..., tuple[Tensor, Tensor]] = ForwardBackward(model)  # for ranks: `ranks.py`

    def run(self, steps: int) -> None:
        """Train up to `steps` steps, counted from the beginning of the run, or until a callback ends it.

        Raises NotFiniteError, and Interrupted after Ctrl-C or SIGTERM, which take effect between two steps.
        """
        self.steps, self.ended_early = steps, False
        self.model.train()
        with Interruption() as self.interruption, Progress(steps, self.step, self.show_every) as self.progress:
            for callback in self.callbacks:
                callback.begin(self)
            while self.step < steps and not self.ended_early:
                first = self.step * self.accumulate
                batches = [self.task.training_batch(first + i, self.batch_size) for i in range(self.accumulate)]
                result = self.train_step(batches)
                self.step += 1
                self.progress.step(result.tokens)
                for callback in self.callbacks:
                    callback.after_step(self, result)
                if self.interruption.signal is not None and self.step < steps:
                    raise Interrupted(self.step, self.interruption.signal)
            for callback in self.callbacks:
                callback.end(self)

    def train_step(self, batches: Sequence[AnyBatch]) -> StepResult:
        """One step: forward, backward, clip, update. Raises NotFiniteError before it would spoil the weights."""
        random_state = tt.random.get_state()
        with np.errstate(over="ignore", invalid="ignore"):  # NotFiniteError reports it once
            self.optimizer.zero_grad()
            logits, loss = self.forward_backward(batches, self.label_smoothing)
            norm = nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
            if loss.device == "cpu" or self.is_noted(self.step + 1):  # do not wait for a GPU in every step: NaN stays
                self._check_finite(batches, loss, norm, random_state)
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.max_norm, norm)
            learning_rate = self.optimizer.param_groups[0]["lr"]
            self.optimizer.step()
            self.scheduler.step()
        return StepResult(batches, logits, loss, norm, learning_rate)

    def _check_finite(
        self, batches: Sequence[AnyBatch], loss: Tensor, norm: Tensor, random_state: dict[str, Any]
    ) -> None:
        def repeat() -> None:
            tt.random.set_state(random_state)
            self.forward_backward(batches, self.label_smoothing)

        error = explain(self.step + 1, loss, norm, self.model, repeat)
        if error is not None:
            raise error

    def is_noted(self, step: int) -> bool:
        """True if the figures of a step are logged or shown."""
        return step % LOG_EVERY == 0 or step % self.show_every == 0 or step == self.steps

    def end(self) -> None:
        """Make this step the last."""
        self.ended_early = True

    # ---- resuming after an interruption

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, and the callbacks' states."""
        state = {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": tt.random.get_state(),
        }
        if tt.get_float32_matmul_precision() == "medium":
            state["medium"] = speed.medium_kind()
        for callback in self.callbacks:
            state |= callback.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state. Raises RuntimeError, changing nothing, if it is another model's."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        tt.random.set_state(state["random"])
        if "medium" in state:
            speed.set_medium_kind(state["medium"])
        for callback in self.callbacks:
            callback.load_state_dict(state)
        self.step = state["step"]
