"""NCCL (NVIDIA Collective Communications Library), by CuPy: arrays go from GPU to GPU, each rank having one.

What is on the CPU goes by MPI, which also brings the ranks together: NCCL itself has no way to meet.
"""

from __future__ import annotations

from typing import Any

from .communicator import Communicator, Pending


class NCCLCommunicator(Communicator):
    """The processes of another communicator, which send arrays on GPUs by NCCL.

    A rank takes the GPU of its machine whose number is its own among the ranks there. Operations run on a stream of
    their own, beside the computation: `wait` does not wait, but has what is computed from then on come after.

    Args:
        others: sends all that is on the CPU.

    Raises RuntimeError where a machine has fewer GPUs than ranks.
    """

    def __init__(self, others: Communicator) -> None:
        import cupy
        from cupy.cuda import nccl

        self._cupy, self._others = cupy, others
        self.rank, self.size = others.rank, others.size
        places = others.gather_objects(_machine())
        number, gpus = places[: self.rank].count(places[self.rank]), cupy.cuda.runtime.getDeviceCount()
        if number >= gpus:
            raise RuntimeError(f"rank {self.rank} is number {number} on its machine, which has {gpus} GPUs")
        cupy.cuda.Device(number).use()
        identity = others.broadcast_object(nccl.get_unique_id() if self.rank == 0 else None)
        self._nccl = nccl.NcclCommunicator(self.size, identity, self.rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._sum, self._byte = nccl.NCCL_SUM, nccl.NCCL_UINT8
        self._types = {"float16": nccl.NCCL_FLOAT16, "float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64}

    def all_reduce(self, array: Any) -> Pending:
        if not isinstance(array, self._cupy.ndarray):
            return self._others.all_reduce(array)
        self._stream.wait_event(self._cupy.cuda.get_current_stream().record())
        pointer, kind = array.data.ptr, self._types[str(array.dtype)]
        self._nccl.allReduce(pointer, pointer, array.size, kind, self._sum, self._stream.ptr)
        return NCCLPending(self._cupy, self._stream.record(), array)

    def broadcast(self, array: Any, root: int = 0) -> None:
        if not isinstance(array, self._cupy.ndarray):
            self._others.broadcast(array, root)
            return
        stream = self._cupy.cuda.get_current_stream()
        pointer = array.data.ptr
        self._nccl.broadcast(pointer, pointer, array.nbytes, self._byte, root, stream.ptr)

    def broadcast_object(self, value: Any, root: int = 0) -> Any:
        return self._others.broadcast_object(value, root)

    def gather_objects(self, value: Any) -> list[Any]:
        return self._others.gather_objects(value)

    def barrier(self, *, patient: bool = False) -> None:
        self._cupy.cuda.get_current_stream().synchronize()
        self._others.barrier(patient=patient)

    def poke(self) -> None:
        self._others.poke()


class NCCLPending(Pending):
    """An operation on NCCL's stream."""

    def __init__(self, cupy: Any, event: Any, array: Any) -> None:
        self._cupy, self._event = cupy, event
        self._array = array  # its memory must not be another's before the operation is done

    def wait(self) -> None:
        self._cupy.cuda.get_current_stream().wait_event(self._event)


def _machine() -> str:
    import platform

    return platform.node()
