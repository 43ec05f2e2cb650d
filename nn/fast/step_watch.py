"""The dependencies of a recorded step beside its inputs: addresses of its model's Tensors, settings, hooks."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import types
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from tinytensor import Tensor
from tinytensor.fast.compiler.jit import is_filled, names_in
from tinytensor.fast.texts import Count

from ..compiled_step import CompiledStep
from ..module import Module

SETTINGS = (bool, int, float, str)


class CannotReplay(Exception):
    """Why a call is computed op by op."""


class Held(NamedTuple):
    """A Tensor that something holds, as it was."""

    name: str
    tensor: Tensor
    array: Any
    trained: bool

    def is_there(self) -> bool:
        return self.tensor._data is self.array and self.tensor.requires_grad == self.trained


class Owned:
    """The attributes of a module as they were: each thing itself, but for settings.

    Attributes:
        own: the dictionary of the module where it has them.
    """

    def __init__(self, own: dict[str, Any]) -> None:
        self.own, self._was = own, dict(own)

    def changed(self) -> str | None:
        """A name under which something else is now, other than another setting of the same type; or None."""
        for name in (*self._was, *self.own):
            was, now = self._was.get(name, self), self.own.get(name, self)
            if now is not was and not (type(now) is type(was) and type(now) in SETTINGS):
                return name
        return None

    def put_back(self) -> None:
        for name in self.own.keys() - self._was.keys():
            del self.own[name]
        self.own.update((name, thing) for name, thing in self._was.items() if type(thing) not in SETTINGS)

    def tensors(self) -> list[tuple[str, Tensor]]:
        return [(name, thing) for name, thing in self._was.items() if isinstance(thing, Tensor)]

    def settings(self) -> dict[str, Any]:
        """The numbers and switches among them, such as `training` and a dropout's p, as they are now."""
        return {name: thing for name, thing in self.own.items() if type(thing) in SETTINGS}


class Watched:
    """The modules and Tensors that a step's model holds and its function names, as they were."""

    def __init__(self, step: CompiledStep) -> None:
        self.function, self.model = step.function, step.model
        self.named = list(named_by(step.function))
        roots = [step.model, *[x for x in self.named if isinstance(x, Module)]]
        modules = {id(module): module for root in roots for module in root.modules()}
        self.modules = list(modules.values())
        self._attributes = [Owned(vars(module)) for module in self.modules]
        self.owned = self._attributes + [
            Owned(own) for module in self.modules for own in (module._parameters, module._buffers, module._modules)
        ]
        self._dictionaries = [owned.own for owned in self.owned]
        self._values = self._now()
        self._key: Hashable = None
        tensors = [named for owned in self.owned for named in owned.tensors()]
        tensors += [("a Tensor of the function", x) for x in self.named if isinstance(x, Tensor)]
        self.held = [Held(name, x, x._data, x.requires_grad) for name, x in tensors]
        self._counters: set[tuple[int, str]] = set()  # the module's place, and the name, of numbers that count calls

    def changed(self, step: CompiledStep) -> str | None:
        """The name of something that is not as it was, or None."""
        if self.function is not step.function or self.model is not step.model:
            return "function or model"
        named = list(named_by(step.function))
        if len(named) != len(self.named) or any(a is not b for a, b in zip(named, self.named)):
            return "Tensor, module or function"
        now = self._now()
        if len(now) != len(self._values) or not all(map(operator.is_, now, self._values)):  # which is quick to ask
            for owned in self.owned:
                if (name := owned.changed()) is not None:
                    return name
            self._values, self._key = now, None  # settings alone are other ones
        return next((held.name for held in self.held if not held.is_there()), None)

    def _now(self) -> list[Any]:
        """All that the modules have."""
        return list(itertools.chain.from_iterable(map(dict.values, self._dictionaries)))

    def put_back(self, settings: list[dict[str, Any]] | None = None) -> None:
        """Make all as it was, but for settings, which become the given ones."""
        for owned in self.owned:
            owned.put_back()
        for held in self.held:
            held.tensor._data = held.array
        for owned, given in zip(self._attributes, settings or ()):
            owned.own.update(given)

    def look_at_hooks(self) -> None:
        """Raise CannotReplay if a module or a Tensor calls Python."""
        for module in self.modules:
            if module._forward_hooks or module._forward_pre_hooks:
                raise CannotReplay(f"a {type(module).__name__} has a hook, which would not be called again")
        for held in self.held:
            if held.tensor._node is not None and held.tensor._node.hooks:
                raise CannotReplay(f"{held.name} has a hook, which would not be called again")

    def settings(self) -> list[dict[str, Any]]:
        return [owned.settings() for owned in self._attributes]

    def set_by_itself(self, before: list[dict[str, Any]]) -> str | None:
        """The name of a setting that a call has changed, or None. Whole numbers count calls: they are no settings."""
        found = None
        for place, (old, new) in enumerate(zip(before, self.settings())):
            for name in old.keys() | new.keys():
                if old.get(name) != new.get(name):
                    if type(new.get(name)) is int and type(old.get(name)) is int:
                        self._counters.add((place, name))
                        self._key = None
                    else:
                        found = name
        return found

    def key(self) -> Hashable:
        """The settings that a recording depends on, as they were when `changed` was asked."""
        if self._key is None:
            self._key = tuple(
                tuple([item for item in settings.items() if (place, item[0]) not in self._counters])
                for place, settings in enumerate(self.settings())
            )
        return self._key, Count.replacements


def named_by(function: Any, seen: set[int] | None = None, home: dict[str, Any] | None = None) -> Iterator[Any]:
    """The modules, Tensors and functions in a function's closure, bound to it, or among the globals that it names.

    So too those of the functions that these are; of functions of other files than `home`'s, which decorators make, the
    closures.
    """
    seen = {id(function)} if seen is None else seen
    home = function.__globals__ if home is None and isinstance(function, types.FunctionType) else home
    values: list[Any] = []
    if isinstance(function, functools.partial):
        values = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, types.MethodType):
        values = [function.__func__, *_of_object(function.__self__)]
    elif isinstance(function, types.FunctionType):
        values = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
        if function.__globals__ is home:
            values += [home[name] for name in names_in(function.__code__) if name in home]
    elif callable(function):
        values = [inspect.getattr_static(type(function), "__call__", None), *_of_object(function)]
    for value in values:
        if isinstance(value, (Module, Tensor)):
            yield value
        elif isinstance(value, (functools.partial, types.MethodType, types.FunctionType)) and id(value) not in seen:
            seen.add(id(value))
            yield value
            yield from named_by(value, seen, home)


def _of_object(thing: Any) -> list[Any]:
    """The attributes of an object; a module is looked at as a module."""
    return [thing] if isinstance(thing, Module) else list(getattr(thing, "__dict__", {}).values())
