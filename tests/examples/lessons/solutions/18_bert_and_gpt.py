import numpy as np

import tinytensor as tt


def hidden(source, target):
    n = source + target
    place = tt.arange(n)
    return (place[None] > place[:, None]) & (place[None] >= source)


def bert_input(ids, chosen, dice, other, mask):
    return np.where(chosen, np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids)), ids)
