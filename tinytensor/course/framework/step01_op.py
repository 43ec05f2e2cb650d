"""1. Op and rule: a function of arrays, and for each input a rule that carries a gradient back.

A rule gets `g`, the gradient of the loss with respect to the op's result, and gives the gradient with respect to its
input. Its further arguments say what else it reads: inputs and parameters by name, `out` (the result of the op), and
`shape` (of its input). `xp` is NumPy here. A rule calls `xp.exp`, not `np.exp`: another library can then compute it.
"""

import numpy as np


class Op:
    """A function such as `forward(xp, x, y, *, axis)`, inputs before parameters; and its rules, by the inputs."""

    def __init__(self, forward, rules):
        self.name, self.forward, self.rules = forward.__name__, forward, rules
        self.inputs = forward.__code__.co_varnames[1 : forward.__code__.co_argcount]

    def gradient(self, name, g, inputs, out, parameters):
        """The gradient with respect to the input `name`: its rule, called with xp, g and what else it reads.

        `inputs` are the arrays in the order of `self.inputs`, `parameters` a dictionary.
        """
        rule = self.rules[name]
        reads = rule.__code__.co_varnames[2 : rule.__code__.co_argcount]  # behind xp and g
        return ...


def op(**rules):
    """Declare an op: `@op(x=rule of x, y=rule of y)` above its forward function."""
    return lambda forward: Op(forward, rules)


@op(x=lambda xp, g: ..., y=lambda xp, g: ...)
def add(xp, x, y):
    return x + y


@op(x=lambda xp, g, y: ..., y=lambda xp, g, x: ...)
def multiply(xp, x, y):
    return x * y


@op(x=lambda xp, g, y: ..., y=lambda xp, g, y, out: ...)
def divide(xp, x, y):
    return x / y


@op(x=lambda xp, g, out: ...)
def exp(xp, x):
    return xp.exp(x)


@op(x=lambda xp, g, x: ...)
def log(xp, x):
    return xp.log(x)


@op(x=lambda xp, g, out: ...)
def sqrt(xp, x):
    return xp.sqrt(x)


@op(x=lambda xp, g, x: ...)
def relu(xp, x):
    return xp.where(x > 0, x, 0)
