"""Keys and values of attention that do not come from an input: learnt ones, and zeros."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .windows import pad


def append_keys(
    k: Tensor, v: Tensor, mask: Any, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool
) -> tuple[Tensor, Tensor, Any]:
    """Append `bias_k` and `bias_v`, (1, 1, embed_dim), to keys and values, (batch, heads, source, head_dim), and zeros
    if `add_zero_attn`. Extend the mask, so that every query may attend to them.

    Attending to the zeros returns nothing: a query that matches no key has somewhere to look.
    """
    batch, heads, source, head_dim = k.shape
    one = batch, heads, 1, head_dim
    if bias_k is not None and bias_v is not None:
        last = (tt.broadcast_to(tt.reshape(x, (1, heads, 1, head_dim)), one) for x in (bias_k, bias_v))
        k, v = (tt.concat([x, added], axis=2) for x, added in zip((k, v), last))
    if add_zero_attn:
        k, v = (tt.concat([x, tt.zeros(one, dtype=x.dtype, device=x.device)], axis=2) for x in (k, v))
    if mask is not None:
        mask = tt.broadcast_to(mask, (*mask.shape[:-1], source))
        mask = pad(mask, (0, k.shape[2] - source))  # 0: added to a score, or not hidden
    return k, v, mask
