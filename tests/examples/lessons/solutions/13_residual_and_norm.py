"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / tt.sqrt(variance + eps) * weight + bias


def sublayer(x, f, norm, norm_first):
    return x + f(norm(x)) if norm_first else norm(x + f(x))


def layer_norm__by_methods(x, weight, bias, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return weight * x / (x.var(-1, correction=0, keepdims=True) + eps) ** 0.5 + bias


def layer_norm__row_by_row(x, weight, bias, eps=1e-5):
    rows = [(row - row.mean()) / tt.sqrt(((row - row.mean()) ** 2).mean() + eps) for row in x]
    return tt.stack(rows) * weight + bias


def layer_norm__numpy(x, weight, bias, eps=1e-5):
    x = x.numpy().astype("float64")
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return normed * weight.numpy() + bias.numpy()


def sublayer__with_an_if(x, f, norm, norm_first):
    if norm_first:
        return f(norm(x)) + x
    y = f(x)
    return norm(y + x)
