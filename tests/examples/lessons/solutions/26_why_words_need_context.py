"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import numpy as np

import tinytensor as tt
from tinytensor.nn import functional as F


def most_right(counts):
    return counts.max(axis=1).sum() / counts.sum()


def most_right__word_by_word(counts):
    right = read = 0
    for row in counts.tolist():
        right += sorted(row)[-1]
        read += sum(row)
    return right / read


def most_right__by_frequency(counts):
    frequency = counts.sum(axis=1) / counts.sum()
    return frequency @ (counts / counts.sum(axis=1, keepdims=True)).max(axis=1)


def most_right__by_mistakes(counts):
    answers = np.eye(counts.shape[1])[counts.argmax(axis=1)]
    return 1 - np.average(1 - answers, weights=counts)


def most_right__tensor(counts):
    shares = tt.asarray(counts / counts.sum())
    return tt.max(shares, axis=1).sum()


def in_context(vectors, i):
    return F.softmax(vectors @ vectors[i], dim=0) @ vectors


def in_context__by_the_library(vectors, i):
    return F.scaled_dot_product_attention(vectors[i : i + 1], vectors, vectors, scale=1.0)[0]


def in_context__all_then_one(vectors, i):
    return (F.softmax(vectors @ vectors.mT, dim=-1) @ vectors)[i]


def in_context__a_column(vectors, i):
    weights = F.softmax((vectors * vectors[i]).sum(axis=1, keepdims=True), dim=0)
    return (weights * vectors).sum(axis=0)


def in_context__word_by_word(vectors, i):
    rows = vectors.tolist()
    powers = [math.exp(sum(a * b for a, b in zip(row, rows[i]))) for row in rows]
    return [sum(p * row[k] for p, row in zip(powers, rows)) / sum(powers) for k in range(len(rows[i]))]


def in_context__numpy(vectors, i):
    vectors = vectors.numpy().astype(np.float64)
    powers = np.exp(vectors @ vectors[i])
    return powers @ vectors / powers.sum()
