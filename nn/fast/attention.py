"""The fast pairs of attention: on raw arrays, in place, over all cores; long sequences in blocks.

Multi-head attention computes on projections that stand side by side as they come out of one matrix product for Q, K and
V (self-attention), or of one for Q and one for K and V, and writes their gradients side by side as well.
"""

from __future__ import annotations

import math
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.fast.texts import Way

from ..functional import attention as textbook
from ..functional.attention import _attention, _multi_head
from ..functional.dropout import Dropped
from ..functional.linear import linear
from . import attention_blocks as blocks
from .activations import softmax_gradient_in_place, softmax_rows
from .dropout import drop_into
from .tuning import ATTENTION_WORK as WORK
from .tuning import LOOPS_FROM


def dropout_mask(given: blocks.Attention) -> Any:
    """The raw mask of what dropout keeps, or None."""
    return None if given.dropped is None else given.dropped.keep._data


def loops_for(xp: Any, given: blocks.Attention) -> Any:
    """The compiled loops, where they take what is given: no added mask, and no dropout that a seed stands for."""
    boolean = given.mask is None or (given.mask.dtype.kind == "b" and given.mask.ndim > 1)
    if not boolean or math.prod(given.lengths()) < LOOPS_FROM or isinstance(given.dropped, blocks.SeededDropped):
        return None
    return xp.loops_over("attention", given.query, given.key, given.value)


def attend(xp: Any, given: blocks.Attention, out: Any) -> tuple[Any, ...]:
    """Attention on raw arrays, into `out`; returns what `attend_back` needs, None for what it does not.

    That is the mask, the result and the logarithm of what the weights were divided by, where attention went in blocks;
    else the dropout mask, the weights, and the weights after dropout. From compiled loops: what they are, what each
    query sees, the result, that logarithm, and the dropout mask.
    """
    if (loops := loops_for(xp, given)) and (seen := loops.intervals(given.mask, given.causal, given.query, given.key)):
        keep = dropout_mask(given)
        how = () if keep is None else (keep, given.dropped.scale)
        return loops, seen, out, loops.attend(*given[:3], seen, given.scale, out, *how), keep
    if given.is_long(xp):
        return given.mask, out, blocks.attend(xp, given, out), None, None, None
    keep = dropout_mask(given)
    return None, None, None, keep, *attend_at_once(xp, given, keep, out)


def attend_at_once(xp: Any, given: blocks.Attention, keep: Any, out: Any) -> tuple[Any, Any]:
    q, k, v = given.query, given.key, given.value
    narrow = q.dtype.itemsize < 4  # the weights are computed in 32 bits then, from scores scaled before they overflow
    weights = xp.fresh((*out.shape[:-1], k.shape[-2]), dtype=tt.float32 if narrow else q.dtype)
    kept = weights if keep is None and not narrow else xp.fresh(weights.shape, dtype=q.dtype)
    mask = xp.arange(k.shape[-2]) > xp.arange(q.shape[-2])[:, None] if given.causal else given.mask
    boolean = mask is not None and mask.dtype.kind == "b"
    nothing = weights.dtype.type(-math.inf)

    def attend_rows(i: slice) -> None:
        scores = weights[i]
        if narrow:
            scores[...] = xp.matmul(q[i] * given.scale, xp.matrix_transpose(k[i]))
        else:
            xp.matmul(q[i], xp.matrix_transpose(k[i]), out=scores)
            scores *= given.scale
        if mask is not None:
            there = _at(mask, i, scores.ndim)
            if boolean:  # a hidden score may be NaN, which it would stay if infinity were added
                scores[...] = xp.where(there, nothing, scores)
            else:
                scores += there
        softmax_rows(xp, scores)
        if narrow:
            kept[i] = scores if keep is None else scores * _at(keep, i, scores.ndim) * given.dropped.scale
        elif keep is not None:
            drop_into(xp, scores, _at(keep, i, scores.ndim), given.dropped.scale, kept[i])
        xp.matmul(kept[i], v[i], out=out[i])

    xp.in_parts(attend_rows, len(weights), weights.size * WORK)
    return weights, kept


def attend_back(
    xp: Any, g: Any, given: blocks.Attention, saved: Any, outs: tuple[Any, Any, Any], for_mask: bool
) -> Any:
    """Write the gradients of `attend` for q, k and v into `outs`; returns that of the mask where it is asked for."""
    q, k, v = given.query, given.key, given.value
    if len(saved) == 5:  # no mask had a gradient
        loops, seen, out, log_total, keep = saved
        how = () if keep is None else (keep, given.dropped.scale)
        return loops.attend_back(g, q, k, v, seen, given.scale, out, log_total, outs, *how)
    mask, out, log_total, keep, weights, kept = saved
    if weights is None:
        given = given._replace(mask=mask)
        if not for_mask:
            return blocks.attend_back(xp, g, given, out, log_total, outs)
        # The gradient of a mask is as large as the weights, so nothing is gained by blocks.
        keep = dropout_mask(given)
        weights, kept = attend_at_once(xp, given, keep, xp.fresh(out.shape, dtype=out.dtype))
    g_q, g_k, g_v = outs
    g_scores = xp.fresh_like(weights)
    narrow = q.dtype.itemsize < 4

    def differentiate_rows(i: slice) -> None:
        xp.matmul(xp.matrix_transpose(kept[i]), g[i], out=g_v[i])
        g_weights = g_scores[i]
        if narrow:
            g_weights[...] = xp.matmul(g[i], xp.matrix_transpose(v[i]))
        else:
            xp.matmul(g[i], xp.matrix_transpose(v[i]), out=g_weights)
        if keep is not None:
            drop_into(xp, g_weights, _at(keep, i, g_weights.ndim), given.dropped.scale, g_weights)
        softmax_gradient_in_place(xp, g_weights, weights[i])
        scaled = xp.astype(g_weights * given.scale, q.dtype)
        xp.matmul(scaled, k[i], out=g_q[i])
        xp.matmul(xp.matrix_transpose(scaled), q[i], out=g_k[i])

    xp.in_parts(differentiate_rows, len(weights), weights.size * WORK)
    return g_scores if for_mask else None


def _at(x: Any, i: slice, ndim: int) -> Any:
    """The part of a mask for some of the batch; all of it where the mask has no batch dimension of its own."""
    return x if x.ndim < ndim or x.shape[0] == 1 else x[i]


# ---- separate query, key and value


@_attention.forward
def attention_forward(xp, query, key, value, mask, *, scale, causal, dropped):
    given = blocks.Attention(query, key, value, mask, causal, scale, dropped)
    out = xp.fresh((*query.shape[:-1], value.shape[-1]), dtype=query.dtype)
    return out, (query, key, value, *attend(xp, given, out))


@_attention.backward
def attention_backward(xp, g, residuals, needs, *, scale, causal, dropped):
    query, key, value, *saved = residuals
    given = blocks.Attention(query, key, value, None, causal, scale, dropped)
    outs = tuple(xp.fresh(x.shape, dtype=x.dtype) for x in (query, key, value))
    g_mask = attend_back(xp, g, given, saved, outs, needs[3])
    return (*outs, g_mask)


# ---- all heads at once, on projections as they come out of one matrix product


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
def multi_head_forward(xp, query, memory, mask, *, num_heads, scale, dropped):
    projected = tuple(p if p is None or p.strides[-1] == p.itemsize else xp.copy(p) for p in (query, memory))
    query, key, value = head_views(xp, projected, num_heads)
    given = blocks.Attention(query, key, value, mask, False, scale, dropped)
    batch, heads, target, head_dim = given.query.shape
    out = xp.fresh((batch, target, heads, head_dim), dtype=given.query.dtype)
    saved = attend(xp, given, xp.permute_dims(out, (0, 2, 1, 3)))
    return xp.reshape(out, (batch, target, heads * head_dim)), (projected, *saved)


@_multi_head.backward
def multi_head_backward(xp, g, residuals, needs, *, num_heads, scale, dropped):
    projected, *saved = residuals
    query, key, value = head_views(xp, projected, num_heads)
    given = blocks.Attention(query, key, value, None, False, scale, dropped)
    gradients = tuple(None if p is None else xp.fresh(p.shape, dtype=p.dtype) for p in projected)
    outs = tuple(head_views(xp, gradients, num_heads))
    batch, heads, target, head_dim = given.query.shape
    by_head = xp.permute_dims(xp.reshape(xp.contiguous(g), (batch, target, heads, head_dim)), (0, 2, 1, 3))
    g_mask = attend_back(xp, by_head, given, saved, outs, needs[2])
    return (*gradients, g_mask)


HEADS = Way("several heads", "nn.functional.attention:multi_head", "nn.functional.attention:attend_projected")


def multi_head(query, key, value, num_heads, weight, bias, mask, *, scale, dropout_p, need_weights, more=None):
    """`nn.functional.attention.multi_head` on projections side by side, or None."""
    if need_weights or more is not None or not HEADS.holds():
        return None
    shape = len(query), num_heads, query.shape[1], key.shape[1]
    dropped = Dropped.draw(dropout_p, shape, query.device) if dropout_p else None
    q, memory = project(query, key, value, weight, bias)
    return _multi_head(q, memory, mask, num_heads=num_heads, scale=scale, dropped=dropped), None


def project(query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any) -> tuple[Tensor, Tensor | None]:
    """Q, and K and V side by side, or all three of self-attention, in as few matrix products as the inputs allow."""
    together = not isinstance(weight, tuple)
    if together and query is key is value:
        return linear(query, weight, bias), None
    if together and key is value:
        d = query.shape[-1]
        of_query, of_memory = (None, None) if bias is None else (bias[:d], bias[d:])
        return linear(query, weight[:d], of_query), linear(key, weight[d:], of_memory)
    weights = tt.split(weight, 3) if together else weight
    biases = (None, None, None) if bias is None else tt.split(bias, 3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    return q, tt.concat([k, v], axis=-1)


textbook.multi_head.faster = multi_head  # type: ignore[attr-defined]
Dropped.draw.faster = blocks.SeededDropped.draw_long  # type: ignore[attr-defined]
