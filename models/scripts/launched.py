"""A script as one of the ranks that `mpiexec` started: only rank 0 prints, and if one of them fails, all end.

Each rank is two processes: the script, and its guardian, which waits for it. When a script is killed, or ends with an
exit code other than 0, its guardian makes the launcher end all ranks with this exit code; if it was killed, it prints
one line about it. No other line appears, since the launcher does not have to find out by itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import tinytensor as tt
from tinytensor.machine import cores
from tinytensor.nn import distributed
from tinytensor.nn.distributed.launch import Place, launched

DEFERENCE = 2.0  # seconds for rank 0 to report what happened, before another rank does
READING = 2.0  # seconds for the launcher to read a rank's output, before it is asked to end all
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of Linux


def as_rank(run: Callable[[], Any]) -> Any:
    """Call a script's `run`, which returns its exit code, as one of many ranks; or plainly if it was started alone."""
    place = launched()
    if place is None:
        return run()
    _guard(place)
    with _silenced(place) as told:
        try:
            code = run()
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
    if code in (0, None):
        if distributed.is_initialized():
            distributed.world().barrier(patient=True)  # while rank 0 reports
        return code
    if place.rank:
        time.sleep(DEFERENCE + place.rank / 2)  # only the lowest one prints, since it ends the others
        sys.stderr.write(f"{place}: {told.getvalue()}")
    _end(code if isinstance(code, int) else 1)


def share_cores() -> None:
    """Give each rank on this machine its share of the cores, unless TINYTENSOR_NUM_THREADS sets it."""
    ranks = int(os.environ.get("MPI_LOCALNRANKS") or os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or 1)
    if launched() is not None and "TINYTENSOR_NUM_THREADS" not in os.environ:
        tt.set_num_threads(max(1, cores.count() // ranks))


def _guard(place: Place) -> None:
    """Go on in a new process; this one waits for it."""
    if not hasattr(os, "fork"):  # Windows
        return
    guardian = os.getpid()
    if child := os.fork():
        for number in (signal.SIGINT, signal.SIGTERM):  # the launcher sends them to both processes
            signal.signal(number, signal.SIG_IGN)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            name = os.path.basename(sys.argv[0])
            print(f"{name}: {place} was killed by {signal.Signals(-code).name}; all end", file=sys.stderr, flush=True)
        if code:
            _tell_launcher(128 - code if code < 0 else code)
        os._exit(128 - code if code < 0 else code)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
        if os.getppid() != guardian:  # it died meanwhile
            os._exit(1)


def _tell_launcher(code: int) -> None:
    """Ask MPICH's launcher to end all ranks, by its protocol (PMI 1); other launchers find out by themselves."""
    if "PMI_FD" in os.environ:
        _wait_until_read()
        with contextlib.suppress(OSError):
            os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={code}\n".encode())


def _wait_until_read() -> None:
    """Wait, at most `READING` seconds, until the launcher has read the output: it reads nothing from ranks it ends."""
    try:
        import fcntl
        import termios
    except ImportError:  # Windows
        return
    latest = time.monotonic() + READING
    for pipe in (1, 2):
        with contextlib.suppress(OSError):  # not a pipe
            while any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))) and time.monotonic() < latest:
                time.sleep(0.01)


def _end(code: int) -> NoReturn:
    """End at once: MPI's own end would wait for ranks that wait for this one."""
    sys.stderr.flush()
    if not hasattr(os, "fork"):
        _tell_launcher(code)
    os._exit(code)


@contextlib.contextmanager
def _silenced(place: Place) -> Iterator[io.StringIO]:
    """Within it, ranks other than 0 print nothing. Yields their output on stderr."""
    told = io.StringIO()
    if place.rank == 0:
        yield told
        return
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(told):
        yield told
