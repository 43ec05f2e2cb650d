"""Exercises of lesson 19: a rule, and a walk."""

import numpy as np

from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def tanh_rule(x, g):",
    "The derivative of tanh(x) is 1 - tanh(x)².",
    "The chain rule: the gradient of the input is `g` times the derivative.",
)
def check_tanh_rule(tanh_rule):
    """The gradient of the input of tanh, a NumPy array x, given `g`, the gradient of the result."""
    x, g = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 2.0, -3.0])
    agree(tanh_rule(x, g), g / np.cosh(x) ** 2, "the gradient for x = [-1, 0, 2] and g = [1, 2, -3]")


@exercise(
    "def order(parents, result):",
    "A name comes after all of its parents: visit the parents first, then append the name itself.",
    "A name that two others share must be visited once: keep a set of those seen.",
)
def check_order(order):
    """The names that `result` was computed from, each once and behind its parents, `result` last: a list. `parents`
    is a dictionary from a name to the list of names it was computed from."""
    parents = {"x": [], "y": [], "a": ["x", "y"], "b": ["a", "x"], "loss": ["a", "b"], "unused": ["y"]}
    given = list(order(parents, "loss"))
    expect(len(set(given)) == len(given), f"a name comes twice: {given}")
    expect("unused" not in given, f"`unused` leads to no loss: {given}")
    expect(set(given) == set(parents) - {"unused"}, f"expected x, y, a, b and loss, got {given}")
    for name in given:
        late = [p for p in parents[name] if given.index(p) > given.index(name)]
        expect(not late, f"{name} stands before its parent {', '.join(late)}: {given}")
