"""Random bits that need no memory: a hash of each element's number says whether dropout keeps it.

Whoever needs the mask again, as a gradient does, computes it again from the key. The same lines serve whole arrays of
NumPy and, compiled, the loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def keeps(number: Any, low: Any, high: Any, below: Any) -> Any:
    """True for the elements to keep, by their numbers (uint32): for all but `below` in 2^32.

    Two rounds of multiplying by an odd number and folding the high bits onto the low ones, as in MurmurHash3's
    finalizer (Appleby 2011) with Wellons' constants (2018); each round meets half of the key.
    """
    x = np.uint32(number ^ low)
    x = np.uint32(x ^ np.uint32(x >> np.uint32(16)))
    x = np.uint32(np.uint32(x * np.uint32(0x7FEB352D)) ^ high)
    x = np.uint32(x ^ np.uint32(x >> np.uint32(15)))
    x = np.uint32(x * np.uint32(0x846CA68B))
    x = np.uint32(x ^ np.uint32(x >> np.uint32(16)))
    return x >= below


class Dropping:
    """Dropout of an array with a probability, by a key of 64 bits; nothing is dropped with probability 0.

    Attributes:
        numbers: (low, high, below), as `keeps` takes them.
        scale: 1 / (1 - p), a factor of what is kept.
    """

    def __init__(self, p: float = 0.0, key: int = 0) -> None:
        self.numbers = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32), np.uint32(min(p, 1 - 2**-32) * 2**32)
        self.scale = 1 / (1 - p) if p < 1 else 0.0

    def __bool__(self) -> bool:
        return bool(self.numbers[2])

    def mask(self, shape: tuple[int, ...]) -> Any:
        """Which elements of an array of this shape are kept."""
        return keeps(np.arange(np.prod(shape, dtype=int), dtype=np.uint32), *self.numbers).reshape(shape)
