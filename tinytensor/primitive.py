"""How an op is declared: one record, in one place.

A *pure* op is a forward function and one gradient rule for each input, written once against an array namespace `xp`:

    @tt.op(x=lambda xp, g, y: g * y,
           y=lambda xp, g, x: g * x)
    def multiply(xp, x, y):
        return xp.multiply(x, y)

In an ordinary backward pass the rules run on raw arrays; with `create_graph=True` the very same rules run on Tensors,
with `xp` = tinytensor, so gradients of any order follow. A rule must not change what it is given.

A *fused* op is a formula in tinytensor's own functions and, beside it, a fast pair on raw arrays:

    @tt.op
    def softmax(x, *, axis):                       # the formula
        e = tt.exp(x - tt.max(x, axis=axis, keepdims=True))
        return e / tt.sum(e, axis=axis, keepdims=True)

    @softmax.forward
    def _(xp, x, *, axis):
        ...
        return out, (out,)                         # the result, and what backward needs

    @softmax.backward
    def _(xp, g, kept, needs, *, axis):
        (out,) = kept
        ...
        return (gx,)                               # one gradient for each input, None where needs[i] is False

Higher derivatives differentiate the formula; tests hold the pair against it.

Positional parameters are the op's inputs (Tensors, arrays, Python numbers or None); keyword-only parameters are
passed on as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from . import dtypes
from .backend import NAMESPACES, DeviceError, for_array
from .modes import state
from .node import Node
from .recording.tracing import module_path
from .tensor import Tensor, wrap

FLOAT32, FLOAT64 = dtypes.float32, dtypes.float64

OPS: dict[str, Primitive] = {}
"""Every declared op by name."""


class Primitive:
    """The record of one op.

    Attributes:
        name: as declared, and as errors and pictures show it.
        inputs: names of the positional parameters; for a variadic op (`*arrays`) the one name.
        function: the forward function of a pure op, the formula of a fused one.
        rules: by input name, the gradient rule and the names it reads (pure ops).
        fast_forward, fast_backward: the pair of a fused op.
        floating: whether integer inputs become the default float dtype first.
        call: what users call.
    """

    def __init__(self, function: Callable[..., Any], rules: dict[str, Any], floating: bool) -> None:
        if function.__defaults__:
            raise TypeError(
                f"op {function.__name__}: its inputs have default values; parameters with a default must be "
                "keyword-only: put them behind a `*`"
            )
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]
        self.name = function.__name__.strip("_")
        self.function = function
        self.floating = floating
        self.defaults = dict(function.__kwdefaults__ or {})
        self.pure = bool(positional) and positional[0] == "xp"
        self.variadic = bool(code.co_flags & 0x04)
        after = code.co_argcount + code.co_kwonlyargcount
        self.params = code.co_varnames[code.co_argcount : after]
        self.inputs = (code.co_varnames[after],) if self.variadic else positional[self.pure :]
        self.fast_forward: Callable[..., Any] | None = None
        self.fast_backward: Callable[..., Any] | None = None
        self.call: Callable[..., Any] = function
        self.rules: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        for name, rule in rules.items():
            self._add_rule(name, rule)
        self.promoted = frozenset(i for i, name in enumerate(self.inputs) if not self.rules or name in self.rules)
        self.keepers = Keepers(self)

    def _add_rule(self, name: str, rule: Callable[..., Any]) -> None:
        if not self.pure:
            raise TypeError(f"op {self.name}: rules need a forward function whose first parameter is `xp`")
        if name not in self.inputs:
            raise TypeError(f"op {self.name}: rule for {name!r}, which is no input; inputs: {', '.join(self.inputs)}")
        code = rule.__code__
        reads = code.co_varnames[: code.co_argcount]
        known = {"xp", "g", "out", "shape", "index", *self.inputs, *self.params}
        unknown = [r for r in reads if r not in known]
        if unknown or reads[:1] != ("xp",):
            raise TypeError(
                f"op {self.name}: the rule for {name!r} takes {', '.join(reads) or 'nothing'}; it must take xp first, "
                f"then any of: {', '.join(sorted(known - {'xp'}))}"
            )
        self.rules[name] = (rule, reads)

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.inputs)})>"


class Keeper(NamedTuple):
    """What backward reads: `pick` takes it from `(*inputs, out)`, and `names` says what it took."""

    pick: Callable[[Any], Any]
    names: tuple[str, ...]


class Keepers(dict[int, Keeper]):
    """The keeper of an op, by which of its inputs need gradients (bit i of the key for input i)."""

    def __init__(self, primitive: Primitive) -> None:
        super().__init__()
        self.primitive = primitive

    def __missing__(self, mask: int) -> Keeper:
        inputs, rules = self.primitive.inputs, self.primitive.rules
        if self.primitive.variadic:
            read = set(rules[inputs[0]][1]) if inputs[0] in rules else set()
            keep_inputs, keep_out = inputs[0] in read, "out" in read
            names = inputs * keep_inputs + ("out",) * keep_out

            def pick(values: Any) -> Any:
                return (tuple(values[:-1]),) * keep_inputs + (values[-1],) * keep_out

        else:
            wanted = [name for i, name in enumerate(inputs) if mask >> i & 1 and name in rules]
            read = {r for name in wanted for r in rules[name][1]}
            places = [i for i, name in enumerate((*inputs, "out")) if name in read]
            names = tuple((*inputs, "out")[i] for i in places)
            first = places[0] if places else 0
            slices = slice(first, first + len(places))  # one item as a tuple of one, none as an empty tuple
            pick = itemgetter(*places) if len(places) > 1 else itemgetter(slices)  # type: ignore[assignment]
        keeper = self[mask] = Keeper(pick, names)
        return keeper


def op(function: Callable[..., Any] | None = None, /, *, floating: bool = False, **rules: Callable[..., Any]) -> Any:
    """Declare an op; see the module's docstring for both forms.

    Args:
        floating: integer inputs become the default float dtype first (as `exp` and `divide` want it).
        **rules: for each differentiable input, its gradient rule `rule(xp, g, ...)`. Its further argument names say
            what it reads: inputs by name, `out`, parameters by name, `shape` (of the input the rule is for), and in a
            variadic op `index` (which of the inputs the rule is for). Only the arrays it names are kept until
            backward. An integer or boolean input without a rule (a mask, indices) takes no part in type promotion.

    A rule's result may be of the broadcast shape or of another float dtype: it is summed and cast to the input's.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        primitive = Primitive(function, rules, floating)
        OPS[primitive.name] = primitive
        call = _pure_call(primitive) if primitive.pure else _fused_call(primitive)
        if primitive.pure and len(primitive.inputs) == 1 and not primitive.variadic:
            call = _unary_call(primitive, call)
        elif primitive.pure and len(primitive.inputs) == 2:
            call = _binary_call(primitive, call)
        functools.update_wrapper(call, function)
        call.__signature__ = _signature(primitive)  # type: ignore[attr-defined]
        call.op = primitive  # type: ignore[attr-defined]
        primitive.call = call
        return call

    return declare if function is None else declare(function)


def _signature(primitive: Primitive) -> inspect.Signature:
    """What users may pass: without `xp`, and inputs by position."""
    by_name, by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY
    parameters = list(inspect.signature(primitive.function).parameters.values())[primitive.pure :]
    return inspect.Signature([p.replace(kind=by_place) if p.kind is by_name else p for p in parameters])


def _pure_call(primitive: Primitive) -> Callable[..., Any]:
    forward = primitive.function
    keepers = primitive.keepers

    def call(*inputs: Any, **params: Any) -> Any:
        arrays, parents, mask, bit = [], [], 0, 1
        kind: Any = None
        dtype: Any = None
        plain, numbers = True, False
        for value in inputs:
            if isinstance(value, Tensor):
                array = value._data
                node = value._node
                if node is not None:
                    mask |= bit
                parents.append(node)
                arrays.append(array)
                if array.dtype is not dtype or type(array) is not kind:
                    plain = kind is None and plain
                    dtype = array.dtype
                    kind = type(array)
            else:
                numbers = True
                if type(value) is not float and type(value) is not int:
                    value = _constant(primitive, value, len(arrays))
                    plain = False
                parents.append(None)
                arrays.append(value)
            bit <<= 1
        usual = dtype is FLOAT32 or dtype is FLOAT64
        if not plain or kind is None or ((numbers or primitive.floating) and not usual):
            kind = _prepare(primitive, arrays)
        xp = NAMESPACES[kind]
        try:
            out = forward(xp, *arrays, **params)
        except Exception as error:
            raise explain(primitive, arrays, error, parents) from error
        if type(out) is not kind:
            out = _as_array(primitive, xp, out)
        tensor = Tensor.__new__(Tensor)
        tensor._data = out
        tensor._node = None
        if mask and ((dtype := out.dtype) is FLOAT32 or dtype is FLOAT64 or dtype.kind in "fc"):
            recorder = state.recorder
            if recorder is not None:
                values = (*arrays, out)
                tensor._node = recorder(primitive, tuple(parents), keepers[mask].pick(values), params, out, values)
        elif state.recording is not None:
            state.recorder(primitive, tuple(parents), (), params, out, (*arrays, out))  # type: ignore[misc]
        return tensor

    return call


def _unary_call(primitive: Primitive, general: Callable[..., Any]) -> Callable[..., Any]:
    """The same for one Tensor of a usual dtype, without what several inputs need: half of what small ops cost."""
    forward = primitive.function
    pick = primitive.keepers[1].pick
    new = Tensor.__new__

    def call(x: Any, **params: Any) -> Any:
        if not isinstance(x, Tensor):
            return general(x, **params)
        array = x._data
        dtype = array.dtype
        if dtype is not FLOAT32 and dtype is not FLOAT64:
            return general(x, **params)
        kind = type(array)
        xp = NAMESPACES[kind]
        try:
            out = forward(xp, array, **params) if params else forward(xp, array)
        except Exception as error:
            raise explain(primitive, [array], error, [x._node]) from error
        if type(out) is not kind:
            out = _as_array(primitive, xp, out)
        tensor = new(Tensor)
        tensor._data = out
        tensor._node = None
        node = x._node
        if node is not None and ((dtype := out.dtype) is FLOAT32 or dtype is FLOAT64 or dtype.kind in "fc"):
            recorder = state.recorder
            if recorder is not None:
                values = (array, out)
                tensor._node = recorder(primitive, (node,), pick(values), params, out, values)
        elif state.recording is not None:
            state.recorder(primitive, (node,), (), params, out, (array, out))  # type: ignore[misc]
        return tensor

    return call


def _binary_call(primitive: Primitive, general: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a Tensor of a usual dtype with another of that dtype, or with a Python number behind it."""
    forward = primitive.function
    keepers = primitive.keepers
    new = Tensor.__new__

    def call(*inputs: Any, **params: Any) -> Any:
        if len(inputs) != 2 or not isinstance(inputs[0], Tensor):
            return general(*inputs, **params)
        x, y = inputs
        a, p = x._data, x._node
        kind, dtype = type(a), a.dtype
        if isinstance(y, Tensor):
            b, q = y._data, y._node
            alike = b.dtype is dtype and type(b) is kind
        else:
            b, q = y, None
            alike = type(y) is float or type(y) is int
        if not alike or (dtype is not FLOAT32 and dtype is not FLOAT64):
            return general(x, y, **params)
        xp = NAMESPACES[kind]
        try:
            out = forward(xp, a, b, **params) if params else forward(xp, a, b)
        except Exception as error:
            raise explain(primitive, [a, b], error, [p, q]) from error
        if type(out) is not kind:
            out = _as_array(primitive, xp, out)
        tensor = new(Tensor)
        tensor._data = out
        tensor._node = None
        mask = (p is not None) + 2 * (q is not None)
        if mask and ((dtype := out.dtype) is FLOAT32 or dtype is FLOAT64 or dtype.kind in "fc"):
            recorder = state.recorder
            if recorder is not None:
                values = (a, b, out)
                tensor._node = recorder(primitive, (p, q), keepers[mask].pick(values), params, out, values)
        elif state.recording is not None:
            state.recorder(primitive, (p, q), (), params, out, (a, b, out))  # type: ignore[misc]
        return tensor

    return call


def _fused_call(primitive: Primitive) -> Callable[..., Any]:
    formula = primitive.function

    def call(*inputs: Any, **params: Any) -> Any:
        forward = primitive.fast_forward
        if forward is None or primitive.fast_backward is None:
            return formula(*inputs, **params)
        arrays, nodes = [], []
        kind: Any = None
        dtype: Any = None  # of the floats: masks and indices stay what they are
        plain = True
        for i, value in enumerate(inputs):
            array = node = None
            if isinstance(value, Tensor):
                array, node = value._data, value._node
                if type(array) is not kind:
                    plain = plain and kind is None
                    kind = type(array)
                if array.dtype is not dtype and array.dtype.kind in "fc":
                    plain = plain and dtype is None and (array.dtype is FLOAT32 or array.dtype is FLOAT64)
                    dtype = array.dtype
            elif value is not None:
                array = _constant(primitive, value, i)
                plain = False
            arrays.append(array)
            nodes.append(node)
        parents = tuple(nodes)
        if not plain or dtype is None:
            kind = _prepare(primitive, arrays)
        xp = NAMESPACES[kind]
        try:
            out, residuals = forward(xp, *arrays, **params)
        except Exception as error:
            raise explain(primitive, arrays, error, parents) from error
        if type(out) is not kind:
            out = xp.asarray(out)
        recorder = state.recorder
        if recorder is None or not (any(parents) or state.recording):
            return wrap(out, None)
        return wrap(out, recorder(primitive, parents, (tuple(arrays), residuals), params, out, [*arrays, out]))

    def set_forward(function: Callable[..., Any]) -> Callable[..., Any]:
        primitive.fast_forward = function
        return call

    def set_backward(function: Callable[..., Any]) -> Callable[..., Any]:
        primitive.fast_backward = function
        return call

    call.forward = set_forward  # type: ignore[attr-defined]
    call.backward = set_backward  # type: ignore[attr-defined]
    return call


def _as_array(primitive: Primitive, xp: Any, out: Any) -> Any:
    """What a forward function gave, as an array: NumPy's reductions give scalars."""
    if not hasattr(out, "dtype") and not isinstance(out, (bool, int, float, complex)):
        raise TypeError(f"{primitive.name}: its forward function gave a {type(out).__name__}; expected one array")
    return xp.asarray(out)


def _constant(primitive: Primitive, value: Any, place: int) -> Any:
    """An input that is no Tensor. Arrays are copied, since nothing would guard them against later writes."""
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, (bool, int, complex, np.generic)):
        return value
    if isinstance(value, np.ndarray):
        return np.array(value)
    if hasattr(value, "dtype"):
        return for_array(value).copy(value)
    raise TypeError(
        f"{primitive.name}: input {place + 1} is a {type(value).__name__}; expected a Tensor, an array or a number "
        "(make a Tensor of it with tt.asarray)"
    )


def _prepare(primitive: Primitive, arrays: list[Any]) -> type:
    """Bring the inputs to one dtype, in place of the list's items, and see that they are on one device.

    Returns the type of their arrays.
    """
    if not arrays:
        raise TypeError(f"{primitive.name}: got no inputs; expected {', '.join(primitive.inputs)}")
    kind: Any = None
    for value in arrays:
        if not hasattr(value, "dtype") or isinstance(value, np.generic):
            continue
        if type(value) not in NAMESPACES:
            for_array(value)
        if kind is None:
            kind = type(value)
        elif type(value) is not kind:
            kinds = {type(a) for a in arrays if type(a) in NAMESPACES}
            if writers := [k for k in kinds if hasattr(NAMESPACES[k], "adopt")]:  # a formula with constants of its own
                kind = writers[0]
                NAMESPACES[kind].adopt(arrays)
                break
            devices = " and ".join(sorted({str(for_array(a).device) for a in arrays if hasattr(a, "dtype")}))
            raise DeviceError(
                f"{primitive.name}: inputs are on {devices}; move them to one device first, for example x.to('gpu')"
            )
    kind = kind or np.ndarray  # Python numbers alone are computed on the CPU
    for i, value in enumerate(arrays):
        if isinstance(value, np.generic):  # NumPy's scalars have a dtype, but no device
            arrays[i] = NAMESPACES[kind].asarray(value)
    _promote(primitive, arrays, kind)
    return kind


def _promote(primitive: Primitive, arrays: list[Any], kind: type) -> None:
    if primitive.variadic:
        chosen = list(range(len(arrays)))
    elif primitive.pure:
        chosen = sorted(primitive.promoted)
    else:  # of a fused op's inputs, masks and indices stay what they are
        chosen = [i for i, a in enumerate(arrays) if not hasattr(a, "dtype") or a.dtype.kind in "fc"]
    chosen = [i for i in chosen if arrays[i] is not None]
    known, weak = [], []
    for i in chosen:
        value = arrays[i]
        if hasattr(value, "dtype"):
            known.append(value.dtype)
        else:
            weak.append(value)
    if not known and not weak:
        return
    dtype = dtypes.promote(known, weak)
    if primitive.floating and dtype.kind in "biu":
        dtype = dtypes.get_default_dtype()
    for i in chosen:
        value = arrays[i]
        if hasattr(value, "dtype") and value.dtype != dtype:
            arrays[i] = value.astype(dtype)
            if state.recording is not None:
                state.recording.cast(value, arrays[i])
    if not known:  # numbers alone: one of them as an array carries the dtype
        arrays[chosen[0]] = NAMESPACES[kind].asarray(arrays[chosen[0]], dtype=dtype)


def describe(value: Any) -> str:
    """An operand in an error message: shape and dtype of an array, a number as it is."""
    if hasattr(value, "dtype"):
        return f"{tuple(value.shape)} {value.dtype}"
    return repr(value)


def explain(primitive: Primitive, arrays: Sequence[Any], error: Exception, parents: Sequence[Node | None]) -> Exception:
    """The same kind of exception, with the op, what it met, the module it was called in, and the shapes aligned."""
    from .recording.errors import op_failed, operands

    met = ", ".join(
        f"{name} {describe(a)}"
        for name, a in zip(primitive.inputs if not primitive.variadic else primitive.inputs * len(arrays), arrays)
    )
    path = module_path(state)
    where = f" (in module {path})" if path else ""
    mistake = isinstance(error, (ValueError, ArithmeticError))
    what = str(error).removeprefix(f"{primitive.name}: ")  # NumPy's own errors may begin with the name
    text = f"{primitive.name}: {what}; inputs: {met}{where}{operands(primitive, arrays) if mistake else ''}"
    kinds = (IndexError, TypeError, ZeroDivisionError, OverflowError, MemoryError, NotImplementedError)
    kind = next((k for k in kinds if isinstance(error, k)), ValueError if mistake else RuntimeError)
    explained = kind(text)
    op_failed(primitive, arrays, parents, explained)
    return explained
