"""Exercises of lesson 12: the formula, and what is left of it without the bend."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def feed_forward(x, w_1, b_1, w_2, b_2):",
    "`tt.maximum(..., 0.0)` is max(0, ·), element by element.",
    "A bias is added to each row; b₂ comes after the second product and is not bent.",
)
def check_feed_forward(feed_forward):
    """max(0, x W₁ + b₁) W₂ + b₂ (section 3.3) of x, (length, d_model), with W₁, (d_model, d_ff), and W₂, (d_ff,
    d_model)."""
    for length, d_model, d_ff in ((3, 4, 8), (5, 3, 7)):
        x, w_1, b_1 = tt.random.randn(length, d_model), tt.random.randn(d_model, d_ff), tt.random.randn(d_ff)
        w_2, b_2 = tt.random.randn(d_ff, d_model), tt.random.randn(d_model)
        hidden = x @ w_1 + b_1
        bent = tt.maximum(hidden, 0.0)
        expected = bent @ w_2 + b_2
        mistakes = {
            "it is linear: max(0, ·) is missing": hidden @ w_2 + b_2,
            "it bends the result as well: only what is inside is bent": tt.maximum(expected, 0.0),
            "it bends the result; what is inside is bent": tt.maximum(hidden @ w_2 + b_2, 0.0),
            "b₂ is missing": bent @ w_2,
            "b₁ is missing": tt.maximum(x @ w_1, 0.0) @ w_2 + b_2,
            "both biases are missing": tt.maximum(x @ w_1, 0.0) @ w_2,
            "b₁ is added after max(0, ·); it is bent, too": (tt.maximum(x @ w_1, 0.0) + b_1) @ w_2 + b_2,
            "b₂ is bent, too": tt.maximum(bent @ w_2, 0.0) + b_2,
            "x is added: the residual connection is not in the formula": expected + x,
            "it is min(0, ·)": tt.minimum(hidden, 0.0) @ w_2 + b_2,
            "it is |·|; expected max(0, ·)": abs(hidden) @ w_2 + b_2,
            "it is tanh; expected max(0, ·)": tt.tanh(hidden) @ w_2 + b_2,
            "each position has the largest number of all: `tt.maximum` goes element by element": tt.maximum(
                hidden.max(axis=-1, keepdims=True), 0.0
            )
            * tt.ones(hidden.shape)
            @ w_2
            + b_2,
            "W₂ is missing: it is the hidden layer": bent,
        }
        what = f"the result at {length} positions with d_model {d_model} and d_ff {d_ff}"
        agree(feed_forward(x, w_1, b_1, w_2, b_2), expected, what, mistakes=mistakes)


@exercise(
    "def without_bend(w_1, b_1, w_2, b_2):",
    "Multiply out (x W₁ + b₁) W₂ + b₂: what stands beside x, and what is left without x?",
    "The weight is `w_1 @ w_2`; b₁ goes through W₂ as x does.",
)
def check_without_bend(without_bend):
    """The weight and the bias of the one linear map x W + b that (x W₁ + b₁) W₂ + b₂ is, as a pair."""
    for d_in, d_ff, d_out in ((4, 8, 3), (3, 6, 2)):
        w_1, b_1 = tt.random.randn(d_in, d_ff), tt.random.randn(d_ff)
        w_2, b_2 = tt.random.randn(d_ff, d_out), tt.random.randn(d_out)
        both = without_bend(w_1, b_1, w_2, b_2)
        expect(isinstance(both, (tuple, list)) and len(both) == 2, "expected a pair: the weight and the bias")
        mistakes = {
            "it is the bias; the weight comes first": b_1 @ w_2 + b_2,
            "it is transposed: x stands on the left of it": (w_1 @ w_2).mT,
            "max(0, ·) is in it; without the bend it is W₁ W₂": tt.maximum(w_1, 0.0) @ w_2,
        }
        agree(both[0], w_1 @ w_2, "the weight", mistakes=mistakes)
        mistakes = {
            "b₁ is missing: it goes through W₂ as x does": b_2,
            "b₂ is missing": b_1 @ w_2,
            "it is the weight; expected the bias": w_1 @ w_2,
            "it is b₁": b_1,
            "b₂ is taken away; it is added": b_1 @ w_2 - b_2,
            "it has max(0, ·) in it": tt.maximum(b_1, 0.0) @ w_2 + b_2,
        }
        agree(both[1], b_1 @ w_2 + b_2, "the bias", mistakes=mistakes)
