"""3. Walk back: the chain rule, from a result to all that it was computed from, each value once."""

import numpy as np
from step02_node import gradients


def order(result):
    """The values that `result` was computed from and that want a gradient: a list.

    Each comes once and behind all of its parents; `result` is the last. A graph may be a hundred thousand values deep,
    and Python's functions call each other only a thousand deep.
    """
    return ...


def backward(result, fit=lambda g, shape: g):
    """Put the gradient of `result` with respect to each leaf that wants one into its `grad`; add it to what is there.

    `result` begins with a gradient of ones. What a rule gives for a parent is first passed through `fit(g, shape)` with
    the parent's shape; step 4 has a use for that. What arrives from several children adds up. Change no array that a
    rule has given: it may be the very array that others hold.
    """
    return ...
