"""Exercises of lesson 11: additive scores, and a step of Luong's decoder."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def additive_scores(h, s, W, U, v):",
    "Rows are vectors here, so W h of all queries is `h @ W.mT`, and U s of all words is `s @ U.mT`.",
    "Every query with every word: `[:, None]` after the first and `[None]` after the second, and + broadcasts. "
    "`@ v` sums over the last dimension.",
)
def check_additive_scores(additive_scores):
    """The scores vᵀ tanh(W h + U s) of queries h (targets, d) and words s (sources, d), for matrices W and U (d, d)
    and a vector v (d,): (targets, sources)."""
    for targets, sources, d in ((3, 5, 4), (2, 7, 6)):
        h, s, v = tt.random.randn(targets, d), tt.random.randn(sources, d), tt.random.randn(d)
        W, U = tt.random.randn(2, d, d) / 2
        left, right = (h @ W.mT)[:, None], (s @ U.mT)[None]
        left_turned, right_turned = (h @ W)[:, None], (s @ U)[None]
        expected = tt.tanh(left + right) @ v
        mistakes = {
            "tanh is missing": (left + right) @ v,
            "W is transposed: W h of rows is `h @ W.mT`": tt.tanh(left_turned + right) @ v,
            "U is transposed: U s of rows is `s @ U.mT`": tt.tanh(left + right_turned) @ v,
            "W and U are transposed: W h of rows is `h @ W.mT`": tt.tanh(left_turned + right_turned) @ v,
            "W and U are exchanged": tt.tanh((h @ U.mT)[:, None] + (s @ W.mT)[None]) @ v,
            "there is a row for each word; expected one for each query": expected.mT,
            "W h and U s are multiplied; they are added": tt.tanh(left * right) @ v,
            "tanh comes last; v weighs what came out of tanh": tt.tanh((left + right) @ v),
            "tanh is of each alone; it is of the sum": (tt.tanh(left) + tt.tanh(right)) @ v,
            "v is missing: the numbers are only added": tt.tanh(left + right).sum(axis=-1),
            "the sum over the numbers of v is missing": tt.tanh(left + right) * v,
            "it is sigmoid; expected tanh": F.sigmoid(left + right) @ v,
            "softmax has been taken; expected the scores": F.softmax(expected, dim=-1),
        }
        what = f"the scores of {targets} queries and {sources} words"
        agree(additive_scores(h, s, W, U, v), expected, what, 1e-4, mistakes)


@exercise(
    "def found(h, memory, W_c):",
    "The weights are `F.softmax(scores, dim=-1)`, with `from tinytensor.nn import functional as F`; the context is "
    "`weights @ memory`.",
    "[c; h] is `tt.concat([c, h])`, and W_c times it is `W_c @ ...`.",
)
def check_found(found):
    """Luong's h̃ = tanh(W_c [c; h]) of a state h (d,), with the context c from the memory (sources, d) by scores that
    are dot products; W_c is (d, 2 d)."""
    for sources, d in ((5, 4), (3, 6)):
        h, memory, W_c = tt.random.randn(d), tt.random.randn(sources, d), tt.random.randn(d, 2 * d) / 4
        scores = memory @ h

        def state(c, h=h, bend=tt.tanh):
            return bend(W_c @ tt.concat([c, h]))

        c = F.softmax(scores, dim=0) @ memory
        mistakes = {
            "c and h are exchanged: the context comes first": state(h, c),
            "tanh is missing": state(c, bend=lambda x: x),
            "Luong's scores are not scaled": state(F.softmax(scores / d**0.5, dim=0) @ memory),
            "softmax is missing: the weights are the scores": state(scores @ memory),
            "every word has the same weight": state(memory.mean(axis=0)),
            "the word with the largest score takes all; softmax shares": state(memory[int(scores.argmax())]),
            "softmax is over the wrong axis: every weight is 1": state(memory.sum(axis=0)),
            "it is the context alone; h̃ is tanh(W_c [c; h])": c,
            "h is missing": state(c, 0 * h),
            "c is missing": state(0 * c),
            "W_c is missing: it is tanh of [c; h]": tt.tanh(tt.concat([c, h])),
            "tanh is of c and h before W_c; it comes last": W_c @ tt.tanh(tt.concat([c, h])),
            "it is sigmoid; expected tanh": state(c, bend=F.sigmoid),
        }
        what = f"what a state of {d} numbers finds in {sources} words"
        agree(found(h, memory, W_c), state(c), what, 1e-4, mistakes)
