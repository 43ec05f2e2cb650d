"""Exercises of lesson 0: the loss, and one step of the loop."""

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.exercises import agree, exercise, expect
from tinytensor.nn import functional as F


@exercise(
    "def next_letter_loss(logits, target, pad):",
    "`F.cross_entropy` takes logits of two dimensions, (many, letters), and a vector of as many targets.",
    "`reshape(-1, letters)` puts all positions one under the other; `ignore_index` leaves padding out.",
)
def check_next_letter_loss(next_letter_loss):
    """The mean cross-entropy of logits (batch, position, letter) and targets (batch, position), of all positions but
    those whose target is `pad`."""
    logits = tt.random.randn(2, 3, 5)
    target = tt.tensor([[1, 2, 0], [3, 0, 0]])
    rows = F.log_softmax(logits, dim=-1)
    expected = -(rows[0, 0, 1] + rows[0, 1, 2] + rows[1, 0, 3]) / 3
    agree(next_letter_loss(logits, target, 0), expected, "the loss of 2 words with 3 letters that count")


@exercise(
    "def train_step(model, optimizer, loss_of):",
    "Four lines of the loop: the loss, `zero_grad`, `backward`, `step`. Which order?",
    "`backward` adds to the gradients that are there, so they have to go first.",
)
def check_train_step(train_step):
    """One step of training: `loss_of(model)` gives the loss; change the weights, and return the loss as a number."""
    model = nn.Linear(2, 1, bias=False)
    optimizer = nn.optim.SGD(model.parameters(), lr=0.5)

    def loss_of(model):
        return (model(tt.tensor([[1.0, 2.0]])) ** 2).sum()

    weights, given = [model.weight.detach().numpy().copy()], []
    for _ in range(2):
        given.append(train_step(model, optimizer, loss_of))
        weights.append(model.weight.detach().numpy().copy())
    out = [float((w @ [1.0, 2.0])[0]) for w in weights]
    agree(given[0], out[0] ** 2, "the loss of the first step")
    expect(not np.array_equal(weights[0], weights[1]), "the weights are the same after the step")
    for number, when in ((0, "first"), (1, "second")):
        expected = weights[number] - 0.5 * 2 * out[number] * np.array([[1.0, 2.0]])
        agree(weights[number + 1], expected, f"the weight after the {when} step")
