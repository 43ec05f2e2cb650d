"""The cores of this machine: how many this process may use, and how many of them other programs leave to it."""

from __future__ import annotations

import os
import time

WINDOW = 0.25  # seconds to measure over: the system counts idle time in hundredths of a second


def count() -> int:
    """The number of cores that this process may use: those it may run on, or fewer if its control group has a quota."""
    return max(1, int(min(len(_allowed()), quota())))


def quota() -> float:
    """The time that the control groups of this process grant it, in cores (Linux); infinite without a limit."""
    limits = [float("inf")]
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2: one tree for everything; every folder above counts
            names = path.strip("/").split("/")
            folders = ["/".join(["/sys/fs/cgroup", *names[:depth]]) for depth in range(len(names) + 1)]
            limits += [_quotient(_read(f"{folder}/cpu.max")) for folder in folders]
        elif "cpu" in controllers.split(","):
            for folder in (f"/sys/fs/cgroup/cpu{path}", "/sys/fs/cgroup/cpu"):  # a container sees its own as the root
                limits.append(_quotient(_read(f"{folder}/cpu.cfs_quota_us") + _read(f"{folder}/cpu.cfs_period_us")))
    return min(limits)


def used_by_others(seconds: float = WINDOW) -> float | None:
    """The number of cores that other programs use now, measured for `seconds`; None if the system does not tell."""
    allowed = _allowed()
    start, idle, own = time.monotonic(), idle_seconds(allowed), time.process_time()
    time.sleep(seconds)
    if not can_tell():
        return None
    wall = time.monotonic() - start
    free = (idle_seconds(allowed) - idle + time.process_time() - own) / wall
    return max(0.0, len(allowed) - free)


def can_tell() -> bool:
    """True if the system tells how long its cores were idle, and this process may use all of their idle time."""
    return idle_seconds(_allowed()) > 0 and quota() >= len(_allowed())


def idle_seconds(cores: set[int]) -> float:
    """The total seconds that these cores have been idle since the machine started; 0 if unknown."""
    ticks = 0
    for line in _read("/proc/stat").splitlines()[1:]:  # the first line is for all cores together
        name, *numbers = line.split()
        if not name.startswith("cpu"):
            break
        if int(name[3:]) in cores:
            ticks += int(numbers[3]) + int(numbers[4])  # idle, and waiting for a disk
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _quotient(text: str) -> float:
    """A quota divided by its period; infinite if there is no limit ("max", or -1) or no such file."""
    words = text.split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else float("inf")
