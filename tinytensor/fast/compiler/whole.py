"""Whole functions of Tensors, recorded with their gradients and compiled: what `tt.compile` runs.

The function's own lines are recorded once, in textbook mode, over arrays that write down what is done to them. The
Tensors that it reaches by itself, such as parameters, have recorded arrays in this thread meanwhile.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, NamedTuple

import numpy as np

from ...backend import making
from ...backend import numpy as numpy_backend
from ...engine import node_of, reachable, run
from ...modes import Replaceable, state
from ...node import Node, leaf
from ...primitive import OPS, Primitive, gather, has_pair
from ...random import Generator, current_generator, using
from ...record.tape import NAMES, REDUCTIONS, VIEWS, Names, NotRecorded, Recorded, Tape
from ...tensor import Tensor, wrap
from ..workers import InterruptsLater
from .effects import refused as calls_refused
from .jit import FOLDERS, INSTALLED
from .run import OWN, RECURRENT, Call, Program
from .simplify import rewrite

LEAVES = (type(None), bool, int, float, complex, str, bytes, type, np.dtype)
"""Types of values that a function may take and return, in addition to Tensors."""


class Whole:
    """A function recorded for Tensors of some shapes: forward and backward.

    Args:
        function: takes no arguments; it reads the Tensors.
        tensors: those that it is given or reaches by itself.
        needs: for which of them a gradient is computed.
        goes_back: whether it may read and fill `.grad`.

    Raises NotRecorded, with the file and the line, if it cannot be recorded.
    """

    def __init__(
        self, function: Callable[[], Any], tensors: Sequence[Tensor], needs: Sequence[bool], name: str,
        goes_back: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.names = name, list[str]()
        self.conditions: list[tuple[Recorded, bool]] = []
        self.tape = tape = Tape(takes_all=True)
        given = [tape.input(x._data) for x in tensors]
        nodes = [leaf(x) if need else None for x, need in zip(given, needs)]
        self._before = [None if x._node is None else x._node.grad for x in tensors]
        for node, gradient in zip(nodes, self._before):
            if node is not None and goes_back:
                node.grad = gradient
            elif node is not None:
                node.__class__ = Without
        drawn = Draws(tape)
        self.gradients: dict[tuple[int, Recorded], int] = {}  # of a Tensor, by its place: the number among results
        self.actions: list[Action] = []
        told = functools.partial(self._told, {id(x): i for i, x in enumerate(tensors)})
        modes = {"textbook": True, "observer": None, "recording": None, "told": told, "anomaly": False}
        tape.rewrite, tape.decide = rewrite, functools.partial(self._decide, tensors)
        before, former, failed = state.change(**modes), (making.namespace, making.refused), ""
        making.namespace, making.refused = Names(tape), []
        collects = gc.isenabled()
        gc.disable()  # what others leave behind must not end in the recording
        try:
            with standing_in(tensors, given, nodes) as now, using(drawn):
                with calls_refused(making.refused):
                    self.found = function()
                if making.refused:  # and the function caught it
                    raise NotRecorded(making.refused[0])
                there = list(zip(now(), given, nodes))
                if any(node is not former for (_, node, _), _, former in there):
                    raise NotRecorded("it leaves a graph in a Tensor that it was not given")
                if any(node is not None and node.hooks for node in nodes):
                    raise NotRecorded("it registers a hook")
                self.filled = [*self._gradients(tensors, nodes, self._before)] if goes_back else []
                self.writes = [(i, x) for i, ((x, *_), then, _) in enumerate(there) if x is not then]
            with calls_refused(making.refused):  # of hooks
                self._write_gradients(nodes, given)
            self._make_programs([given[i] for i in self.places])
        except Exception as error:
            failed = reason(error)
        finally:
            if collects:
                gc.enable()
            making.namespace, making.refused = former
            state.change(**before)
            tape.decide = None
        if self._kept_by_others() and not (gc.collect() and not self._kept_by_others()):
            self._compute_kept(tensors)
            failed = failed or "it keeps a Tensor that it has computed"
        if failed:
            raise NotRecorded(failed)

    def _told(self, places: dict[int, int], function: Any, faster: Any, given: Any, options: Any) -> Any:
        """Put off what acts on gradients, which nothing that is recorded may follow; write down ops of `KEPT`."""
        name = getattr(function, "__qualname__", "")
        if name == "Optimizer._step_by_formula":
            optimizer, due = given
            more = [(type(one), one.group.place) for one in due]
            return self._put_off(places, optimizer, [one.parameter for one in due], more)
        if name == "clip_grad_norm_":
            parameters, *rest = given or [options.pop("parameters")]
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            parameters = [x for x in parameters if x.grad is not None]
            if any(x.grad is self._before[places[id(x)]] for x in parameters if id(x) in places):
                raise NotRecorded("it clips a gradient that it does not compute")
            if any(isinstance(x, Tensor) for x in (*rest, *options.values())):
                raise NotRecorded("it clips by a Tensor")
            norm = self.tape.input(np.empty((), np.result_type(np.float32, *[x.grad.dtype for x in parameters])))
            self._put_off(places, functools.partial(function, **options), parameters, rest, norm)
            return wrap(norm, None)
        return kept_whole(function, faster, given, options)

    def _put_off(self, places: dict[int, int], how: Any, parameters: list[Any], more: Any, out: Any = None) -> bool:
        self.actions.append(Action(how, due := [], more, out))
        for parameter in parameters:
            g, place = parameter.grad, places.get(id(parameter))
            if place is None or g._node is not None or type(g._data) is not Recorded:
                raise NotRecorded("a gradient is not one of those that backward() computes within it")
            due.append((place, self._number(place, g._data)))
        self.tape.rewrite = refuse_more
        return True

    def _number(self, place: int, gradient: Recorded) -> int:
        """One result for each gradient of each Tensor, since gradients share no memory."""
        return self.gradients.setdefault((place, gradient), len(self.gradients))

    def _gradients(self, tensors: Any, nodes: Any, former: Any) -> Iterator[tuple[int, int | None]]:
        """The places of Tensors whose `.grad` it fills, and the number of the gradient; None if it forgets one."""
        for i, (x, node, before) in enumerate(zip(tensors, nodes, former)):
            if node is None or node.grad is before:
                continue
            g, node.grad = node.grad, None
            if g is not None and (x._node.op is not None or g._node is not None or type(g._data) is not Recorded):
                raise NotRecorded("backward() within it keeps a graph, or leads to a Tensor that was computed before")
            yield i, None if g is None else self._number(i, g._data)

    def _kept_by_others(self) -> list[Tensor]:
        """Tensors of the tape that somebody has put somewhere: a cache, or an object that is not watched."""
        results = {id(x) for x in leaves_of(getattr(self, "found", None))}
        found = [x for x in _tensors() if id(x) not in results]
        return [x for x in found if type(array := getattr(x, "_data", None)) is Recorded and array.tape is self.tape]

    def _compute_kept(self, tensors: Sequence[Tensor]) -> None:
        """Give those the values that the function would have given them."""
        inputs = dict(zip(self.tape.inputs, [x._data for x in tensors]))
        for x in self._kept_by_others():
            array, there = x._data, dict(inputs)
            lines = self.tape.needed([array], self.tape.inputs)
            with using(Generator(0)), contextlib.suppress(KeyError):  # of a gradient, which is not known here
                for line in lines:
                    Call(line).run(there)
            x._data, x._node = there.get(array, np.zeros(array.shape, array.dtype)), None

    def __str__(self) -> str:
        parts = {"forward": self.forward, "backward": self.backward}
        return "\n".join(f"{name}:\n{program}" for name, program in parts.items() if program is not None)

    def _decide(self, tensors: Sequence[Tensor], x: Recorded) -> bool:
        """If a condition holds for the Tensors that are there; it has to in each call."""
        own = [vars(Tensor)["_data"].__get__(t) for t in tensors]
        lines, there = self.tape.needed([x], self.tape.inputs), dict(zip(self.tape.inputs, own))
        if any(line.name == "draw" for line in lines):
            raise NotRecorded("a branch depends on random numbers")
        for line in lines:
            Call(line).run(there)
        self.conditions.append((x, holds := bool(there[x])))
        return holds

    def _write_gradients(self, nodes: Sequence[Node | None], given: Sequence[Recorded]) -> None:
        """Write down the gradient of the main result for each input that it leads to."""
        results = [x for x in leaves_of(self.found) if isinstance(x, Tensor)]
        if not all(isinstance(x._data, Recorded) for x in results):
            raise NotRecorded("a result does not depend on its inputs")
        self.results = [x._data for x in results]
        self.freed = [i for i, x in enumerate(results) if x._node is not None and x._node.freed]
        self.with_node = [i for i, x in enumerate(results) if x._node is not None and i not in self.freed]
        scalars = [i for i in self.with_node if results[i].size == 1]
        self.main = (scalars or self.with_node or [-1])[0]
        used = {x for line in self.tape.lines for x in line.operands}
        used |= {*self.results, *[x for _, x in self.gradients]}
        self.places = [i for i, x in enumerate(given) if x in used]
        own = [nodes[i] for i in self.places]
        self.leads: dict[int, list[bool]] = {}  # for each result with a node, which inputs it has a gradient for
        for i in self.with_node:
            behind = set(reachable([node_of(results[i], self.name)]))
            self.leads[i] = [node in behind for node in own]
        computed = {x for _, x in self.gradients}
        if self.actions and (self.with_node or any(map(self._is_seen, [*self.results, *computed]))):
            raise NotRecorded("it returns what optimizer.step() or clip_grad_norm_() changes, or a graph")
        if any(x in computed for x in self.results):
            raise NotRecorded("it returns a gradient that is in .grad as well")
        self.seed, self.wanted = None, list[Recorded]()
        if self.with_node:
            main = results[self.main]
            self.seed = self.tape.input(main._data)
            leading = [node for node, leads in zip(own, self.leads[self.main]) if node is not None and leads]
            found = run([(node_of(main, self.name), wrap(self.seed, None))], leading, True, False)
            self.wanted = [found[node] for node in leading]
        for x in results:
            x._node = None

    def _is_seen(self, x: Recorded) -> bool:
        """True for an input of the function, or a view of one."""
        while (line := self.tape.makers.get(x)) is not None and line.name in (*VIEWS, "getitem", "broadcast_to"):
            x = line.operands[0]
        return line is None and all(x is not action.out for action in self.actions)

    def _make_programs(self, inputs: list[Recorded]) -> None:
        """Compile the list: forward, with what backward reads again among its results, and backward."""
        tape, gradients, written = self.tape, [x for _, x in self.gradients], [x for _, x in self.writes]
        checks = [*[x for x, _ in self.conditions], *tape.checks]
        self.later = [action.out for action in self.actions if action.out is not None]  # in a call anything
        inputs, outs = [*inputs, *self.later], [*self.results, *gradients, *written]
        first = Program(tape, inputs, [*outs, *checks])
        sums = [line.result for line in tape.needed(outs, inputs) if line.name in REDUCTIONS]
        made = list(dict.fromkeys([*first.materialised(), *sums]))  # a number for each row is cheap to keep
        read = {x for line in tape.needed(self.wanted, [*made, *inputs]) for x in line.operands} | {*self.wanted}
        self.saved = [x for x in made if x in read]
        fresh = range(len(self.results) + len(gradients))
        self.forward = Program(tape, inputs, [*outs, *self.saved, *checks], fresh).prepare()
        self.counts = len(self.results), len(gradients), len(written), len(self.saved)
        self.backward = None
        if self.seed is not None:
            kept = [*inputs, *self.saved, self.seed]
            self.backward = Program(tape, kept, self.wanted, fresh=range(len(self.wanted))).prepare()
        self.draws = any(line.name == "draw" for line in tape.lines)

    def differentiate(self, g: Any, saved: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """The gradients for the inputs, given that of the main result."""
        assert self.backward is not None
        found = iter(self.backward(*saved, g))
        gradients = [next(found) if leads else None for leads in self.leads[self.main]]
        return [gradient if need else None for gradient, need in zip(gradients, needs)]


def _tensors() -> list[Tensor]:
    """All Tensors. Each refers to its type; a list of all objects would hold some that other threads still make."""
    kinds, waiting = set[type](), [Tensor]
    while waiting:
        kind = waiting.pop()
        kinds.add(kind)
        waiting += type.__subclasses__(kind)
    return [x for x in gc.get_referrers(*kinds) if type(x) in kinds]


class Without(Node):
    """The leaf of a Tensor whose `.grad` is not part of the key."""

    @property
    def grad(self) -> Any:
        raise NotRecorded("it reads or fills .grad, and none of its functions names it")

    @grad.setter
    def grad(self, value: Any) -> None:
        raise NotRecorded("it reads or fills .grad, and none of its functions names it")


class Action(NamedTuple):
    """What comes after a program: the step of an optimiser, or clipping.

    Attributes:
        how: the optimiser, or the function.
        due: the places of the Tensors whose gradients it reads, and the numbers of those.
        more: for each the kind and the place of its group; or the function's further arguments.
        out: on the tape, what the function returns.
    """

    how: Any
    due: list[tuple[int, int]]
    more: Any
    out: Recorded | None


def refuse_more(*_: Any) -> None:
    raise NotRecorded("it computes more after optimizer.step() or clip_grad_norm_()")


# ---- ops that remain one, with their pair made by hand


KEPT = frozenset({"attention", "convolution", "gru", "lstm", "max_pool", "multi_head", "rnn"})
"""Fused ops whose pair does what no loop over lines can: blocks of attention, windows, one step after another."""


class Kept(Primitive):
    """Such an op on a tape: for its node."""

    def __init__(self, primitive: Primitive, residual: Recorded, zeros: Any) -> None:
        vars(self).update(vars(primitive))
        self.fast_backward = functools.partial(self._write, primitive, residual, zeros)

    @staticmethod
    def _write(
        primitive: Primitive, residual: Any, zeros: Any, xp: Any, g: Any, saved: Any, needs: Sequence[bool], **_: Any
    ) -> Any:
        """Write down its backward half."""
        out, zero_residual, params = zeros
        like = primitive.fast_backward(numpy_backend, np.zeros_like(out), zero_residual, needs, **params)
        arguments = primitive.name, g, residual, tuple(needs)
        both = g.tape.write("backward_of", arguments, params, (), np.object_)
        return [x if x is None else part(both, i, x.shape, x.dtype) for i, x in enumerate(like)]


def part(of: Recorded, place: int, shape: Any = (), dtype: Any = np.object_) -> Recorded:
    """One of several results of a line."""
    return of.tape.write("part", (of, place), {}, shape, dtype)


def kept_whole(primitive: Any, call: Any, inputs: Any, params: dict[str, Any]) -> Tensor | None:
    """An op of `KEPT` as one line; None for others."""
    if getattr(primitive, "name", None) not in KEPT or not isinstance(primitive, Primitive) or not has_pair(primitive):
        return None
    xp, arrays, nodes = gather(primitive, inputs)
    params = {**primitive.defaults, **params}
    if primitive.name in RECURRENT and len(arrays[0]) == 1:
        return None  # of one step loops over its lines take less time
    if xp is not NAMES or not all(isinstance(x, (tuple, *LEAVES)) for x in params.values()):
        return None
    like = [a if a is None else np.zeros(a.shape, a.dtype) for a in arrays]
    out, residual = primitive.fast_forward(numpy_backend, *like, **params)
    tape = next(a for a in arrays if a is not None).tape
    both = tape.write("forward_of", (primitive.name, *arrays), params, (), np.object_)
    result = wrap(part(both, 0, out.shape, out.dtype), None)
    if state.grad_enabled and any(nodes):
        own = Kept(primitive, part(both, 1), (out, residual, params))
        result._node = Node(own, nodes, {}, {}, result._data)
        result._node.residuals = ()
    return result


OWN["forward_of"] = lambda line, name, *arrays, **params: OPS[name].fast_forward(numpy_backend, *arrays, **params)
OWN["backward_of"] = lambda line, name, *given, **params: OPS[name].fast_backward(numpy_backend, *given, **params)
OWN["part"] = lambda line, several, place: several[place]


class Draws(Generator):
    """The generator of a thread that records: masks of dropout, which each call draws anew, are all that it gives."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.count = tape, 0

    def bernoulli(self, p: float, shape: Any = (), *, device: Any = None) -> Tensor:
        self.count += 1
        mask = self.tape.write("draw", (float(p), tuple(shape), self.count), {}, tuple(shape), np.bool_)
        self.tape.checks.append(mask)  # drawn even if nobody reads it, since later numbers depend on it
        return wrap(mask, None)

    def __getattr__(self, name: str) -> Any:
        raise NotRecorded("it draws random numbers; make them an input")

    _generator = property(lambda self: self.__getattr__("_generator"))
    manual_seed = get_state = set_state = _generator


def draw(p: float, shape: Any, _: int) -> Any:
    """What a line of `Draws` computes."""
    return current_generator().bernoulli(p, shape)._data


# ---- Tensors that stand for others


_standing: dict[tuple[int, int], Any] = {}
"""By the thread and the id of a Tensor its array, its node and its mark for views there."""


@functools.cache
def _shadow(kind: type) -> type:
    """The type of a Tensor that has another array and another node in some threads."""

    def part(name: str, place: int) -> property:
        own = getattr(Tensor, name)

        def get(self: Any) -> Any:
            found = _standing.get((get_ident(), id(self)))
            return own.__get__(self) if found is None else found[place]

        def put(self: Any, value: Any) -> None:
            found = _standing.get((get_ident(), id(self)))
            if found is None:
                own.__set__(self, value)
            else:
                found[place] = value

        return property(get, put)

    parts = {name: part(name, place) for place, name in enumerate(("_data", "_node", "_memory"))}
    return Replaceable(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, **parts})


_shadowing = RLock()
_shadowed: dict[int, int] = {}


@contextmanager
def standing_in(
    tensors: Sequence[Tensor], arrays: Sequence[Any], nodes: Sequence[Node | None]
) -> Iterator[Callable[[], list[Any]]]:
    """Within it, Tensors have other arrays and nodes in this thread, and in others their own.

    Gives a function that gives their arrays and nodes now.
    """
    here = get_ident()
    former = [_standing.get((here, id(x))) for x in tensors]
    began = False
    try:
        with InterruptsLater(), _shadowing:
            for x, array, node in zip(tensors, arrays, nodes):
                if id(x) not in _shadowed:
                    x.__class__ = _shadow(type(x))
                _shadowed[id(x)] = _shadowed.get(id(x), 0) + 1
                _standing[here, id(x)] = [array, node, None]
            began = True
        yield lambda: [_standing[here, id(x)] for x in tensors]
    finally:
        with InterruptsLater(), _shadowing:
            for x, outer in zip(tensors if began else (), former):
                _standing[here, id(x)] = outer
                if outer is None:
                    del _standing[here, id(x)]
                _shadowed[id(x)] -= 1
                if not _shadowed[id(x)]:
                    del _shadowed[id(x)]
                    x.__class__ = type(x).__base__  # type: ignore[assignment]


# ---- results


def leaves_of(value: Any) -> Iterator[Any]:
    """The Tensors and constants in nested tuples, lists and dictionaries. Raises NotRecorded for others."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves_of(each)
    elif isinstance(value, dict):
        yield from leaves_of(tuple(value.values()))
    elif isinstance(value, (Tensor, *LEAVES)):
        yield value
    else:
        raise NotRecorded(f"it returns a {type(value).__name__}; expected Tensors and constants")


def rebuilt(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The same, with other Tensors instead."""
    if isinstance(value, (tuple, list)):
        each = [rebuilt(v, tensors) for v in value]
        return type(value)(*each) if hasattr(value, "_fields") else type(value)(each)
    if isinstance(value, dict):
        made = copy.copy(value)  # a defaultdict, say
        made.update({name: rebuilt(v, tensors) for name, v in value.items()})
        return made
    return next(tensors) if isinstance(value, Tensor) else value


def reason(error: BaseException) -> str:
    """Why a function could not be recorded, with the file and the line where."""
    cause: BaseException = error
    while not isinstance(cause, NotRecorded) and cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause) if isinstance(cause, NotRecorded) else f"{type(cause).__name__}: {cause}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*FOLDERS, *INSTALLED))]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {text}" if frames else text
