"""The node: what an op leaves behind so that its gradient can be taken.

A node is data, not a closure: the op's record, the nodes of its inputs, the arrays its gradient rules read, its
parameters, and the shape and dtype of its result. Edges run from node to node. A Tensor points to its node and no
node points to a Tensor, so there are no reference cycles, and an array dies with the last thing that needs it.

One clock orders everything. A node takes its tick when it is made, so later nodes have larger numbers, and sorting by
them is a topological order. A write into memory takes a tick as well: an array that a node keeps is stale when its
memory was written at a later tick than the node's own.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from .backend import for_array

if TYPE_CHECKING:
    from .primitive import Primitive

tick = itertools.count(1).__next__


class Node:
    """One recorded op, or (with `op` None) a leaf: a Tensor that was not computed and wants a gradient.

    Attributes:
        op: the op's record; None for a leaf.
        parents: the node of each input, None where an input needs no gradient.
        kept: what the gradient rules read; None once it was freed.
        params: the op's keyword arguments.
        shape, dtype: of the result.
        serial: the tick of the clock at which the node was made.
        hooks: functions that see, and may replace, the gradient of the result.
        grad: the Tensor that collects the gradient, for leaves and where `retain_grad` asked for it.
        retains_grad: whether `grad` is to be filled.
        variable: what the user calls a leaf, if `record` found out.
        owned: whether a leaf is known to be a parameter of a module.
        arrived: of a leaf, statistics of the gradient that the last backward pass over a recorded graph brought.
        renewed: the tick at which what it keeps was computed again, if it was.
        origin, traced, constants: see `tracing`; here the values of a node that does not know.
    """

    __slots__ = (
        "__dict__", "__weakref__", "dtype", "kept", "op", "params", "parents", "serial", "shape",
    )  # fmt: skip

    # Few nodes have these, so they are attributes of the class until a node gets its own.
    hooks: dict[int, Any] | None = None
    grad: Any = None
    retains_grad = False
    variable = ""
    owned = False
    arrived: Any = None
    origin: str | None = None
    traced = False
    constants: tuple[Any, ...] = ()
    renewed: int = 0

    def __init__(
        self,
        op: Primitive | None,
        parents: tuple[Node | None, ...],
        kept: Any,
        params: dict[str, Any],
        out: Any,
        values: Any = None,
    ) -> None:
        self.op = op
        self.parents = parents
        self.kept = kept
        self.params = params
        self.shape = out.shape
        self.dtype = out.dtype
        self.serial = tick()

    @property
    def name(self) -> str:
        return "leaf" if self.op is None else self.op.name

    def __repr__(self) -> str:
        return f"<node {self.serial}: {self.name} -> {tuple(self.shape)} {self.dtype}>"


def leaf(data: Any) -> Node:
    """The node of a Tensor that was not computed and wants a gradient."""
    node = Node(None, (), (), {}, data)
    node.retains_grad = True
    return node


_written: dict[int, int] = {}  # storage -> tick of its last write
_last_write = 0


def mark_written(array: Any) -> None:
    """Say that the memory of an array was written in place.

    Entries are never removed: a number that a later array reuses carries an older tick than any node that keeps the
    later array, so it cannot be mistaken for a write to it.
    """
    global _last_write
    now = tick()
    _written[for_array(array).storage(array)] = now
    _last_write = now


def written_since(then: int, arrays: Any) -> Any:
    """The first of the arrays whose memory was written after a tick of the clock; None if there is none."""
    if _last_write < then:
        return None
    for array in arrays:
        if hasattr(array, "shape") and _written.get(for_array(array).storage(array), 0) > then:
            return array
    return None


def is_finite(value: Any) -> bool:
    """Whether a value, an array or several hold finite numbers only (what has no numbers counts as finite)."""
    if isinstance(value, (tuple, list)):
        return all(is_finite(v) for v in value)
    if value is None or isinstance(value, (bool, str)):
        return True
    if hasattr(value, "dtype"):
        return value.dtype.kind not in "fc" or bool(for_array(value).isfinite(value).all())
    return bool(np.isfinite(value))
