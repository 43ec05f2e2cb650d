"""The Parameter: a Tensor that a module owns and an optimiser changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
        if here.skips and isinstance(data, Tensor):
            self._data, self._node = data._data, None
            self.requires_grad = requires_grad
        else:
            super().__init__(data, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class _Here(threading.local):
    skips = False


here = _Here()


@contextmanager
def skipped() -> Iterator[None]:
    """Within it, this thread draws no initial values: for a module whose parameters all come from a file.

    Their memory is neither filled nor copied, so that it costs nothing until values come, and no random number is used.
    """
    former, here.skips = here.skips, True
    try:
        yield
    finally:
        here.skips = former
