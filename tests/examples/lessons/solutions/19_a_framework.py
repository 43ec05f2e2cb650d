"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np


def tanh_rule(x, g):
    return g * (1 - np.tanh(x) ** 2)


def order(parents, result):
    found = []

    def visit(name):
        if name not in found:
            for parent in parents[name]:
                visit(parent)
            found.append(name)

    visit(result)
    return found


def tanh_rule__cosh(x, g):
    return g / np.cosh(x) ** 2


def tanh_rule__exponentials(x, g):
    a, b = np.exp(x), np.exp(-x)
    return g * 4 / (a + b) ** 2


def order__with_a_set(parents, result):
    seen, found = set(), []

    def visit(name):
        if name in seen:
            return
        seen.add(name)
        for parent in parents[name]:
            visit(parent)
        found.append(name)

    visit(result)
    return found


def order__other_parent_first(parents, result, seen=None):
    seen = seen if seen is not None else []
    for parent in reversed(parents[result]):
        if parent not in seen:
            order__other_parent_first(parents, parent, seen)
    seen.append(result)
    return seen


def order__generator(parents, result):
    yield from order(parents, result)
