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
    x, w_1, b_1 = tt.random.randn(3, 4), tt.random.randn(4, 8), tt.random.randn(8)
    w_2, b_2 = tt.random.randn(8, 4), tt.random.randn(4)
    result, hidden = feed_forward(x, w_1, b_1, w_2, b_2), x @ w_1 + b_1
    if getattr(result, "shape", None) == x.shape:
        expect(abs(result - (hidden @ w_2 + b_2)).max() > 1e-4, "it is linear: max(0, ·) is missing")
        bent = tt.maximum(tt.maximum(hidden, 0.0) @ w_2 + b_2, 0.0)
        expect(abs(result - bent).max() > 1e-4, "it bends the result as well: only what is inside is bent")
    agree(result, tt.maximum(hidden, 0.0) @ w_2 + b_2, "the result at 3 positions")


@exercise(
    "def without_bend(w_1, b_1, w_2, b_2):",
    "Multiply out (x W₁ + b₁) W₂ + b₂: what stands beside x, and what is left without x?",
    "The weight is `w_1 @ w_2`; b₁ goes through W₂ as x does.",
)
def check_without_bend(without_bend):
    """The weight and the bias of the one linear map x W + b that (x W₁ + b₁) W₂ + b₂ is, as a pair."""
    w_1, b_1, w_2, b_2 = tt.random.randn(4, 8), tt.random.randn(8), tt.random.randn(8, 3), tt.random.randn(3)
    both = without_bend(w_1, b_1, w_2, b_2)
    expect(isinstance(both, (tuple, list)) and len(both) == 2, "expected a pair: the weight and the bias")
    agree(both[0], w_1 @ w_2, "the weight")
    agree(both[1], b_1 @ w_2 + b_2, "the bias")
