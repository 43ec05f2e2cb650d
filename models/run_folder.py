"""The folder of a training run: the checkpoint, the log, and what is needed to go on after any interruption."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import nn
from tinytensor.files import atomic_write

from .command_line import UsageError

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"


class RunFolder:
    """Files of a run, each written whole or not at all, the log one line at a time.

    Args:
        path: the folder; made if it is missing.
        resume: go on with the run in it. Otherwise a run that is already there is moved aside, not overwritten.

    Raises UsageError if the folder cannot be written to, holds no checkpoint to resume from, or holds a run and cannot
    be moved because it is the current folder.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        self.moved: Path | None = None
        if resume and not (self.path / CHECKPOINT).is_file():
            raise UsageError(f"--resume: there is no {CHECKPOINT} in {self.path}")
        try:
            if not resume and ((self.path / CHECKPOINT).exists() or (self.path / LOG).exists()):
                if Path.cwd().is_relative_to(self.path.resolve()):
                    raise UsageError(f"the run in {self.path} cannot be moved aside from within; choose another folder")
                self.moved = self._aside()
                self.path.rename(self.moved)
            self.path.mkdir(parents=True, exist_ok=True)
            atomic_write(self.path / ".writable", b"")
            (self.path / ".writable").unlink()
            for unfinished in self.path.glob(f".*.{'[0-9a-f]' * 8}.tmp"):  # of a run that was killed while it wrote
                unfinished.unlink()
        except OSError as error:
            raise UsageError(f"cannot write to the folder {self.path}: {error.strerror or error}") from None

    def _aside(self) -> Path:
        """A free name beside the folder for the run that is in it."""
        for number in itertools.count(1):
            candidate = self.path.with_name(f"{self.path.name}.{number}")
            if not candidate.exists():
                return candidate
        raise AssertionError("unreachable")

    # ---- the checkpoint

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; it remembers how long the log is."""
        log = self.path / LOG
        nn.save({**state, "log_bytes": log.stat().st_size if log.exists() else 0}, self.path / CHECKPOINT)

    def load(self, device: str = "cpu") -> dict[str, Any]:
        """The checkpoint's state.

        Raises UsageError for a file that is damaged or no checkpoint.
        """
        try:
            state = nn.load(self.path / CHECKPOINT, device=device)
        except (nn.CheckpointError, OSError) as error:
            raise UsageError(f"--resume: {error}") from None
        if not isinstance(state, dict) or not isinstance(state.get("arguments"), dict) or "log_bytes" not in state:
            raise UsageError(f"--resume: {self.path / CHECKPOINT} is no checkpoint of a training run")
        return state

    def rewind(self, state: dict[str, Any]) -> None:
        """Cut the log back to what it was when the checkpoint with this state was written."""
        log = self.path / LOG
        content = log.read_bytes() if log.exists() else b""
        if len(content) > state["log_bytes"]:
            atomic_write(log, content[: state["log_bytes"]])

    # ---- weights of several steps, for their mean

    def weights(self) -> list[tuple[int, Path]]:
        """The weights that were kept: the step and the file, earliest first."""
        found = self.path.glob("weights-*.safetensors")
        return sorted((int(path.stem.partition("-")[2]), path) for path in found)

    def keep_weights(self, step: int, state: dict[str, Any], count: int) -> None:
        """Keep the weights of a step, and of so many steps in all: the earliest go."""
        nn.save({"model": state}, self.path / f"weights-{step:08d}.safetensors")
        for _, path in self.weights()[:-count]:
            path.unlink()

    # ---- the log

    def log(self, **entry: Any) -> None:
        """Add a line to the log: one JSON object."""
        with open(self.path / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def entries(self, event: str) -> list[dict[str, Any]]:
        """The log's entries of one kind, in order; a line that an interruption left unfinished is passed over."""
        log = self.path / LOG
        found = []
        for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("event") == event:
                found.append(entry)
        return found
