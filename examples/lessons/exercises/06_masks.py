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
    scores = tt.random.randn(4, 4)
    weights = causal_weights(scores)
    expected = F.softmax(scores.masked_fill(F.causal_mask(4), -math.inf), dim=-1)
    if getattr(weights, "shape", None) == expected.shape:
        total = float(weights[0].sum())
        expect(abs(total - 1) < 1e-5, f"the weights of the first query add up to {total:.3g}; expected 1: hide before")
        leaked = float(abs(weights * F.causal_mask(4)).max())
        expect(leaked == 0, f"a weight on the future is {leaked:.3g}; expected 0")
        expect(float(weights[0, 0]) > 0, "the first query sees nothing; it may see itself")
    agree(weights, expected, "the weights of 4 x 4 scores")


@exercise(
    "def shifted(ids, begin, end):",
    "What is read begins with `begin`, and what is said ends with `end`; both are one longer than the ids.",
    "`tt.concat([tt.asarray([begin]), ids])` is what is read.",
)
def check_shifted(shifted):
    """What a decoder reads and what it says, two Tensors, for the ids of an answer, given the ids of the marks `begin`
    and `end`: at each position it has read all that comes before what it says."""
    ids = tt.asarray([7, 8, 9])
    both = shifted(ids, 1, 2)
    expect(isinstance(both, (tuple, list)) and len(both) == 2, "expected two Tensors: what is read, what is said")
    agree(both[0], [1, 7, 8, 9], "what is read, of 7 8 9 with marks 1 and 2,")
    agree(both[1], [7, 8, 9, 2], "what is said, of 7 8 9 with marks 1 and 2,")
