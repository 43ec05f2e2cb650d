"""Checks of step 1: how a rule is called, and the rules of seven ops by their report cards."""

import numpy as np

from tinytensor.course.cards import card, numbers
from tinytensor.models.scripts.exercises import agree, expect

A, B, SMALL = numbers(3, 5), numbers(3, 5, low=0.5), numbers(5, low=0.5)


def check_Op(Op):
    """`gradient` calls the rule with xp, g and what the rule names: inputs, parameters, `out`, `shape`."""
    given = {}

    def rule_x(xp, g, shape, out, k, y, x):
        given.update(xp=xp, g=g, shape=shape, out=out, k=k, y=y, x=x)
        return g

    def rule_y(xp, g, x, shape):
        given.update(x=x, shape=shape)
        return 2 * g

    def forward(xp, x, y, *, k):
        return k * x + y

    op = Op(forward, {"x": rule_x, "y": rule_y})
    x, y, out, g = A, SMALL, forward(np, A, SMALL, k=3.0), B
    result = op.gradient("x", g, [x, y], out, {"k": 3.0})
    expect(result is not ..., "the hole is still there")
    for name, expected in (("x", x), ("y", y), ("out", out), ("k", 3.0), ("g", g)):
        agree(given[name], expected, f"what the rule of x gets as {name}")
    agree(result, g, "what `gradient` gives for a rule that returns g")
    expect(given["xp"] is np, "the rule gets no NumPy as xp")
    expect(given["shape"] == (3, 5), f"the rule of x gets the shape {given['shape']}; x has (3, 5)")
    agree(op.gradient("y", g, [x, y], out, {"k": 3.0}), 2 * g, "what `gradient` gives for a rule that returns 2 g")
    expect(given["shape"] == (5,), f"the rule of y gets the shape {given['shape']}; y has (5,)")


def check_add(add):
    """d(x + y)/dx = 1."""
    card(add, (A, B), (A, SMALL))


def check_multiply(multiply):
    """d(x y)/dx = y."""
    card(multiply, (A, B), (A, SMALL))


def check_divide(divide):
    """d(x / y)/dx = 1 / y, and d(x / y)/dy = -x / y², which is -out / y."""
    card(divide, (A, B), (A, SMALL))


def check_exp(exp):
    """The derivative of exp is exp."""
    card(exp, (A,))


def check_log(log):
    """The derivative of log(x) is 1 / x."""
    card(log, (B,))


def check_sqrt(sqrt):
    """The derivative of √x is 1 / (2 √x)."""
    card(sqrt, (B,))


def check_relu(relu):
    """g where x is above 0, and 0 elsewhere."""
    card(relu, (np.array([[-1.5, 0.5, 2.0], [1.0, -0.25, -3.0]]),))
    x, g = np.array([-1.0, 0.0, 1.0]), np.array([2.0, 3.0, 4.0])
    mistakes = {"at 0 it is 0: g only where x is above 0": np.where(x >= 0, g, 0)}
    got = relu.gradient("x", g, [x], relu.forward(np, x), {})
    agree(got, g * (x > 0), "the rule at -1, 0 and 1", mistakes=mistakes)
