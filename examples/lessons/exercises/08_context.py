"""Exercises of lesson 8: where heads look, and how evenly."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def best_head(weights, word, noun):",
    "`weights[:, word, noun]` is one number for each head.",
    "The place of the largest number is its `argmax()`.",
)
def check_best_head(best_head):
    """The number of the head in which the word, a query, gives most weight to the noun, a key. `weights` is
    (head, query, key); `word` and `noun` are places in the sentence."""
    for heads, words in ((6, 9), (5, 7)):
        weights = F.softmax(3 * tt.random.randn(heads, words, words), dim=-1)
        pairs = [(int(i), int(j)) for i, j in tt.random.permutation(words * words)[:8].reshape(4, 2) % words]
        pairs += [(0, words - 1), (words - 1, 1)]
        at = weights.numpy()

        def each(rule):
            return [rule(i, j) for i, j in pairs]

        given = each(lambda i, j: best_head(weights, i, j))
        mistakes = {
            "word and noun are exchanged: the query comes before the key": each(lambda i, j: at[:, j, i].argmax()),
            "these are the heads that give the smallest weights": each(lambda i, j: at[:, i, j].argmin()),
            "these are weights; expected the numbers of heads": each(lambda i, j: at[:, i, j].max()),
            "heads are counted from 0": each(lambda i, j: at[:, i, j].argmax() + 1),
            "these are words; expected the numbers of heads": each(lambda i, j: at[:, i].max(axis=0).argmax()),
            "these are the heads in which the word looks at anything most": each(
                lambda i, j: at[:, i].max(axis=1).argmax()
            ),
            "these are the heads in which anything looks at the noun most": each(
                lambda i, j: at[:, :, j].max(axis=1).argmax()
            ),
            "these are places in all of the matrix: look at one word and one noun": each(lambda i, j: at.argmax()),
        }
        expected = each(lambda i, j: at[:, i, j].argmax())
        agree(given, expected, f"the best of {heads} heads for the words and nouns {pairs}", mistakes=mistakes)


@exercise(
    "def words_looked_at(weights):",
    "The entropy of a row of weights p is −Σ p log p: 0 for one word, log n for n words alike.",
    "exp of the entropy counts words. 0 log 0 is 0, but `tt.log(0)` is −inf: `tt.clip(weights, 1e-12)` before the log.",
)
def check_words_looked_at(words_looked_at):
    """How many words each query of each head looks at: exp of the entropy of its weights, (head, query), where
    `weights` is (head, query, key)."""
    some = F.softmax(tt.random.randn(2, 3, 5), dim=-1)
    half = tt.asarray([[[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 1.0, 0.0]]])
    for weights, what in (
        (some, "two heads of three queries"),
        (half, "weights of 1/2, 1/4, 1/4 and 0, and of one word alone"),
        (tt.ones((2, 3, 6)) / 6, "two heads that look at 6 words alike"),
    ):
        p = weights.numpy().astype(np.float64)
        log = np.log(np.where(p > 0, p, 1.0))
        entropy = -(p * log).sum(axis=-1)
        nan = np.where((p == 0).any(axis=-1), np.nan, np.exp(entropy))
        mistakes = {
            "0 log 0 is 0, and NaN comes out: `tt.clip` the weights before the log": nan,
            "it is the entropy; exp of it counts words": entropy,
            "log is the natural one, so exp undoes it, and not 2 to the power": 2**entropy,
            "log2 needs 2 to the power, and not exp": np.exp(entropy / np.log(2)),
            "the minus is missing: the entropy is −Σ p log p": np.exp(-entropy),
            "it counts all words with a weight; small weights count less": (p > 0).sum(axis=-1),
            "it is 1 / Σ p²; expected exp of the entropy": 1 / (p**2).sum(axis=-1),
            "it is 1 / the largest weight; expected exp of the entropy": 1 / p.max(axis=-1),
            "the sum is over the queries; it is over the keys": np.exp(-(p * log).sum(axis=-2)),
            "p is missing in front of the log: −Σ p log p": np.exp(-log.sum(axis=-1)),
            "it is the mean over the keys; the entropy is their sum": np.exp(-(p * log).mean(axis=-1)),
            "it is one number for each head; expected one for each query": np.exp(entropy).mean(axis=-1),
        }
        agree(words_looked_at(weights), np.exp(entropy), what, 1e-3, mistakes)
