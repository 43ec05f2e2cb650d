"""Names for type hints: the arguments of the library's functions, and the ops that `op` makes.

With them your own function can say the same as those of the library:

    from tinytensor.typing import ArrayLike, Axis

    def centred(x: ArrayLike, axis: Axis = None) -> tt.Tensor:
        return tt.asarray(x) - tt.mean(x, axis=axis, keepdims=True)

Only type checkers check them, but for one kind: numbers that a constructor takes, which `fitted` holds against their
annotations while a program runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

import numpy as np

if TYPE_CHECKING:
    from .in_place import InPlace
    from .node import Node
    from .primitive import Primitive
    from .tensor import Tensor
    from .tensors.conversions import Conversions
    from .tensors.hooks import Hooks
    from .tensors.methods import Methods
    from .tensors.operators import Operators

__all__ = [
    "ArrayLike", "Axis", "DType", "Declaration", "Device", "Extended", "Op", "Operand", "PureFunction", "Shape",
    "SupportsArray", "SupportsDLPack",
]  # fmt: skip

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


class SupportsDLPack(Protocol):
    """An array of any library that speaks DLPack: of CuPy, PyTorch, JAX, ..."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsArray(Protocol):
    """An object that NumPy can turn into an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


Operand: TypeAlias = Union["Tensor", complex, np.ndarray[Any, Any], np.generic, SupportsDLPack]
"""The other operand of `+` and its like: a Tensor, a number, another library's array, but no list.

(To type checkers `complex` covers every Python number: a float is a complex number, and so are int and bool.)
"""

ArrayLike: TypeAlias = Operand | range | list[Any] | tuple[Any, ...] | SupportsArray
"""A value accepted as a Tensor: a Tensor, a number, nested lists of numbers, another library's array."""

DType: TypeAlias = np.dtype[Any] | type[Any] | str | None
"""A dtype: `tt.float32`, NumPy's `np.float32`, Python's `float`, a name, `"float32"`; None for the default."""

Axis: TypeAlias = int | tuple[int, ...] | list[int] | None
"""The dimensions that a function works over: one, several, or None for all; negative ones count from the end."""

Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""A shape: the lengths of all dimensions, or the one length of a vector."""

Device: TypeAlias = str | None
"""The device of a Tensor: `"cpu"`, `"gpu"`, or None for the device of its data; for numbers, the CPU."""

Extended: TypeAlias = Annotated[float, "or infinite"]
"""A number that may be infinite; where an annotation says float, `fitted` takes finite numbers alone."""

UNFIT = object()
"""The result of `fitted` for a value that an annotation does not take."""


def fitted(value: Any, kind: Any) -> Any:
    """The value as an annotation takes it, numbers as Python's; or UNFIT."""
    within, origin = get_args(kind), get_origin(kind)
    if kind in (int, float, Extended):
        return _number(value, kind)
    if kind is bool:
        return UNFIT if isinstance(value, str) else value
    if origin in (Union, UnionType):
        return next((found for each in within if (found := fitted(value, each)) is not UNFIT), UNFIT)
    if origin in (tuple, list, Sequence):
        met = list(value) if is_list(value) else []
        kinds = within if origin is tuple and ... not in within else within[:1] * len(met)
        found = [fitted(*each) for each in zip(met, kinds)]
        if not is_list(value) or len(met) != len(kinds) or any(each is UNFIT for each in found):
            return UNFIT
        is_same = isinstance(value, (list, tuple)) and all(map(operator.is_, met, found))
        return value if is_same else tuple(found) if origin is tuple else found
    return value if kind is Any or not isinstance(kind, type) or isinstance(value, kind) else UNFIT


def _number(value: Any, kind: Any) -> Any:
    if isinstance(value, (bool, str, bytes)) or getattr(value, "dtype", None) == np.bool_ or getattr(value, "ndim", 0):
        return UNFIT
    try:
        number = operator.index(value) if kind is int or isinstance(value, (int, np.integer)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return UNFIT
    return number if kind is int or abs(number) < math.inf or (kind is Extended and number == number) else UNFIT


def is_list(value: Any) -> bool:
    """True for several values in an order, also in an array."""
    return (
        isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)) and getattr(value, "ndim", 1) > 0
    )


class Op(Protocol[P]):
    """The op that `op` makes of a function: it takes the function's arguments, except `xp`, and gives a Tensor.

    Attributes:
        op: the record of the op.
        forward, backward: decorators that register the two halves of a fused op's fast pair.
    """

    __name__: str
    op: Primitive

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    def forward(self, function: F, /) -> F: ...
    def backward(self, function: F, /) -> F: ...


class PureFunction(Protocol[P]):
    """The forward function of a pure op, whose first parameter is called `xp`."""

    def __call__(self, xp: Any, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class Declaration(Protocol):
    """The result of `op(...)` with options or rules: it declares an op."""

    @overload
    def __call__(self, function: PureFunction[P], /) -> Op[P]: ...
    @overload
    def __call__(self, function: Callable[P, Any], /) -> Op[P]: ...


if TYPE_CHECKING:

    class Added(Operators, Methods, InPlace, Conversions, Hooks):
        """The parts that other files add to the Tensor."""

        __slots__ = ()

    class TensorCore:
        """The part of a Tensor in `tensor.py`, for the parts of the class in other files."""

        __slots__ = ("_data", "_memory", "_node")

        _data: Any
        _memory: Any
        _node: Node | None

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def device(self) -> str: ...
        @property
        def requires_grad(self) -> bool: ...
        @property
        def is_leaf(self) -> bool: ...
        def __array__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
