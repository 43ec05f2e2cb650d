"""Training on many processes: `mpiexec -n 4 python examples/train_translation.py`.

Every rank runs the same `Trainer` with the same seed, so that all have the same model, the same batches and the same
learning rate. `distribute` changes three parts of it: a batch is the rank's share of the batch; the gradient is the
mean over ranks; and only rank 0 has callbacks, and the others follow it. Rank 0 writes the same checkpoint as a
process that trains alone: any number of ranks can go on with it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn.distributed import Communicator
from tinytensor.random import Generator, using

from .loss import cross_entropy
from .run_folder import RunFolder
from .trainer import Callback, StepResult, Trainer

BUCKETS = 16  # so that also a small model sends most gradients before the last arrives
GO_ON, END, CONSOLIDATE = 0, 1, 2  # the commands of rank 0


def distribute(trainer: Trainer, group: Communicator, *, shard_optimizer: bool = False) -> None:
    """Let a trainer work as one rank of a group; all ranks call it, with identically made trainers.

    Args:
        shard_optimizer: if True, each rank keeps a share of the optimiser's state (`nn.optim.ZeroRedundancyOptimizer`).
    """
    lockstep = Lockstep(trainer, group)
    if shard_optimizer:
        trainer.optimizer = ShardedOptimizer.of(trainer.optimizer, group)
        trainer.optimizer.before_consolidation = lockstep.ask_to_consolidate
    trainer.task = SharedTask(trainer.task, group)
    trainer.forward_backward = lockstep.forward_backward
    trainer.callbacks = [*trainer.callbacks, lockstep] if group.rank == 0 else [lockstep]


# ---- shares of a batch


class Share:
    """Some sequences of a batch, with the batch's padding; none on a rank beyond the last sequence.

    It is also a batch of the same class.

    Attributes:
        whole: the number of target tokens of the whole batch, as `tokens`.
    """

    whole: int

    @property
    def tokens(self) -> int:
        """The number of ids to predict on all ranks together."""
        return self.whole

    @property
    def own_tokens(self) -> int:
        """The number of ids to predict on this rank."""
        return super().tokens  # type: ignore[misc]


class SharedTask:
    """A task whose training batches are the shares of one rank; everything else is the task's own."""

    def __init__(self, task: Any, group: Communicator) -> None:
        self._task, self._group = task, group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def training_batch(self, step: int, size: int) -> Any:
        """The rank's sequences of a step's batch."""
        batch = self._task.training_batch(step, size)
        return share(batch, self._group.rank, self._group.size)


def share(batch: Any, rank: int, size: int) -> Any:
    """The rank's consecutive sequences of a batch: equally many for each rank, give or take one."""
    count = len(batch.target_out)
    start, end = (-(-count * r // size) for r in (rank, rank + 1))
    arrays = {field.name: getattr(batch, field.name)[start:end] for field in fields(batch)}
    made = type("Share", (Share, type(batch)), {})(**arrays)
    object.__setattr__(made, "whole", batch.tokens)  # a batch is frozen, but this one is just being made
    return made


# ---- one step of all ranks


class Lockstep(Callback):
    """Keeps the ranks together: they end at the same step, obey the same signals, and follow rank 0.

    After each step and its callbacks, rank 0 says whether to go on. It also draws the seed of each step's dropout,
    from which each rank makes its own.
    """

    def __init__(self, trainer: Trainer, group: Communicator) -> None:
        self.trainer, self.group = trainer, group
        megabytes = sum(p.size * p.dtype.itemsize for p in trainer.model.parameters()) / 1e6
        self.model = nn.parallel.DistributedDataParallel(
            trainer.model, process_group=group, bucket_cap_mb=max(1.0, min(25.0, megabytes / BUCKETS))
        )
        self._step, self._seed = -1, 0
        self._heard: Any = None

    def forward_backward(self, batches: Sequence[Any], label_smoothing: float) -> tuple[Tensor, Tensor]:
        """As `ForwardBackward`, over the shares of all ranks: the same loss and gradients on each.

        A second call in the same step, with anomaly detection on, looks for an op that was not finite: each rank checks
        its own share.
        """
        if self._step == self.trainer.step and tt.is_anomaly_enabled():
            return self._look(self.trainer.model, batches, label_smoothing)
        self._step, self._seed = self.trainer.step, self._from_rank_0(tt.random.integers(2**31).item())
        logits, loss = self._compute(self.model, batches, label_smoothing)
        return logits, tt.asarray(self._agree(loss), dtype=logits.dtype, device=logits.device)

    def _compute(self, model: Any, batches: Sequence[Any], label_smoothing: float) -> tuple[Tensor, float]:
        """The logits for the last batch, and this rank's part of the loss; only the last batch sends gradients."""
        tokens = max(sum(batch.tokens for batch in batches), 1)
        loss = 0.0
        with using(Generator(self._seed * self.group.size + self.group.rank)):
            for i, batch in enumerate(batches):
                with nullcontext() if i == len(batches) - 1 else self.model.no_sync():
                    logits = model(*batch.inputs)
                    part = cross_entropy(logits, batch, label_smoothing) * (batch.own_tokens / tokens)
                    (part * self.group.size).backward()  # the mean over ranks divides by the size
                loss += part.item()
        return logits.detach(), loss

    def _look(self, model: Any, batches: Sequence[Any], label_smoothing: float) -> tuple[Tensor, Tensor]:
        """Raise FloatingPointError on all ranks if one of them does, with its message."""
        found = None
        try:
            logits, loss = self._compute(model, batches, label_smoothing)
        except FloatingPointError as error:
            found = f"{error} (on rank {self.group.rank})"
        for text in self.group.gather_objects(found):
            if text is not None:
                raise FloatingPointError(text)
        return logits, tt.asarray(loss)

    def _agree(self, loss: float) -> float:
        """The sum of all ranks' losses. If any rank has received a signal, all obey it after this step."""
        heard = None if self._heard is None else self._heard.signal
        values = np.array([loss, heard == signal.SIGINT, heard == signal.SIGTERM])
        self.group.all_reduce(values).wait()
        if values[1] or values[2]:
            self.trainer.interruption.signal = signal.SIGTERM if values[2] else signal.SIGINT
        return float(values[0])

    # ---- the commands of rank 0

    def begin(self, trainer: Trainer) -> None:
        self._heard, trainer.interruption = trainer.interruption, type(trainer.interruption)()  # only `_agree` sets it
        self._follow(trainer)

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        self._follow(trainer)

    def end(self, trainer: Trainer) -> None:
        self._follow(trainer)

    def _follow(self, trainer: Trainer) -> None:
        while (says := self._from_rank_0(END if trainer.ended_early else GO_ON)) == CONSOLIDATE:
            trainer.optimizer.consolidate_state_dict()  # type: ignore[attr-defined]
        trainer.ended_early = says == END

    def ask_to_consolidate(self) -> None:
        """On rank 0, make the others take part before it collects the optimiser's state."""
        self._from_rank_0(CONSOLIDATE)

    def _from_rank_0(self, number: int) -> int:
        value = np.array([number], np.int64)
        self.group.broadcast(value)
        return int(value[0])


class ShardedOptimizer(nn.optim.ZeroRedundancyOptimizer):
    """A ZeroRedundancyOptimizer whose `state_dict` on rank 0 is always whole."""

    before_consolidation: Any

    def state_dict(self) -> dict[str, Any]:
        if self.process_group.size > 1:
            self.before_consolidation()
            self.consolidate_state_dict()
        return super().state_dict()


class FolderOfRank0(RunFolder):
    """The folder of a run for the other ranks: they read the files of rank 0, and write nothing."""

    def __init__(self, path: Any, *, resume: bool = False) -> None:
        self.path = Path(path)
        self._release = lambda: None

    def save(self, state: dict[str, Any], weights: int = 0) -> None:
        """Does nothing: rank 0 writes the checkpoint."""

    def rewind(self, state: dict[str, Any]) -> None:
        """Does nothing: rank 0 rewinds the folder."""

    def keep_weights(self, step: int, state: dict[str, Any]) -> None:
        """Does nothing: rank 0 keeps the weights."""

    def log(self, **entry: Any) -> None:
        """Does nothing: rank 0 writes the log."""
