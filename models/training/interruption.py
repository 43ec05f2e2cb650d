"""Ctrl-C, heeded between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """Ctrl-C was pressed; the checkpoint is written."""

    def __init__(self, step: int) -> None:
        super().__init__(f"interrupted after step {step}")
        self.step = step


class CtrlC:
    """A context in which Ctrl-C sets `pressed`; pressed again, it raises KeyboardInterrupt at once.

    Only the main thread can have it so (a rule of Python); elsewhere `pressed` stays False.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> CtrlC:
        self._is_ours = threading.current_thread() is threading.main_thread()
        if self._is_ours:
            self._former = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._former)

    def _press(self, signal_number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
