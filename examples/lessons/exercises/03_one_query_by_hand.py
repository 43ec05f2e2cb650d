"""Exercises of lesson 3: attention of one query, and a query that finds its key."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def attend(y, X, W_q, W_k, W_v):",
    "Three matrix products give the query y W^Q, the keys X W^K and the values X W^V.",
    "The scores are keys times query, divided by the square root of how many numbers a query has.",
    "`F.softmax(scores, dim=0)` from `tinytensor.nn.functional` makes weights of them; they weigh the values.",
)
def check_attend(attend):
    """What one word y (size,) takes out of the words X (length, size) by equation 1: a vector as long as a value."""
    y, X = tt.random.randn(6), tt.random.randn(3, 6)
    W_q, W_k, W_v = tt.random.randn(6, 4), tt.random.randn(6, 4), tt.random.randn(6, 2)
    expected = F.scaled_dot_product_attention((y @ W_q)[None], X @ W_k, X @ W_v)[0]
    agree(attend(y, X, W_q, W_k, W_v), expected, "what y takes out of 3 words")


@exercise(
    "def find(keys, j):",
    "Of keys that all have length 1, key j itself has the largest dot product with key j.",
    "The largest score takes nearly all where scores are far apart: make the query long.",
)
def check_find(find):
    """A query (d_k,) that gives at least 99 % of its attention to key j. All keys (length, d_k) have length 1."""
    keys = tt.tensor([[0.6, 0.8], [0.8, -0.6], [-1.0, 0.0], [0.0, 1.0]])
    for j in range(len(keys)):
        query = find(keys, j)
        expect(query is not ... and query is not None, "the hole is still there")
        expect(query.shape == (2,), f"the query has shape {tuple(query.shape)}; expected (2,), as long as a key")
        weight = F.softmax(keys @ query / 2**0.5, dim=0)[j].item()
        expect(weight >= 0.99, f"the query for key {j} of four gives it {weight:.1%} of its attention")
