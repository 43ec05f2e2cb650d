"""The fast pair of the embedding: rows by index, and their gradients added up into a table."""

from __future__ import annotations

from ..functional.embedding import _embedding


@_embedding.forward
def embedding_forward(xp, weight, ids, *, padding_idx):
    return weight[ids], (ids, len(weight))


@_embedding.backward
def embedding_backward(xp, g, saved, needs, *, padding_idx):
    ids, length = saved
    rows, ids = xp.reshape(g, (ids.size, g.shape[-1])), xp.reshape(ids, (-1,))
    if add_rows := xp.kernel("add_rows", rows, size=max(rows.size, length * g.shape[-1])):
        g_weight = add_rows(rows, ids, length)
    else:
        g_weight = xp.scatter(rows, (ids,), (length, g.shape[-1]))
    if padding_idx is not None:
        g_weight[padding_idx] = 0
    return g_weight, None
