"""An optimiser's `update`, compiled: its arrays become one loop over the elements, its numbers formulas.

An `update` of the library is recorded once for each shape and dtype, with its numbers as formulas of those that it is
given, so that a later step only computes these anew. One that a user wrote runs in each step for each large parameter,
with all that it does, and only its arrays are recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor.fast.compiler.jit import FOLDERS, LARGE, can_compile, is_ours, shows
from tinytensor.fast.texts import Count
from tinytensor.modes import state as modes
from tinytensor.record.tape import Like, Line, NotRecorded, Recorded, Tape, identity
from tinytensor.tensor import wrap

from ..optim.optimizer import WIDER, Optimizer

MOST = 512  # recordings, and loops, that are kept
BRANCHES = 8  # recordings for the same shape, for numbers that lead to other branches


class Plan(NamedTuple):
    """How a parameter is updated.

    Attributes:
        update: updates parameters, given as rows of arrays, with some numbers.
        numbers: those numbers.
        arrays: what a row has: "theta", "g" and names of Tensors that are remembered.
        counted: the numbers that are remembered.
    """

    update: Callable[[Sequence[Any], tuple[float, ...]], None]
    numbers: tuple[float, ...]
    arrays: Sequence[str]
    counted: dict[str, Any]


class Recording(NamedTuple):
    """An `update` as a loop.

    Attributes:
        loop: computes it.
        arrays: what a row of the loop has, by name.
        formulas: computes the loop's numbers, those that are remembered, and if it is the same branch.
        counted: the names of numbers that are remembered.
        text: that of `formulas`.
        doubts: the numbers that it was recorded with, until others have led to the same text.
    """

    loop: Any
    arrays: list[str]
    formulas: Callable[[Sequence[float]], tuple[Any, ...]]
    counted: list[str]
    text: str
    doubts: list[Any]

    def plan(self, numbers: Sequence[float]) -> Plan | None:
        """The plan for the numbers of a group and a state; None if they lead to another branch."""
        *found, holds = self.formulas(numbers)
        if not holds:
            return None
        count = len(self.loop.numbers)
        return Plan(self.loop, tuple(found[:count]), self.arrays, dict(zip(self.counted, found[count:])))


ANY = tt.empty(())
_recordings: dict[Any, list[Recording | None]] = {}
_loops: dict[Any, Any] = {}
_refused: set[Any] = set()  # updates of users that cannot be recorded, with the names of a state


def compiled(optimizer: Optimizer) -> Callable[..., Plan | None] | None:
    """A function (array, state, group) that gives a plan, or None for a parameter that its lines update.

    Returns None for a GPU.
    """
    kinds = {type(p._data) for group in optimizer.param_groups for p in group["params"]}
    if kinds != {np.ndarray} or not can_compile():
        return None
    update = optimizer.update
    function = getattr(update, "__func__", update)
    if not isinstance(function, FunctionType):
        return None
    if not function.__code__.co_filename.startswith(FOLDERS) or not is_ours(function):
        is_large = any(p.size >= LARGE for group in optimizer.param_groups for p in group["params"])
        return functools.partial(_plan_of_a_users, update, function) if is_large and not shows(function) else None
    groups: dict[int, tuple[Any, list[Any]]] = {}
    plans: dict[Any, Plan | None] = {}

    def plan_of(array: Any, state: dict[str, Any], group: dict[str, Any]) -> Plan | None:
        numbers, dtype = [], WIDER.get(array.dtype, array.dtype)
        for value in state.values():
            if type(value) is not tt.Tensor:
                numbers.append(value)
            elif value._data.dtype is not dtype:
                return None
        key = (id(group), array.dtype, array.shape, *state, *numbers)
        try:
            return plans[key]
        except KeyError:
            pass
        except TypeError:  # a state that holds a list, say
            return None
        if id(group) not in groups:
            groups[id(group)] = _key_and_numbers(group)
        plans[key] = _try(lambda: _plan(update, array, state, group, *groups[id(group)]))
        return plans[key]

    return plan_of


def _plan_of_a_users(update: Any, function: Any, array: Any, state: Any, group: Any) -> Plan | None:
    """The plan for an update that a user wrote, which runs for it; what a failure leaves of it is taken back."""
    key, like = (function.__code__, *state), _like(array)
    arrays = [value._data for value in state.values() if is_tensor(value)]
    if key in _refused or any(a.shape != like.shape or a.dtype != like.dtype for a in arrays):
        return None
    own = vars(getattr(update, "__self__", None) or SimpleNamespace())
    before = {**own}
    found = _try(lambda: _record(update, like, state, group, False).plan([]))
    changed = [value for name, value in own.items() if before.get(name) is not value]
    if found is None or not all(map(is_plain, changed)):
        own.clear()
        own.update(before)
        _refused.add(key)
        return None
    return found


def _like(array: Any) -> Like:
    """What an update is recorded for; instead of an empty array, one element."""
    return Like(tuple([max(n, 1) for n in array.shape]), WIDER.get(array.dtype, array.dtype))


def _try(make: Callable[[], Plan | None]) -> Plan | None:
    try:
        return make()
    except Exception:  # NotRecorded, or one of the update itself, which its lines raise again
        return None


def _plan(update: Any, array: Any, state: Any, group: Any, of_group: Any, numbers: list[Any]) -> Plan | None:
    """The plan for an update of the library: from a recording, or from a new one."""
    like, (of_state, more) = _like(array), _key_and_numbers(state)
    function = getattr(update, "__func__", update)  # a method would keep its optimiser
    key, numbers = (function, Count.replacements, like, of_group, of_state), [*numbers, *more]
    known = _recordings.get(key, [])
    for recording in known:
        if recording is None or (found := recording.plan(numbers)) is None:
            continue
        if recording.doubts and recording.doubts[0] != numbers:
            again = _record(update, like, state, group, True)
            if again.text != recording.text or again.loop is not recording.loop:  # it took a number for good
                known[:] = [None]
                return None
            recording.doubts.clear()
        return found
    if None in known:
        return None
    if len(_recordings) >= MOST:
        _recordings.clear()
    try:
        recording = _record(update, like, state, group, True)
    except Exception:
        recording = None  # nor will it be next time
        raise
    finally:
        _recordings[key] = [*known[1 - BRANCHES :], recording]
    recording.doubts.append(numbers)
    return recording.plan(numbers)


def _record(update: Any, like: Like, state: dict[str, Any], group: dict[str, Any], is_traced: bool) -> Recording:
    """Record an update. Raises NotRecorded, or an error of the update."""
    tape = Tape()

    def number(value: Any) -> Any:
        if is_tensor(value):
            return wrap(tape.input(like), None)
        if type(value) is tuple and all(map(is_number, value)):
            return tuple(map(number, value))
        return tape.number(value) if is_traced and is_number(value) else value

    theta, g = number(ANY), number(ANY)
    if is_traced:  # one of a user's may change the group itself
        group = {name: value if name == "params" else number(value) for name, value in group.items()}
    known = {name: number(value) for name, value in state.items()}
    names = {"theta": theta._data, "g": g._data, **{k: v._data for k, v in known.items() if is_tensor(v)}}
    before = modes.change(textbook=True, grad_enabled=False, observer=None, recording=None, told=None, anomaly=False)
    try:
        theta, remembered = update(theta, g, mine := {**known}, group)
    finally:
        modes.change(**before)
    if [*mine] != [*known] or any(mine[k] is not v for k, v in known.items()):
        raise NotRecorded("it changes the state itself")
    made = {"theta": theta, **{k: v for k, v in remembered.items() if is_tensor(v)}}
    counted = {k: v for k, v in remembered.items() if not is_tensor(v)}
    if {"theta", "g"} & {*state, *remembered} or not all(
        is_plain(v) and not is_tensor(state.get(k)) for k, v in counted.items()
    ):
        raise NotRecorded("it remembers more than arrays like the parameter, and numbers")
    results: dict[Recorded, str] = {}
    for name, tensor in made.items():
        x = tensor._data
        if not isinstance(x, Recorded) or (x.shape, x.dtype) != (like.shape, like.dtype):
            raise NotRecorded(f"its {name} is not an array like the parameter")
        if x in results or x in {*names.values()}:
            x = tape.write("copy", (x,), {"as": name}, x.shape, x.dtype)
        results[x] = name
    lines = tape.needed([*results], tape.inputs)
    loop = _loop(lines, results, {x: names[name] for x, name in results.items() if name in names})
    by_place = {x.place: name for name, x in names.items()} | {x.place: name for x, name in results.items()}
    numbers = [lines[i].arguments[place] for i, place in loop.numbers]
    values = *[x.item() if isinstance(x, np.generic) else x for x in numbers], *counted.values()
    text, formulas = tape.formulas(values) if is_traced else ("", lambda _: (*values, True))
    return Recording(loop, [by_place[place] for place in loop.arrays], formulas, list(counted), text, [])


def _loop(lines: Sequence[Line], results: dict[Recorded, str], over: dict[Recorded, Recorded]) -> Any:
    """The compiled loop: one for all recordings that differ by numbers and shapes alone."""
    from tinytensor.fast.compiler.in_place import InPlace
    from tinytensor.fast.compiler.plan import ONE_BY_ONE

    if any(line.name not in ONE_BY_ONE for line in lines):
        raise NotRecorded("it adds up along an axis")

    def told(line: Line) -> str:
        is_given = line.name != "pow"
        return ", ".join(["#" if is_given and is_number(x) else repr(x) for x in line.arguments])

    texts = [f"{line.result} = {line.name}({told(line)}): {line.result.dtype}" for line in lines]
    key = *texts, *map(str, results), str(over)
    if key not in _loops:
        if len(_loops) >= MOST:
            _loops.clear()
        _loops[key] = InPlace(lines, [*results], over)
    return _loops[key]


def _key_and_numbers(values: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What tells two groups or states apart except for numbers; and the numbers."""
    key, numbers = list[Any](), list[Any]()
    for name, value in values.items():
        if name == "params":
            continue
        if is_tensor(value):
            key.append((name, tt.Tensor))
        elif is_number(value):
            numbers.append(value)
            key.append((name, float))
        elif type(value) is tuple and all(map(is_number, value)):
            numbers += value
            key.append((name, len(value)))
        else:
            key.append((name, identity(value)))
    return tuple(key), numbers


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool


def is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def is_tensor(value: Any) -> bool:
    return isinstance(value, tt.Tensor)
