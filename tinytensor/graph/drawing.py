"""Draw the computation of a Tensor.

    with tt.record():
        scores = query @ key.mT / math.sqrt(d)
    tt.draw(scores, "scores.svg")

`tinytensor.graph` has the graph as data, and the code that draws it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..node import Node
from ..tensor import Tensor

if TYPE_CHECKING:
    from . import Graph


def draw(
    outputs: Tensor | Iterable[Tensor],
    path: str | os.PathLike[str] | None = None,
    *,
    names: Any = None,
    title: str | None = None,
    **options: Any,
) -> Graph:
    """The graph behind one or several Tensors; a notebook shows it, `path` saves it.

    Compute within `tt.record()` to see modules as boxes around their ops, inputs that need no gradient, and the names
    of variables; you can also draw such a graph after `backward`. Draw others before it, or pass it
    `retain_graph=True`.

    Args:
        outputs: one or more computed Tensors.
        path: a file to write, as .svg, .png, .pdf, .tex, .dot, .mmd, .txt, .json or .html (`Graph.save`).
        names: names of Tensors: a dict from names to Tensors or modules, or a module (anything that has
            `named_parameters()`). Computed Tensors may have names too. Others have the names of the caller's
            variables.
        title: a line above the picture.
        **options: how to draw it, for example `depth=3`, `saved=True`; see `tinytensor.graph.Options`.

    Raises ValueError if an output was not recorded, RuntimeError if its graph was freed.
    """
    from . import Graph  # costs a third of the package's own import time, so only for pictures

    roots = computed(outputs, "draw", ", or save the graph that tt.record() gives: `with tt.record() as graph: ...`")
    graph = Graph.behind(roots, names=[*named(names), *_callers_variables()], title=title, **options)
    if path is not None:
        graph.save(path)
    return graph


def computed(outputs: Tensor | Iterable[Tensor], what: str, otherwise: str = "") -> list[Node]:
    """The nodes of one or several outputs; errors begin with `what`, and end with what else one could do."""
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if not tensors:
        raise ValueError(f"{what}: expected at least one output, got none")
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}: output {i} is a {type(tensor).__name__}; expected a Tensor")
        if tensor._node is None:
            raise ValueError(
                f"{what}: output {i} {tensor.shape} has no graph: nothing it was computed from requires a gradient, or "
                f"gradients were off; set requires_grad=True on an input{otherwise}"
            )
    return [tensor._node for tensor in tensors if tensor._node is not None]


def _callers_variables() -> Iterator[tuple[str, Tensor]]:
    """The Tensors among the caller's variables, with their names."""
    from ..tracing import calling_frame  # as above

    variables = calling_frame().f_locals
    yield from ((name, x) for name, x in variables.items() if isinstance(x, Tensor) and name.isidentifier())


def named(names: Any) -> Iterator[tuple[str, Tensor]]:
    """Pairs of a name and a Tensor, from a module or from a dict of Tensors and modules."""
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
            raise TypeError(f"names[{name!r}] is a {type(value).__name__}; expected a Tensor or a module")
