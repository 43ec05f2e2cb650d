"""The folder of a training run: the checkpoint, the log, and all else needed to resume after any interruption."""

from __future__ import annotations

import itertools
import json
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinytensor import nn
from tinytensor.machine.files import atomic_write

from ..pretrained import CONFIG

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"
WEIGHTS = re.compile(r"weights-(\d{8,})\.safetensors")


class RunFolderError(ValueError):
    """A folder that cannot be used for a run, or whose run cannot be read; the message is one line."""


class RunFolder:
    """Files of a run, each written whole or not at all, the log one line at a time.

    No other process can train in the folder meanwhile: it is locked until `close`, or until the process ends.

    Args:
        path: the folder; made if it is missing.
        resume: go on with the run in it. Otherwise `begin` moves a run that is already there aside and does not
            overwrite it.

    Raises RunFolderError if the folder cannot be written to, is in use by another process, holds no checkpoint to
    resume from, or holds a run and cannot be moved because it is the current folder.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        if resume and not (self.path / CHECKPOINT).is_file():
            raise RunFolderError(f"there is no {CHECKPOINT} in {self.path}")
        try:
            if not resume and self._is_taken() and Path.cwd().is_relative_to(self.path.resolve()):
                raise RunFolderError(f"the run in {self.path} cannot be moved aside from within; choose another folder")
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            atomic_write(self.path / ".writable", b"")
            (self.path / ".writable").unlink()
            if resume or not self._is_taken():  # otherwise it belongs to another run, and stays whole until `begin`
                for unfinished in self.path.glob(f".*.{'[0-9a-f]' * 8}.tmp"):  # of a run killed while writing
                    unfinished.unlink()
        except OSError as error:
            raise self._cannot_write(error) from None

    def begin(self) -> Path | None:
        """Make the folder free for a new run: move a run in it aside, and return its new path, or None without one."""
        if not self._is_taken():
            return None
        aside = self._aside()
        try:
            self.path.rename(aside)
            self.close()  # the lock moved with its folder
            self.path.mkdir()
            self._lock()
        except OSError as error:
            raise self._cannot_write(error) from None
        return aside

    def close(self) -> None:
        """Let others train in the folder; this object must not write any more."""
        self._release()

    def _lock(self) -> None:
        self._release: Callable[[], Any] = lambda: None
        if fcntl is None:
            return
        handle = os.open(self.path, os.O_RDONLY)
        self._release = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(handle), os.stat(self.path))  # False if it was moved aside meanwhile
        except BlockingIOError:
            is_ours = False
        except OSError:  # some network file systems lock no folders
            is_ours = True
        if not is_ours:
            self.close()
            raise RunFolderError(f"another run is writing to {self.path}; wait until it ends, or choose another folder")

    def _is_taken(self) -> bool:
        """True if there is a run, a part of one, or a trained model."""
        alone = any((self.path / name).exists() for name in (CHECKPOINT, LOG, CONFIG))
        return alone or (self.path.is_dir() and bool(self.weights()))

    def _cannot_write(self, error: OSError) -> RunFolderError:
        return RunFolderError(f"cannot write to the folder {self.path}: {error.strerror or error}")

    def _aside(self) -> Path:
        """A free name beside the folder for the run in it."""
        for number in itertools.count(1):
            candidate = self.path.with_name(f"{self.path.name}.{number}")
            if not candidate.exists():
                return candidate
        raise AssertionError("unreachable")

    # ---- the checkpoint

    def save(self, state: dict[str, Any], weights: int = 0) -> None:
        """Replace the checkpoint, which stores the length of the log.

        Then delete all kept weights but the `weights` latest. Not before: a killed run goes on from the former
        checkpoint, and needs the weights of that time.
        """
        log = self.path / LOG
        nn.save({**state, "log_bytes": log.stat().st_size if log.exists() else 0}, self.path / CHECKPOINT)
        kept = self.weights()
        for _, path in kept[: max(0, len(kept) - weights)]:
            path.unlink()

    def load(self, device: str = "cpu") -> dict[str, Any]:
        """The checkpoint's state.

        Raises RunFolderError for a file that is damaged or not a checkpoint.
        """
        return read_checkpoint(self.path, device)

    def rewind(self, state: dict[str, Any]) -> None:
        """Bring log and weights back to the time when the checkpoint with this state was written."""
        log = self.path / LOG
        content = log.read_bytes() if log.exists() else b""
        if len(content) > state["log_bytes"]:
            atomic_write(log, content[: state["log_bytes"]])
        for step, path in self.weights():
            if step > state["step"]:
                path.unlink()

    # ---- weights of several steps, for their mean

    def weights(self) -> list[tuple[int, Path]]:
        """The kept weights: the step and the file, earliest first."""
        found = ((WEIGHTS.fullmatch(path.name), path) for path in self.path.iterdir())
        return sorted((int(match[1]), path) for match, path in found if match)

    def load_weights(self, path: Path) -> dict[str, Any]:
        """Load kept weights. Raises RunFolderError, with the file's name, if they cannot be read."""
        try:
            return nn.load(path)["model"]
        except (nn.CheckpointError, OSError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise RunFolderError(
                f"the weights in {path} cannot be read ({reason}); without this file the run can go on"
            ) from None

    def keep_weights(self, step: int, state: dict[str, Any]) -> None:
        """Keep the weights of a step; `save` decides for how long."""
        nn.save({"model": state}, self.path / f"weights-{step:08d}.safetensors")

    # ---- the log

    def log(self, **entry: Any) -> None:
        """Add a line to the log: one JSON object."""
        with open(self.path / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def entries(self, *events: str) -> list[dict[str, Any]]:
        """The log's entries of some kinds, in order."""
        return entries(self.path, *events)


def read_checkpoint(folder: Path, device: str = "cpu") -> dict[str, Any]:
    """The state in a run's checkpoint; changes nothing in the folder.

    Raises RunFolderError for a file that is damaged or not a checkpoint.
    """
    try:
        state = nn.load(folder / CHECKPOINT, device=device)
    except nn.CheckpointError as error:
        raise RunFolderError(str(error)) from None
    except OSError as error:
        raise RunFolderError(f"cannot read {folder / CHECKPOINT}: {error.strerror or error}") from None
    if not isinstance(state, dict) or not isinstance(state.get("arguments"), dict) or "log_bytes" not in state:
        raise RunFolderError(f"{folder / CHECKPOINT} is no checkpoint of a training run")
    return state


def entries(folder: Path, *events: str) -> list[dict[str, Any]]:
    """The entries of some kinds in a run's log, in order, without lines that an interruption left unfinished."""
    log = folder / LOG
    found = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("event") in events:
            found.append(entry)
    return found
