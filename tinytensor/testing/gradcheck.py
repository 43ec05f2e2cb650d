"""Checking gradients against the definition: by finite differences, in float64.

Instead of every entry of the Jacobian, one random projection of it is compared: with random weights w for the result
and a random direction v for the inputs, the derivative of sum(w * f(x + t v)) in t at 0 must be sum(gradient * v).
A wrong entry escapes only if the random numbers happen to cancel it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tinytensor as tt

from ..grad_mode import enable_grad, no_grad
from ..gradients import grad
from ..random import Generator
from ..tensor import Tensor


class GradientError(AssertionError):
    """A gradient that disagrees with finite differences."""


def _inputs(name: str, inputs: Any) -> list[Any]:
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    chosen = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    if not chosen:
        raise ValueError(f"{name}: none of the inputs requires a gradient")
    for x in chosen:
        if x.dtype != tt.float64:
            raise TypeError(f"{name}: inputs must be float64 for differences to mean anything, got {x.dtype}")
    return given


def gradcheck(
    function: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-5,
    projections: int = 3,
    seed: int = 0,
) -> bool:
    """Compare the gradients of a function with finite differences, along random projections.

    Args:
        function: takes the inputs and gives a Tensor or several.
        inputs: Tensors, those that require gradients in float64; other values are passed on as they are.
        eps: the step of the central differences.
        atol, rtol: how far the two may be apart, absolutely and relative to the derivative.
        projections: how many random projections are compared.
        seed: of the random numbers.

    Returns True; raises GradientError, with the numbers, where they disagree.
    """
    given = _inputs("gradcheck", inputs)
    generator = Generator(seed)
    for _ in range(projections):
        _check_projection(function, given, generator, eps, atol, rtol)
    return True


def _check_projection(
    function: Callable[..., Any], given: list[Any], generator: Generator, eps: float, atol: float, rtol: float
) -> None:
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with enable_grad():
        leaves = [tt.tensor(x.detach(), requires_grad=True) if i in places else x for i, x in enumerate(given)]
        outputs = [o for o in _several(function(*leaves)) if o.dtype.kind == "f"]
        weights = [generator.normal(o.shape, dtype=o.dtype, device=o.device) for o in outputs]
        total = _weighted(outputs, weights)
        wanted = [leaves[i] for i in places]
        if total._node is None:
            gradients: list[Tensor | None] = [None] * len(wanted)
        else:
            gradients = list(grad(total, wanted, allow_unused=True))
    if not any(x.size for x in wanted):
        return  # there is no direction in which to go
    directions = [generator.normal(x.shape, dtype=x.dtype, device=x.device) for x in wanted]
    analytic = sum((g * v).sum().item() for g, v in zip(gradients, directions) if g is not None)
    values = []
    with no_grad():
        for sign in (1, -1):
            moved = list(given)
            for i, v in zip(places, directions):
                moved[i] = given[i].detach() + v * (sign * eps)
            results = [o for o in _several(function(*moved)) if o.dtype.kind == "f"]
            values.append(_weighted(results, weights).item())
    numeric = (values[0] - values[1]) / (2 * eps)
    if not np.isclose(analytic, numeric, rtol=rtol, atol=atol):
        raise GradientError(
            f"gradcheck: along a random direction the gradient gives {analytic:.10g}, "
            f"differences give {numeric:.10g} (apart by {abs(analytic - numeric):.3g})"
        )


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-5,
    projections: int = 3,
    seed: int = 0,
) -> bool:
    """`gradcheck` of a function's gradient: second derivatives, also with respect to the incoming gradient."""
    given = _inputs("gradgradcheck", inputs)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with no_grad():
        outputs = [o for o in _several(function(*given)) if o.dtype.kind == "f"]
    generator = Generator(seed + 1)
    cotangents = [
        tt.tensor(generator.normal(o.shape, dtype=o.dtype, device=o.device), requires_grad=True) for o in outputs
    ]

    def gradients(*args: Any) -> list[Tensor]:
        values, g = list(args[: len(given)]), list(args[len(given) :])
        with enable_grad():
            leaves = [v if v.requires_grad else tt.tensor(v, requires_grad=True) for v in (values[i] for i in places)]
            for i, leaf in zip(places, leaves):
                values[i] = leaf
            results = [o for o in _several(function(*values)) if o.dtype.kind == "f"]
            found = grad(results, leaves, g, create_graph=True, allow_unused=True)
        return [f for f in found if f is not None]

    return gradcheck(
        gradients, [*given, *cotangents], eps=eps, atol=atol, rtol=rtol, projections=projections, seed=seed
    )


def _several(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def _weighted(outputs: list[Tensor], weights: list[Tensor]) -> Tensor:
    total = tt.zeros((), dtype=tt.float64, device=weights[0].device if weights else None)
    for output, weight in zip(outputs, weights):
        total = total + (output * weight).sum()
    return total
