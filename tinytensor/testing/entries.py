"""The wrong entry of a Jacobian: the element of the result, the element of the input, and both numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..derivatives.gradients import grad
from ..tensor import Tensor

MOST = 400
"""The most elements of a result, and of an input, to look at: each costs a backward pass, or two forward passes."""


class WrongEntry(NamedTuple):
    """A wrong derivative of one element of a result with respect to one element of an input.

    Attributes:
        result, input: their names.
        place, element: the indices of the two elements; () for a number.
        gradient: the derivative by the gradient rules.
        difference: the derivative by differences.
    """

    result: str
    place: tuple[int, ...]
    input: str
    element: tuple[int, ...]
    gradient: float
    difference: float

    def __str__(self) -> str:
        return (
            f"d {_element(self.result, self.place)} / d {_element(self.input, self.element)} is "
            f"{self.gradient:.6g} by the gradient, {self.difference:.6g} by differences"
        )


def _element(name: str, place: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def find_wrong_entry(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    results_at: Callable[[int, Any], Sequence[Any]],
    names: Sequence[str],
    result_names: Sequence[str],
    eps: float,
    atol: float,
    rtol: float,
) -> WrongEntry | None:
    """The entry of the Jacobian that is furthest off; None where every entry that was looked at is right.

    Args:
        outputs: what was computed from the leaves, recorded.
        leaves: the inputs that are differentiated.
        results_at: given the number of a leaf and what to add to it, the outputs there, as NumPy arrays.
        names, result_names: the names of the leaves and of the outputs.
        eps, atol, rtol: as in `gradcheck`.
    """
    by_gradient = [_rows(output, leaves) for output in outputs]
    worst, found = 1.0, None
    for i, leaf in enumerate(leaves):
        for element in list(np.ndindex(leaf.shape))[:MOST]:
            step = np.zeros(leaf.shape)
            step[element] = eps
            columns = zip(results_at(i, step), results_at(i, -step))
            for j, (above, below) in enumerate(columns):
                differences = (above - below) / (2 * eps)
                for place, row in by_gradient[j].items():
                    a, b = float(row[i][element]), float(differences[place])
                    off = abs(a - b) / (atol + rtol * abs(b))
                    off = off if math.isfinite(off) else 0.0 if a == b or (a != a and b != b) else math.inf
                    if off > worst:
                        worst, found = off, WrongEntry(result_names[j], place, names[i], element, a, b)
    return found


def _rows(output: Tensor, leaves: Sequence[Tensor]) -> dict[tuple[int, ...], list[Any]]:
    """For elements of an output, the gradient with respect to each leaf."""
    rows = {}
    for place in list(np.ndindex(output.shape))[:MOST]:
        if output._node is None:
            found: Sequence[Tensor | None] = [None] * len(leaves)
        else:
            seed = np.zeros(output.shape)
            seed[place] = 1
            found = grad(output, leaves, seed, retain_graph=True, allow_unused=True)
        rows[place] = [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(found, leaves)]
    return rows
