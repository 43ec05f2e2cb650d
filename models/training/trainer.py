"""The training loop: steps, figures, checkpoints, interruptions.

A run can be killed at any instant and resumed: the batch of a step follows from the seed and the step's number, and
the checkpoint holds everything else that the next step depends on, so a resumed run ends with the same bits as one
that was never disturbed.
"""

from __future__ import annotations

import functools
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Protocol

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.files import atomic_write
from tinytensor.nn import functional as F

from ..data.batch import PAD, Batch
from .progress import Progress
from .run_folder import RunFolder

LOG_EVERY = 10  # steps: the log is the same whether or not anybody watches


class NotFiniteError(RuntimeError):
    """The loss or a gradient became infinite or NaN; the message names the first op that made it so."""


class Interrupted(Exception):
    """Ctrl-C was pressed; the checkpoint is written."""

    def __init__(self, step: int) -> None:
        super().__init__(f"interrupted after step {step}")
        self.step = step


class Task(Protocol):
    """What the loop needs to know of a task."""

    def training_batch(self, step: int, size: int) -> Batch: ...


class Trainer:
    """Trains a sequence model on a task.

    Args:
        model: called as `model(source, target_in)`, gives logits (batch, target, vocabulary).
        optimizer, scheduler: the scheduler's `step` is called after each step of the optimiser.
        task: gives the batch of each step.
        folder: where the checkpoint and the log go.
        arguments: plain values kept in the checkpoint, to build the same run again.
        batch_size: sequences in a batch.
        max_norm: gradients are clipped to this norm.
        label_smoothing: of the loss (Szegedy et al. 2016; section 5.4 of the Transformer paper).
        accumulate: batches whose gradients are added up for one step; the loss is the mean over all their tokens.
        checkpoint_every: steps between two checkpoints.
        sample: called now and then with a function that prints a line.
        evaluate: gives figures of the model, logged every `evaluate_every` steps; the first of them is to become small.
        patience: training ends when so many evaluations in a row brought no improvement.
        average: how many of the latest weights `average_weights` takes the mean of, kept every `evaluate_every` steps.
        files: what the folder has to hold from the beginning, by name.
        data: tells the data that the run began with from others; a checkpoint of a run with others is refused.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: nn.optim.Optimizer,
        scheduler: nn.optim.lr_scheduler.LRScheduler,
        task: Task,
        folder: RunFolder,
        *,
        arguments: dict[str, Any],
        batch_size: int,
        max_norm: float = 1.0,
        checkpoint_every: int = 200,
        show_every: int = 100,
        sample_every: int = 100,
        sample: Callable[[Callable[[str], None]], None] | None = None,
        label_smoothing: float = 0.0,
        accumulate: int = 1,
        evaluate: Callable[[], dict[str, float]] | None = None,
        evaluate_every: int = 0,
        patience: int | None = None,
        average: int = 0,
        files: Mapping[str, bytes] | None = None,
        data: str = "",
    ) -> None:
        self.model: Any = model
        self.task: Any = task
        self.optimizer, self.scheduler = optimizer, scheduler
        self.folder, self.arguments, self.batch_size, self.max_norm = folder, arguments, batch_size, max_norm
        self.checkpoint_every, self.show_every, self.sample_every = checkpoint_every, show_every, sample_every
        self.sample = sample
        self.label_smoothing, self.accumulate = label_smoothing, accumulate
        self.evaluate, self.evaluate_every, self.patience, self.average = evaluate, evaluate_every, patience, average
        self.files, self.data = files or {}, data
        self.best = math.inf
        self.without_improvement = 0
        self.step = 0
        self._stop = False
        self._norm = tt.asarray(0.0)  # of the last step's gradient

    # ---- state

    def begin(self) -> None:
        """Write what a new run's folder holds before the first step."""
        for name, content in self.files.items():
            atomic_write(self.folder.path / name, content)
        self.folder.log(event="start", arguments=self.arguments)
        self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        self.folder.save(
            {
                "step": self.step,
                "arguments": self.arguments,
                "data": self.data,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": tt.random.get_state(),
                "best": self.best,
                "without_improvement": self.without_improvement,
            },
            weights=self.average,
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state. Raises ValueError, with nothing changed, if it had other data."""
        if state["data"] != self.data:
            raise ValueError("the data is not what the run began with")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        tt.random.set_state(state["random"])
        self.best, self.without_improvement = state["best"], state["without_improvement"]
        self.step = state["step"]

    def average_weights(self) -> int:
        """Give the model the mean of the latest weights that were kept; returns of how many (0: it stays as it is)."""
        paths = [path for _, path in self.folder.weights()][-self.average :]
        if self.average and paths:
            states = [self.folder.load_weights(path) for path in paths]
            mean = {name: sum(s[name] for s in states[1:]) + value for name, value in states[0].items()}
            self.model.load_state_dict({name: total / len(paths) for name, total in mean.items()})
        return len(paths) if self.average else 0

    # ---- the loop

    def run(self, steps: int, time_limit: float | None = None) -> None:
        """Train until `steps` steps are done, counted from the beginning of the run, or for `time_limit` minutes.

        The last step's figures are in the log, whatever ended training.

        Raises NotFiniteError, and Interrupted after Ctrl-C, which is heeded between two steps.
        """
        self.model.train()
        progress = Progress(steps, self.step, self.show_every)
        self._stop = False
        former = self._catch_interrupt()
        end = math.inf if time_limit is None else time.monotonic() + 60 * time_limit
        try:
            while self.step < steps and not self._stalled():
                first = self.step * self.accumulate
                batches = [self.task.training_batch(first + i, self.batch_size) for i in range(self.accumulate)]
                with np.errstate(over="ignore", invalid="ignore"):  # told once, by NotFiniteError
                    logits, loss = self._train_step(batches)
                self.step += 1
                batch = batches[-1]
                progress.step(sum(b.tokens for b in batches))
                noted = self._is_noted(self.step) or self.step == steps
                if noted:
                    self._note(progress, batch, logits, loss.item())
                evaluated = self.evaluate is not None and self.step % self.evaluate_every == 0
                if evaluated:
                    self._evaluate(progress)
                if self.sample is not None and self.step % self.sample_every == 0 and self.step < steps:
                    self.sample(progress.say)
                due = self.step % self.checkpoint_every == 0 or (evaluated and self.average)  # kept weights go with one
                if due or self.step == steps or self._stop:
                    self._must_be_finite(loss)  # where it was not looked at before
                    self.save()
                if self._stop and self.step < steps:
                    raise Interrupted(self.step)
                timed_out = time.monotonic() >= end
                if (timed_out or self._stalled()) and not noted:
                    self._note(progress, batch, logits, loss.item())
                if timed_out:
                    break
            if self._stalled():
                progress.say(
                    f"{self.without_improvement} evaluations brought nothing better: ended at step {self.step}"
                )
                self.save()
            elif self.step < steps:
                progress.say(f"the time limit of {time_limit:g} minutes ended training after step {self.step}")
                self.save()
        finally:
            progress.close()
            self._release_interrupt(former)

    def _must_be_finite(self, loss: Tensor) -> None:
        value, norm = loss.item(), self._norm.item()
        if not math.isfinite(value + norm):
            raise NotFiniteError(f"the loss is {value} and the gradient's norm {norm} at step {self.step}")

    def _is_noted(self, step: int) -> bool:
        """Whether the figures of a step are logged."""
        return step % LOG_EVERY == 0 or step % self.show_every == 0

    def _stalled(self) -> bool:
        return self.patience is not None and self.without_improvement >= self.patience

    def _evaluate(self, progress: Progress) -> None:
        assert self.evaluate is not None
        self.model.eval()
        figures = self.evaluate()
        self.model.train()
        decisive = next(iter(figures.values()))
        better = decisive < self.best
        self.best = min(self.best, decisive)
        self.without_improvement = 0 if better else self.without_improvement + 1
        self.folder.log(event="evaluation", step=self.step, **{k: round(v, 6) for k, v in figures.items()})
        progress.say(f"step {self.step}: " + ", ".join(f"{k.replace('_', ' ')} {v:.4g}" for k, v in figures.items()))
        if self.average:
            self.folder.keep_weights(self.step, self.model.state_dict())

    def _train_step(self, batches: list[Batch]) -> tuple[Tensor, Tensor]:
        """One step; returns the logits for the last batch, and the loss."""
        groups = self._groups(batches)
        before = tt.random.get_state()
        logits, loss = self._gradients(groups)
        self._norm = norm = nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        if loss.device == "cpu" or self._is_noted(self.step + 1):  # a GPU is not waited for in every step: NaN stays
            value = loss.item()
            if not math.isfinite(value):
                self._explain(groups, before, f"the loss is {value}")
                raise NotFiniteError(f"the loss is {value} at step {self.step + 1}, from finite inputs of every op")
            if not math.isfinite(norm.item()):
                self._explain(groups, before, "a gradient is not finite")
                raise NotFiniteError(
                    f"the gradient's norm is {norm.item()} at step {self.step + 1}, from finite results of every op"
                )
        nn.utils.clip_grads_with_norm_(self.model.parameters(), self.max_norm, norm)
        self.optimizer.step()
        self.scheduler.step()
        return logits[-1] if groups[-1][-1] is batches[-1] else tt.concat(logits), loss

    def _groups(self, batches: list[Batch]) -> list[list[Batch]]:
        """What is computed side by side, group after group: the halves of a large batch, or two small batches."""
        groups: list[list[Batch]] = []
        for batch in batches:
            if nn.parallel.worth_splitting(self.model.parameters(), batch.tokens):
                groups.append(halves(batch))
            elif groups and len(groups[-1]) == 1:
                groups[-1].append(batch)
            else:
                groups.append([batch])
        return groups

    def _gradients(self, groups: list[list[Batch]]) -> tuple[list[Tensor], Tensor]:
        """Fill every `.grad` with that of the mean loss over all tokens; returns the logits of the last group, and it.

        The gradients of one group are there before the next begins, so that memory holds the graphs of one only.
        """
        self.optimizer.zero_grad()
        tokens = max(sum(part.tokens for group in groups for part in group), 1)
        logits: dict[int, Tensor] = {}

        def loss_of(part: Batch) -> Tensor:
            out = self.model(part.source, part.target_in)
            logits[id(part)] = out.detach()
            return cross_entropy(out, part, self.label_smoothing) * (part.tokens / tokens)

        total = None
        for group in groups:
            logits.clear()
            losses = [functools.partial(loss_of, part) for part in group]
            loss = nn.parallel.backward_of_sum(losses, self.model.parameters())
            total = loss if total is None else total + loss
        assert total is not None
        return [logits[id(part)] for part in groups[-1]], total

    def _explain(self, groups: list[list[Batch]], random_state: dict[str, Any], what: str) -> None:
        """Repeat a step, watching every op; raise NotFiniteError where one gives what is not finite."""
        for name, parameter in self.model.named_parameters():
            if not bool(tt.all(tt.isfinite(parameter))):
                raise NotFiniteError(
                    f"{what} at step {self.step + 1}: the optimizer's step before made {name} infinite or NaN; "
                    "a lower learning rate may help"
                )
        tt.random.set_state(random_state)
        with tt.detect_anomaly():
            try:
                self._gradients(groups)
            except FloatingPointError as error:
                raise NotFiniteError(f"{what} at step {self.step + 1}: {error}") from None

    def _note(self, progress: Progress, batch: Batch, logits: Tensor, loss: float) -> None:
        tokens, sequences = accuracies(logits, batch)
        figures = {"loss": loss, "token accuracy": tokens, "sequence accuracy": sequences}
        rate = progress.rate()
        if progress.due(self.step):
            progress.show(self.step, figures, rate)
        rounded = {name.replace(" ", "_"): round(value, 6) for name, value in figures.items()}
        self.folder.log(event="step", step=self.step, **rounded, tokens_per_second=round(rate))

    # ---- Ctrl-C

    def _catch_interrupt(self) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return None

        def heed(signal_number: int, frame: FrameType | None) -> None:
            if self._stop:
                raise KeyboardInterrupt  # pressed again: at once, without a checkpoint
            self._stop = True

        return signal.signal(signal.SIGINT, heed)

    @staticmethod
    def _release_interrupt(former: Any) -> None:
        if former is not None:
            signal.signal(signal.SIGINT, former)


def cross_entropy(logits: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """The mean over the batch's target tokens; padding does not count."""
    target = tt.asarray(batch.target_out.reshape(-1), device=logits.device)
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(rows, target, ignore_index=PAD, label_smoothing=label_smoothing)


def halves(batch: Batch) -> list[Batch]:
    """A batch as two of half as many sequences, of the same lengths; two threads can compute them side by side."""
    middle = len(batch.source) // 2
    if not middle:
        return [batch]
    arrays = (batch.source, batch.target_in, batch.target_out)
    return [Batch(*(a[rows] for a in arrays)) for rows in (slice(None, middle), slice(middle, None))]


def accuracies(logits: Tensor, batch: Batch) -> tuple[float, float]:
    """The share of target tokens, and of whole sequences, that the most likely ids get right."""
    guess = tt.argmax(logits, axis=-1)
    target = tt.asarray(batch.target_out, device=logits.device)
    counted = target != PAD
    right = (guess == target) | ~counted
    tokens = (tt.sum(right & counted).item()) / max(int(tt.sum(counted).item()), 1)
    return tokens, tt.mean(tt.astype(tt.all(right, axis=1), tt.float32)).item()
