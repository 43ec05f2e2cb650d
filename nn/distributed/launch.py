"""How a process learns, before loading MPI, whether `mpiexec` started it, and its rank."""

from __future__ import annotations

import os
from typing import NamedTuple

LAUNCHERS = (  # the environment variables that they set: MPICH, Intel MPI and Microsoft MPI; Open MPI
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)


class Place(NamedTuple):
    """The rank of this process, and the number of processes."""

    rank: int
    size: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"


def launched() -> Place | None:
    """The place of this process among those started together; None if it was started alone."""
    for rank, size in LAUNCHERS:
        if rank in os.environ and int(os.environ.get(size, 1)) > 1:
            return Place(int(os.environ[rank]), int(os.environ[size]))
    return None
