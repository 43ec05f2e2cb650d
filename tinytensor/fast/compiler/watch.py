"""What a function reads apart from its arguments: numbers, Tensors and functions that it reaches by itself.

They are looked up in its closure, among the globals that it names, in its defaults, in modules and other objects, and
in the classes of these. Between two calls all of it is compared by identity, in one pass; where something is another
one, it is looked up anew.
"""

from __future__ import annotations

import functools
import itertools
import operator
import random
import sys
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...random import Generator
from ...record.compiled import Compiled
from ...record.tape import NotRecorded, identity
from ...tensor import Tensor
from .jit import FOLDERS, INSTALLED, codes_in, is_filled, names_in

SETTINGS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
UNSEEN = (
    array, bytearray, deque, memoryview, random.Random,
    np.random.Generator, np.random.RandomState, Generator, weakref.ref, ContextVar,
    MappingProxyType, threading.local,
)  # fmt: skip
"""Objects whose contents change without an assignment that could be compared."""

UNREAD = ("state", "param_groups")
"""What an optimiser changes in each step, and only it reads."""

READING = ("step", "zero_grad")
"""Its methods that may read it while a function is recorded."""

GRADIENTS = frozenset({"backward", "grad", "zero_grad", "clip_grad_norm_"})
"""Names of what reads or fills `.grad`."""

MOST = 100_000  # things that are watched
SMALL = 1 << 16  # bytes of a NumPy array that is compared in each call


class Unread(dict[Any, Any]):
    """A state or a group of an optimiser, that only some lines of the library read, and nobody changes."""

    def __init__(self, thing: dict[Any, Any], codes: list[CodeType], place: int = 0) -> None:
        super().__init__(thing)
        self.codes, self.place, self.thread = codes, place, threading.get_ident()

    @staticmethod
    def guarded(name: str) -> Callable[..., Any]:
        def method(self: Unread, *args: Any, **options: Any) -> Any:
            is_open = name not in WRITING and sys._getframe(1).f_code in self.codes
            is_open = is_open or (name == "__getitem__" and isinstance(args[0], str) and args[0] == "params")
            if not is_open and threading.get_ident() == self.thread:
                raise NotRecorded("it reads or changes the state or the settings of an optimiser")
            return getattr(dict, name)(self, *args, **options)

        return method


WRITING = ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update")
for _name in (
    *WRITING, "__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__ne__", "__or__", "__repr__",
    "__reversed__", "__ror__", "copy", "get", "items", "keys", "values",
):  # fmt: skip
    setattr(Unread, _name, Unread.guarded(_name))


@functools.cache
def _closed(kind: Any) -> Any:
    """The type of a learning rate schedule while this thread records: reading it or changing it is refused."""

    def guarded(self: Any, name: str, *value: Any) -> Any:
        if name != "__class__" and _recording.get(id(self)) == threading.get_ident():
            raise NotRecorded("it reads or changes a learning rate schedule; call its step() outside")
        return (kind.__setattr__ if value else kind.__getattribute__)(self, name, *value)

    return type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": guarded, "__setattr__": guarded})


_recording: dict[int, int] = {}
"""By the id of a schedule the thread that records."""


class Watched:
    """The things that a function reaches, as they are.

    Attributes:
        tensors: the Tensors, in the order in which they were found.
        key: what a program depends on: settings by value, functions and classes by identity, all else by type.
        identified: the objects that the key names by id, to be kept alive as long as the key.

    Raises NotRecorded for a module with a hook, and where there is too much to watch.
    """

    def __init__(self, function: Any) -> None:
        self.tensors: list[Tensor] = []
        self._dicts: list[dict[Any, Any]] = []
        self._lists: list[list[Any]] = []
        self._sets: list[set[Any]] = []
        self._slots: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[Any, bytes]] = []
        self._cells: list[CellType] = []
        self._names: list[tuple[dict[str, Any], str]] = []
        self._classes: list[type] = []
        self._functions: list[FunctionType] = []
        self.optimizers: list[Any] = []
        self._schedules: list[Any] = []
        self.identified: list[Any] = []
        self._seen: dict[int, tuple[int, Any]] = {}
        try:
            self.key = tuple(self._parts(function))
        except NotRecorded:
            raise
        except Exception as error:  # of an object's own code, such as a weak reference to what is gone
            raise NotRecorded(f"what it reaches cannot be looked at: {type(error).__name__}: {error}") from error
        self._then = self._now()

    def holds(self) -> bool:
        """True if all that it reaches is the same."""
        now = self._now()
        is_same = len(now) == len(self._then) and all(map(operator.is_, now, self._then))
        return is_same and all(known.tobytes() == numbers for known, numbers in self._arrays)

    def _now(self) -> list[Any]:
        chain = itertools.chain.from_iterable
        found = [*chain(map(dict.values, self._dicts)), *chain(self._lists), *chain(self._sets)]
        found += chain([vars(kind).values() for kind in self._classes])
        found += [_in_slot(thing, slot) for thing, slot in self._slots]
        found += [cell.cell_contents if is_filled(cell) else cell for cell in self._cells]
        found += [space.get(name) for space, name in self._names]
        found += chain([(f.__code__, f.__defaults__, f.__kwdefaults__) for f in self._functions])
        return found

    def copies(self) -> list[Any]:
        """What is in the containers, for `put_back`."""
        found = [*map(dict, self._dicts), *map(list, self._lists), *[c.cell_contents for c in self._filled()]]
        found += [space.get(name, self) for space, name in self._names]
        found += [set(things) for things in self._sets] + [_in_slot(thing, slot, self) for thing, slot in self._slots]
        return found + [dict(vars(kind)) for kind in self._classes]

    def put_back(self, copies: list[Any]) -> None:
        """Undo what the function has assigned; `copies` were made before."""
        there = iter(copies)
        for own in self._dicts:
            was = next(there)
            for name in own.keys() - was.keys():
                del own[name]
            own.update(was)
        for things in self._lists:
            things[:] = next(there)
        for cell in self._filled():
            cell.cell_contents = next(there)
        for space, name in self._names:
            if (value := next(there)) is not self:
                space[name] = value
            else:
                space.pop(name, None)
        for members in self._sets:
            members.clear()
            members.update(next(there))
        for thing, slot in self._slots:
            if (value := next(there)) is not self:
                slot.__set__(thing, value)
            elif _in_slot(thing, slot, self) is not self:
                slot.__delete__(thing)
        for known, numbers in self._arrays:
            known[...] = np.frombuffer(numbers, known.dtype).reshape(known.shape)
        for kind, was in zip(self._classes, there):
            for name in vars(kind).keys() - was.keys():
                delattr(kind, name)
            for name, value in was.items():
                if vars(kind).get(name) is not value:
                    setattr(kind, name, value)

    @functools.cached_property
    def goes_back(self) -> bool:
        """True if a function names what reads or fills `.grad`: then gradients are among what it reads and writes."""
        own = [f.__code__ for f in self._functions if not f.__code__.co_filename.startswith(FOLDERS)]
        return bool(self.optimizers) or any(not GRADIENTS.isdisjoint(names_in(code)) for code in own)

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Refuse lines that read or change an optimiser's state or settings, or a schedule: they are not watched."""
        schedules: list[tuple[Any, Any]] = [
            (thing, type(thing)) for thing in self._schedules if id(thing) not in _recording
        ]
        former = [{name: vars(thing)[name] for name in UNREAD} for thing in self.optimizers]
        guards = []
        for thing in self.optimizers:
            base = next(base for base in type(thing).__mro__ if "_step_by_formula" in vars(base))
            codes = [code for name in READING for code in codes_in(vars(base)[name].__code__)]
            groups = tuple([Unread(group, codes, i) for i, group in enumerate(thing.param_groups)])
            guards.append({"state": Unread(thing.state, codes), "param_groups": groups})
            vars(thing).update(guards[-1])
        for thing, kind in schedules:
            _recording[id(thing)] = threading.get_ident()
            thing.__class__ = _closed(kind)
        try:
            yield
        finally:
            for thing, kind in schedules:
                del _recording[id(thing)]
                thing.__class__ = kind
            self.replaced = any(
                vars(t).get(k) is not v for t, own in zip(self.optimizers, guards) for k, v in own.items()
            )
            for thing, own in zip(self.optimizers, former):
                vars(thing).update(own)

    def _filled(self) -> list[CellType]:
        return [cell for cell in self._cells if is_filled(cell)]

    def _parts(self, thing: Any) -> Iterator[Any]:
        """The key, part by part."""
        waiting = [thing]
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, SETTINGS):
                yield identity(thing)
                continue
            if id(thing) in self._seen:
                yield self._seen[id(thing)][0]
                continue
            if len(self._seen) == MOST:
                raise NotRecorded(f"it reaches {MOST} things or more")
            self._seen[id(thing)] = len(self._seen), thing  # kept, so that no other thing gets its id
            inside = list(self._inside(thing))
            by_id = isinstance(thing, (FunctionType, type)) or hasattr(type(thing), "_step_by_formula")
            if isinstance(thing, Tensor) or (inside and not by_id):
                yield type(thing), len(inside)
            else:
                self.identified.append(thing)
                yield id(thing)
            waiting += inside[::-1]

    def _inside(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, UNSEEN) or hasattr(type(thing), "__next__"):
            raise NotRecorded(f"it reaches a {type(thing).__name__}, whose contents may change unnoticed")
        if isinstance(thing, np.ndarray):
            if thing.nbytes > SMALL or thing.dtype.hasobject:
                raise NotRecorded(f"it reaches a NumPy array of shape {thing.shape}; make a Tensor of it")
            self._arrays.append((thing, thing.tobytes()))
            yield from (thing.shape, thing.dtype, thing.tobytes())
        elif isinstance(thing, Tensor):
            self.tensors.append(thing)
            yield type(thing)
        elif isinstance(thing, FunctionType):
            yield from self._of_function(thing)
        elif isinstance(thing, Compiled):
            yield thing.function
        elif isinstance(thing, MethodType):
            yield from (thing.__func__, thing.__self__)
        elif isinstance(thing, functools.partial):
            yield from (thing.func, *thing.args, thing.keywords)
        elif isinstance(thing, BuiltinFunctionType):
            if not isinstance(thing.__self__, ModuleType):
                yield thing.__self__
        elif isinstance(thing, (list, tuple, set, frozenset)):
            if isinstance(thing, list):
                self._lists.append(thing)
            elif isinstance(thing, set):
                self._sets.append(thing)
            yield from (*thing, *self._of_subclass(thing))
        elif isinstance(thing, dict):
            self._dicts.append(thing)
            yield from (*itertools.chain.from_iterable(thing.items()), *self._of_subclass(thing))
        elif isinstance(thing, property):
            yield thing.fget
        elif isinstance(thing, (classmethod, staticmethod)):
            yield thing.__func__
        elif isinstance(thing, type):
            yield from self._of_class(thing)
        elif hasattr(type(thing), "_step_by_formula"):  # an optimiser, whose step runs behind the program
            self.optimizers.append(thing)
            self._dicts.append(own := vars(thing))
            self._lists.append(thing.param_groups)
            self._names += [(group, "params") for group in thing.param_groups]
            yield from (type(thing), *[value for name, value in own.items() if name not in UNREAD])
            yield from [group["params"] for group in thing.param_groups]
        elif hasattr(type(thing), "_take_in_new_groups"):  # a schedule, whose numbers are other ones after each step
            self._schedules.append(thing)
            yield type(thing)
        elif not isinstance(thing, (ModuleType, CodeType)):
            own = getattr(thing, "__dict__", None)
            if type(own) is dict:
                if own.get("_forward_hooks") or own.get("_forward_pre_hooks"):
                    raise NotRecorded(f"a {type(thing).__name__} has a hook, which would not be called again")
                yield from (type(thing), own)
            slots = [vars(base)[name] for base in type(thing).__mro__ for name in _slots(base)]
            self._slots += [(thing, slot) for slot in slots]
            yield from [_in_slot(thing, slot) for slot in slots]

    def _of_subclass(self, thing: Any) -> Iterator[Any]:
        """The class and the attributes of a container of a user's class."""
        if type(thing).__module__ != "builtins":
            yield from (type(thing), getattr(thing, "__dict__", None))

    def _of_class(self, kind: type) -> Iterator[Any]:
        """The attributes of a class that a user wrote, and of its bases: settings, and methods with what these read."""
        for base in kind.__mro__:
            if _is_of_users(sys.modules.get(base.__module__)):
                self._classes.append(base)
                yield from [value for name, value in vars(base).items() if name not in ("__dict__", "__weakref__")]

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        code, is_ours = function.__code__, function.__code__.co_filename.startswith(FOLDERS)
        self._functions.append(function)
        cells = [cell for cell in function.__closure__ or () if is_filled(cell)]
        if is_ours:  # a wrapper of the library, about a function that may be a user's
            cells = [cell for cell in cells if isinstance(cell.cell_contents, (FunctionType, MethodType, Compiled))]
        self._cells += cells
        yield from [cell.cell_contents for cell in cells]
        if not is_ours:
            yield vars(function)
        yield from (code, getattr(function, "__wrapped__", None), function.__defaults__, function.__kwdefaults__)
        spaces, names = [function.__globals__] * (not is_ours), names_in(code)
        spaces += [vars(sys.modules[name]) for name in names if spaces and _is_of_users(sys.modules.get(name))]
        for space in spaces:
            for name in sorted(names):
                value = space.get(name)
                if not isinstance(value, ModuleType):
                    self._names.append((space, name))
                    yield value
                elif _is_of_users(value) and all(vars(value) is not known for known in spaces):
                    spaces.append(vars(value))


@functools.cache
def _is_of_users(module: ModuleType | None) -> bool:
    """True for a module that is neither Python's, nor the library's, nor an installed package's."""
    if getattr(module, "__name__", "") == "__main__":  # which has no file in a notebook
        return True
    file = getattr(module, "__file__", None) or ""
    return bool(file) and not file.startswith((*INSTALLED, *FOLDERS))


def _slots(base: type) -> list[str]:
    """The names of a class's slots."""
    names = vars(base).get("__slots__", ()) if _is_of_users(sys.modules.get(base.__module__)) else ()
    return [name for name in ([names] if isinstance(names, str) else names) if name in vars(base)]


def _in_slot(thing: Any, slot: Any, missing: Any = None) -> Any:
    try:
        return slot.__get__(thing)
    except AttributeError:
        return missing
