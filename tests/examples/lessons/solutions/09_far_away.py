"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import tinytensor as tt


def gradient_by_distance(last_output, x):
    words = tt.tensor(x, requires_grad=True)
    (gradient,) = tt.grad(last_output(words).sum(), [words])
    return tt.linalg.vector_norm(gradient, axis=-1)[::-1]


def forget_bias(steps):
    f = 0.5 ** (1 / steps)
    return math.log(f / (1 - f))


def gradient_by_distance__backward(last_output, x):
    x = tt.tensor(x, requires_grad=True)
    last_output(x).sum().backward()
    return [float((row**2).sum()) ** 0.5 for row in x.grad][::-1]


def gradient_by_distance__flipped(last_output, x):
    (gradient,) = tt.vjp(lambda x: last_output(x).sum(), x)[1](1.0)
    return tt.flip(tt.sqrt((gradient * gradient).sum(axis=1)))


def forget_bias__direct(steps):
    return -math.log(2 ** (1 / steps) - 1)


def forget_bias__by_logarithms(steps):
    f = tt.exp(tt.asarray(-math.log(2) / steps, dtype=tt.float64))
    return tt.log(f) - tt.log1p(-f)
