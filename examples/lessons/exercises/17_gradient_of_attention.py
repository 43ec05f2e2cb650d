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
    s = tt.tensor(tt.random.randn(3, 4, dtype=tt.float64), requires_grad=True)
    g = tt.random.randn(3, 4, dtype=tt.float64)
    out = s - tt.logsumexp(s, axis=1, keepdims=True)
    (expected,) = tt.grad(out, [s], grad_outputs=[g])
    agree(log_softmax_rule(g, out.detach()), expected, "the gradient of 3 x 4 scores")


@exercise(
    "def value_gradient(weights, g):",
    "For one query, output = Σⱼ weightⱼ valueⱼ: the gradient of valueⱼ is weightⱼ times g.",
    "Every query adds its part: a matrix product, with the weights transposed.",
)
def check_value_gradient(value_gradient):
    """The gradient of the values (sources, d_v), given the weights (targets, sources) and g (targets, d_v), the
    gradient of the output weights @ values."""
    weights, g = tt.random.rand(2, 3), tt.random.randn(2, 5)
    agree(value_gradient(weights, g), weights.mT @ g, "the gradient of 3 values of length 5")
