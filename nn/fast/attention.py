"""The fast pairs of attention, by compiled loops or by the array code of `attention_blocks.py`.

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
from .attention_blocks import Attention
from .plain import is_usual
from .tuning import LOOPS_FROM


def attend(xp: Any, given: Attention, out: Any) -> tuple[Any, ...]:
    """Attention on raw arrays, into `out`; returns what `attend_back` needs.

    First the mask of dropout, or None; then of compiled loops these, and what each query sees; in blocks, the mask;
    else the weights, and those that dropout keeps. The loops take no added mask, and no dropout that a seed stands for.
    """
    is_seeded, loops = isinstance(given.dropped, blocks.SeededDropped), None
    is_long = blocks.is_long(given.shape, xp.device)
    given = given if is_seeded and is_long else given.with_keep(xp)
    boolean = given.mask is None or (given.mask.dtype.kind == "b" and given.mask.ndim > 1)
    if boolean and not is_seeded and math.prod(given.shape[-2:]) >= LOOPS_FROM:
        loops = xp.loops_over("attention", given.query, given.key, given.value)
    if loops and (seen := loops.intervals(given.mask, given.causal, given.query, given.key)):
        log_total = loops.attend(*given[:3], seen, given.scale, given.keep, given.keep_scale, out)
        return given.keep, loops, *seen, out, log_total
    if is_long:
        blocks.attend_in_blocks(xp, given, out)
        return given.keep, given.mask
    return given.keep, *blocks.attend_at_once(xp, given, out)


def attend_back(xp: Any, g: Any, given: Attention, saved: Any, outs: Any, for_mask: bool) -> Any:
    """Write the gradients of `attend` for q, k and v into `outs`; returns that of the mask where it is asked for."""
    given, saved = given._replace(keep=saved[0]), saved[1:]
    if len(saved) == 5:  # no mask had a gradient
        loops, *seen, out, log_total = saved
        return loops.attend_back(*given[:3], seen, given.scale, given.keep, given.keep_scale, out, log_total, g, *outs)
    if len(saved) == 1:
        given = given._replace(mask=saved[0])
        if not for_mask:
            return blocks.back_in_blocks(xp, g, given, outs)
        # The gradient of a mask is as large as the weights, so nothing is gained by blocks.
        given = given.with_keep(xp)
        saved = blocks.attend_at_once(xp, given, xp.fresh(g.shape, dtype=g.dtype))
    g_scores = blocks.back_at_once(xp, g, given._replace(mask=None, causal=False), outs, *saved)
    return g_scores if for_mask else None


# ---- separate query, key and value


@_attention.forward
def attention_forward(xp, query, key, value, mask, *, scale, causal, dropped):
    given = Attention(query, key, value, mask, causal, scale, dropped)
    out = xp.fresh((*query.shape[:-1], value.shape[-1]), dtype=query.dtype)
    return out, (query, key, value, *attend(xp, given, out))


@_attention.backward
def attention_backward(xp, g, residuals, needs, *, scale, causal, dropped):
    query, key, value, *saved = residuals
    given = Attention(query, key, value, None, causal, scale, dropped)
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
    given = Attention(query, key, value, mask, False, scale, dropped)
    batch, heads, target, head_dim = given.query.shape
    out = xp.fresh((batch, target, heads, head_dim), dtype=given.query.dtype)
    saved = attend(xp, given, xp.permute_dims(out, (0, 2, 1, 3)))
    return xp.reshape(out, (batch, target, heads * head_dim)), (projected, *saved)


@_multi_head.backward
def multi_head_backward(xp, g, residuals, needs, *, num_heads, scale, dropped):
    projected, *saved = residuals
    query, key, value = head_views(xp, projected, num_heads)
    given = Attention(query, key, value, None, False, scale, dropped)
    gradients = tuple(None if p is None else xp.fresh(p.shape, dtype=p.dtype) for p in projected)
    outs = tuple(head_views(xp, gradients, num_heads))
    batch, heads, target, head_dim = given.query.shape
    by_head = xp.permute_dims(xp.reshape(xp.contiguous(g), (batch, target, heads, head_dim)), (0, 2, 1, 3))
    g_mask = attend_back(xp, by_head, given, saved, outs, needs[2])
    return (*gradients, g_mask)


HEADS = Way(
    "several heads", "nn.functional.attention:multi_head", "nn.functional.attention:attend_heads",
    "nn.decoder_cache:LayerCache.append",
)  # fmt: skip


def multi_head(
    query, key, value, num_heads, weight, bias, mask, *, scale, dropout_p, need_weights, cache=None, more=None
):
    """`nn.functional.attention.multi_head` on projections side by side, or None."""
    if need_weights or more is not None or not (cache is None or is_usual(cache)) or not HEADS.holds():
        return None
    q, memory = project(query, key, value, weight, bias)
    if cache is not None:
        d = q.shape[2] if memory is not None else q.shape[2] // 3
        memory = cache.append_joined(q[:, :, d:] if memory is None else memory)
        q = q[:, :, :d]
        if not q.shape[1]:  # only the cache was to be filled
            return q, None
    shape = len(q), num_heads, q.shape[1], (q if memory is None else memory).shape[1]
    dropped = Dropped.draw(dropout_p, shape, query.device) if dropout_p else None
    return _multi_head(q, memory, mask, num_heads=num_heads, scale=scale, dropped=dropped), None


def project(query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any) -> tuple[Tensor, Tensor | None]:
    """Q, and K and V side by side, or all three of self-attention, in as few matrix products as the inputs allow."""
    together = not isinstance(weight, tuple)
    if together and query is key is value:
        return linear(query, weight, bias), None
    if together and key is value:
        d = query.shape[-1]
        of_query, of_memory = (None, None) if bias is None else (bias[:d], bias[d:])
        q = linear(query, weight[:d], of_query) if query.shape[1] else query
        return q, linear(key, weight[d:], of_memory)
    weights = tt.split(weight, 3) if together else weight
    biases = (None, None, None) if bias is None else tt.split(bias, 3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    return q, tt.concat([k, v], axis=-1)


textbook.multi_head.faster = multi_head  # type: ignore[attr-defined]
Dropped.draw.faster = blocks.SeededDropped.draw_long  # type: ignore[attr-defined]
