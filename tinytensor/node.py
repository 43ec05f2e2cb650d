"""The node: what an op leaves behind so that its gradient can be taken.

A node is data, not a closure: the op's record, the nodes of its inputs, the arrays its gradient rules read (saved for
backward), its parameters, and the shape and dtype of its result. Edges run from node to node. A Tensor points to its
node and no node points to a Tensor, so there are no reference cycles: an array dies with the last thing that needs it.

One clock orders everything. A node takes its tick when it is made, so later nodes have larger numbers, and sorting by
them is a topological order. A write into memory takes a tick as well: a saved array is stale when its memory was
written at a later tick than the node's own.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .backend import for_array

if TYPE_CHECKING:
    from .derivatives.checkpoint import Recomputation
    from .primitive import Primitive

tick = itertools.count(1).__next__


class Saved(NamedTuple):
    """One value that a node saved for backward.

    Attributes:
        name: the input's, or "out"; "residual 0", "residual 1", ... for what a fused op's fast pair put aside.
        value: an array, or a number.
        source: the node it is the result of; None where no gradient flows to it, and for residuals.
    """

    name: str
    value: Any
    source: Node | None


class Node:
    """One recorded op, or (with `op` None) a leaf: a Tensor that was not computed and wants a gradient.

    Attributes:
        op: the op's record; None for a leaf.
        parents: the node of each input, None where an input needs no gradient.
        kept: the values saved for backward, by name in the gradient rules (for a fused op all inputs, by name); None
            once they were freed. `saved` lists them one by one.
        residuals: the values that a fused op's fast pair put aside for its backward half.
        params: the op's keyword arguments.
        shape, dtype: of the result.
        serial: the tick of the clock at which the node was made.
        hooks: functions that see, and may replace, the gradient of the result.
        grad: the Tensor that collects the gradient, for leaves and where `retain_grad` asked for it.
        retains_grad: True if backward is to fill `grad`.
        recomputation: computes `kept` again, if `checkpoint` dropped it; or None.
        renewed: the tick at which the saved values were computed again; 0 if they were not.
        variable, owned, arrived, origin, traced, witness, constants: known from `recording`; the values here are those
            of a node that was not recorded.
    """

    __slots__ = ("__dict__", "__weakref__", "dtype", "kept", "op", "params", "parents", "residuals", "serial", "shape")

    # Few nodes have these, so they are attributes of the class until a node gets its own.
    hooks: dict[int, Any] | None = None
    grad: Any = None
    retains_grad = False
    recomputation: Recomputation | None = None
    renewed: int = 0
    variable = ""
    owned = False
    arrived: Any = None
    origin: str | None = None
    traced = False
    witness: Any = None
    constants: tuple[Any, ...] = ()

    def __init__(
        self,
        op: Primitive | None,
        parents: tuple[Node | None, ...],
        kept: dict[str, Any] | None,
        params: dict[str, Any],
        out: Any,
    ) -> None:
        self.op = op
        self.parents = parents
        self.kept = kept
        self.residuals: tuple[Any, ...] | None = None
        self.params = params
        self.shape = out.shape
        self.dtype = out.dtype
        self.serial = tick()

    @property
    def name(self) -> str:
        return "leaf" if self.op is None else self.op.name

    def __repr__(self) -> str:
        return f"<node {self.serial}: {self.name} -> {tuple(self.shape)} {self.dtype}>"

    @property
    def freed(self) -> bool:
        """True if the saved values are gone for good."""
        return self.kept is None and self.recomputation is None

    def saved(self) -> list[Saved]:
        """The values saved for backward, one by one."""
        return _saved(self, self.kept, self.parents)

    def restore(self) -> None:
        """Bring back the values that `checkpoint` dropped."""
        while self.recomputation is not None:
            self.recomputation.restore()

    def free(self) -> None:
        """Let go of the saved values, and of the parent nodes."""
        self.kept, self.residuals, self.parents = None, None, ()


def _saved(node: Node, kept: dict[str, Any] | None, sources: tuple[Node | None, ...]) -> list[Saved]:
    if node.op is None or kept is None:
        return []
    found = []
    for name, value in kept.items():
        if name == "out":
            found.append(Saved(name, value, node))
        elif node.op.variadic:
            found += [Saved(name, part, source) for part, source in zip(value, sources)]
        else:
            found.append(Saved(name, value, sources[node.op.inputs.index(name)]))
    return found + [Saved(f"residual {i}", value, None) for i, value in enumerate(node.residuals or ())]


def leaf(data: Any) -> Node:
    """The node of a Tensor that was not computed and wants a gradient."""
    node = Node(None, (), {}, {}, data)
    node.retains_grad = True
    return node


_written: dict[int, int] = {}  # storage -> tick of its last write
_last_write = 0
_writing = threading.Lock()


def mark_written(*arrays: Any) -> None:
    """Say that the memory of arrays was written in place.

    Entries are never removed: a number that a later array reuses carries an older tick than any node that saved the
    later array, so it cannot be mistaken for a write to it.
    """
    global _last_write
    with _writing:
        for array in arrays:
            _last_write = _written[for_array(array).storage(array)] = tick()


def stale(node: Node) -> Any:
    """The first of the arrays saved in a node whose memory was written since; None if there is none."""
    then = node.renewed or node.serial
    return None if _last_write < then else written_since(then, (value for _, value, _ in node.saved()))


def written_since(then: int, arrays: Any) -> Any:
    """The first of the arrays whose memory was written after a tick of the clock; None if there is none."""
    for array in arrays if _last_write > then else ():
        if hasattr(array, "shape") and _written.get(for_array(array).storage(array), 0) > then:
            return array
    return None
