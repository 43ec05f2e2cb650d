"""Arrays that write down how they are computed: the parts of a printed program.

To the ops and to the engine, `Traced` is the array type of one more backend, and `Namespace` its module. An
operation on such an array becomes an expression in NumPy's own names. The array also holds what this gives, its value,
so that rules may ask for shapes and dtypes, and branch on numbers where these are known.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..backend import NAMESPACES
from ..backend import numpy as backend

INFIX = {
    "add": ("+", "add"), "subtract": ("-", "sub"), "multiply": ("*", "mul"), "divide": ("/", "truediv"),
    "floor_divide": ("//", "floordiv"), "remainder": ("%", "mod"), "matmul": ("@", "matmul"), "pow": ("**", "pow"),
    "bitwise_and": ("&", "and"), "bitwise_or": ("|", "or"), "bitwise_xor": ("^", "xor"),
    "bitwise_left_shift": ("<<", "lshift"), "bitwise_right_shift": (">>", "rshift"), "equal": ("==", "eq"),
    "not_equal": ("!=", "ne"), "less": ("<", "lt"), "less_equal": ("<=", "le"), "greater": (">", "gt"),
    "greater_equal": (">=", "ge"),
}  # fmt: skip
"""Functions that Python has a sign for: the sign, and the name of its method."""

HELPERS = {
    "erf": "from scipy.special import erf",
    "special": "from scipy import special",
    "sigmoid": '''\
def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)''',
    "scatter": '''\
def scatter(values, key, shape):
    """Zeros with values added at x[key]: the transpose of reading x[key]."""
    x = np.zeros(shape, dtype=values.dtype)
    np.add.at(x, key, values)
    return x''',
    "replace": '''\
def replace(x, key, values):
    """A copy of x in which x[key] = values."""
    x = np.array(x)
    x[key] = values
    return x''',
    "argsort_descending": '''\
def argsort_descending(x, axis):
    """Indices that sort in descending order, equal elements in their original order."""
    turned = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - np.flip(turned, axis)''',
}
"""The functions that NumPy lacks, by name: a program that uses one begins with its text."""

SPACE: dict[str, Any] = {"np": np, "erf": backend.erf, "special": backend.special}
"""The names in an expression, besides its arrays."""
for _helper in HELPERS.values():
    if _helper.startswith("def"):
        exec(_helper, SPACE)


@dataclass(eq=False)
class Section:
    """The arrays that one op, or one gradient rule, wrote."""

    backward: bool = False
    place: str = ""  # the module and the fused op around it
    title: str = ""
    arrays: list[Traced] = field(default_factory=list)


class Trace:
    """A program in the making: its sections in order, and the arrays it takes from outside."""

    def __init__(self) -> None:
        self.sections = [Section()]
        self.arguments: list[Traced] = []

    def argument(self, value: Any, known: bool, hint: str) -> Traced:
        """An array that comes from outside."""
        array = Traced(self, [], value, known, ("argument",))
        array.hint, array.pinned = hint, True
        self.arguments.append(array)
        return array

    def write(self, value: Any) -> list[str | Traced]:
        """The text of a value, with places for the arrays in it."""
        if isinstance(value, Traced):
            return [value]
        if isinstance(value, np.ndarray):
            text = _literal(value)
            return [text] if text else [self.argument(value, True, "")]
        if isinstance(value, (tuple, list)):
            first, last = "()" if isinstance(value, tuple) else "[]"
            parts: list[str | Traced] = [first]
            for item in value:
                parts += [*self.write(item), ", "]
            return [*parts, last]
        text = _scalar(value)
        return [f"({text})" if text.startswith("-") else text]

    def write_key(self, key: Any) -> list[str | Traced]:
        """The text of a key, for the square brackets behind an array."""
        parts: list[str | Traced] = []
        for part in key if isinstance(key, tuple) else (key,):
            parts += [", "] * bool(parts)
            if isinstance(part, slice):
                ends = ["" if end is None else str(end) for end in (part.start, part.stop, part.step)]
                parts.append(":".join(ends if part.step is not None else ends[:2]))
            elif isinstance(part, np.ndarray) and part.ndim and 0 < part.size <= SMALL and not _rule(part):
                parts.append(_nested(part.tolist()))
            else:
                parts += self.write(part)
        return parts or ["()"]


class Traced:
    """An array of a program: an expression, a value, and its section.

    Attributes:
        parts: the expression, text with places for other arrays.
        value: a NumPy array of its shape and dtype.
        known: True if these are the real numbers; else they are placeholders.
        form: the kind of expression and its operands, from which shorter ones can be made.
        section: the section that it was written in.
        pinned: True if it has a line of its own, whatever uses it.
        hint: a name for it.
        gradient_of: the array whose gradient it is, or is a part of.
    """

    __array_ufunc__ = None  # so that `ndarray * Traced` asks the Traced
    __hash__ = object.__hash__
    base = None
    flags = SimpleNamespace(c_contiguous=True)

    def __init__(self, trace: Trace, parts: list[str | Traced], value: Any, known: bool, form: tuple[Any, ...]) -> None:
        self.trace, self.parts, self.value, self.known, self.form = trace, parts, value, known, form
        self.section = trace.sections[-1]
        self.section.arrays.append(self)
        self.pinned = False
        self.hint = ""
        self.gradient_of: Traced | None = None

    @property
    def operands(self) -> list[Traced]:
        return [part for part in self.parts if isinstance(part, Traced)]

    shape: Any = property(operator.attrgetter("value.shape"))
    dtype: Any = property(operator.attrgetter("value.dtype"))
    ndim: Any = property(operator.attrgetter("value.ndim"))
    size: Any = property(operator.attrgetter("value.size"))
    itemsize: Any = property(operator.attrgetter("value.itemsize"))

    @property
    def T(self) -> Traced:
        return NAMESPACE.permute_dims(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Traced:
        return _matrix_transpose(self)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _number(self) -> Any:
        if not self.known:
            raise RuntimeError(f"print_backward: an op decides by a number that {UNKNOWN}")
        return self.value

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    __index__ = __int__

    def item(self) -> Any:
        return self._number().item()

    def tolist(self) -> Any:
        return self._number().tolist()

    def view(self) -> Traced:
        return self

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return alias(self)
        return _express([self, f".astype({_scalar(dtype)})"])

    def reshape(self, *shape: Any) -> Traced:
        return _reshape(self, shape[0] if len(shape) == 1 else shape)

    def __getitem__(self, key: Any) -> Traced:
        return _express([self, "[", *self.trace.write_key(key), "]"])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("print_backward: an op writes into an array; its functions may only make new ones")

    def __neg__(self) -> Traced:
        return _express(["-", self])

    def __pos__(self) -> Traced:
        return alias(self)

    def __invert__(self) -> Traced:
        return _express(["~", self])

    def __abs__(self) -> Traced:
        return NAMESPACE.abs(self)

    def __iadd__(self, other: Any) -> Traced:
        """Add in place, as the engine adds the later gradients: this array becomes the sum."""
        former = copy.copy(self)
        arrays = former.section.arrays
        arrays[[a is self for a in arrays].index(True)] = former
        total = former + other
        self.__dict__ = total.__dict__
        total.section.arrays[-1] = self
        return self


def _infix(name: str, left: Any, right: Any) -> Any:
    if name == "pow" and type(right) is int and right == 1:
        return alias(left)
    array = left if isinstance(left, Traced) else right
    if type(right) is float and name in ("multiply", "divide") and left.form[0] == "expand" and not left.pinned:
        _, source, axes = left.form  # scaled before the axes come back, so that `broadcast_to` may leave them out
        return _expand(_infix(name, source, right), axes)
    parts = [*array.trace.write(left), f" {INFIX[name][0]} ", *array.trace.write(right)]
    return _express(parts, (name, left, right))


for _name, (_, _method) in INFIX.items():
    setattr(Traced, f"__{_method}__", lambda self, other, name=_name: _infix(name, self, other))
    setattr(Traced, f"__r{_method}__", lambda self, other, name=_name: _infix(name, other, self))


def _flat(value: Any) -> Iterator[Traced]:
    if isinstance(value, Traced):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)


UNKNOWN = "the graph does not hold; give the Tensors that it was computed from in names="


def _express(parts: list[str | Traced], form: tuple[Any, ...] = ("other",)) -> Any:
    """A new array from its text, with the value that this text gives."""
    arrays = [part for part in parts if isinstance(part, Traced)]
    values = {f"x{i}": part.value for i, part in enumerate(parts) if isinstance(part, Traced)}
    known = all(a.known for a in arrays)
    try:
        with np.errstate(all="ignore"):
            value = eval("".join(x if isinstance(x, str) else f"x{i}" for i, x in enumerate(parts)), SPACE, values)
    except np.linalg.LinAlgError as error:
        if known:
            raise
        raise RuntimeError(f"print_backward: an op needs numbers ({error}) that {UNKNOWN}") from error
    value = value if isinstance(value, tuple) else np.asarray(value)
    return Traced(arrays[0].trace, parts, value, known, form)


def tidy(text: str) -> str:
    """An expression without needless brackets."""
    return ast.unparse(ast.parse(text, mode="eval"))


def alias(x: Traced) -> Traced:
    """Another name for an array."""
    return Traced(x.trace, [x], x.value, x.known, ("alias", x))


def _call(text: str, *arguments: Any, form: tuple[Any, ...] = (), **options: Any) -> Any:
    """`text(arguments, options)`, without the options that are off."""
    trace = next(_flat((arguments, tuple(options.values())))).trace
    parts: list[str | Traced] = [f"{text}("]
    for value in arguments:
        parts += [*trace.write(value), ", "]
    for name, value in options.items():
        if value is not None and value is not False:
            parts += [f"{name}=", *trace.write(value), ", "]
    return _express([*parts, ")"], form or ("call", text.partition(".")[0]))


# ---- the namespace


class Namespace:
    """The `xp` that ops get: NumPy's functions, written down; without a traced array, they only compute."""

    device = "cpu"

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name in ("fft", "linalg", "special") and not self._prefix:
            return Namespace(f"{name}.")
        return partial(_function, self._prefix + name)

    def adopt(self, arrays: list[Any]) -> None:
        """Turn the plain arrays in a list, which a formula made itself, into arguments, in the list itself."""
        trace = next(_flat(arrays)).trace
        for i, array in enumerate(arrays):
            if isinstance(array, np.ndarray):
                arrays[i] = trace.argument(array, True, "")

    def storage(self, x: Any) -> int:
        return id(x)

    def read_only(self, x: Any) -> Any:
        return x  # an expression, which nothing writes to

    def to_numpy(self, x: Any) -> Any:
        return x._number() if isinstance(x, Traced) else x


NAMESPACE: Any = Namespace()
NAMESPACES[Traced] = NAMESPACE


def _function(name: str, *arguments: Any, **options: Any) -> Any:
    compute = operator.attrgetter(name)(backend)
    if next(_flat((arguments, tuple(options.values()))), None) is None:
        return compute(*arguments, **options)
    if name in SPELLINGS:
        return SPELLINGS[name](*arguments, **options)
    if name in INFIX:
        return _infix(name, *arguments)
    if name.startswith("special."):
        return _call(name, *arguments)
    try:
        same = operator.attrgetter(name)(np) is compute
    except AttributeError:
        same = False
    if not same or "out" in options:
        raise NotImplementedError(f"print_backward: xp.{name}{'(out=...)' * same} cannot be written as a NumPy program")
    return _call(f"np.{name}", *arguments, **options)


def _reduction(name: str, x: Traced, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    shown = None if axes == tuple(range(x.ndim)) else axes[0] if len(axes) == 1 else axes
    options = {"dtype": dtype} if dtype is not None and dtype != x.dtype else {}
    form = ("reduction", name, x, axes, dtype) if keepdims else ("other",)
    return _call(f"np.{name}", x, axis=shown, **options, keepdims=keepdims, form=form)


def _running(name: str, x: Traced, axis: int, dtype: Any = None) -> Any:
    options = {"dtype": dtype} if dtype is not None and dtype != x.dtype else {}
    return _call(f"np.{name}", x, axis=axis, **options)


def _reshape(x: Traced, shape: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if -1 in shape:
        shape = x.value.reshape(shape).shape
    if shape == x.shape:
        return alias(x)
    if x.form[0] == "reduction" and not x.pinned:  # a sum over axes that are then left out: the same in one step
        _, name, source, axes, dtype = x.form
        if shape == tuple(n for i, n in enumerate(source.shape) if i not in axes):
            return _reduction(name, source, axes, dtype)
    text = ", ".join(map(str, shape)) or "()"
    return _express([x, f".reshape({text})"])


def _expand(x: Traced, axes: tuple[int, ...]) -> Traced:
    ndim = x.ndim + len(axes)
    last = max(axes) + 1
    text = ", ".join("None" if i in axes else ":" for i in range(ndim)[:last])
    return _express([x, f"[{text}]"], ("expand", x, axes))


def _expand_dims(x: Traced, axis: int = 0) -> Traced:
    axis %= x.ndim + 1
    if x.form[0] == "expand" and not x.pinned and axis > max(x.form[2]):
        return _expand(x.form[1], (*x.form[2], axis))
    return _expand(x, (axis,))


def _broadcast_to(x: Any, shape: Any) -> Any:
    shape = tuple(shape)
    if shape == x.shape:
        return alias(x)
    if x.form[0] == "expand" and not x.pinned and x.form[2] == tuple(range(len(x.form[2]))):
        return _broadcast_to(x.form[1], shape)
    return _call("np.broadcast_to", x, shape)


def _matrix_transpose(x: Traced) -> Any:
    return _express([x, ".T" if x.ndim == 2 else ".mT"], ("transpose", x))


def _squeeze(x: Traced, axis: Any) -> Any:
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    return _call("np.squeeze", x, axis=axis)


def _scatter(values: Any, key: Any, shape: Any) -> Any:
    trace = next(_flat((values, key))).trace
    text = trace.write(tuple(key) if len(key) != 1 else key[0])
    if any(isinstance(part, slice) for part in key):
        text = ["np.s_[", *trace.write_key(key), "]"]
    return _express(["scatter(", *trace.write(values), ", ", *text, f", {tuple(shape)})"], ("call", "scatter"))


def _index_set(x: Any, key: Any, values: Any, wins: Any = None) -> Any:
    trace = next(_flat((x, key, values))).trace
    text = ["np.s_[", *trace.write_key(key), "]"] if any(isinstance(part, slice) for part in key) else trace.write(key)
    parts = ["replace(", *trace.write(x), ", ", *text, ", ", *trace.write(values), ")"]
    return _express(parts, ("call", "replace"))


def _stable_argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    if descending:
        return _call("argsort_descending", x, axis)
    return _call("np.argsort", x, axis=axis, stable=True)


SPELLINGS: dict[str, Callable[..., Any]] = {
    **{name: partial(_reduction, name) for name in ("sum", "mean", "prod", "max", "min")},
    **{name: partial(_running, name) for name in ("cumulative_sum", "cumulative_prod")},
    "asarray": lambda x, dtype=None: x if dtype is None else x.astype(dtype),
    "astype": lambda x, dtype: x.astype(dtype),
    "bitwise_invert": operator.invert,
    "broadcast_to": _broadcast_to,
    "conj": lambda x: _call("np.conj", x) if x.dtype.kind == "c" else alias(x),
    "contiguous": alias,
    "copy": alias,
    "erf": partial(_call, "erf"),
    "expand_dims": _expand_dims,
    "index_set": _index_set,
    "linalg.svd": lambda x, full_matrices=True: _call("np.linalg.svd", x, full_matrices),
    "matrix_transpose": _matrix_transpose,
    "negative": operator.neg,
    "real": lambda x: _call("np.real", x) if x.dtype.kind == "c" else alias(x),
    "reshape": _reshape,
    "round": partial(_call, "np.rint"),
    "row_dot": lambda a, b: _reduction("sum", a * b, -1 % a.ndim, keepdims=True),
    "row_max": lambda x: _reduction("max", x, -1 % x.ndim, keepdims=True),
    "row_sum": lambda x: _reduction("sum", x, -1 % x.ndim, keepdims=True),
    "scatter": _scatter,
    "sigmoid": partial(_call, "sigmoid"),
    "squeeze": _squeeze,
    "stable_argsort": _stable_argsort,
}
"""Functions whose text is not simply `np.name(...)`."""


# ---- values as text

SMALL = 8  # the program has arrays up to this size as they are


def _scalar(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f"np.{value.name}"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"np.{value.__name__}"
    if isinstance(value, np.generic) and value.dtype not in (np.float64, np.int64, np.bool_):
        return f"np.{value.dtype.name}({_scalar(value.item())})"
    if isinstance(value, float):
        text = repr(float(value))
        return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}.get(text, text)
    if value is Ellipsis:
        return "..."
    if isinstance(value, slice):
        return f"slice({_scalar(value.start)}, {_scalar(value.stop)}, {_scalar(value.step)})"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else _scalar(value)


def write_array(array: Any) -> str:
    """An array as text that gives the same array back."""
    if not array.size:
        return f"np.zeros({array.shape}, dtype=np.{array.dtype.name})"
    plain = array.dtype in (np.float64, np.int64, np.bool_)
    return f"np.array({_nested(array.tolist())}{'' if plain else f', dtype=np.{array.dtype.name}'})"


def _literal(array: Any) -> str:
    """The text of an array that is small or follows a plain rule; else ""."""
    return _rule(array) or (write_array(array) if array.size <= SMALL else "")


def _rule(array: Any) -> str:
    """The text of an array that counts up, or is the same everywhere; else ""."""
    if array.size > 2 and array.dtype == np.int64 and (array.ravel() == np.arange(array.size)).all():
        text = f"np.arange({array.size})"
        if array.ndim == 1:
            return text
        column = array.shape == (array.size, 1)
        return f"{text}[:, None]" if column else f"{text}.reshape({', '.join(map(str, array.shape))})"
    if array.size > 2 and (array == array.flat[0]).all():
        return f"np.full({array.shape}, {_scalar(array.flat[0].item())}, dtype=np.{array.dtype.name})"
    return ""
