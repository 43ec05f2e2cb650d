"""What the stand-in for CuPy does while a stream is captured: nothing is computed, and all is written down.

As on a GPU, what a function gives while it is captured holds no numbers. (Functions are called to learn the shape, and
what they gave is overwritten.) To read an array is an error, and so is what CuPy refuses: cuBLAS, which is reached by
`cupy_backends` then, and copies from the CPU, which would be repeated from memory that holds something else by then.
"""

import builtins
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

tape = None  # what is written down, while a stream is captured
kept = []  # arrays that it refers to, some by their addresses
fresh = []  # arrays that came into being meanwhile
listeners = []  # told when a capture begins, and when it ends


def capturing():
    return tape is not None


def keep(array):
    if capturing():
        kept.append(array)


def refuse_to_read():
    if capturing():
        raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")


def later(call):
    """Do it now, or write it down. Returns whether it was written down."""
    if capturing():
        tape.append(call)
        return True
    call()
    return False


def computed(function, args, kwargs):
    """`function(*args, **kwargs)` on NumPy arrays."""
    if not capturing():
        return function(*args, **kwargs)
    if function.__name__ in ("matmul", "dot", "einsum", "tensordot"):
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    if function.__name__ == "nonzero":
        refuse_to_read()
    if kwargs.get("out") is not None:
        tape.append(lambda: function(*args, **kwargs))
        return kwargs["out"]
    result = function(*args, **kwargs)
    arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray)]
    if isinstance(result, np.ndarray) and builtins.any(np.may_share_memory(result, x) for x in arrays):
        return result  # a view
    several = isinstance(result, (tuple, list))
    results = [np.asarray(x) for x in (result if several else [result])]
    fresh.extend(results)

    def again():
        found = function(*args, **kwargs)
        for own, value in zip(results, found if several else [found]):
            own[...] = value

    tape.append(again)
    return type(result)(results) if isinstance(result, list) else tuple(results) if several else results[0]


class Graph:
    def __init__(self, calls, kept):
        self._calls, self._kept = calls, kept

    def launch(self, stream=None):
        for call in self._calls:
            call()


class Stream:
    def __init__(self, non_blocking=False):
        self.ptr = 1

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def synchronize(self):
        refuse_to_read()

    def begin_capture(self, mode=0):
        global tape
        assert mode == runtime.streamCaptureModeRelaxed, "pools could ask for no memory"
        tape = []
        fresh.clear()
        for listen in listeners:
            listen(True)

    def end_capture(self):
        global tape
        graph, tape = Graph(tape, kept[:]), None
        kept.clear()
        for listen in listeners:
            listen(False)
        for array in fresh:
            array.fill({"f": np.nan, "c": np.nan, "b": True}.get(array.dtype.kind, 77))
        fresh.clear()
        return graph


class MemoryPool:
    def __init__(self, allocator=None):
        self.malloc = None


runtime = SimpleNamespace(
    streamCaptureModeRelaxed=2,
    CUDARuntimeError=RuntimeError,
    getDeviceProperties=lambda device: {"name": b"the stand-in for CuPy"},
)


def namespace():
    """What of `cupy.cuda` belongs here."""
    return {
        "Graph": Graph,
        "Stream": Stream,
        "MemoryPool": MemoryPool,
        "runtime": runtime,
        "using_allocator": lambda malloc: nullcontext(),
        "get_current_stream": lambda: SimpleNamespace(ptr=0),
        "device": SimpleNamespace(get_cublas_handle=lambda: 1, get_compute_capability=lambda: "90"),
    }
