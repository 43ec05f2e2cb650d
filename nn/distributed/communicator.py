"""What processes send each other: the interface, as a process that is alone has it."""

from __future__ import annotations

from typing import Any


class RankError(RuntimeError):
    """Ranks do not answer, or wait for different things; the message is one line and names them."""


class Pending:
    """An operation that has begun; here, one that is done."""

    def wait(self) -> None:
        """Return when it is done. Raises RankError where others do not take part in it within the timeout."""


class Communicator:
    """A group of processes; this one is alone. Others are subclasses: MPI's, and NCCL's for arrays on GPUs.

    All ranks call the same methods in the same order, with arrays of the same shapes and dtypes. Arrays are raw ones,
    contiguous and writable; those that are added up are of float32 or float64.

    Attributes:
        rank: the number of this process, from 0.
        size: how many processes there are.
    """

    rank = 0
    size = 1

    def all_reduce(self, array: Any) -> Pending:
        """Begin to replace an array by its sum over all ranks; it is not to be touched until `wait`."""
        return Pending()

    def broadcast(self, array: Any, root: int = 0) -> None:
        """Replace an array by the one of rank `root`."""

    def broadcast_object(self, value: Any, root: int = 0) -> Any:
        """What rank `root` gives: anything that can be pickled."""
        return value

    def gather_objects(self, value: Any) -> list[Any]:
        """What each rank gives, by rank, on every rank: anything that can be pickled."""
        return [value]

    def barrier(self, *, patient: bool = False) -> None:
        """Wait until all ranks are here; if `patient`, for ever."""

    def poke(self) -> None:
        """Let operations move on that have begun: MPI does its work while it is called."""
