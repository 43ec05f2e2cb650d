"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt


def learning_rate__larger_arm(step, d_model, warm_up):
    """it is the larger of the two arms"""
    return d_model**-0.5 * max(step**-0.5, step * warm_up**-1.5)


def learning_rate__without_d_model(step, d_model, warm_up):
    """d_model is missing"""
    return min(step**-0.5, step * warm_up**-1.5)


def learning_rate__times_root(step, d_model, warm_up):
    """it is multiplied by √d_model"""
    return d_model**0.5 * min(step**-0.5, step * warm_up**-1.5)


def learning_rate__with_numbers(step, d_model, warm_up):
    """d_model is 512 and warm_up 4000 whatever is given"""
    return 512**-0.5 * min(step**-0.5, step * 4000**-1.5)


def learning_rate__warm_up_of_4000(step, d_model, warm_up):
    """warm_up is 4000 whatever is given"""
    return d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)


def learning_rate__without_warm_up(step, d_model, warm_up):
    """there is no warm-up"""
    return d_model**-0.5 * step**-0.5


def learning_rate__for_ever(step, d_model, warm_up):
    """it grows for ever"""
    return d_model**-0.5 * step * warm_up**-1.5


def learning_rate__arms_apart(step, d_model, warm_up):
    """its power is −1.5, and not −1"""
    return d_model**-0.5 * min(step**-0.5, step / warm_up)


def learning_rate__flat(step, d_model, warm_up):
    """after warm-up it stays as it is"""
    return d_model**-0.5 * min(step, warm_up) * warm_up**-1.5


def learning_rate__from_0(step, d_model, warm_up):
    """steps are counted from 1"""
    return d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warm_up**-1.5)


def one_hot(ids, classes):
    return tt.one_hot(ids, classes).float()


def smoothed__not_at_all(ids, classes, epsilon):
    """they are not smoothed"""
    return one_hot(ids, classes)


def smoothed__right_class_without_its_share(ids, classes, epsilon):
    """the right class gets its share of what is spread, too"""
    one = one_hot(ids, classes)
    return one * (1 - epsilon) + (1 - one) * epsilon / classes


def smoothed__among_the_others(ids, classes, epsilon):
    """not epsilon / (classes − 1)"""
    one = one_hot(ids, classes)
    return one * (1 - epsilon) + (1 - one) * epsilon / (classes - 1)


def smoothed__more_than_1(ids, classes, epsilon):
    """the rows add up to more than 1"""
    return one_hot(ids, classes) + epsilon / classes


def smoothed__not_divided(ids, classes, epsilon):
    """epsilon is not divided by the number of classes"""
    return (1 - epsilon) * one_hot(ids, classes) + epsilon


def smoothed__nothing_spread(ids, classes, epsilon):
    """what is spread is missing"""
    return (1 - epsilon) * one_hot(ids, classes)


def smoothed__exchanged(ids, classes, epsilon):
    """1 − epsilon and epsilon are exchanged"""
    return epsilon * one_hot(ids, classes) + (1 - epsilon) / classes


def smoothed__a_tenth(ids, classes, epsilon):
    """epsilon is 0.1 whatever is given"""
    return 0.9 * one_hot(ids, classes) + 0.1 / classes
