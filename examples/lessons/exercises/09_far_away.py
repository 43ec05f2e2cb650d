"""Exercises of lesson 9: a gradient by distance, and a gate that forgets slowly."""

import math

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def gradient_by_distance(last_output, x):",
    "Give `tt.tensor(x, requires_grad=True)` to the function, and ask `tt.grad(result.sum(), [words])`.",
    "The norm of each word's gradient is `tt.linalg.vector_norm(gradient, axis=-1)`; the last word is distance 0, so "
    "turn it round with `[::-1]`.",
)
def check_gradient_by_distance(gradient_by_distance):
    """The norms of the gradients of the sum of `last_output(x)` with respect to each word of x (length, d_model), the
    last word first: (length,)."""
    for kind, size, length in ((nn.RNN, 4, 6), (nn.GRU, 3, 7)):
        model, x = kind(size, size + 2), tt.random.randn(length, size)

        def last_output(x):
            return model(x)[0][-1]

        def gradient_of(reduced):
            words = tt.tensor(x, requires_grad=True)
            return tt.grad(reduced(last_output(words)), [words])[0]

        gradient = gradient_of(lambda out: out.sum())
        norms = tt.linalg.vector_norm(gradient, axis=-1)[::-1]
        mistakes = {
            "the first word comes first; expected the last one, which is distance 0": norms[::-1],
            "the root is missing: these are squares of norms": norms**2,
            "these are sums of |gradient|; a norm is the root of the sum of squares": abs(gradient).sum(axis=-1)[::-1],
            "these are the largest numbers of the gradients; expected norms": abs(gradient).max(axis=-1)[::-1],
            "these are sums of the gradients; expected norms": gradient.sum(axis=-1)[::-1],
            "these are means of the squares; a norm is the root of their sum": (gradient**2).mean(axis=-1)[::-1] ** 0.5,
            "it is the gradient of the mean; expected that of the sum": norms / (size + 2),
            "these are norms of the words; expected those of their gradients": tt.linalg.vector_norm(x, axis=-1)[::-1],
            "it is one norm for each feature; expected one for each word": tt.linalg.vector_norm(gradient, axis=0),
            "it is one norm of all; expected one for each word": tt.linalg.vector_norm(gradient),
            "these are gradients; expected their norms": gradient[::-1],
            "these are gradients, the first word first; expected their norms, the last word first": gradient,
            "it is the gradient of the sum of squares": tt.linalg.vector_norm(
                gradient_of(lambda out: (out**2).sum()), axis=-1
            )[::-1],
        }
        what = f"the norms for an {kind.__name__} and {length} words"
        agree(gradient_by_distance(last_output, x), norms, what, mistakes=mistakes)


@exercise(
    "def forget_bias(steps):",
    "After so many steps f^steps of the cell is left, so f = 0.5^(1 / steps).",
    "f = sigmoid(b), which b = log(f / (1 - f)) undoes.",
)
def check_forget_bias(forget_bias):
    """The bias b of a forget gate f = sigmoid(b) with which half of an LSTM's cell is left after `steps` steps."""
    many = [2 + int(i) for i in tt.random.permutation(90)[:3]]

    def biases(gate, back=lambda f: math.log(f / (1 - f))):
        return [back(gate(steps)) for steps in many]

    def right(steps):
        return 0.5 ** (1 / steps)

    mistakes = {
        "these are f; expected the b of f = sigmoid(b)": biases(right, lambda f: f),
        "the sign is turned round: b = log(f / (1 − f))": biases(right, lambda f: math.log((1 - f) / f)),
        "these are log f; sigmoid is undone by log(f / (1 − f))": biases(right, math.log),
        "these are −log(1 − f); sigmoid is undone by log(f / (1 − f))": biases(right, lambda f: -math.log(1 - f)),
        "these are sigmoid(f); expected what undoes sigmoid": biases(right, lambda f: 1 / (1 + math.exp(-f))),
        "f = 1 − 1 / steps leaves about 1/e; half is left with f = 0.5^(1 / steps)": biases(lambda n: 1 - 1 / n),
        "f = exp(−1 / steps) leaves 1/e; half is left with f = 0.5^(1 / steps)": biases(lambda n: math.exp(-1 / n)),
        "f = 1 − 0.5 / steps: what is forgotten multiplies, f^steps = 0.5": biases(lambda n: 1 - 0.5 / n),
        "f = 0.5^steps is what is left of a gate of 1/2; f^steps = 0.5": biases(
            lambda n: 0.5**n, lambda f: math.log(f / (1 - f)) if f < 1 else math.inf
        ),
        "log2 is not what undoes sigmoid; the natural log is": biases(right, lambda f: math.log2(f / (1 - f))),
        "nothing depends on steps: f = 0.5": [0.0] * 3,
    }
    agree([forget_bias(steps) for steps in many], biases(right), f"the biases for {many} steps", 1e-4, mistakes)
