"""Exercises of lesson 8: where heads look, and how evenly."""

import math

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def best_head(weights, word, noun):",
    "`weights[:, word, noun]` is one number for each head.",
    "The place of the largest number is its `argmax()`.",
)
def check_best_head(best_head):
    """The number of the head in which the word, a query, gives most weight to the noun, a key. `weights` is
    (head, query, key); `word` and `noun` are places in the sentence."""
    weights = F.softmax(3 * tt.random.randn(6, 9, 9), dim=-1)
    for word, noun in ((7, 2), (1, 8), (4, 4)):
        given = int(best_head(weights, word, noun))
        largest = weights[:, word, noun].max().item()
        expect(0 <= given < 6, f"head {given} is none of 0 to 5")
        expect(
            weights[given, word, noun].item() == largest,
            f"head {given} gives {weights[given, word, noun].item():.3f} from {word} to {noun}; another {largest:.3f}",
        )


@exercise(
    "def words_looked_at(weights):",
    "The entropy of a row of weights p is −Σ p log p: 0 for one word, log n for n words alike.",
    "exp of the entropy counts words. 0 log 0 is 0, but `tt.log(0)` is −inf: `tt.clip(weights, 1e-12)` before the log.",
)
def check_words_looked_at(words_looked_at):
    """How many words each query of each head looks at: exp of the entropy of its weights, (head, query), where
    `weights` is (head, query, key)."""
    one = tt.eye(4)[None]
    agree(words_looked_at(one), tt.ones((1, 4)), "a head in which every word looks at itself", 1e-3)
    agree(words_looked_at(tt.ones((2, 3, 5)) / 5), 5 * tt.ones((2, 3)), "two heads that look at 5 words alike", 1e-3)
    half = tt.asarray([[[0.5, 0.25, 0.25, 0.0]]])
    agree(words_looked_at(half), [[math.sqrt(8)]], "weights of 1/2, 1/4, 1/4 and 0", 1e-3)
