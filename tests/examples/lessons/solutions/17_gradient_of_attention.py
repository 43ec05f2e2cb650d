import tinytensor as tt


def log_softmax_rule(g, out):
    return g - tt.exp(out) * g.sum(axis=-1, keepdims=True)


def value_gradient(weights, g):
    return weights.mT @ g
