"""Memory of large results, kept for the next ones: a pool that belongs to the library.

Every large array that is freed goes back to the operating system, and the next one of its size is fetched from there
page by page, zeroed. A training step needs the same sizes again and again. So what large results are written into is
lent from here, and comes back when the last array over it is gone. Nothing of the process is changed for it, as
`keep_memory` does, and no number: only where an array begins, which is at a line of the cache.

What lies idle is bounded by a share of the machine's memory, or of the container's; where memory runs out, it goes
back to the system first. `TINYTENSOR_POOL=0` in the environment switches it off.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from ..backend.numpy import OWNERS

LEAST = 1 << 16  # bytes: the C library keeps smaller arrays by itself
LINE = 64  # bytes of a line of the cache, where arrays begin
STEPS = 8  # sizes from a power of two to the next, to which sizes are rounded up
SHARE = 8  # of the machine's memory, one part in so many may lie idle

_idle: dict[int, list[Memory]] = {}  # memory that nobody uses, by its size in bytes
_idle_bytes = 0


class Memory(np.ndarray):
    """Bytes of the pool."""


class Lease(np.ndarray):
    """Memory on loan: the base of an array, and with it of the views of that array. It goes back with the last."""

    def __del__(self) -> None:
        if type(self.base) is Memory:  # and not a part or a copy of a lease, which somebody made of `array.base`
            _take_back(self.base)


def _most() -> int:
    """How many bytes may lie idle."""
    if os.environ.get("TINYTENSOR_POOL") == "0" or not hasattr(os, "sysconf"):
        return 0
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            there = min(there, int(limit.read()))
    except (OSError, ValueError):  # no control group, or one without a limit
        pass
    return there // SHARE


MOST = _most()


OWNERS.append(Lease)


def empty(shape: Any, dtype: Any = np.float64) -> Any:
    """As `np.empty`, a large array over memory of the pool."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * (math.prod(shape) if isinstance(shape, tuple) else shape)
    if size < LEAST or size > MOST:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _take(size).view(Lease))


def empty_like(x: Any) -> Any:
    """As `np.empty_like`, a large array over memory of the pool."""
    return empty(x.shape, x.dtype) if x.nbytes >= LEAST and x.flags.c_contiguous else np.empty_like(x)


def is_lent(x: Any) -> bool:
    """True if an array is the first over memory of the pool."""
    return type(x.base) is Lease


def _take(size: int) -> Memory:
    global _idle_bytes
    size += -size % (1 << size.bit_length() - STEPS.bit_length())
    try:
        memory = _idle[size].pop()
    except (KeyError, IndexError):
        try:
            fetched = np.empty(size + LINE, np.uint8)
        except MemoryError:
            _forget()
            fetched = np.empty(size + LINE, np.uint8)
        start = -fetched.__array_interface__["data"][0] % LINE
        return fetched[start : start + size].view(Memory)
    _idle_bytes -= size
    return memory


def _forget() -> None:
    """Give all that lies idle back to the system."""
    global _idle_bytes
    _idle.clear()
    _idle_bytes = 0


def _take_back(memory: Any) -> None:
    global _idle_bytes
    size = memory.size
    if _idle_bytes + size > MOST:
        _forget()
    _idle.setdefault(size, []).append(memory)
    _idle_bytes += size
