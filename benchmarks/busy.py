"""Find out if other programs compute during a measurement: then its figures would say little, and are not printed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from checkout import enter

ROOT = Path(__file__).resolve().parents[1]
MOST = 0.2  # cores that others may use during a measurement


def _machine() -> Any:
    """`tinytensor.machine.cores` of this checkout; imported late, since sides of another checkout read this file."""
    enter(ROOT)
    return import_module("tinytensor.machine.cores")


class Elsewhere:
    """Counts the cores that programs other than this one and its sides use, from its creation on.

    Time that the host of a virtual machine takes away counts as theirs.
    """

    def __init__(self, sides: Iterable[Any]) -> None:
        self._processes = [os.getpid(), *(side.process_id for side in sides)]
        self._machine = _machine()
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._begun = self._now()

    def _now(self) -> tuple[float, float, float]:
        own = sum(map(_processor_seconds, self._processes))
        return time.monotonic(), self._machine.idle_seconds(self._cores), own

    def cores(self) -> float | None:
        """The average number of cores; None if the system does not tell."""
        wall, idle, own = (now - then for now, then in zip(self._now(), self._begun))
        return max(0.0, len(self._cores) - (idle + own) / wall) if self._machine.can_tell() and wall > 0 else None


def _processor_seconds(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    used = text.rpartition(")")[2].split()[11:15]  # user and system time, of the process and its ended children
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def is_quiet(name: str, used: float | None, anyway: bool) -> bool:
    """True if figures may be printed; if the machine is busy, prints a line that says so."""
    if used is None or used <= MOST:
        return True
    load = os.getloadavg()[0]
    told = "the figures say little" if anyway else "no figures; wait until it is quiet, or see them with --anyway"
    of_all = f"{used:.1f} of {_machine().count()} cores meanwhile (load {load:.1f})"
    print(f"{name}: this machine is busy: others used {of_all}: {told}", flush=True)
    return anyway
