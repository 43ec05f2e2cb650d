import numpy as np


def turned(x, position):
    a, b = x[0::2], x[1::2]
    angle = position / 10000 ** (np.arange(0, len(x), 2) / len(x))
    pairs = [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)]
    return np.stack(pairs, axis=-1).reshape(-1)


def grouped(q, k, v):
    k, v = (np.repeat(part, len(q) // len(k), axis=0) for part in (k, v))
    weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return weights / weights.sum(axis=-1, keepdims=True) @ v
