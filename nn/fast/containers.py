"""A chain of layers in which ReLU comes behind the pool: the largest of clipped numbers is the largest one, clipped.

That gives the same bits, result and derivatives, and there are fewer numbers to clip. Where somebody may see the
layers in between (hooks, recordings, textbook mode) they are called in their order.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tinytensor.modes import state

from ..activations import ReLU
from ..containers import Sequential
from ..module import Module
from ..pooling import MaxPool1d, MaxPool2d
from .plain import is_plain

in_order = Sequential.forward


@functools.wraps(in_order)
def forward(self: Sequential, input: Any) -> Any:
    if state.plain is None or state.recording is not None:
        return in_order(self, input)
    for module in pools_first(list(self._modules.values())):
        input = module(input)
    return input


def pools_first(modules: list[Any]) -> Iterator[Module]:
    """The modules, each pool in front of the ReLU that it follows."""
    i = 0
    while i < len(modules):
        if i + 1 < len(modules) and is_plain(modules[i], ReLU) and _is_pool(modules[i + 1]):
            yield modules[i + 1]
            yield modules[i]
            i += 2
        else:
            yield modules[i]
            i += 1


def _is_pool(module: Any) -> bool:
    """Whether it pools largest numbers, of which each window has one: apart, they may all be in what is put around."""
    is_known = is_plain(module, MaxPool1d, MaxPool2d)
    return is_known and module.dilation == 1 and not module.return_indices


Sequential.forward = forward  # type: ignore[method-assign]
