"""Functions of CuPy for the fast pairs, beside those in `backend/cupy.py`; and faster versions of a few of these.

`fast/__init__.py` adds all of it to that namespace, so that pairs reach it as `xp.name`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ..backend import cupy as namespace
from ..backend.numpy import check_range_at_once, out_of_range
from . import cublas, graphs, kernels
from .graphs import refuse


def kernel(name: str, *arrays: Any, size: int | None = None) -> Any:
    """A kernel of our own that does in one launch what several of CuPy's would, if there is one for these arrays."""
    found = getattr(kernels, name, None)
    return found if found is not None and kernels.fits(*arrays) else None


def fresh(shape: Any, dtype: Any = None) -> Any:
    return cupy.empty(shape, dtype=dtype)


def fresh_like(x: Any) -> Any:
    return cupy.empty_like(x)


def k_largest(x: Any, k: int) -> Any:
    return namespace.largest_places(x, k)


def contiguous(x: Any) -> Any:
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x).reshape(x.shape)


def bernoulli(p: float, shape: tuple[int, ...], generator: Any) -> Any:
    """Booleans that are true with probability p, drawn on the GPU from a seed that a `tt.random.Generator` gives.

    None where nothing compiles kernels.
    """
    if not kernels.available():
        return None
    recording = graphs.now.recording
    return kernels.bernoulli(p, shape, recording.draw(generator) if recording else graphs.seed(generator))


_sum = namespace.sum


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The namespace's, by a kernel of our own over leading axes, as gradients of biases and norms are added up."""
    axes = (axis,) if isinstance(axis, int) else axis
    is_leading = axes and axes == tuple(range(len(axes))) and len(axes) < x.ndim
    if not is_leading or dtype is not None or keepdims or not kernels.fits(x):
        return _sum(x, axis=axis, dtype=dtype, keepdims=keepdims)
    rest = x.shape[len(axes) :]
    return kernels.sum_of_rows(x.reshape(-1, math.prod(rest))).reshape(rest)


# ---- over the last axis, as softmax and layer normalisation need it; the results keep that axis, with length 1


def row_max(x: Any) -> Any:
    return cupy.max(x, axis=-1, keepdims=True)


def row_sum(x: Any) -> Any:
    return namespace.sum(x, axis=-1, keepdims=True)


def row_dot(a: Any, b: Any) -> Any:
    return namespace.sum(a * b, axis=-1, keepdims=True)


def in_parts(
    function: Any, rows: int, work: int, *, product: bool = False, width: int | None = None, most: int = 1
) -> None:
    """Call `function` for all rows at once: the GPU splits the work itself."""
    function(slice(0, rows))


# Ids are compared with their bounds on the GPU, and what was found is looked at where numbers are read anyway: to look
# at once would mean to wait for the GPU in every step. Beyond SLOTS different bounds it is looked at at once.

SLOTS = 64
_slots: dict[tuple[str, str, int], int] = {}
_asked: set[tuple[str, str, int]] = set()


@functools.cache
def _found() -> Any:
    """For each slot, whether an id was out of range, and such an id."""
    return cupy.zeros((SLOTS, 2), dtype=np.int64)


# ---- while a graph is recorded


def can_record() -> bool:
    """True if this CuPy records graphs, our kernels draw the masks of dropout, and nothing is being recorded."""
    return kernels.available() and hasattr(cupy.cuda, "Graph") and graphs.now.recording is None


def record(function: Callable[[], Any], memory: graphs.Memory) -> tuple[graphs.Recording | None, Any]:
    """All that a function asks of the GPU, to be launched at will, and what it returns; or None, and why there is none.

    Args:
        memory: from `memory_to_record`; recordings that never run at the same time may share one.
    """
    recording = graphs.Recording(memory)
    try:
        return recording, recording.record(function)
    except graphs.CannotRecord as reason:
        return None, str(reason)


def memory_to_record() -> graphs.Memory:
    """Memory for recordings."""
    return graphs.Memory()


def drawn(begin_at: int | None = None) -> int:
    """How many seeds the recording of this thread has drawn; those from `begin_at` on are drawn again then."""
    recording = graphs.now.recording
    assert recording is not None
    if begin_at is not None:
        recording.drawn = begin_at
    return recording.drawn


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    if graphs.now.recording is not None and cublas.fits(a, b):
        return cublas.matmul(a, b, out)
    return cupy.matmul(a, b, out=out)


product = matmul


def concat(arrays: Any, axis: int = 0) -> Any:
    """`cupy.concatenate`, which copies a table of addresses from the CPU where there are many arrays."""
    if graphs.now.recording is None:
        return cupy.concatenate(arrays, axis)
    first, axis = arrays[0], axis % arrays[0].ndim
    ends = list(itertools.accumulate(x.shape[axis] for x in arrays))
    shape = (*first.shape[:axis], ends[-1], *first.shape[axis + 1 :])
    out = cupy.empty(shape, dtype=np.result_type(*[x.dtype for x in arrays]))
    for x, end in zip(arrays, ends):
        out[(slice(None),) * axis + (slice(end - x.shape[axis], end),)] = x
    return out


def stack(arrays: Any, axis: int = 0) -> Any:
    """`cupy.stack`, likewise."""
    if graphs.now.recording is None:
        return cupy.stack(arrays, axis)
    return concat([cupy.expand_dims(x, axis) for x in arrays], axis % (arrays[0].ndim + 1))


def asarray(value: Any, dtype: Any = None) -> Any:
    if graphs.now.recording is not None and not isinstance(value, cupy.ndarray):
        if isinstance(value, (bool, int, float, complex, np.generic)):  # a number can go with a kernel
            return cupy.full((), value, dtype=dtype or np.asarray(value).dtype)
        refuse(f"it moves a {type(value).__name__} from the CPU to the GPU; make it an input of the step")
    return cupy.asarray(value, dtype=dtype)


def from_numpy(x: Any) -> Any:
    return asarray(x)


# ---- where the loops of the CPU differ


def loops_over(subject: str, *arrays: Any, size: int | None = None) -> None:
    """None: they are over what cuBLAS has kernels for, or takes a launch or two."""


def check_range(name: str, what: str, ids: Any, length: int) -> None:
    """See to it that IndexError is raised, when a number is read next, unless all ids are from 0 to length - 1."""
    key = (name, what, length)
    if kernels.available() and ids.dtype == np.int64 and ids.flags.c_contiguous and len(_slots | {key: 0}) <= SLOTS:
        kernels.look_for_outside(ids, length, _found()[_slots.setdefault(key, len(_slots))])
        _asked.add(key)
        if graphs.now.recording is not None:
            graphs.now.recording.before_launch.append(functools.partial(_asked.add, key))
        return
    check_range_at_once(name, what, ids, length)


def to_numpy(x: Any) -> Any:
    refuse("it reads numbers from the GPU, as item(), print and conditions do")
    if _asked:
        _tell_what_was_out_of_range()
    return cupy.asnumpy(x)


def _tell_what_was_out_of_range() -> None:
    found = cupy.asnumpy(_found())
    asked = sorted(_asked, key=_slots.__getitem__)
    _asked.clear()
    for name, what, length in asked:
        outside, value = found[_slots[name, what, length]].tolist()
        if outside:
            _found().fill(0)
            raise out_of_range(name, what, value, length)
