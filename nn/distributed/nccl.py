"""NCCL (NVIDIA Collective Communications Library), by CuPy: arrays go from GPU to GPU, one per rank.

Data on the CPU goes by MPI, through which the ranks also meet: NCCL itself has no way to do that.
"""

from __future__ import annotations

from typing import Any

from .communicator import Communicator, Pending

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")


class NCCLCommunicator(Communicator):
    """The processes of another communicator, sending arrays on GPUs by NCCL.

    Rank i of those on a machine takes its GPU i, so make arrays on a GPU only afterwards, and in the thread that made
    this object. Operations run on their own stream, beside the computation: `wait` does not block, but makes later
    computations on the GPU wait for the operation.

    Args:
        others: sends everything on the CPU.

    Raises RuntimeError if a machine has fewer GPUs than ranks, and ImportError if NCCL, which does not come with CuPy,
    is missing.
    """

    def __init__(self, others: Communicator) -> None:
        import cupy
        from cupy.cuda import nccl

        if not nccl.available:
            raise ImportError(
                "NCCL cannot be loaded; run: pip install nvidia-nccl-cu12 (beside cupy-cuda12x; "
                "beside cupy-cuda13x: nvidia-nccl-cu13)"
            )
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
        self._types = {name: getattr(nccl, f"NCCL_{name.upper()}") for name in TYPES}

    def all_reduce(self, array: Any) -> Pending:
        if not isinstance(array, self._cupy.ndarray):
            return self._others.all_reduce(array)
        kind = self._types.get(str(array.dtype))
        if kind is None:
            raise TypeError(f"all_reduce: NCCL adds {', '.join(TYPES)}, got an array of {array.dtype}")
        pointer, stream = array.data.ptr, self._after_what_is_computed()
        self._nccl.allReduce(pointer, pointer, array.size, kind, self._sum, stream.ptr)
        return NCCLPending(self._cupy, stream.record(), array)

    def broadcast(self, array: Any, root: int = 0) -> None:
        if not isinstance(array, self._cupy.ndarray):
            self._others.broadcast(array, root)
            return
        pointer, stream = array.data.ptr, self._after_what_is_computed()
        self._nccl.broadcast(pointer, pointer, array.nbytes, self._byte, root, stream.ptr)
        NCCLPending(self._cupy, stream.record(), array).wait()

    def _after_what_is_computed(self) -> Any:
        """One stream for all operations, in the same order on every rank, after all computations started so far."""
        self._stream.wait_event(self._cupy.cuda.get_current_stream().record())
        return self._stream

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
        self._array = array  # keeps its memory from being reused before the operation is done

    def wait(self) -> None:
        self._cupy.cuda.get_current_stream().wait_event(self._event)


def _machine() -> str:
    import platform

    return platform.node()
