"""Computation graphs of attention, from a single head to the whole Transformer: what lessons draw."""

from __future__ import annotations

import math
from collections.abc import Callable

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import Graph, Options
from tinytensor.nn import functional as F

from ..transformer import Transformer

LENGTH = 6


def head(d_model: int = 64, d_k: int = 16, length: int = LENGTH) -> Graph:
    """One attention head with a causal mask, softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1).

    Args:
        d_model, d_k: the sizes of the vectors and of the head.
        length: the number of positions.
    """
    x = tt.random.normal((length, d_model))
    W_Q, W_K, W_V = (nn.Parameter(tt.random.normal((d_model, d_k)) / math.sqrt(d_model)) for _ in range(3))
    with tt.record() as graph:
        Q, K, V = x @ W_Q, x @ W_K, x @ W_V
        future = F.causal_mask(length)
        scores = (Q @ K.mT / math.sqrt(d_k)).masked_fill(future, -math.inf)
        weights = F.softmax(scores, dim=-1)
        result = weights @ V
    graph.options = Options(fused="folded", direction="LR")  # here softmax is one of the steps, not one to look into
    return _with_gradients(graph, result, "One attention head: softmax(Q K^T / sqrt(d_k)) V")


def multihead() -> Graph:
    """Multi-head self-attention with a causal mask (section 3.2.2)."""
    attention = nn.MultiheadAttention(64, 4, batch_first=True)
    x = tt.random.normal((2, LENGTH, 64))
    with tt.record() as graph:
        result = attention(x, x, x, attn_mask=F.causal_mask(LENGTH), need_weights=False)[0]
    return _with_gradients(graph, result, "Multi-head attention: 4 heads of 16")


def encoder_layer() -> Graph:
    """A layer of the encoder (section 3.1)."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    x = tt.random.normal((2, LENGTH, 64))
    with tt.record() as graph:
        result = layer(x)
    return _with_gradients(graph, result, "A layer of the Transformer's encoder")


def transformer() -> Graph:
    """The Transformer with 6 + 6 layers, from ids to probabilities (Figure 1)."""
    model = Transformer(1000, d_model=64, num_heads=4, num_layers=6, dropout=0.0)
    source = tt.asarray([[5, 6, 7, 8, 9, 2, 0, 0], [5, 6, 7, 8, 2, 0, 0, 0]])
    target = tt.asarray([[1, 6, 7, 8, 2, 0], [1, 6, 7, 2, 0, 0]])
    with tt.record() as graph:
        probabilities = F.softmax(model(source, target), dim=-1)
    return _with_gradients(graph, probabilities, "The Transformer (Vaswani et al. 2017, Figure 1), 6 + 6 layers")


def _with_gradients(graph: Graph, result: tt.Tensor, title: str) -> Graph:
    """The graph after a backward pass with a gradient of unit size, so that gradients can be drawn and played."""
    gradient = tt.random.normal(result.shape)
    result.backward(gradient / tt.linalg.vector_norm(gradient))
    graph.title = title
    return graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "head": head,
    "multihead": multihead,
    "encoder-layer": encoder_layer,
    "transformer": transformer,
}
"""By the name that the command line gives them."""
