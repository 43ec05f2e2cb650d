"""Drawing what a Tensor was computed from.

    with tt.record():
        scores = query @ key.mT / math.sqrt(d)
    tt.draw(scores, "scores.svg", names={"query": query, "key": key})

`picture` has the graph as data, and what makes it a picture.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .tensor import Tensor

if TYPE_CHECKING:
    from .picture import Graph


def draw(
    outputs: Tensor | Iterable[Tensor],
    path: str | os.PathLike[str] | None = None,
    *,
    names: Any = None,
    title: str | None = None,
    rankdir: str = "LR",
) -> Graph:
    """The graph of what a Tensor, or several, were computed from; a notebook shows it, `path` saves it.

    Draw before `backward`, which frees the graph (or pass it `retain_graph=True`). Compute within `tt.record()` to see
    modules as boxes around their ops, and inputs that need no gradient.

    Args:
        outputs: one or more computed Tensors.
        path: a file to write; its ending (.svg, .png, .pdf, .dot) says what. See `Graph.save`.
        names: what Tensors are called: a dict from names to Tensors or modules, or a module (anything that has
            `named_parameters()`). Computed Tensors may be named as well. Other leaves are x1, x2, ...
        title: a line above the picture.
        rankdir: the direction of the picture: "LR" from left to right, "TB" from top to bottom.

    Raises ValueError if an output was not recorded, RuntimeError if its graph was freed.
    """
    if rankdir not in ("LR", "TB", "RL", "BT"):
        raise ValueError(f"draw: rankdir is {rankdir!r}; expected 'LR', 'TB', 'RL' or 'BT'")
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if not tensors:
        raise ValueError("draw: expected at least one output, got none")
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"draw: output {i} is a {type(tensor).__name__}; expected a Tensor")
        if tensor._node is None:
            raise ValueError(
                f"draw: output {i} {tensor.shape} has no graph: nothing it was computed from requires a gradient, or "
                "gradients were off; set requires_grad=True on an input"
            )
    from . import picture  # costs a third of the package's own import time, so only where pictures are made

    graph = picture.build([t._node for t in tensors if t._node is not None], list(_named(names)), title, rankdir)
    if path is not None:
        graph.save(path)
    return graph


class DrawingError(RuntimeError):
    """A picture could not be laid out: Graphviz is missing, or failed."""


def _named(names: Any) -> Iterator[tuple[str, Tensor]]:
    if names is None:
        return
    if hasattr(names, "named_parameters"):
        yield from names.named_parameters()
        return
    for name, value in names.items():
        if hasattr(value, "named_parameters"):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in value.named_parameters())
        elif isinstance(value, Tensor):
            yield str(name), value
        else:
            raise TypeError(f"draw: names[{name!r}] is a {type(value).__name__}; expected a Tensor or a module")
