"""8. Attention (Vaswani et al. 2017, section 3.2): softmax(Q Kᵀ / √d_k) V, and many heads of it."""

import numpy as np
from step02_node import part
from step05_products import permute, reshape
from step06_softmax import softmax


def causal_mask(length):
    """An array (length, length) to add to scores: 0 where position i may look at j, which is j <= i, else -inf."""
    return np.where(np.tri(length, dtype=bool), 0.0, -np.inf)


def padding_mask(ids, pad):
    """An array (batch, 1, 1, length) to add to scores: -inf where the id is `pad`, else 0."""
    return np.where(ids == pad, -np.inf, 0.0)[:, None, None, :]


def attention(query, key, value, mask):
    """Equation 1, with a mask that is added to the scores. Shapes: (..., n, d_k), (..., m, d_k), (..., m, d_v)."""
    axes = tuple(range(key.data.ndim))
    scores = query @ permute(key, axes=(*axes[:-2], axes[-1], axes[-2])) * key.data.shape[-1] ** -0.5
    return softmax(scores + mask) @ value


def split_heads(x, heads):
    """(batch, length, d) -> (batch, heads, length, d / heads): head h has the h-th piece of every vector."""
    batch, length, d = x.data.shape
    return permute(reshape(x, to=(batch, length, heads, d // heads)), axes=(0, 2, 1, 3))


def join_heads(x):
    """The way back: (batch, heads, length, d / heads) -> (batch, length, d)."""
    batch, heads, length, width = x.data.shape
    return reshape(permute(x, axes=(0, 2, 1, 3)), to=(batch, length, heads * width))


def multi_head(x, source, weights, heads, mask):
    """Section 3.2.2: queries from x (batch, n, d), keys and values from source (batch, m, d); four weights (d, d)."""
    w_q, w_k, w_v, w_o = weights
    with part("attention"):
        query, key, value = (split_heads(y @ w, heads) for y, w in ((x, w_q), (source, w_k), (source, w_v)))
        return join_heads(attention(query, key, value, mask)) @ w_o
