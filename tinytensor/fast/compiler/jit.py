"""Ops on large arrays, compiled from their own text: functions and rules over `xp`, and formulas with their gradients.

What is recorded is the function itself, so an edited or replaced one is another program: the key has the count of
replacements. What cannot be recorded, or gains nothing, computes by its lines.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ... import dtypes
from ...backend import numpy as arrays_of_numpy
from ...engine import node_of, run
from ...grad_mode import Fuser
from ...modes import state
from ...node import Node
from ...primitive import Primitive
from ...record.tape import REDUCTIONS, VIEWS, NotRecorded, Recorded, Tape, identity, record
from ...tensor import Tensor, wrap
from ..numpy import LARGE, large_matmul, large_scatter
from ..texts import Count, replaced

LLVM = 16  # the first version whose pointers have no type
MOST = 512  # programs that are kept of one function
VARIANTS = 8  # for the same shapes; a number that changes in each step would have it recorded each time
WORTH_ALONE = {
    "sigmoid", "log1p", "expm1", "erf", "pow", "where", "sign", "sum", "max", "min", "logaddexp", "cumulative_sum",
    "cumulative_prod",
}  # fmt: skip
"""Functions that a loop computes faster than NumPy; others have to be two to be worth one."""

BY_TEXT = {"silu", "gelu", "gelu_tanh", "softmax", "log_softmax", "layer_norm", "rms_norm", "relu"}
"""Ops that have a fast pair by hand, for GPUs and small arrays, and compute large ones faster from their text."""

FOLDERS = tuple(
    os.path.join(path, folder, "")
    for path in sys.modules[__name__.partition(".")[0]].__path__
    for folder in ("", "nn", "models")[not os.path.exists(os.path.join(path, "primitive.py")) :]
)
"""The library's own; in a checkout without links, `nn` and `models` lie next to the package."""

INSTALLED = tuple({os.path.join(path, "") for path in sysconfig.get_paths().values()} | {"<frozen "})
"""Where code lies that is neither the library's nor the user's; a library that is installed lies there, too."""

_compiling = threading.RLock()


def _after_fork() -> None:
    global _compiling
    _compiling = threading.RLock()  # another thread of the parent may hold the former one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def is_on() -> bool:
    """True if LLVM is there, and compiling is not switched off."""
    return os.environ.get("TINYTENSOR_COMPILE_LOOPS") != "0" and find_spec("llvmlite") is not None


@functools.cache
def can_compile() -> bool:
    """True if compiling is on, and LLVM is a version whose pointers have no type."""
    if not is_on():
        return False
    from ..workers import InterruptsLater

    try:
        with InterruptsLater():  # half imported, it would fail later
            import llvmlite.binding

            from . import run  # noqa: F401
    except (ImportError, OSError):  # one that does not go with this system
        return False
    return llvmlite.binding.llvm_version_info[0] >= LLVM


class Programs(dict[Any, Any]):
    """The programs of one function, by what they were recorded for; None where its lines compute."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__()
        self.make = make
        self.variants: dict[Any, int] = {}

    def find(self, key: Any, *arguments: Any) -> Any:
        """The program for a key, made when it is first asked for."""
        try:
            return self[key]
        except KeyError:
            pass
        with _compiling:
            if key not in self:
                if len(self) >= MOST:
                    self.clear()
                    self.variants.clear()
                shapes = key[0]
                self.variants[shapes] = self.variants.get(shapes, 0) + 1
                if self.variants[shapes] > VARIANTS:
                    return None
                self[key] = self._try(*arguments)
            return self[key]

    def _try(self, *arguments: Any) -> Any:
        if not can_compile() or any(isinstance(owner, ModuleType) for owner, _ in replaced):
            return None  # a function that replaces one of the library may compute with arrays of numbers only
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found = self.make(*arguments)
        except Exception:  # NotRecorded, or one of the function itself, which its lines raise again
            return None
        return None if told else found  # what warns does so in each call


class LargeNames:
    """NumPy's namespace for large arrays: our threads share products, and rows are added up in one pass."""

    def __getattr__(self, name: str) -> Any:
        return getattr(arrays_of_numpy, name)


large_names: Any = LargeNames()
large_names.matmul, large_names.scatter = large_matmul, large_scatter


def key_of(values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Shapes and dtypes of arrays with settings of the process; and numbers with their types."""
    shapes = [(a.shape, a.dtype.char) if type(a) is np.ndarray else None for a in values]
    numbers = [identity(a) for a in values if type(a) is not np.ndarray]
    settings = Count.replacements, dtypes.get_default_dtype().char
    return (*settings, *shapes), (*numbers, *[(name, identity(value)) for name, value in params.items()])


@functools.cache
def is_ours(function: Callable[..., Any]) -> bool:
    """True for a function of the library that shows nothing: others may print or count, in each call."""
    return all(code.co_filename.startswith(FOLDERS) for code in _codes(function)) and not shows(function)


def shows(function: Callable[..., Any]) -> bool:
    """True if a function, or one that it calls, prints or stops."""
    return any({"print", "breakpoint", "input"}.intersection(code.co_names) for code in _codes(function))


def _codes(function: Callable[..., Any]) -> Iterator[CodeType]:
    """The code of a function and of all those that it may call."""
    found, waiting = set[Any](), [function]
    while waiting:
        one = waiting.pop()
        codes = list(codes_in(one.__code__))
        yield from codes
        found.add(one)
        names = {name for code in codes for name in code.co_names}
        called = [one.__globals__.get(name) for name in names] + [getattr(one, "__wrapped__", None)]
        waiting += [f for f in called if isinstance(f, FunctionType) and f not in found]


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those that it defines."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes_in(inner)


def names_in(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function and in those that it defines."""
    return {name for each in codes_in(code) for name in each.co_names}


def is_filled(cell: CellType) -> bool:
    """True if a closure's cell has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def faster(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function over `xp`, or a rule: compiled for large arrays of NumPy, else as it is."""
    programs = Programs(functools.partial(_program, function))

    @functools.wraps(function)
    def compute(xp: Any, *values: Any, **params: Any) -> Any:
        if xp is not arrays_of_numpy or state.textbook:
            return function(xp, *values, **params)
        try:
            program = programs.find(key_of(values, params), values, params)
        except TypeError:  # a parameter that cannot be a key
            program = None
        if program is None:
            return function(xp if replaced else large_names, *values, **params)
        return program(*[a for a in values if isinstance(a, np.ndarray)])[0]

    return compute


def _program(function: Callable[..., Any], values: Sequence[Any], params: dict[str, Any]) -> Any:
    from .run import Program

    if not is_ours(function):
        return None
    likes = [a for a in values if isinstance(a, np.ndarray)]

    def call(xp: Any, *recorded: Any) -> Any:
        there = iter(recorded)
        return function(xp, *[next(there) if isinstance(a, np.ndarray) else a for a in values], **params)

    tape = record(call, likes)
    lines = tape.needed(tape.results, tape.inputs)
    names = [line.name for line in lines if line.name not in (*VIEWS, "broadcast_to")]
    if len(names) < 2 and not WORTH_ALONE.intersection(names):
        return None
    return Program(tape, tape.inputs, tape.results).prepare()


class Saved(tuple[Any, ...]):
    """Arrays that a pair puts aside, and the pair."""

    pair: Pair


class Pair:
    """A formula and its gradients as two programs; the first gives the result and what the second reads of it."""

    def __init__(self, primitive: Primitive, values: Any, needs: Sequence[bool], params: dict[str, Any]) -> None:
        from .run import Program

        if not is_ours(getattr(primitive, "formula", primitive.function)):
            raise NotRecorded("it is a function of a user, which may print")
        tape, given = Tape(), list[Recorded]()
        inputs: list[Any] = []
        for value, need in zip(values, needs):
            if value is None:
                inputs.append(None)
                continue
            given.append(tape.input(value))
            inputs.append(wrap(given[-1], None))
            inputs[-1].requires_grad = need
        before = state.change(textbook=True, grad_enabled=True, observer=None, recording=None, told=None, anomaly=False)
        try:
            whole = getattr(primitive, "whole", primitive.function)
            result, *others = results = _several(whole(*inputs, **params))
            if any(x._node is not None for x in others):
                raise NotRecorded("more than one result has a gradient")
            wanted: list[Any] = [x._node for x, need in zip(inputs, needs) if need]
            g = tape.input(result._data)
            seeds = [(node_of(result, primitive.name), wrap(g, None))] if wanted else []
            found = run(seeds, wanted, False, False)
        finally:
            state.change(**before)
        out, gradients = result._data, [found[node] for node in wanted]
        outs = [x._data for x in results]
        if not all(isinstance(x, Recorded) for x in outs):
            raise NotRecorded("its result does not depend on its inputs")
        sums = {line.result for line in tape.needed([out], given) if line.name in REDUCTIONS}
        backward = tape.needed(gradients, [*given, out, *sums])
        read = {x for line in backward for x in line.operands} | {*gradients}
        self.saved = [x for x in (out, *sums) if x in read]
        self.forward = Program(tape, given, [*outs, *self.saved]).prepare()
        self.count = len(outs)
        self.backward = Program(tape, [*given, *self.saved, g], gradients).prepare() if wanted else None
        self.needs = tuple(needs)

    def forward_of(self, xp: Any, *values: Any, **params: Any) -> tuple[Any, tuple[Any, ...]]:
        """The result, and what `differentiate` wants."""
        there = [a for a in values if a is not None]
        found = self.forward(*there)
        saved = Saved((*there, *found[self.count :]))
        saved.pair = self
        return found[0] if self.count == 1 else tuple(found[: self.count]), saved

    def differentiate(self, g: Any, saved: Sequence[Any]) -> list[Any]:
        """The gradient for each input, None where none was asked for."""
        assert self.backward is not None
        found = iter(self.backward(*saved, g))
        return [next(found) if need else None for need in self.needs]


class Large(Primitive):
    """An op for large arrays: the same, but that its functions are compiled."""

    def __init__(self, primitive: Primitive) -> None:
        vars(self).update({k: v for k, v in vars(primitive).items() if k not in ("function", "rules")})
        self.small = primitive
        self._faster: dict[Any, Any] = {}
        if not primitive.pure:
            self._pairs = Programs(functools.partial(Pair, primitive))
            self.fast_backward = _differentiate

    @property
    def function(self) -> Any:
        """The function, compiled; of a fused op the formula."""
        return self._of(self.small.function) if self.pure else self.small.function

    @function.setter
    def function(self, value: Any) -> None:
        pass  # the op's own holds

    @property
    def rules(self) -> Any:
        """The rules, compiled."""
        now = self.small.rules
        return {name: (self._of(rule), reads) for name, (rule, reads) in now.items()}

    @rules.setter
    def rules(self, value: Any) -> None:
        pass

    def _of(self, rule: Any) -> Any:
        if rule not in self._faster:
            self._faster[rule] = faster(rule)
        return self._faster[rule]

    def pair(self, values: Sequence[Any], needs: Sequence[bool], params: dict[str, Any]) -> Pair | None:
        """The compiled formula for some inputs, or None."""
        try:
            shapes, numbers = key_of(values, params)
            key = (*needs, *shapes), numbers
            found: Pair | None = self._pairs.find(key, values, needs, params)
        except TypeError:  # a parameter that cannot be a key
            return None
        return found


class Fused(Primitive):
    """A function of Tensors as an op: for its node, with a compiled backward half."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        names, count, values = list(kwargs), len(args), [*args, *kwargs.values()]
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        rest = [None if isinstance(value, Tensor) else value for value in values]  # no graph is kept alive

        def call(*tensors: Any) -> Any:
            whole = list(rest)
            for place, tensor in zip(places, tensors):
                whole[place] = tensor
            return function(*whole[:count], **dict(zip(names, whole[count:])))

        self.name, self.formula, self.whole = function.__name__.strip("_"), function, call
        self.function, self.fast_backward = lambda *tensors: _several(call(*tensors))[0], _differentiate
        self.pure = self.variadic = self.floating = self.wide = False
        self.inputs, self.params, self.defaults = tuple(f"input{i}" for i in range(len(places))), (), {}
        self.way, self.rules = None, {}

    def __call__(self, pair: Pair, tensors: Sequence[Any]) -> Any:
        """The result for some Tensors, with a node."""
        arrays = [x._data for x in tensors]
        outs, saved = pair.forward_of(None, *arrays)
        out, *others = _several(outs)
        result = wrap(out, None)
        if any(pair.needs):
            nodes = tuple([x._node for x in tensors])
            result._node = node = Node(self, nodes, dict(zip(self.inputs, arrays)), {}, out)
            node.residuals = saved
        return (result, *[wrap(x, None) for x in others]) if others else result


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def fuse(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of Tensors gives for large arrays, compiled; None for others, and where it cannot be."""
    if args and isinstance(args[0], Tensor) and args[0]._data.size < LARGE:
        return None
    values = (*args, *kwargs.values())
    tensors = [value for value in values if isinstance(value, Tensor)]
    arrays = [x._data for x in tensors]
    if max([a.size for a in arrays], default=0) < LARGE or {*map(type, arrays)} != {np.ndarray}:
        return None
    needs = [state.grad_enabled and x._node is not None for x in tensors]
    try:
        plain = [x._data if isinstance(x, Tensor) else x for x in values]
        shapes, numbers = key_of(plain, {})
        key = (len(args), *kwargs, *needs, *shapes), numbers
        found = _fused(function).find(key, function, args, kwargs, arrays, needs)
    except TypeError:  # an argument that cannot be a key
        return None
    return None if found is None else found[0](found[1], tensors)


@functools.cache
def _fused(function: Callable[..., Any]) -> Programs:
    return Programs(_fused_pair)


def _fused_pair(function: Any, args: Any, kwargs: Any, arrays: Any, needs: Any) -> Any:
    primitive = Fused(function, args, kwargs)
    return primitive, Pair(primitive, arrays, needs, {})


Fuser.fuse = staticmethod(fuse)


def prefer_text(primitive: Primitive) -> None:
    """Let an op of `BY_TEXT` compute large arrays of NumPy from its text, and others by the pair made by hand."""
    forward, backward, op = primitive.fast_forward, primitive.fast_backward, Large(primitive)

    @functools.wraps(forward)
    def fast_forward(xp: Any, x: Any, *rest: Any, **params: Any) -> Any:
        if x.size < LARGE or xp is not arrays_of_numpy:
            return forward(xp, x, *rest, **params)
        pair = op.pair((x, *rest), [True, *[a is not None for a in rest]], params)
        return forward(xp, x, *rest, **params) if pair is None else pair.forward_of(xp, x, *rest)

    @functools.wraps(backward)
    def fast_backward(xp: Any, g: Any, saved: Any, needs: Any, **params: Any) -> Any:
        if type(saved) is Saved:
            return _differentiate(xp, g, saved, needs)
        return backward(xp, g, saved, needs, **params)

    primitive.fast_forward, primitive.fast_backward = fast_forward, fast_backward


def _differentiate(xp: Any, g: Any, saved: Any, needs: Any, **params: Any) -> Any:
    found = saved.pair.differentiate(g, saved)
    return [x if need else None for x, need in zip(found, needs)]
