"""Whether a module computes just what its class says: the question in front of every faster way in a module's place."""

from __future__ import annotations

from typing import Any

METHODS = {"forward", "step", "_sublayers", "_feed_forward", "attend", "project", "project_query", "heads"}
"""Methods that a module of one's own might have had replaced."""


def is_plain(module: Any, *kinds: Any) -> bool:
    """Whether a module is of these very classes, has no methods of its own, and nobody hooks into it."""
    return (
        type(module) in kinds
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and METHODS.isdisjoint(vars(module))
    )
