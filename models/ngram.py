"""Predicting the next id by counting: n-grams with Kneser-Ney smoothing, a baseline for language models."""

from __future__ import annotations

import numpy as np


def log_probabilities(text: np.ndarray, held_out: np.ndarray, vocabulary: int, order: int = 5) -> np.ndarray:
    """log p(id | the order - 1 ids before it) for each held-out id; these follow `text`, where n-grams are counted.

    Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998, section 3; Kneser and Ney 1995), from single ids
    upwards, starting from a uniform distribution:

        p(w | h) = (c(h w) - D(c(h w)) + p(w | h without its first id) ∑ D(c(h v)) over v) / ∑ c(h v) over v

    c counts the occurrences of the longest n-grams, but the different ids before shorter ones. D is the discount of an
    n-gram counted once, twice, or more often.
    """
    both = np.concatenate([text, held_out]).astype(np.int64)
    count = len(text)
    grams = [np.zeros(len(both), dtype=np.int64)]  # grams[k][i]: the number of the k-gram that ends at i
    for _ in range(order):
        grams.append(np.unique(_before(grams[-1]) * vocabulary + both, return_inverse=True)[1])
    p = np.full(len(held_out), 1 / vocabulary)
    for k in range(1, order + 1):
        gram, context = grams[k], _before(grams[k - 1])
        seen = np.arange(k - 1, count)
        if k < order:  # one of each n-gram that is longer by the id before
            seen = k + np.unique(grams[k + 1][k:count], return_index=True)[1]
        c = np.bincount(gram[seen], minlength=gram.max() + 1)
        d = _discounts(c)[np.minimum(c, 3)]
        kinds, first = np.unique(gram[seen], return_index=True)
        contexts, size = context[seen][first], int(context.max()) + 1
        total = np.bincount(contexts, c[kinds], size)[context[count:]]
        taken = np.bincount(contexts, d[kinds], size)[context[count:]]
        own = gram[count:]
        p = np.where(total > 0, (c[own] - d[own] + taken * p) / np.maximum(total, 1), p)
    return np.log(p)


def _before(grams: np.ndarray) -> np.ndarray:
    """The n-gram that ends one place earlier."""
    return np.concatenate([grams[:1], grams[:-1]])


def _discounts(c: np.ndarray) -> np.ndarray:
    """D of n-grams counted 0, 1, 2 and more times (equation 26), from the numbers of those that occur 1 to 4 times."""
    n1, n2, n3, n4 = (int((c == times).sum()) for times in (1, 2, 3, 4))
    if not n1 * n2 * n3 * n4:  # too few n-grams to estimate
        return np.array([0.0, 0.5, 0.5, 0.5])
    y = n1 / (n1 + 2 * n2)
    return np.clip([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3], 0.0, [0.0, 1.0, 2.0, 3.0])
