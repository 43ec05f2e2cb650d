"""4. Un-broadcasting: NumPy repeats an input to fit another; its gradient is the sum over all copies."""

import step03_walk
from step01_op import op


def unbroadcast(g, shape):
    """The gradient for an input of this shape, from `g` of the shape that NumPy has broadcast it to.

    Broadcasting puts axes in front, and repeats along axes of length 1.
    """
    return ...


def backward(result):
    """As in step 3, and each gradient has the shape of its value."""
    step03_walk.backward(result, fit=unbroadcast)


@op(x=lambda xp, g, shape: ...)
def total(xp, x, *, axis):
    """The sum over an axis, or over a tuple of them, which stay with length 1."""
    return xp.sum(x, axis=axis, keepdims=True)


def mean(x, axis):
    """The mean over one axis, which stays with length 1: a Value, from `total`."""
    return ...
