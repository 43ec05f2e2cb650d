"""The Module: named parameters, buffers and inner modules, and a `forward` that computes with them."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import DEVICES, for_device
from tinytensor.dtypes import as_dtype
from tinytensor.modes import Replaceable, module_path, state
from tinytensor.recording.errors import module_failed
from tinytensor.tensors.hooks import Hook
from tinytensor.typing import Device, DType

from .functional.settings import WithSettings
from .parameter import Parameter

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


INSTEAD = {
    "cuda": '; write module.to("gpu")',
    "half": "; write module.to(tt.float16)",
    "type": "; write module.to(dtype)",
    "get_parameter": "; write dict(module.named_parameters())[path]",
    "get_buffer": "; write dict(module.named_buffers())[path]",
    "set_submodule": "; assign to an attribute of module.get_submodule(path)",
    "share_memory": "; threads share a module's memory as it is",
}
"""Replacements for methods of PyTorch's modules that are not here."""

NOT_MADE = "; Module.__init__() has not run: call super().__init__() first"


class Forward(Protocol[P, R]):
    """A module for type checkers: calling it takes the arguments of its `forward` and returns its result."""

    _scope: str | None
    _forward_pre_hooks: dict[int, Any]
    _forward_hooks: dict[int, Any]

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def _call_with_hooks(self, args: Any, kwargs: Any) -> Any: ...


class Module(WithSettings, metaclass=Replaceable):
    """The base of every layer, loss and model.

    Assign Parameters and Modules to attributes in `__init__`, after `super().__init__()`, and compute in `forward`:

        class Perceptron(nn.Module):
            def __init__(self, d_in, d_hidden, d_out):
                super().__init__()
                self.hidden = nn.Linear(d_in, d_hidden)
                self.output = nn.Linear(d_hidden, d_out)

            def forward(self, x):
                return self.output(tt.tanh(self.hidden(x)))

    Attributes:
        training: True in training mode, False in evaluation mode; dropout depends on it.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent: set[str]
    _forward_pre_hooks: dict[int, Any]
    _forward_hooks: dict[int, Any]
    _searched = False  # True once plain lists were searched for layers
    _scope: str | None = None  # the name in the outer module; errors and pictures show it

    @tt.missing.explains
    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_modules"] = {}
        own["_non_persistent"] = set()
        own["_forward_pre_hooks"] = {}
        own["_forward_hooks"] = {}

    # ---- calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's computation; each module defines its own. Call the module itself, which runs hooks as well."""
        raise NotImplementedError(f"{type(self).__name__}: this module has no forward(); define it to call the module")

    def __call__(self: Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        scopes = state.scopes
        name = self._scope or type(self).__name__
        scopes.append(name)
        recording = state.recording
        if recording is not None:
            recording.enter(name, self, args, kwargs)
        try:
            if self._forward_pre_hooks or self._forward_hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            if recording is not None:
                module_failed(type(self).__name__, (*args, *kwargs.values()))
            # Every inner path begins with this one, so that only the innermost module is named.
            where = f"in module {module_path()}"
            if not any(where in text for text in (str(error), *getattr(error, "__notes__", ()))):
                plain = isinstance(error, (ValueError, TypeError, RuntimeError, IndexError))
                if plain and error.args == (str(error),):
                    first, newline, rest = str(error).partition("\n")
                    error.args = (f"{first} ({where}){newline}{rest}",)
                else:
                    error.add_note(where)
            raise
        finally:
            scopes.pop()
            if recording is not None:
                recording.leave()

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, output) if with_kwargs else hook(self, args, output)
            if changed is not None:
                output = changed
        return output

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> Hook:
        """Call `hook(module, args)` before every forward; its result, unless None, replaces the arguments.

        With `with_kwargs`, call `hook(module, args, kwargs)`, which may return a new `(args, kwargs)`. Returns a handle
        whose `remove()` removes the hook.
        """
        return Hook(self._forward_pre_hooks, (hook, with_kwargs))

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> Hook:
        """Call `hook(module, args, output)` after every forward; its result, unless None, replaces the output.

        With `with_kwargs`, call `hook(module, args, kwargs, output)`. Returns a handle whose `remove()` removes the
        hook.
        """
        return Hook(self._forward_hooks, (hook, with_kwargs))

    # ---- attributes: Parameters, buffers and Modules live in their own dictionaries

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(
                    f"{type(self).__name__}: cannot assign {name!r} ({type(value).__name__}) before Module.__init__() "
                    "ran; call super().__init__() first"
                )
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            self.add_module(name, value)
        else:
            for kind, expected in (("_parameters", Parameter), ("_modules", Module), ("_buffers", Tensor)):
                if name in own[kind]:
                    if value is not None and not isinstance(value, expected):
                        raise TypeError(
                            f"{type(self).__name__}.{name}: cannot assign a {type(value).__name__}; expected a "
                            f"{expected.__name__} or None (`del` the attribute first to make it another)"
                        )
                    own[kind][name] = value
                    return
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kind in ("_parameters", "_modules", "_buffers"):
            held = own.get(kind)
            if held is not None and name in held:
                return held[name]
        hint = INSTEAD.get(name, "") if "_parameters" in own else NOT_MADE
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistent.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._modules, *self._buffers})

    def _forget(self, name: str, becoming: str) -> None:
        """Remove an attribute's former value, unless it is of the same kind (and keeps its place in the order)."""
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_modules", "_buffers"):
            if kind != becoming:
                self.__dict__[kind].pop(name, None)
                self._non_persistent.discard(name)

    def _check_name(self, what: str, name: Any, kind: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"{what}: Module.__init__() has not run; call super().__init__() first")
        if not isinstance(name, str):
            raise TypeError(f"{what}: the name must be a string, got {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f'{what}: the name must not be empty nor hold a ".", got {name!r}')
        if hasattr(self, name) and name not in self.__dict__[kind]:
            raise KeyError(f"{what}: {type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name for a parameter that this module does not have."""
        self._check_name("register_parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter: {name!r} is a {type(param).__name__}; expected a Parameter or None "
                "(nn.Parameter(tensor) makes one)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor that belongs to the module's state but is not a parameter: `to` moves it, `state_dict` lists it.

        A buffer that is not persistent moves along but is left out of `state_dict`.
        """
        self._check_name("register_buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} is a {type(tensor).__name__}; expected a Tensor or None")
        self._buffers[name] = tensor
        (self._non_persistent.discard if persistent else self._non_persistent.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module under a name, as assigning it to an attribute does."""
        self._check_name("add_module", name, "_modules")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} is a {type(module).__name__}; expected a Module or None")
        self._modules[name] = module
        if module is not None:
            module._set_scope(name)

    register_module = add_module

    def _set_scope(self, name: str) -> None:
        self.__dict__["_scope"] = name

    # ---- contents

    def _named_members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        if not self._searched:
            self._search_lists()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        seen = set()
        for path, module in modules:
            for name, member in module.__dict__[kind].items():
                if member is not None and member not in seen:
                    if remove_duplicate:
                        seen.add(member)
                    yield f"{path}.{name}" if path else name, member

    def _search_lists(self) -> None:
        """Warn, once, about layers in plain lists and dictionaries, where the module does not find them."""
        self.__dict__["_searched"] = True
        known = {id(inner) for module in self.modules() for inner in (module, *module._parameters.values())}
        for module in self.modules():
            for name, held in vars(module).items():
                if isinstance(held, (list, tuple, dict)) and name not in ("_parameters", "_modules", "_buffers"):
                    values = held.values() if isinstance(held, dict) else held
                    lost = [v for v in values if isinstance(v, (Module, Parameter)) and id(v) not in known]
                    if lost:
                        instead = "nn.ModuleDict" if isinstance(held, dict) else "nn.ModuleList"
                        warnings.warn(
                            f"{type(module).__name__}.{name} is a plain {type(held).__name__}, where no module "
                            f"looks: the parameters of its {type(lost[0]).__name__} are not trained and not saved; "
                            f"make it an {instead}, or assign each to an attribute.",
                            stacklevel=5,  # the caller of parameters() or named_parameters()
                        )

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their paths (`"encoder.weight"`), a shared one once, under its first path."""
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and, with `recurse`, of all inside; a shared one once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their paths, a shared one once, under its first path."""
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and, with `recurse`, of all inside; a shared one once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, with their names; a shared one once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly inside; a shared one once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module (its path is `prefix`) and all inside, outer ones first, with their paths."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes for a copy or a pickle, without `temporary` hooks and `forward`."""
        own = dict(vars(self))
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            if any(hasattr(hook, "is_temporary") for hook, _ in own.get(name, {}).values()):
                own[name] = {key: hook for key, hook in own[name].items() if not hasattr(hook[0], "is_temporary")}
        if hasattr(own.get("forward"), "is_temporary") and (former := own.pop("forward").is_temporary) is not None:
            own["forward"] = former
        return own

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The innermost modules first, so that recursion goes no deeper for many of them within each other.
        for module in reversed(list(self.modules())):
            has_own = type(module).__deepcopy__ is not Module.__deepcopy__ and module is not self
            if id(module) not in memo and not has_own:
                copied = memo[id(module)] = type(module).__new__(type(module))
                copied.__dict__.update(copy.deepcopy(module.__getstate__(), memo))
        return memo[id(self)]

    def modules(self) -> Iterator[Module]:
        """This module and all inside, outer ones first; a shared one once."""
        for _, module in self.named_modules():
            yield module

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as `"encoder.layers.0"`; this one for `""`. Raises AttributeError."""
        module = self
        for i, name in enumerate(target.split(".") if target else ()):
            inner = module._modules.get(name)
            if inner is None:
                above = ".".join(target.split(".")[:i]) or type(self).__name__
                known = ", ".join(module._modules) or "none"
                raise AttributeError(f"get_submodule({target!r}): {above} has no module {name!r}; it has: {known}")
            module = inner
        return module

    # ---- changing all of it

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module inside, inner ones first, and on this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode (or, with False, evaluation mode) here and in all modules inside; returns self."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: expected True or False, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and in all modules inside; returns self."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of all parameters, or (with False) fill them with zeros."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is not None:
                parameter.grad = None if set_to_none else grad.detach().zero_()

    def to(self, *args: Any, device: Device = None, dtype: DType = None) -> Self:
        """Move all parameters and buffers to a device and floating ones to a dtype, in place; returns self.

        `to("gpu")`, `to(tt.float64)`, `to("gpu", tt.float32)`, `to(tensor)` (to its device and dtype).
        The Parameter objects stay the same, so optimisers go on with them and shared ones stay shared.

        Raises DeviceError if the device is missing, TypeError for a dtype that is not floating.
        """
        for value in args:
            if isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, str) and (value in DEVICES or not hasattr(np, value)):
                device = value
            elif value is not None:
                dtype = value
        if device is not None:
            for_device(device)
        if dtype is not None:
            dtype = as_dtype(dtype)
            if dtype.kind != "f":
                raise TypeError(f"{type(self).__name__}.to: expected a floating dtype, got {dtype}")

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device=device, dtype=dtype if tensor.dtype.kind == "f" else None)

        with tt.no_grad():
            for parameter in self.parameters():
                parameter._data = moved(parameter)._data
                node = parameter._node
                if node is not None:  # keep the node: a graph that ends in it still finds this parameter
                    node.dtype = parameter.dtype
                    node.grad = None if node.grad is None else moved(node.grad)
            buffers: dict[Tensor, Tensor] = {}
            for module in self.modules():
                for name, buffer in module._buffers.items():
                    if buffer is not None:
                        module._buffers[name] = buffers.setdefault(buffer, moved(buffer))
        return self

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU; returns self."""
        return self.to("cpu")

    def float(self) -> Self:
        """Turn floating parameters and buffers into float32; returns self."""
        return self.to(tt.float32)

    def double(self) -> Self:
        """Turn floating parameters and buffers into float64; returns self."""
        return self.to(tt.float64)

    # ---- state

    def _named_state(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        """The entries of `state_dict`, in PyTorch's order: own parameters, own buffers, then module after module."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield prefix + name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent:
                yield prefix + name, buffer
        for name, module in self._modules.items():
            if module is not None:
                yield from module._named_state(f"{prefix}{name}.")

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        """All parameters and persistent buffers by path, in PyTorch's order; a shared one under each of its paths.

        The Tensors are detached and share the module's memory (with `keep_vars`, they are the Parameters themselves).
        """
        named = self._named_state(prefix)
        return OrderedDict((name, tensor if keep_vars else tensor.detach()) for name, tensor in named)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and persistent buffers, in place, in their own dtypes and on their device.

        Args:
            state_dict: by path, a Tensor, a NumPy array, or an object with `__array__` (a PyTorch CPU tensor, also one
                of bfloat16).
            strict: a missing or an unexpected path is an error; if False, both are only reported in the result.

        Returns the named tuple `(missing_keys, unexpected_keys)`. It checks everything first: RuntimeError lists all
        problems (paths, shapes, dtypes, values that are not arrays) in one message, and nothing changes.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a dictionary, got {type(state_dict).__name__}")
        own = OrderedDict(self._named_state(""))
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = []
        if strict and missing:
            problems.append("missing: " + ", ".join(missing))
        if strict and unexpected:
            problems.append("unexpected: " + ", ".join(map(str, unexpected)))
        values: dict[str, Tensor] = {}
        for name, target in own.items():
            if name in state_dict:
                try:
                    values[name] = _values_for(target, state_dict[name])
                except (TypeError, ValueError, RuntimeError) as error:
                    problems.append(f"{name}: {error}")
        if problems:
            raise RuntimeError(f"load_state_dict into {type(self).__name__}:\n  " + "\n  ".join(problems))
        with tt.no_grad():
            for name, value in values.items():
                own[name].copy_(value)
        return IncompatibleKeys(missing, unexpected)

    # ---- printing

    def extra_repr(self) -> str:
        """The text in the parentheses of this module's own line of `repr`."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        return layout(type(self).__name__, extra, children)


class IncompatibleKeys(NamedTuple):
    """The paths that `load_state_dict` found missing, and those that the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _values_for(target: Tensor, value: Any) -> Tensor:
    """Copy a loaded value to a Tensor with the target's dtype and device; raises if that is impossible."""
    if hasattr(value, "detach"):
        value = value.detach()
    if not isinstance(value, Tensor) and not hasattr(value, "__array__"):
        raise TypeError(f"expected a Tensor or an array, got {type(value).__name__}")
    tensor = tt.asarray(value)
    if tensor.shape != target.shape:
        raise ValueError(f"expected shape {target.shape}, got {tensor.shape}")
    if not np.can_cast(tensor.dtype, target.dtype, "same_kind"):
        raise TypeError(f"expected {target.dtype}, got {tensor.dtype}")
    return tt.asarray(tensor, dtype=target.dtype, device=target.device, copy=True)


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch every part of a module to evaluation mode, without dropout, and afterwards back to its former mode."""
    former = {module: module.training for module in model.modules()} if isinstance(model, Module) else {}
    for module in former:
        module.training = False
    try:
        yield
    finally:
        for module, training in former.items():
            module.training = training


def indent(text: str) -> str:
    """Indent the lines after the first by two spaces."""
    return text.replace("\n", "\n  ")


def layout(name: str, extra: list[str], children: list[str]) -> str:
    """PyTorch's layout of a module: one line if its own text is one line and it holds no modules."""
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    lines = extra + children
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{name}()"


def temporary(function: Any, former: Any = None) -> Any:
    """Mark a hook, or a `forward` that replaces `former`: copies of a module leave it out."""
    function.is_temporary = former
    return function
