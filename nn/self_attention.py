"""Self-attention as in models since 2017: fewer keys than queries, turned by their positions, normalised.

    MultiHead(x) = Concat(head_1, ..., head_h) W^O,   head_i = softmax(q_i k_jᵀ / √d + mask) v_j

    q_i = R(norm(x W_i^Q)),   k_j = R(norm(x W_j^K)),   v_j = x W_j^V,   j = ⌈i kv / h⌉

h query heads share kv heads of keys and values: grouped-query attention (Ainslie et al. 2023), for kv = 1 multi-query
attention (Shazeer 2019), for kv = h the paper's. R turns queries and keys by their positions (Su et al. 2021,
`F.rotate`), norm is QK-norm (Henry et al. 2020; Dehghani et al. 2023). Both are optional.
The mask decides what a position sees: `F.causal_mask`, `F.sliding_window_mask`, `F.alibi`.
"""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from .decoder_cache import LayerCache
from .layers import Linear, RMSNorm
from .module import Module

Rotation = tuple[Tensor, Tensor]


class SelfAttention(Module):
    """Attention of a sequence to itself; the formula is at the top of the file.

    Args:
        d_model: the size of the vectors.
        num_heads: the number of query heads.
        num_kv_heads: the number of heads of keys and values; divides num_heads; default: num_heads.
        head_dim: the size of a head; default d_model / num_heads.
        dropout: the probability of dropping an attention weight in training.
        bias: whether the projections add a bias.
        pairing: which elements `forward`'s rotation turns together, see `F.rotate`.
        qk_norm: eps of the RMS normalisation of each head's queries and keys; None: do not normalise.

    `in_proj` holds W^Q, W^K and W^V of all heads, one below the other.

    Raises ValueError if the numbers of heads do not divide.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        *,
        head_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        pairing: str = "half",
        qk_norm: float | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        kv = num_heads if num_kv_heads is None else num_kv_heads
        if min(num_heads, kv) < 1 or num_heads % kv:
            raise ValueError(
                f"SelfAttention: num_kv_heads must divide num_heads; got num_heads {num_heads}, num_kv_heads {kv}"
            )
        if head_dim is None and (d_model < 1 or d_model % num_heads):
            raise ValueError(
                f"SelfAttention: num_heads must divide d_model, or head_dim be given; got d_model {d_model}, "
                f"num_heads {num_heads}"
            )
        F.checks.check_probability("SelfAttention", dropout)
        F.relative_positions.check_pairing("SelfAttention", pairing)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.num_heads, self.num_kv_heads, self.dropout, self.pairing = num_heads, kv, dropout, pairing
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        self.scale = 1 / math.sqrt(self.head_dim)
        self.in_proj = Linear(d_model, (num_heads + 2 * kv) * self.head_dim, bias=bias, **factory)
        self.out_proj = Linear(num_heads * self.head_dim, d_model, bias=bias, **factory)
        self.q_norm = None if qk_norm is None else RMSNorm(self.head_dim, qk_norm, **factory)
        self.k_norm = None if qk_norm is None else RMSNorm(self.head_dim, qk_norm, **factory)

    @property
    def kv_size(self) -> int:
        """The size of a position's keys and values side by side in a cache."""
        return 2 * self.num_kv_heads * self.head_dim

    def forward(
        self, x: Tensor, mask: Any = None, rotation: Rotation | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        """Attend within x, (batch, length, d_model), and to earlier positions in a cache.

        Args:
            mask: broadcasts to (batch, heads, length, length); boolean, True where attention is forbidden, or float,
                added to the scores. With a cache, to (batch, heads, length, places), where places includes those of x.
            rotation: cos and sin of `F.rotary_angles`, which broadcast to (batch, heads, length, head_dim / 2).
            cache: keys and values of earlier positions, (batch, places, kv_size); those of x join it.
        """
        mask = None if mask is None else F.masks.checked_mask(F.checks.beside(mask, x), x)
        heads, _ = F.attention.attend_heads(  # head_i = Attention(q_i, k_j, v_j)
            *self.heads(x, rotation), mask, scale=self.scale,
            dropout_p=self.dropout if self.training else 0.0, cache=cache,
        )  # fmt: skip
        return self.out_proj(heads)  # Concat(head_1, ..., head_h) W^O

    def heads(self, x: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (batch, heads, length, head_dim), and keys and values (batch, kv heads, length, head_dim)."""
        counts = self.num_heads, self.num_kv_heads, self.num_kv_heads
        projected = tt.split(self.in_proj(x), [count * self.head_dim for count in counts], axis=-1)
        q, k, v = (F.attention.split_heads(part, count) for part, count in zip(projected, counts))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if rotation is not None:
            q, k = (F.rotate(part, *rotation, self.pairing) for part in (q, k))
        return q, k, v

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, head_dim={self.head_dim}"
