"""Exercises of lesson 6: hiding the future, and shifting the answer."""

import math

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def causal_weights(scores):",
    "The future is where the number of the column is larger than that of the row: `tt.triu(..., k=1)` keeps just that.",
    "`scores.masked_fill(future, -math.inf)` goes before the softmax over the last dimension.",
)
def check_causal_weights(causal_weights):
    """The attention weights of scores (target, source) where no query sees a key that comes after it: softmax over the
    keys, the future hidden. Do it without `F.causal_mask`."""
    for n in (3, 6):
        scores = tt.random.randn(n, n)
        future = F.causal_mask(n)

        def weights(hidden, dim=-1):
            return F.softmax(scores.masked_fill(hidden, -math.inf), dim=dim)

        blind = tt.triu(tt.ones((n, n), dtype=tt.bool))
        with_nan = weights(blind)
        with_nan[0] = math.nan
        itself = "a query may see itself, and does not: the future begins one place after it, k=1"
        mistakes = {
            itself: weights(blind),
            f"{itself}; nothing is left for the first query": with_nan,
            "the future is hidden after softmax, so rows no longer add up to 1: hide it before": F.softmax(
                scores, dim=-1
            )
            * ~future,
            "softmax is over the queries; each row has to add up to 1": weights(future, dim=0),
            "it hides the past, and shows the future": weights(future.mT),
            "nothing is hidden": F.softmax(scores, dim=-1),
            "a score of 0 does not hide: e⁰ = 1 is a weight; the score of the future is −∞": F.softmax(
                scores * ~future, dim=-1
            ),
            "the future begins one place too late: the next key is seen": weights(tt.triu(future, k=2)),
            "these are the scores; softmax is missing": scores.masked_fill(future, -math.inf),
            "softmax is over all of the matrix; each row has to add up to 1": F.softmax(
                scores.masked_fill(future, -math.inf).reshape(-1), dim=0
            ).reshape(n, n),
        }
        watched = causal_weights.watched(scores)
        agree(watched.result, weights(future), f"the weights of {n} x {n} scores", mistakes=mistakes)
        expect("causal_mask" not in watched.called, "do it without `F.causal_mask`")


@exercise(
    "def shifted(ids, begin, end):",
    "What is read begins with `begin`, and what is said ends with `end`; both are one longer than the ids.",
    "`tt.concat([tt.asarray([begin]), ids])` is what is read.",
)
def check_shifted(shifted):
    """The ids that a decoder reads and the ids that it says, two Tensors, for the ids of an answer. `begin` and `end`
    are the ids of the marks. At each position it has read all that comes before what it says."""
    for length in (3, 5):
        begin, end, *ids = (int(i) for i in 1 + tt.random.permutation(20)[: length + 2])
        both = shifted(tt.asarray(ids), begin, end)
        pair = isinstance(both, (tuple, list)) and len(both) == 2
        expect(pair, "expected two Tensors: what is read, what is said")
        told = f"of {' '.join(map(str, ids))} with marks {begin} and {end},"
        read, said = [begin, *ids], [*ids, end]
        mistakes = {
            "it is what is said; what is read comes first": said,
            "`begin` is missing": ids,
            "it ends with `end`: at the end there is nothing left to read it for": [*read, end],
            "the last id is missing: it is read before `end` is said": read[:-1],
            "it begins with `end`": [end, *ids],
            "`begin` is at its end": [*ids, begin],
        }
        agree(both[0], read, f"what is read, {told}", mistakes=mistakes)
        mistakes = {
            "it is what is read": read,
            "`end` is missing: when does the answer stop?": ids,
            "it begins with `begin`, which nobody has to say": [*read, end],
            "the first id is missing": said[1:],
            "it ends with `begin`": [*ids, begin],
            "`end` is at its beginning": [end, *ids],
        }
        agree(both[1], said, f"what is said, {told}", mistakes=mistakes)
