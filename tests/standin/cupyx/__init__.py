"""The part of `cupyx` that is used, over the stand-in for CuPy."""

import cupy
import numpy as np
from linalg_of_cupy import errstate

_COMPARED = (np.int32, np.float32, np.float64, np.uint32, np.uint64)
_ADDED = (*_COMPARED, np.float16)


def _scatter(function, known, a, slices, value):
    """Of several values for one place the last comes first: atomic operations keep no order."""
    key, value = cupy._key(a._array, slices), cupy._raw(value)
    if not cupy._names_places(key):
        function.at(a._array, key, value)
        return
    if a.dtype.type not in known:
        raise TypeError(f"scatter_{function.__name__} does not support {a.dtype}")
    places = np.arange(a.size).reshape(a.shape)[key]
    values = np.broadcast_to(value, places.shape).astype(a.dtype)
    whole = a._array.ravel()
    function.at(whole, places.ravel()[::-1], values.ravel()[::-1])
    a._array[...] = whole.reshape(a.shape)


def scatter_add(a, slices, value):
    _scatter(np.add, _ADDED, a, slices, value)


def scatter_max(a, slices, value):
    _scatter(np.maximum, _COMPARED, a, slices, value)
