import math

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
