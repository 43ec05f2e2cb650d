"""Arrays of a library that is not NumPy: they find the code in an op that calls NumPy itself instead of `xp`.

They compute as NumPy's do, but only by the functions of their own namespace, and with no NumPy array as an operand.
Arrays on a GPU are like this: functions of NumPy, SciPy or Python's `math` refuse them or bring them to the CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..backend import numpy as numpy_backend

BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
COMPARISONS = "lt le gt ge eq ne"
UNARY = "neg pos abs invert"
ARRAYS_IN = ("asarray", "array", "from_numpy")
"""The functions that accept a NumPy array."""


class NotItsOwn(TypeError):
    """NumPy was called with an array that is not NumPy's."""


class OtherArray:
    """An array that NumPy knows nothing of; `values` is what it holds."""

    __slots__ = ("__weakref__", "values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotItsOwn("a function outside of xp made a NumPy array of what it was given")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        # `np.float64(2) * x` arrives as np.multiply, and does no harm: scalars are NumPy's everywhere.
        if method == "__call__" and not options and any(isinstance(x, np.generic) for x in inputs):
            return wrapped(ufunc(*map(_own, inputs)))
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise NotItsOwn("a NumPy array met an array of xp")
        if getattr(np, ufunc.__name__, None) is ufunc:
            raise NotItsOwn(f"np.{ufunc.__name__} was called instead of xp.{ufunc.__name__}")
        raise NotItsOwn(f"{ufunc.__name__} of another library was called, not a function of xp")

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        raise NotItsOwn(f"np.{function.__name__} was called instead of xp.{function.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy asks for its own protocols, such as __array_interface__
            raise AttributeError(name)
        found = getattr(self.values, name)
        return lifted(found) if callable(found) and not isinstance(found, np.ndarray) else wrapped(found)

    def __getitem__(self, key: Any) -> Any:
        return wrapped(self.values[_own(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[_own(key)] = _own(value)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __repr__(self) -> str:
        return f"OtherArray({self.values!r})"


def wrapped(value: Any) -> Any:
    """A result, with arrays in it as arrays of this library."""
    if isinstance(value, (tuple, list)):
        return type(value)([wrapped(v) for v in value]) if type(value) in (tuple, list) else tuple(map(wrapped, value))
    return OtherArray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _own(value: Any) -> Any:
    """An argument as NumPy takes it; a NumPy array is refused."""
    if isinstance(value, np.ndarray):
        raise NotItsOwn("a NumPy array met an array of xp; make arrays with xp, as xp.asarray(values)")
    if type(value) in (tuple, list):
        return type(value)([_own(v) for v in value])
    if isinstance(value, slice):
        return slice(_own(value.start), _own(value.stop), _own(value.step))
    return value.values if isinstance(value, OtherArray) else value


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of these."""

    def on_others(*args: Any, **kwargs: Any) -> Any:
        return wrapped(function(*map(_own, args), **{name: _own(value) for name, value in kwargs.items()}))

    return on_others


class OtherNamespace:
    """The functions of these arrays, those of the NumPy backend. `used` are the names that were asked for."""

    device = "another device"
    ndarray = OtherArray

    def __init__(self, module: ModuleType = numpy_backend) -> None:
        self.module = module
        self.used: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        self.used[name] = None
        if isinstance(found, ModuleType):
            return OtherNamespace(found)
        if not callable(found) or isinstance(found, type):
            return found
        return _from_anything(found) if name in ARRAYS_IN else lifted(found)


def _from_anything(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(value: Any, *args: Any, **kwargs: Any) -> Any:
        value = value if isinstance(value, np.ndarray) else _own(value)
        return wrapped(function(value, *args, **kwargs))

    return made


def _operator(name: str) -> Callable[..., Any]:
    compute = getattr(operator, f"__{name}__")
    return lambda self, *others: wrapped(compute(self.values, *map(_own, others)))


def _reflected(name: str) -> Callable[..., Any]:
    compute = getattr(operator, f"__{name}__")
    return lambda self, other: wrapped(compute(_own(other), self.values))


def _in_place(name: str) -> Callable[..., Any]:
    change = getattr(operator, f"__i{name}__")

    def changed(self: OtherArray, other: Any) -> OtherArray:
        self.values = change(self.values, _own(other))
        return self

    return changed


for _name in BINARY.split():
    setattr(OtherArray, f"__{_name}__", _operator(_name))
    setattr(OtherArray, f"__r{_name}__", _reflected(_name))
    setattr(OtherArray, f"__i{_name}__", _in_place(_name))
for _name in (*COMPARISONS.split(), *UNARY.split()):
    setattr(OtherArray, f"__{_name}__", _operator(_name))
