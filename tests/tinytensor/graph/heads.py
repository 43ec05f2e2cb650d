"""The computations that the golden files are of."""

import math

import numpy as np

import tinytensor as tt


def attention_head():
    """The graph of one attention head as its formula: 5 positions, 8 features, 4 of them in the head."""
    rng = np.random.default_rng(0)
    x = tt.Tensor(rng.normal(size=(5, 8)))
    w_q, w_k, w_v = (tt.Tensor(rng.normal(size=(8, 4)), requires_grad=True) for _ in range(3))
    with tt.record() as graph, tt.named_scope("head"):
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        scores = query @ key.mT / math.sqrt(4)
        with tt.named_scope("softmax"):
            e = tt.exp(scores)
            weights = e / tt.sum(e, axis=-1, keepdims=True)
        out = weights @ value
    graph.title = "A head"
    return graph, out
