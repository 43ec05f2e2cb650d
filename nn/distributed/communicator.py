"""The interface for sending between processes, implemented for a process that is alone."""

from __future__ import annotations

from typing import Any


class RankError(RuntimeError):
    """Ranks do not answer, or wait for different things; the message is one line and names them."""


class Pending:
    """An operation that has begun; this one is already done."""

    def wait(self) -> None:
        """Return when it is done. Raises RankError if others do not take part within the timeout."""


class Communicator:
    """A group of processes; this one is alone. Others are subclasses: MPI's, and NCCL's for arrays on GPUs.

    All ranks call the same methods in the same order, with arrays of the same shapes and dtypes. Arrays are raw,
    contiguous and writable; those to sum are of float32 or float64.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    rank = 0
    size = 1

    def all_reduce(self, array: Any) -> Pending:
        """Begin to replace an array by its sum over all ranks; do not touch it until `wait` returns."""
        return Pending()

    def broadcast(self, array: Any, root: int = 0) -> None:
        """Replace an array by that of rank `root`."""

    def broadcast_object(self, value: Any, root: int = 0) -> Any:
        """The `value` of rank `root`, on every rank: any object that can be pickled."""
        return value

    def gather_objects(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank, on every rank: any objects that can be pickled."""
        return [value]

    def barrier(self, *, patient: bool = False) -> None:
        """Wait until all ranks are here; if `patient`, without a timeout."""

    def poke(self) -> None:
        """Let pending operations move on: MPI only works while it is called."""
