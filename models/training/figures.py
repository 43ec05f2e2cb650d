"""The figures of a run's log for other programs: a table in CSV, and the events that TensorBoard shows.

Both are made of the log. A resumed run rewinds the log to its checkpoint, so neither has a step that was lost.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from typing import Any

from tinytensor.machine.files import atomic_write

from .run_folder import RunFolder
from .trainer import Callback, StepResult, Trainer

EVENTS = ("step", "evaluation")


class FromTheLog(Callback):
    """Hands new figures on every few steps, and at the end. It comes after the callbacks that log.

    Args:
        every: steps between two times.
    """

    def __init__(self, folder: RunFolder, every: int = 100) -> None:
        self.folder, self.every = folder, every

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        if trainer.step % self.every == 0:
            self.write()

    def end(self, trainer: Trainer) -> None:
        self.write()

    def write(self) -> None:
        raise NotImplementedError

    def figures(self) -> dict[int, dict[str, float]]:
        """The figures of each step by their names: `step/loss`, `step/gradient_norms/encoder`, `evaluation/loss`."""
        found: dict[int, dict[str, float]] = {}
        for entry in self.folder.entries(*EVENTS):
            row = found.setdefault(entry["step"], {})
            for name, value in entry.items():
                several = value if isinstance(value, dict) else {"": value}
                named = {f"{entry['event']}/{name}/{of}".rstrip("/"): v for of, v in several.items()}
                if name != "step":
                    row |= {n: v for n, v in named.items() if isinstance(v, (int, float))}
        return dict(sorted(found.items()))


class CSVLogger(FromTheLog):
    """Writes `figures.csv` into the run's folder: a row for each logged step, a column for each figure."""

    def write(self) -> None:
        figures = self.figures()
        names = dict.fromkeys(name for row in figures.values() for name in row)
        text = io.StringIO()
        table = csv.DictWriter(text, ["step", *names], lineterminator="\n")
        table.writeheader()
        table.writerows({"step": step, **row} for step, row in figures.items())
        atomic_write(self.folder.path / "figures.csv", text.getvalue().encode())


class TensorBoardLogger(FromTheLog):
    """Writes events into the run's folder, in `events/`: for `tensorboard --logdir FOLDER`.

    Raises ImportError if the package tensorboardX is not installed.
    """

    def __init__(self, folder: RunFolder, every: int = 100) -> None:
        super().__init__(folder, every)
        if importlib.util.find_spec("tensorboardX") is None:
            raise ImportError("tensorboardX is not installed; run: pip install -e '.[tensorboard]'")
        self._writer: Any = None
        self._last = 0  # step in the events

    def begin(self, trainer: Trainer) -> None:
        from tensorboardX import SummaryWriter

        # A resumed run tells all steps anew: events that were not on the disk when it was killed are only in the log.
        self._last = 0
        self._writer = SummaryWriter(str(self.folder.path / "events"), purge_step=1, flush_secs=10)

    def write(self) -> None:
        for step, row in self.figures().items():
            for name, value in row.items() if step > self._last else ():
                self._writer.add_scalar(name, value, step)
            self._last = max(self._last, step)

    def end(self, trainer: Trainer) -> None:
        super().end(trainer)
        self._writer.close()


LOGGERS = {"csv": CSVLogger, "tensorboard": TensorBoardLogger}
