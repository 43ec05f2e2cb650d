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
    rnn, x = nn.RNN(4, 4), tt.random.randn(5, 4)
    words = tt.tensor(x, requires_grad=True)
    (gradient,) = tt.grad(rnn(words)[0][-1].sum(), [words])
    norms = tt.linalg.vector_norm(gradient, axis=-1)[::-1]
    agree(gradient_by_distance(lambda x: rnn(x)[0][-1], x), norms, "the norms for an RNN and 5 words")


@exercise(
    "def forget_bias(steps):",
    "After so many steps f^steps of the cell is left, so f = 0.5^(1 / steps).",
    "f = sigmoid(b), which b = log(f / (1 - f)) undoes.",
)
def check_forget_bias(forget_bias):
    """The bias b of a forget gate f = sigmoid(b) with which half of an LSTM's cell is left after `steps` steps."""
    for steps in (1, 10, 100):
        f = 0.5 ** (1 / steps)
        agree(forget_bias(steps), math.log(f / (1 - f)), f"the bias for {steps} steps", tolerance=1e-4)
