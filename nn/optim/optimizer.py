"""The base of all optimisers: parameter groups, the loop over parameters, and the state to save.

A custom optimiser names its hyperparameters in `defaults` and its state in `state_names`, and writes one method,
`update`: the algorithm of its paper, for one parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor.backend import for_array
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable
from tinytensor.tensor import wrap

from ..functional.settings import WithSettings, check_setting, check_settings

WIDER = {tt.float16: tt.float32}
"""The dtypes for steps and their state: in float16, eps and most squares of gradients would be 0."""


class Due(NamedTuple):
    """A parameter with a gradient, its state, and its settings."""

    parameter: tt.Tensor
    state: dict[str, Any]
    group: dict[str, Any]


class Optimizer(WithSettings, metaclass=Replaceable):
    """The base of all optimisers.

    Args:
        params: Tensors, or dictionaries `{"params": Tensors, "lr": ...}` for groups with their own settings.
        defaults: the settings of groups that do not name them.

    Attributes:
        param_groups: the groups, each a dictionary of its settings with the list `"params"`.
        state: the state of each parameter, a dictionary of Tensors and counters.

    Raises ValueError for no parameters, for one named twice, for one that was computed, and for settings out of range;
    TypeError for anything that is not a Tensor.
    """

    state_names: tuple[str, ...] = ()
    """Names of the Tensors, of the parameter's shape, that its state may hold."""

    numbers: ClassVar[dict[str, type]] = {"step": int}
    """Names and types of the numbers that a state may hold, if the algorithm needs them."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[tt.Tensor, dict[str, Any]] = {}
        if hasattr(params, "parameters") or callable(params):
            raise TypeError(
                f"{self._name}: expected Tensors, got a {type(params).__name__}; write {self._name}(model.parameters())"
            )
        if isinstance(params, (tt.Tensor, dict, set, str)):
            raise TypeError(
                f"{self._name}: params must be a list (or another ordered iterable) of Tensors or of groups, "
                f"got a {type(params).__name__}"
            )
        groups = list(params)
        if not groups:
            raise ValueError(
                f"{self._name}: the list of parameters is empty (a module sees the layers that are its attributes, or "
                "stand in an nn.ModuleList or nn.ModuleDict)"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        lines = [f"{self._name} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings; the optimiser's defaults replace missing ones.

        Raises the constructor's errors, and then changes nothing.
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f'{self._name}: a group is a dictionary with "params", got {param_group!r}')
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(f"{self._name}: a set of parameters has no order; use a list")
        params = [params] if isinstance(params, tt.Tensor) else list(params)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for i, parameter in enumerate(params):
            if not isinstance(parameter, tt.Tensor):
                raise TypeError(f"{self._name}: parameter {i} is a {type(parameter).__name__}, expected a Tensor")
            if parameter.dtype.kind == "c":
                raise TypeError(
                    f"{self._name}: parameter {i} {parameter.shape} is {parameter.dtype}; optimise its real and its "
                    "imaginary part, two Tensors"
                )
            if not parameter.is_leaf:
                raise ValueError(
                    f"{self._name}: parameter {i} {parameter.shape} was computed; optimise the Tensors it came from, "
                    "or detach() it"
                )
            if id(parameter) in known:
                raise ValueError(f"{self._name}: parameter {i} {parameter.shape} is there twice; name each only once")
            known.add(id(parameter))
        group = {"params": params, **self.defaults, **{k: v for k, v in param_group.items() if k != "params"}}
        self._check_settings(group)
        self.param_groups.append(group)

    def _check_settings(self, group: dict[str, Any]) -> None:
        """Check the settings of a group by the constructor's annotations, and then their ranges."""
        own = getattr(type(self).__init__, "__wrapped__", Optimizer.__init__)  # of other people's, those of the base
        group |= check_settings(self._name, own, {k: v for k, v in group.items() if k != "params"})
        group["lr"] = float(check_setting(self._name, "lr", group["lr"]))
        self._check(group)

    def _check(self, group: dict[str, Any]) -> None:
        """Raise ValueError unless the settings of a group are in their ranges."""
        for name in ("lr", "weight_decay"):
            self._check_range(group, name, 0.0, math.inf)

    def _check_range(self, group: dict[str, Any], name: str, low: float, high: float) -> None:
        if name in group and not low <= check_setting(self._name, name, group[name]) < high:
            raise ValueError(f"{self._name}: {name} must be at least {low:g} and below {high:g}, got {group[name]!r}")

    def _check_betas(self, group: dict[str, Any]) -> None:
        betas = check_setting(self._name, "betas", group["betas"], tuple[float, float])
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"{self._name}: betas must be two numbers, at least 0 and below 1, got {betas!r}")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with `set_to_none=False` set them to 0 in place."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None if set_to_none or parameter.grad is None else parameter.grad.detach().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; one without stays unchanged, even by weight decay.

        Args:
            closure: computes the gradients anew (zero_grad, forward, backward) and returns the loss.

        Returns the closure's result.
        """
        loss = None
        if closure is not None:
            with tt.enable_grad():
                loss = closure()
        due = [
            Due(parameter, self.state.get(parameter, {}), group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        # Infinite gradients make infinite or undefined parameters; half an update because of a warning would be worse.
        with tt.no_grad(), np.errstate(all="ignore"):
            self._step_by_formula(due)
        return loss

    @may_be_faster
    def _step_by_formula(self, due: list[Due]) -> None:
        """Compute all new values with `update`, and only then write them: a step that fails changes nothing."""
        updates = []
        for parameter, state, group in due:
            theta, g = parameter.detach(), parameter.grad.detach()  # type: ignore[union-attr]
            if theta.dtype in WIDER:
                theta, g = theta.astype(WIDER[theta.dtype]), g.astype(WIDER[theta.dtype])
            updates.append(self.update(theta, g, state, group))
        for (parameter, state, _), (theta, remembered) in zip(due, updates):
            for name, value in remembered.items():
                if isinstance(state.get(name), tt.Tensor):
                    state[name].copy_(value)
                else:
                    state[name] = tt.asarray(value, copy=True) if isinstance(value, tt.Tensor) else value
            if state:
                self.state[parameter] = state
            parameter.copy_(theta)  # last: what is remembered may be its old values

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """One step of one parameter; each optimiser writes its own. It changes nothing: `step` does.

        Args:
            theta: the parameter; float16 comes as float32, as does its state.
            g: its gradient, likewise.
            state: the state from the last update, empty at first.
            group: the settings, by name.

        Returns the parameter's new values, and the new state: Tensors under `state_names`, and numbers.
        """
        raise NotImplementedError(f"{self._name}: write update(theta, g, state, group); see nn.optim.SGD")

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, in PyTorch's layout: `{"state": {index: {...}}, "param_groups": [...]}`.

        Parameters appear as their index, counted through all groups. The Tensors are the optimiser's own, which the
        next step changes: copy or save them first.
        """
        index = {id(p): i for i, p in enumerate(self._parameters())}
        state = {index[id(p)]: dict(entry) for p, entry in self.state.items()}
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [index[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`, from here or from PyTorch; copies its arrays.

        Parameters correspond by order. State takes the dtype (float32 for float16) and the device of its parameter.

        Raises ValueError that lists everything that does not fit, and then changes nothing.
        """
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            raise ValueError(f'{self._name}: load_state_dict expects a dictionary with "state" and "param_groups"')
        saved = state_dict["param_groups"]
        lengths = [len(group["params"]) for group in self.param_groups]
        saved_lengths = [len(group.get("params", ())) for group in saved]
        if saved_lengths != lengths:
            raise ValueError(
                f"{self._name}: load_state_dict expects groups of {lengths} parameters, got groups of {saved_lengths}"
            )
        problems: list[str] = []
        groups = [self._load_group(i, group, problems) for i, group in enumerate(saved)]
        owners = {
            key: (parameter, group)
            for own, group in zip(self.param_groups, saved)
            for key, parameter in zip(group["params"], own["params"])
        }
        state = {}
        for key, entry in state_dict["state"].items():
            if key not in owners:
                problems.append(f"there is state for parameter {key!r}, which is in no group")
                continue
            parameter, group = owners[key]
            loaded = self._load_entry(key, entry, parameter, group, problems)
            if loaded:
                state[parameter] = loaded
        if problems:
            raise ValueError("\n  ".join([f"{self._name}: load_state_dict:", *problems]))
        self.param_groups = groups
        self.state = state

    def _parameters(self) -> Iterator[tt.Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def _load_group(self, place: int, saved: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        group = {"params": self.param_groups[place]["params"], **{k: v for k, v in saved.items() if k != "params"}}
        missing = [name for name in self.defaults if name not in group]
        if missing:
            problems.append(f"group {place} lacks {', '.join(missing)}")
            return group
        try:
            self._check_settings(group)
        except (TypeError, ValueError) as error:
            problems.append(f"group {place}: {error}")
        return group

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The names that a complete state of a parameter must have."""
        return ()

    def _load_entry(
        self, key: Any, entry: dict[str, Any], parameter: tt.Tensor, group: dict[str, Any], problems: list[str]
    ) -> dict[str, Any]:
        entry = {name: value for name, value in entry.items() if value is not None}
        missing = [name for name in self._required_state(group) if name not in entry]
        if missing and entry:
            problems.append(f"the state of parameter {key!r} lacks {', '.join(missing)}")
        loaded: dict[str, Any] = {}
        for name, value in entry.items():
            if name in self.numbers and name in self._required_state(group):
                loaded[name] = self.numbers[name](value)
            elif name in self.state_names:
                tensor = tt.asarray(value).detach()
                if tensor.shape != parameter.shape:
                    problems.append(f"{name} of parameter {key!r} is {tensor.shape}, the parameter {parameter.shape}")
                array = tensor.to(parameter.device, WIDER.get(parameter.dtype, parameter.dtype))._data
                loaded[name] = wrap(for_array(array).copy(array), None)
            else:
                problems.append(f"the state of parameter {key!r} holds {name}, which {self._name} does not know")
        return loaded
