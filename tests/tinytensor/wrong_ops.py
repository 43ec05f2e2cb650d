"""Ops as students write them at first: each is wrong in one way, which its report is to name.

No test imports it: `python -m tinytensor.testing` and the fixture of test_report.py run it as a file.
"""

import numpy as np

import tinytensor as tt


@tt.op(x=lambda xp, g, y: g * y, y=lambda xp, g, x: g * x * 2.0)
def wrong_rule(xp, x, y):
    return x * y


def _mean_over_rows(xp, g, x, shape):
    return g * x if len(shape) == len(g.shape) else xp.mean(g * x, axis=0)


@tt.op(x=lambda xp, g, y: g * y, y=_mean_over_rows)
def wrong_unbroadcast(xp, x, y):
    return x * y


@tt.op(x=lambda xp, g: g)
def mutates(xp, x):
    x += 1.0
    return x * 1.0


@tt.op(x=lambda xp, g, out: g * out)
def uses_np_in_forward(xp, x):
    return np.exp(x)


@tt.op(x=lambda xp, g, x: g * np.asarray(xp.cos(x)))
def uses_np_in_rule(xp, x):
    return xp.sin(x)


@tt.op(x=lambda xp, g, x: g * xp.sigmoid(x))
def naive_softplus(xp, x):
    return xp.log(1.0 + xp.exp(x))


@tt.op(x=lambda xp, g, x: g * xp.exp(x) / (1.0 + xp.exp(x)))
def naive_gradient(xp, x):
    return xp.maximum(x, 0.0) + xp.log1p(xp.exp(-xp.abs(x)))


@tt.op(x=lambda xp, g, x: g * 2.0 * (x.detach() if isinstance(x, tt.Tensor) else x))
def first_order_only(xp, x):
    return x * x


@tt.op(x=lambda xp, g: g * 2.0)
def gives_float32(xp, x):
    return xp.astype(x * 2.0, "float32")


@tt.op(x=lambda xp, g, x: g * 3.0 * x * x)
def gives_float64(xp, x):
    return x * x * x * np.float64(1.0)


@tt.op(x=lambda xp, g, x, out: g * xp.exp(x - out))
def fails_on_empty(xp, x):
    largest = xp.max(x)
    return xp.log(xp.sum(xp.exp(x - largest))) + largest


@tt.op(x=lambda xp, g: g * 2.0)
def memory_order(xp, x):
    return xp.reshape((x * 2.0).ravel(order="K"), x.shape)


@tt.op
def int_only(xp, x):
    return xp.bitwise_invert(x)


@tt.op(x=lambda xp, g, x: g * 2.0)
def keeps_for_nothing(xp, x):
    return x * 2.0


@tt.op
def formula_alone(x):
    return tt.exp(x) * x


@tt.op
def half_a_pair(x):
    return tt.exp(x) * x


@half_a_pair.forward
def _(xp, x):
    return xp.exp(x) * x, (x,)


@tt.op
def wrong_pair(x):
    return x * x * x


@wrong_pair.forward
def _(xp, x):
    return x * x * x, (x,)


@wrong_pair.backward
def _(xp, g, residuals, needs):
    (x,) = residuals
    return (g * x * x,)


@tt.op
def np_in_pair(x):
    return tt.exp(x)


@np_in_pair.forward
def _(xp, x):
    out = np.exp(x)
    return out, (out,)


@np_in_pair.backward
def _(xp, g, residuals, needs):
    return (g * residuals[0],)


@tt.op(x=lambda xp, g, y: g / y)
def lacks_a_rule(xp, x, y):
    return x / y


CALLS = []


@tt.op(x=lambda xp, g: g)
def remembers(xp, x):
    CALLS.append(0)
    return x + float(len(CALLS))


@tt.op(x=lambda xp, g, x: xp.reshape(g, (x.size + 1,)))
def rule_raises(xp, x):
    return x * 2.0


@tt.op(x=lambda xp, g, x: xp.sum(g * x))
def rule_of_another_shape(xp, x):
    return x * x / 2.0


@tt.op(x=lambda xp, g, x: xp.where(x > 0, g, xp.where(x == 0, 7 * g, 0 * g)))
def wrong_at_zero(xp, x):
    return xp.maximum(x, x * 0)


@tt.op(x=lambda xp, g, x, out: g * x / out)
def nan_at_zero(xp, x):
    return xp.sqrt(x * x)


@tt.op(
    x=lambda xp, g, x, y: xp.where(x >= y, g, 0 * g),
    y=lambda xp, g, x, y: xp.where(y >= x, g, 0 * g),
)
def twice_at_ties(xp, x, y):
    return xp.maximum(x, y)


@tt.op(
    x=lambda xp, g, x, y: xp.where(x > y, g, 0 * g),
    y=lambda xp, g, x, y: xp.where(y > x, g, 0 * g),
)
def nothing_at_ties(xp, x, y):
    return xp.maximum(x, y)


@tt.op(x=lambda xp, g, x: xp.where(xp.signbit(x), xp.where(x == 0, -3 * g, -g), g))
def wrong_at_minus_zero(xp, x):
    return xp.abs(x)
