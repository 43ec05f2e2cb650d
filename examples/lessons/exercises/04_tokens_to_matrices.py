"""Exercises of lesson 4: scores without a loop, and a loop for whoever does not believe it."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def distances(queries, keys):",
    "|q − k|² = |q|² + |k|² − 2 q·k, and all q·k at once are a matrix product.",
    "The squared lengths of all queries, as a column: `(queries**2).sum(axis=1, keepdims=True)`; those of the keys as "
    "a row: the same, transposed.",
)
def check_distances(distances):
    """The squared distance of each of the queries (targets, d_k) from each of the keys (sources, d_k), without a loop:
    (targets, sources)."""
    queries, keys = tt.random.randn(3, 5), tt.random.randn(4, 5)
    expected = ((queries[:, None] - keys[None]) ** 2).sum(axis=-1)
    agree(distances(queries, keys), expected, "the squared distances of 3 queries from 4 keys", 1e-4)


@exercise(
    "def output_of(i, X, W_q, W_k, W_v):",
    "The query is that of row i alone, `X[i] @ W_q`; keys and values are those of all rows.",
    "The scores of this query are `keys @ query` over √d_k, a vector; softmax makes its weights, which weigh the rows "
    "of the values: `weights @ values`.",
)
def check_output_of(output_of):
    """Row i of self-attention, softmax(X W_q (X W_k)ᵀ / √d_k) X W_v, without the scores of the other rows: (d_v,)."""
    X, W_q, W_k, W_v = tt.random.randn(4, 6), tt.random.randn(6, 3), tt.random.randn(6, 3), tt.random.randn(6, 2)
    expected = F.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v)
    for i in range(4):
        agree(output_of(i, X, W_q, W_k, W_v), expected[i], f"row {i} of 4", 1e-4)
