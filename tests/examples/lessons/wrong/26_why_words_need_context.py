"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np

import tinytensor as tt
from tinytensor.nn import functional as F


def most_right__words_alike(counts):
    """rare words count as much as frequent ones"""
    return (counts.max(axis=1) / counts.sum(axis=1)).mean()


def most_right__one_answer(counts):
    """all words get the same answer"""
    return counts.sum(axis=0).max() / counts.sum()


def most_right__guessed(counts):
    """it guesses"""
    return 1 / counts.shape[1]


def most_right__drawn(counts):
    """it draws a meaning as often as it occurs"""
    p = counts / counts.sum(axis=1, keepdims=True)
    return (p * counts).sum() / counts.sum()


def most_right__not_divided(counts):
    """divide by how many words were read"""
    return counts.max(axis=1).sum()


def most_right__over_words(counts):
    """over the number of words"""
    return counts.max(axis=1).sum() / len(counts)


def most_right__over_the_words(counts):
    """the maximum is over the words"""
    return counts.max(axis=0).sum() / counts.sum()


def most_right__one_maximum(counts):
    """it counts one word with one meaning"""
    return counts.max() / counts.sum()


def most_right__each_word(counts):
    """it is one share for each word"""
    return counts.max(axis=1) / counts.sum(axis=1)


def most_right__easiest(counts):
    """the word that is easiest"""
    return (counts / counts.sum(axis=1, keepdims=True)).max()


def most_right__mistakes(counts):
    """it is the share of mistakes"""
    return 1 - counts.max(axis=1).sum() / counts.sum()


def most_right__percent(counts):
    """it is in percent"""
    return 100 * counts.max(axis=1).sum() / counts.sum()


def most_right__meanings(counts):
    """these are the meanings"""
    return np.argmax(counts, axis=1)


def most_right__rarest(counts):
    """it names the rarest meaning"""
    return counts.min(axis=1).sum() / counts.sum()


def most_right__maximum_of_a_list(counts):
    """It raised"""
    return sum(max(counts)) / counts.sum()


def in_context__mean(vectors, i):
    """every word has the same weight"""
    return vectors.mean(axis=0)


def in_context__alone(vectors, i):
    """nothing was taken from other words"""
    return vectors[i]


def in_context__without_softmax(vectors, i):
    """softmax is missing"""
    return vectors @ vectors[i] @ vectors


def in_context__divided_by_the_sum(vectors, i):
    """the dot products are divided by their sum"""
    scores = vectors @ vectors[i]
    return scores / scores.sum() @ vectors


def in_context__powers(vectors, i):
    """the weights do not add up to 1"""
    return tt.exp(vectors @ vectors[i]) @ vectors


def in_context__the_best(vectors, i):
    """the word that fits best takes all"""
    return vectors[(vectors @ vectors[i]).argmax()]


def in_context__weights(vectors, i):
    """these are the weights"""
    return F.softmax(vectors @ vectors[i], dim=0)


def in_context__scores(vectors, i):
    """these are the dot products"""
    return vectors @ vectors[i]


def in_context__without_itself(vectors, i):
    """the word leaves itself out"""
    others = tt.concat([vectors[:i], vectors[i + 1 :]])
    return F.softmax(others @ vectors[i], dim=0) @ others


def in_context__added(vectors, i):
    """the word is added once more"""
    return vectors[i] + F.softmax(vectors @ vectors[i], dim=0) @ vectors


def in_context__cosine(vectors, i):
    """the cosine is taken"""
    return F.softmax(F.cosine_similarity(vectors, vectors[i], dim=1), dim=0) @ vectors


def in_context__scaled(vectors, i):
    """divided by √size"""
    return F.scaled_dot_product_attention(vectors[i : i + 1], vectors, vectors)[0]


def in_context__the_first(vectors, i):
    """the first word chooses"""
    return F.softmax(vectors @ vectors[0], dim=0) @ vectors


def in_context__the_last(vectors, i):
    """the last word chooses"""
    return F.softmax(vectors @ vectors[-1], dim=0) @ vectors


def in_context__wrong_axis(vectors, i):
    """all words choose how much they want of word i"""
    return (F.softmax(vectors @ vectors.mT, dim=0) @ vectors)[i]


def in_context__asked_by_all(vectors, i):
    """all words choose how much they want of word i"""
    return F.softmax(vectors @ vectors.mT, dim=1)[:, i] @ vectors


def in_context__all(vectors, i):
    """all words are here"""
    return F.softmax(vectors @ vectors.mT, dim=1) @ vectors


def in_context__one_at_a_time(vectors, i):
    """every weight is 1"""
    return (F.softmax((vectors @ vectors[i])[:, None], dim=1) * vectors).sum(axis=0)


def in_context__not_added(vectors, i):
    """the weighted vectors are not added up"""
    return F.softmax(vectors @ vectors[i], dim=0)[:, None] * vectors


def in_context__opposite(vectors, i):
    """words that fit least"""
    return F.softmax(-(vectors @ vectors[i]), dim=0) @ vectors


def in_context__row_times_row(vectors, i):
    """It raised"""
    return F.softmax(vectors[i] @ vectors, dim=0) @ vectors
