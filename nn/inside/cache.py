"""`nn.cache`: the values of a model by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinytensor import Tensor
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..module import Module
from .watching import Watcher, matching, near, places


class cache(Watcher, Mapping[str, Any]):
    """Within it, the values of a model are kept by name; results, random numbers and other threads stay as they are.

        with nn.cache(model) as values:
            loss = F.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
        loss.backward()
        values["layers.3"]                          # what a module returned: (batch, length, d_model)
        values["layers.3.norm2.input"]              # an argument of its forward
        values["layers.3.self_attn.weights"][:, 6]  # head 6; also q, k, v, scores and z
        values["layers.3"].grad                     # of what takes part in a gradient

    q, k, v and z are (batch, heads, length, head_dim), after rotation, with keys and values repeated for the heads
    that share them; scores, masked, and weights, before dropout, are (batch, heads, target, source). Attention in 16
    bits has them in 32.

    Tensors that require a gradient are those of the graph; others are copies. They stay until the cache is gone or
    cleared. `values[name]` is that of the last call, `values.calls(name)` has all: those of each step, in generation.
    The Transformer's decoder then computes whole targets anew, and so does a model whose own result is asked for.
    Of (result, None), which attention returns within a model, the result is kept; other tuples are kept whole. Modules
    that are watched leave their compiled loops, which changes rounding.

    Args:
        model: any module.
        names: a name or a glob such as "layers.*.self_attn.weights", or several; default: all results and variables
            within the model. "*" has arguments, and its own result, by the name of its class, as well.

    Raises ValueError for a name that the model does not have, with names near it.
    """

    def __init__(self, model: Module, names: str | Sequence[str] | None = None) -> None:
        known = places(model)
        if names is None:
            wanted = [name for name, place in known.items() if place.kind != "argument" and place.module is not model]
            wanted += [name for name, place in known.items() if place.kind == "variable" and place.module is model]
            wanted = wanted or list(known)
        else:
            patterns = [names] if isinstance(names, str) else names
            wanted = [name for pattern in patterns for name in matching("cache", known, pattern)]
        super().__init__({name: known[name] for name in wanted})
        self._values: dict[str, list[Any]] = {}

    def meet(self, name: str, value: Any) -> Any:
        """Keep the value; a value that requires a gradient stays part of the graph."""
        if not state.recomputing and (kept := _kept(value)) is not None:
            self._values.setdefault(name, []).append(kept)
        return value if isinstance(value, Tensor) and value.requires_grad else None

    def calls(self, name: str) -> list[Any]:
        """The values of a name in all calls, in their order."""
        known = list(self._values)
        found = [name] if name in known else [other for other in known if other.endswith(f".{name}")]
        if len(found) != 1:
            raise KeyError(f"cache: {name!r} was not computed; {near(name, known)}")
        return list(self._values[found[0]])

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()

    def __getitem__(self, name: str) -> Any:
        return self.calls(name)[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        lines = [f"{name}: {getattr(self[name], 'shape', 'several')}" for name in self]
        return "\n".join([f"<cache: {len(lines)} values>", *lines])


def _kept(value: Any) -> Any:
    """The part of a value that a cache keeps: Tensors, and tuples that hold some; None of others."""
    if type(value) is tuple:
        parts = tuple(map(_kept, value))
        return None if all(part is None for part in parts) else parts
    if not isinstance(value, Tensor):
        return None
    if not value.requires_grad:
        return wrap(value._data.copy(), None)
    value.retain_grad()
    return value
