"""Recomputation: what a part of a graph keeps for its gradients is dropped, and computed again when it is needed.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". The part's nodes stay, with their parents, so paths
through the graph, hooks and higher derivatives are what they were; only the arrays go. When the backward pass reaches
the first of the nodes, the function runs once more and every node takes what its twin keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import random
from .modes import state
from .node import Node, tick, written_since
from .tensor import Tensor


def checkpoint(function: Callable[..., Any], *args: Any, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """Call a function, and keep nothing of what is computed in it: the backward pass calls it a second time.

    Memory for time: of a deep network in which every layer is called this way, the graph holds what goes into each
    layer, and of one layer at a time what is in it, for about a third more time.

        for layer in layers:
            x = nn.utils.checkpoint(layer, x)

    Args:
        function: gives a Tensor or a nesting of tuples, lists and dictionaries of them. It must compute the same thing
            when it is called again: no state may have changed that it depends on.
        *args, **kwargs: passed on to the function.
        preserve_rng_state: whether the default generator starts the second call where it started the first, so that
            dropout drops the same.

    Returns what the function gave. Backward raises RuntimeError if the second call computes anything else, or if what
    the function reads was changed in place.
    """
    if not state.grad_enabled or state.recording is not None:  # a picture shows what there is
        return function(*args, **kwargs)
    generator = random.get_state() if preserve_rng_state else None
    start = tick()
    result = function(*args, **kwargs)
    nodes = _made_since(start, result)
    if nodes:
        Recomputation((function, args, kwargs), generator, start, nodes)
    return result


class Recomputation:
    """What the nodes of a checkpointed call keep instead of their arrays.

    Attributes:
        call: the function and its arguments.
        generator: the state of the default generator at the call, or None.
        nodes: those of the call, earliest first; weakly, as they hold this.
        described: their ops, shapes and dtypes.
        start: the tick of the clock before the call.
        alive: the memory, of what the nodes kept, that outlived the call: what it read, and what it gave.
    """

    def __init__(
        self, call: tuple[Callable[..., Any], Any, Any], generator: Any, start: int, nodes: list[Node]
    ) -> None:
        self.call = call
        self.generator = generator
        self.start = start
        self.nodes = [weakref.ref(node) for node in nodes]
        self.described = [_describe(node) for node in nodes]
        self.alive: list[weakref.ref[Any]] = []
        self._drop(nodes)

    def _drop(self, nodes: list[Node]) -> None:
        """Take the arrays from the nodes."""
        arrays = [weakref.ref(_owner(a)) for node in nodes for a in _arrays(node.kept)]
        for node in nodes:
            node.kept = self
        self.alive = list({id(a): reference for reference in arrays if (a := reference()) is not None}.values())

    def restore(self) -> None:
        """Compute the arrays again and give them back to the nodes."""
        stale = written_since(self.start, [a for reference in self.alive if (a := reference()) is not None])
        if stale is not None:
            raise RuntimeError(
                f"checkpoint: an array {tuple(stale.shape)} {stale.dtype} that the function read or gave was changed "
                "in place after the call; change a copy, or change it after backward"
            )
        function, args, kwargs = self.call
        modes = state.change(True, False, None)
        generator = random.get_state() if self.generator is not None else None
        start = tick()
        try:
            if self.generator is not None:
                random.set_state(self.generator)
            result = function(*args, **kwargs)
        finally:
            if generator is not None:
                random.set_state(generator)
            state.change(*modes)
        self._take(_made_since(start, result))

    def _take(self, twins: list[Node]) -> None:
        """Have the nodes keep what their twins of the second call keep."""
        again = [_describe(node) for node in twins]
        if again != self.described:
            raise RuntimeError(
                f"checkpoint: the second call of the function computed {_text(again)}, the first "
                f"{_text(self.described)}; it must not depend on what changes between forward and backward"
            )
        partner = {weakref.ref(twin): node for twin, node in zip(twins, self.nodes)}
        for twin, reference in zip(twins, self.nodes):
            if isinstance(twin.kept, Recomputation):  # a call within this one, which shall restore our nodes
                twin.kept.nodes = [partner.get(n, n) for n in twin.kept.nodes]
            node = reference()
            if node is not None and node.kept is self:  # else it was used and freed already
                node.kept, node.renewed = twin.kept, twin.serial


def restore(node: Node) -> None:
    """See that a node has its arrays."""
    while isinstance(node.kept, Recomputation):
        node.kept.restore()


def _made_since(start: int, result: Any) -> list[Node]:
    """The nodes behind a result that are younger than a tick and keep arrays or a promise of them, earliest first."""
    seen: set[Node] = set()
    stack = [t._node for t in _tensors(result)]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen and node.serial > start:
            seen.add(node)
            stack.extend(node.parents)
    return sorted((node for node in seen if node.op is not None), key=lambda node: node.serial)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _arrays(kept: Any) -> Iterator[Any]:
    if isinstance(kept, (tuple, list)):
        for item in kept:
            yield from _arrays(item)
    elif hasattr(kept, "dtype") and hasattr(kept, "shape") and hasattr(kept, "strides"):
        yield kept


def _owner(array: Any) -> Any:
    """The array that a view looks into."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


def _describe(node: Node) -> tuple[Any, tuple[int, ...], Any]:
    return node.op, tuple(node.shape), node.dtype


def _text(nodes: list[tuple[Any, tuple[int, ...], Any]]) -> str:
    """A few of them, in words."""
    words = [f"{op.name} {shape}" for op, shape, _ in nodes[:4]]
    return ", ".join(words) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "") if words else "nothing"
