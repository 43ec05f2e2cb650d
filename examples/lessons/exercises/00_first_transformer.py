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
    for batch, length, letters, pad in ((2, 3, 5, 0), (3, 4, 6, 2)):
        logits = 2 * tt.random.randn(batch, length, letters)
        target = (pad + 1 + tt.random.integers(0, letters - 1, (batch, length))) % letters
        target[0, 0], target[0, 1:] = int(pad == 0), pad
        target[1, -1] = pad

        def picked(x):
            return (x * tt.one_hot(target, letters)).sum(axis=-1)

        log_p, counts = picked(F.log_softmax(logits, dim=-1)), target != pad
        by_word = -(log_p * counts).sum(axis=1) / counts.sum(axis=1)
        total, count = -(log_p * counts).sum(), counts.sum()
        twice = picked(F.log_softmax(F.softmax(logits, dim=-1), dim=-1))
        mistakes = {
            "positions whose target is `pad` count, too; leave them out": -log_p.mean(),
            "it is the sum; divide by how many positions count": total,
            "it is divided by all positions; divide by those that count": total / target.size,
            "it is the mean of each word's mean; every letter counts alike": by_word.mean(),
            "the sign is turned round: a loss is −log p": -total / count,
            "log_softmax is missing: a logit is no log p yet": -(picked(logits) * counts).sum() / count,
            "softmax is taken twice: `F.cross_entropy` takes logits": -(twice * counts).sum() / count,
            "it leaves out the targets that are 0; padding is `pad`": -(log_p * (target != 0)).sum()
            / (target != 0).sum(),
        }
        what = f"the loss of {batch} words of up to {length} letters with pad = {pad}"
        agree(next_letter_loss(logits, target, pad), total / count, what, mistakes=mistakes)


@exercise(
    "def train_step(model, optimizer, loss_of):",
    "Four lines of the loop: the loss, `zero_grad`, `backward`, `step`. Which order?",
    "`backward` adds to the gradients that are there, so they have to go first.",
)
def check_train_step(train_step):
    """One step of training: `loss_of(model)` gives the loss; change the weights, and return the loss as a number."""
    for many, size in ((4, 2), (3, 5)):
        x, y = tt.random.randn(many, size), tt.random.randn(many, 1)
        model = nn.Linear(size, 1, bias=False)
        optimizer = nn.optim.SGD(model.parameters(), lr=0.05)

        def loss_of(model):
            return ((model(x) - y) ** 2).sum()

        def loss_and_gradient(weight):
            apart = x.numpy() @ weight.T - y.numpy()
            return (apart**2).sum(), 2 * apart.T @ x.numpy()

        before, earlier = model.weight.detach().numpy().copy(), 0.0
        for when in ("first", "second"):
            given = train_step(model, optimizer, loss_of)
            after = train_step.seen(lambda: model.weight)
            loss, gradient = loss_and_gradient(before)
            later = loss_and_gradient(before - 0.05 * gradient)
            late = {"it is the loss after the step; return the one that the gradient was of": later[0]}
            agree(given, loss, f"the loss of the {when} step", mistakes=late)
            after = after.numpy()
            still = "the weights are the same afterwards: is `backward` or `step` missing, or `zero_grad` between them?"
            expect(not np.array_equal(before, after), f"the {when} step: {still}")
            mistakes = {
                "the gradient of the step before is still in it: `zero_grad` comes before `backward`": before
                - 0.05 * (gradient + earlier),
                "it goes uphill: the loss grows": before + 0.05 * gradient,
                "it goes twice as far: `backward` twice adds the gradient twice": before - 0.1 * gradient,
                "it makes two steps": before - 0.05 * (gradient + later[1]),
                "it makes two steps with one gradient": before - 0.1 * gradient,
                "it steps with the gradient of the step before: `step` comes after `backward`": before - 0.05 * earlier,
            }
            agree(after, before - 0.05 * gradient, f"the weight after the {when} step", mistakes=mistakes)
            before, earlier = after, gradient
