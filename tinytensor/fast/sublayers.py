"""Stacks of a Transformer's sub-layers in compiled loops, products included, there and back.

A sub-layer is norm(x + drop(f(x))), or with the norm in front x + drop(f(norm(x))); f is attention (`multi_head.py`) or
a network (`feed_forward.py`). It is a few matrix products with passes over memory between them. Here the rows of some
sentences go through all of it while they are in the cache, and those of a share through all sub-layers of a stack
without the interpreter, whose lock other threads would wait for; threads meet once for a stack.

The loops read addresses of arrays and distances of rows, in bytes, and call the products (`products.py`) and the
passes between them (`passes.py`) by their addresses. So each of these is compiled once, and loops that know of no array
take a fraction of the time to compile.

The sentences of a batch are divided into *shares*, and these into blocks. A share adds up the gradients of the
parameters by itself, then those of the shares are added in their order. How many shares there are follows from the
sizes alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .compiling import address
from .compiling import fits as fits
from .feed_forward import FeedForward as FeedForward
from .multi_head import Attention as Attention
from .pool import empty
from .residual import Gradient, Share, Work, one_after_the_other
from .residual import Norm as Norm
from .threads import is_beside_others, multiply_in_parts

SHARE = 10**8  # multiplications and additions of a stack, forward, that are worth a share
MOST_SHARES = 4
ROWS = 256  # that a share has at least
SMALL = 1 << 17  # elements of a matrix whose gradient takes no time beside the products
REUSE = 1 << 8  # elements of a larger matrix for each row of a share, whose gradient each share writes


def pay_for(rows: int, *weights: Any) -> bool:
    """True if the loops are faster for sub-layers with these matrices and so many rows of x."""
    largest = max(weight.size for weight in weights)
    return largest <= SMALL or rows * REUSE >= largest


def forward(sublayers: Sequence[Any], x: Any, memory: Any) -> Any:
    """x (batch, target, d) through some sub-layers, with the memory (batch, source, d) or None."""
    batch, target, d = x.shape
    work = 2 * batch * target * sum(sublayer.work for sublayer in sublayers)
    largest = max(weight.size for sublayer in sublayers for weight in (*sublayer.weights, x[0, 0]))
    shares = _shares(batch, batch * target, work, largest)
    rows, memory_rows = x.reshape(-1, d), None if memory is None else memory.reshape(-1, d)
    for sublayer in sublayers:
        rows = sublayer.start(shares, rows, memory_rows)
    _compute(shares, [(sublayer, sublayer.work_forward, None) for sublayer in sublayers])
    return rows.reshape(x.shape)


def backward(sublayers: Sequence[Any], g: Any, memory: Any) -> tuple[Any, Any, list[Any]]:
    """The gradients for x and for the memory (None without one) and, in their order, for all parameters."""
    shares, rows = sublayers[0].shares, g.reshape(-1, g.shape[-1])
    g_memory = None if memory is None else np.zeros(memory.shape, memory.dtype)
    memory_rows = None if g_memory is None else g_memory.reshape(-1, g.shape[-1])
    gradients: list[Gradient] = []
    for sublayer in reversed(sublayers):
        gradients.insert(0, Gradient(sublayer, rows, memory_rows))
        rows = gradients[0].g_x
    _compute(shares, [(found.sublayer, found.sublayer.work_backward, found) for found in reversed(gradients)])
    return rows.reshape(g.shape), g_memory, [total for gradient in gradients for total in gradient.totals()]


def _compute(shares: Sequence[Share], steps: Sequence[tuple[Any, Callable[[Share], Work], Gradient | None]]) -> None:
    """Take the steps for each share: of a sub-layer, the work of its loop, and where gradients go, if it gives any."""
    dtype = steps[0][0].dtype
    compiled = one_after_the_other(dtype).ctypes

    def compute_shares(i: slice) -> None:  # it keeps the arrays alive: loops know only their addresses
        for share in shares[i]:
            works = [(work_of(share), sublayer, gradient) for sublayer, work_of, gradient in steps]
            rows = [
                work.numbers(sublayer, gradient.row(share) if gradient else 0) for work, sublayer, gradient in works
            ]
            table, memory = np.array(rows, np.int64), empty(max(work.scratch for work, *_ in works), dtype)
            compiled(0, dtype.itemsize, address(table), len(table), address(memory))

    multiply_in_parts(compute_shares, len(shares))


def _shares(batch: int, rows: int, operations: int, largest: int) -> list[Share]:
    least = ROWS if largest <= SMALL else max(ROWS, largest // REUSE)
    count = 1  # a power of two
    while 2 * count <= min(MOST_SHARES, batch, rows // least, operations // SHARE):
        count *= 2
    if count == 1 and not is_beside_others() and min(batch, rows // ROWS, operations // SHARE) >= 2:
        count = 2  # the second core would have nothing to do, which costs more than a second gradient of a matrix
    return [Share(i, batch * i // count, batch * (i + 1) // count) for i in range(count)]
