"""Scaled dot-product attention and its multi-head form (Vaswani et al. 2017, sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.messages import aligned
from tinytensor.modes import state

from .activations import _softmax
from .checks import beside, check_probability
from .dropout import Dropped
from .linear import linear
from .masks import causal_mask, checked_mask, hide, merge_masks
from .precision import lowered


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, dropped: Dropped | None = None, *, scale: float
) -> tuple[Any, Any]:
    """softmax(Q K^T * scale + mask) V, equation 1 of the paper, and the weights.

    Shapes: q (..., target, d_k), k (..., source, d_k), v (..., source, d_v), mask broadcasts to
    (..., target, source) -> (..., target, d_v) and (..., target, source).
    """
    if q.dtype == tt.float16:  # scores, and sums of exponentials, would end at 65504
        q, k, v = (tt.astype(x, tt.float32) for x in (q, k, v))
        z, kept = attention(q, k, v, mask, dropped, scale=scale)
        return tt.astype(z, tt.float16), tt.astype(kept, tt.float16)
    scores = tt.matmul(q, tt.matrix_transpose(k)) * scale  # (..., target, source)
    if mask is not None:
        scores = hide(scores, mask)
    weights = _softmax(scores, axis=scores.ndim - 1)  # each row adds up to 1
    kept = weights if dropped is None else dropped.apply(weights)
    z = tt.matmul(kept, v)  # (..., target, d_v)
    return z, kept


@tt.op
def _attention(query, key, value, mask, *, scale, causal, dropped):
    """softmax(Q K^T * scale + mask) V.

    ∂L/∂value = Aᵀ g, A being the weights
    ∂L/∂query = scale S K, S = A ⊙ (g Vᵀ − Σ A ⊙ g Vᵀ)
    ∂L/∂key = scale Sᵀ Q
    ∂L/∂mask = S
    """
    mask = causal_mask(query.shape[-2], key.shape[-2], device=query.device) if causal else mask
    return attention(query, key, value, mask, dropped, scale=scale)[0]


@lowered
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k) + mask) V (Vaswani et al. 2017, equation 1).

    Args:
        query, key, value: (..., target, d_k), (..., source, d_k) and (..., source, d_v).
        attn_mask: broadcasts to (..., target, source). Boolean: True takes part in attention (the opposite of
            MultiheadAttention, as in PyTorch). Float: added to the scores.
        dropout_p: the probability with which a weight is dropped. There is no training flag: pass 0 when evaluating.
        is_causal: position i of the target sees the source up to i only.
        scale: default 1 / sqrt(d_k).

    Raises ValueError where shapes do not fit, also for a single vector: `query[None]` is a sequence of length 1.
    Returns (..., target, d_v). A query that may attend to nothing gives zeros with zero gradients. Long sequences go in
    blocks (see `nn/fast/attention_blocks.py`), in memory that is linear in target and source unless `attn_mask` wants a
    gradient.
    """
    check_probability("scaled_dot_product_attention", dropout_p)
    mask = None if attn_mask is None else checked_mask(beside(attn_mask, query), query)
    if mask is not None:
        mask = ~mask if mask.dtype.kind == "b" else mask
        if is_causal:
            raise ValueError("scaled_dot_product_attention: give either attn_mask or is_causal=True, not both")
    batch = _check_shapes(query, key, value, mask)
    query, key, value = (_with_batch(x, batch or (1,)) for x in (query, key, value))
    shape = *query.shape[:-1], key.shape[-2]
    dropped = Dropped.draw(dropout_p, shape, query.device) if dropout_p else None
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if is_causal and state.observer is not None:  # a picture shows the mask
        mask, is_causal = causal_mask(query.shape[-2], key.shape[-2], device=query.device), False
    out = _attention(query, key, value, mask, scale=scale, causal=is_causal, dropped=dropped)
    return out if batch else tt.squeeze(out, 0)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[int, ...]:
    """The dimensions before the last two, broadcast. Raises ValueError if shapes do not fit."""
    mask_shape = (1, 1) if mask is None else mask.shape
    if min(query.ndim, key.ndim) < 2 or query.shape[-1] != key.shape[-1] or key.shape[-2:-1] != value.shape[-2:-1]:
        raise _misfit(query.shape, key.shape, value.shape)
    try:
        tt.broadcast_shapes(mask_shape[-2:], (query.shape[-2], key.shape[-2]))
        return tt.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2], mask_shape[:-2])
    except ValueError:
        raise ValueError(
            f"scaled_dot_product_attention: query {query.shape}, key {key.shape} and value {value.shape} must agree in "
            f"what stands before their last two dimensions, and attn_mask {None if mask is None else mask.shape} must "
            f"broadcast to (..., {query.shape[-2]}, {key.shape[-2]})"
        ) from None


def _misfit(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> ValueError:
    """That features of query and key, or lengths of key and value, differ: with the shapes axis by axis."""
    if min(len(query), len(key), len(value)) < 2:
        return ValueError(
            f"scaled_dot_product_attention: query {query}, key {key} and value {value} must have 2 dimensions or more "
            "each, (..., length, features); a single vector x is a sequence of length 1: write x[None], and [0] behind "
            "the result"
        )
    features, lengths = query[-1] != key[-1], key[-2] != value[-2]

    def misfits(operand: int, axis: int) -> bool:
        return (features and axis == -1 and operand < 2) or (lengths and axis == -2 and operand > 0)

    return ValueError(
        f"scaled_dot_product_attention: query {query} and key {key} must agree in their last dimension, key and value "
        f"{value} in the one before it\n{aligned({'query': query, 'key': key, 'value': value}, misfits)}"
    )


def _with_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    return x if x.shape[:-2] == batch else tt.broadcast_to(x, (*batch, *x.shape[-2:]))


# ---- several heads


@may_be_faster
def multi_head(
    query: Tensor, key: Tensor, value: Tensor, num_heads: int, weight: Any, bias: Any, mask: Any, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Concat(head_1, ..., head_h) with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), and the weights.

    Args:
        query, key, value: (batch, target, embed_dim), (batch, source, kdim) and (batch, source, vdim).
        weight: W^Q, W^K and W^V one under the other, (3 * embed_dim, embed_dim), or a tuple of the three.
        bias: (3 * embed_dim,) or None.
        mask, options: for `attend_heads`.

    Returns (batch, target, embed_dim), and (batch, heads, target, source) or, unless they are needed, None.
    """
    weights_of = weight if isinstance(weight, tuple) else tt.split(weight, 3)
    biases = (None, None, None) if bias is None else tt.split(bias, 3)
    projections = zip((query, key, value), weights_of, biases)
    q, k, v = (split_heads(linear(x, w, b), num_heads) for x, w, b in projections)  # (batch, heads, length, head_dim)
    return attend_heads(q, k, v, mask, **options)


@lowered
def attend_heads(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, *, scale: float, dropout_p: float, need_weights: bool = False,
    cache: Any = None, more: Any = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Concat(head_1, ..., head_h) with head_i = Attention(q_i, k_j, v_j), and the weights.

    Args:
        q, k, v: projected heads, (batch, heads, target, head_dim), and twice (batch, kv_heads, source, head_dim). With
            fewer heads of keys, neighbouring queries share one, j = ⌈i kv_heads / heads⌉ (Ainslie et al. 2023).
        mask: broadcasts to (batch, heads, target, source); boolean (True: not allowed) or added to the scores.
        scale, dropout_p: the factor of the scores, in the paper 1 / sqrt(d_k); the probability of dropping a weight.
        need_weights: whether to return the weights.
        cache: a `LayerCache` with keys and values of earlier positions, to which it adds k and v; or None. The source
            includes both.
        more: a function of k, v and mask that returns them with further keys; or None.

    Returns (batch, target, heads * head_dim), and (batch, heads, target, source) or None.
    """
    k, v = (k, v) if cache is None else cache.append(k, v)
    k, v, mask = (k, v, mask) if more is None else more(k, v, mask)
    if (shared := q.shape[1] // k.shape[1]) > 1:
        k, v = (tt.repeat(x, shared, axis=1) for x in (k, v))
    dropped = Dropped.draw(dropout_p, (*q.shape[:3], k.shape[2]), q.device) if dropout_p else None
    heads, weights = (  # (batch, heads, target, head_dim); the op computes the same without keeping the weights
        attention(q, k, v, mask, dropped, scale=scale)
        if need_weights
        else (_attention(q, k, v, mask, scale=scale, causal=False, dropped=dropped), None)
    )
    return join_heads(heads), weights


@tt.op
def _multi_head(query, memory, mask, *, num_heads, scale, dropped):
    """Concat(head_1, ..., head_h) with head_i = attention of the i-th slices of Q, K and V.

    ∂L/∂query = (scale S K, scale Sᵀ Q, Aᵀ g) for Q, K and V, S = A ⊙ (g Vᵀ − Σ A ⊙ g Vᵀ), A being the weights
    ∂L/∂memory = as that of K and V
    ∂L/∂mask = S
    """
    parts = tt.split(query, 3, axis=-1) if memory is None else (query, *tt.split(memory, 2, axis=-1))
    q, k, v = (split_heads(x, num_heads) for x in parts)
    return join_heads(attention(q, k, v, mask, dropped, scale=scale)[0])


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(batch, length, embed_dim) as (batch, heads, length, head_dim)."""
    batch, length, embed_dim = x.shape
    return tt.permute_dims(tt.reshape(x, (batch, length, num_heads, embed_dim // num_heads)), (0, 2, 1, 3))


def join_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, head_dim) as (batch, length, embed_dim): Concat of the heads."""
    batch, num_heads, length, head_dim = x.shape
    return tt.reshape(tt.permute_dims(x, (0, 2, 1, 3)), (batch, length, num_heads * head_dim))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Vaswani et al. 2017, section 3.2.2).

    Args:
        query, key, value: (batch, target, embed_dim), (batch, source, kdim) and (batch, source, vdim).
        in_proj_weight: W^Q, W^K and W^V one under the other, (3 * embed_dim, embed_dim), or a tuple of the three.
        in_proj_bias: (3 * embed_dim,) or None.
        key_padding_mask: (batch, source); boolean, True for positions to ignore, or float, added to the scores.
        attn_mask: (target, source) or (batch * heads, target, source); likewise.
        need_weights, average_attn_weights: whether to return the weights, and their mean over heads.

    Returns the result (batch, target, embed_dim), and the weights, (batch, target, source) or
    (batch, heads, target, source), or None.
    """
    mask = merge_masks(key_padding_mask, attn_mask, (len(query), num_heads, query.shape[1], key.shape[1]), query)
    heads, weights = multi_head(
        query, key, value, num_heads, in_proj_weight, in_proj_bias, mask,
        scale=1 / math.sqrt(query.shape[-1] // num_heads), dropout_p=dropout_p if training else 0.0,
        need_weights=need_weights,
    )  # fmt: skip
    out = linear(heads, out_proj_weight, out_proj_bias)
    return out, tt.mean(weights, axis=1) if weights is not None and average_attn_weights else weights
