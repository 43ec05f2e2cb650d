"""The Parameter: a Tensor that a module owns and an optimiser changes."""

from __future__ import annotations

from typing import Any

from tinytensor import Tensor


class Parameter(Tensor):
    """A Tensor that becomes a parameter of a `Module` when it is assigned to one of its attributes.

    Args:
        data: the data for a `Tensor`; it is copied.
        requires_grad: whether `backward` collects its gradient.

    Raises TypeError for integers and booleans, which cannot require a gradient, unless `requires_grad` is False.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
