"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def line(x, y):
    slope, intercept = np.polyfit(x, y, 1)
    return np.exp(intercept), -slope


def power_law__entropy_left_in(sizes, losses, entropy):
    """the entropy was left in"""
    return line(np.log(sizes), np.log(losses))


def power_law__sign(sizes, losses, entropy):
    """a has the wrong sign"""
    scale, a = line(np.log(sizes), np.log(losses - entropy))
    return scale, -a


def power_law__logarithm_of_scale(sizes, losses, entropy):
    """A is still a logarithm"""
    scale, a = line(np.log(sizes), np.log(losses - entropy))
    return np.log(scale), a


def power_law__polyfit_as_it_is(sizes, losses, entropy):
    """these are slope and intercept of the line"""
    return np.polyfit(np.log(sizes), np.log(losses - entropy), 1)


def power_law__intercept_and_slope(sizes, losses, entropy):
    """these are slope and intercept of the line"""
    return np.polyfit(np.log(sizes), np.log(losses - entropy), 1)[::-1]


def power_law__turned(sizes, losses, entropy):
    """a comes first"""
    return line(np.log(sizes), np.log(losses - entropy))[::-1]


def power_law__two_bases(sizes, losses, entropy):
    """the logarithm was to base 10"""
    return line(np.log10(sizes), np.log10(losses - entropy))


def power_law__one_logarithm(sizes, losses, entropy):
    """the losses have no logarithm"""
    slope, intercept = np.polyfit(np.log(sizes), losses - entropy, 1)
    return intercept, -slope


def power_law__exchanged(sizes, losses, entropy):
    """the axes are exchanged"""
    return line(np.log(losses - entropy), np.log(sizes))


def power_law__first_and_last(sizes, losses, entropy):
    """the line goes through the first and the last run"""
    return line(np.log(sizes[[0, -1]]), np.log(losses[[0, -1]] - entropy))


def power_law__exponent_alone(sizes, losses, entropy):
    """this is a alone"""
    return line(np.log(sizes), np.log(losses - entropy))[1]


def power_law__of_a_method(sizes, losses, entropy):
    """It raised"""
    return sizes.log(), losses.log()


def best(budget, ratio, a, b):
    return (ratio * budget**b) ** (1 / (a + b))


def best_size__without_six(budget, A, a, B, b):
    """the 6 is missing"""
    return best(budget, a * A / (b * B), a, b)


def best_size__forward_alone(budget, A, a, B, b):
    """2 N D is forward alone"""
    return best(budget / 2, a * A / (b * B), a, b)


def best_size__times_six(budget, A, a, B, b):
    """6 multiplies the budget"""
    return best(6 * budget, a * A / (b * B), a, b)


def best_size__equal_errors(budget, A, a, B, b):
    """there both errors are equal"""
    return best(budget / 6, A / B, a, b)


def best_size__upside_down(budget, A, a, B, b):
    """A and B are exchanged"""
    return best(budget / 6, b * B / (a * A), a, b)


def best_size__factors(budget, A, a, B, b):
    """a and b in front of A and B are exchanged"""
    return best(budget / 6, b * A / (a * B), a, b)


def best_size__text(budget, A, a, B, b):
    """this is the text D"""
    return budget / 6 / best(budget / 6, a * A / (b * B), a, b)


def best_size__exponent_of_the_text(budget, A, a, B, b):
    """the exponent of the budget is a / (a + b)"""
    return (a * A / (b * B)) ** (1 / (a + b)) * (budget / 6) ** (a / (a + b))


def best_size__alike(budget, A, a, B, b):
    """parameters and text were taken to grow alike"""
    return np.sqrt(budget / 6)


def best_size__no_root(budget, A, a, B, b):
    """the root is missing"""
    return a * A / (b * B) * (budget / 6) ** b


def best_size__smallest_excess(budget, A, a, B, b):
    """this is the smallest excess"""
    n = best(budget / 6, a * A / (b * B), a, b)
    return A / n**a + B / (budget / 6 / n) ** b


def best_size__of_a_list(budget, A, a, B, b):
    """It raised"""
    return best(list(budget), a * A / (b * B), a, b)
