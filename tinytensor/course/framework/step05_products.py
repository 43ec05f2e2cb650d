"""5. Products: of matrices, of stacks of matrices, and what puts numbers into another order."""

from step01_op import op
from step02_node import Value, apply


@op(x=lambda xp, g, y: ..., y=lambda xp, g, x: ...)
def matmul(xp, x, y):
    """x @ y, for matrices (n, k) and (k, m), or stacks of them: (batch, n, k) and (k, m), for example.

    `xp.matrix_transpose` turns round the last two axes.
    A rule need not sum over a stack: `unbroadcast` of step 4 does.
    """
    return x @ y


@op(x=lambda xp, g, shape: ...)
def reshape(xp, x, *, to):
    """The same numbers in the shape `to`."""
    return xp.reshape(x, to)


@op(x=lambda xp, g, axes: ...)
def permute(xp, x, *, axes):
    """Axes in another order: axis i of the result is axis axes[i] of x. `axes` is a tuple."""
    return xp.permute_dims(x, axes)


Value.__matmul__ = lambda self, other: apply(matmul, self, other)
Value.__rmatmul__ = lambda self, other: apply(matmul, other, self)
