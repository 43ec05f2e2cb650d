import math

from tinytensor.nn import functional as F


def attend(y, X, W_q, W_k, W_v):
    query, keys, values = y @ W_q, X @ W_k, X @ W_v
    return F.softmax(keys @ query / math.sqrt(len(query)), dim=0) @ values


def find(keys, j):
    return 50 * keys[j]
