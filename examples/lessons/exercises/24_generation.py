"""Exercises of lesson 24: the nucleus of top-p, and a step of beam search."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def nucleus(probabilities, top_p):",
    "Sort them, the likeliest first: `order = np.argsort(-probabilities)`, and add them up: `np.cumsum`.",
    "A word is kept if those that are likelier reach less than top_p together: `sums - sorted < top_p`.",
)
def check_nucleus(nucleus):
    """The distribution that top-p draws from: probabilities (words,) is a NumPy array in no order. The likeliest words
    are kept, as few as reach top_p together, the one that reaches it included; the others get 0, and what is kept adds
    up to 1. Words stay in their places."""
    for words, kept in ((8, 3), (11, 6), (7, 1)):
        steps = 8.0 + tt.random.rand(words, dtype=tt.float64).numpy()
        p = np.cumsum(steps) ** 2
        order = np.argsort(tt.random.rand(words - 2).numpy())
        p = np.concatenate([p[[-1, 0]], p[1:-1][order]]) / p.sum()  # the likeliest, the least likely, and the others
        falling = np.argsort(-p)
        sums = np.cumsum(p[falling])
        top_p = float(sums[kept - 1] - p[falling[kept - 1]] / 2)

        def of(places, divide=True, p=p):
            left = np.zeros_like(p)
            left[places] = p[places]
            with np.errstate(invalid="ignore"):
                return left / left.sum() if divide else left

        expected = of(falling[:kept])
        rising = np.argsort(p)
        mistakes = {
            "what is kept does not add up to 1: divide by its sum": of(falling[:kept], divide=False),
            "the word that reaches top_p is left out; it is kept": of(falling[: kept - 1]),
            "the word that reaches top_p is left out; it is kept, and the sum is 1": of(
                falling[: kept - 1], divide=False
            ),
            "a word too many is kept: those before it reach top_p already": of(falling[: kept + 1]),
            "words are in the order of their probabilities; they stay in their places": np.sort(expected)[::-1],
            "words were taken in the order of their places, not the likeliest first": of(
                np.flatnonzero(np.cumsum(p) - p < top_p)
            ),
            "the least likely are kept": of(rising[: int((np.cumsum(p[rising]) - p[rising] < top_p).sum())]),
            "the likeliest alone is kept": of(falling[:1]),
            "each word is compared by itself; it is the sum that reaches top_p": of(p >= top_p),
            "each word is compared by itself; it is the sum that reaches top_p ": of(p > 1 - top_p),
            "nothing was left out": p,
            "kept words are all alike; they keep their shares": (expected > 0) / kept,
            "softmax was taken of probabilities: divide by their sum": np.where(expected > 0, np.exp(p), 0)
            / np.exp(p[expected > 0]).sum(),
        }
        agree(nucleus(p.copy(), top_p), expected, f"{words} words with top_p = {top_p:.3f}", mistakes=mistakes)


@exercise(
    "def best_branches(scores, log_p, width):",
    "A beginning that goes on has the sum of both: `scores[:, None] + log_p`, (branches, words).",
    "`np.argsort(-sums, axis=None)[:width]` are places in the table; `np.unravel_index` gives rows and columns.",
)
def check_best_branches(best_branches):
    """One step of beam search. scores (branches,) are the log-probabilities of some beginnings, log_p (branches, words)
    those of each next word; NumPy arrays. The `width` likeliest beginnings that are a word longer, best first, as pairs
    (branch, word): (width, 2). Several may come from one branch."""
    for branches, words, width in ((2, 5, 2), (3, 7, 6), (5, 9, 7), (4, 8, 7)):
        logits = tt.random.randn(branches, words, dtype=tt.float64).numpy().copy()
        logits[0, int(tt.random.integers(2, words))] += 9.0  # it is nearly sure of its word, and too bad for that
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        scores = -2.0 - 0.3 * tt.random.rand(branches, dtype=tt.float64).numpy()
        scores[0] -= 9.0

        def pairs(sums, count=width):
            return np.stack(np.unravel_index(np.argsort(-sums, axis=None)[:count], sums.shape), axis=1)

        sums = scores[:, None] + log_p
        right = pairs(sums)
        of_each = np.stack([np.arange(branches), sums.argmax(axis=1)], axis=1)
        of_each = of_each[np.argsort(-sums.max(axis=1))]
        best = int(scores.argmax())
        mistakes = {
            "the scores of the beginnings are left out: add them": pairs(log_p),
            "each branch goes on once; several may come from one branch": of_each[:width],
            "each branch goes on once; several may come from one branch ": of_each,
            "the words of the best branch alone are looked at": np.stack(
                [np.full(width, best), np.argsort(-log_p[best])[:width]], axis=1
            ),
            "probabilities are added to log-probabilities": pairs(scores[:, None] + np.exp(log_p)),
            "the least likely come out; the largest sums are wanted": pairs(-sums),
            "the least likely come out, as with products: logarithms are added": pairs(scores[:, None] * log_p),
            "the best comes last; it is the first": right[::-1],
            "branch and word are exchanged": right[:, ::-1],
            "these are places in the table; expected pairs (branch, word)": right[:, 0] * words + right[:, 1],
            "these are the words; expected pairs (branch, word)": right[:, 1],
            "these are the log-probabilities; expected pairs (branch, word)": np.sort(sums, axis=None)[::-1][:width],
            "it is the likeliest alone": right[0],
        }
        what = f"{width} of {branches} branches with {words} words each"
        agree(best_branches(scores.copy(), log_p.copy(), width), right, what, mistakes=mistakes)
