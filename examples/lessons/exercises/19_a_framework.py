"""Exercises of lesson 19: a rule, and a walk."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def tanh_rule(x, g):",
    "The derivative of tanh(x) is 1 - tanh(x)².",
    "The chain rule: the gradient of the input is `g` times the derivative.",
)
def check_tanh_rule(tanh_rule):
    """The gradient of the input of tanh, a NumPy array x, given `g`, the gradient of the result."""
    for shape in ((4,), (2, 3)):
        x, g = tt.random.randn(2, *shape, dtype=tt.float64).numpy()
        t = np.tanh(x)
        mistakes = {
            "the square is missing: the derivative is 1 − tanh(x)²": g * (1 - t),
            "g is missing: the chain rule multiplies by it": 1 - t**2,
            "it is tanh itself: the derivative is 1 − tanh(x)²": g * t,
            "x is squared; its tanh has to be": g * (1 - x**2),
            "tanh is of g; it is of x": g * (1 - np.tanh(g) ** 2),
            "g is added; the chain rule multiplies": g + 1 - t**2,
            "g is divided; the chain rule multiplies": (1 - t**2) / g,
            "the sign of tanh(x)² is turned round": g * (1 + t**2),
            "the sign is turned round: the derivative is 1 − tanh(x)²": g * (t**2 - 1),
            "it is sigmoid's rule: that of tanh is 1 − tanh(x)²": g * t * (1 - t),
            "g is in the square": 1 - (g * t) ** 2,
            "it is tanh(1 − x²)": g * np.tanh(1 - x**2),
            "it is one number; expected one for each x": (g * (1 - t**2)).sum(),
        }
        agree(tanh_rule(x, g), g * (1 - t**2), f"the gradient in shape {shape}", mistakes=mistakes)


@exercise(
    "def order(parents, result):",
    "A name comes after all of its parents: visit the parents first, then append the name itself.",
    "A name that two others share must be visited once: keep a set of those seen.",
)
def check_order(order):
    """The names that `result` was computed from, each once and behind its parents, `result` last: a list. `parents`
    is a dictionary from a name to the list of names it was computed from."""
    first = {"x": [], "y": [], "a": ["x", "y"], "b": ["a", "x"], "loss": ["a", "b"], "unused": ["y"]}
    second = {"sum": ["late", "w"], "unused": [], "late": ["deep"], "deep": ["w", "v"], "v": ["w"], "w": []}
    for parents, result in ((first, "loss"), (second, "sum")):
        given = order(parents, result)
        expect(isinstance(given, (list, tuple)), f"expected a list of names, got a {type(given).__name__}")
        expect(all(isinstance(name, str) for name in given), f"expected names, got {given}")
        needed = set(parents) - {"unused"}
        expect(result in given, f"{result} itself is missing: {given}")
        expect(len(set(given)) == len(given), f"a name comes twice: {given}")
        expect("unused" not in given, f"`unused` leads to no {result}: {given}")
        expect(not set(given) - needed, f"{(set(given) - needed or [None]).pop()} is no name that there is: {given}")
        missing = sorted(needed - set(given))
        expect(not missing, f"{', '.join(missing)} is missing; parents have parents, too: {given}")
        turned = "; the order is turned round" if given[0] == result else ""
        for name in given:
            late = [p for p in parents[name] if given.index(p) > given.index(name)]
            expect(not late, f"{name} comes before its parent {', '.join(late)}{turned}: {given}")
