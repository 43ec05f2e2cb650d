"""Jacobians and Hessians as results, and the products with them that never build one: `tt.vjp` and `tt.jvp`.

A function y = f(x) has the Jacobian J, J[i, j] = dy_i / dx_j. One backward pass gives g J for any g, the
vector-Jacobian product, so J costs one pass for each element of y. The product J t in a direction t needs no other
machinery: g J is linear in g, and its derivative with respect to g, taken backward once more, is J t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tinytensor as tt

from ..grad_mode import enable_grad
from ..tensor import Tensor
from .gradients import grad

Function = Callable[..., Any]


def jacobian(function: Function, *inputs: Tensor, create_graph: bool = False) -> Any:
    """The derivative of every element of a function's result by every element of its inputs.

    As `torch.autograd.functional.jacobian`, but the inputs follow one another, as in a call of the function.

    Args:
        function: takes the inputs and gives a Tensor or a tuple of Tensors.
        inputs: floating Tensors, of any shapes. Pass on other arguments with a lambda.
        create_graph: record the computation, so that the result can be differentiated in turn.

    Returns a Tensor of shape (*result.shape, *input.shape): for vectors the matrix J[i, j] = dy_i / dx_j. For several
    inputs a tuple, one for each; for a tuple of results a tuple of these. Zeros where a result does not depend on an
    input; a function that depends on none of them is an error, as its graph may have been cut.

        >>> tt.jacobian(lambda x: x * x, tt.asarray([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    leaves = _leaves("jacobian", inputs, create_graph)
    outputs, several = _outputs("jacobian", function, leaves)
    found = [_rows(output, leaves, create_graph) for output in outputs]
    return _as_given([_as_given(blocks, len(inputs) > 1) for blocks in found], several)


def hessian(function: Function, *inputs: Tensor, create_graph: bool = False) -> Any:
    """The second derivatives of a function of one value: the Jacobian of its gradient.

    As `torch.autograd.functional.hessian`, but the inputs follow one another, as in a call of the function.

    Args:
        function: takes the inputs and gives a Tensor of one element.
        inputs: floating Tensors, of any shapes.
        create_graph: record the computation, so that the result can be differentiated in turn.

    Returns a Tensor of shape (*input.shape, *input.shape); for several inputs a tuple of tuples, with shape
    (*x.shape, *y.shape) for x and y in its place [i][j].
    """
    leaves = _leaves("hessian", inputs, create_graph)
    outputs, several = _outputs("hessian", function, leaves)
    if several or outputs[0].size != 1:
        raise ValueError(
            f"hessian: the function gave {_shapes(outputs)}; expected a Tensor of one element, for example a sum"
        )
    gradients = _gradients(outputs[0], leaves, None, create_graph=True)
    found = [_rows(gradient, leaves, create_graph) for gradient in gradients]
    return _as_given([_as_given(blocks, len(inputs) > 1) for blocks in found], len(inputs) > 1)


def vjp(function: Function, *inputs: Tensor, create_graph: bool = False) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """A function's result, and a function that multiplies any g of the result's shape by the Jacobian: g J.

    As `torch.func.vjp`.

    Args:
        function: takes the inputs and gives a Tensor or a tuple of Tensors.
        inputs: floating Tensors.
        create_graph: record the computation, so that the result and the products can be differentiated in turn.

    Returns the result and a function of g (of a tuple of them, where the result is one; default 1 for one element). It
    gives a tuple with a Tensor of each input's shape, even for a single one.

        >>> result, multiply = tt.vjp(lambda x: x * x, tt.asarray([1.0, 2.0]))
        >>> multiply(tt.asarray([1.0, 1.0]))
        (tensor([2., 4.]),)
    """
    leaves = _leaves("vjp", inputs, create_graph)
    outputs, several = _outputs("vjp", function, leaves)

    def multiply(cotangents: Any = None) -> tuple[Any, ...]:
        weights = [None] * len(outputs)
        if cotangents is not None:
            weights = _beside("vjp", "cotangents", cotangents if several else [cotangents], outputs)
        elif several or outputs[0].size != 1:
            raise ValueError(f"vjp: for a result of {_shapes(outputs)} give cotangents of its shape")
        return tuple(_gradients(outputs, leaves, weights, create_graph))

    return _as_given(outputs if create_graph else [x.detach() for x in outputs], several), multiply


def jvp(function: Function, inputs: Any, tangents: Any, *, create_graph: bool = False) -> tuple[Any, Any]:
    """A function's result, and how fast it changes when the inputs move in the direction of the tangents: J t.

    As `torch.func.jvp` and `torch.autograd.functional.jvp`, by two backward passes instead of forward mode.

    Args:
        function: takes the inputs and gives a Tensor or a tuple of Tensors.
        inputs: a floating Tensor, or a tuple of them.
        tangents: a Tensor of the input's shape, or a tuple with one for each input.
        create_graph: record the computation, so that both results can be differentiated in turn.

    Returns the result and the product, which has its shape.
    """
    many = isinstance(inputs, (tuple, list))
    leaves = _leaves("jvp", inputs if many else [inputs], create_graph)
    directions = _beside("jvp", "tangents", tangents if many else [tangents], leaves)
    outputs, several = _outputs("jvp", function, leaves)
    weights = [tt.zeros_like(x).requires_grad_() for x in outputs]
    products = _gradients(outputs, leaves, weights, create_graph=True)  # g J, whatever g is
    found = _gradients(products, weights, directions, create_graph)
    outputs = outputs if create_graph else [x.detach() for x in outputs]
    return _as_given(outputs, several), _as_given(found, several)


@enable_grad()
def _leaves(name: str, inputs: Sequence[Any], create_graph: bool) -> list[Tensor]:
    """The inputs, checked, as Tensors of their own at which gradients stop."""
    if not inputs:
        raise TypeError(f"{name}: expected the function and its inputs, got no inputs")
    for i, x in enumerate(inputs):
        if isinstance(x, (tuple, list)):
            raise TypeError(f"{name}: input {i} is a {type(x).__name__}; expected Tensors one after the other: f, x, y")
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: input {i} is a {type(x).__name__}; expected a Tensor, see tt.asarray")
        if x.dtype.kind != "f":
            raise TypeError(f"{name}: input {i} {x.shape} is {x.dtype}; only floating Tensors have derivatives")
    # `positive` leads on to where the input came from, for derivatives of the derivatives.
    return [tt.positive(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs]


@enable_grad()
def _outputs(name: str, function: Function, leaves: list[Tensor]) -> tuple[list[Tensor], bool]:
    """The function's results, checked, as a list, and True if it gave several."""
    result = function(*leaves)
    several = isinstance(result, (tuple, list))
    outputs: list[Any] = list(result) if several else [result]
    for x in outputs:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: the function gave a {type(x).__name__}; expected a Tensor or a tuple of Tensors")
        if x.dtype.kind != "f":
            raise TypeError(f"{name}: the function gave a Tensor {x.shape} of {x.dtype}, which has no derivatives")
    if not any(x.requires_grad for x in outputs):
        raise RuntimeError(
            f"{name}: what the function gives depends on none of its inputs. If it does, its graph was cut: by "
            "detach(), tt.no_grad(), or a derivative inside it that needs create_graph=True"
        )
    return outputs, several


def _gradients(outputs: Any, leaves: list[Tensor], weights: Any, create_graph: bool) -> list[Tensor]:
    """Gradients of the outputs' weighted sum for each leaf, zeros where there is none. The graph is kept."""
    sources = [outputs] if isinstance(outputs, Tensor) else outputs
    pairs = [(x, w) for x, w in zip(sources, weights or [None] * len(sources)) if x.requires_grad]
    found: Any = [None] * len(leaves)
    if pairs:
        xs, ws = (list(each) for each in zip(*pairs))
        found = grad(xs, leaves, ws, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return [tt.zeros_like(x) if g is None else g for g, x in zip(found, leaves)]


@enable_grad()
def _rows(output: Tensor, leaves: list[Tensor], create_graph: bool) -> list[Tensor]:
    """The Jacobian of one result for each leaf, row by row: one backward pass for each element of the result."""
    rows = []
    for i in range(output.size):
        one = tt.zeros(output.size, dtype=output.dtype, device=output.device)
        one[i] = 1
        rows.append(_gradients(output, leaves, [tt.reshape(one, output.shape)], create_graph))
    shapes = [(*output.shape, *x.shape) for x in leaves]
    if not rows:
        return [tt.zeros(shape, dtype=x.dtype, device=x.device) for shape, x in zip(shapes, leaves)]
    return [tt.reshape(tt.stack(column), shape) for column, shape in zip(zip(*rows), shapes)]


def _beside(name: str, what: str, values: Any, others: list[Tensor]) -> list[Any]:
    """One Tensor for each of the others, of its shape, dtype and device."""
    if not isinstance(values, (tuple, list)) or len(values) != len(others):
        count = len(values) if isinstance(values, (tuple, list)) else f"a {type(values).__name__}"
        raise ValueError(f"{name}: expected a tuple of {len(others)} {what}, got {count}")
    found = []
    for i, (value, other) in enumerate(zip(values, others)):
        x = value if isinstance(value, Tensor) else tt.asarray(value, device=other.device)
        if x.shape != other.shape:
            raise ValueError(f"{name}: {what} {i} has shape {x.shape}, expected {other.shape}")
        found.append(tt.astype(x, other.dtype, copy=False))
    return found


def _shapes(outputs: list[Tensor]) -> str:
    return " and ".join(f"shape {x.shape}" for x in outputs)


def _as_given(values: Sequence[Any], several: bool) -> Any:
    """A tuple where several were given, or the only one."""
    return tuple(values) if several else values[0]
