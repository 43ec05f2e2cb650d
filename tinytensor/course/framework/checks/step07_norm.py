"""Checks of step 7: layer normalisation against tinytensor's, numbers and gradients."""

import numpy as np
from step02_node import Value
from step04_broadcast import backward

import tinytensor as tt
from tinytensor.course.cards import expect_type, numbers
from tinytensor.models.scripts.exercises import agree, expect
from tinytensor.nn import functional as F


def check_variance(variance):
    """The mean of squares, divided by the number of elements and not by one less."""
    for shape in ((3, 5), (2, 3, 4)):
        x = Value(numbers(*shape), wants=True)
        result = variance(x)
        expect_type(result, Value)
        expect(np.abs(result.data).max() > 1e-9, "distances from the mean add up to 0: square them first")
        right, n = x.data.var(axis=-1, keepdims=True), shape[-1]
        first = x.data - x.data.mean(axis=0, keepdims=True)
        mistakes = {
            "it is divided by n - 1; layer norm divides by n": right * n / (n - 1),
            "it is the standard deviation, the root of the variance": right**0.5,
            "the mean is taken over the first axis": (first**2).mean(axis=-1, keepdims=True),
        }
        agree(result.data, right, f"the variance of an array {shape} over its last axis", mistakes=mistakes)


def check_layer_norm(layer_norm):
    """Subtract the mean, divide by sqrt(variance(x) + EPSILON), all with Values; then the gain, then the bias."""
    for shape, size in (((3, 5), 1.0), ((2, 3, 4), 1.0), ((3, 5), 0.01)):  # in small numbers one sees where EPSILON is
        arrays = numbers(*shape) * size, numbers(shape[-1], low=0.5), numbers(shape[-1])
        ours, theirs = [Value(a, wants=True) for a in arrays], [tt.tensor(a, requires_grad=True) for a in arrays]
        result, expected = layer_norm(*ours), F.layer_norm(theirs[0], shape[-1:], theirs[1], theirs[2])
        expect(result is not ..., "the hole is still there")
        case = f"of an array {shape} of numbers up to {2 * size:g}"
        x, gain, bias = arrays
        away, right = x - x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        mistakes = {
            "EPSILON is added to the root; it belongs to the variance, under it": away / (right**0.5 + 1e-5) * gain
            + bias,
            "EPSILON is missing": away / right**0.5 * gain + bias,
            "it is divided by the variance and not by its root": away / (right + 1e-5) * gain + bias,
            "the bias is multiplied as well": away / (right + 1e-5) ** 0.5 * (gain + bias),
            "gain and bias are missing": away / (right + 1e-5) ** 0.5,
            "the mean is not subtracted": x / (right + 1e-5) ** 0.5 * gain + bias,
        }
        agree(result.data, expected, f"layer_norm {case}", 1e-9, mistakes)
        backward(result * numbers(*shape))
        expected.backward(tt.asarray(numbers(*shape)))
        for name, mine, yours in zip(("x", "gain", "bias"), ours, theirs):
            agree(mine.grad, yours.grad, f"the gradient of {name} {case}")
