"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def rotated(x, angles, sign=1):
    a, b = x[0::2], x[1::2]
    return a * np.cos(angles) - sign * b * np.sin(angles), sign * a * np.sin(angles) + b * np.cos(angles)


def together(pairs):
    return np.stack(pairs, axis=-1).reshape(-1)


def speeds(x, factor=2):
    return 10000.0 ** (-factor * np.arange(len(x) // 2) / len(x))


def turned__halves(x, position):
    """elements i and i + d / 2 are pairs here"""
    half = len(x) // 2
    a, b, angles = x[:half], x[half:], position * speeds(x)
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)])


def turned__not_put_back(x, position):
    """all first elements come first"""
    return np.concatenate(rotated(x, position * speeds(x)))


def turned__backwards(x, position):
    """it turns the other way"""
    return together(rotated(x, position * speeds(x), -1))


def turned__without_2(x, position):
    """the 2 is missing"""
    return together(rotated(x, position * speeds(x, 1)))


def turned__2_twice(x, position):
    """the 2 counts twice"""
    return together(rotated(x, position * speeds(x, 4)))


def turned__one_angle(x, position):
    """every pair turns by the same angle"""
    return together(rotated(x, position))


def turned__in_place(x, position):
    """x has changed"""
    x[0::2], x[1::2] = rotated(x, position * speeds(x))
    return x


def turned__new_first_one(x, position):
    """the second of a pair is made of the new first one"""
    x, angles = x.copy(), position * speeds(x)
    x[0::2] = x[0::2] * np.cos(angles) - x[1::2] * np.sin(angles)
    x[1::2] = x[0::2] * np.sin(angles) + x[1::2] * np.cos(angles)
    return x


def turned__without_minus(x, position):
    """a minus is missing"""
    a, b, angles = x[0::2], x[1::2], position * speeds(x)
    return together((a * np.cos(angles) + b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)))


def turned__added(x, position):
    """these are the paper's positions"""
    angles = position * speeds(x)
    return x + together((np.sin(angles), np.cos(angles)))


def attention(q, k, v, divisor=None, axis=-1):
    weights = np.exp(q @ k.swapaxes(-1, -2) / (divisor or np.sqrt(q.shape[-1])))
    return weights / weights.sum(axis=axis, keepdims=True) @ v


def repeated(q, k, v):
    return q, *(np.repeat(part, len(q) // len(part), axis=0) for part in (k, v))


def grouped__round_and_round(q, k, v):
    """neighbours share, i // (h // kv)"""
    return attention(q, *(np.tile(part, (len(q) // len(part), 1, 1)) for part in (k, v)))


def grouped__without_scale(q, k, v):
    """the scores are not scaled"""
    return attention(*repeated(q, k, v), 1.0)


def grouped__divided_by_d(q, k, v):
    """divided by d, not by its square root"""
    return attention(*repeated(q, k, v), q.shape[-1])


def grouped__first_head(q, k, v):
    """all heads meet the first head of keys"""
    return attention(q, k[:1], v[:1])


def grouped__values_round_and_round(q, k, v):
    """the values those of i % kv"""
    return attention(q, np.repeat(k, len(q) // len(k), axis=0), np.tile(v, (len(q) // len(v), 1, 1)))


def grouped__over_queries(q, k, v):
    """softmax is over the queries"""
    return attention(*repeated(q, k, v), axis=-2)


def grouped__without_softmax(q, k, v):
    """softmax is missing"""
    q, k, v = repeated(q, k, v)
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) @ v


def grouped__mean_of_heads(q, k, v):
    """the mean of all heads"""
    return attention(q, k.mean(axis=0), v.mean(axis=0))


def grouped__heads_of_keys(q, k, v):
    """one head of each group came out"""
    return attention(q[:: len(q) // len(k)], k, v)


def grouped__not_repeated(q, k, v):
    """It raised"""
    return attention(q, k, v)
