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
    from ..graph.drawing import computed  # both are only needed to print
    from . import writer as program

    return program.build(computed(outputs, "print_backward"), names)
