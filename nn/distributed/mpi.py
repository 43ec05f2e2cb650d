"""MPI (Message Passing Interface Forum, 1994 to 2025), by mpi4py: processes on the cores of one or many machines.

MPI itself waits forever. Here a rank asks, again and again, whether an operation is done (which also lets MPI move on),
and answers meanwhile when another calls the roll. When it has waited too long, it calls the roll itself, and names the
ranks that do not answer: they are computing endlessly, stopped, or dead.
"""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np

from tinytensor.machine.extras import how_to_install

from .communicator import Communicator, Pending, RankError

SPIN = 0.05  # seconds to wait without a pause, since most waits are short
PAUSE = 0.001  # seconds between two checks after that
GRACE = 5.0  # seconds to answer the roll, or the timeout if that is shorter
CALL, ANSWER = 1, 2  # tags


class MPICommunicator(Communicator):
    """The processes that `mpiexec` started.

    Args:
        timeout: seconds after which a rank that waits calls the roll.

    Raises ImportError if mpi4py or an MPI is missing.
    """

    def __init__(self, timeout: float) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, but no MPI
            raise ImportError(
                f"MPI cannot be loaded ({' '.join(str(error).split())}); run: {how_to_install('distributed')}"
            ) from None
        self._mpi: Any = MPI
        self._group, self._side = MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Dup()
        self.rank, self.size, self.timeout = self._group.Get_rank(), self._group.Get_size(), timeout
        self._begun: list[MPIPending] = []

    def all_reduce(self, array: Any) -> MPIPending:
        pending = MPIPending(self, self._group.Iallreduce(self._mpi.IN_PLACE, array), array)
        self._begun.append(pending)
        return pending

    def broadcast(self, array: Any, root: int = 0) -> None:
        content = [array, array.nbytes, self._mpi.BYTE]
        MPIPending(self, self._group.Ibcast(content, root), array).wait()

    def broadcast_object(self, value: Any, root: int = 0) -> Any:
        content = np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL) if self.rank == root else b"", np.uint8)
        length = np.array([content.size], np.int64)
        self.broadcast(length, root)
        content = content.copy() if self.rank == root else np.empty(int(length[0]), np.uint8)
        self.broadcast(content, root)
        return pickle.loads(content.tobytes())

    def gather_objects(self, value: Any) -> list[Any]:
        return [self.broadcast_object(value, root) for root in range(self.size)]

    def barrier(self, *, patient: bool = False) -> None:
        MPIPending(self, self._group.Ibarrier(), None).wait(patient=patient)

    def poke(self) -> None:
        self._begun = [pending for pending in self._begun if not pending.is_done()]
        self._answer(waiting=False)

    # ---- who is there

    def _answer(self, *, waiting: bool) -> dict[int, bool]:
        """Answer ranks that call the roll. Returns, for each rank that sent a message, whether it is waiting."""
        heard = {}
        status = self._mpi.Status()
        while self._side.iprobe(status=status):
            source, tag = status.Get_source(), status.Get_tag()
            heard[source] = self._side.recv(source=source, tag=tag)
            if tag == CALL:
                self._side.isend(waiting, source, ANSWER)
        return heard

    def call_roll(self) -> None:
        """Raise RankError that names the ranks that do not answer, or if all wait for each other."""
        for other in range(self.size):
            if other != self.rank:
                self._side.isend(True, other, CALL)
        waits = {self.rank: True}
        end = time.monotonic() + min(GRACE, self.timeout)
        while time.monotonic() < end and len(waits) < self.size:
            waits |= self._answer(waiting=True)
            time.sleep(PAUSE)
        silent = [rank for rank in range(self.size) if rank not in waits]
        if silent:
            names = f"rank {silent[0]} does" if len(silent) == 1 else f"ranks {', '.join(map(str, silent))} do"
            raise RankError(f"{names} not answer; rank {self.rank} has waited for {self.timeout:g} seconds")
        if all(waits.values()):
            raise RankError(
                f"all {self.size} ranks wait for each other, since {self.timeout:g} seconds: they did not call the "
                "same operations in the same order"
            )


class MPIPending(Pending):
    """An operation of MPI that has begun."""

    def __init__(self, communicator: MPICommunicator, request: Any, array: Any) -> None:
        self._communicator, self._request = communicator, request
        self._array = array  # MPI reads and writes its memory until the operation is done

    def is_done(self) -> bool:
        """True if it is done; asking lets MPI move on."""
        return bool(self._request.Test())

    def wait(self, *, patient: bool = False) -> None:
        """As `Pending.wait`; if `patient`, never call the roll."""
        start = called = time.monotonic()
        while not self.is_done():
            now = time.monotonic()
            if now - start > SPIN:
                self._communicator._answer(waiting=True)
                time.sleep(PAUSE)
            else:
                time.sleep(0)  # for a rank on the same core
            if now - called > self._communicator.timeout and not patient:
                self._communicator.call_roll()
                called = time.monotonic()
