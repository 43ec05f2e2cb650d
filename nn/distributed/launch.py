"""How a process learns, before MPI is loaded, that `mpiexec` started it, and as which one."""

from __future__ import annotations

import os
from typing import NamedTuple

LAUNCHERS = (  # what they set in the environment: MPICH, Intel MPI and Microsoft MPI; Open MPI
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)


class Place(NamedTuple):
    """Which of how many processes this is."""

    rank: int
    size: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"


def launched() -> Place | None:
    """The place of this process among those that were started together; None if it was started alone."""
    for rank, size in LAUNCHERS:
        if rank in os.environ and int(os.environ.get(size, 1)) > 1:
            return Place(int(os.environ[rank]), int(os.environ[size]))
    return None
