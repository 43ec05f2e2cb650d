"""`nn.intervene`: other values in a model, by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from ..functional.checks import beside
from ..module import Module
from .watching import Watcher, matching, places


class intervene(Watcher):
    """Context manager that replaces values of a model during its forward pass; gradients follow the new values.

        with nn.intervene(model, {"layers.3.self_attn.z": {6: 0.0}}):      # without head 6
            model(ids)
        with nn.intervene(model, {"layers.3": {-1: clean["layers.3"][:, -1]}}):  # the last position of another run
            model(ids)
        with nn.intervene(model, {"layers.*.self_attn.weights": lambda weights: weights.detach()}): ...

    Names, shapes and decoding are as `nn.cache` says. A cache around it keeps the replaced values, a cache within it
    the computed values. Only this thread is concerned. What `nn.utils.checkpoint` computes again in the backward pass
    is changed then if `backward` is called within it, too.

    Args:
        model: any module.
        changes: for each name or glob a function from the value to another one; a Tensor, array or number that
            broadcasts to it and takes its dtype; or a dict of such for indices along axis 1: heads within attention,
            positions of (batch, length, d_model).

    Raises ValueError for a name that the model does not have and for shapes that do not fit, IndexError for an index
    out of range, TypeError for a function that returns None, and, on leaving, RuntimeError for a change that no call
    met.
    """

    def __init__(self, model: Module, changes: Mapping[str, Any]) -> None:
        known = places(model)
        self._changes: dict[str, list[tuple[str, Any]]] = {}
        for pattern, change in changes.items():
            for name in matching("intervene", known, pattern):
                self._changes.setdefault(name, []).append((pattern, change))
        self._waiting = set(changes)
        super().__init__({name: known[name] for name in self._changes})

    def meet(self, name: str, value: Any) -> Any:
        """The value after all changes of its name."""
        for pattern, change in self._changes[name]:
            self._waiting.discard(pattern)
            value = _changed(name, value, change)
        return value

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        if self._waiting and exception[0] is None:
            raise RuntimeError(
                f"intervene: no call met {', '.join(map(repr, sorted(self._waiting)))}, so it changed nothing; call "
                "the model within it, in the same thread"
            )


def _changed(name: str, value: Any, change: Any) -> Any:
    if isinstance(change, Mapping):
        for index, inner in change.items():
            value = _changed_at(name, value, operator.index(index), inner)
        return value
    if callable(change):
        change = change(value)
        if change is None:
            raise TypeError(f"intervene: the function for {name!r} returned None; expected the value to continue with")
    if not isinstance(value, Tensor):
        return change
    new = tt.astype(beside(change, value), value.dtype, copy=False)
    try:
        return new if new.shape == value.shape else tt.broadcast_to(new, value.shape)
    except ValueError:
        raise ValueError(f"intervene: {name!r} has shape {value.shape}; a value of {new.shape} does not fit") from None


def _changed_at(name: str, value: Any, index: int, change: Any) -> Tensor:
    """The value with a change of one index along axis 1."""
    count = value.shape[1] if isinstance(value, Tensor) and value.ndim > 1 else 0
    if not -count <= index < count:
        raise IndexError(f"intervene: {name!r} has {count} indices along axis 1, there is no {index}")
    at = index % count
    new = _changed(f"{name} at {index}", value[:, at], change)
    return tt.concat([value[:, :at], new[:, None], value[:, at + 1 :]], axis=1)
