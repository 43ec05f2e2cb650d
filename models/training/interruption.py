"""Ctrl-C and SIGTERM, which take effect between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """A signal ended the run; the checkpoint is written.

    Attributes:
        step: the last finished step.
        signal: the signal, `signal.SIGINT` or `signal.SIGTERM`.
    """

    def __init__(self, step: int, signal: signal.Signals) -> None:
        super().__init__(f"interrupted by {signal.name} after step {step}")
        self.step, self.signal = step, signal


class Interruption:
    """A context in which Ctrl-C and SIGTERM set `signal`; Ctrl-C pressed again raises KeyboardInterrupt at once.

    `kill`, `timeout`, batch systems and a shutdown send SIGTERM before they use force. Some send it to the process and
    to its group, so a second one means nothing new.

    This works only in the main thread (a rule of Python); elsewhere `signal` stays None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._heed)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, former in self._former.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)  # None: not set by Python

    def _heed(self, signal_number: int, frame: FrameType | None) -> None:
        if signal_number == self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(signal_number)
