"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def tanh_rule__without_square(x, g):
    """the square is missing"""
    return g * (1 - np.tanh(x))


def tanh_rule__without_g(x, g):
    """g is missing"""
    return 1 - np.tanh(x) ** 2


def tanh_rule__tanh(x, g):
    """it is tanh itself"""
    return g * np.tanh(x)


def tanh_rule__of_x(x, g):
    """x is squared; its tanh has to be"""
    return g * (1 - x**2)


def tanh_rule__of_g(x, g):
    """tanh is of g; it is of x"""
    return g * (1 - np.tanh(g) ** 2)


def tanh_rule__added(x, g):
    """g is added"""
    return g + 1 - np.tanh(x) ** 2


def tanh_rule__plus(x, g):
    """the sign of tanh(x)² is turned round"""
    return g * (1 + np.tanh(x) ** 2)


def tanh_rule__of_sigmoid(x, g):
    """it is sigmoid's rule"""
    return g * np.tanh(x) * (1 - np.tanh(x))


def tanh_rule__one_number(x, g):
    """it is one number"""
    return np.sum(g * (1 - np.tanh(x) ** 2))


def walk(parents, name, found, once=True, first=False):
    if once and name in found:
        return found
    if first:
        found.append(name)
    for parent in parents[name]:
        walk(parents, parent, found, once, first)
    if not first:
        found.append(name)
    return found


def order__result_first(parents, result):
    """the order is turned round"""
    return walk(parents, result, [], first=True)


def order__as_often_as_needed(parents, result):
    """a name comes twice"""
    return walk(parents, result, [], once=False)


def order__all_names(parents, result):
    """`unused` leads to no"""
    found = []
    for name in parents:
        walk(parents, name, found)
    return found


def order__as_they_stand(parents, result):
    """`unused` leads to no"""
    return list(parents)


def order__without_the_result(parents, result):
    """itself is missing"""
    return walk(parents, result, [])[:-1]


def order__parents_alone(parents, result):
    """parents have parents, too"""
    return [*parents[result], result]


def order__level_by_level(parents, result):
    """comes before its parent"""
    found, level = [], [result]
    while level:
        found += [name for name in dict.fromkeys(level) if name not in found]
        level = [parent for name in level for parent in parents[name]]
    return found[::-1]


def order__a_set(parents, result):
    """expected a list of names, got a set"""
    return set(walk(parents, result, []))


def order__by_the_alphabet(parents, result):
    """comes before its parent"""
    return sorted(walk(parents, result, []))
