"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def swiglu(x, w, v, out):
    gate = x @ w
    return (gate / (1 + np.exp(-gate)) * (x @ v)) @ out


def rms_norm__row_by_row(x, weight, eps):
    return np.array([row * weight * (row @ row / len(row) + eps) ** -0.5 for row in x])


def rms_norm__length(x, weight, eps):
    d = x.shape[1]
    return x * weight / np.sqrt(np.linalg.norm(x, axis=1)[:, None] ** 2 / d + eps)


def rms_norm__layer(x, weight, eps):
    norm = nn.RMSNorm(len(weight), eps=eps).double()
    norm.load_state_dict({"weight": tt.asarray(weight)})
    return norm(tt.asarray(x)).detach().numpy()


def swiglu__word_by_word(x, w, v, out):
    found = []
    for word in x:
        gate = word @ w
        found.append((gate * np.exp(gate) / (1 + np.exp(gate)) * (word @ v)) @ out)
    return np.stack(found)


def swiglu__one_product(x, w, v, out):
    both = x @ np.concatenate([w, v], axis=1)
    gate, open_to = np.split(both, 2, axis=1)
    return F.silu(tt.asarray(gate)).numpy() * open_to @ out
