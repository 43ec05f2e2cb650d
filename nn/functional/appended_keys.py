"""Multi-head attention with keys and values that come from no input: learnt ones, and zeros."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .attention import attention, join_heads, split_heads, watch
from .dropout import Dropped
from .linear import linear
from .windows import pad


def multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    weight: Any,
    bias: Any,
    mask: Any,
    *,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    scale: float,
    dropout_p: float,
    need_weights: bool,
    attn_mask: Any,
) -> tuple[Tensor, Tensor | None]:
    """`attention.multi_head`, where the projected keys and values go on with one of `bias_k` and `bias_v`, both
    (1, 1, embed_dim), and one of zeros, each if it is asked for. Every query may attend to them, whatever the mask.

    Attending to the zeros returns nothing: a query that matches no key has somewhere to look.
    """
    q, k, v = (
        linear(x, w, b)
        for x, w, b in zip(
            (query, key, value),
            weight if isinstance(weight, tuple) else tt.split(weight, 3),
            (None, None, None) if bias is None else tt.split(bias, 3),
        )
    )
    one = (len(key), 1, k.shape[-1])
    if bias_k is not None and bias_v is not None:
        k, v = (tt.concat([x, tt.broadcast_to(last, one)], axis=1) for x, last in ((k, bias_k), (v, bias_v)))
    if add_zero_attn:
        k, v = (tt.concat([x, tt.zeros(one, dtype=x.dtype, device=x.device)], axis=1) for x in (k, v))
    if mask is not None:
        mask = tt.broadcast_to(mask, (*mask.shape[:-1], key.shape[1]))
        mask = pad(mask, (0, k.shape[1] - key.shape[1]))  # 0: added to a score, or not hidden
    shape = len(q), num_heads, q.shape[1], k.shape[1]
    dropped = Dropped.draw(dropout_p, shape, q.device) if dropout_p else None
    q, k, v = (split_heads(x, num_heads) for x in (q, k, v))
    if watch.see is not None:
        watch.see(q, k, v, mask, scale, attn_mask=attn_mask, dropout=dropped is not None, same=query is key)
    heads, weights = attention(q, k, v, mask, dropped, scale=scale)
    return join_heads(heads), weights if need_weights else None
