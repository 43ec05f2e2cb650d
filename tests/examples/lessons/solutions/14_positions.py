"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import numpy as np

import tinytensor as tt


def positional_encoding(length, d_model):
    speeds = 10000.0 ** (-tt.arange(0, d_model, 2, dtype=tt.float64) / d_model)
    angles = tt.arange(length, dtype=tt.float64)[:, None] * speeds
    return tt.stack([tt.sin(angles), tt.cos(angles)], axis=-1).reshape(length, d_model)


def shift_matrix(k, d_model):
    M = tt.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        c, s = (f(k / 10000 ** (i / d_model)) for f in (math.cos, math.sin))
        M[i : i + 2, i : i + 2] = tt.asarray([[c, s], [-s, c]])
    return M


def positional_encoding__entry_by_entry(length, d_model):
    angles = [[pos / 10000 ** (i // 2 * 2 / d_model) for i in range(d_model)] for pos in range(length)]
    return [[math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(row)] for row in angles]


def positional_encoding__in_float32(length, d_model):
    speeds = tt.exp(tt.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    encoding = tt.zeros((length, d_model))
    encoding[:, 0::2] = tt.sin(tt.arange(length)[:, None] * speeds)
    encoding[:, 1::2] = tt.cos(tt.arange(length)[:, None] * speeds)
    return encoding


def shift_matrix__numpy(k, d_model):
    M = np.zeros((d_model, d_model))
    angles = k * 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    even, odd = np.arange(0, d_model, 2), np.arange(1, d_model, 2)
    M[even, even] = M[odd, odd] = np.cos(angles)
    M[even, odd], M[odd, even] = np.sin(angles), -np.sin(angles)
    return M


def shift_matrix__solved(k, d_model):
    encoding = positional_encoding(50 + k, d_model).numpy()
    return np.linalg.lstsq(encoding[:50], encoding[k : 50 + k], rcond=None)[0].T
