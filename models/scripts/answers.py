"""An answer to an exercise, as its check calls it: run here, or replayed from what it gave in another process.

A check runs twice. In a process of its own, in which the answer is, it runs to call it, and each result goes into a log
as plain data. Here it runs again with the same seed, and every call of the answer gives what the log has. So code of
the answer cannot reach what compares: it may replace `agree` or functions of tinytensor there, and changes only what
the log has. This does not stop an answer that looks for the expected result instead of computing it, in the text of the
check or in the frames that call it, nor one that replaces what watches how it computes.
"""

from __future__ import annotations

import base64
import copy
import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor

MOST, LONGEST = 10**6, 10**4
"""The most elements that an array may have that an answer gives, and of a list those that are looked at."""

Act = Callable[[], Any]
Through = Callable[[Act], Any]


class Wrong(Exception):
    """An answer is wrong; its text says how. `bare` is True where it is two numbers and nothing else."""

    def __init__(self, text: str, bare: bool = False) -> None:
        super().__init__(text)
        self.bare = bare


class Raised(Exception):
    """An answer raised an exception: its kind, the line of the answer or None, and its text."""

    def __init__(self, kind: str, line: int | None, text: str) -> None:
        where = f" in line {line}" if line else ""
        super().__init__(
            "It took more memory than there is" if kind == "MemoryError" else f"It raised {kind}{where}: {text}"
        )


class Stopped(Exception):
    """A log ends before the check does."""


class Opaque:
    """Replaces a result that is no plain data; `kind` names its type."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


@dataclass(frozen=True)
class Watched:
    """The result of an answer, and how it went about it.

    Attributes:
        result: what it gave.
        ops: name and shape of the result of each op that it computed, in order.
        depth: the longest path of these ops.
        called: names of these ops, and of all functions of tinytensor and NumPy that ran meanwhile.
        steps: how many lines of its file ran, each as often as it did: more for larger inputs if it has a loop.
        changed: True if it changed an argument.
    """

    result: Any
    ops: list[tuple[str, tuple[int, ...]]]
    depth: int
    called: set[str]
    steps: int
    changed: bool


class Answer:
    """A student's function, for a check: call it.

    Its results are plain data: Tensors, arrays, numbers, text, None, and lists, tuples, sets and dictionaries of these.
    Arguments that are arrays, Tensors, or lists and dictionaries of them are copied for each call.
    """

    def __init__(self, name: str, function: Callable[..., Any], through: Through) -> None:
        self.__name__, self._function, self._through = name, function, through

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _filled(self._through(lambda: self._function(*map(_own, arguments), **options)))

    def watched(self, *arguments: Any) -> Watched:
        """Call it, and see how it computes."""
        watched = Watched(*self._through(lambda: _watch(self._function, [_own(argument) for argument in arguments])))
        _filled(watched.result)
        return watched

    def seen(self, look: Act) -> Any:
        """The result of `look()`. Look through this at everything that an answer has changed."""
        return self._through(look)


def run_here(source: str, log: Callable[[list[Any]], object] | None = None) -> Through:
    """Run an answer; `log` gets each result as what JSON can hold, `source` is the file that lines are counted in."""

    def through(act: Act) -> Any:
        state = tt.random.get_state()  # what an answer draws changes nothing for the check
        try:
            entry: list[Any] = ["gave", _pack(act())]
        except BaseException as error:  # SystemExit, too
            if log is None and isinstance(error, KeyboardInterrupt):  # somebody waits, and does not want to
                raise
            entry = ["raised", type(error).__name__, line_of(error, source), str(error)]
        finally:
            tt.random.set_state(state)
        if log is not None:
            log(entry)
        return _unpacked(entry)

    return through


def replay(entries: Iterable[list[Any]]) -> Through:
    """Give what a log has, and run nothing; raise Stopped where it ends, or is no log."""
    left = iter(entries)

    def through(act: Act) -> Any:
        try:
            return _unpacked(next(left))
        except (StopIteration, LookupError, TypeError, ValueError, RecursionError):
            raise Stopped from None

    return through


def line_of(error: BaseException, source: str) -> int | None:
    """The line of a file that raised the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if source and frame.filename == source]
    return lines[-1] if lines else None


def _filled(result: Any) -> Any:
    if result is ...:
        raise Wrong("The hole is still there: put your answer in the place of `...`")
    if result is None:
        raise Wrong("It gives None: is a `return` missing?")
    return result


def _own(argument: Any) -> Any:
    return copy.deepcopy(argument) if isinstance(argument, (Tensor, np.ndarray, list, tuple, dict)) else argument


def _watch(function: Callable[..., Any], arguments: list[Any]) -> tuple[Any, ...]:
    """The fields of Watched. Lines are seen as a debugger sees them."""
    source = getattr(getattr(function, "__code__", None), "co_filename", "")
    steps, called, before, given = 0, set(), sys.gettrace(), list(map(_pack, arguments))

    def line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return line

    def call(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == source:
            return line(frame, "line", argument)
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("tinytensor", "numpy"):
            called.add(frame.f_code.co_name)
        return None

    with tt.record() as graph:
        sys.settrace(call)
        try:
            result = function(*arguments)
        finally:
            sys.settrace(before)
    shapes = {value.id: value.shape for value in graph.values}
    ops = [(op.name, shapes[op.output]) for op in graph.ops]
    called |= {name for name, _ in ops}
    return result, ops, graph.depth, called, steps, given != list(map(_pack, arguments))


def _pack(value: Any) -> list[Any]:
    """A value as what JSON can hold."""
    kind = type(value).__name__
    if value is ...:
        return ["hole"]
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype.kind not in "biufc" or array.size > MOST:
            return ["other", f"{kind} of {array.size} elements, {array.dtype}"]
        content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        sort = "tensor" if isinstance(value, Tensor) else "array" if isinstance(value, np.ndarray) else "scalar"
        return [sort, array.dtype.str, list(array.shape), content]
    if isinstance(value, int) and abs(value) >> 64:
        return ["other", "int of more than 64 bits"]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["plain", value[:MOST] if isinstance(value, str) else value]
    if isinstance(value, dict):
        return ["dict", [[_pack(key), _pack(each)] for key, each in itertools.islice(value.items(), LONGEST)]]
    if isinstance(value, (list, tuple, set, frozenset, Iterator, range)):
        sort = "tuple" if isinstance(value, tuple) else "set" if isinstance(value, (set, frozenset)) else "list"
        return [sort, [_pack(each) for each in itertools.islice(value, LONGEST)]]
    return ["other", kind]


def _unpacked(entry: list[Any]) -> Any:
    if entry[0] == "raised":
        raise Raised(*entry[1:])
    return _unpack(entry[1])


def _unpack(packed: list[Any]) -> Any:
    sort = packed[0]
    if sort in ("tensor", "array", "scalar"):
        array = np.frombuffer(base64.b64decode(packed[3]), np.dtype(packed[1])).reshape(packed[2])
        return tt.asarray(array) if sort == "tensor" else array.copy() if sort == "array" else array[()]
    if sort == "dict":
        return {_unpack(key): _unpack(value) for key, value in packed[1]}
    if sort in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[sort](_unpack(each) for each in packed[1])
    return {"plain": lambda: packed[1], "hole": lambda: ..., "other": lambda: Opaque(packed[1])}[sort]()
