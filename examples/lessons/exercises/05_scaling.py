"""Exercises of lesson 5: the scale of a score, and the Jacobian of softmax."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def scores(query, key):",
    "`query @ key.mT` is every query times every key.",
    "d_k is the length of one query, `query.shape[-1]`, and not how many there are.",
)
def check_scores(scores):
    """The scaled scores Q Kᵀ / √d_k of queries (targets, d_k) and keys (sources, d_k): (targets, sources)."""
    for targets, sources, d_k in ((3, 5, 11), (6, 2, 7)):
        query, key = tt.random.randn(targets, d_k), tt.random.randn(sources, d_k)
        products = query @ key.mT
        mistakes = {
            "they are not scaled: divide by √d_k": products,
            "they are divided by d_k, not by its square root": products / d_k,
            "they are divided by the root of how many queries there are; d_k is the length of one": products
            / targets**0.5,
            "they are divided by the root of how many keys there are; d_k is the length of one": products
            / sources**0.5,
            "they are divided by 4 whatever d_k is": products / 4,
            "they are divided by 2 whatever d_k is": products / 2,
            "they are multiplied by √d_k: divide": products * d_k**0.5,
            "softmax has been taken; expected the scores": F.softmax(products / d_k**0.5, dim=-1),
            "there is a row for each key; expected one for each query": products.mT / d_k**0.5,
        }
        what = f"the scores of {targets} queries and {sources} keys with d_k = {d_k}"
        agree(scores(query, key), products / d_k**0.5, what, mistakes=mistakes)


@exercise(
    "def softmax_jacobian(scores):",
    "With p = softmax(s), entry (i, j) is p_i (δ_ij − p_j).",
    "δ is the identity matrix, `tt.eye(len(p))`; p as a column is `p[:, None]`.",
)
def check_softmax_jacobian(softmax_jacobian):
    """The matrix of all ∂p_i/∂s_j of p = softmax(s), for a vector s, without `tt.jacobian`."""
    for n in (4, 7):
        s = tt.random.randn(n)
        p, one = F.softmax(s, dim=0), tt.eye(n)
        outer = p[:, None] * p
        mistakes = {
            "off the diagonal there is −p_i p_j, and not 0: all results share the sum": one * (p * (1 - p)),
            "on the diagonal p_i is missing: p_i (δ_ij − p_j)": -outer,
            "the sign of p_i p_j is turned round: p_i (δ_ij − p_j)": one * p + outer,
            "p_i p_j is missing: p_i (δ_ij − p_j)": one * p,
            "p_i is missing: p_i (δ_ij − p_j)": one - p,
            "p_j stands where p_i has to: p_i (δ_ij − p_j)": one - p[:, None],
            "it is the diagonal alone; expected a matrix": p * (1 - p),
            "it is p itself": p,
            "the signs are turned round": outer - one * p,
            "scores stand where p has to: take their softmax first": s[:, None] * (one - s),
        }
        watched = softmax_jacobian.watched(s)
        agree(watched.result, one * p - outer, f"the Jacobian at {n} scores", mistakes=mistakes)
        expect("jacobian" not in watched.called, "write it without `tt.jacobian`")
