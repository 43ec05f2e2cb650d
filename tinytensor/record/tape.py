"""The tape: what a function of arrays computes, one line for each call of its namespace `xp`.

Ops, gradient rules and the engine compute through `xp` alone. `Recorded` is one more type of array, and `NAMES` its
namespace: a call of it computes nothing, and writes a line. So any function of arrays, and with the engine its
gradients as well, becomes one flat list that knows no layer.

    tape = record(lambda xp, x: xp.exp(x) / (1 + xp.exp(x)), [Like((8,), "float32")])
    print(tape)
    # v1 = exp(v0)
    # v2 = add(1, v1)
    # v3 = divide(v1, v2)

Shapes and dtypes are known while recording, numbers are not. A function that asks for a number, or calls a function
whose shape is not in the tables below, raises NotRecorded.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..backend import NAMESPACES, making
from ..backend import numpy as arrays

OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "neg": "negative", "invert": "bitwise_invert",
    "abs": "abs", "floordiv": "floor_divide", "mod": "remainder",
}  # fmt: skip
"""Python's operators, and the function of the namespace that each is."""

ELEMENTWISE = frozenset(OPERATORS.values()) | {
    "where", "exp", "expm1", "log", "log1p", "sqrt", "square", "reciprocal", "tanh", "sigmoid", "erf", "sign",
    "maximum", "minimum", "isnan", "isinf", "isfinite", "copysign", "floor", "ceil", "trunc", "round", "logical_and",
    "logical_or", "logical_not", "logaddexp",
}  # fmt: skip
"""Functions whose result has the shape to which their arguments broadcast."""

REDUCTIONS = frozenset({"sum", "mean", "prod", "max", "min"})
"""Functions (x, axis, dtype, keepdims) over some axes."""


class NotRecorded(RuntimeError):
    """The function cannot be written down; the message says why."""

    is_expected = True  # somebody else computes it, so nobody reports a failure

    def __init__(self, why: str) -> None:
        super().__init__(why)
        if making.refused is not None:
            making.refused.append(why)


class Like(NamedTuple):
    """The shape and the dtype of an array that a function is recorded for."""

    shape: tuple[int, ...]
    dtype: Any


class Flags(NamedTuple):
    """What NumPy's `flags` say of an array."""

    writeable: bool


class Line:
    """One call: the name of the function in `xp`, its arguments and options, and the array that it gives.

    Attributes:
        operands: the recorded arrays among the arguments and options.
    """

    __slots__ = ("arguments", "name", "operands", "options", "result")

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any], result: Recorded) -> None:
        self.name, self.arguments, self.options, self.result = name, arguments, options, result
        self.operands = list(_flat((arguments, options)))

    def __str__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.result} = {self.name}({', '.join([*map(str, self.arguments), *options])})"


class Tape:
    """Lines in the order in which they were written.

    Args:
        takes_all: whether functions that are not in the tables of this file are written down as well, with the shape
            and the dtype that they give for zeros; and arrays that the function makes, each by the call that makes it.

    Attributes:
        lines: all of them; `needed` leaves out what nobody reads.
        inputs: the arrays that the function was given.
        results: the arrays that it returned.
        numbers: the numbers that it was given.
        conditions: what held of them when it asked; for other numbers it may take another branch.
        checks: results of calls that nobody reads: they raise an error, or nothing.
        decide: says if a recorded condition holds; without it, nothing can branch on one.
        rewrite: returns the array that replaces the result of a line before it is written, or None.
    """

    def __init__(self, takes_all: bool = False) -> None:
        self.takes_all = takes_all
        self.checks: list[Recorded] = []
        self.decide: Callable[[Recorded], bool] | None = None
        self.rewrite: Callable[..., Recorded | None] | None = None
        self.makers: dict[Recorded, Line] = {}
        self.lines: list[Line] = []
        self.inputs: list[Recorded] = []
        self.results: list[Recorded] = []
        self.numbers: list[Number] = []
        self.conditions: list[str] = []
        self._count = 0
        self._known: dict[Any, Recorded] = {}

    def input(self, like: Any) -> Recorded:
        """One more array that the function is given."""
        array = self._array(tuple(like.shape), np.dtype(like.dtype))
        self.inputs.append(array)
        return array

    def number(self, value: float) -> Number:
        """One more number that the function is given."""
        self.numbers.append(Number(self, f"n[{len(self.numbers)}]", value))
        return self.numbers[-1]

    def formulas(self, numbers: Sequence[float]) -> tuple[str, Callable[[Sequence[float]], tuple[Any, ...]]]:
        """A function of other numbers than the tape's: computes the given ones anew, then if all conditions hold.

        Returned is its text as well: for other numbers it is the same, unless the function took one for good.
        """
        texts = [*map(repr, numbers), " and ".join(self.conditions) or "True"]
        text = f"lambda n: ({', '.join(texts)},)"
        return text, eval(text, {"inf": math.inf, "nan": math.nan})

    def _array(self, shape: tuple[int, ...], dtype: Any) -> Recorded:
        self._count += 1
        return Recorded(self, self._count - 1, shape, dtype)

    def write(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any], shape: Any, dtype: Any) -> Recorded:
        """One more line; the same call twice is one line."""
        if self.rewrite and (found := self.rewrite(name, arguments, options)) is not None:
            return found
        key = (name, shape, np.dtype(dtype), *map(identity, arguments), *map(identity, options.items()))
        if key not in self._known:
            self._known[key] = made = self._array(shape, np.dtype(dtype))
            self.makers[made] = Line(name, arguments, options, made)
            self.lines.append(self.makers[made])
        return self._known[key]

    def call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A line that calls a function of the namespace which is not in the tables."""
        masks = [x for x in _flat(arguments[1:2]) if x.dtype.char == "?"] if name in ("getitem", "scatter") else ()
        if name in DEPENDS_ON_NUMBERS or masks:
            raise NotRecorded(f"the shape of xp.{name} depends on numbers")
        try:
            with np.errstate(all="ignore"):
                found = call(name, *_zeros(arguments), **_zeros(options))
        except Exception as error:
            raise NotRecorded(f"xp.{name} of zeros fails: {error}") from error
        if found is None and name.startswith("check_range"):
            self.checks.append(self.write(name, arguments, options, (), np.bool_))
            return None
        if not isinstance(found, (np.ndarray, np.generic)):
            raise NotRecorded(f"xp.{name} gives no array")
        return self.write(name, arguments, options, found.shape, found.dtype)

    def made(self, name: str, *arguments: Any, **options: Any) -> Any:
        """An array that a function of the namespace makes, from recorded arrays or from none."""
        if next(_flat((arguments, options)), None) is not None:
            return _call(name, *arguments, **options)
        if _has_arrays(arguments, 0):
            raise NotRecorded("it makes a Tensor of a list or an array; pass a Tensor as an argument")
        if name in ("full", "zeros", "ones", "empty"):
            shape, number = (tuple(arguments[0]), *arguments[1:], name == "ones")[:2]
            dtype = np.dtype(options["dtype"])
            return self.write("full", (dtype.type(number),), {"shape": shape}, shape, dtype)
        return self.call(name, arguments, options)

    def needed(self, results: Sequence[Recorded], given: Sequence[Recorded] = ()) -> list[Line]:
        """The lines that lead to some results, if some arrays are given."""
        wanted, lines, there = set(results), [], set(given)
        for line in reversed(self.lines):
            if line.result in wanted and line.result not in there:
                lines.append(line)
                wanted.update(line.operands)
        return lines[::-1]

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


def record(function: Callable[..., Any], likes: Sequence[Any], *others: Any, **options: Any) -> Tape:
    """The tape of `function(xp, *arrays, *others, **options)`, for arrays of these shapes and dtypes.

    Raises NotRecorded, with the reason, if it asks for numbers or calls what the tables of this file lack.
    """
    tape = Tape()
    found = function(NAMES, *[tape.input(like) for like in likes], *others, **options)
    tape.results = list(found) if isinstance(found, (tuple, list)) else [found]
    return tape


class Recorded:
    """An array of a tape: its place there, its shape and its dtype, but no numbers."""

    __slots__ = ("dtype", "place", "shape", "tape")
    __array_ufunc__ = None  # so that `ndarray * Recorded` asks the Recorded
    __hash__ = object.__hash__
    base = None
    flags = Flags(writeable=False)  # who writes to it moves on to another

    def __init__(self, tape: Tape, place: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.tape, self.place, self.shape, self.dtype = tape, place, shape, dtype

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    def __str__(self) -> str:
        return f"v{self.place}"

    __repr__ = __str__

    def __len__(self) -> int:
        return self.shape[0]

    def astype(self, dtype: Any, copy: bool = True) -> Recorded:
        return NAMES.astype(self, dtype)

    def reshape(self, *shape: Any) -> Recorded:
        return NAMES.reshape(self, shape[0] if len(shape) == 1 else shape)

    def _no_number(self, *_: Any) -> Any:
        raise NotRecorded("it asks for a number")

    def __bool__(self) -> bool:
        return self.tape.decide(self) if self.tape.decide else self._no_number()

    def item(self) -> Any:
        return bool(self) if self.dtype.char == "?" else self._no_number()

    __int__ = __float__ = __index__ = __iter__ = tolist = __setitem__ = _no_number

    def __getitem__(self, key: Any) -> Any:
        return _call("getitem", self, key) if self.tape.takes_all else self._no_number()


for _method, _name in OPERATORS.items():
    setattr(Recorded, f"__{_method}__", lambda self, *other, _name=_name: _call(_name, self, *other))
    setattr(Recorded, f"__r{_method}__", lambda self, other, _name=_name: _call(_name, other, self))


class Number(float):
    """A number that a recorded function is given: it computes as one, and keeps how, as text over the list `n`.

    A function of `math` gets its value alone, and so what it gives belongs to this value: see `Tape.formulas`.
    """

    __array_ufunc__ = None  # an array that has numbers would take the value alone
    tape: Tape
    text: str

    def __new__(cls, tape: Tape, text: str, value: float) -> Number:
        number = super().__new__(cls, value)
        number.tape, number.text = tape, text
        return number

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__
    __hash__ = float.__hash__

    def __neg__(self) -> Number:
        return Number(self.tape, f"(-{self})", -float(self))

    def __bool__(self) -> bool:
        return self != 0

    def _compute(self, name: str, other: Any, is_turned: bool = False) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        left, right = (other, self) if is_turned else (self, other)
        value = getattr(operator, name)(float(left), float(right))
        return Number(self.tape, f"({_told(left)} {SIGNS[name]} {_told(right)})", value)

    def _compare(self, name: str, other: Any) -> bool:
        found: bool = getattr(operator, name)(float(self), other)
        self.tape.conditions.append(f"({self} {SIGNS[name]} {other!r}) is {found}")
        return found


def _told(number: float) -> str:
    return repr(number) if isinstance(number, Number) else f"({number!r})"  # (-2) ** n is not -2 ** n


SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
for _method in SIGNS:
    setattr(Number, f"__{_method}__", functools.partialmethod(Number._compute, _method))
    setattr(Number, f"__r{_method}__", functools.partialmethod(Number._compute, _method, is_turned=True))
for _method in COMPARISONS:
    setattr(Number, f"__{_method}__", functools.partialmethod(Number._compare, _method))
SIGNS |= COMPARISONS


def _flat(value: Any) -> Iterator[Recorded]:
    if isinstance(value, Recorded):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict):
        yield from _flat(tuple(value.values()))


def identity(value: Any) -> Any:
    """What tells two arguments apart: 1, 1.0 and True are three, and so are 0.0, -0.0 and NaN."""
    if isinstance(value, (tuple, list)):
        return type(value), *map(identity, value)
    if isinstance(value, slice):
        return slice, value.start, value.stop, value.step
    return type(value), repr(value) if isinstance(value, (float, np.floating)) else value


# ---- the namespace


class Names:
    """The `xp` that a recorded function gets. Without a recorded array among its arguments a call is NumPy's."""

    device = "cpu"

    def __init__(self, tape: Tape | None = None) -> None:
        self.tape = tape  # that takes what is made without a recorded array

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr(arrays, name, None), ModuleType):
            raise NotRecorded(f"xp.{name} is not in the tables of tinytensor/record/tape.py")
        return functools.partial(_call, name) if self.tape is None else functools.partial(self.tape.made, name)

    def storage(self, x: Any) -> int:
        return id(x)

    def to_numpy(self, x: Recorded) -> Recorded:
        return x if x.size == 1 else x._no_number()

    def read_only(self, x: Any) -> Any:
        return x  # nothing writes to it

    def is_view(self, x: Any) -> bool:
        return False

    def adopt(self, values: list[Any]) -> None:
        """Write down the arrays of one number that the function made, such as zeros; others are an error."""
        tape = next(_flat(values)).tape
        if tape.takes_all:
            raise NotRecorded("it makes an array of numbers, or reads one that it was not given")
        for i, value in enumerate(values):
            if isinstance(value, np.ndarray):
                bits = np.ascontiguousarray(value).view(f"V{value.itemsize}").ravel()
                if not value.size or (bits != bits[0]).any():
                    raise NotRecorded("it makes an array itself")
                number = value.dtype.type(value.flat[0])
                values[i] = tape.write("full", (number,), {"shape": value.shape}, value.shape, value.dtype)


NAMES: Any = Names()
NAMESPACES[Recorded] = NAMES


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """What a line computes, with arrays for the recorded ones."""
    return arguments[0][arguments[1]] if name == "getitem" else getattr(arrays, name)(*arguments, **options)


DEPENDS_ON_NUMBERS = {"nonzero", "unique", "flatnonzero", "argwhere", "extract", "compress", "bincount"}


def _zeros(value: Any) -> Any:
    """The same, with zeros for the recorded arrays."""
    if isinstance(value, Recorded):
        return np.zeros(value.shape, value.dtype)
    if isinstance(value, (tuple, list)):
        return type(value)(map(_zeros, value))
    return {name: _zeros(each) for name, each in value.items()} if isinstance(value, dict) else value


def _has_arrays(value: Any, least: int) -> bool:
    """True if an array of `least` dimensions is among the arguments that is not a recorded one."""
    if isinstance(value, (tuple, list)):
        return any(_has_arrays(each, least) for each in value)
    return isinstance(value, np.ndarray) and value.ndim >= least


def _call(name: str, *arguments: Any, **options: Any) -> Any:
    known = next(_flat((arguments, options)), None)
    if known is None:
        return call(name, *arguments, **options)
    takes_all = known.tape.takes_all
    if _has_arrays((arguments, tuple(options.values())), 0 if takes_all else 1):
        raise NotRecorded(f"xp.{name} meets an array that it was not given")
    if options.get("out") is not None:
        raise NotRecorded(f"xp.{name} writes into an array")
    if name in ELEMENTWISE and not options:
        shape = np.broadcast_shapes(*[value.shape for value in arguments if isinstance(value, Recorded)])
        return known.tape.write(name, arguments, {}, shape, _dtype(name, *arguments))
    if name in REDUCTIONS:
        return _reduce(name, *arguments, **options)
    if name in OTHERS:
        return OTHERS[name](*arguments, **options)
    if takes_all:
        return known.tape.call(name, arguments, options)
    raise NotRecorded(f"xp.{name} is not in the tables of tinytensor/record/tape.py")


def _dtype(name: str, *arguments: Any) -> Any:
    """The dtype of a result, from the function itself on single elements; Python's numbers take that of the arrays."""
    with np.errstate(all="ignore"):
        return getattr(arrays, name)(*map(sample, arguments)).dtype


def sample(value: Any) -> Any:
    """A single element, or a number, for NumPy to tell a dtype from."""
    if isinstance(value, Recorded):
        return np.ones((), value.dtype)
    return float(value) if isinstance(value, Number) else value


def _reduce(name: str, x: Recorded, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(sorted(i % x.ndim for i in axes))
    if dtype is not None:
        x = NAMES.astype(x, dtype)
    if name == "mean":
        count = math.prod(x.shape[i] for i in axes)
        total: Any = _reduce("sum", x, axes, None, keepdims)
        return total / (count or math.nan)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    found = x.tape.write(name, (x,), {"axis": axes}, kept, x.dtype)
    return found if keepdims else _squeeze(found, axes)


def _shaped(x: Recorded, shape: tuple[int, ...]) -> Recorded:
    return x if shape == x.shape else x.tape.write("reshape", (x,), {"shape": shape}, shape, x.dtype)


def _reshape(x: Recorded, shape: Any) -> Recorded:
    shape = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
    known = math.prod(n for n in shape if n != -1)
    return _shaped(x, tuple(x.size // max(known, 1) if n == -1 else n for n in shape))


def _squeeze(x: Recorded, axis: Any) -> Recorded:
    axes = {i % x.ndim for i in ((axis,) if isinstance(axis, int) else axis)}
    return _shaped(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def _expand_dims(x: Recorded, axis: int) -> Recorded:
    place = axis % (x.ndim + 1)
    return _shaped(x, (*x.shape[:place], 1, *x.shape[place:]))


def _broadcast_to(x: Recorded, shape: Any) -> Recorded:
    return x if tuple(shape) == x.shape else x.tape.write("broadcast_to", (x,), {}, tuple(shape), x.dtype)


def _astype(x: Recorded, dtype: Any) -> Recorded:
    dtype = np.dtype(dtype)
    return x if dtype == x.dtype else x.tape.write("astype", (x,), {}, x.shape, dtype)


def _full_like(x: Recorded, value: Any, dtype: Any = None) -> Recorded:
    dtype = np.dtype(x.dtype if dtype is None else dtype)
    return x.tape.write("full", (dtype.type(value),), {"shape": x.shape}, x.shape, dtype)


def _flip(x: Recorded, axis: Any = None) -> Recorded:
    return x.tape.write("flip", (x,), {"axis": axis}, x.shape, x.dtype)


def _permute(x: Recorded, axes: Any) -> Recorded:
    axes = tuple(i % x.ndim for i in axes)
    if axes == tuple(range(x.ndim)):
        return x
    return x.tape.write("permute_dims", (x,), {"axes": axes}, tuple(x.shape[i] for i in axes), x.dtype)


def _moveaxis(x: Recorded, source: int, destination: int) -> Recorded:
    axes = [i for i in range(x.ndim) if i != source % x.ndim]
    axes.insert(destination % x.ndim, source % x.ndim)
    return _permute(x, axes)


def _scan(name: str, x: Recorded, axis: int, dtype: Any = None) -> Recorded:
    x = x if dtype is None else _astype(x, dtype)
    return x.tape.write(name, (x,), {"axis": (axis % x.ndim,)}, x.shape, x.dtype)


SCANS = ("cumulative_sum", "cumulative_prod")
"""Functions (x, axis, dtype) that give what they have added up so far, or multiplied."""

VIEWS = ("reshape", "flip", "permute_dims")
"""Names of lines whose result is a view of the array, or has its elements in another order."""

OTHERS: dict[str, Callable[..., Any]] = {
    "asarray": lambda x, dtype=None: x if dtype is None else _astype(x, dtype),
    "astype": _astype,
    "broadcast_to": _broadcast_to,
    "copy": lambda x: x.tape.write("copy", (x,), {}, x.shape, x.dtype),
    "expand_dims": lambda x, axis: _expand_dims(x, axis),
    "flip": _flip,
    "matrix_transpose": lambda x: _permute(x, (*range(x.ndim - 2), -1, -2)),
    "moveaxis": _moveaxis,
    "permute_dims": _permute,
    "full_like": _full_like,
    "ones_like": lambda x, dtype=None: _full_like(x, 1, dtype),
    "positive": lambda x: x.tape.write("copy", (x,), {}, x.shape, x.dtype),
    "reshape": _reshape,
    "squeeze": lambda x, axis: _squeeze(x, axis),
    "zeros_like": lambda x, dtype=None: _full_like(x, 0, dtype),
    **{name: functools.partial(_scan, name) for name in SCANS},
}
"""Functions that shape, cast or fill."""
