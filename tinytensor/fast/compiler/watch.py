"""What a function reads apart from its arguments: numbers, Tensors and functions that it reaches by itself.

They are looked up in its closure, among the globals that it names, in its defaults, in modules and other objects, and
in the classes of these. Between two calls all of it is compared by identity, in one pass; where something is another
one, it is looked up anew.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...record.compiled import Compiled
from ...record.tape import NotRecorded, identity
from ...tensor import Tensor
from .jit import FOLDERS, shows

SETTINGS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
MOST = 100_000  # things that are watched
LIBRARY = __name__.partition(".")[0]


class Watched:
    """The things that a function reaches, as they are.

    Attributes:
        tensors: the Tensors, in the order in which they were found.
        key: what a program depends on: settings by value, functions and classes by identity, all else by type.
        identified: the objects that the key names by id, to be kept alive as long as the key.

    Raises NotRecorded for a function that prints, a module with a hook, and where there is too much to watch.
    """

    def __init__(self, function: Any) -> None:
        self.tensors: list[Tensor] = []
        self._dicts: list[dict[Any, Any]] = []
        self._lists: list[list[Any]] = []
        self._cells: list[CellType] = []
        self._names: list[tuple[dict[str, Any], str]] = []
        self._classes: list[Any] = []
        self._functions: list[FunctionType] = []
        self.identified: list[Any] = []
        self._seen: dict[int, tuple[int, Any]] = {}
        self.key = tuple(self._parts(function))
        self._then = self._now()

    def holds(self) -> bool:
        """True if all that it reaches is the same."""
        now = self._now()
        return len(now) == len(self._then) and all(map(operator.is_, now, self._then))

    def _now(self) -> list[Any]:
        chain = itertools.chain.from_iterable
        found = [*chain(map(dict.values, self._dicts)), *chain(self._lists)]
        found += chain([own.values() for own in self._classes])
        found += [cell.cell_contents if _is_filled(cell) else cell for cell in self._cells]
        found += [space.get(name) for space, name in self._names]
        found += chain([(f.__code__, f.__defaults__, f.__kwdefaults__) for f in self._functions])
        return found

    def copies(self) -> list[Any]:
        """What is in the containers, for `put_back`."""
        return [*map(dict, self._dicts), *map(list, self._lists), *[c.cell_contents for c in self._filled()]]

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

    def _filled(self) -> list[CellType]:
        return [cell for cell in self._cells if _is_filled(cell)]

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
            if isinstance(thing, Tensor) or (inside and not isinstance(thing, (FunctionType, type))):
                yield type(thing), len(inside)
            else:
                self.identified.append(thing)
                yield id(thing)
            waiting += inside[::-1]

    def _inside(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, Tensor):
            self.tensors.append(thing)
        elif isinstance(thing, FunctionType):
            yield from self._of_function(thing)
        elif isinstance(thing, Compiled):
            yield thing.function
        elif isinstance(thing, MethodType):
            yield from (thing.__func__, thing.__self__)
        elif isinstance(thing, functools.partial):
            yield from (thing.func, *thing.args, *thing.keywords.values())
        elif isinstance(thing, (list, tuple, set, frozenset)):
            if isinstance(thing, list):
                self._lists.append(thing)
            yield from thing
        elif isinstance(thing, dict):
            self._dicts.append(thing)
            yield from itertools.chain.from_iterable(thing.items())
        elif isinstance(thing, property):
            yield thing.fget
        elif isinstance(thing, (classmethod, staticmethod)):
            yield thing.__func__
        elif isinstance(thing, type):
            yield from self._of_class(thing)
        elif not isinstance(thing, (ModuleType, CodeType)) and type(own := getattr(thing, "__dict__", None)) is dict:
            if own.get("_forward_hooks") or own.get("_forward_pre_hooks"):
                raise NotRecorded(f"a {type(thing).__name__} has a hook, which would not be called again")
            if "_modules" in own or type(thing).__module__.partition(".")[0] != LIBRARY:
                yield from (type(thing), own)

    def _of_class(self, kind: type) -> Iterator[Any]:
        """The attributes of a class that a user wrote, and of its bases: settings, and methods with what these read."""
        for base in kind.__mro__:
            if _is_of_users(sys.modules.get(base.__module__)):
                self._classes.append(vars(base))
                yield from [value for name, value in vars(base).items() if name not in ("__dict__", "__weakref__")]

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        code, is_ours = function.__code__, function.__code__.co_filename.startswith(FOLDERS)
        if not is_ours and shows(function):
            raise NotRecorded(f"{function.__qualname__} prints, or asks for input")
        self._functions.append(function)
        self._cells += function.__closure__ or ()
        yield from [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        yield from (code, getattr(function, "__wrapped__", None), function.__defaults__, function.__kwdefaults__)
        spaces, names = [function.__globals__] * (not is_ours), set(_names(code))
        for space in spaces:
            for name in sorted(names):
                value = space.get(name)
                if not isinstance(value, ModuleType):
                    self._names.append((space, name))
                    yield value
                elif _is_of_users(value) and all(vars(value) is not known for known in spaces):
                    spaces.append(vars(value))


def _names(code: CodeType) -> Iterator[str]:
    """The names in a function and in those that it defines."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


@functools.cache
def _is_of_users(module: ModuleType | None) -> bool:
    """True for a module that is neither Python's, nor the library's, nor an installed package's."""
    if getattr(module, "__name__", "") == "__main__":  # which has no file in a notebook
        return True
    file = getattr(module, "__file__", None) or ""
    is_installed = "site-packages" in file or file.startswith((sys.prefix, sys.base_prefix, FOLDERS[0]))
    return bool(file) and not is_installed and not file.startswith(FOLDERS)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
