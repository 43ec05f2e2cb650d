"""Exercises of NAME. Each check draws new numbers every time, and tries two shapes, none of them square."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F

POINTS = {"scores": 2, "weights": 3}


@exercise(
    "def scores(query, key):",
    "All dot products at once are one matrix product, `query @ key.mT`.",
    "d_k is the last number of `key.shape`.",
)
def check_scores(scores):
    """Scores of n queries (n, d_k) and m keys (m, d_k), divided by the root of d_k: a Tensor (n, m)."""
    for n, m, d_k in ((2, 5, 3), (4, 3, 7)):
        query, key = tt.random.randn(n, d_k), tt.random.randn(m, d_k)
        products = query @ key.mT
        mistakes = {
            "they are not divided by √d_k": products,
            "they are divided by d_k; the root is missing": products / d_k,
        }
        agree(scores(query, key), products / d_k**0.5, f"scores of {n} queries and {m} keys", mistakes=mistakes)


@exercise(
    "def weights(scores):",
    "exp makes all numbers positive; what is each row to be divided by?",
    "exp(1000) is infinite: subtract each row's largest number first.",
)
def check_weights(weights):
    """Softmax of every row of scores (n, m): a Tensor of the same shape, also where scores are large."""
    for n, m, size in ((2, 5, 1.0), (4, 3, 1.0), (3, 7, 1000.0)):
        scores = size * tt.random.randn(n, m)
        mistakes = {
            "each column adds up to 1, and each row should": F.softmax(scores, dim=0),
            "all weights together add up to 1, and each row should": F.softmax(scores.flatten(), dim=0).reshape(n, m),
        }
        agree(weights(scores), F.softmax(scores, dim=-1), f"weights of {n} queries and {m} keys", mistakes=mistakes)
