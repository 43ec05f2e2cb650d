"""A module is plain if it computes just what its class says: every faster way in a module's place asks that first."""

from __future__ import annotations

import functools
from typing import Any

from ..decoder_cache import LayerCache

PARAMETERS = {"weight", "bias", "in_proj_weight", "in_proj_bias"}
"""In whose place a module might have been given a Tensor."""


@functools.cache
def own_names(kind: Any) -> frozenset[str]:
    """Names that no instance has for itself unless somebody put something there: methods of its class, parameters."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)) and name != "__class__") | PARAMETERS


def is_plain(module: Any, *kinds: Any) -> bool:
    """True if a module is of these very classes, has nothing of its own in their place, and nobody hooks into it."""
    kind: Any = type(module)
    return (
        kind in kinds
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._buffers
        and own_names(kind).isdisjoint(vars(module))
    )


def is_usual(cache: Any) -> bool:
    """True if a cache is of this very class and no method is replaced on the instance."""
    return type(cache) is LayerCache and vars(cache).keys().isdisjoint(("append", "append_joined", "grow"))
