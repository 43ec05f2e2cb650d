"""Printing what autograd did: forward and backward of one graph as a NumPy program.

    with tt.record():
        loss = tt.mean(tt.square(x @ weight + bias - y))
    tt.print_backward(loss, names={"weight": weight, "bias": bias})

`program` writes it, on the arrays of `expressions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from ..tensor import Tensor

if TYPE_CHECKING:
    from .writer import NumPyProgram


def print_backward(outputs: Tensor | Iterable[Tensor], *, names: Any = None, file: TextIO | None = None) -> None:
    """Print how a Tensor, or several, were computed and how their gradients are, as a NumPy program that runs.

    Arguments and errors are those of `backward_program`; `file` is where to print, by default the standard output.
    """
    print(backward_program(outputs, names=names), file=file)


def backward_program(outputs: Tensor | Iterable[Tensor], *, names: Any = None) -> NumPyProgram:
    """The forward and backward pass of one graph as a flat NumPy program, ready to be printed, saved and run.

    The program is a function of the leaves and constants that gives the outputs and a dict of gradients, one for each
    leaf (and each Tensor that asked with `retain_grad`). It has every op with its gradient rule, in the engine's order;
    a fused op as its formula. An output of several elements has its incoming gradient as a further argument.

    Make it before `backward`, which frees the graph (or pass that `retain_graph=True`). Compute within `tt.record()`:
    without it, a graph may lack constants of the forward pass.

    Args:
        outputs: one or more computed Tensors.
        names: names for Tensors: a dict from names to Tensors or modules, or a module (anything that has
            `named_parameters()`). Others are named after their variable or their module, if known.

    Raises ValueError if an output was not recorded, RuntimeError if its graph was freed or lacks something.
    """
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if not tensors:
        raise ValueError("print_backward: expected at least one output, got none")
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"print_backward: output {i} is a {type(tensor).__name__}; expected a Tensor")
        if tensor._node is None:
            raise ValueError(
                f"print_backward: output {i} {tensor.shape} has no graph: nothing it was computed from requires a "
                "gradient, or gradients were off; set requires_grad=True on an input"
            )
    from . import writer as program  # only needed to print

    return program.build([t._node for t in tensors if t._node is not None], names)
