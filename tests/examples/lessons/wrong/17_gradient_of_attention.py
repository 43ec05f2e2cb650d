"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt


def log_softmax_rule__of_softmax(g, out):
    """this is softmax's rule"""
    p = tt.exp(out)
    return p * (g - (p * g).sum(axis=-1, keepdims=True))


def log_softmax_rule__without_sum(g, out):
    """the sum of g is missing"""
    return g - tt.exp(out)


def log_softmax_rule__element_by_element(g, out):
    """g is not summed"""
    return g - tt.exp(out) * g


def log_softmax_rule__out_for_p(g, out):
    """out is log p; p is exp(out)"""
    return g - out * g.sum(axis=-1, keepdims=True)


def log_softmax_rule__over_rows(g, out):
    """the sum is over the rows"""
    return g - tt.exp(out) * g.sum(axis=0, keepdims=True)


def log_softmax_rule__of_everything(g, out):
    """the sum is of everything"""
    return g - tt.exp(out) * g.sum()


def log_softmax_rule__mean(g, out):
    """it is the mean of g"""
    return g - tt.exp(out) * g.mean(axis=-1, keepdims=True)


def log_softmax_rule__plus(g, out):
    """the sign of p Σ g is turned round"""
    return g + tt.exp(out) * g.sum(axis=-1, keepdims=True)


def log_softmax_rule__without_p(g, out):
    """p is missing"""
    return g - g.sum(axis=-1, keepdims=True)


def log_softmax_rule__g_alone(g, out):
    """it is g"""
    return g


def log_softmax_rule__without_keepdims(g, out):
    """It raised"""
    return g - tt.exp(out) * g.sum(axis=-1)


def value_gradient__not_transposed(weights, g):
    """the weights are not transposed"""
    return weights @ g


def value_gradient__transposed(weights, g):
    """it is transposed: a row is a value"""
    return g.mT @ weights


def value_gradient__mean(weights, g):
    """it is the mean over the queries"""
    return weights.mT @ g / len(g)


def value_gradient__without_weights(weights, g):
    """every query's g is added whole"""
    return tt.ones(weights.mT.shape) @ g


def value_gradient__summed_first(weights, g):
    """weights and g are summed first"""
    return weights.sum(axis=0)[:, None] * g.sum(axis=0)


def value_gradient__not_added(weights, g):
    """the parts of the queries are not added"""
    return weights.mT[:, :, None] * g


def value_gradient__first_query(weights, g):
    """only the first query counts"""
    return weights[0][:, None] * g[0]


def value_gradient__sign(weights, g):
    """the sign is turned round"""
    return -weights.mT @ g


def value_gradient__normed(weights, g):
    """the weights are divided by their sums"""
    return (weights / weights.sum(axis=0)).mT @ g
