"""Exercises of lesson 20: the norm that leaves the mean, and the gated feed-forward network."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def rms_norm(x, weight, eps):",
    "Each position has its own length: mean over the last axis, and keep that axis (`keepdims=True`).",
    "`x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight`.",
)
def check_rms_norm(rms_norm):
    """RMSNorm: x / √(mean(x²) + eps) · weight. x is (n, d), the mean is over the d features of each position, and
    weight is (d,); NumPy arrays. A new array; x stays as it is."""
    for n, d, eps in ((3, 5, 0.5), (4, 7, 0.3), (2, 6, 0.8)):
        x = 0.5 + tt.random.randn(n, d, dtype=tt.float64).numpy().copy()
        weight = 0.5 + tt.random.rand(d, dtype=tt.float64).numpy()
        squares = (x * x).mean(axis=-1, keepdims=True)
        centred = x - x.mean(axis=-1, keepdims=True)
        right = x / np.sqrt(squares + eps) * weight
        mistakes = {
            "the mean is taken away first, as in layer norm; here it stays": centred
            / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
            * weight,
            "it is divided by the spread around the mean; expected the root of the mean square": x
            / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
            * weight,
            "all positions share one mean; each has its own": x / np.sqrt((x * x).mean() + eps) * weight,
            "the mean is over the positions; it is over the features of each": x
            / np.sqrt((x * x).mean(axis=0) + eps)
            * weight,
            "the squares are added up; expected their mean": x
            / np.sqrt((x * x).sum(axis=-1, keepdims=True) + eps)
            * weight,
            "the root is missing": x / (squares + eps) * weight,
            "eps is missing": x / np.sqrt(squares) * weight,
            "eps is added to the root; expected below the root": x / (np.sqrt(squares) + eps) * weight,
            "eps is squared": x / np.sqrt(squares + eps**2) * weight,
            "the weight is missing": x / np.sqrt(squares + eps),
            "the weight is added; expected a product": x / np.sqrt(squares + eps) + weight,
            "it is multiplied by the root; divide": x * np.sqrt(squares + eps) * weight,
            "absolute values are averaged; expected squares, and the root of their mean": x
            / (np.abs(x).mean(axis=-1, keepdims=True) + eps)
            * weight,
        }
        watched = rms_norm.watched(x, weight, eps)
        agree(watched.result, right, f"{n} positions of {d} features, eps = {eps}", mistakes=mistakes)
        expect(not watched.changed, "an argument has changed: give a new array back")


@exercise(
    "def swiglu(x, w, v, out):",
    "silu(a) = a · sigmoid(a) = a / (1 + e⁻ᵃ).",
    "The gate and what it lets through: `silu(x @ w) * (x @ v)`; then `@ out`.",
)
def check_swiglu(swiglu):
    """The gated feed-forward network: (silu(x w) ⊙ x v) out, with silu(a) = a · sigmoid(a). x is (n, d), w and v are
    (d, f), out is (f, d); NumPy arrays, no biases. The result is (n, d)."""
    for n, d, f in ((3, 4, 6), (2, 5, 3), (5, 3, 7)):
        x = tt.random.randn(n, d, dtype=tt.float64).numpy()
        w, v = tt.random.randn(2, d, f, dtype=tt.float64).numpy()
        out = tt.random.randn(f, d, dtype=tt.float64).numpy()
        a, b = x @ w, x @ v

        def sigmoid(z):
            return 1 / (1 + np.exp(-z))

        right = (a * sigmoid(a) * b) @ out
        mistakes = {
            "w and v are interchanged: silu is of x w": (b * sigmoid(b) * a) @ out,
            "the gate is a sigmoid alone (that is GLU); silu(a) is a · sigmoid(a)": (sigmoid(a) * b) @ out,
            "the gate is missing: x v goes through as it is": b @ out,
            "v is missing: that is a plain network with silu": (a * sigmoid(a)) @ out,
            "the two maps are added; the gate multiplies": (a * sigmoid(a) + b) @ out,
            "the gate is relu (that is ReGLU); expected silu": (np.maximum(a, 0) * b) @ out,
            "the gate is tanh; expected silu": (np.tanh(a) * b) @ out,
            "silu is of the product; expected of x w alone": (a * b * sigmoid(a * b)) @ out,
            "silu is of both maps; only x w is the gate": (a * sigmoid(a) * b * sigmoid(b)) @ out,
            "sigmoid has the other sign: it is 1 / (1 + e⁻ᵃ)": (a * sigmoid(-a) * b) @ out,
            "nothing is bent: silu is missing": (a * b) @ out,
        }
        agree(swiglu(x, w, v, out), right, f"{n} positions of {d} features, {f} inside", mistakes=mistakes)
