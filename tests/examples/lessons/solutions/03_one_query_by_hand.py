"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import numpy as np

import tinytensor as tt
from tinytensor.nn import functional as F


def attend(y, X, W_q, W_k, W_v):
    query, keys, values = y @ W_q, X @ W_k, X @ W_v
    return F.softmax(keys @ query / math.sqrt(len(query)), dim=0) @ values


def find(keys, j):
    return 50 * keys[j]


def attend__by_the_library(y, X, W_q, W_k, W_v):
    return F.scaled_dot_product_attention((y @ W_q)[None], X @ W_k, X @ W_v)[0]


def attend__word_by_word(y, X, W_q, W_k, W_v):
    query = y @ W_q
    powers = [math.exp((query @ (x @ W_k)).item() / len(query) ** 0.5) for x in X]
    return sum(power / sum(powers) * (x @ W_v) for power, x in zip(powers, X))


def attend__by_numpy(y, X, W_q, W_k, W_v):
    y, X, W_q, W_k, W_v = (part.numpy().astype("float64") for part in (y, X, W_q, W_k, W_v))
    weights = np.exp((y @ W_q) @ (X @ W_k).T / np.sqrt(W_q.shape[1]))
    return weights / weights.sum() @ (X @ W_v)


def find__list(keys, j):
    return tt.asarray([100.0 * number for number in keys[j].tolist()])


def find__numpy(keys, j):
    return 1000 * keys.numpy()[j]
