"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt


def gradient(last_output, x, reduced=tt.sum):
    words = tt.tensor(x, requires_grad=True)
    return tt.grad(reduced(last_output(words)), [words])[0]


def gradient_by_distance__first_word_first(last_output, x):
    """the first word comes first"""
    return tt.linalg.vector_norm(gradient(last_output, x), axis=-1)


def gradient_by_distance__squares(last_output, x):
    """the root is missing"""
    return (gradient(last_output, x) ** 2).sum(axis=-1)[::-1]


def gradient_by_distance__sums_of_sizes(last_output, x):
    """these are sums of |gradient|"""
    return abs(gradient(last_output, x)).sum(axis=-1)[::-1]


def gradient_by_distance__sums(last_output, x):
    """these are sums of the gradients"""
    return gradient(last_output, x).sum(axis=-1)[::-1]


def gradient_by_distance__of_the_mean(last_output, x):
    """it is the gradient of the mean"""
    return tt.linalg.vector_norm(gradient(last_output, x, tt.mean), axis=-1)[::-1]


def gradient_by_distance__of_words(last_output, x):
    """these are norms of the words"""
    return tt.linalg.vector_norm(x, axis=-1)[::-1]


def gradient_by_distance__each_feature(last_output, x):
    """one norm for each feature"""
    return tt.linalg.vector_norm(gradient(last_output, x), axis=0)


def gradient_by_distance__of_all(last_output, x):
    """it is one norm of all"""
    return tt.linalg.vector_norm(gradient(last_output, x))


def gradient_by_distance__gradients(last_output, x):
    """these are gradients, the first word first"""
    return gradient(last_output, x)


def gradient_by_distance__not_recorded(last_output, x):
    """It raised"""
    return tt.grad(last_output(x).sum(), [x])


def back(f):
    return math.log(f / (1 - f))


def forget_bias__gate(steps):
    """these are f; expected the b"""
    return 0.5 ** (1 / steps)


def forget_bias__sign(steps):
    """the sign is turned round"""
    return -back(0.5 ** (1 / steps))


def forget_bias__logarithm(steps):
    """these are log f"""
    return math.log(0.5 ** (1 / steps))


def forget_bias__sigmoid(steps):
    """these are sigmoid(f)"""
    return 1 / (1 + math.exp(-(0.5 ** (1 / steps))))


def forget_bias__one_over_steps(steps):
    """f = 1 − 1 / steps leaves about 1/e"""
    return back(1 - 1 / steps)


def forget_bias__e(steps):
    """f = exp(−1 / steps) leaves 1/e"""
    return back(math.exp(-1 / steps))


def forget_bias__half_over_steps(steps):
    """what is forgotten multiplies"""
    return back(1 - 0.5 / steps)


def forget_bias__log2(steps):
    """log2 is not what undoes sigmoid"""
    f = 0.5 ** (1 / steps)
    return math.log2(f / (1 - f))


def forget_bias__of_one_step(steps):
    """nothing depends on steps"""
    return back(0.5)
