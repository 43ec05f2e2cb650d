"""`x[key]` as in PyTorch: integers select first, where NumPy counts them as arrays, whose axes come first."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import tinytensor as tt

from .speaking import speaks

_get: Any = tt.Tensor.__getitem__
_set: Any = tt.Tensor.__setitem__


def parts(key: Any) -> tuple[Any, Any] | None:
    """The key of the integers, and then that of the rest, where their order matters."""
    if type(key) is not tuple or not any(isinstance(part, (list, np.ndarray, tt.Tensor)) for part in key):
        return None
    key = tuple(tt.asarray(part) if isinstance(part, (list, np.ndarray)) else part for part in key)
    arrays = [i for i, part in enumerate(key) if isinstance(part, tt.Tensor) and (part.ndim or part.dtype.kind == "b")]
    fixed = [
        i for i, part in enumerate(key) if i not in arrays and hasattr(part, "__index__") and not isinstance(part, bool)
    ]
    taken = sorted(arrays + fixed)
    if not arrays or not fixed or taken[-1] - taken[0] < len(taken):
        return None
    first: list[Any] = []
    for i, part in enumerate(key):
        axes = part.ndim if i in arrays and part.dtype.kind == "b" else part is not None
        first += [part] if i in fixed or part is Ellipsis else [slice(None)] * axes
    return tuple(first), tuple([part for i, part in enumerate(key) if i not in fixed])


def __getitem__(self: Any, key: Any) -> Any:
    if (found := parts(key)) and speaks(sys._getframe(1)):
        return _get(_get(self, found[0]), found[1])
    return _get(self, key)


def __setitem__(self: Any, key: Any, value: Any) -> None:
    if (found := parts(key)) and speaks(sys._getframe(1)):
        key, value = found[0], tt.index_set(_get(self, found[0]), found[1], value)
    _set(self, key, value)
