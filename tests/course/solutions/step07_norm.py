"""7. Layer normalisation (Ba et al. 2016): every position gets mean 0 and variance 1, then a gain and a bias."""

from step01_op import sqrt
from step04_broadcast import mean

EPSILON = 1e-5


def variance(x):
    """The mean squared distance from the mean, over the last axis, which stays with length 1."""
    away = x - mean(x, axis=-1)
    return mean(away * away, axis=-1)


def layer_norm(x, gain, bias):
    """(x - mean) / sqrt(variance + EPSILON) * gain + bias, over the last axis; gain and bias are as long as it is."""
    return (x - mean(x, axis=-1)) / sqrt(variance(x) + EPSILON) * gain + bias
