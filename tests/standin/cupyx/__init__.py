"""The part of `cupyx` that is used, over the stand-in for CuPy."""

import cupy
import numpy as np
from linalg_of_cupy import errstate

_ADDED = (np.int32, np.float16, np.float32, np.float64, np.complex64, np.complex128, np.uint32, np.uint64)
_COMPARED = (np.int32, np.float32, np.float64, np.uint32, np.uint64)


def _scatter(function, known, a, slices, value):
    key = cupy._key(a._array, slices)
    if cupy._names_places(key) and a.dtype.type not in known:
        raise TypeError(f"scatter_{function.__name__} does not support {a.dtype}")
    function.at(a._array, key, cupy._raw(value))


def scatter_add(a, slices, value):
    _scatter(np.add, _ADDED, a, slices, value)


def scatter_max(a, slices, value):
    _scatter(np.maximum, _COMPARED, a, slices, value)
