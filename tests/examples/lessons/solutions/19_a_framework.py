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
