"""Exercises of lesson 7: cutting heads apart, and putting them together."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def split_heads(x, num_heads):",
    "Head i has the features from i d_k to (i + 1) d_k of every position, where d_k = d_model / num_heads.",
    "`x.reshape(length, num_heads, d_k)` cuts the features; then the heads go in front: `permute(1, 0, 2)`.",
)
def check_split_heads(split_heads):
    """x, (length, d_model), cut into heads: (num_heads, length, d_model / num_heads)."""
    x = tt.random.randn(6, 8)
    heads = split_heads(x, 2)
    if getattr(heads, "shape", None) == (2, 6, 4):
        cut = abs(heads - x.reshape(2, 6, 4)).max() > 1e-6
        expect(cut, "it cuts positions apart and not features: head 0 has the first three positions whole")
    agree(heads, x.reshape(6, 2, 4).permute(1, 0, 2), "6 positions of 8 features in 2 heads")


@exercise(
    "def multi_head(x, heads, w_o):",
    "headᵢ is `F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)`, with the matrices of this head.",
    "`tt.concat([...], axis=-1)` puts the heads side by side; W^O comes last.",
)
def check_multi_head(multi_head):
    """Multi-head self-attention of x, (length, d_model): `heads` is a list of triples W^Q, W^K, W^V, each (d_model,
    d_k), and w_o is W^O, (len(heads) d_k, d_model)."""
    x, w_o = tt.random.randn(5, 8), tt.random.randn(6, 8)
    heads = [tuple(tt.random.randn(3, 8, 3)) for _ in range(2)]
    found = [F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v) for w_q, w_k, w_v in heads]
    agree(multi_head(x, heads, w_o), tt.concat(found, axis=-1) @ w_o, "the result of 2 heads with d_k = 3")
