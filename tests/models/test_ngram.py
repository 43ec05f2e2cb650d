"""Kneser-Ney smoothing: a distribution, by the formula, and better the more it may look at."""

from collections import Counter

import numpy as np
import pytest

from tinytensor.models.ngram import _discounts, log_probabilities


def by_hand(text, context, word, vocabulary, order):
    """The formula of the docstring, with dictionaries, of one word."""
    if order == 0:
        return 1 / vocabulary
    lower = by_hand(text, context[1:], word, vocabulary, order - 1)
    longest = len(context) == by_hand.longest
    grams = [tuple(text[i : i + order]) for i in range(len(text) - order + 1)]
    if not longest:
        longer = {tuple(text[i : i + order + 1]) for i in range(len(text) - order)}
        grams = [gram[1:] for gram in longer]
    counts = Counter(grams)
    d = _discounts(np.array(list(counts.values())))
    following = {gram: c for gram, c in counts.items() if gram[:-1] == tuple(context)}
    total = sum(following.values())
    if not total:
        return lower
    taken = sum(d[min(c, 3)] for c in following.values())
    c = following.get((*context, word), 0)
    return (c - d[min(c, 3)] + taken * lower) / total


def test_the_formula():
    text = np.random.default_rng(0).integers(0, 4, 300) ** 2 % 5
    by_hand.longest = 2
    for context in ([0, 1], [4, 4], [1, 0]):
        found = []
        for word in range(5):
            found.append(log_probabilities(text, np.array([*context, word]), 5, 3)[-1])
            expected = by_hand(text.tolist(), context, word, 5, 3)
            assert np.exp(found[-1]) == pytest.approx(expected, rel=1e-12)
        assert np.exp(found).sum() == pytest.approx(1)


def test_more_context_tells_more():
    rng = np.random.default_rng(1)
    words = [[1, 2, 3, 4, 5], [2, 1, 3, 5, 4], [5, 4, 3, 2, 1]]
    text = np.concatenate([words[i] for i in rng.integers(0, 3, 400)])
    losses = [-log_probabilities(text[:1500], text[1500:], 6, n).mean() for n in (1, 2, 3, 5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(np.log(3) / 5, abs=0.1)


def test_what_never_occurred_is_possible():
    text = np.zeros(50, dtype=np.int64)
    assert np.isfinite(log_probabilities(text, np.array([1, 2, 1]), 3)).all()
