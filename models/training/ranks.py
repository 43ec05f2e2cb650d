"""Training on many processes: `mpiexec -n 4 python examples/train_translation.py`.

Every rank runs the same `Trainer` with the same seed, so that all have the same model, the same batches and the same
learning rate. `distribute` changes three parts of it: a batch is the rank's share of the batch; the gradient is the
mean over ranks; and rank 0 alone has callbacks, while the others do as it says. The checkpoint, which rank 0 writes,
is that of a process that trains alone: any number of ranks can go on with it.
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

BUCKETS = 16  # so that most of a small model's gradients are on their way, too, before the last is there
GO_ON, END, CONSOLIDATE = 0, 1, 2  # what rank 0 says


def distribute(trainer: Trainer, group: Communicator, *, shard_optimizer: bool = False) -> None:
    """Let a trainer work as one of the ranks of a group; all ranks call it, with trainers made alike.

    Args:
        shard_optimizer: each rank keeps a share of the optimiser's state (`nn.optim.ZeroRedundancyOptimizer`).
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
    """Some sequences of a batch, padded as the batch is; on a rank beyond the last sequence none.

    It is a batch of the same class besides.

    Attributes:
        whole: the target tokens of the whole batch; `tokens` says the same.
    """

    whole: int

    @property
    def tokens(self) -> int:
        """How many ids are to be predicted on all ranks together."""
        return self.whole

    @property
    def own_tokens(self) -> int:
        """How many ids are to be predicted on this rank."""
        return super().tokens  # type: ignore[misc]


class SharedTask:
    """A task whose training batches are the shares of one rank; all else is the task's own."""

    def __init__(self, task: Any, group: Communicator) -> None:
        self._task, self._group = task, group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def training_batch(self, step: int, size: int) -> Any:
        """The rank's sequences of the batch of a step."""
        batch = self._task.training_batch(step, size)
        return share(batch, self._group.rank, self._group.size)


def share(batch: Any, rank: int, size: int) -> Any:
    """Sequences that follow each other, as many for each rank as for the others, or one more for the first ranks."""
    count = len(batch.target_out)
    start, end = (-(-count * r // size) for r in (rank, rank + 1))
    arrays = {field.name: getattr(batch, field.name)[start:end] for field in fields(batch)}
    made = type("Share", (Share, type(batch)), {})(**arrays)
    object.__setattr__(made, "whole", batch.tokens)  # a batch is not to be changed, and this one is being made
    return made


# ---- one step of all ranks


class Lockstep(Callback):
    """Keeps the ranks together: they end at the same step, heed the same signals, and do as rank 0 says.

    Rank 0 says after each step, when its callbacks are done, whether to go on. It draws the seed of each step's
    dropout, from which each rank makes its own.
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
        """As `ForwardBackward`, of the shares of all ranks: the same loss and gradients on each.

        Once more in the same step, with every op watched, it is to find what was not finite: each rank looks in its own
        share.
        """
        if self._step == self.trainer.step and tt.is_anomaly_enabled():
            return self._look(self.trainer.model, batches, label_smoothing)
        self._step, self._seed = self.trainer.step, self._from_rank_0(tt.random.integers(2**31).item())
        logits, loss = self._compute(self.model, batches, label_smoothing)
        return logits, tt.asarray(self._agree(loss), dtype=logits.dtype, device=logits.device)

    def _compute(self, model: Any, batches: Sequence[Any], label_smoothing: float) -> tuple[Tensor, float]:
        """The logits for the last batch, and this rank's part of the loss; a batch before the last sends nothing."""
        tokens = max(sum(batch.tokens for batch in batches), 1)
        loss = 0.0
        with using(Generator(self._seed * self.group.size + self.group.rank)):
            for i, batch in enumerate(batches):
                with nullcontext() if i == len(batches) - 1 else self.model.no_sync():
                    logits = model(*batch.inputs)
                    part = cross_entropy(logits, batch, label_smoothing) * (batch.own_tokens / tokens)
                    (part * self.group.size).backward()  # whose mean over the ranks is taken
                loss += part.item()
        return logits.detach(), loss

    def _look(self, model: Any, batches: Sequence[Any], label_smoothing: float) -> tuple[Tensor, Tensor]:
        """Raise FloatingPointError on all ranks if one of them does, with what that one says."""
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
        """The sum of all ranks' losses. A signal that any of them has heard is heeded by all after this step."""
        heard = None if self._heard is None else self._heard.signal
        values = np.array([loss, heard == signal.SIGINT, heard == signal.SIGTERM])
        self.group.all_reduce(values).wait()
        if values[1] or values[2]:
            self.trainer.interruption.signal = signal.SIGTERM if values[2] else signal.SIGINT
        return float(values[0])

    # ---- what rank 0 says

    def begin(self, trainer: Trainer) -> None:
        self._heard, trainer.interruption = trainer.interruption, type(trainer.interruption)()  # set by `_agree` alone
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
        """On rank 0, before it collects the optimiser's state, have the others take part."""
        self._from_rank_0(CONSOLIDATE)

    def _from_rank_0(self, number: int) -> int:
        value = np.array([number], np.int64)
        self.group.broadcast(value)
        return int(value[0])


class ShardedOptimizer(nn.optim.ZeroRedundancyOptimizer):
    """One whose `state_dict` on rank 0 is always whole."""

    before_consolidation: Any

    def state_dict(self) -> dict[str, Any]:
        if self.process_group.size > 1:
            self.before_consolidation()
            self.consolidate_state_dict()
        return super().state_dict()


class FolderOfRank0(RunFolder):
    """The folder of a run as the other ranks see it: they read what rank 0 wrote, and write nothing."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self._release = lambda: None

    def save(self, state: dict[str, Any], weights: int = 0) -> None:
        """Rank 0 writes the checkpoint."""

    def rewind(self, state: dict[str, Any]) -> None:
        """Rank 0 rewinds it."""

    def keep_weights(self, step: int, state: dict[str, Any]) -> None:
        """Rank 0 keeps them."""

    def log(self, **entry: Any) -> None:
        """Rank 0 writes the log."""
