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
    """The result of equation 1 for one word y (size,) that looks at the words X (length, size): as long as a value."""
    for length, size, d_k, d_v in ((3, 6, 5, 2), (8, 7, 3, 5)):
        y, X = tt.random.randn(size), tt.random.randn(length, size)
        W_q, W_k = tt.random.randn(2, size, d_k) / size**0.5  # so that softmax does share
        W_v = tt.random.randn(size, d_v)
        query, keys, values = y @ W_q, X @ W_k, X @ W_v
        scores = keys @ query

        def weights(divisor):
            return F.softmax(scores / divisor, dim=0)

        right = weights(d_k**0.5)
        mistakes = {
            "the scores are not scaled: divide them by √d_k": weights(1.0) @ values,
            "the scores are divided by d_k, not by its square root": weights(d_k) @ values,
            f"the scores are divided by √d_v; d_k = {d_k} is the length of a query": weights(d_v**0.5) @ values,
            "the scores are divided by √size; d_k is the length of a query": weights(size**0.5) @ values,
            "the scores are divided by the root of how many words there are": weights(length**0.5) @ values,
            "the scores are divided by 2 whatever d_k is": weights(2.0) @ values,
            "the scores are multiplied by √d_k: divide": weights(d_k**-0.5) @ values,
            "the scores are divided by the length |q| of the query": weights(float((query**2).sum()) ** 0.5) @ values,
            "the values are not projected: weigh X W^V, and not X": right @ X,
            "the keys are weighed; weigh the values": right @ keys,
            "softmax is missing: the weights are the scores": scores / d_k**0.5 @ values,
            "softmax is over the wrong axis: every weight is 1": values.sum(axis=0),
            "every word has the same weight": values.mean(axis=0),
            "the word with the largest score takes all; softmax shares": values[int(scores.argmax())],
            "the scores are scaled after softmax; scale them before": weights(1.0) @ values / d_k**0.5,
            "W^Q and W^K are exchanged": F.softmax(X @ W_q @ (y @ W_k) / d_k**0.5, dim=0) @ values,
            "these are the weights; they have to weigh the values": right,
        }
        what = f"what y takes out of {length} words, with d_k = {d_k} and d_v = {d_v}"
        agree(attend(y, X, W_q, W_k, W_v), right @ values, what, mistakes=mistakes)


@exercise(
    "def find(keys, j):",
    "Of keys that all have length 1, key j itself has the largest dot product with key j.",
    "The largest score takes nearly all where scores are far apart: make the query long.",
)
def check_find(find):
    """A query (d_k,) that gives at least 99 % of its attention to key j. All keys (length, d_k) have length 1."""
    for length, d_k in ((4, 2), (5, 3)):
        turn = tt.linalg.qr(tt.random.randn(d_k, d_k))[0]
        keys = tt.concat([turn, -turn])[tt.random.permutation(2 * d_k)][:length]
        for j in range(length):
            query = find(keys, j)
            shape = getattr(query, "shape", None)
            expect(shape is not None, f"the query is a {type(query).__name__}; expected a Tensor")
            expect(shape == (d_k,), f"the query has shape {tuple(shape)}; expected ({d_k},), as long as a key")
            query = tt.asarray(query)
            expect(tt.isfinite(query).all(), "the query is not finite")
            weights = F.softmax(keys @ query / d_k**0.5, dim=0)
            best, weight = int(weights.argmax()), weights[j].item()
            if weight < 0.99:
                expect(
                    weights.max() - weights.min() > 1e-6,
                    f"the query for key {j} gives all {length} keys the same weight",
                )
                expect(best == j, f"the query for key {j} of {length} looks at key {best} instead")
                short = f"the query for key {j} of {length} looks at it with {weight:.1%} only"
                expect(False, f"{short}: it points the right way, but is too short")
