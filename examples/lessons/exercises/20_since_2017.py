"""Exercises of lesson 20: the rotation of one vector, and heads that share keys and values."""

import numpy as np

from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def turned(x, position):",
    "The pairs are `a, b = x[0::2], x[1::2]`, and pair i turns by `position / 10000 ** (2 * i / len(x))`.",
    "A pair becomes a cos - b sin and a sin + b cos; they go back to where a and b stood.",
)
def check_turned(turned):
    """A query or key at a position, with rotary positions: elements 2i and 2i + 1 of the vector x, a NumPy array of
    even length d, turned by the angle position / 10000^(2i / d). A new array; x stays as it is."""
    x = np.array([1.0, 0.0, 3.0, 4.0])
    agree(turned(x.copy(), 0), x, "a vector at position 0")
    expected = [np.cos(2), np.sin(2), 3 * np.cos(0.02) - 4 * np.sin(0.02), 3 * np.sin(0.02) + 4 * np.cos(0.02)]
    agree(turned(x.copy(), 2), expected, "[1, 0, 3, 4] at position 2")
    q, k = np.random.default_rng(0).normal(size=(2, 8))
    agree(turned(q, 9) @ turned(k, 4), turned(q, 25) @ turned(k, 20), "the score 5 positions apart, here and there")


@exercise(
    "def grouped(q, k, v):",
    "Head i of the queries meets head i // (h // kv) of the keys: neighbours share.",
    "`np.repeat(k, len(q) // len(k), axis=0)` puts the right head of keys beside each head of queries.",
    "Then it is softmax(q kᵀ / √d) v, for all heads at once: `q @ k.swapaxes(-1, -2)`.",
)
def check_grouped(grouped):
    """Grouped-query attention: q is (h, n, d), k and v are (kv, n, d), NumPy arrays, kv divides h, and neighbouring
    heads of queries share one of keys and values. The heads' results, (h, n, d); no mask."""
    rng = np.random.default_rng(0)
    for kv in (4, 2, 1):
        q, k, v = rng.normal(size=(4, 3, 5)), rng.normal(size=(kv, 3, 5)), rng.normal(size=(kv, 3, 5))
        expected = []
        for i in range(4):
            scores = np.exp(q[i] @ k[i * kv // 4].T / np.sqrt(5))
            expected.append(scores / scores.sum(axis=-1, keepdims=True) @ v[i * kv // 4])
        agree(grouped(q, k, v), expected, f"4 heads of queries, {kv} of keys and values")
