"""A layer of the language models since GPT-2 (Radford et al. 2019).

    x = x + SelfAttention(norm(x))
    x = x + FeedForward(norm(x))

Each sub-layer gets its input normalised (Xiong et al. 2020), and its result is added to the input.
"""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable

from .decoder_cache import LayerCache
from .feed_forward import FeedForward
from .layers import Dropout
from .module import Module
from .self_attention import Rotation, SelfAttention
from .transformer import Sublayer, through


class AttendToItself(namedtuple("AttendToItself", "attention mask rotation cache"), metaclass=Replaceable):
    """f(x) = MultiHead(x): x attends to itself and to earlier positions in a cache."""

    def __call__(self, x: Tensor) -> Tensor:
        return self.attention(x, self.mask, self.rotation, self.cache)


@may_be_faster
def through_layers(
    layers: Iterable[Layer], x: Tensor, mask: Any, rotation: Rotation | None, caches: Sequence[LayerCache] = ()
) -> Tensor:
    """Pass x through layers, one after the other, each with its own cache if there are any."""
    for layer, cache in itertools.zip_longest(layers, caches):
        x = layer(x, mask, rotation, cache)
    return x


class Layer(Module):
    """Self-attention, then a feed-forward network, each on the normalised input and added to the input.

    Args:
        self_attn, feed_forward: the sub-layers.
        norms: a normalisation for each.
        p: the probability of dropping an element of a sub-layer's result in training.
    """

    def __init__(self, self_attn: SelfAttention, feed_forward: FeedForward, norms: list[Module], p: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = norms
        self.self_attn, self.feed_forward, self.dropout = self_attn, feed_forward, Dropout(p)

    def forward(self, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Tensor:
        """From and to (batch, length, d_model); mask, rotation and cache as for `SelfAttention`."""
        return through(x, self.sublayers(AttendToItself(self.self_attn, mask, rotation, cache)))

    def sublayers(self, attend: AttendToItself) -> list[Sublayer]:
        """The sub-layers in order."""
        return [
            Sublayer(attend, self.dropout, self.norm1, norm_first=True),
            Sublayer(self.feed_forward, self.dropout, self.norm2, norm_first=True),
        ]
