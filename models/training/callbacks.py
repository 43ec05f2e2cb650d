"""Actions beside training: the log, evaluations, samples, checkpoints, a time limit, weights for their mean.

The order of a `Trainer`'s callbacks decides the order of messages at a step, and the content of its checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from .gradient_norms import norms_by_layer
from .loss import accuracies
from .not_finite import check_finite
from .run_folder import RunFolder
from .trainer import Callback, StepResult, Trainer


class Log(Callback):
    """Writes figures of a step into the folder's log, and shows loss, accuracies and tokens per second.

    The log also has the learning rate and the norms of the gradient before clipping, by layer. It always has the
    figures of the last step, whatever ended training.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._logged = 0  # the last step in the log
        self._last: StepResult | None = None

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        self._last = result
        if trainer.is_noted(trainer.step):
            self._note(trainer, result)

    def end(self, trainer: Trainer) -> None:
        if self._last is not None and self._logged != trainer.step:
            self._note(trainer, self._last)

    def _note(self, trainer: Trainer, result: StepResult) -> None:
        self._logged = trainer.step
        figures = {"loss": result.loss.item(), **accuracies(result.logits, result.batches[-1])}
        rate = trainer.progress.rate()
        if trainer.progress.due(trainer.step):
            trainer.progress.show(trainer.step, figures, rate)
        rounded = {name.replace(" ", "_"): round(value, 6) for name, value in figures.items()}
        norms = norms_by_layer(trainer.model, result.norm.item())
        self.folder.log(
            event="step",
            step=trainer.step,
            **rounded,
            learning_rate=result.learning_rate,
            gradient_norms={name: float(f"{norm:.6g}") for name, norm in norms.items()},
            tokens_per_second=round(rate),
        )


class Evaluation(Callback):
    """Logs and shows figures of the model, computed without dropout.

    Args:
        figures: returns them by name; training should make the first one small.
        every: steps between two evaluations.
        patience: training ends after this number of evaluations in a row without improvement (early stopping).

    Attributes:
        best: the smallest first figure.
        without_improvement: the number of evaluations since.
    """

    def __init__(
        self, folder: RunFolder, figures: Callable[[], dict[str, float]], every: int, patience: int | None = None
    ) -> None:
        self.folder, self.figures, self.every, self.patience = folder, figures, every, patience
        self.best = math.inf
        self.without_improvement = 0

    def begin(self, trainer: Trainer) -> None:
        if self._is_stalled():  # an earlier process came to this point
            trainer.end()

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        if trainer.step % self.every == 0:
            self._evaluate(trainer)
        if self._is_stalled():
            trainer.end()

    def end(self, trainer: Trainer) -> None:
        if self._is_stalled():
            trainer.progress.say(
                f"{self.without_improvement} evaluations brought nothing better: ended at step {trainer.step}"
            )

    def _is_stalled(self) -> bool:
        return self.patience is not None and self.without_improvement >= self.patience

    def _evaluate(self, trainer: Trainer) -> None:
        trainer.model.eval()
        figures = self.figures()
        trainer.model.train()
        decisive = next(iter(figures.values()))
        self.without_improvement = 0 if decisive < self.best else self.without_improvement + 1
        self.best = min(self.best, decisive)
        self.folder.log(event="evaluation", step=trainer.step, **{k: round(v, 6) for k, v in figures.items()})
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in figures.items())
        trainer.progress.say(f"step {trainer.step}: {shown}")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "without_improvement": self.without_improvement}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.without_improvement = state["best"], state["without_improvement"]


class WeightAverage(Callback):
    """Keeps the weights of several steps, whose mean is often better than the last (Vaswani et al. 2017, section 6.1).

    Args:
        count: the number of latest weights in the mean.
        every: steps between two of them.
    """

    def __init__(self, folder: RunFolder, count: int, every: int) -> None:
        self.folder, self.count, self.every = folder, count, every

    def is_due(self, step: int) -> bool:
        """True if this step's weights are to be kept."""
        return step % self.every == 0

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        if self.is_due(trainer.step):
            self.folder.keep_weights(trainer.step, trainer.model.state_dict())

    def apply(self, model: Any) -> int:
        """Give the model the mean of the latest kept weights; returns their number (0: the model stays unchanged)."""
        paths = [path for _, path in self.folder.weights()][-self.count :]
        if paths:
            states = [self.folder.load_weights(path) for path in paths]
            mean = {name: sum(s[name] for s in states[1:]) + value for name, value in states[0].items()}
            model.load_state_dict({name: total / len(paths) for name, total in mean.items()})
        return len(paths)


class Samples(Callback):
    """Shows the model's outputs for some inputs every few steps; the log also has those from before the first step.

    Args:
        show: called with a function that prints a line.
        every: steps between two samples.
    """

    def __init__(self, folder: RunFolder, show: Callable[[Callable[[str], None]], None], every: int = 100) -> None:
        self.folder, self.show, self.every = folder, show, every

    def begin(self, trainer: Trainer) -> None:
        if trainer.step == 0:
            self._note(trainer)

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        if trainer.step % self.every == 0:
            lines = self._note(trainer)
            for line in lines if trainer.step < trainer.steps else ():  # the script's report has the last ones
                trainer.progress.say(line)

    def _note(self, trainer: Trainer) -> list[str]:
        lines: list[str] = []
        self.show(lines.append)
        self.folder.log(event="samples", step=trainer.step, lines=[line.strip() for line in lines])
        return lines


class TimeLimit(Callback):
    """Ends training after `minutes` minutes; None: never."""

    def __init__(self, minutes: float | None) -> None:
        self.minutes = math.inf if minutes is None else minutes
        self._is_over = False

    def begin(self, trainer: Trainer) -> None:
        self._end = time.monotonic() + 60 * self.minutes

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        self._is_over = time.monotonic() >= self._end and trainer.step < trainer.steps and not trainer.ended_early
        if self._is_over:
            trainer.end()

    def end(self, trainer: Trainer) -> None:
        if self._is_over:
            trainer.progress.say(f"the time limit of {self.minutes:g} minutes ended training after step {trainer.step}")


class Checkpoints(Callback):
    """Writes the checkpoint every few steps, at the end, and on Ctrl-C and SIGTERM. It comes after all that it saves.

    Args:
        arguments: plain values kept in the checkpoint, to build the same run again.
        every: steps between two checkpoints.
        average: the checkpoint keeps its weights as long as it needs them.
        data: identifies the run's data; `restore` refuses a checkpoint of a run with other data.
    """

    def __init__(
        self,
        folder: RunFolder,
        arguments: dict[str, Any],
        *,
        every: int = 200,
        average: WeightAverage | None = None,
        data: str = "",
    ) -> None:
        self.folder, self.arguments, self.every, self.average, self.data = folder, arguments, every, average, data

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        step = trainer.step
        is_due = step % self.every == 0 or (self.average is not None and self.average.is_due(step))
        is_due = is_due or step == trainer.steps or trainer.interruption.signal is not None
        if is_due or trainer.ended_early:
            check_finite(step, result.loss, result.norm)  # on a GPU they may be unchecked so far
        if is_due:
            self.save(trainer)

    def end(self, trainer: Trainer) -> None:
        if trainer.ended_early:  # after the last figures, which an early end logs
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Write the checkpoint of this step."""
        state = {**trainer.state_dict(), "arguments": self.arguments, "data": self.data}
        self.folder.save(state, weights=0 if self.average is None else self.average.count)

    def restore(self, trainer: Trainer, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state. Raises ValueError, changing nothing, if it had other data."""
        if state["data"] != self.data:
            raise ValueError("the data is not what the run began with")
        trainer.load_state_dict(state)
