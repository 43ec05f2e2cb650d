"""What a recorded step depends on beside its inputs: where the Tensors of its model lie, its settings, who listens."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from tinytensor import Tensor

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
    """What a module has under its names, as it was: each thing itself, but for settings."""

    def __init__(self, module: Module, own: dict[str, Any]) -> None:
        self.module, self._own, self._things = module, own, dict(own)

    def changed(self) -> str | None:
        """A name under which something else is now, or None."""
        for name, thing in self._own.items():
            if type(thing) not in SETTINGS and self._things.get(name, self) is not thing:
                return name
        return next((name for name in self._things if name not in self._own), None)

    def put_back(self) -> None:
        for name in [name for name in self._own if name not in self._things]:
            del self._own[name]
        for name, thing in self._things.items():
            if type(thing) not in SETTINGS:
                self._own[name] = thing

    def set(self, settings: dict[str, Any]) -> None:
        for name in self.settings().keys() - settings.keys():
            del self._own[name]
        self._own.update(settings)

    def tensors(self) -> list[tuple[str, Tensor]]:
        return [(name, thing) for name, thing in self._things.items() if isinstance(thing, Tensor)]

    def settings(self) -> dict[str, Any]:
        """The numbers and switches among them, such as `training` and a dropout's p, as they are now."""
        return {name: thing for name, thing in self._own.items() if type(thing) in SETTINGS}


class Watched:
    """The modules and Tensors that a step's model holds and its function names, as they were."""

    def __init__(self, step: CompiledStep) -> None:
        self.function, self.model = step.function, step.model
        self.named = list(named_by(step.function, set()))
        roots = [step.model, *[x for x in self.named if isinstance(x, Module)]]
        modules = {id(module): module for root in roots for module in root.modules()}
        self._attributes = [Owned(module, vars(module)) for module in modules.values()]
        self.owned = self._attributes + [
            Owned(module, own)
            for module in modules.values()
            for own in (module._parameters, module._buffers, module._modules)
        ]
        tensors = [named for owned in self.owned for named in owned.tensors()]
        tensors += [("a Tensor of the function", x) for x in self.named if isinstance(x, Tensor)]
        self.held = [Held(name, x, x._data, x.requires_grad) for name, x in tensors]
        self._counters: set[tuple[int, str]] = set()  # the module's place, and the name, of numbers that count calls

    def changed(self, step: CompiledStep) -> str | None:
        """The name of something that is not as it was, or None."""
        if self.function is not step.function or self.model is not step.model:
            return "function or model"
        named = list(named_by(step.function, set()))
        if len(named) != len(self.named) or any(a is not b for a, b in zip(named, self.named)):
            return "Tensor, module or function"
        for owned in self.owned:
            if (name := owned.changed()) is not None:
                return name
        return next((held.name for held in self.held if not held.is_there()), None)

    def put_back(self, settings: list[dict[str, Any]] | None = None) -> None:
        """Make all as it was, but for settings, which become the given ones."""
        for owned in self.owned:
            owned.put_back()
        for held in self.held:
            held.tensor._data = held.array
        for owned, given in zip(self._attributes, settings or ()):
            owned.set(given)

    def look_at_hooks(self) -> None:
        """Raise CannotReplay if a module or a Tensor calls Python."""
        for owned in self._attributes:
            if owned.module._forward_hooks or owned.module._forward_pre_hooks:
                raise CannotReplay(f"a {type(owned.module).__name__} has a hook, which would not be called again")
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
                    else:
                        found = name
        return found

    def key(self) -> Hashable:
        """The settings that a recording depends on."""
        return tuple(
            tuple([item for item in settings.items() if (place, item[0]) not in self._counters])
            for place, settings in enumerate(self.settings())
        )


def named_by(function: Any, seen: set[int]) -> Iterator[Any]:
    """The modules, Tensors and functions in a function's closure, bound to it, or among the globals that it names.

    So too those of the functions that these are; of functions of other files, which decorators make, the closures.
    """
    if id(function) in seen:
        return
    seen.add(id(function))
    yield from _within(function, seen, function.__globals__ if isinstance(function, types.FunctionType) else None)


def _within(function: Any, seen: set[int], home: dict[str, Any] | None) -> Iterator[Any]:
    values: list[Any] = []
    if isinstance(function, functools.partial):
        values = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, types.MethodType):
        values = [function.__func__, *_of_object(function.__self__)]
    elif isinstance(function, types.FunctionType):
        values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        if function.__globals__ is home:
            values += [home[name] for name in _names(function.__code__) if name in home]
    elif callable(function):
        values = [inspect.getattr_static(type(function), "__call__", None), *_of_object(function)]
    for value in values:
        if isinstance(value, (Module, Tensor)):
            yield value
        elif isinstance(value, (functools.partial, types.MethodType, types.FunctionType)) and id(value) not in seen:
            seen.add(id(value))
            yield value
            where = value.__globals__ if home is None and isinstance(value, types.FunctionType) else home
            yield from _within(value, seen, where)


def _of_object(thing: Any) -> list[Any]:
    """What an object holds; a module is looked at as a module."""
    return [thing] if isinstance(thing, Module) else list(getattr(thing, "__dict__", {}).values())


def _names(code: types.CodeType) -> Iterator[str]:
    """The names in a function and in those that it defines."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
