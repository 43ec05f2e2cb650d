"""Checks of step 4: gradients of what was repeated, and of sums."""

import numpy as np
from step02_node import Value

from tinytensor.course.cards import card, expect_type, numbers
from tinytensor.models.scripts.exercises import agree, expect


def check_unbroadcast(unbroadcast):
    """The sum over all copies, in the shape of the input."""
    shapes = [((5, 3), (5, 3)), ((4, 3), (3,)), ((2, 4, 3), (4, 1)), ((2, 3), ()), ((4, 5, 3), (4, 1, 3))]
    for before, after in shapes:
        g = numbers(*before)
        got, case = unbroadcast(g, after), f"{before} to {after}"
        expect(got is not ..., "the hole is still there")
        kept = "axes in front go, and axes of length 1 stay"
        expect(np.shape(got) == after, f"un-broadcasting {case} gives the shape {np.shape(got)}: {kept}")
        extra = len(before) - len(after)
        axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(after) if n == 1)
        mistakes = {"a copy is a way to the input, and ways add up: sum, not mean": g.mean(axis=axes).reshape(after)}
        agree(got, g.sum(axis=axes).reshape(after), f"un-broadcasting {case}", mistakes=mistakes)


def check_total(total):
    """Every term of a sum gets the gradient of the sum."""
    card(total, (numbers(3, 5),), reference=lambda x, axis: x.sum(axis=axis, keepdims=True), axis=-1)
    card(total, (numbers(2, 3, 4),), axis=(0, 2))


def check_mean(mean):
    """The mean over an axis, and its gradient."""
    backward = mean.__globals__["backward"]
    for axis in (-1, 0, 1):
        x = Value(numbers(2, 3, 5), wants=True)
        result = mean(x, axis)
        expect_type(result, Value)
        sums = x.data.sum(axis=axis, keepdims=True)
        mistakes = {f"it is divided by {n}: how many numbers does the axis have?": sums / n for n in (30, 2, 3, 5)}
        case = f"the mean of an array (2, 3, 5) over axis {axis}"
        agree(result.data, sums / x.data.shape[axis], case, mistakes=mistakes)
        backward(result)
        agree(x.grad, np.full(x.data.shape, 1 / x.data.shape[axis]), f"the gradient of the mean over axis {axis}")
