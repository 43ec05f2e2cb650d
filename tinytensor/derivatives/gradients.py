"""Gradients as results: `tt.grad`, which fills no `.grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine import node_of, run, seed_of
from ..tensor import Tensor, wrap


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> Any:
    """Gradients of the outputs' weighted sum with respect to the inputs; no `.grad` is touched.

    Args:
        outputs: a Tensor or several.
        inputs: a Tensor or several; computed Tensors are allowed, and gradients are not carried beyond them.
        grad_outputs: the weight of each output, of its shape; default 1 for outputs of one element.
        retain_graph: keep what the graph holds, so that it can be used again; default: as `create_graph`.
        create_graph: record the computation of the gradients, so that they can be differentiated in turn.
        allow_unused: give None for an input that the outputs do not depend on, instead of raising.

    Returns a Tensor for a single input given as a Tensor, else a tuple, one for each input.
    """
    targets = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seeds = [(node_of(output, "grad"), seed_of(output, w, "grad")) for output, w in _weighted(outputs, grad_outputs)]
    nodes = []
    for i, tensor in enumerate(targets):
        if tensor._node is None:
            raise RuntimeError(f"grad: input {i} {tensor.shape} does not require a gradient; set requires_grad=True")
        nodes.append(tensor._node)
    gradients = run(seeds, nodes, create_graph if retain_graph is None else retain_graph, create_graph)
    results = []
    for i, (node, tensor) in enumerate(zip(nodes, targets)):
        value = gradients.get(node)
        if value is None and not allow_unused:
            raise RuntimeError(
                f"grad: the outputs do not depend on input {i} {tensor.shape}, or the graph between them was used and "
                "freed; pass allow_unused=True to get None, or retain_graph=True to the first use"
            )
        results.append(value if value is None or isinstance(value, Tensor) else wrap(value, None))
    return results[0] if isinstance(inputs, Tensor) else tuple(results)


def _weighted(outputs: Tensor | Sequence[Tensor], grad_outputs: Any) -> list[tuple[Tensor, Any]]:
    """Each output with its weight, None where none is given."""
    if isinstance(outputs, Tensor):
        single = isinstance(grad_outputs, (tuple, list)) and len(grad_outputs) == 1
        return [(outputs, grad_outputs[0] if single else grad_outputs)]
    weights = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    if len(weights) != len(outputs):
        raise ValueError(f"grad: {len(outputs)} outputs but {len(weights)} grad_outputs; expected one for each")
    return list(zip(outputs, weights))
