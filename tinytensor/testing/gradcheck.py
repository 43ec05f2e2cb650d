"""Checking gradients against the definition: by finite differences, in float64.

Instead of every entry of the Jacobian, one random projection of it is compared: with random weights w for the result
and a random direction v for the inputs, the derivative of sum(w * f(x + t v)) in t at 0 must be sum(gradient * v).
A wrong entry escapes only if the random numbers happen to cancel it. Where the two disagree, the entries are compared
one by one, and the error names the one that is furthest off.
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
from .entries import WrongEntry, find_wrong_entry


class GradientError(AssertionError):
    """A gradient that disagrees with finite differences.

    Attributes:
        entry: which derivative is wrong, and both numbers; None where no single one stands out.
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
        projections: how many random projections are compared.
        seed: of the random numbers.
        names: what the inputs are called in an error; default: an op's own names, else "input 0", "input 1", ...

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
    for _ in range(projections):
        difference = _check_projection(function, given, generator, *tolerances)
        if difference is not None:
            entry = _wrong_entry(function, given, tolerances, names, result_names)
            error = GradientError(f"gradcheck: {difference}" + (f"; {entry}" if entry else ""))
            error.entry = entry
            raise error


def _check_projection(
    function: Callable[..., Any], given: list[Any], generator: Generator, eps: float, atol: float, rtol: float
) -> str | None:
    """What is apart along one random projection; None where nothing is."""
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
        return None  # there is no direction in which to go
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
    if np.isclose(analytic, numeric, rtol=rtol, atol=atol):
        return None
    return (
        f"along a random direction the gradient gives {analytic:.10g}, "
        f"differences give {numeric:.10g} (apart by {abs(analytic - numeric):.3g})"
    )


def _wrong_entry(
    function: Callable[..., Any],
    given: list[Any],
    tolerances: tuple[float, float, float],
    names: Sequence[str],
    result_names: Sequence[str],
) -> WrongEntry | None:
    """The entry of the Jacobian that is furthest off."""
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with enable_grad():
        leaves = [tt.tensor(x.detach(), requires_grad=True) if i in places else x for i, x in enumerate(given)]
        outputs = [o for o in _several(function(*leaves)) if o.dtype.kind == "f"]
    if not result_names:
        result_names = ["result"] if len(outputs) == 1 else [f"result {j}" for j in range(len(outputs))]

    def results_at(leaf: int, step: Any) -> list[Any]:
        place = places[leaf]
        moved = list(given)
        moved[place] = moved[place].detach() + tt.asarray(step, device=moved[place].device)
        with no_grad():
            return [o.detach().numpy() for o in _several(function(*moved)) if o.dtype.kind == "f"]

    wanted, wanted_names = [leaves[i] for i in places], [names[i] for i in places]
    return find_wrong_entry(outputs, wanted, results_at, wanted_names, result_names, *tolerances)


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
    """`gradcheck` of a function's gradient: second derivatives, also with respect to the incoming gradient."""
    given = _inputs("gradgradcheck", inputs)
    names = _names(function, given, names)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    with no_grad():
        outputs = [o for o in _several(function(*given)) if o.dtype.kind == "f"]
    generator = Generator(seed + 1)
    cotangents = [
        tt.tensor(generator.normal(o.shape, dtype=o.dtype, device=o.device), requires_grad=True) for o in outputs
    ]

    reached: list[str] = []

    def gradients(*args: Any) -> list[Tensor]:
        values, g = list(args[: len(given)]), list(args[len(given) :])
        with enable_grad():
            leaves = [v if v.requires_grad else tt.tensor(v, requires_grad=True) for v in (values[i] for i in places)]
            for i, leaf in zip(places, leaves):
                values[i] = leaf
            results = [o for o in _several(function(*values)) if o.dtype.kind == "f"]
            found = grad(results, leaves, g, create_graph=True, allow_unused=True)
        reached[:] = [f"(gradient of {names[i]})" for i, f in zip(places, found) if f is not None]
        return [f for f in found if f is not None]

    gradients(*given, *cotangents)
    incoming = ["g"] if len(cotangents) == 1 else [f"g {j}" for j in range(len(cotangents))]
    _check(gradients, [*given, *cotangents], (eps, atol, rtol), projections, seed, [*names, *incoming], reached)
    return True


def _several(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def _weighted(outputs: list[Tensor], weights: list[Tensor]) -> Tensor:
    total = tt.zeros((), dtype=tt.float64, device=weights[0].device if weights else None)
    for output, weight in zip(outputs, weights):
        total = total + (output * weight).sum()
    return total
