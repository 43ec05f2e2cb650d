"""Exercises of lesson 4: scores without a loop, and a loop for whoever does not believe it."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
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
    steps = []
    for targets, sources, d_k in ((3, 4, 5), (7, 9, 6)):
        queries, keys = tt.random.randn(targets, d_k), tt.random.randn(sources, d_k)
        apart = queries[:, None] - keys[None]
        expected, products = (apart**2).sum(axis=-1), queries @ keys.mT
        q, k = (queries**2).sum(axis=1)[:, None], (keys**2).sum(axis=1)[None]
        mistakes = {
            "these are distances, not their squares": expected**0.5,
            "these are the dot products": products,
            "the product is added: |q − k|² = |q|² + |k|² − 2 q·k": q + k + 2 * products,
            "the 2 is missing: |q − k|² = |q|² + |k|² − 2 q·k": q + k - products,
            "|k|² is missing: |q − k|² = |q|² + |k|² − 2 q·k": q - 2 * products,
            "|q|² is missing: |q − k|² = |q|² + |k|² − 2 q·k": k - 2 * products,
            "the lengths are not squared: |q − k|² = |q|² + |k|² − 2 q·k": q**0.5 + k**0.5 - 2 * products,
            "it is the mean of the squares; expected their sum": expected / d_k,
            "there is a row for each key; expected one for each query": expected.mT,
            "it sums |q − k|; expected the squares": abs(apart).sum(axis=-1),
            "the sum over d_k is missing": apart**2,
        }
        watched = distances.watched(queries, keys)
        what = f"the squared distances of {targets} queries from {sources} keys"
        agree(watched.result, expected, what, 1e-4, mistakes)
        steps.append(watched.steps)
    loop = f"it has a loop: {steps[0]} lines ran for 3 queries and 4 keys, {steps[1]} for 7 and 9"
    expect(steps[0] == steps[1], f"{loop}; all at once is a matrix product")


@exercise(
    "def output_of(i, X, W_q, W_k, W_v):",
    "The query is that of row i alone, `X[i] @ W_q`; keys and values are those of all rows.",
    "The scores of this query are `keys @ query` over √d_k, a vector; softmax makes its weights, which weigh the rows "
    "of the values: `weights @ values`.",
)
def check_output_of(output_of):
    """Row i of self-attention, softmax(X W_q (X W_k)ᵀ / √d_k) X W_v, without the scores of the other rows: (d_v,)."""
    for n, size, d_k, d_v in ((4, 6, 3, 2), (7, 4, 5, 3)):
        X, W_v = tt.random.randn(n, size), tt.random.randn(size, d_v)
        W_q, W_k = tt.random.randn(2, size, d_k) / size**0.5  # so that softmax does share
        scores, values = X @ W_q @ (X @ W_k).mT, X @ W_v
        weights = F.softmax(scores / d_k**0.5, dim=-1)
        for i in range(n):
            mistakes = {
                "the scores are not scaled: divide them by √d_k": F.softmax(scores[i], dim=-1) @ values,
                "the scores are divided by d_k, not by its square root": F.softmax(scores[i] / d_k, dim=-1) @ values,
                "the scores are divided by √d_v": F.softmax(scores[i] / d_v**0.5, dim=-1) @ values,
                "the scores are divided by √size": F.softmax(scores[i] / size**0.5, dim=-1) @ values,
                "the values are not projected: weigh X W_v, and not X": weights[i] @ X,
                "softmax is missing: the weights are the scores": scores[i] / d_k**0.5 @ values,
                "softmax is over the wrong axis: every weight is 1": values.sum(axis=0),
                "softmax is over the queries; it is over the keys": F.softmax(scores / d_k**0.5, dim=0)[i] @ values,
                "queries and keys are exchanged": F.softmax(scores[:, i] / d_k**0.5, dim=-1) @ values,
                "it is the value of row i alone: the weights are missing": values[i],
                "all rows came out; expected row i alone": weights @ values,
                "it is the first row, whatever i is": weights[0] @ values,
                "these are the weights; they have to weigh the values": weights[i],
            }
            watched = output_of.watched(i, X, W_q, W_k, W_v)
            agree(watched.result, weights[i] @ values, f"row {i} of {n}", 1e-4, mistakes)
            others = [shape for op, shape in watched.ops if shape.count(n) > 1 or (op == "attention" and n in shape)]
            expect(not others, f"it computes the scores of all {n} rows; those of row {i} are enough")
