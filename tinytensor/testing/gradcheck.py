"""Checking gradients against the definition: by finite differences, in float64.

Instead of every entry of the Jacobian, one random projection of it is compared: with random weights w for the result
and a random direction v for the inputs, the derivative of sum(w * f(x + t v)) in t at 0 must be sum(gradient * v).
A wrong entry escapes only if the random numbers happen to cancel it. Where the two disagree, the entries are compared
one by one, and the error names the one that is furthest off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tinytensor as tt

from ..derivatives.gradients import grad
from ..grad_mode import enable_grad, is_grad_enabled, no_grad
from ..random import Generator
from ..tensor import Tensor
from .entries import WrongEntry, find_wrong_entry


class GradientError(AssertionError):
    """A gradient that disagrees with finite differences.

    Attributes:
        entry: the wrong derivative, and both numbers; None if no single one stands out.
    """

    entry: WrongEntry | None = None


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
    names: Sequence[str] | None = None,
) -> bool:
    """Compare the gradients of a function with finite differences, along random projections.

    Args:
        function: takes the inputs and gives a Tensor or several.
        inputs: Tensors, those that require gradients in float64; other values are passed on as they are.
        eps: the step of the central differences.
        atol, rtol: how far the two may be apart, absolutely and relative to the derivative.
        projections: the number of random projections to compare.
        seed: the seed of the random numbers.
        names: the names of the inputs in an error; default: an op's own names, else "input 0", "input 1", ...

    Returns True; raises GradientError, with the element of the input and of the result and the numbers, where they
    disagree.
    """
    given = _inputs("gradcheck", inputs)
    names = _names(function, given, names)
    _check(function, given, (eps, atol, rtol), projections, seed, names, ())
    return True


def _names(function: Any, given: list[Any], names: Sequence[str] | None) -> Sequence[str]:
    if names is not None:
        return names
    own = getattr(getattr(function, "op", None), "inputs", ())
    return own if len(own) == len(given) else [f"input {i}" for i in range(len(given))]


def _check(
    function: Callable[..., Any],
    given: list[Any],
    tolerances: tuple[float, float, float],
    projections: int,
    seed: int,
    names: Sequence[str],
    result_names: Sequence[str],
) -> None:
    generator = Generator(seed)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with enable_grad():
        leaves = [tt.tensor(x.detach(), requires_grad=True) if i in places else x for i, x in enumerate(given)]
        outputs = _results(function, leaves)
    wanted = [leaves[i] for i in places]

    def results_at(steps: Mapping[int, Tensor]) -> list[Tensor]:
        moved = [x.detach() + steps[i] if i in steps else x for i, x in enumerate(given)]
        with no_grad():
            return _results(function, moved)

    for _ in range(projections):
        difference = _check_projection(outputs, dict(zip(places, wanted)), results_at, generator, *tolerances)
        if difference is not None:
            if not result_names:
                result_names = ["result"] if len(outputs) == 1 else [f"result {j}" for j in range(len(outputs))]

            def arrays_at(leaf: int, step: Any) -> list[Any]:
                found = results_at({places[leaf]: tt.asarray(step, device=wanted[leaf].device)})
                return [o.detach().numpy() for o in found]

            wanted_names = [names[i] for i in places]
            entry = find_wrong_entry(outputs, wanted, arrays_at, wanted_names, result_names, *tolerances)
            error = GradientError(f"gradcheck: {difference}" + (f"; {entry}" if entry else ""))
            error.entry = entry
            raise error


def _check_projection(
    outputs: list[Tensor],
    leaves: Mapping[int, Tensor],
    results_at: Callable[[Mapping[int, Tensor]], list[Tensor]],
    generator: Generator,
    eps: float,
    atol: float,
    rtol: float,
) -> str | None:
    """The two numbers that disagree along one random projection, in words; None if they agree."""
    weights = [generator.normal(o.shape, dtype=o.dtype, device=o.device) for o in outputs]
    with enable_grad():
        total = _weighted(outputs, weights)
        gradients: Sequence[Tensor | None] = [None] * len(leaves)
        if total._node is not None:
            gradients = grad(total, list(leaves.values()), retain_graph=True, allow_unused=True)
    if not any(x.size for x in leaves.values()):
        return None  # there is no direction to go in
    directions = [generator.normal(x.shape, dtype=x.dtype, device=x.device) for x in leaves.values()]
    analytic = sum((g * v).sum().item() for g, v in zip(gradients, directions) if g is not None)
    values = []
    for step in (eps, -eps):
        results = results_at({i: v * step for i, v in zip(leaves, directions)})
        values.append(_weighted(results, weights).item())
    numeric = (values[0] - values[1]) / (2 * eps)
    if np.isclose(analytic, numeric, rtol=rtol, atol=atol):
        return None
    return (
        f"along a random direction the gradient gives {analytic:.10g}, "
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
    names: Sequence[str] | None = None,
) -> bool:
    """`gradcheck` of a function's gradient: second derivatives, also with respect to the incoming gradient.

    It compares differences of an ordinary backward pass with the gradients that `create_graph=True` gives.
    """
    given = _inputs("gradgradcheck", inputs)
    names = _names(function, given, names)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with no_grad():
        outputs = _results(function, given)
    generator = Generator(seed + 1)
    cotangents = [
        tt.tensor(generator.normal(o.shape, dtype=o.dtype, device=o.device), requires_grad=True) for o in outputs
    ]

    reached: list[str] = []

    def gradients(*args: Any) -> list[Tensor]:
        values, g = list(args[: len(given)]), list(args[len(given) :])
        differentiated = is_grad_enabled()
        with enable_grad():
            leaves = [v if v.requires_grad else tt.tensor(v, requires_grad=True) for v in (values[i] for i in places)]
            for i, leaf in zip(places, leaves):
                values[i] = leaf
            results = _results(function, values)
            found = grad(results, leaves, g, create_graph=differentiated, allow_unused=True)
        reached[:] = [f"(gradient of {names[i]})" for i, f in zip(places, found) if f is not None]
        return [f for f in found if f is not None]

    incoming = ["g"] if len(cotangents) == 1 else [f"g {j}" for j in range(len(cotangents))]
    _check(gradients, [*given, *cotangents], (eps, atol, rtol), projections, seed, [*names, *incoming], reached)
    return True


def _results(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """The function's results that are floats."""
    result = function(*inputs)
    return [o for o in ([result] if isinstance(result, Tensor) else result) if o.dtype.kind == "f"]


def _weighted(outputs: list[Tensor], weights: list[Tensor]) -> Tensor:
    total = tt.zeros((), dtype=tt.float64, device=weights[0].device if weights else None)
    for output, weight in zip(outputs, weights):
        total = total + (output * weight).sum()
    return total
