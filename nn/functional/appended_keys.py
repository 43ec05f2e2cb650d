"""Keys and values of attention that do not come from an input: learnt ones, and zeros."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .windows import pad


def append_keys(
    k: Tensor, v: Tensor, mask: Any, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool
) -> tuple[Tensor, Tensor, Any]:
    """Append `bias_k` and `bias_v`, both (1, 1, embed_dim), to keys and values (batch, source, embed_dim) if given, and
    zeros if asked for; and extend the mask, so that every query may attend to them.

    Attending to the zeros returns nothing: a query that matches no key has somewhere to look.
    """
    source, one = k.shape[1], (len(k), 1, k.shape[2])
    if bias_k is not None and bias_v is not None:
        k, v = (tt.concat([x, tt.broadcast_to(last, one)], axis=1) for x, last in ((k, bias_k), (v, bias_v)))
    if add_zero_attn:
        k, v = (tt.concat([x, tt.zeros(one, dtype=x.dtype, device=x.device)], axis=1) for x in (k, v))
    if mask is not None:
        mask = tt.broadcast_to(mask, (*mask.shape[:-1], source))
        mask = pad(mask, (0, k.shape[1] - source))  # 0: added to a score, or not hidden
    return k, v, mask
