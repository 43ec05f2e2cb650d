"""Scaled dot-product attention and its multi-head form (Vaswani et al. 2017, sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_device
from tinytensor.messages import aligned

from ..fast.activations import SAFE, softmax_gradient_in_place, softmax_rows
from ..fast.dropout import drop_into
from . import attention_blocks as blocks
from .activations import _softmax
from .checks import beside, check_probability
from .linear import linear
from .precision import lowered

WORK = 12  # element-wise operations for each attention weight, the products included


class Watch(threading.local):
    """Who is shown every call of attention in this thread: `see` of an `nn.record_attention()` that is on, or None."""

    see: Callable[..., None] | None = None


watch = Watch()


def attention_formula(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    keep: Any,
    scale: float,
    keep_scale: float,
    causal: bool = False,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """softmax(Q K^T * scale + mask) V, equation 1 of the paper; returns the result and the weights.

    `mask` is boolean (True: not allowed) or is added to the scores; `keep` is the dropout mask of the weights, or
    `seed` stands for one.
    """
    scores = tt.matmul(query, tt.matrix_transpose(key)) * scale
    if causal:
        scores = tt.masked_fill(scores, causal_mask(*scores.shape[-2:], device=scores.device), -math.inf)
    if mask is not None:
        scores = tt.masked_fill(scores, mask, -math.inf) if mask.dtype.kind == "b" else scores + mask
    weights = _softmax(scores, axis=scores.ndim - 1)
    if seed is not None:
        keep = tt.asarray(blocks.keep_mask(for_device(weights.device), seed, weights.shape, keep_scale))
    if keep is not None:
        weights = weights * keep * keep_scale
    return tt.matmul(weights, value), weights


def _attend(xp: Any, given: blocks.Attention, keep: Any, out: Any) -> tuple[Any, ...]:
    """Attention on raw arrays, into `out`; returns what `_attend_back` needs, None for what it does not.

    That is the mask, the result and the logarithm of what the weights were divided by, where attention went in blocks;
    else the dropout mask, the weights, and the weights after dropout.
    """
    if given.is_long(xp):
        return given.mask, out, blocks.attend(xp, given, out), None, None, None
    return None, None, None, keep, *_attend_at_once(xp, given, keep, out)


def _attend_at_once(xp: Any, given: blocks.Attention, keep: Any, out: Any) -> tuple[Any, Any]:
    q, k, v = given.query, given.key, given.value
    narrow = q.dtype.itemsize < 4  # the weights are computed in 32 bits then, from scores scaled before they overflow
    weights = xp.empty((*out.shape[:-1], k.shape[-2]), dtype=tt.float32 if narrow else q.dtype)
    kept = weights if keep is None and not narrow else xp.empty(weights.shape, dtype=q.dtype)
    may_stay = not narrow and (given.mask is None or given.mask.dtype.kind == "b")
    added = given.mask
    if added is not None and added.dtype.kind == "b":
        added = xp.where(added, q.dtype.type(-math.inf), q.dtype.type(0))

    def part(i: slice) -> None:
        scores = weights[i]
        if narrow:
            scores[...] = xp.matmul(q[i] * given.scale, xp.matrix_transpose(k[i]))
        else:
            xp.matmul(q[i], xp.matrix_transpose(k[i]), out=scores)
            scores *= given.scale
        shift = not (may_stay and xp.within(scores, SAFE))
        if added is not None:
            scores += _at(added, i, scores.ndim)
        softmax_rows(xp, scores, shift)
        if narrow:
            kept[i] = scores if keep is None else scores * _at(keep, i, scores.ndim) * given.keep_scale
        elif keep is not None:
            drop_into(xp, scores, _at(keep, i, scores.ndim), given.keep_scale, kept[i])
        xp.matmul(kept[i], v[i], out=out[i])

    xp.in_parts(part, len(weights), weights.size * WORK)
    return weights, kept


def _attend_back(
    xp: Any, g: Any, given: blocks.Attention, saved: Any, outs: tuple[Any, Any, Any], for_mask: bool
) -> Any:
    """Write the gradients of `_attend` for q, k and v into `outs`; returns that of the mask where it is asked for."""
    q, k, v = given.query, given.key, given.value
    mask, out, log_total, keep, weights, kept = saved
    if weights is None:
        given = given._replace(mask=mask)
        if not for_mask:
            return blocks.attend_back(xp, g, given, out, log_total, outs)
        # The gradient of a mask is as large as the weights, so nothing is gained by blocks.
        shape = (*q.shape[:-1], k.shape[-2])
        keep = None if given.seed is None else blocks.keep_mask(xp, given.seed, shape, given.keep_scale)
        weights, kept = _attend_at_once(xp, given, keep, xp.empty(out.shape, dtype=out.dtype))
    g_q, g_k, g_v = outs
    g_scores = xp.empty_like(weights)
    narrow = q.dtype.itemsize < 4

    def part(i: slice) -> None:
        xp.matmul(xp.matrix_transpose(kept[i]), g[i], out=g_v[i])
        g_weights = g_scores[i]
        if narrow:
            g_weights[...] = xp.matmul(g[i], xp.matrix_transpose(v[i]))
        else:
            xp.matmul(g[i], xp.matrix_transpose(v[i]), out=g_weights)
        if keep is not None:
            drop_into(xp, g_weights, _at(keep, i, g_weights.ndim), given.keep_scale, g_weights)
        softmax_gradient_in_place(xp, g_weights, weights[i])
        scaled = xp.astype(g_weights * given.scale, q.dtype)
        xp.matmul(scaled, k[i], out=g_q[i])
        xp.matmul(xp.matrix_transpose(scaled), q[i], out=g_k[i])

    xp.in_parts(part, len(weights), weights.size * WORK)
    return g_scores if for_mask else None


def _at(x: Any, i: slice, ndim: int) -> Any:
    """The part of a mask for some of the batch; all of it where the mask has no batch dimension of its own."""
    return x if x.ndim < ndim or x.shape[0] == 1 else x[i]


# ---- the function on separate query, key and value


@tt.op
def _attention(query, key, value, mask, keep, *, scale, keep_scale, causal=False, seed=None):
    """softmax(Q K^T * scale + mask) V."""
    return attention_formula(query, key, value, mask, keep, scale, keep_scale, causal, seed)[0]


@_attention.forward
def _(xp, query, key, value, mask, keep, *, scale, keep_scale, causal=False, seed=None):
    given = blocks.Attention(query, key, value, mask, causal, scale, keep_scale, seed)
    out = xp.empty((*query.shape[:-1], value.shape[-1]), dtype=query.dtype)
    return out, (query, key, value, *_attend(xp, given, keep, out))


@_attention.backward
def _(xp, g, residuals, needs, *, scale, keep_scale, causal=False, seed=None):
    query, key, value, *saved = residuals
    given = blocks.Attention(query, key, value, None, causal, scale, keep_scale, seed)
    outs = tuple(xp.empty(x.shape, dtype=x.dtype) for x in (query, key, value))
    g_mask = _attend_back(xp, g, given, saved, outs, needs[3])
    return (*outs, g_mask, None)


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

    Returns (..., target, d_v). A query that may attend to nothing gives zeros with zero gradients. Long sequences go in
    blocks (see `attention_blocks`), in memory that is linear in target and source unless `attn_mask` wants a gradient.
    """
    check_probability("scaled_dot_product_attention", dropout_p)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"scaled_dot_product_attention: query {query.shape} and key {key.shape} must agree in their last "
            f"dimension, key and value {value.shape} in the one before it\n"
            + _aligned(query.shape, key.shape, value.shape)
        )
    mask = None if attn_mask is None else beside(attn_mask, query)
    if mask is not None:
        _check_mask(mask)
        mask = ~mask if mask.dtype.kind == "b" else mask
        if is_causal:
            raise ValueError("scaled_dot_product_attention: give either attn_mask or is_causal=True, not both")
    mask_shape = (1, 1) if mask is None else mask.shape
    try:
        batch = tt.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2], mask_shape[:-2])
        tt.broadcast_shapes(mask_shape[-2:], (query.shape[-2], key.shape[-2]))
    except ValueError:
        raise ValueError(
            f"scaled_dot_product_attention: query {query.shape}, key {key.shape} and value {value.shape} must agree in "
            f"what stands before their last two dimensions, and attn_mask {None if mask is None else mask.shape} must "
            f"broadcast to (..., {query.shape[-2]}, {key.shape[-2]})"
        ) from None
    query, key, value = (_with_batch(x, batch or (1,)) for x in (query, key, value))
    keep, options = _draw((*query.shape[:-1], key.shape[-2]), dropout_p, query.device)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    in_blocks = is_causal and blocks.is_long(query.shape[-2], key.shape[-2], query.device)
    if is_causal and (not in_blocks or watch.see is not None):
        mask = causal_mask(query.shape[-2], key.shape[-2], device=query.device)
    if watch.see is not None:
        watch.see((query, key, value), None, mask, scale, attn_mask=mask, dropout=dropout_p > 0, same=None)
    if in_blocks:
        mask, options["causal"] = None, True
    out = _attention(query, key, value, mask, keep, scale=scale, **options)
    return out if batch else tt.squeeze(out, 0)


def _aligned(query: Any, key: Any, value: Any) -> str:
    """The shapes axis by axis; in brackets the features of query and key, or the lengths of key and value."""
    features, lengths = query[-1] != key[-1], key[-2] != value[-2]

    def misfits(operand: int, axis: int) -> bool:
        return (features and axis == -1 and operand < 2) or (lengths and axis == -2 and operand > 0)

    return aligned({"query": query, "key": key, "value": value}, misfits)


def _with_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    return x if x.shape[:-2] == batch else tt.broadcast_to(x, (*batch, *x.shape[-2:]))


def causal_mask(target: int, source: int | None = None, *, device: str | None = None) -> Tensor:
    """(target, source) booleans that are True where the source lies in the future: what must not be seen.

    For `attn_mask` of MultiheadAttention and for `masked_fill`. `scaled_dot_product_attention` means the opposite by
    its booleans, as in PyTorch: pass it `is_causal=True`.
    """
    return tt.triu(tt.ones((target, target if source is None else source), dtype=tt.bool, device=device), k=1)


def _draw(shape: tuple[int, ...], p: float, device: str) -> tuple[Tensor | None, dict[str, Any]]:
    """The dropout mask of weights of a shape, and the options that tell of it: of long sequences, only a seed."""
    if p == 0:
        return None, {"keep_scale": 1.0}
    options: dict[str, Any] = {"keep_scale": 1 / (1 - p) if p < 1 else 0.0}
    if blocks.is_long(shape[-2], shape[-1], device):
        return None, {**options, "seed": int(tt.random.integers(2**62).item())}
    return tt.random.bernoulli(1 - p, shape, device=device), options


# ---- all heads at once, on projections as they come out of one matrix product


@tt.op
def _multi_head(first, second, third, mask, keep, *, num_heads, scale, keep_scale, seed=None):
    """Concat(head_1, ..., head_h) with head_i = attention of the i-th slices of Q, K and V.

    The inputs hold Q, K and V side by side in their last dimension: all in the first, Q and then K with V, or one each.
    """
    return multi_head_formula((first, second, third), mask, keep, num_heads, scale, keep_scale, seed)[0]


def multi_head_formula(
    projections: tuple[Any, Any, Any],
    mask: Any,
    keep: Any,
    num_heads: int,
    scale: float,
    keep_scale: float,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """What `_multi_head` computes, (batch, target, embed_dim), and the weights, (batch, heads, target, source)."""
    projected = [p for p in projections if p is not None]
    embed_dim = sum(p.shape[-1] for p in projected) // 3
    parts = [part for p in projected for part in tt.split(p, p.shape[-1] // embed_dim, axis=-1)]
    query, key, value = (_heads(tt, part, num_heads) for part in parts)
    out, weights = attention_formula(query, key, value, mask, keep, scale, keep_scale, seed=seed)
    return tt.reshape(tt.permute_dims(out, (0, 2, 1, 3)), (*projected[0].shape[:-1], embed_dim)), weights


def _heads(xp: Any, x: Any, num_heads: int) -> Any:
    """(batch, length, embed_dim) seen as (batch, heads, length, head_dim)."""
    batch, length, embed_dim = x.shape
    return xp.permute_dims(xp.reshape(x, (batch, length, num_heads, embed_dim // num_heads)), (0, 2, 1, 3))


def head_views(xp: Any, projected: tuple[Any, ...], num_heads: int) -> list[Any]:
    """Views (batch, heads, length, head_dim) of the queries, keys and values inside the projections."""
    views = []
    present = [p for p in projected if p is not None]
    embed_dim = sum(p.shape[-1] for p in present) // 3
    for p in present:
        batch, length, width = p.shape
        split = xp.reshape(p, (batch, length, width // embed_dim, num_heads, embed_dim // num_heads))
        views += [xp.permute_dims(split[:, :, i], (0, 2, 1, 3)) for i in range(width // embed_dim)]
    return views


@_multi_head.forward
def _(xp, first, second, third, mask, keep, *, num_heads, scale, keep_scale, seed=None):
    projected = tuple(p if p is None or p.strides[-1] == p.itemsize else xp.copy(p) for p in (first, second, third))
    given = blocks.Attention(*head_views(xp, projected, num_heads), mask, False, scale, keep_scale, seed)
    batch, heads, target, head_dim = given.query.shape
    out = xp.empty((batch, target, heads, head_dim), dtype=given.query.dtype)
    by_head = xp.permute_dims(out, (0, 2, 1, 3))
    saved = _attend(xp, given, keep, by_head)
    return xp.reshape(out, (batch, target, heads * head_dim)), (projected, *saved)


@_multi_head.backward
def _(xp, g, residuals, needs, *, num_heads, scale, keep_scale, seed=None):
    projected, *saved = residuals
    given = blocks.Attention(*head_views(xp, projected, num_heads), None, False, scale, keep_scale, seed)
    gradients = tuple(None if p is None else xp.empty(p.shape, dtype=p.dtype) for p in projected)
    outs = tuple(head_views(xp, gradients, num_heads))
    heads = _heads(xp, xp.contiguous(g), num_heads)
    g_mask = _attend_back(xp, heads, given, saved, outs, needs[3])
    return (*gradients, g_mask, None)


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
        need_weights, average_attn_weights: whether to return the weights, and whether their mean over heads.

    Returns the result (batch, target, embed_dim), and the weights, (batch, target, source) or
    (batch, heads, target, source), or None.
    """
    batch, target, embed_dim = query.shape
    source = key.shape[1]
    head_dim = embed_dim // num_heads
    projected = _project(query, key, value, in_proj_weight, in_proj_bias)
    mask = merge_masks(key_padding_mask, attn_mask, (batch, num_heads, target, source), projected[0])
    dropout_p = dropout_p if training else 0.0
    keep, options = _draw((batch, num_heads, target, source), dropout_p, query.device)
    scale = 1 / math.sqrt(head_dim)
    if watch.see is not None:
        dropout = dropout_p > 0
        watch.see(projected, num_heads, mask, scale, attn_mask=attn_mask, dropout=dropout, same=query is key)
    if not need_weights:
        out = _multi_head(*projected, mask, keep, num_heads=num_heads, scale=scale, **options)
        return linear(out, out_proj_weight, out_proj_bias), None
    out, weights = multi_head_formula(projected, mask, keep, num_heads, scale, **options)
    out = linear(out, out_proj_weight, out_proj_bias)
    return out, tt.mean(weights, axis=1) if average_attn_weights else weights


def attend_projected(query: Tensor, memory: Tensor, num_heads: int, hidden: Any = None, dropout_p: float = 0) -> Tensor:
    """What stands between the projections of `multi_head_attention_forward`: Concat(head_1, ..., head_h).

    Args:
        query: Q of all heads, (batch, target, embed_dim).
        memory: K and V of all heads side by side, (batch, source, 2 * embed_dim).
        hidden: boolean, broadcasts to (batch, heads, target, source): True where attention is not allowed.
        dropout_p: the probability with which a weight is dropped.

    Returns (batch, target, embed_dim).
    """
    batch, target, embed_dim = query.shape
    keep, options = _draw((batch, num_heads, target, memory.shape[1]), dropout_p, query.device)
    scale = 1 / math.sqrt(embed_dim // num_heads)
    if watch.see is not None:
        dropout = dropout_p > 0
        watch.see((query, memory, None), num_heads, hidden, scale, attn_mask=hidden, dropout=dropout, same=None)
    return _multi_head(query, memory, None, hidden, keep, num_heads=num_heads, scale=scale, **options)


def _project(query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Q, K and V in as few matrix products as the inputs allow: one for self-attention, two for a shared memory."""
    embed_dim = query.shape[-1]
    if isinstance(weight, tuple):
        biases = (None, None, None) if bias is None else tt.split(bias, 3)
        return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weight, biases))  # type: ignore[return-value]
    if query is key and key is value:
        return linear(query, weight, bias), None, None
    ends = [0, embed_dim, 3 * embed_dim] if key is value else [0, embed_dim, 2 * embed_dim, 3 * embed_dim]
    parts = [
        linear(x, weight[a:b], None if bias is None else bias[a:b])
        for x, a, b in zip((query, key, value), ends, ends[1:])
    ]
    return (*parts, None) if key is value else tuple(parts)  # type: ignore[return-value]


def _check_mask(mask: Tensor) -> None:
    if mask.dtype.kind not in "bf":
        raise TypeError(f"attention masks must be boolean or floating, got {mask.dtype}")


def merge_masks(key_padding_mask: Any, attn_mask: Any, shape: tuple[int, int, int, int], like: Tensor) -> Any:
    """One mask that broadcasts to `shape` (batch, heads, target, source): boolean if both are, else to be added."""
    batch, heads, target, source = shape
    masks = []
    if key_padding_mask is not None:
        mask = beside(key_padding_mask, like)
        if mask.shape != (batch, source):
            raise ValueError(f"key_padding_mask: expected (batch, source) = {(batch, source)}, got {mask.shape}")
        masks.append(tt.reshape(mask, (batch, 1, 1, source)))
    if attn_mask is not None:
        mask = beside(attn_mask, like)
        if mask.shape == (target, source):
            mask = tt.reshape(mask, (1, 1, target, source))
        elif mask.shape == (batch * heads, target, source):
            mask = tt.reshape(mask, shape)
        else:
            raise ValueError(
                f"attn_mask: expected (target, source) = {(target, source)} or (batch * heads, target, source) = "
                f"{(batch * heads, target, source)}, got {mask.shape}"
            )
        masks.append(mask)
    for i, mask in enumerate(masks):
        _check_mask(mask)
        masks[i] = mask if mask.dtype.kind == "b" else tt.astype(mask, like.dtype, copy=False)
    if len(masks) < 2:
        return masks[0] if masks else None
    if all(mask.dtype.kind == "b" for mask in masks):
        return masks[0] | masks[1]
    floats = [
        tt.masked_fill(tt.zeros(mask.shape, dtype=like.dtype, device=like.device), mask, -math.inf)
        if mask.dtype.kind == "b"
        else mask
        for mask in masks
    ]
    return floats[0] + floats[1]
