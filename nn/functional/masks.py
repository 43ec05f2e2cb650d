"""Masks hide positions from attention (Vaswani et al. 2017, section 3.2.3).

A boolean mask is True where attention is forbidden; a floating one is added to the scores, so that -inf forbids.
"""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .checks import beside


def causal_mask(target: int, source: int | None = None, *, device: str | None = None) -> Tensor:
    """(target, source) booleans that are True for sources in the future, which must stay hidden.

    For `attn_mask` of MultiheadAttention and for `masked_fill`. The booleans of `scaled_dot_product_attention` mean the
    opposite, as in PyTorch: pass it `is_causal=True`.

        >>> causal_mask(3).tolist()
        [[False, True, True], [False, False, True], [False, False, False]]
    """
    return tt.triu(tt.ones((target, target if source is None else source), dtype=tt.bool, device=device), k=1)


def sliding_window_mask(target: int, window: int, *, device: str | None = None) -> Tensor:
    """(target, target) booleans that are False for a position itself and the window - 1 before it, True elsewhere.

    Stacked layers look back further: n of them see n * (window - 1) positions back (Beltagy et al. 2020,
    section 3.1; Jiang et al. 2023).

        >>> sliding_window_mask(3, 2).tolist()
        [[False, True, True], [False, False, True], [True, False, False]]
    """
    if window < 1:
        raise ValueError(f"sliding_window_mask: window must be at least 1, got {window}")
    past = tt.tril(tt.ones((target, target), dtype=tt.bool, device=device), k=-window)
    return causal_mask(target, device=device) | past


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores with -inf where a boolean mask forbids, or with a floating mask added."""
    return tt.masked_fill(scores, mask, -math.inf) if mask.dtype.kind == "b" else scores + mask


def checked_mask(mask: Tensor, like: Tensor) -> Tensor:
    """The mask; a floating one in the dtype of `like`, the scores to add it to."""
    if mask.dtype.kind not in "bf":
        raise TypeError(f"attention masks must be boolean or floating, got {mask.dtype}")
    return mask if mask.dtype.kind == "b" else tt.astype(mask, like.dtype, copy=False)


def merge_masks(key_padding_mask: Any, attn_mask: Any, shape: tuple[int, int, int, int], like: Tensor) -> Any:
    """One mask that broadcasts to `shape` (batch, heads, target, source): boolean if both are, else floating."""
    batch, heads, target, source = shape
    masks = []
    if key_padding_mask is not None:
        mask = beside(key_padding_mask, like)
        if mask.shape != (batch, source):
            raise ValueError(f"key_padding_mask: expected (batch, source) = {(batch, source)}, got {mask.shape}")
        masks.append(checked_mask(tt.reshape(mask, (batch, 1, 1, source)), like))
    if attn_mask is not None:
        mask = beside(attn_mask, like)
        shapes: dict[tuple[int, ...], tuple[int, ...]] = {
            (target, source): (1, 1, target, source),
            (batch * heads, target, source): shape,
        }
        if mask.shape not in shapes and not (mask.ndim == 4 and all(n in (1, m) for n, m in zip(mask.shape, shape))):
            raise ValueError(
                f"attn_mask: expected (target, source) = {(target, source)} or (batch * heads, target, source) = "
                f"{(batch * heads, target, source)}, got {mask.shape}"
            )
        masks.append(checked_mask(tt.reshape(mask, shapes.get(mask.shape, mask.shape)), like))
    if len(masks) < 2:
        return masks[0] if masks else None
    if all(mask.dtype.kind == "b" for mask in masks):
        return masks[0] | masks[1]
    floats = [hide(tt.zeros(mask.shape, dtype=like.dtype, device=like.device), mask) for mask in masks]
    return floats[0] + floats[1]
