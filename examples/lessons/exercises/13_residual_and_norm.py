"""Exercises of lesson 13: layer norm, and the two places for it."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def layer_norm(x, weight, bias, eps=1e-5):",
    "Mean and variance are those of each position: over `axis=-1`, with `keepdims=True`.",
    "The variance is divided by n, not by n − 1: the mean of (x − μ)². eps is added to it, within the root.",
)
def check_layer_norm(layer_norm):
    """(x − μ) / √(σ² + eps) * weight + bias of x, (length, d_model), with a μ and a σ² for each position. Do it without
    `F.layer_norm`."""
    x = tt.random.randn(3, 4) * tt.asarray([[0.01], [1.0], [100.0]]) + 2.0
    weight, bias = tt.random.randn(4), tt.random.randn(4)
    result = layer_norm(x, weight, bias)
    if getattr(result, "shape", None) == x.shape:
        alone = layer_norm(x[:1], weight, bias)
        expect(
            abs(result[0] - alone[0]).max() < 1e-4,
            "the first position has another result alone than beside others: each has a mean and a variance of its own",
        )
    agree(result, F.layer_norm(x, (4,), weight, bias), "the norm of 3 positions, one of them small", tolerance=1e-4)


@exercise(
    "def sublayer(x, f, norm, norm_first):",
    "In the paper the norm is the last thing that happens: `norm(x + f(x))`.",
    "With norm_first the x that is added is the one that was not normalised.",
)
def check_sublayer(sublayer):
    """The result of a sub-layer f with its residual connection: with norm_first=False as in section 3.1 of the paper,
    or else with the norm before the sub-layer. f and norm are functions."""
    x, weight = tt.random.randn(3, 4) + 1.0, tt.random.randn(4, 4)

    def f(x):
        return tt.maximum(x @ weight, 0.0)

    def norm(x):
        return F.layer_norm(x, (4,))

    agree(sublayer(x, f, norm, False), norm(x + f(x)), "with norm_first=False, the result at 3 positions")
    before = sublayer(x, f, norm, True)
    if getattr(before, "shape", None) == x.shape:
        expect(abs(before - norm(x) - f(norm(x))).max() > 1e-4, "with norm_first=True, what is added is x, not norm(x)")
    agree(before, x + f(norm(x)), "with norm_first=True, the result at 3 positions")
