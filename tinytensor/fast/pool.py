"""Memory of large results, kept for the next ones: a pool that belongs to the library.

Every large array that is freed goes back to the operating system, and the next one of its size is fetched from there
page by page, zeroed. A training step needs the same sizes again and again. So what large results are written into is
lent from here, and comes back when the last array over it is gone. Nothing of the process is changed for it, as
`keep_memory` does, and no number: only where an array begins, which is at a line of the cache.

The pool is bounded by a share of the machine's memory, or of the container's: beyond it, arrays are NumPy's own. Where
memory runs out, what lies idle goes back to the system first. `TINYTENSOR_POOL=0` in the environment switches it off.
"""

from __future__ import annotations

import math
import os
import weakref
from collections import deque
from typing import Any

import numpy as np

from ..backend.numpy import OWNERS

LEAST = 1 << 16  # bytes: the C library keeps smaller arrays by itself
LINE = 64  # bytes of a line of the cache, where arrays begin
STEPS = 8  # sizes from a power of two to the next, to which sizes are rounded up
SHARE = 8  # of the machine's memory, one part in so many may be the pool's

_idle: dict[int, list[Memory]] = {}  # memory that nobody uses, by its size in bytes
_loans: dict[int, Loan] = {}  # those that have not come back, by their id
_returned: deque[Loan] = deque()  # and those that have, but do not lie idle yet
_held = 0  # bytes of the pool, lent or idle


class Memory(np.ndarray):
    """Bytes of the pool."""


class Lease(np.ndarray):
    """Memory on loan: the base of an array, and with it of the views of that array. It goes back with the last."""


class Loan(weakref.ref[Lease]):
    """Calls `_returned.append` when a lease is gone. No Python runs then, in which a Ctrl-C would be lost."""

    __slots__ = ("memory",)
    memory: Memory


def _most() -> int:
    """How many bytes the pool may hold."""
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
    if size < LEAST or size > MOST or (memory := _take(size)) is None:
        return np.empty(shape, dtype)
    lease = memory.view(Lease)
    loan = Loan(lease, _returned.append)
    loan.memory, _loans[id(loan)] = memory, loan
    return np.ndarray(shape, dtype, lease)


def empty_like(x: Any) -> Any:
    """As `np.empty_like`, a large array over memory of the pool."""
    return empty(x.shape, x.dtype) if x.nbytes >= LEAST and x.flags.c_contiguous else np.empty_like(x)


def _take(size: int) -> Memory | None:
    """Memory of so many bytes or a few more; None where the pool would hold too much."""
    global _held
    settle()
    size += -size % (1 << size.bit_length() - STEPS.bit_length())
    try:
        return _idle[size].pop()
    except (KeyError, IndexError):
        if _held + size > MOST:
            _forget()
    if _held + size > MOST:
        return None
    try:
        fetched = np.empty(size + LINE, np.uint8)
    except MemoryError:
        _forget()
        fetched = np.empty(size + LINE, np.uint8)
    _held += size
    start = -fetched.__array_interface__["data"][0] % LINE
    return fetched[start : start + size].view(Memory)


def settle() -> None:
    """Let what has come back lie idle."""
    try:
        while _returned:
            memory = _loans.pop(id(_returned.popleft())).memory
            _idle.setdefault(memory.size, []).append(memory)
    except IndexError:  # another thread was faster
        pass


def _forget() -> None:
    """Give all that lies idle back to the system."""
    global _held
    _idle.clear()
    _held = sum(loan.memory.size for loan in list(_loans.values()))
