"""Multi-head attention as a layer."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .decoder_cache import FIRST, LayerCache
from .functional.appended_keys import append_keys
from .layers import Linear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Vaswani et al. 2017, section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), where the projections of all heads are kept in one matrix.

    Args:
        embed_dim: the size of queries and results; `num_heads` divides it.
        num_heads: how many heads share it.
        dropout: the probability with which an attention weight is dropped in training.
        bias: if True, the projections add a bias.
        add_bias_kv: if True, append a learnt key and a learnt value.
        add_zero_attn: if True, append zeros to the keys and values.
        kdim, vdim: the sizes of keys and values; default `embed_dim`.
        batch_first: sequences are (batch, length, features) if True, else (length, batch, features).
        scale: what the scores are multiplied by; default 1 / sqrt(embed_dim / num_heads), section 3.2.1. PyTorch has no
            such argument.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: DType = None,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: num_heads must divide embed_dim; got embed_dim {embed_dim}, num_heads {num_heads}"
            )
        F.checks.check_probability("MultiheadAttention", dropout)
        F.checks.check_scale("MultiheadAttention", scale)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.scale = 1 / math.sqrt(self.head_dim) if scale is None else float(scale)
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.has_own_keys = add_bias_kv or add_zero_attn

        def empty(*shape: int) -> Parameter:
            return Parameter(tt.empty(shape, dtype=dtype, device=device))

        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = empty(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = empty(embed_dim, embed_dim)
            self.k_proj_weight = empty(embed_dim, self.kdim)
            self.v_proj_weight = empty(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = empty(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, empty(1, 1, embed_dim) if add_bias_kv else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform distribution for the projections, zeros for the biases."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for last in (self.bias_k, self.bias_v):
            if last is not None:
                init.xavier_normal_(last)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
        *, cache: LayerCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attend from `query` to `key` and `value`.

        Args:
            query: (target, batch, embed_dim), or (batch, target, embed_dim) with `batch_first`; or unbatched.
            key, value: likewise, with their own length and sizes.
            key_padding_mask: (batch, source); boolean, True for keys to ignore, or float, added to the scores.
            need_weights: whether to return the attention weights; without them it is faster.
            attn_mask: (target, source), (batch * heads, target, source), or 4 axes that broadcast to (batch, heads,
                target, source); boolean, True where attention is not allowed, or float, added to the scores.
            average_attn_weights: return the mean of the weights over heads instead of each head's.
            is_causal: says that `attn_mask` is causal; without `attn_mask` an error, as in PyTorch.
            cache: from `empty_cache`; keys and values of earlier calls, to which it adds this call's. The source of the
                masks includes both.

        Returns the result, in the query's layout, and the weights, (batch, target, source) or
        (batch, heads, target, source), or None.
        """
        self._check(query, key, value, is_causal and attn_mask is None)
        q = self._batch_first(query)
        k = q if key is query else self._batch_first(key)  # one Tensor stays one, and is projected once
        v = k if value is key else self._batch_first(value)
        shape = len(q), self.num_heads, q.shape[1], k.shape[1] + (0 if cache is None else cache.places)
        padding = key_padding_mask if query.ndim == 3 else self._mask_of_one(key_padding_mask, key)
        separate = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight  # None, unless their sizes differ
        heads, weights = F.attention.multi_head(  # head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
            q, k, v, self.num_heads,
            separate if self.in_proj_weight is None else self.in_proj_weight, self.in_proj_bias,
            F.attention.merge_masks(padding, attn_mask, shape, q), scale=self.scale,
            dropout_p=self.dropout if self.training else 0.0, need_weights=need_weights, cache=cache,
            more=self._append_keys if self.has_own_keys else None,
        )  # fmt: skip
        if weights is not None and average_attn_weights:
            weights = tt.mean(weights, axis=1)
        if weights is not None and query.ndim == 2:
            weights = tt.squeeze(weights, 0)
        out = self.out_proj(heads)  # Concat(head_1, ..., head_h) W^O
        return tt.squeeze(out, 0) if query.ndim == 2 else self._batch_first(out), weights

    def empty_cache(self, like: Tensor, *, spare: int = FIRST) -> LayerCache:
        """Return an empty cache for `forward`, of the batch, dtype and device of `like`, a batched input.

        It grows by `spare` positions at least.
        """
        shape = like.shape[0 if self.batch_first else 1], 0, 2 * self.embed_dim
        return LayerCache(tt.empty(shape, dtype=like.dtype, device=like.device), spare=spare)

    def _append_keys(self, k: Tensor, v: Tensor, mask: Any) -> tuple[Tensor, Tensor, Any]:
        return append_keys(k, v, mask, self.bias_k, self.bias_v, self.add_zero_attn)

    def _mask_of_one(self, key_padding_mask: Any, key: Tensor) -> Tensor | None:
        """The key padding mask (source,) of sequences without a batch, as (1, source); None if absent."""
        if key_padding_mask is None:
            return None
        mask = F.checks.beside(key_padding_mask, key)
        if mask.shape != key.shape[:1]:
            raise ValueError(
                f"key_padding_mask: expected (source,) = {key.shape[:1]} without a batch, got {mask.shape}"
            )
        return tt.expand_dims(mask, axis=0)

    def _batch_first(self, x: Tensor) -> Tensor:
        """An input as (batch, length, features), or such a batch in the layout of the inputs."""
        if x.ndim == 2:
            return tt.expand_dims(x, axis=0)
        return x if self.batch_first else tt.permute_dims(x, (1, 0, 2))

    def _check(self, query: Tensor, key: Tensor, value: Tensor, lacks_mask: bool) -> None:
        """Raise ValueError unless the shapes fit, and attn_mask is given where is_causal says that it is causal."""
        if lacks_mask:
            raise ValueError("MultiheadAttention: is_causal=True needs the causal attn_mask as well")
        inputs = {"query": query, "key": key, "value": value}
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise ValueError(
                "MultiheadAttention: query, key and value must have 3 dimensions each (2 without a batch), "
                f"got {query.shape}, {key.shape} and {value.shape}"
            )
        for (name, x), size in zip(inputs.items(), (self.embed_dim, self.kdim, self.vdim)):
            if x.shape[-1] != size or x.dtype.kind not in "fc":
                raise self._misfit(name, x, size)
        batch = 0 if self.batch_first else 1
        if key.shape[:-1] != value.shape[:-1] or (query.ndim == 3 and key.shape[batch] != query.shape[batch]):
            raise ValueError(
                f"MultiheadAttention: batches and lengths differ: query {query.shape}, key {key.shape}, "
                f"value {value.shape} as {self._layout(query)}"
            )

    def _misfit(self, name: str, x: Tensor, size: int) -> Exception:
        if x.dtype.kind not in "fc":
            return TypeError(
                f"MultiheadAttention: expected floats, got {name} {x.shape} of {x.dtype}; write x.float(), or look ids "
                "up in an nn.Embedding"
            )
        return ValueError(f"MultiheadAttention: {name} {x.shape} must end in {size}, as {self._layout(x)}")

    def _layout(self, x: Tensor) -> str:
        """How the user's sequences are laid out, for errors."""
        if x.ndim == 2:
            return "(length, features)"
        return "(batch, length, features)" if self.batch_first else "(length, batch, features)"
