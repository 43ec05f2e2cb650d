"""What a recorded step depends on beside its inputs: where the Tensors of its model lie, its settings, who listens."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from tinytensor import Tensor

from ..compiled_step import CompiledStep
from ..module import Module

SETTINGS = (bool, int, float, str)


class CannotReplay(Exception):
    """Why a call is computed op by op."""


class Held(NamedTuple):
    """A Tensor that something holds under a name, as it was; None where there was none."""

    owner: dict[str, Any]
    name: str
    tensor: Tensor | None
    array: Any
    trained: bool

    @classmethod
    def of(cls, owner: dict[str, Any], name: str) -> Held:
        tensor = owner[name]
        if tensor is None:
            return cls(owner, name, None, None, False)
        return cls(owner, name, tensor, tensor._data, tensor.requires_grad)

    def is_there(self) -> bool:
        tensor = self.owner.get(self.name)
        if tensor is not self.tensor:
            return False
        return tensor is None or (tensor._data is self.array and tensor.requires_grad == self.trained)

    def put_back(self) -> None:
        self.owner[self.name] = self.tensor
        if self.tensor is not None:
            self.tensor._data = self.array


class Watched:
    """The modules and Tensors that a step's model holds and its function names, as they were."""

    def __init__(self, step: CompiledStep) -> None:
        self.function, self.model = step.function, step.model
        self.named = list(named_by(step.function))
        roots = [step.model, *[x for x in self.named if isinstance(x, Module)]]
        modules = {id(module): module for root in roots for module in root.modules()}
        self.modules = [(module, list(module._modules.values())) for module in modules.values()]
        self.held = [Held.of(owner, name) for owner, names in self._slots() for name in names]
        for number, tensor in enumerate(x for x in self.named if isinstance(x, Tensor)):
            self.held.append(Held.of({f"Tensor {number} of the function": tensor}, f"Tensor {number} of the function"))
        self.count = self._count()
        self.restless: set[tuple[Module, str]] = set()  # settings that calls change, as counters are

    def _slots(self) -> Iterator[tuple[dict[str, Any], list[str]]]:
        for module, _ in self.modules:
            yield module._parameters, list(module._parameters)
            yield module._buffers, list(module._buffers)
            own = vars(module)
            yield own, [name for name, value in own.items() if isinstance(value, Tensor)]

    def _count(self) -> int:
        return sum(len(module._parameters) + len(module._buffers) for module, _ in self.modules)

    def changed(self, step: CompiledStep) -> str | None:
        """The name of something that is not as it was, or None."""
        if self.function is not step.function or self.model is not step.model:
            return "the function or the model"
        named = list(named_by(step.function))
        if len(named) != len(self.named) or any(a is not b for a, b in zip(named, self.named)):
            return "what the function names"
        for module, inside in self.modules:
            if list(module._modules.values()) != inside:
                return f"a layer of a {type(module).__name__}"
        if self._count() != self.count:
            return "the list of parameters"
        return next((held.name for held in self.held if not held.is_there()), None)

    def look_at_hooks(self) -> None:
        """Raise CannotReplay if a module or a Tensor calls Python."""
        for module, _ in self.modules:
            if module._forward_hooks or module._forward_pre_hooks:
                raise CannotReplay(f"a {type(module).__name__} has a hook, which would not be called again")
        for held in self.held:
            if held.tensor is not None and held.tensor._node is not None and held.tensor._node.hooks:
                raise CannotReplay(f"{held.name} has a hook, which would not be called again")

    def settings(self) -> list[dict[str, Any]]:
        """The numbers and switches among the modules' attributes, such as `training` and a dropout's p."""
        return [
            {name: value for name, value in vars(module).items() if type(value) in SETTINGS}
            for module, _ in self.modules
        ]

    def see_what_is_restless(self, before: list[dict[str, Any]]) -> None:
        """Leave out of the keys what a call has changed."""
        for (module, _), old, new in zip(self.modules, before, self.settings()):
            self.restless |= {(module, name) for name in old.keys() | new.keys() if old.get(name) != new.get(name)}

    def key(self) -> Hashable:
        """The settings that a recording depends on."""
        return tuple(
            tuple([item for item in settings.items() if (module, item[0]) not in self.restless])
            for (module, _), settings in zip(self.modules, self.settings())
        )


def named_by(function: Any, seen: frozenset[int] = frozenset()) -> Iterator[Any]:
    """The modules and Tensors in a function's closure, bound to it, or among the globals that it names.

    So too those of the functions of its file that it names.
    """
    if id(function) in seen:
        return
    seen |= {id(function)}
    values: list[Any] = []
    if isinstance(function, functools.partial):
        values = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, types.MethodType):
        values = [function.__self__, function.__func__]
    elif isinstance(function, types.FunctionType):
        values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        known = function.__globals__
        values += [known[name] for name in function.__code__.co_names if name in known]
        same = [value for value in values if _is_of_file(value, known)]
        values = [value for value in values if not isinstance(value, types.FunctionType)] + same
    elif not isinstance(function, (Module, Tensor)):
        values = list(getattr(function, "__dict__", {}).values())
    functions = (functools.partial, types.MethodType, types.FunctionType)
    for value in values:
        if isinstance(value, (Module, Tensor)):
            yield value
        elif isinstance(value, functions) or isinstance(function, types.MethodType):  # or the object that it is of
            yield from named_by(value, seen)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_of_file(value: Callable[..., Any], known: dict[str, Any]) -> bool:
    return isinstance(value, types.FunctionType) and value.__globals__ is known
