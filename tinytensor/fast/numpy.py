"""Functions of NumPy for the fast pairs, beside those in `backend/numpy.py`; and faster versions of a few of these.

`fast/__init__.py` adds all of it to that namespace, so that pairs reach it as `xp.name`.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from importlib import import_module
from typing import Any

import numpy as np

from ..backend.numpy import scatter
from ..backend.sums import LONG, accurate_matmul, accurate_sum
from .pool import empty as fresh
from .pool import empty_like as fresh_like  # noqa: F401
from .threads import SHARES, in_parts

loops: Any = None  # the module of that name, once `compile_loops` was called

LARGE = 1 << 14  # elements from which on the loops are used without that call
SHORT_ROW = 64  # up to here, many short rows are compared as few long ones
DOT_ROW = 512  # up to here, a product with ones adds up as accurately as pairwise summation does


def kernel(name: str, *arrays: Any, size: int | None = None) -> Any:
    """A function of our own that does in one pass what several of NumPy's would, if there is one for these arrays.

    The choice depends on the size alone (of all the work; default: of the first array), never on earlier calls, so that
    a resumed run gives the same bits.
    """
    room = _loops_for(arrays[0].size if size is None else size)
    found = getattr(room, name, None)
    return found if found is not None and room.fits(*arrays) else None


def _loops_for(size: int) -> Any:
    """The loops, for so many elements: after `compile_loops` for any number; else None."""
    return loops if loops is not None or size < LARGE else loops_unasked()


@functools.cache
def loops_unasked() -> Any:
    """The loops, where Numba is installed and they are not switched off; else None."""
    from importlib.util import find_spec  # only now: to load it takes longer than to load most files here

    if os.environ.get("TINYTENSOR_COMPILE_LOOPS") == "0" or find_spec("numba") is None:
        return None
    try:
        return load("loops")
    except ImportError:  # a Numba that does not go with this NumPy
        return None


_loading = threading.RLock()


@functools.cache
def load(name: str) -> Any:
    """A module of loops; only where they are to be used, since Numba takes half a second to load."""
    from .workers import InterruptsLater

    with InterruptsLater(), _loading:  # a Numba that is half loaded, or has half of its types, fails in every later use
        import_module(f"{__package__}.compiling").load_types()
        return import_module(f"{__package__}.{name}")


ASKED = ("attention", "convolution", "decoding")  # it takes seconds to compile these: they wait for `compile_loops`


def loops_over(subject: str, *arrays: Any, size: int | None = None) -> Any:
    """The module of loops over a subject, such as "sublayers", for these arrays (None is passed over); or None.

    Where it is not one of those ASKED for, the size decides, as in `kernel`.
    """
    there = loops if subject in ASKED else _loops_for(arrays[0].size if size is None else size)
    room = there and load(subject)
    return room if room and room.fits(*arrays) else None


def dropping(p: float = 0.0, key: int = 0) -> Any:
    """Dropout that hashes a key and each element's number, as the loops over sub-layers do."""
    from .hashed import Dropping  # only now: `import tinytensor` needs none

    return Dropping(p, key)


def contiguous(x: Any) -> Any:
    return x if x.flags.c_contiguous else np.ascontiguousarray(x).reshape(x.shape)


def k_largest(x: Any, k: int) -> Any:
    """Where the k largest of each row of x (rows, n) are, from the largest on, the first of equal ones first."""
    bound = np.partition(x, -k, axis=1)[:, -k, None]
    row, place = np.nonzero(~(x < bound))  # NaN is no smaller than anything
    row, place = row[::-1], place[::-1]
    order = np.lexsort((x[row, place], -row))[::-1]  # turned twice: descending, yet equal ones in their order
    first = np.searchsorted(row[order], np.arange(len(x)))
    return place[order[first[:, None] + np.arange(k)]]


def product(a: Any, b: Any, out: Any) -> Any:
    """a @ b of matrices; a column by a row takes NumPy a fifth of BLAS's time."""
    return np.multiply(a, b, out) if len(b) == 1 else accurate_matmul(a, b, out)


ROWS = 192  # of a product that a share has at least: each share copies the whole other matrix for BLAS's loops
FLOPS = 16  # multiplications and additions that take as long as an element-wise operation


def large_matmul(a: Any, b: Any) -> Any:
    """a @ b of arrays of which one is large, on our threads: each computes some matrices, or some rows of one."""
    if min(a.ndim, b.ndim) < 2 or a.dtype != b.dtype or a.dtype.char not in "fd" or a.shape[-1] > LONG:
        return accurate_matmul(a, b)
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return accurate_matmul(a, b)  # raises it with the shapes
    out = fresh((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    work = out.size * a.shape[-1] // FLOPS
    turn_a, turn_b = (x.ndim == out.ndim and (not batch or len(x) == len(out)) for x in (a, b))
    wide = not batch and out.shape[1] > len(out)  # then each share has some columns

    def multiply_some(i: slice) -> None:
        if wide:
            accurate_matmul(a, b[:, i], out[:, i])
        else:
            accurate_matmul(a[i] if turn_a else a, b[i] if turn_b and batch else b, out[i])

    length = out.shape[1] if wide else len(out)
    in_parts(multiply_some, length, work, product=True, most=SHARES if batch else length // ROWS)
    return out


def large_scatter(values: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a shape with large `values` added at `key`; rows or elements that arrays number in one pass."""
    rest, places = shape[len(key) :], _places(key, shape)
    if places is not None:
        whole = (*places.shape, *rest)
        values = values if values.shape == whole else np.broadcast_to(values, whole).copy()
        rows = contiguous(values).reshape(places.size, -1)
        if add_rows := kernel("add_rows", rows):
            found = add_rows(rows, places.reshape(-1), math.prod(shape[: len(key)]))
            return found if found.shape == shape else found.reshape(shape)  # no view, which would be copied
    return scatter(values, key, shape)


def _places(key: Any, shape: tuple[int, ...]) -> Any:
    """The row numbers that integer arrays mean, one array for each leading axis; None for other keys."""
    if not key or not all(isinstance(part, np.ndarray) and part.dtype.kind in "iu" and part.size for part in key):
        return None
    places: Any = 0
    for part, length in zip(key, shape):
        low, high = part.min(), part.max()
        if low < -length or high >= length:
            return None  # `scatter` raises the error
        part = part.astype(np.int64, copy=False)
        places = places * length + (part if low >= 0 else np.where(part < 0, part + length, part))
    return places


# ---- over the last axis, as softmax and layer normalisation need it; the results keep that axis, with length 1


def row_max(x: Any) -> Any:
    length = x.shape[-1]
    if not 0 < length <= SHORT_ROW:
        return np.maximum.reduce(x, axis=-1, keepdims=True)
    # NumPy's loop over many short rows costs more than turning them round and comparing long ones.
    turned = np.ascontiguousarray(x.reshape(-1, length).T)
    return np.maximum.reduce(turned, axis=0).reshape(*x.shape[:-1], 1)


def row_sum(x: Any) -> Any:
    length = x.shape[-1]
    if not 0 < length <= DOT_ROW or length == 5:  # OpenBLAS's AVX-512 loop for 5 columns may warn of garbage
        return accurate_sum(x, -1 % x.ndim, None, True)
    return accurate_matmul(x.reshape(-1, length), np.ones(length, x.dtype)).reshape(*x.shape[:-1], 1)


def row_dot(a: Any, b: Any) -> Any:
    return np.einsum("...i,...i->...", a, b)[..., None]
