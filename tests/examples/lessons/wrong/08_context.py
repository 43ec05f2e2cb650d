"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import numpy as np

import tinytensor as tt


def best_head__exchanged(weights, word, noun):
    """word and noun are exchanged"""
    return weights[:, noun, word].argmax()


def best_head__smallest(weights, word, noun):
    """the smallest weights"""
    return weights[:, word, noun].argmin()


def best_head__the_weight(weights, word, noun):
    """these are weights; expected the numbers of heads"""
    return weights[:, word, noun].max()


def best_head__from_1(weights, word, noun):
    """heads are counted from 0"""
    return int(weights[:, word, noun].argmax()) + 1


def best_head__in_general(weights, word, noun):
    """the word looks at anything most"""
    return weights[:, word].max(axis=1).argmax()


def best_head__of_all(weights, word, noun):
    """look at one word and one noun"""
    return weights.argmax()


def best_head__all_weights(weights, word, noun):
    """has shape"""
    return weights[:, word, noun]


def log(weights):
    return tt.log(tt.clip(weights, 1e-12))


def words_looked_at__entropy(weights):
    """it is the entropy; exp of it counts words"""
    return -(weights * log(weights)).sum(axis=-1)


def words_looked_at__nan(weights):
    """0 log 0 is 0, and NaN comes out"""
    with np.errstate(all="ignore"):
        return tt.exp(-(weights * tt.log(weights)).sum(axis=-1))


def words_looked_at__power_of_2(weights):
    """exp undoes it, and not 2 to the power"""
    return 2 ** -(weights * log(weights)).sum(axis=-1)


def words_looked_at__log2(weights):
    """log2 needs 2 to the power"""
    return tt.exp(-(weights * log(weights) / math.log(2)).sum(axis=-1))


def words_looked_at__without_minus(weights):
    """the minus is missing"""
    return tt.exp((weights * log(weights)).sum(axis=-1))


def words_looked_at__all_that_are_seen(weights):
    """it counts all words with a weight"""
    return (weights > 0).sum(axis=-1)


def words_looked_at__over_queries(weights):
    """the sum is over the queries"""
    return tt.exp(-(weights * log(weights)).sum(axis=-2))


def words_looked_at__by_the_largest(weights):
    """it is 1 / the largest weight"""
    return 1 / weights.max(axis=-1)


def words_looked_at__by_squares(weights):
    """it is 1 / Σ p²"""
    return 1 / (weights**2).sum(axis=-1)


def words_looked_at__each_head(weights):
    """it is one number for each head"""
    return tt.exp(-(weights * log(weights)).sum(axis=-1)).mean(axis=-1)
