"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

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


def turned__pair_by_pair(x, position):
    out = np.zeros_like(x)
    for i in range(len(x) // 2):
        angle = position / 10000 ** (2 * i / len(x))
        c, s = np.cos(angle), np.sin(angle)
        out[2 * i : 2 * i + 2] = np.array([[c, -s], [s, c]]) @ x[2 * i : 2 * i + 2]
    return out


def turned__complex(x, position):
    z = (x[0::2] + 1j * x[1::2]) * np.exp(1j * position * 10000.0 ** (-np.arange(0, len(x), 2) / len(x)))
    return np.stack([z.real, z.imag], axis=1).ravel()


def grouped__head_by_head(q, k, v):
    found = []
    for i, query in enumerate(q):
        j = i * len(k) // len(q)
        scores = query @ k[j].T / q.shape[2] ** 0.5
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        found.append(weights / weights.sum(axis=1, keepdims=True) @ v[j])
    return found


def grouped__in_groups(q, k, v):
    q4 = q.reshape(len(k), -1, *q.shape[1:])
    weights = np.exp(np.einsum("gind,gmd->ginm", q4, k) / np.sqrt(q.shape[-1]))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("ginm,gmd->gind", weights, v).reshape(q.shape)
