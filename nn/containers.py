"""Modules that hold modules: one after another, in a list, in a dictionary; and a list of parameters."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self

from tinytensor import Tensor

from .module import Module, indent, layout
from .parameter import Parameter


class _Indexed(Module):
    """Modules under the names "0", "1", ...: the base of `Sequential` and `ModuleList`."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _name_at(self, index: int) -> str:
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"{type(self).__name__}: index {place} is out of range; it holds {len(self)} modules")
        return list(self._modules)[place]

    def _refill(self, modules: Iterable[Any]) -> None:
        kept = list(modules)
        self._modules.clear()
        for i, module in enumerate(kept):
            self.add_module(str(i), module)

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        self._refill([module for name, module in self._modules.items() if name not in names])

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; returns self."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before a place; returns self."""
        modules = list(self)
        modules.insert(index, module)
        self._refill(modules)
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove the module at a place and return it."""
        module = self[index]
        del self[index]
        return module

    def __getitem__(self, index: Any) -> Any:
        """A module; for a slice, a holder of the same modules."""
        if not isinstance(index, slice):
            return self._modules[self._name_at(index)]
        part = type(self)()
        part._modules.update(self._sliced(index))  # not `add_module`: they keep their names in errors
        return part

    def _sliced(self, index: slice) -> Iterable[tuple[str, Module | None]]:
        return ((str(i), module) for i, module in enumerate(list(self)[index]))


class Sequential(_Indexed):
    """Calls modules one after another, each with the result of the one before.

    Args:
        *args: the modules, or one dictionary of them, by name.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._refill(args)

    def _sliced(self, index: slice) -> Iterable[tuple[str, Module | None]]:
        return list(self._modules.items())[index]

    def forward(self, input: Any) -> Tensor:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input


class _Uncalled(Module):
    """A holder that is never called itself; errors name the modules in it by its own name and theirs."""

    def add_module(self, name: str, module: Module | None) -> None:
        super().add_module(name, module)
        if module is not None and self._scope is not None:
            module._set_scope(f"{self._scope}.{name}")

    def _set_scope(self, name: str) -> None:
        super()._set_scope(name)
        for key, module in self._modules.items():
            if module is not None:
                module._set_scope(f"{name}.{key}")


class ModuleList(_Uncalled, _Indexed):
    """A list of modules, whose parameters belong to the module that holds the list.

    Args:
        modules: the initial modules.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Shows equal neighbours once, with their number."""
        texts = [repr(module) for module in self]
        children = []
        start = 0
        for i, text in enumerate(texts):
            if i + 1 < len(texts) and texts[i + 1] == text:
                continue
            count = i - start + 1
            children.append(indent(f"({start}): {text}" if count == 1 else f"({start}-{i}): {count} x {text}"))
            start = i + 1
        return layout(type(self).__name__, [], children)


class ModuleDict(_Uncalled):
    """A dictionary of modules, whose parameters belong to the module that holds the dictionary.

    Args:
        modules: the initial modules, a dictionary, or pairs of name and module.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def keys(self) -> KeysView[str]:
        """The names of the modules, in the order they were added."""
        return self._modules.keys()

    def values(self) -> ValuesView[Any]:
        """The modules, in the order they were added."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Any]:
        """Pairs of a name and a module, in the order they were added."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules under their names, replacing those that are already there."""
        for name, module in dict(modules).items():
            self[name] = module

    def pop(self, key: str) -> Any:
        """Remove the module under a name and return it."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()


class ParameterList(Module):
    """A list of parameters, which belong to the module that holds the list.

    Args:
        values: Parameters, or Tensors, which become Parameters.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: Any) -> Any:
        """A parameter; for a slice, a list of the same parameters."""
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        return list(self)[operator.index(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        name = list(self._parameters)[operator.index(index)]
        self.register_parameter(name, _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a parameter at the end; returns self."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end; returns self."""
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __repr__(self) -> str:
        children = [f"({i}): Parameter {p.shape}, {p.dtype}" for i, p in enumerate(self)]
        return layout(type(self).__name__, [], children)


def _as_parameter(value: Any) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)
