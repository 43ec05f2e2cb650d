"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt


def hidden(source, target):
    n = source + target
    place = tt.arange(n)
    return (place[None] > place[:, None]) & (place[None] >= source)


def bert_input(ids, chosen, dice, other, mask):
    return np.where(chosen, np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids)), ids)


def hidden__blocks(source, target):
    n = source + target
    mask = np.triu(np.ones((n, n), dtype=bool), k=1)
    mask[:source, :source] = False
    return mask


def hidden__numbers(source, target):
    mask = tt.triu(tt.ones((source + target, source + target)), k=1)
    mask[:source, :source] = 0.0
    return mask


def hidden__entry_by_entry(source, target):
    n = source + target
    return [[j > i and j >= source for j in range(n)] for i in range(n)]


def bert_input__step_by_step(ids, chosen, dice, other, mask):
    read = ids.copy()
    read[chosen & (dice < 0.8)] = mask
    swapped = chosen & (dice >= 0.8) & (dice < 0.9)
    read[swapped] = other[swapped]
    return read


def bert_input__in_place(ids, chosen, dice, other, mask):
    ids[chosen & (dice < 0.8)] = mask
    return np.where(chosen & (dice >= 0.8) & (dice < 0.9), other, ids)
