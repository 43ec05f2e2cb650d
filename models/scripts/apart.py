"""Run somebody else's program in a separate process, with limits of time, of memory and of output.

    outcome = run_apart([sys.executable, "answers.py"], seconds=10, megabytes=1024, folder=Path("runs/ada"))
    print(outcome.ended, outcome.code, outcome.out)  # out of time None ...

These limits are for programs that go wrong, and for simple cheats. They are not a sandbox: the program has the rights
of the user who starts it, so it can read files, write elsewhere and use the network, and each process that it starts
gets as much memory again. Run programs that you do not trust in a container, or as a user who may do nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

NEEDED = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT", "COMSPEC", "PATHEXT")
"""Variables that a program gets from ours; others may be secrets."""

FINISHED, EXITED_EARLY, OUT_OF_TIME, OUT_OF_MEMORY, KILLED = (
    "finished", "exited early", "out of time", "out of memory", "killed",
)  # fmt: skip

_NO_MEMORY = ("MemoryError", "std::bad_alloc", "Cannot allocate memory", "Memory allocation still failed")
"""The last words of Python, NumPy, C++, the system and OpenBLAS where there is no more."""

_LIMIT = """
import os, resource, sys
memory, seconds, *command = sys.argv[1:]
for name, most in (("AS", int(memory)), ("CPU", int(seconds)), ("CORE", 0)):
    if most >= 0:
        try:
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
        except (AttributeError, ValueError, OSError):
            pass
os.execvp(command[0], command)
"""
"""A limit that the system does not know, or that is lower already, is left as it is."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        ended: "finished"; "exited early", without the file that a whole run leaves; "out of time"; "out of memory"; or
            "killed", by a signal that is not ours.
        code: the exit code; None if a signal ended the program, ours or another.
        out, errors: what it printed on stdout and on stderr, as far as it was kept.
        seconds: how long it ran.
    """

    ended: str
    code: int | None
    out: str
    errors: str
    seconds: float


def run_apart(
    command: list[str],
    *,
    seconds: float,
    megabytes: int | None = None,
    folder: Path,
    leaves: Path | None = None,
    environment: Mapping[str, str] | None = None,
    characters: int = 100_000,
) -> Outcome:
    """Run a program until it ends or its time is up; it, and the processes it started, are then ended.

    Args:
        command: the program and its arguments.
        seconds: its time. A process that left the group of the program outlives this, and ends, but on Windows, when
            it has computed for as long on every core.
        megabytes: its memory (address space, of which NumPy alone takes some 500). Held on Linux; macOS and Windows
            have no such limit, and there this is ignored.
        folder: where it runs, its home, and where its temporary files go.
        leaves: a file that a whole run has written at its end; without it the run exited early.
        environment: variables in addition to the few that every program needs; the program gets no others.
        characters: how much is kept of what it prints on stdout, and on stderr. The rest is read and dropped.

    Raises OSError if the program cannot be started.
    """
    started = time.monotonic()
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"there is no program {command[0]}")
    process = subprocess.Popen(
        _limited(command, seconds, megabytes),
        cwd=folder,
        env=_variables(folder, environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=os.name == "posix",  # a separate process group, which one signal kills
    )
    streams = [_Kept(stream, characters) for stream in (process.stdout, process.stderr) if stream]
    in_time = True
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        in_time = False
    finally:
        _kill(process)
    took = time.monotonic() - started
    out, errors = (stream.text() for stream in streams)
    code = process.returncode
    if not in_time:
        return Outcome(OUT_OF_TIME, None, out, errors, took)
    if code and any(words in errors[-1000:] for words in _NO_MEMORY):
        return Outcome(OUT_OF_MEMORY, max(code, 0) or None, out, errors, took)
    if code < 0:
        return Outcome(KILLED, None, out, errors, took)
    early = leaves is not None and not leaves.exists()
    return Outcome(EXITED_EARLY if early else FINISHED, code, out, errors, took)


def _variables(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: what Python needs, and a home and a place for temporary files in its folder."""
    ours = {name: value for name, value in os.environ.items() if name in NEEDED or name.startswith("TINYTENSOR_")}
    home = str(folder.resolve())
    homes = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), home)
    packages = {"PYTHONUSERBASE": site.getuserbase()}  # which Python would look for in its home
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # each thread takes address space
    return {**ours, **homes, **packages, **one_thread, "PYTHONIOENCODING": "utf-8:backslashreplace", **more}


def _limited(command: list[str], seconds: float, megabytes: int | None) -> list[str]:
    """A command that sets limits and then becomes this one, where the system has limits."""
    if os.name != "posix":
        return command
    most = [str(-1 if megabytes is None else megabytes << 20), str(int(seconds + 2) * (os.cpu_count() or 1))]
    return [sys.executable, "-I", "-S", "-c", _LIMIT, *most, *command]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and the processes in its group, and wait for it."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left of the group
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    process.wait()


class _Kept:
    """The beginning of what a stream gives; the rest is read, so that the program does not wait, and dropped."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most = stream, most
        self._begun, self._dropped = bytearray(), 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while piece := os.read(self._stream.fileno(), 65536):
                room = self._most - len(self._begun)
                self._begun += piece[:room]
                self._dropped += max(0, len(piece) - room)

    def text(self) -> str:
        self._thread.join(1.0)  # a process that left the group may hold the stream open
        more = f"\n... and {self._dropped} bytes more" if self._dropped else ""
        return bytes(self._begun).decode("utf-8", "replace").replace("\r\n", "\n") + more
