"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import tinytensor as tt


def learning_rate(step, d_model, warm_up):
    return d_model**-0.5 * min(step**-0.5, step * warm_up**-1.5)


def smoothed(ids, classes, epsilon):
    return (1 - epsilon) * tt.one_hot(ids, classes).float() + epsilon / classes


def learning_rate__with_an_if(step, d_model, warm_up):
    if step < warm_up:
        return step / (warm_up * math.sqrt(warm_up * d_model))
    return 1 / math.sqrt(step * d_model)


def learning_rate__tensor(step, d_model, warm_up):
    return tt.minimum(tt.asarray(step**-0.5), step * warm_up**-1.5) / d_model**0.5


def smoothed__filled(ids, classes, epsilon):
    targets = tt.full((len(ids), classes), epsilon / classes)
    targets[tt.arange(len(ids)), ids] += 1 - epsilon
    return targets


def smoothed__lists(ids, classes, epsilon):
    return [[epsilon / classes + (1 - epsilon) * (i == j) for j in range(classes)] for i in ids.tolist()]
