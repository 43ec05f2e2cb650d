"""Checks of step 11: the learning rate over the steps, and two steps of training."""

import numpy as np
from step02_node import Value
from step04_broadcast import backward
from step05_products import reshape
from step06_softmax import cross_entropy, one_hot
from step10_adam import Adam

from tinytensor.course.cards import numbers
from tinytensor.models.data.batch import Batch
from tinytensor.models.scripts.exercises import agree, expect

BATCH = Batch(np.array([[3, 2]]), np.array([[1, 4, 3]]), np.array([[4, 3, 2]]))


class Guess:
    """A model of one matrix, from the target so far to the next id; its `pad` is no 0."""

    def __init__(self):
        self.pad, self.parameters = 3, {"w": Value(numbers(5, 5), wants=True)}

    def __call__(self, source, target):
        ids = target + (source.sum() == 5) * 0
        return reshape(Value(one_hot(ids, 5)) @ self.parameters["w"], to=(*ids.shape, 5))


def check_pace(pace):
    """Two lines, one climbs and one falls to 0: at each step the lower one counts."""
    for step, steps in ((0, 400), (1, 400), (30, 400), (49, 400), (150, 400), (399, 400), (40, 60), (59, 60)):
        climbed, fallen = (step + 1) / 50, 1 - step / steps
        mistakes = {
            "the first step is step 0, and has a rate of 1 / WARM_UP": min(step / 50, fallen),
            "the falling line begins at step 0; the lower of both counts": min(climbed, 1 - (step - 50) / steps),
            "the smaller of the two counts": max(climbed, fallen),
        }
        agree(pace(step, steps), min(climbed, fallen), f"the pace of step {step} of {steps}", mistakes=mistakes)


def check_train_step(train_step):
    """Loss, gradient, step; and the next step begins without the gradients of the last."""
    ours, theirs = Guess(), Guess()
    optimizer, reference = Adam(ours.parameters, 0.1), Adam(theirs.parameters, 0.1)
    for step in (1, 2, 3):
        before = Guess()
        before.parameters["w"].data = theirs.parameters["w"].data.copy()
        loss = train_step(ours, optimizer, BATCH)
        expect(loss is not ..., "the hole is still there")
        expected = cross_entropy(theirs(BATCH.source, BATCH.target_in), BATCH.target_out, theirs.pad)
        theirs.parameters["w"].grad = None
        backward(expected)
        reference.step()
        expect(isinstance(loss, float), f"the loss has type {type(loss).__name__}; expected a float")
        other = {
            "it is to say `target_out`, not what it was given": (BATCH.target_in, BATCH.target_in, 3),
            "the model is given `target_in`: `target_out` is the answer": (BATCH.target_out, BATCH.target_out, 3),
            "padding is `model.pad`": (BATCH.target_in, BATCH.target_out, 0),
        }
        mistakes = {
            said: cross_entropy(before(BATCH.source, x), y, pad).data.sum() for said, (x, y, pad) in other.items()
        }
        agree(loss, expected.data.sum(), f"the loss of step {step}", mistakes=mistakes)
        mistakes = {
            "they do not move: the gradient has to be there when the optimiser steps": before.parameters["w"].data
        }
        after = ours.parameters["w"].data, theirs.parameters["w"].data
        case = f"the weights after step {step}{', which must not know the gradient of the step before' * (step > 1)}"
        agree(*after, case, mistakes=mistakes)
