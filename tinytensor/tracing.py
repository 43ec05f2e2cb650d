"""Memory of each op while `record` or `detect_anomaly` is on: where it was called, and on what.

An ordinary node holds what its gradient needs. A `TracedNode` knows the source line and the module as well, and while
recording it also keeps its inputs and its result, even for ops without a gradient: pictures, films and printed programs
are made of these. Ordinary nodes pay nothing for it.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import math
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .backend import for_array, is_finite
from .modes import failure_listeners, module_path, state
from .node import Node, Saved, _saved, tick, written_since
from .primitive import OPS

SMALL = 64
"""Arrays of at most this many elements are remembered with their numbers, larger ones by statistics."""


MOST_HELD = 10_000
"""Containers are searched for Tensors up to this many parts."""


class TracedNode(Node):
    """A node that knows where it was made.

    Attributes:
        origin: the source line of the call, and the modules around it.
        variable: the name that this line gave the result, if any.
        scope: while recording, the call of the module it was made in.
        needs: while recording, for each input, True if it wanted a gradient.
        sources: while recording, each input: a node, None, or a number as it is. Arrays that no recorded op made have a
            separate node, without an op.
        values: while recording, the arrays (or numbers) of the inputs and, last, of the result.
        seen: while recording, the same for small arrays, copied: what later writes do not change.
        version: for the node of an array that was written unseen, the node that it had before, and the count of writes.
        indices: while recording, the nodes of the arrays in the key of `x[key]`.
        held: True if a variable held the result when the recording ended.
        read: the line where Python read its numbers, as `float(x)` does; "" if nowhere.
        rule: of an array that a rule makes, as `arange` does, the function and its arguments; else None.
        kept_before: while recording, the values kept for the gradient, even once freed; None if no gradient flows.
        residuals_before: while recording, the residuals of a fused op's fast pair, once they were freed.
        seconds: while recording, the time from the end of the op before to the end of this one.
        step: the op's turn in the last backward pass, once it was run.
    """

    __slots__ = (
        "indices", "kept_before", "needs", "origin", "residuals_before", "scope", "seconds", "seen", "sources", "step",
        "values", "variable",
    )  # fmt: skip

    origin: str | None
    scope: Scope | None
    needs: tuple[bool, ...] | None
    sources: tuple[Any, ...] | None
    values: Any
    seen: tuple[Any, ...]
    version: tuple[Node, int] | None = None
    indices: tuple[Node, ...]
    held = False
    read = ""
    rule: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    kept_before: dict[str, Any] | None
    residuals_before: tuple[Any, ...] | None
    seconds: float | None
    step: Step | None

    @property
    def traced(self) -> bool:  # type: ignore[override]
        return self.sources is not None

    @property
    def witness(self) -> Witness | None:
        return Witness(self) if self.traced else None

    def saved(self) -> list[Saved]:
        if self.sources is None:
            return super().saved()
        sources = tuple(
            [s if isinstance(s, Node) and need else None for s, need in zip(self.sources, self.needs or ())]
        )
        return _saved(self, self.kept_before, sources)

    def free(self) -> None:
        """Let go of what is saved; a recording remembers it for pictures."""
        if self.sources is not None:
            self.residuals_before = self.residuals
        super().free()

    @property
    def constants(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The inputs that need no gradient, None for the others."""
        if self.sources is None or not self.parents:
            return ()
        return tuple([a if p is None else None for p, a in zip(self.parents, self.values)])


def version_of(node: Any) -> tuple[Any, int]:
    """The node that the memory of a node had first, and how often it was written unseen since; mostly itself, and 0."""
    return getattr(node, "version", None) or (node, 0)


@dataclass(eq=False, slots=True)
class Scope:
    """One call of a module, or a stage named by `named_scope`.

    Attributes:
        name: the module's name in the module that holds it; the outermost has the name of its class.
        kind: the module's class; "" for a stage.
        parent: the scope around it.
        arguments: the names of the Tensors that a module was given, and their nodes.
    """

    name: str
    kind: str
    parent: Scope | None
    arguments: Sequence[tuple[str, Node]] = ()


class Statistics(NamedTuple):
    """Numbers about an array: its Euclidean norm, extremes and mean, and all of its numbers if it is small."""

    shape: tuple[int, ...]
    norm: float
    minimum: float
    maximum: float
    mean: float
    finite: bool
    numbers: Any = None

    @staticmethod
    def of(array: Any, shape: tuple[int, ...] | None = None) -> Statistics:
        """Statistics of any backend's array, summed to `shape` if that was broadcast to its own, as the engine does.

        An empty array has norm 0 and no extremes (NaN); complex numbers count by their magnitudes.
        """
        x = np.asarray(array if isinstance(array, np.generic) else for_array(array).to_numpy(array))
        if shape is not None and x.shape != shape:
            x = x.sum(axis=stretched(x.shape, shape), keepdims=True)[(0,) * (x.ndim - len(shape))]
        numbers = x.tolist() if x.size <= SMALL else None
        shape, flat = x.shape, (np.abs(x) if x.dtype.kind == "c" else x).ravel()
        if not x.size:
            return Statistics(shape, 0.0, math.nan, math.nan, math.nan, True, numbers)
        with np.errstate(all="ignore"):
            low, high, wide = np.minimum.reduce(flat), np.maximum.reduce(flat), flat.astype(np.float64)
            mean = np.add.reduce(wide) / flat.size
            norm = math.sqrt(np.add.reduce(np.multiply(wide, wide, out=wide)))  # BLAS would wake its threads
        finite = math.isfinite(norm) or bool(np.isfinite(flat).all())  # the squares of huge numbers overflow
        return Statistics(shape, norm, float(low), float(high), float(mean), finite, numbers)


def stretched(shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which an array of the given shape was broadcast to `shape`."""
    extra = len(shape) - len(given)
    return tuple([i for i, n in enumerate(shape) if i < extra or given[i - extra] == 1 != n])


class Step(NamedTuple):
    """One op's turn in a backward pass.

    Attributes:
        number: the number of the step, from 1.
        arrived: the gradient of the op's result, summed over the paths that lead here.
        left: the gradients of its inputs, None where none was wanted.
        seconds: how long the rules took.
        given: the shapes that the rules gave; the engine sums them over broadcast axes to the inputs' shapes.
        during: the pass.
    """

    number: int
    arrived: Statistics
    left: tuple[Statistics | None, ...]
    seconds: float
    given: tuple[tuple[int, ...] | None, ...]
    during: Witness | None = None

    @staticmethod
    def of(
        number: int, g: Any, contributions: Any, parents: tuple[Node | None, ...], seconds: float, during: Witness
    ) -> Step:
        """Take the arrays' statistics at once: the engine may add to the arrays later."""
        left = [
            None if parent is None or c is None else Statistics.of(getattr(c, "_data", c), parent.shape)
            for parent, c in zip(parents, contributions)
        ]
        given = tuple([None if c is None else tuple(c.shape) for c in contributions])
        return Step(number, Statistics.of(getattr(g, "_data", g)), tuple(left), seconds, given, during)


class Recording:
    """The nodes of what was computed within `record`, in order, and the module being called.

    Args:
        outer: the recording around it.
        scopes: the stages around it.
        site: gives the line where an op was called, and the variable that holds its result.
    """

    def __init__(
        self, outer: Recording | None, scopes: list[str], site: Callable[[], tuple[str, str]] | None = None
    ) -> None:
        self.site = site or call_site
        self.nodes: list[TracedNode] = []
        self.alive: list[Any] = (
            [] if outer is None else outer.alive
        )  # what `makers` knows by its id, which stays its own
        self.failed: tuple[TracedNode, BaseException] | None = None  # the last op that failed, and its error
        self.makers: dict[int, Node] = {} if outer is None else outer.makers  # by id of an array that they hold
        self.known: dict[int, int] = {} if outer is None else outer.known  # by the same, the tick at which it was so
        # By memory, in order: the tick, the array that was written, and the node of its content.
        self.writes: dict[Any, list[tuple[int, Any, Any]]] = {} if outer is None else outer.writes
        self.versions: dict[Node, int] = {} if outer is None else outer.versions  # how many of a memory there are
        self.met: set[Node] = set() if outer is None else outer.met  # nodes that an op read with a gradient
        self.began = tick()
        self.holders: dict[Any, list[TracedNode]] = {}  # by memory: nodes that hold an array there
        self.unsorted: list[TracedNode] = []  # nodes that are not among them yet
        self.foreign: list[tuple[str, np.ndarray[Any, Any]]] = []  # given to the outermost module
        self.scope: Scope | None = None if outer is None else outer.scope
        if outer is None:
            for name in scopes:
                self.scope = Scope(name, "", self.scope)
        self.last = time.perf_counter()

    def enter(self, name: str, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Enter the call of a module. The outermost names its parameters, and its arguments as its forward does."""
        words = [*zip(_words(type(module).forward), arguments), *named.items()]
        if not self._in_module():
            for path, parameter in module.named_parameters():
                node = self.node(parameter)
                node.variable, node.owned, node.__dict__["module"] = path, True, name
                if id(parameter._data) not in self.makers:
                    self._know(parameter._data, node)
            self.foreign = []
            for word, value in words:
                if hasattr(value, "_data") and self.node(value).op is None:
                    self.name(value, word)  # a computed Tensor has the name of a variable, or none
                elif isinstance(value, np.ndarray):
                    self.foreign.append((word, value))
        given = [(word, self.node(x)) for word, x in words if hasattr(x, "_data")]
        self.scope = Scope(name, type(module).__name__, self.scope, given)

    def _in_module(self) -> bool:
        scope = self.scope
        while scope is not None and not scope.kind:
            scope = scope.parent
        return scope is not None

    def leave(self) -> None:
        """The call of the innermost module is over."""
        if self.scope is not None:
            self.scope = self.scope.parent

    def hold(self, value: Any) -> None:
        """Note that a variable holds a Tensor, or a container of some."""
        parts = [value]
        for part in parts:
            if hasattr(part, "_data"):
                node = self.node(part)
                if isinstance(node, TracedNode):
                    node.held = True
            elif isinstance(part, (tuple, list, dict)) and len(parts) + len(part) < MOST_HELD:
                parts.extend(part.values() if isinstance(part, dict) else part)

    def made(self, array: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Note how an array was made: the function, and its arguments except dtype and device, or its fill value.

        Returns None, the node of such an array.
        """
        self._leaf(array).rule = function, arguments if len(arguments) > 1 else (array.shape, *arguments)

    def read(self, tensor: Any) -> None:
        """Note that Python reads the numbers of a Tensor."""
        node = tensor._node or self.makers.get(id(tensor._data))
        if isinstance(node, TracedNode) and node.traced:
            node.read = self.site()[0]

    def name(self, tensor: Any, name: str) -> None:
        """Name a Tensor, unless it has a name; "input" does not count, a common name of `forward`'s argument."""
        node = self.node(tensor)
        if node.variable in ("", "input"):
            node.variable = name

    def name_module(self, module: Any, name: str) -> None:
        """Note the variable of an outermost module, which tells its parameters from those of another one."""
        for path, parameter in module.named_parameters():
            node = parameter._node or self.makers.get(id(parameter._data))
            if node is not None and node.variable == path:  # else its module was called within another one
                node.__dict__["module"] = name

    def node(self, tensor: Any) -> Node:
        """The node of a Tensor, even of one that needs no gradient."""
        return tensor._node or self.maker(tensor._data)

    def maker(self, array: Any) -> Node:
        """The node of an array that needs no gradient: that of the op that computed it, or one without an op."""
        node = self.makers.get(id(array))
        if node is None:
            node = self._leaf(array)
            node.variable = self._word_for(array)
        elif self._was_written(array):
            return self._version(node, array)
        return node

    def _leaf(self, array: Any) -> TracedNode:
        node = self._fill(TracedNode(None, (), {}, {}, array), (), (array,))
        self._know(array, node)
        return node

    def _know(self, array: Any, node: Node) -> None:
        self.makers[id(array)] = node
        self.known[id(array)] = tick()
        self.alive.append(array)

    def _was_written(self, array: Any) -> bool:
        """Return True if the memory of an array was written since its node was known, without an op."""
        return written_since(self.known.get(id(array), self.began), (array,)) is not None

    def _version(self, node: Node, array: Any) -> Node:
        """Return a separate node for an array that was written without an op, like an optimiser's step."""
        if (known := self._written_elsewhere(node, array)) is not None:
            return known
        first, _ = version_of(node)
        self.versions[first] = count = self.versions.get(first, 0) + 1
        new = self._leaf(array)
        new.version, new.owned, new.variable = (first, count), first.owned, first.variable
        return new

    def follows(self, x: Any, value: Any) -> bool:
        """True if a write of `value` into x is an op: if an op made or read one of them."""
        shares = for_array(x._data).storage(x._data) == for_array(value._data).storage(value._data)
        if shares and written_since(self.known.get(id(value._data), self.began), (x._data,)) is None:
            self.known[id(x._data)] = tick()  # `x[i] += 1` wrote this part of x before: it counts once
        return any((y._node and y._node.op) is not None or id(y._data) in self.makers for y in (x, value))

    def write(self, array: Any, result: Any) -> None:
        """The memory of an array is about to be written, with the result of a recorded op: nodes keep what it held."""
        for node in self.unsorted:
            for value in node.values:
                if hasattr(value, "dtype"):
                    self.holders.setdefault(for_array(value).storage(value), []).append(node)
        self.unsorted = []
        storage = for_array(array).storage(array)
        for node in self.holders.pop(storage, ()):
            shares = [hasattr(v, "dtype") and for_array(v).storage(v) == storage for v in node.values]
            node.values = tuple([for_array(v).copy(v) if share else v for v, share in zip(node.values, shares)])
        self._know(array, self.maker(result))
        self.known[id(array)] += 1  # the tick of the write itself
        self.writes.setdefault(storage, []).append((self.known[id(array)], array, self.makers[id(array)]))

    def _written_elsewhere(self, node: Node, array: Any) -> Node | None:
        """The node of an array whose memory recorded ops wrote through other views of it; None if others wrote it, too.

        It is an op for each write: `index_set` if the view was a part of this array, `getitem` if it was a whole.
        """
        storage, then = for_array(array).storage(array), self.known.get(id(array), tick())
        writes = [write for write in self.writes.get(storage, ()) if write[0] > then]
        if not writes or not isinstance(node, TracedNode) or written_since(writes[-1][0], (array,)) is not None:
            return None
        xp, content = for_array(array), node.values[-1]
        made: list[tuple[TracedNode, tuple[Any, ...], tuple[Any, ...]]] = []
        for _, part, source in writes:
            inside, outside = _places(part, array), _places(array, part)
            if inside is not None:
                name, places, shape, more = "index_set", inside, array.shape, {"wins": None}
                sources: tuple[Any, ...] = (node, source)
                given: tuple[Any, ...] = (content, source.values[-1])
            elif outside is not None:
                name, places, shape, more = "getitem", outside, part.shape, {}
                sources, given = (source,), (source.values[-1],)
            elif np.intersect1d(_addresses(part), _addresses(array)).size:
                return None
            else:
                continue  # outside of the view
            key = tuple([xp.asarray(i) for i in np.unravel_index(places, shape)])
            params = {"key": key, **more}
            content = OPS[name].function(xp, *given, **params)
            node = TracedNode(OPS[name], (None,) * len(sources), None, params, content)
            made.append((node, sources, (*given, content)))
        if not np.array_equal(xp.to_numpy(content), xp.to_numpy(array), equal_nan=content.dtype.kind in "fc"):
            return None
        for new, sources, values in made:
            self._fill(new, sources, values)
            new.needs = (False,) * len(sources)
            self.nodes.append(new)
        self._know(array, node)
        return node

    def _word_for(self, array: Any) -> str:
        """The name that the outermost module's forward gives the NumPy array that this one copies; or ""."""
        for i, (word, given) in enumerate(self.foreign):
            if isinstance(array, np.ndarray) and given.shape == array.shape and np.array_equal(given, array):
                self.foreign.append(self.foreign.pop(i))  # equal arrays take turns
                return word
        return ""

    def cast(self, array: Any, other: Any) -> None:
        """An op uses `other` instead of an array, to match its other inputs' dtype: pictures show the array itself."""
        self._know(other, self.maker(array))

    def add(self, node: TracedNode, parents: tuple[Node | None, ...], values: Any) -> None:
        """Add an op that was computed; `values` are its inputs and its result."""
        now = time.perf_counter()
        sources: list[Any] = []
        for parent, value in zip(parents, values):
            if parent is not None:
                if id(value) not in self.makers and parent in self.met:  # `p.data = ...` gave it another array
                    self._version(parent, value)
                elif id(value) not in self.makers:
                    self._know(value, parent)  # a detached Tensor has the same array
                self.met.add(parent)
                sources.append(self._as_read(parent, value))
            else:
                sources.append(self.maker(value) if hasattr(value, "dtype") else value)
        self._fill(node, tuple(sources), tuple(values))
        node.kept_before, node.needs = node.kept, tuple([p is not None for p in parents])
        node.seconds = now - self.last
        node.origin, node.variable = self.site()
        if node.variable and self.nodes:  # the last op of a call makes what the variable holds
            former = self.nodes[-1]
            if former.variable == node.variable and former.origin is not None and former.origin.startswith(node.origin):
                former.variable = ""
        self._know(values[-1], node)
        self.nodes.append(node)
        self.last = time.perf_counter()

    def _as_read(self, node: Node, array: Any) -> Node:
        """The node of what an array holds: another one once it was written, as `w -= rate * w.grad` does."""
        found = self.maker(array)
        is_cast = isinstance(found, TracedNode) and found.op is None and found.version is None
        return node if is_cast else found

    def _fill(self, node: TracedNode, sources: tuple[Any, ...], values: tuple[Any, ...]) -> TracedNode:
        node.origin, node.variable, node.scope = None, "", self.scope
        node.sources, node.values = sources, values
        key = node.params.get("key")
        parts = key if isinstance(key, tuple) else ()
        node.indices = tuple([self.maker(part) for part in parts if hasattr(part, "dtype")])
        node.seen = tuple([_copy_of_small(value) for value in values])
        self.unsorted.append(node)
        node.needs = node.kept_before = node.residuals_before = node.seconds = node.step = None
        return node


def _places(part: Any, whole: Any) -> Any:
    """For each element of an array, its place among those of another, flat; None if one is not there."""
    parts, wholes = (_addresses(x) for x in (part, whole))
    order = np.argsort(wholes, axis=None)
    at = np.searchsorted(wholes.ravel(), parts, sorter=order)
    found = order[np.minimum(at, order.size - 1)] if order.size else at
    return found if order.size and (wholes.ravel()[found] == parts).all() else None


def _addresses(x: Any) -> Any:
    start = x.ctypes.data if isinstance(x, np.ndarray) else x.data.ptr
    for axis, (length, stride) in enumerate(zip(x.shape, x.strides)):
        start = start + (np.arange(length) * stride).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    return np.asarray(start)


def _copy_of_small(value: Any) -> Any:
    return for_array(value).copy(value) if 0 < getattr(value, "size", 0) <= SMALL else None


@functools.cache
def _words(forward: Callable[..., Any]) -> list[str]:
    """The names that a module's `forward` gives its arguments, without `self`."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    return [p.name for p in itertools.takewhile(lambda p: p.kind is p.POSITIONAL_OR_KEYWORD, parameters)]


_watching = threading.local()  # the witness of the pass that is under way


class Witness:
    """Watches a backward pass from the first recorded op on, its root: what arrives at each node and what leaves."""

    def __init__(self, root: Node) -> None:
        self.turns = 0
        outer = getattr(_watching, "witness", None)  # a formula is differentiated on the way back through its op
        self.root: weakref.ref[Node] = weakref.ref(root) if outer is None else outer.root
        self.began: int = tick() if outer is None else outer.began

    def watched(self, vjp: Callable[..., Any]) -> Callable[..., Any]:
        """The engine's function for one op's vector-Jacobian product, which leaves a `Step` with recorded nodes."""

        def watched_vjp(
            node: Any, op: Any, g: Any, parents: tuple[Node | None, ...], create_graph: bool
        ) -> Sequence[Any]:
            began = time.perf_counter()
            before, _watching.witness = getattr(_watching, "witness", None), self
            try:
                gradients: Sequence[Any] = vjp(node, op, g, parents, create_graph)
            finally:
                _watching.witness = before
            if node.traced:
                self.turns += 1
                node.step = Step.of(self.turns, g, gradients, parents, time.perf_counter() - began, self)
            return gradients

        return watched_vjp

    def arrived(self, node: Node, g: Any) -> None:
        """Note the complete gradient of a leaf."""
        if node.op is None and self.turns:
            node.arrived = Statistics.of(getattr(g, "_data", g))
            node.__dict__["during"] = self


def trace(
    op: Any, parents: tuple[Node | None, ...], kept: dict[str, Any], params: Any, out: Any, inputs: Sequence[Any]
) -> TracedNode | None:
    """Leave a node that knows where it was made; None where gradients are off, or no input needs one.

    In anomaly mode, raises FloatingPointError if its op is the first to give numbers that are not finite.
    """
    if state.recording is None and not (state.grad_enabled and any(parents)):
        return None
    node = TracedNode(op, parents, kept, params, out)
    if state.recording is not None:
        state.recording.add(node, parents, (*inputs, out))
    else:
        node.origin, node.variable = call_site()
        node.needs = node.scope = node.sources = node.values = node.kept_before = node.seconds = node.step = None
    path = module_path()
    if path:
        node.origin = f"{node.origin}, module {path}"
    if state.anomaly and not is_finite(out) and all(is_finite(a) for a in inputs):
        shapes = ", ".join(str(tuple(a.shape)) if hasattr(a, "shape") else repr(a) for a in inputs)
        error = FloatingPointError(
            f"{node.name}: the first result that is not finite, from finite inputs {shapes} (called at {node.origin})"
        )
        for listener in failure_listeners:
            listener(op, inputs, parents, error, node)
        raise error
    if state.grad_enabled and node.dtype.kind in "fc" and any(p is not None for p in parents):
        return node
    node.kept = node.kept_before = None
    return None


# ---- where an op was called

_CORE = os.path.dirname(__file__) + os.sep

# True for folders, and files, that are looked through; the innermost one named here decides.
_folders = {"": False, _CORE: True}


def looks_through(place: str, answer: bool) -> None:
    """If `answer`, an op called in this file, or folder, counts as called by its caller; otherwise as called there."""
    _folders[place if place.endswith(".py") else place + os.sep] = answer
    _is_looked_through.cache_clear()


@functools.cache
def _is_looked_through(filename: str) -> bool:
    return _folders[_innermost(filename)]


def _innermost(filename: str) -> str:
    return max((f for f in _folders if filename.startswith(f)), key=len, default="")


def call_site() -> tuple[str, str]:
    """The line outside of the library that called, as `file:line in function`, and the variable it assigns to."""
    return _site(calling_frame())


def formula_site() -> tuple[str, str]:
    """The line of a fused op's formula, and the variable it assigns to; both "" for a formula in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _innermost(frame.f_code.co_filename) == _CORE:
        if frame.f_code.co_name == "formula_of":
            return "", ""
        frame = frame.f_back
    return _site(frame)


def _site(frame: types.FrameType) -> tuple[str, str]:
    code = frame.f_code
    line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
    return line, _assigned(code).get(frame.f_lasti, "")


def calling_frame() -> types.FrameType:
    """The innermost frame outside of the library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_looked_through(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=512)
def _assigned(code: Any) -> dict[int, str]:
    """For each instruction of a function whose result goes straight into a variable: the variable."""
    found: dict[int, str] = {}
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        if before is not None and instruction.opname.startswith("STORE_") and instruction.opname not in NO_VARIABLE:
            name = instruction.argval  # two names where CPython merged two instructions into one
            places = range(before, instruction.offset, 2)  # a call of a Python function ends in the caches behind it
            found.update(dict.fromkeys(places, name if isinstance(name, str) else name[0]))
        before = instruction.offset
    return found


NO_VARIABLE = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")
