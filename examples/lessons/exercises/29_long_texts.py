"""Exercises of lesson 29: the rotation of one vector, and heads that share keys and values."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def turned(x, position):",
    "The pairs are `a, b = x[0::2], x[1::2]`, and pair i turns by `position / 10000 ** (2 * i / len(x))`.",
    "A pair becomes a cos - b sin and a sin + b cos; they go back to the places of a and b.",
)
def check_turned(turned):
    """A query or key at a position, with rotary positions: elements 2i and 2i + 1 of the vector x, a NumPy array of
    even length d, turned by the angle position / 10000^(2i / d). A new array; x stays as it is."""
    for d, position in ((6, 3), (4, 7), (10, 0)):
        x = tt.random.randn(d, dtype=tt.float64).numpy().copy()
        i = np.arange(d // 2)

        def rotation(angles, a=x[0::2], b=x[1::2], sign=1):
            c, s = np.cos(angles), sign * np.sin(angles)
            return a * c - b * s, a * s + b * c

        def together(a, b):
            return np.stack([a, b], axis=-1).reshape(-1)

        angles = position / 10000.0 ** (2 * i / d)
        pairs = rotation(angles)
        halves = rotation(angles, x[: d // 2], x[d // 2 :])
        c, s = np.cos(angles), np.sin(angles)
        mistakes = {
            "elements i and i + d / 2 are pairs here; expected 2i and 2i + 1": np.concatenate(halves),
            "all first elements come first; they go back to the places of a and b": np.concatenate(pairs),
            "it turns the other way": together(*rotation(angles, sign=-1)),
            "the exponent is 2i / d; the 2 is missing": together(*rotation(position / 10000.0 ** (i / d))),
            "the 2 counts twice: if i goes 0, 2, 4, ..., the exponent is i / d": together(
                *rotation(position / 10000.0 ** (4 * i / d))
            ),
            "every pair turns by the same angle": together(*rotation(position + 0 * i)),
            "the position is missing: every position turns alike": together(*rotation(1 / 10000.0 ** (2 * i / d))),
            "positions are counted from 0": together(*rotation((position + 1) / 10000.0 ** (2 * i / d))),
            "angles are multiplied by 10000^(2i / d); divide": together(*rotation(position * 10000.0 ** (2 * i / d))),
            "the second of a pair is made of the new first one: keep the old": together(
                pairs[0], pairs[0] * s + x[1::2] * c
            ),
            "a minus is missing: a cos − b sin": together(x[0::2] * c + x[1::2] * s, pairs[1]),
            "the angle is added; a pair is turned": x + together(angles, angles),
            "sines and cosines are added: these are the paper's positions, and not a rotation": x + together(s, c),
            "the angles are in degrees; expected radians": together(*rotation(np.radians(angles))),
        }

        watched = turned.watched(x, position)
        agree(watched.result, together(*pairs), f"a vector of {d} numbers at position {position}", mistakes=mistakes)
        expect(not watched.changed, "x has changed: give a new array back")


@exercise(
    "def grouped(q, k, v):",
    "Head i of the queries meets head i // (h // kv) of the keys: neighbours share.",
    "`np.repeat(k, len(q) // len(k), axis=0)` puts the right head of keys beside each head of queries.",
    "Then it is softmax(q kᵀ / √d) v, for all heads at once: `q @ k.swapaxes(-1, -2)`.",
)
def check_grouped(grouped):
    """Grouped-query attention: q is (h, n, d), k and v are (kv, n, d), NumPy arrays, kv divides h, and neighbouring
    heads of queries share one of keys and values. The heads' results, (h, n, d); no mask."""
    for h, kv, n, d in ((4, 2, 3, 5), (6, 3, 4, 7), (4, 1, 5, 3), (3, 3, 2, 6)):
        q = tt.random.randn(h, n, d, dtype=tt.float64).numpy()
        k, v = tt.random.randn(2, kv, n, d, dtype=tt.float64).numpy()

        def attention(own, scale=d**-0.5, axis=-1, values=None):
            scores = np.exp(q @ k[own].swapaxes(-1, -2) * scale)
            return scores / scores.sum(axis=axis, keepdims=True) @ v[own if values is None else values]

        own = np.arange(h) // (h // kv)
        spread = np.arange(h) % kv
        mistakes = {
            "head i meets head i % kv of the keys; neighbours share, i // (h // kv)": attention(spread),
            "the keys are those of head i // (h // kv), and the values those of i % kv": attention(own, values=spread),
            "all heads meet the first head of keys": attention(0 * own),
            "the heads of the keys come in the reverse order": attention(own[::-1]),
            "the scores are not scaled: divide them by √d": attention(own, 1.0),
            "the scores are divided by d, not by its square root": attention(own, 1 / d),
            "the scores are divided by the root of all heads' d together": attention(own, (h * d) ** -0.5),
            "softmax is over the queries; it is over the keys": attention(own, axis=-2),
            "softmax is missing": q @ k[own].swapaxes(-1, -2) / d**0.5 @ v[own],
            "one head of each group came out; all h heads have a result": attention(own)[:: h // kv],
            "the keys and values are the mean of all heads": _shared(q, k, v, d),
        }
        what = f"{h} heads of queries, {kv} of keys and values"
        agree(grouped(q, k, v), attention(own), what, mistakes=mistakes)


def _shared(q, k, v, d):
    scores = np.exp(q @ k.mean(axis=0).T / d**0.5)
    return scores / scores.sum(axis=-1, keepdims=True) @ v.mean(axis=0)
