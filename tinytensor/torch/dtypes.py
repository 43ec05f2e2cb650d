"""The dtypes of PyTorch's results, where tinytensor's are different."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

import tinytensor as tt

from .speaking import speaks

RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
OPERANDS = """
    add addcdiv addcmul atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp clip
    copysign div divide floor_divide fmax fmin fmod hypot inner lerp logaddexp max maximum min minimum mul multiply
    nextafter pow remainder sub subtract true_divide where xlogy
""".split()  # noqa: SIM905
"""Functions whose operands get one dtype."""
OPERATORS = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()  # noqa: SIM905
SUMS = "cumprod cumsum nansum prod sum trace".split()  # noqa: SIM905
KEPT = "conj hardtanh index_fill masked_fill relu relu6 threshold".split()  # noqa: SIM905


def settled(values: Any) -> Any:
    """The operands; a Tensor without dimensions takes the dtype of those that have some, unless its kind is higher."""
    tensors = [x for x in values if isinstance(x, tt.Tensor)]
    decisive = [x for x in tensors if x.ndim]
    if len(decisive) in (0, len(tensors)):
        return values
    dtype = tt.result_type(*decisive)

    def cast(x: Any) -> Any:
        is_weak = isinstance(x, tt.Tensor) and not x.ndim and RANKS[x.dtype.kind] <= RANKS[dtype.kind]
        return tt.astype(x, dtype, copy=False) if is_weak else x

    return [cast(x) for x in values]


def of_operands(function: Any) -> Any:
    """The function, whose operands are `settled`."""

    def call(*args: Any, **by: Any) -> Any:
        ready = settled([*args, *by.values()])
        return function(*ready[: len(args)], **dict(zip(by, ready[len(args) :])))

    return wraps(function)(call)


def operator(ours: Any) -> Any:
    """An operator of a Tensor, which settles its operands for those who speak PyTorch."""

    def call(self: Any, other: Any) -> Any:
        if isinstance(other, tt.Tensor) and other.dtype != self.dtype and not (self.ndim and other.ndim):
            self, other = settled([self, other]) if speaks(sys._getframe(1)) else (self, other)
        return ours(self, other)

    return wraps(ours)(call)


def sum_of(function: Any) -> Any:
    """The function, whose result for unsigned integers is signed."""

    def call(x: Any, *args: Any, dtype: Any = None, **by: Any) -> Any:
        found = function(x, *args, **(by if dtype is None else {**by, "dtype": dtype}))
        return tt.astype(found, tt.int64) if dtype is None and found.dtype.kind == "u" else found

    return wraps(function)(call)


def kept(function: Any) -> Any:
    """The function, whose result for integers and booleans has their dtype."""

    def call(x: Any, *args: Any, **by: Any) -> Any:
        found = function(x, *args, **by)
        return tt.astype(found, x.dtype, copy=False) if getattr(x, "dtype", found.dtype).kind in "biu" else found

    return wraps(function)(call)


def truth(function: Any) -> Any:
    """The function, whose truth values for uint8 are uint8."""

    def call(x: Any, *args: Any, **by: Any) -> Any:
        found = function(x, *args, **by)
        return tt.astype(found, x.dtype) if x.dtype == tt.uint8 else found

    return wraps(function)(call)


CHANGES = (
    dict.fromkeys(OPERANDS, of_operands)
    | dict.fromkeys(SUMS, sum_of)
    | dict.fromkeys(KEPT, kept)
    | dict.fromkeys(("all", "any"), truth)
)
"""What changes functions of these names."""
