"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import tinytensor as tt
from tinytensor.nn import functional as F


def log_softmax_rule(g, out):
    return g - tt.exp(out) * g.sum(axis=-1, keepdims=True)


def value_gradient(weights, g):
    return weights.mT @ g


def log_softmax_rule__softmax(g, out):
    return g - F.softmax(out, dim=1) * tt.sum(g, axis=1)[:, None]


def log_softmax_rule__row_by_row(g, out):
    return tt.stack([g_row - row.exp() * g_row.sum() for g_row, row in zip(g, out)])


def value_gradient__einsum(weights, g):
    return tt.einsum("ts,td->sd", weights, g)


def value_gradient__query_by_query(weights, g):
    return sum(w[:, None] * row for w, row in zip(weights, g))


def value_gradient__by_autograd(weights, g):
    values = tt.tensor(tt.zeros((weights.shape[1], g.shape[1])), requires_grad=True)
    return tt.grad(weights @ values, [values], grad_outputs=[g])[0]
