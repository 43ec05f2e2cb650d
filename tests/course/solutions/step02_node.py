"""2. Node: a value that remembers the op that made it, and the values that it was made from."""

import itertools
from contextlib import contextmanager

import numpy as np
from step01_op import Op, add, divide, multiply

CLOCK = itertools.count()
PARTS = []  # the parts of the model that compute at present, for pictures


class Value:
    """An array `data` of float64, and where it came from.

    Attributes: `wants` (True if a gradient is wanted), `grad` (a leaf's gradient, once there is one), `op`, `parents`
    (the Values that it was made from), `parameters` (a dictionary), `made` (the time, a whole number), `parts`.
    """

    __array_ufunc__ = None  # so that NumPy leaves `array + value` to us

    def __init__(self, data, wants=False, op=None, parents=(), parameters=None):
        self.data, self.wants, self.grad = np.asarray(data, dtype=np.float64), wants, None
        self.op, self.parents, self.parameters = op, tuple(parents), parameters or {}
        self.made, self.parts = next(CLOCK), tuple(PARTS)

    def __repr__(self):
        return f"<Value {self.data.shape} of {self.op.name if self.op else 'no op'}>"

    def __add__(self, other):
        return apply(add, self, other)

    def __radd__(self, other):
        return apply(add, other, self)

    def __sub__(self, other):
        return self + other * -1.0

    def __mul__(self, other):
        return apply(multiply, self, other)

    def __rmul__(self, other):
        return apply(multiply, other, self)

    def __truediv__(self, other):
        return apply(divide, self, other)


def apply(op, *inputs, **parameters):
    """The Value of an op: computed by `op.forward(np, ...)`, and remembering op, parents and parameters.

    Inputs that are no Values (numbers, arrays) become Values that want no gradient. The result wants one if any of its
    parents does.
    """
    parents = [x if isinstance(x, Value) else Value(x) for x in inputs]
    out = op.forward(np, *(parent.data for parent in parents), **parameters)
    return Value(out, any(parent.wants for parent in parents), op, parents, parameters)


def gradients(value, g):
    """Pairs (parent, gradient), one for each parent that wants a gradient, in their order; none for a leaf.

    `g` is the gradient of the loss with respect to `value`. `value.op.gradient(...)` is yours, of step 1.
    """
    arrays = [parent.data for parent in value.parents]
    return [
        (parent, value.op.gradient(name, g, arrays, value.data, value.parameters))
        for name, parent in zip(value.op.inputs if value.op else (), value.parents)
        if parent.wants
    ]


@contextmanager
def part(name):
    """Within it, what is computed belongs to a part of this name: pictures draw a box around it."""
    PARTS.append(name)
    try:
        yield
    finally:
        PARTS.pop()


Op.__call__ = apply  # from here on `exp(x)` computes with Values
