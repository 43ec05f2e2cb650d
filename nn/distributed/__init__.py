"""Processes that compute together, under the names of `torch.distributed`.

`mpiexec -n 4 python script.py` starts four processes, which MPI numbers: the ranks 0 to 3 of a process group.

    from tinytensor.nn import distributed as dist

    dist.init_process_group()
    print(dist.get_rank(), "of", dist.get_world_size())

Without `mpiexec` a process is alone, rank 0 of 1: the same script runs, and MPI is not loaded.
"""

from __future__ import annotations

import typing
from datetime import timedelta

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.in_place import is_writable

from .communicator import Communicator, Pending, RankError
from .launch import launched

__all__ = [
    "Communicator", "Pending", "RankError", "all_reduce", "barrier", "broadcast", "destroy_process_group", "get_rank",
    "get_world_size", "init_process_group", "is_initialized", "world",
]  # fmt: skip

TIMEOUT = 600.0  # seconds, as PyTorch's for NCCL

_world: Communicator | None = None


def init_process_group(backend: str | None = None, *, timeout: float | timedelta = TIMEOUT) -> Communicator:
    """Meet the other processes that `mpiexec` started.

    Args:
        backend: "mpi"; "nccl", which sends arrays on GPUs by NCCL and all else by MPI; default: "mpi".
        timeout: seconds that a rank waits for the others before RankError names those that do not answer.

    Returns the process group. Raises RuntimeError if there is one already, ValueError for another backend, and
    ImportError if mpi4py, an MPI or NCCL is missing.
    """
    global _world
    if _world is not None:
        raise RuntimeError("init_process_group: there is a process group already; destroy_process_group() ends it")
    if backend not in (None, "mpi", "nccl"):
        raise ValueError(f'init_process_group: unknown backend {backend!r}; expected "mpi" or "nccl"')
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if launched() is None:
        _world = Communicator()
    else:
        from .mpi import MPICommunicator

        _world = MPICommunicator(seconds)
        if backend == "nccl":
            from .nccl import NCCLCommunicator

            _world = NCCLCommunicator(_world)
    return _world


def destroy_process_group() -> None:
    """Forget the process group; `init_process_group` makes another."""
    global _world
    _world = None


def is_initialized() -> bool:
    """True if there is a process group."""
    return _world is not None


def world() -> Communicator:
    """The process group of all processes, made on first use."""
    return _world if _world is not None else init_process_group()


def get_rank() -> int:
    """The number of this process, from 0; 0 without a process group."""
    return 0 if _world is None else _world.rank


def get_world_size() -> int:
    """The number of processes; 1 without a process group."""
    return 1 if _world is None else _world.size


def all_reduce(tensor: Tensor) -> None:
    """Replace a Tensor, in place, by its sum over all ranks."""
    array = _writable(tensor)
    world().all_reduce(array).wait()
    tt.mark_written(array)


def broadcast(tensor: Tensor, src: int = 0) -> None:
    """Replace a Tensor, in place, by that of rank `src`."""
    array = _writable(tensor)
    world().broadcast(array, src)
    tt.mark_written(array)


def barrier() -> None:
    """Wait until all ranks are here."""
    world().barrier()


def _writable(tensor: Tensor) -> typing.Any:
    """The Tensor's array, after replacing one that is read-only or not contiguous by a copy."""
    if not is_writable(tensor) or not tensor._data.flags.c_contiguous:
        tensor._data, tensor._memory = tensor._data.copy(order="C"), None
    return tensor._data


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
