"""Whether a module computes just what its class says: the question in front of every faster way in a module's place."""

from __future__ import annotations

from typing import Any

OWN = {
    "forward", "step", "_sublayers", "_feed_forward", "attend", "project", "project_query", "heads", "weight", "bias",
    "in_proj_weight", "in_proj_bias",
}  # fmt: skip
"""Methods that a module might have had replaced, and parameters in whose place it might have been given a Tensor."""


def is_plain(module: Any, *kinds: Any) -> bool:
    """Whether a module is of these very classes, has nothing of its own in their place, and nobody hooks into it."""
    return (
        type(module) in kinds
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._buffers
        and OWN.isdisjoint(vars(module))
    )
