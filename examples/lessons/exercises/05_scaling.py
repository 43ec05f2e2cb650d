"""Exercises of lesson 5: the scale of a score, and the Jacobian of softmax."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def scores(query, key):",
    "`query @ key.mT` is every query times every key.",
    "d_k is the length of one query, `query.shape[-1]`, and not how many there are.",
)
def check_scores(scores):
    """The scaled scores Q Kᵀ / √d_k of queries (targets, d_k) and keys (sources, d_k): (targets, sources)."""
    query, key = tt.random.randn(3, 16), tt.random.randn(5, 16)
    agree(scores(query, key), query @ key.mT * 0.25, "scores of 3 queries and 5 keys with d_k = 16")


@exercise(
    "def softmax_jacobian(scores):",
    "With p = softmax(s), entry (i, j) is p_i (δ_ij − p_j).",
    "δ is the identity matrix, `tt.eye(len(p))`; p as a column is `p[:, None]`.",
)
def check_softmax_jacobian(softmax_jacobian):
    """The matrix of all ∂p_i/∂s_j of p = softmax(s), for a vector s, without `tt.jacobian`."""
    s = tt.random.randn(4)
    agree(softmax_jacobian(s), tt.jacobian(lambda s: F.softmax(s, dim=0), s), "the Jacobian at four scores")
