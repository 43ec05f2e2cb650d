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
    h, s, v = tt.random.randn(3, 4), tt.random.randn(5, 4), tt.random.randn(4)
    W, U = tt.random.randn(2, 4, 4)
    expected = [[(v * tt.tanh(W @ q + U @ k)).sum().item() for k in s] for q in h]
    agree(additive_scores(h, s, W, U, v), expected, "the scores of 3 queries and 5 words", tolerance=1e-4)


@exercise(
    "def found(h, memory, W_c):",
    "The weights are `F.softmax(scores, dim=-1)`, with `from tinytensor.nn import functional as F`; the context is "
    "`weights @ memory`.",
    "[c; h] is `tt.concat([c, h])`, and W_c times it is `W_c @ ...`.",
)
def check_found(found):
    """Luong's h̃ = tanh(W_c [c; h]) of a state h (d,), with the context c from the memory (sources, d) by scores that
    are dot products; W_c is (d, 2 d)."""
    h, memory, W_c = tt.random.randn(4), tt.random.randn(5, 4), tt.random.randn(4, 8) / 4
    c = F.softmax(memory @ h, dim=0) @ memory
    agree(found(h, memory, W_c), tt.tanh(W_c @ tt.concat([c, h])), "what a state of 4 numbers finds", tolerance=1e-4)
