"""A layer of the language models since GPT-2 (Radford et al. 2019).

    x = x + SelfAttention(norm(x))
    x = x + FeedForward(norm(x))

Each sub-layer is given what is normalised (Xiong et al. 2020), and its result is added to what came in.
"""

from __future__ import annotations

from typing import Any

from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster

from .decoder_cache import LayerCache
from .feed_forward import FeedForward
from .layers import Dropout
from .module import Module
from .self_attention import Rotation, SelfAttention


class Layer(Module):
    """Self-attention, then a feed-forward network, each normalised before and added to what comes in.

    Args:
        self_attn, feed_forward: the sub-layers.
        norms: what normalises for each.
        p: the probability with which an element of a sub-layer's result is dropped in training.
    """

    def __init__(self, self_attn: SelfAttention, feed_forward: FeedForward, norms: list[Module], p: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = norms
        self.self_attn, self.feed_forward, self.dropout = self_attn, feed_forward, Dropout(p)

    @may_be_faster
    def forward(self, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Tensor:
        """(batch, length, d_model) of both; mask, rotation and cache as for `SelfAttention`."""
        x = x + self.dropout(self.self_attn(self.norm1(x), mask, rotation, cache))
        return x + self.dropout(self.feed_forward(self.norm2(x)))
