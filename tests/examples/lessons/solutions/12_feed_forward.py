"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt
from tinytensor.nn import functional as F


def feed_forward(x, w_1, b_1, w_2, b_2):
    return tt.maximum(x @ w_1 + b_1, 0.0) @ w_2 + b_2


def without_bend(w_1, b_1, w_2, b_2):
    return w_1 @ w_2, b_1 @ w_2 + b_2


def feed_forward__relu(x, w_1, b_1, w_2, b_2):
    return F.linear(F.relu(F.linear(x, w_1.mT, b_1)), w_2.mT, b_2)


def feed_forward__where(x, w_1, b_1, w_2, b_2):
    hidden = x @ w_1 + b_1
    return tt.where(hidden > 0, hidden, 0.0) @ w_2 + b_2


def feed_forward__numpy(x, w_1, b_1, w_2, b_2):
    x, w_1, b_1, w_2, b_2 = (part.numpy() for part in (x, w_1, b_1, w_2, b_2))
    return np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2


def without_bend__list(w_1, b_1, w_2, b_2):
    return [tt.matmul(w_1, w_2), (b_1[None] @ w_2)[0] + b_2]


def without_bend__by_trying(w_1, b_1, w_2, b_2):
    def layers(x):
        return (x @ w_1 + b_1) @ w_2 + b_2

    bias = layers(tt.zeros((len(w_1),)))
    return layers(tt.eye(len(w_1))) - bias, bias
