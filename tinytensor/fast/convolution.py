"""Convolution in one compiled loop, products included: what windows hold is copied piece by piece, within the cache.

An image is laid out with its zeros around, as one long row for each channel. Each element of a window then meets one
stretch of that row, whatever the position, and a piece of a convolution is: for every channel and element a stretch
copied, as the rows of a matrix, and the product of the weights with it. At the end of each row of the image windows
reach into the next one; what comes of these positions is left out. With a stride of s an image is laid out as s * s
images, each with every s-th row and column, in which windows go on by one.

Samples are divided into *shares*, as rows are in `sublayers.py`, so that the bits do not depend on the number of
threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..backend.sums import PART
from .compiling import addresses, loop, part
from .compiling import fits as fits
from .pool import LINE, empty
from .products import MEMORY, chosen, multiply
from .threads import multiply_in_parts

SHARE = 1 << 23  # multiplications and additions that are worth a share
MOST_SHARES = 32
HELD = 1 << 16  # elements that windows hold in a piece: few enough for the cache of a core
LEAST = 256  # positions of a piece all the same, where windows hold many elements
TERMS = 128  # that a product of the gradient of weights adds up in its own precision, one after the other


class Sizes(NamedTuple):
    """Of a convolution over images, and of its pieces, as the loops take them."""

    groups: int
    channels: int  # of a group
    filters: int  # of a group
    top: int  # zeros above, and at the left
    left: int
    down: int  # strides, from one row to the next and from one column to the next
    across: int
    deep: int  # rows of a laid out image, and how far apart they are
    pitch: int
    rows: int  # of the result
    columns: int
    samples: int  # of a piece; with more than one, these are whole
    high: int  # rows of a piece; with more than one, these are whole
    wide: int  # columns of a piece


def measure(x: Any, weight: Any, stride: Any, dilation: Any, around: Any) -> tuple[Sizes, Any]:
    """The sizes for x (batch, channels, height, width), and where in a laid out image each element of a window starts.

    `weight` is (groups, filters of a group, channels of a group, height and width of the kernel).
    """
    groups, filters, channels, *kernel = weight.shape
    (down, across), ((top, _), (left, _)) = stride, around
    height, width = (n + before + after for n, (before, after) in zip(x.shape[2:], around))
    rows, columns = ((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip((height, width), kernel, stride, dilation))
    deep, pitch = -(-height // down), -(-width // across)
    starts = [
        ((y % down * across + z % across) * deep + y // down) * pitch + z // across
        for y in range(0, kernel[0] * dilation[0], dilation[0])
        for z in range(0, kernel[1] * dilation[1], dilation[1])
    ]
    held = channels * len(starts)
    most = min(max(HELD // held, LEAST), PART)  # positions of a piece
    high, wide = _evenly(rows, most // pitch), columns if pitch <= most else _evenly(columns, most)
    samples = max(1, most // (rows * pitch))
    sizes = Sizes(
        groups, channels, filters, top, left, down, across, deep, pitch, rows, columns, samples, high, wide
    )  # fmt: skip
    return sizes, np.array(starts)


def _evenly(count: int, most: int) -> int:
    """The size of parts of about the same size, of at most so many."""
    return -(-count // -(-count // max(1, most)))


def _shares(batch: int, sizes: Sizes, elements: int) -> int:
    """Into how many shares so many samples are divided, with weights of so many elements: a power of two."""
    operations = 2 * batch * sizes.rows * sizes.columns * elements
    shares = 1
    while 2 * shares <= min(MOST_SHARES, batch // sizes.samples, operations // SHARE):
        shares *= 2
    return shares


class Scratch:
    """Memory of a thread: images laid out, what windows hold in a piece, the results of a piece, and for products."""

    def __init__(self, sizes: Sizes, elements: int, dtype: Any) -> None:
        row = (sizes.down * sizes.across * sizes.deep + 1) * sizes.pitch  # and one more that the last windows reach
        width = sizes.samples * sizes.high * (sizes.pitch if sizes.wide == sizes.columns else sizes.wide)
        self.images = _zeros((sizes.samples, sizes.groups * sizes.channels, row), dtype)
        self.held = _zeros((sizes.channels * elements, width), dtype)
        self.results = _zeros((sizes.filters, width), dtype)  # backward, zeros stay between the rows
        self.copies = empty(MEMORY, dtype)


def _zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that begins where a line of the cache does: products with others take up to a quarter longer."""
    size = math.prod(shape)
    room = np.zeros(size + LINE // dtype.itemsize, dtype)
    start = -room.ctypes.data % LINE // dtype.itemsize
    return room[start : start + size].reshape(shape)


def _as_images(x: Any, weight: Any, stride: Any, dilation: Any, around: Any, groups: int) -> tuple[Any, ...]:
    """All but the groups for images, with weights (groups, filters, channels, *kernel): a sequence is 1 high."""
    weight = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    if x.ndim == 4:
        return x, weight, stride, dilation, around
    return x[:, :, None], weight[:, :, :, None], (1, *stride), (1, *dilation), ((0, 0), *around)


def convolution(x: Any, weight: Any, bias: Any, stride: Any, dilation: Any, around: Any, groups: int) -> Any:
    """The result for images x (batch, channels, height, width), or for sequences (batch, channels, length)."""
    images, weights, *options = _as_images(x, weight, stride, dilation, around, groups)
    sizes, starts = measure(images, weights, *options)
    matrices = weights.reshape(groups, sizes.filters, -1)
    bias = np.zeros(len(weight), x.dtype) if bias is None else bias
    out = empty((len(x), len(weight), sizes.rows, sizes.columns), x.dtype)
    shares = _shares(len(x), sizes, matrices.size)

    def convolve_shares(i: slice) -> None:
        scratch = Scratch(sizes, len(starts), x.dtype)
        for share in range(i.start, i.stop):
            _convolve(
                addresses(x.dtype, chosen(x.dtype)), scratch.copies, len(x) * share // shares,
                len(x) * (share + 1) // shares, images, matrices, bias, out, starts, sizes, scratch.images,
                scratch.held, scratch.results,
            )  # fmt: skip

    multiply_in_parts(convolve_shares, shares)
    return out if x.ndim == 4 else out[:, :, 0]


@loop
def _convolve(product, copies, first, last, x, weight, bias, out, starts, sizes, images, held, results):
    for s in range(first, last, sizes.samples):
        n = min(sizes.samples, last - s)
        _lay_out(x, s, n, images, False, sizes)
        for r in range(0, sizes.rows, sizes.high):
            for c in range(0, sizes.columns, sizes.wide):
                rows, columns, span = _piece(r, c, sizes)
                size = rows * span
                for group in range(sizes.groups):
                    _gather(images, n, group, r * sizes.pitch + c, size, starts, held, False, sizes)
                    _multiply(product, copies, weight[group], False, held[:, : n * size], False, results[:, : n * size])
                    for i in range(n):
                        for o in range(sizes.filters):
                            f = group * sizes.filters + o
                            _add_number(results[o], i * size, span, bias[f], out[s + i, f, r : r + rows], c, columns)


@part
def _multiply(product, copies, a, turn_a, b, turn_b, out):
    """out = a b, a and b transposed first where they are to turn; rows may lie apart."""
    own = product[0], out.dtype.type(0), out.itemsize, copies.ctypes.data
    multiply(
        own, a.ctypes.data, a.strides[0], turn_a, b.ctypes.data, b.strides[0], turn_b, False, out.ctypes.data,
        out.strides[0], out.shape[0], out.shape[1], a.shape[0] if turn_a else a.shape[1],
    )  # fmt: skip


@part
def _piece(r, c, sizes):
    """The rows and columns of the piece that begins in row r and column c, and how far apart its rows are."""
    rows, columns = min(sizes.high, sizes.rows - r), min(sizes.wide, sizes.columns - c)
    return rows, columns, sizes.pitch if sizes.wide == sizes.columns else columns


@part
def _lay_out(x, s, n, images, back, sizes):
    """Write n samples of x from s on into `images`, whose zeros around are there; or `back` from there into x."""
    for image in range(sizes.across):
        w, place, size = _every(image, x.shape[3], sizes)
        for i in range(n):
            for c in range(x.shape[1]):
                for h in range(x.shape[2]):
                    y = h + sizes.top
                    start = place + (y % sizes.down * sizes.across * sizes.deep + y // sizes.down) * sizes.pitch
                    stop = start + size
                    if sizes.across > 1 and back:
                        _put_every(images[i, c, start:stop], x[s + i, c, h], w, sizes.across)
                    elif sizes.across > 1:
                        _take_every(x[s + i, c, h], w, sizes.across, images[i, c, start:stop])
                    elif back:
                        _copy(images[i, c, start:stop], x[s + i, c, h])
                    else:
                        _copy(x[s + i, c, h], images[i, c, start:stop])


@part
def _every(image, width, sizes):
    """With a stride: the first column that goes into an image, where it goes in a row, and how many go there."""
    first = (image - sizes.left) % sizes.across
    place = image * sizes.deep * sizes.pitch + (first + sizes.left) // sizes.across
    return first, place, max(0, (width - first + sizes.across - 1) // sizes.across)


@part
def _gather(images, n, group, t, size, starts, held, back, sizes):
    """Copy what windows hold from position t of the long rows on: a row for each channel and element.

    Or `back`: add gradients of what they hold where it was copied from.
    """
    first = group * sizes.channels
    for c in range(sizes.channels):
        for e in range(starts.size):
            start, k = starts[e] + t, c * starts.size + e
            for i in range(n):
                if back:
                    _add(held[k, i * size : (i + 1) * size], images[i, first + c, start : start + size])
                else:
                    _copy(images[i, first + c, start : start + size], held[k, i * size : (i + 1) * size])


# Loops over stretches. These are written where they are handed over: one that has a name would have its owners counted.
# Of an index that is computed, the compiler cannot tell that it is not negative, unless its type says so.


@part
def _copy(x, out):
    for i in range(out.size):
        out[i] = x[i]


@part
def _take_every(x, first, step, out):
    for i in range(out.size):
        out[i] = x[np.uint64(first) + np.uint64(i) * np.uint64(step)]


@part
def _put_every(x, out, first, step):
    for i in range(x.size):
        out[np.uint64(first) + np.uint64(i) * np.uint64(step)] = x[i]


@part
def _add(x, out):
    for i in range(out.size):
        out[i] += x[i]


@part
def _add_number(results, start, span, number, out, first, columns):
    """Write rows of results, the first of which begins at `start`, into the columns of `out` from the first on."""
    for r in range(out.shape[0]):
        for i in range(columns):
            at = np.uint64(start + r * span) + np.uint64(i)
            out[r, np.uint64(first) + np.uint64(i)] = results[at] + number


@part
def _copy_rows(g, first, columns, results, start, span):
    """The reverse; what stands between the rows of results stays."""
    for r in range(g.shape[0]):
        for i in range(columns):
            results[np.uint64(start + r * span) + np.uint64(i)] = g[r, np.uint64(first) + np.uint64(i)]


@part
def _total(x):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


# ---- the gradient


def convolution_gradient(
    g: Any, x: Any, weight: Any, needs: Any, stride: Any, dilation: Any, around: Any, groups: int
) -> tuple[Any, Any, Any]:
    """The gradients for x, weight and bias; `needs` says which are wanted, the others are None."""
    images, weights, *options = _as_images(x, weight, stride, dilation, around, groups)
    sizes, starts = measure(images, weights, *options)
    matrices = weights.reshape(groups, sizes.filters, -1)
    g = g.reshape(len(x), len(weight), sizes.rows, sizes.columns)
    g_images = empty(images.shape, x.dtype) if needs[0] else images
    shares = _shares(len(x), sizes, matrices.size)
    turned = groups, matrices.shape[2], sizes.filters  # the gradients of the weights, transposed: their product is so
    g_weights = np.zeros((shares if needs[1] else 1, *turned))  # in float64
    g_biases = np.zeros((shares, len(weight)))

    def differentiate_shares(i: slice) -> None:
        scratch = Scratch(sizes, len(starts), x.dtype)
        laid_out, sums = _zeros(scratch.images.shape, x.dtype), _zeros(turned, x.dtype)
        for share in range(i.start, i.stop):
            _differentiate(
                addresses(x.dtype, chosen(x.dtype)), scratch.copies, len(x) * share // shares,
                len(x) * (share + 1) // shares, g, images, matrices, needs[0], needs[1], g_images,
                g_weights[share % len(g_weights)], g_biases[share],
                starts, sizes, scratch.images, laid_out, scratch.held, scratch.results, sums,
            )  # fmt: skip

    multiply_in_parts(differentiate_shares, shares)
    g_weight = np.add.reduce(g_weights, axis=0).astype(x.dtype).swapaxes(1, 2)
    return (
        g_images.reshape(x.shape) if needs[0] else None,
        np.ascontiguousarray(g_weight).reshape(weight.shape) if needs[1] else None,
        np.add.reduce(g_biases, axis=0).astype(x.dtype) if needs[2] else None,
    )


@loop
def _differentiate(
    product, copies, first, last, g, x, weight, for_x, for_weight, g_x, g_weight, g_bias, starts, sizes, images,
    g_images, held, results, sums,
):  # fmt: skip
    for s in range(first, last, sizes.samples):
        n = min(sizes.samples, last - s)
        if for_weight:
            _lay_out(x, s, n, images, False, sizes)
        for r in range(0, sizes.rows, sizes.high):
            for c in range(0, sizes.columns, sizes.wide):
                rows, columns, span = _piece(r, c, sizes)
                size = rows * span
                for group in range(sizes.groups):
                    for o in range(sizes.filters):
                        f = group * sizes.filters + o
                        for i in range(n):
                            _copy_rows(g[s + i, f, r : r + rows], c, columns, results[o], i * size, span)
                            place = r * sizes.columns + c
                            g_bias[f] += _total(g[s + i, f].reshape(-1)[place : place + rows * columns])
                    if for_weight:
                        _gather(images, n, group, r * sizes.pitch + c, size, starts, held, False, sizes)
                        for start in range(0, n * size, TERMS):
                            terms = slice(start, min(start + TERMS, n * size))
                            _multiply(product, copies, held[:, terms], False, results[:, terms], True, sums[group])
                            _add_up(sums[group], g_weight[group])
                    if for_x:
                        into = held[:, : n * size]
                        _multiply(product, copies, weight[group], True, results[:, : n * size], False, into)
                        _gather(g_images, n, group, r * sizes.pitch + c, size, starts, held, True, sizes)
        if for_x:
            _lay_out(g_x, s, n, g_images, True, sizes)
            _clear(g_images)


@part
def _clear(x):
    flat = x.reshape(-1)
    for i in range(flat.size):
        flat[i] = 0


@part
def _add_up(sums, total):
    for k in range(sums.shape[0]):
        for o in range(sums.shape[1]):
            total[k, o] += sums[k, o]
