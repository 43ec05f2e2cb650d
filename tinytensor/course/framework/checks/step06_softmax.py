"""Checks of step 6: softmax and its logarithm by report cards, and the loss against tinytensor's."""

import numpy as np
from step02_node import Value
from step04_broadcast import backward

import tinytensor as tt
from tinytensor.course.cards import card, expect_type, numbers
from tinytensor.models.scripts.exercises import agree, expect
from tinytensor.nn import functional as F


def compare(op, reference, what):
    """Values on two shapes and on large numbers, then the report card."""
    for x in (numbers(3, 5), numbers(2, 3, 4), np.array([[1000.0, 1001.0, 998.0], [-1e4, 0.0, 1.0]])):
        with np.errstate(all="ignore"):
            mistakes = {
                "along the wrong axis: the last one adds up to 1": reference(tt.asarray(x), dim=-2),
                "over all numbers at once: each row adds up to 1": reference(tt.asarray(x).flatten(), dim=0).reshape(
                    x.shape
                ),
            }
            case = f"{what} of numbers up to {x.max():.4g}"
            agree(op.forward(np, x), reference(tt.asarray(x), dim=-1), case, mistakes=mistakes)
    card(op, (numbers(3, 5),), (numbers(2, 3, 4),))


def check_softmax(softmax):
    """Along the last axis, without overflow; the rule is out * (g - sum of g * out)."""
    compare(softmax, F.softmax, "softmax")


def check_log_softmax(log_softmax):
    """x - max - log(sum(exp(x - max))); the rule is g - softmax * sum of g."""
    compare(log_softmax, F.log_softmax, "log_softmax")


def check_cross_entropy(cross_entropy):
    """The mean of -log p over what is no padding."""
    for pad, ids in ((0, [[2, 1, 0], [3, 0, 0]]), (4, [[2, 1, 0], [3, 4, 4]])):
        logits, ids = Value(numbers(2, 3, 5), wants=True), np.array(ids)
        loss = cross_entropy(logits, ids, pad)
        expect_type(loss, Value)
        theirs = tt.tensor(logits.data, requires_grad=True)
        expected = F.cross_entropy(theirs.reshape(-1, 5), tt.asarray(ids).reshape(-1), ignore_index=pad)
        expect(loss.data.size == 1, f"the loss has shape {loss.data.shape}; expected one number")
        case = f"for ids {ids.tolist()} and pad {pad}"
        logs, kept = F.log_softmax(theirs, dim=-1), ids != pad
        each = logs.numpy()[np.arange(2)[:, None], np.arange(3), ids]
        mistakes = {
            "padding is counted: leave out the ids that are `pad`": -each.sum() / kept.sum(),
            "padding is counted, in the sum and in the number": -each.mean(),
            "the sum is divided by the number of all ids, padding too": -(each * kept).sum() / kept.size,
            "it is the sum and not the mean": -(each * kept).sum(),
            "the minus is missing: log p is below 0": (each * kept).sum() / kept.sum(),
            "the logarithm is missing": -(np.exp(each) * kept).sum() / kept.sum(),
            "it leaves out id 0, whatever `pad` is": -(each * (ids != 0)).sum() / (ids != 0).sum(),
        }
        agree(loss.data.reshape(()), expected, f"the loss {case}", mistakes=mistakes)
        backward(loss)
        expected.backward()
        agree(logits.grad, theirs.grad, f"its gradient {case}")
