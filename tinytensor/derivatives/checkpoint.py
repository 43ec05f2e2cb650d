"""Recomputation: drop the arrays that a part of a graph keeps for its gradients, and compute them again when needed.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". The part's nodes stay, with their parents, so paths
through the graph, hooks and higher derivatives are what they were; only the arrays go. When the backward pass reaches
the first of the nodes, the function runs once more and every node takes what its twin keeps.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .. import random
from ..backend import for_array
from ..modes import state
from ..node import Node, tick
from ..tensor import Tensor, wrap


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    preserve_rng_state: bool = True,
    use_reentrant: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function, and keep nothing that it computes: the backward pass calls it a second time.

    Memory for time: if every layer of a deep network is called this way, the graph holds what goes into each layer and
    comes out, and the inside of one layer at a time, for about a third more time.

        for layer in layers:
            x = nn.utils.checkpoint(layer, x)

    Args:
        function: gives a Tensor or a nesting of tuples, lists and dictionaries of them. It must compute the same thing
            when it is called again: state that it depends on must not change.
        *args, **kwargs: passed on to the function.
        preserve_rng_state: if True, the default generator starts the second call where it started the first, so that
            dropout drops the same. If False, results are not compared.
        use_reentrant: False, the one way there is here (PyTorch has another).

    Returns what the function gave. Backward raises RuntimeError if the second call computes anything else: other ops,
    or (on the CPU) other results.
    """
    if use_reentrant:
        raise ValueError("checkpoint: use_reentrant=True is not supported; leave it out")
    if not state.grad_enabled:
        return function(*args, **kwargs)
    generator = random.get_state() if preserve_rng_state else None
    # The caller and the function may move their Tensors on in place: neither moves these.
    call = Call(function, _handles(args), _handles(kwargs), generator, contextvars.copy_context())
    start = tick()
    result = function(*_handles(args), **_handles(kwargs))
    nodes = _made_since(start, result)
    if nodes:
        Recomputation(call, nodes, [t._data for t in _tensors(result)] if preserve_rng_state else [])
    return result


class Call:
    """A function with its arguments, to be called again under the same circumstances."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, generator: Any, context: Any) -> None:
        self.function, self.args, self.kwargs, self.generator = function, args, kwargs, generator
        self.context: contextvars.Context = context
        self.textbook, self.was_watched = state.textbook, state.plain is None

    def again(self) -> tuple[Any, list[Node]]:
        """The result, and the nodes that lead to it."""
        modes = state.change(grad_enabled=True, anomaly=False, recording=None, observer=None, textbook=self.textbook)
        generator = random.get_state() if self.generator is not None else None
        state.plain = None if self.was_watched else state.plain  # so that the same ops compute
        former, state.recomputing = state.recomputing, True
        start = tick()
        try:
            if self.generator is not None:
                random.set_state(self.generator)
            result = self.context.copy().run(self.function, *_handles(self.args), **_handles(self.kwargs))
        finally:
            state.recomputing = former
            if generator is not None:
                random.set_state(generator)
            state.change(**modes)
        return result, _made_since(start, result)


class Recomputation:
    """The nodes of a checkpointed call keep this instead of their arrays.

    Attributes:
        call: the call to make again.
        nodes: the call's nodes, earliest first; weak references, as the nodes hold this.
        described: the names of their ops, shapes and dtypes.
        results: the arrays that the call gave, which the second call must give again.
    """

    def __init__(self, call: Call, nodes: list[Node], results: list[Any]) -> None:
        self.call = call
        self.nodes = [weakref.ref(node) for node in nodes]
        self.described = [_describe(node) for node in nodes]
        self.results = results
        for node in nodes:
            node.kept, node.residuals, node.recomputation = None, None, self

    def restore(self) -> None:
        """Compute the arrays again and give them back to the nodes."""
        result, twins = self.call.again()
        again = [_describe(node) for node in twins]
        if again != self.described:
            raise RuntimeError(
                f"checkpoint: the second call of the function computed {_text(again)}, the first "
                f"{_text(self.described)}; it must not depend on what changes between forward and backward"
            )
        for first, second in zip(self.results, (t._data for t in _tensors(result))):
            if not _same(first, second):
                raise RuntimeError(
                    f"checkpoint: the second call of the function gave other numbers {tuple(first.shape)} "
                    f"{first.dtype} than the first: what it reads, or what it gave, was changed in between; change a "
                    "copy, or change it after backward"
                )
        partner = {weakref.ref(twin): node for twin, node in zip(twins, self.nodes)}
        for twin, reference in zip(twins, self.nodes):
            inner = twin.recomputation
            if inner is not None:  # a checkpoint within this one, which is to restore our nodes
                inner.nodes = [partner.get(n, n) for n in inner.nodes]
            node = reference()
            if node is not None and node.recomputation is self:  # else it was used and freed already
                node.kept, node.residuals, node.recomputation = twin.kept, twin.residuals, inner
                node.renewed = twin.serial


def _handles(value: Any) -> Any:
    """The value, with new Tensors over the same memory and nodes."""
    if isinstance(value, Tensor):
        return wrap(value._data, value._node)
    if isinstance(value, dict):
        return {key: _handles(item) for key, item in value.items()}
    return type(value)(map(_handles, value)) if type(value) in (tuple, list) else value


def _made_since(start: int, result: Any) -> list[Node]:
    """The nodes of ops behind a result that are younger than a tick, earliest first."""
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


def _same(first: Any, second: Any) -> bool:
    """True if two results are equal bit for bit, and always on a GPU, which may add up in another order."""
    if for_array(first).device != "cpu":
        return True
    return bool(((first == second) | (first != first)).all())


def _describe(node: Node) -> tuple[str, tuple[int, ...], Any]:
    return node.name, tuple(node.shape), node.dtype


def _text(nodes: list[tuple[str, tuple[int, ...], Any]]) -> str:
    """A few of the described nodes, in words."""
    words = [f"{name} {shape}" for name, shape, _ in nodes[:4]]
    return ", ".join(words) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "") if words else "nothing"
