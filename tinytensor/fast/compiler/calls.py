"""Calls of `tt.compile`: the program for what a call is given and reaches, made when it is first asked for."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import tinytensor as tt

from ... import dtypes
from ...backend import numpy as names
from ...grad_mode import enable_grad, no_grad
from ...modes import state
from ...node import Node, mark_written
from ...primitive import Primitive
from ...random import Generator, current_generator, default_generator, using
from ...record.tape import NotRecorded, identity
from ...tensor import Tensor, wrap
from ..texts import Count
from .jit import _compiling
from .run import OWN
from .watch import Watched
from .whole import Whole, draw, leaves_of, rebuilt, standing_in

MOST = 64  # programs of one function
MISSES = 16  # calls one after another without a program, from which on only each 64th call looks for one
OWN["draw"] = lambda line, *arguments: draw(*arguments)


class Programs:
    """Those of one function.

    Attributes:
        watched: what it read when it was last looked at.
        programs: by key, with the objects that the key names by id; the reason instead of one that cannot be made.
        misses: number of consecutive calls without a program.
        last: the program of the last call.
    """

    def __init__(self) -> None:
        self.watched: Watched | None = None
        self.programs: dict[Any, tuple[Whole | str, list[Any]]] = {}
        self.misses = 0
        self.last: Whole | None = None

    def __str__(self) -> str:
        return "" if self.last is None else str(self.last)


class CompiledOp(Primitive):
    """A compiled function as an op: for the nodes of its results."""

    def __init__(self, whole: Whole, call: Any, place: int) -> None:
        self.name, self.whole = whole.name, whole
        self.function = lambda *tensors: [x for x in leaves_of(call(*tensors)) if isinstance(x, Tensor)][place]
        self.fast_backward = self._by_program if place == whole.main else self._by_lines
        self.pure = self.floating = self.wide = False
        self.variadic, self.inputs, self.params, self.defaults = True, ("inputs",), (), {}
        self.way, self.rules = None, {}

    def _by_program(self, xp: Any, g: Any, saved: Any, needs: Sequence[bool], **params: Any) -> list[Any]:
        return self.whole.differentiate(g, saved[-1], needs)

    def _by_lines(self, xp: Any, g: Any, saved: Any, needs: Sequence[bool], **params: Any) -> list[Any]:
        """The gradients for the inputs by the function's own lines."""
        arrays = saved[-1][: len(needs)]
        leaves = [wrap(a, None) for a in arrays]
        for x, need in zip(leaves, needs):
            x.requires_grad = need
        with enable_grad():
            out = self.function(*leaves)
        wanted = [x for x, need in zip(leaves, needs) if need]
        found = iter(tt.grad(out, wanted, wrap(g, None)))
        return [next(found)._data if need else None for need in needs]


def compute(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of a call in a tuple; None where the function's own lines are to compute."""
    own: Programs = compiled.programs
    if own is None:
        own = compiled.programs = Programs()
    if own.misses > MISSES and own.misses % MOST:
        own.misses += 1
        compiled.why_not = f"none of the last {MISSES} calls and more had a program that was there"
        return None
    if state.plain is None or state.recording is not None or state.anomaly:
        compiled.why_not = "each op is recorded, watched or checked"
        return None
    try:
        given = [x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)]
        whole, tensors, watched = _find(own, compiled.function, given, args, kwargs)
    except NotRecorded as error:
        compiled.why_not = str(error)
        return None
    compiled.why_not, own.last = None, whole
    return _run(compiled, whole, tensors, watched, args, kwargs)


def _find(own: Programs, function: Any, given: list[Tensor], args: Any, kwargs: Any) -> tuple[Whole, Any, Watched]:
    """The program for a call, its Tensors, and what it reads. Raises NotRecorded with the reason why not."""
    watched = own.watched
    if watched is None or not watched.holds():
        watched = own.watched = Watched(function)
    reached = [*given, *watched.tensors]
    if watched.goes_back:
        reached += [x._node.grad for x in reached if x._node is not None and x._node.grad is not None]
    unique = {id(x): x for x in reached}
    tensors, places = list(unique.values()), {x: i for i, x in enumerate(unique)}
    order = tuple([places[id(x)] for x in reached])  # one may be given twice
    if any(type(x._data) is not np.ndarray for x in tensors):
        raise NotRecorded("a Tensor is on the GPU, or within another function that is recorded")
    needs = [x._node is not None for x in tensors]
    likes = [(x._data.shape, x._data.dtype.char, need) for x, need in zip(tensors, needs)]
    settings = Count.replacements, dtypes.get_default_dtype().char, state.grad_enabled, _autocast()
    filled = [x._node is None or x._node.grad is None for x in tensors] if watched.goes_back else ()
    key = watched.key, _form((args, kwargs)), tuple(likes), order, tuple(filled), settings
    found, _ = own.programs.get(key, (None, ()))
    if found is not None:
        own.misses = 0
    else:
        with _compiling:
            own.misses += 1
            if len(own.programs) >= MOST:
                del own.programs[next(iter(own.programs))]
            found = _record(watched, function, args, kwargs, tensors, needs)
            own.programs[key] = found, watched.identified
    if isinstance(found, str):
        raise NotRecorded(found)
    return found, tensors, watched


def _record(watched: Watched, function: Any, args: Any, kwargs: Any, tensors: list[Tensor], needs: list[bool]) -> Any:
    """The program for a call, or why there is none."""
    copies, name = watched.copies(), getattr(function, "__name__", type(function).__name__)
    arguments, drawn = Watched((args, kwargs)), np.random.get_state()  # noqa: NPY002
    given, own = arguments.copies(), default_generator
    state_of_own = own.get_state()
    try:
        with watched.unread():
            found = Whole(functools.partial(function, *args, **kwargs), tensors, needs, name, watched.goes_back)
    except NotRecorded as error:
        return str(error)
    finally:
        if assigned := watched.replaced or not (watched.holds() and arguments.holds()):
            watched.put_back(copies)
            arguments.put_back(given)
        if draws := not all(map(np.array_equal, np.random.get_state(), drawn)) or own.get_state() != state_of_own:  # noqa: NPY002
            np.random.set_state(drawn)  # noqa: NPY002
            own.set_state(state_of_own)
    if draws:
        return f"{name} draws random numbers; make them an input"
    if assigned:
        return f"{name} assigns to what it reads"
    found.names = _names(function, args, kwargs, tensors)
    return found


def _names(function: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> list[str]:
    """What Tensors are called: as arguments, or in the modules that the function is or names. For pictures."""
    lines = getattr(function, "forward", function)
    try:
        found = dict(inspect.signature(lines).bind(*args, **kwargs).arguments)
        spaces = inspect.getclosurevars(getattr(lines, "__func__", lines))
        found |= {**spaces.globals, **spaces.nonlocals}
    except (TypeError, ValueError):  # a function without a signature, or without lines
        found = {}
    of: dict[int, str] = {}
    for name, value in {**found, "": function}.items():
        if hasattr(value, "named_modules"):
            for path, module in value.named_modules():
                for inner, x in (*module._parameters.items(), *module._buffers.items()):
                    of[id(x)] = ".".join(filter(None, (name, path, inner)))
        elif isinstance(value, Tensor):
            of[id(value)] = name
    of |= {id(x._node.grad): f"{of[id(x)]}.grad" for x in tensors if x._node is not None and id(x) in of}
    return [of.get(id(x), f"x{i + 1}") for i, x in enumerate(tensors)]


def _autocast() -> Any:
    module = sys.modules.get(f"{__name__.partition('.')[0]}.nn.functional.precision")
    return None if module is None else module.autocast.get()


def _form(value: Any) -> Any:
    """The arguments of a call as a key, without the shapes of Tensors."""
    if isinstance(value, (tuple, list)):
        return type(value), *map(_form, value)
    if isinstance(value, dict):
        return (*value, *map(_form, value.values()))
    return Tensor if isinstance(value, Tensor) else identity(value)


def _fill(whole: Whole, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> dict[Any, Tensor]:
    """Fill `.grad` as the function does, and do what was put off; gives what that returns."""
    found: dict[Any, Tensor] = {}

    def fill(due: Iterable[tuple[int, int | None]]) -> None:
        for i, place in due:
            tensors[i]._node.grad = None if place is None else wrap(arrays[place], None)  # type: ignore[union-attr]

    former = {i: tensors[i].grad for _, due, *_ in whole.actions for i, _ in due}
    fill([(i, place) for i, place in whole.filled if place is not None])
    for how, due, more, out in whole.actions:
        read = [tensors[i] for i, _ in due]
        fill(due)
        if out is not None:
            found[out] = how(read, *more)
        else:
            with no_grad(), np.errstate(all="ignore"):
                states, groups = how.state, how.param_groups
                how._step_by_formula([kind(x, states.get(x, {}), groups[i]) for x, (kind, i) in zip(read, more)])
    for i, gradient in former.items():
        tensors[i]._node.grad = gradient  # type: ignore[union-attr]
    fill(whole.filled)
    return found


def _is_shared(a: Any, arrays: Sequence[Any]) -> bool:
    """True if an array is one of the inputs, or a view. What an op put aside is a tuple, which only it reads."""
    return type(a) is np.ndarray and (names.is_view(a) or any(a is b for b in arrays))


def _run(
    compiled: Any, whole: Whole, tensors: Sequence[Tensor], watched: Watched, args: Any, kwargs: Any
) -> tuple[Any] | None:
    """The result of a program in a tuple; None if another branch is to be taken."""
    inputs = [tensors[i] for i in whole.places]
    arrays = [x._data for x in inputs]
    drawn = current_generator().get_state() if whole.draws else None
    moves = {i for i, _ in whole.writes}
    before = [array.copy() if i in moves else array for i, array in zip(whole.places, arrays)]
    for i in moves:
        if any(x is not tensors[i] and np.may_share_memory(x._data, tensors[i]._data) for x in tensors):
            compiled.why_not = "a Tensor that it changes shares memory with another one"
            return None
    if (whole.filled or whole.freed) and any(x._node is not None and (x._node.op or x._node.hooks) for x in tensors):
        compiled.why_not = "it calls backward(), and a Tensor was computed before or has a hook"
        return None
    try:
        found = whole.forward(*arrays, *[np.zeros(x.shape, x.dtype) for x in whole.later])
    except Exception as error:  # an id out of range, say: the lines raise it, or catch it
        compiled.why_not = f"{type(error).__name__}: {error}"
        if drawn is not None:
            current_generator().set_state(drawn)
        return None
    results, gradients, written, saved = whole.counts
    if moves:  # what is put aside may be a view of what is written next
        found = [names.copy(a) if _is_shared(a, arrays) else a for a in found]
    for (_, holds), now in zip(whole.conditions, found[results + gradients + written + saved :]):
        if bool(now) is not holds:
            if drawn is not None:
                current_generator().set_state(drawn)
            compiled.why_not = "a branch is another one than in the call that was recorded"
            return None
    outs = [wrap(array, None) for array in found[:results]]
    for (i, _), array in zip(whole.writes, found[results + gradients :]):
        target = tensors[i]
        if target._data.flags.writeable:
            target._data[...] = array
            mark_written(target._data)
        else:
            target._data = array
    done = _fill(whole, tensors, found[results:])
    outs = [done.get(x, out) for x, out in zip(whole.forward.results, outs)] if done else outs
    for place in whole.freed:
        outs[place]._node = Node(CompiledOp(whole, None, place), (), None, {}, outs[place]._data)
    if whole.with_node:
        args, kwargs = rebuilt((args, kwargs), (x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)))

        def call(*stand_ins: Any) -> Any:
            """The function's own lines, with other Tensors instead of those that it reads."""
            if Watched(compiled.function).key != watched.key:
                raise RuntimeError(f"backward: what {whole.name} reads has changed since; call backward() before that")
            where = standing_in(inputs, [x._data for x in stand_ins], [x._node for x in stand_ins])
            generator = Generator(0)
            if drawn is not None:
                generator.set_state(drawn)
            with where, using(generator if drawn is not None else current_generator()):
                return compiled.function(*args, **kwargs)

        kept = {"inputs": tuple(before)}
        start = results + gradients + written
        put_aside = *found[:results], (*before, *found[start : start + saved])
        for place in whole.with_node:
            op = CompiledOp(whole, call, place)
            nodes = tuple([x._node if leads else None for x, leads in zip(inputs, whole.leads[place])])
            outs[place]._node = node = Node(op, nodes, dict(kept), {}, outs[place]._data)
            node.residuals = put_aside
    return (rebuilt(whole.found, iter(outs)),)
