"""Exercises of lesson 17: two rules."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def log_softmax_rule(g, out):",
    "out = s − log Σ exp(s), so ∂outᵢ/∂sⱼ = δᵢⱼ − pⱼ, where p = softmax(s) = exp(out).",
    "Sum g over the last dimension, with `keepdims=True`, and take p times that sum away from g.",
)
def check_log_softmax_rule(log_softmax_rule):
    """The gradient of the scores of `out = log_softmax(s)` over the last dimension, given g, the gradient of out."""
    for rows, columns in ((3, 4), (5, 2)):
        s, g = tt.random.randn(2, rows, columns, dtype=tt.float64)
        out = s - tt.logsumexp(s, axis=1, keepdims=True)
        p, total = tt.exp(out), g.sum(axis=1, keepdims=True)
        mistakes = {
            "this is softmax's rule; that of log_softmax is g − p Σ g": p * (g - (p * g).sum(axis=1, keepdims=True)),
            "the sum of g is missing: g − p Σ g": g - p,
            "g is not summed: g − p Σ g": g - p * g,
            "out is log p; p is exp(out)": g - out * total,
            "the sum is over the rows; it is over the last dimension": g - p * g.sum(axis=0, keepdims=True),
            "the sum is of everything; it is over the last dimension": g - p * g.sum(),
            "it is the mean of g; expected the sum": g - p * g.mean(axis=1, keepdims=True),
            "the sign of p Σ g is turned round": g + p * total,
            "the signs are turned round": p * total - g,
            "p is missing: g − p Σ g": g - total,
            "g alone is missing: ∂outᵢ/∂sⱼ is δᵢⱼ − pⱼ": -p * total,
            "it is g: the log Σ exp(s) has a gradient, too": g,
            "p is in the sum; it stands in front of it: g − p Σ g": g - (p * g).sum(axis=1, keepdims=True),
        }
        what = f"the gradient of {rows} x {columns} scores"
        agree(log_softmax_rule(g, out), g - p * total, what, mistakes=mistakes)


@exercise(
    "def value_gradient(weights, g):",
    "For one query, output = Σⱼ weightⱼ valueⱼ: the gradient of valueⱼ is weightⱼ times g.",
    "Every query adds its part: a matrix product, with the weights transposed.",
)
def check_value_gradient(value_gradient):
    """The gradient of the values (sources, d_v), given the weights (targets, sources) and g (targets, d_v), the
    gradient of the output weights @ values."""
    for targets, sources, d_v in ((4, 4, 3), (2, 3, 5), (5, 2, 4)):
        weights, g = tt.random.rand(targets, sources), tt.random.randn(targets, d_v)
        weights /= weights.sum(axis=1, keepdims=True)
        expected = weights.mT @ g
        mistakes = {
            "it is transposed: a row is a value": expected.mT,
            "it is the mean over the queries; their parts add up": expected / targets,
            "every query's g is added whole; its weight is missing": g.sum(axis=0) * tt.ones((sources, 1)),
            "weights and g are summed first; each query's weight meets its own g": weights.sum(axis=0)[:, None]
            * g.sum(axis=0),
            "the parts of the queries are not added: one is there for each query": weights.mT[:, :, None] * g,
            "the sign is turned round": -expected,
            "only the first query counts": weights[0][:, None] * g[0],
            "only the last query counts": weights[-1][:, None] * g[-1],
            "only the largest weight of each query counts": (
                weights * (weights == weights.max(axis=1, keepdims=True))
            ).mT
            @ g,
            "the weights are divided by their sums; they are used as they are": expected / weights.sum(axis=0)[:, None],
        }
        if targets == sources:
            mistakes["the weights are not transposed: a value gets a part from every query"] = weights @ g
        what = f"the gradient of {sources} values of length {d_v} from {targets} queries"
        agree(value_gradient(weights, g), expected, what, mistakes=mistakes)
