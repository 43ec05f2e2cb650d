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
    def softmax_forward(xp, x, *, axis):
        ...
        return out, (out,)                         # the result, and residuals: what the backward half needs

    @softmax.backward
    def softmax_backward(xp, g, residuals, needs, *, axis):
        (out,) = residuals
        ...
        return (gx,)                               # one gradient for each input, None where needs[i] is False

The formula is the definition; the pair, in a room of its own (`fast/`), is a faster way to the same numbers.
Higher derivatives differentiate the formula, `tt.textbook()` computes by it, and tests hold the pair against it.

Positional parameters are the op's inputs (Tensors, arrays, Python numbers or None), which may be given by name as well;
keyword-only parameters are passed on as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import dtypes
from .backend import NAMESPACES, common_namespace, for_array
from .messages import describe, operands
from .modes import failure_listeners, module_path, state
from .node import Node
from .tensor import Tensor

if TYPE_CHECKING:
    from .typing import Declaration, Op, P, PureFunction

OPS: dict[str, Primitive] = {}
"""Every declared op by name."""

ONE_FLOAT_DTYPE = [{d, *number} for d in (dtypes.float32, dtypes.float64, dtypes.float16) for number in ((), (None,))]
"""The dtypes in a call that needs no conversion: one, and None for Python numbers, which have no dtype."""

shortcut_for: list[Callable[[Primitive], Callable[..., Any] | None]] = []
"""Functions that give the short cut of an op, or None; `fast/shortcuts.py` adds one here."""


class Primitive:
    """The record of one op.

    Attributes:
        name: as declared, and as errors and pictures show it.
        inputs: names of the positional parameters; for a variadic op (`*arrays`) the one name.
        function: the forward function of a pure op, the formula of a fused one.
        rules: by input name, the gradient rule and the names it reads (pure ops).
        fast_forward, fast_backward: the pair of a fused op, where one is registered.
        shortcut: does the same as a call at half the price; gives None if anything is unusual.
        way: says if the pair still computes what the formula does; None if there is no doubt.
        floating, wide: if True, integers become the default float dtype first; 16-bit floats are computed in 32 bits.
        params, variadic: the names of all other parameters; True if the op takes any number of inputs.
        promoted, reads: the places of inputs that get one dtype; the names to save, by which inputs need a gradient.
        call: the function that users call.
    """

    def __init__(self, function: Any, rules: dict[str, Any], floating: bool, wide: bool) -> None:
        if function.__defaults__:
            raise TypeError(
                f"op {function.__name__}: its inputs have default values; parameters with a default must be "
                "keyword-only: put them behind a `*`"
            )
        code = function.__code__  # `co_varnames` begins with the parameters: positional, keyword-only, then `*arrays`
        positional = code.co_varnames[: code.co_argcount]
        self.name = function.__name__.strip("_")  # `_softmax` is the op behind the function `softmax`
        self.function = dtypes.widened(function) if wide else function
        self.floating, self.wide = floating, wide
        self.defaults = dict(function.__kwdefaults__ or {})
        self.pure = bool(positional) and positional[0] == "xp"
        self.variadic = bool(code.co_flags & inspect.CO_VARARGS)
        after = code.co_argcount + code.co_kwonlyargcount
        self.params = code.co_varnames[code.co_argcount : after]
        self.inputs: tuple[str, ...] = (code.co_varnames[after],) if self.variadic else positional[self.pure :]
        self.fast_forward: Any = None
        self.fast_backward: Any = None
        self.shortcut: Callable[..., Any] = lambda *call: None
        self.way: Any = None
        self.call: Callable[..., Any] = function
        self.rules: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        for name, rule in rules.items():
            self._add_rule(name, rule)
        self.promoted = frozenset(i for i, name in enumerate(self.inputs) if not self.rules or name in self.rules)
        self.reads = Reads(self)

    def _add_rule(self, name: str, rule: Callable[..., Any]) -> None:
        if not self.pure:
            raise TypeError(f"op {self.name}: rules need a forward function whose first parameter is `xp`")
        if name not in self.inputs:
            raise TypeError(f"op {self.name}: rule for {name!r}, which is no input; inputs: {', '.join(self.inputs)}")
        if taken := {"g", "out", "shape", "index"} & {*self.inputs, *self.params}:
            raise TypeError(f"op {self.name}: {min(taken)!r} means something else in rules; call that input otherwise")
        code = rule.__code__
        reads = code.co_varnames[: code.co_argcount]
        known = {"xp", "g", "out", "shape", "index", *self.inputs, *self.params}
        unknown = [r for r in reads if r not in known]
        if unknown or reads[:1] != ("xp",) or "g" not in reads:
            raise TypeError(
                f"op {self.name}: the rule for {name!r} takes {', '.join(reads) or 'nothing'}; it must take xp first, "
                f"g, which it multiplies, and may take: {', '.join(sorted(known - {'xp', 'g'}))}"
            )
        self.rules[name] = (dtypes.widened(rule) if self.wide else rule, reads)

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.inputs)})>"


class Reads(dict[tuple[bool, ...], tuple[str, ...]]):
    """The values that an op saves for backward, given which inputs need gradients: names of inputs, and "out"."""

    def __init__(self, primitive: Primitive) -> None:
        super().__init__()
        self.primitive = primitive

    def __missing__(self, needs: tuple[bool, ...]) -> tuple[str, ...]:
        inputs, rules = self.primitive.inputs, self.primitive.rules
        wanted = inputs if self.primitive.variadic else [name for name, need in zip(inputs, needs) if need]
        read = {r for name in wanted if name in rules for r in rules[name][1]}
        if not self.primitive.pure:
            read = {*inputs}  # the formula may read anything
        self[needs] = tuple([name for name in (*inputs, "out") if name in read])
        return self[needs]


@overload
def op(function: PureFunction[P], /) -> Op[P]: ...
@overload
def op(function: Callable[P, Any], /) -> Op[P]: ...
@overload
def op(*, floating: bool = ..., wide: bool = ..., **rules: Callable[..., Any]) -> Declaration: ...
def op(function: Any = None, /, *, floating: bool = False, wide: bool = False, **rules: Callable[..., Any]) -> Any:
    """Declare an op; see the module's docstring for both forms.

    Args:
        floating: integer inputs become the default float dtype first (as `exp` and `divide` want it).
        wide: 16-bit floats are computed with in 32 bits, in the rules as well: for squares and sums of them.
        **rules: for each differentiable input, its gradient rule `rule(xp, g, ...)`. Its further argument names say
            what it reads: inputs by name, `out`, parameters by name, `shape` (of the input the rule is for), and in a
            variadic op `index` (which of the inputs the rule is for). Only the arrays it names are saved for
            backward. An integer or boolean input without a rule (a mask, indices) takes no part in type promotion.

    A rule's result may be of the broadcast shape or of another float dtype: it is summed and cast to the input's.
    """
    if function is None:
        return functools.partial(op, floating=floating, wide=wide, **rules)
    primitive = Primitive(function, rules, floating, wide)
    OPS[primitive.name] = primitive
    public: Any = _call_of(primitive)
    for shorten in shortcut_for:
        primitive.shortcut = shorten(primitive) or primitive.shortcut
    primitive.call = functools.update_wrapper(public, function)
    public.__signature__ = _signature(primitive)
    public.op = primitive
    if not primitive.pure:
        public.forward = functools.partial(_register, primitive, "fast_forward")
        public.backward = functools.partial(_register, primitive, "fast_backward")
    return public


def _register(primitive: Primitive, half: str, function: Callable[..., Any]) -> Callable[..., Any]:
    setattr(primitive, half, dtypes.widened(function) if primitive.wide else function)
    return function


def _signature(primitive: Primitive) -> inspect.Signature:
    """The parameters that users may pass: all but `xp`. (`inspect.signature` takes four times as long.)"""
    parameter, empty, hints = inspect.Parameter, inspect.Parameter.empty, primitive.function.__annotations__
    place = parameter.VAR_POSITIONAL if primitive.variadic else parameter.POSITIONAL_OR_KEYWORD
    kinds = dict.fromkeys(primitive.inputs, place) | dict.fromkeys(primitive.params, parameter.KEYWORD_ONLY)
    parameters = [
        parameter(name, kind, default=primitive.defaults.get(name, empty), annotation=hints.get(name, empty))
        for name, kind in kinds.items()
    ]
    return inspect.Signature(parameters, return_annotation=hints.get("return", empty), __validate_parameters__=False)


def _call_of(primitive: Primitive) -> Callable[..., Any]:
    """The function that users call: Tensors in, a Tensor out, and a node if a gradient may be asked for."""

    def call(*inputs: Any, **params: Any) -> Any:
        if (plain := state.plain) is not None and (found := primitive.shortcut(plain, inputs, params)) is not None:
            return found
        if len(inputs) != len(primitive.inputs) and not (primitive.variadic and inputs):
            inputs, params = by_name(primitive, inputs, params)
        if state.told and (found := state.told(primitive, call, inputs, params)) is not None:
            return found
        if not primitive.pure and (state.textbook or not has_pair(primitive) or not dtypes.has_floats(inputs)):
            return primitive.function(*inputs, **params)  # by its formula: one op after the other
        xp, arrays, nodes = gather(primitive, inputs)
        residuals = None
        try:
            if primitive.pure:
                out = primitive.function(xp, *arrays, **params)
            else:
                out, residuals = primitive.fast_forward(xp, *arrays, **params)
        except Exception as error:
            raise explain(primitive, arrays, nodes, error) from error
        result = Tensor.__new__(Tensor)
        result._data = out = out if NAMESPACES.get(type(out)) is xp else as_array(primitive, xp, out)
        result._node = None
        if state.observer is not None or (state.grad_enabled and any(nodes) and out.dtype.kind in "fc"):
            values = dict(zip(primitive.inputs, [tuple(arrays)] if primitive.variadic else arrays), out=out)
            kept = {name: values[name] for name in primitive.reads[tuple([n is not None for n in nodes])]}
            made = primitive, nodes, kept, params, out
            result._node = state.observer(*made, arrays) if state.observer is not None else Node(*made)
            if residuals is not None and result._node is not None:
                result._node.residuals = residuals
        return result

    return named_after(primitive, call)


def named_after(primitive: Primitive, function: Any) -> Any:
    """The function under the op's own name, which a traceback shows."""
    function.__code__ = function.__code__.replace(co_name=primitive.name, co_qualname=primitive.name)
    return function


def has_pair(primitive: Primitive) -> bool:
    """True if both halves of a fused op's fast pair are registered and its formula is as they know it."""
    way, pair = primitive.way, (primitive.fast_forward, primitive.fast_backward)
    return None not in pair and (way is None or not way.off or way.holds())


def by_name(primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The inputs in their places, even those given by name, and the other arguments."""
    rest = primitive.inputs[len(inputs) :]
    missing, too_many = [name for name in rest if name not in params], len(inputs) > len(primitive.inputs)
    if missing or too_many:
        problem = f"got {len(inputs)} inputs" if too_many else f"got no {' and no '.join(missing)}"
        problem += "".join(f", but {name}=" for name in params if name not in primitive.inputs + primitive.params)
        raise TypeError(f"{primitive.name}: {problem}; expected {primitive.name}({', '.join(primitive.inputs)})")
    return (*inputs, *[params[name] for name in rest]), {n: v for n, v in params.items() if n not in rest}


def gather(primitive: Primitive, inputs: Sequence[Any]) -> tuple[Any, list[Any], tuple[Node | None, ...]]:
    """The inputs of a call as raw arrays of one dtype on one device: their namespace, the arrays, and their nodes."""
    arrays = [x._data if isinstance(x, Tensor) else _constant(primitive, x, i) for i, x in enumerate(inputs)]
    nodes = tuple([x._node if isinstance(x, Tensor) else None for x in inputs])
    # Arrays of one kind and float dtype, as most are, stay as they are; a Python number takes the dtype it meets.
    kinds = {type(a) for a in arrays} - {float, int}
    met = {getattr(a, "dtype", None) for i, a in enumerate(arrays) if primitive.variadic or i in primitive.promoted}
    if len(kinds) == 1 and kinds <= NAMESPACES.keys() and met in ONE_FLOAT_DTYPE:
        return NAMESPACES[kinds.pop()], arrays, nodes
    return _unify(primitive, arrays), arrays, nodes


def as_array(primitive: Primitive, xp: Any, out: Any) -> Any:
    """The result of a forward function as an array: NumPy's reductions give scalars."""
    if not hasattr(out, "dtype") and not isinstance(out, (bool, int, float, complex)):
        raise TypeError(f"{primitive.name}: its forward function gave a {type(out).__name__}; expected one array")
    return xp.asarray(out)


def _constant(primitive: Primitive, value: Any, place: int) -> Any:
    """An input that is no Tensor."""
    if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
        return float(value) if isinstance(value, float) and not hasattr(value, "tape") else value
    return _copied(primitive, value, place)


def _copied(primitive: Primitive, value: Any, place: int) -> Any:
    """An array that is an input: a copy, since nothing would guard the array itself against later writes."""
    if hasattr(value, "dtype"):
        return np.array(value) if isinstance(value, np.ndarray) else for_array(value).copy(value)
    raise TypeError(
        f"{primitive.name}: input {place + 1} is a {type(value).__name__}; expected a Tensor, an array or a number "
        "(make a Tensor of it with tt.asarray)"
    )


def _unify(primitive: Primitive, arrays: list[Any]) -> Any:
    """Bring the inputs to one dtype, in the list itself, and check that they are on one device.

    Returns the namespace that computes with them.
    """
    xp = common_namespace(primitive.name, arrays)
    for i, value in enumerate(arrays):
        if isinstance(value, np.generic):  # NumPy's scalars have a dtype, but no device
            arrays[i] = xp.asarray(value)
    if primitive.variadic:
        chosen = list(range(len(arrays)))
    elif primitive.pure:
        chosen = sorted(primitive.promoted)
    else:  # masks and indices among a fused op's inputs stay as they are
        chosen = [i for i, a in enumerate(arrays) if not hasattr(a, "dtype") or a.dtype.kind in "fc"]
    chosen = [i for i in chosen if arrays[i] is not None]
    if not chosen:
        return xp
    dtype = dtypes.common([arrays[i] for i in chosen], primitive.floating)
    for i in chosen:
        value = arrays[i]
        if hasattr(value, "dtype") and value.dtype != dtype:
            arrays[i] = value.astype(dtype)
            if state.recording is not None:
                state.recording.cast(value, arrays[i])
    if not any(hasattr(arrays[i], "dtype") for i in chosen):  # only numbers: one becomes an array to carry the dtype
        arrays[chosen[0]] = xp.asarray(arrays[chosen[0]], dtype=dtype)
    return xp


def explain(primitive: Primitive, arrays: Sequence[Any], nodes: Sequence[Node | None], error: Exception) -> Exception:
    """The same kind of exception, with the op, its inputs, the module it was called in, and the shapes aligned."""
    names = primitive.inputs
    if primitive.variadic:
        names = tuple(f"{names[0]}[{i}]" for i in range(len(arrays)))[:8]  # of thousands, the first are enough
    met = ", ".join(f"{name} {describe(a)}" for name, a in zip(names, arrays))
    where = f" (in module {path})" if (path := module_path()) else ""
    what = str(error).removeprefix(f"{primitive.name}: ")  # NumPy's own errors may begin with the name
    text = f"{primitive.name}: {what}; inputs: {met}{where}"
    mistake = isinstance(error, (ValueError, ArithmeticError))
    if mistake:
        text += operands(primitive.name, {name: a.shape for name, a in zip(names, arrays) if hasattr(a, "shape")})
    kinds = (IndexError, TypeError, ZeroDivisionError, OverflowError, MemoryError, NotImplementedError)
    kind = next((k for k in kinds if isinstance(error, k)), ValueError if mistake else RuntimeError)
    explained = kind(text)
    for listener in () if hasattr(error, "is_expected") else failure_listeners:
        listener(primitive, arrays, nodes, explained)
    return explained
