import math

import tinytensor as tt


def gradient_by_distance(last_output, x):
    words = tt.tensor(x, requires_grad=True)
    (gradient,) = tt.grad(last_output(words).sum(), [words])
    return tt.linalg.vector_norm(gradient, axis=-1)[::-1]


def forget_bias(steps):
    f = 0.5 ** (1 / steps)
    return math.log(f / (1 - f))
