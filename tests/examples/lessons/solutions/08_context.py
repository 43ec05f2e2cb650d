"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt


def best_head(weights, word, noun):
    return weights[:, word, noun].argmax()


def words_looked_at(weights):
    return tt.exp(-(weights * tt.log(tt.clip(weights, 1e-12))).sum(axis=-1))


def best_head__loop(weights, word, noun):
    found = [weights[head, word, noun].item() for head in range(len(weights))]
    return found.index(max(found))


def best_head__numpy(weights, word, noun):
    return np.argmax(weights.numpy()[:, word, noun])


def words_looked_at__numpy(weights):
    p = weights.numpy().astype("float64")
    return np.exp(-np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1))


def words_looked_at__power(weights):
    return 2 ** -(weights * tt.log2(weights + 1e-12)).sum(axis=-1)
