"""The fast pairs of what slides over positions: convolution in blocks of samples that fit the cache, and max pooling.

What windows hold is copied element by element of the window, each for all positions at once, so a few large copies
stand in front of each matrix product; the backward pass copies it again rather than keep it.

Where there are compiled loops, `tinytensor/fast/convolution.py` does the same with less copying.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tinytensor as tt

from ..functional.convolution import _convolution
from ..functional.pooling import _max_pool
from ..functional.windows import positions
from .tuning import FLOPS, WINDOWS_BLOCK


def _padded(xp: Any, x: Any, around: Sequence[tuple[int, int]], value: float) -> Any:
    """x with so many of a number before and after along each of its last axes."""
    if not any(map(any, around)):
        return xp.contiguous(x)
    lengths = [n + before + after for n, (before, after) in zip(x.shape[-len(around) :], around)]
    out = xp.full((*x.shape[: -len(around)], *lengths), value, dtype=x.dtype)
    out[_inside(lengths, around)] = x
    return out


def _inside(lengths: Sequence[int], around: Sequence[tuple[int, int]]) -> Any:
    """Where in what is padded, of these lengths, the array itself is."""
    return (..., *(slice(before, n - after) for n, (before, after) in zip(lengths, around)))


def _met(count: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[Any]:
    """For each element of a window, what it meets at all positions: a key of the last axes."""
    return [
        (..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in zip(element, count, stride, dilation)))
        for element in np.ndindex(*kernel)
    ]


# ---- convolution


class Windows:
    """A convolution's windows as columns of a matrix, and the places that gradients of columns are added to.

    Attributes:
        count: how many positions there are along each axis.
        columns: how many there are in all.
        held: elements of all columns of a sample.
    """

    def __init__(self, padded: Any, weight: Any, stride: Sequence[int], dilation: Sequence[int], groups: int) -> None:
        lengths, kernel = padded.shape[2:], weight.shape[2:]
        self.count, self.groups = positions(lengths, kernel, stride, dilation), groups
        self.batch, self.lengths = len(padded), lengths
        self.keys = _met(self.count, kernel, stride, dilation)
        self.columns = math.prod(self.count)
        self.held = padded.shape[1] * len(self.keys) * self.columns
        self.work = self.batch * self.held * len(weight) // groups // FLOPS

    def gather(self, xp: Any, x: Any) -> Any:
        """Their elements: (samples, groups, channels of a group * elements, columns)."""
        held = xp.fresh((*x.shape[:2], len(self.keys), *self.count), dtype=x.dtype)
        for element, key in enumerate(self.keys):
            held[:, :, element] = x[key]
        return held.reshape(len(x), self.groups, -1 if held.size else 0, self.columns)

    def add(self, columns: Any, x: Any) -> None:
        """Add columns of gradients to x, each number where it was copied from."""
        held = columns.reshape(*x.shape[:2], len(self.keys), *self.count)
        for element, key in enumerate(self.keys):
            x[key] += held[:, :, element]

    def blocks(self, xp: Any, samples: slice) -> Iterator[slice]:
        """A stretch of samples in pieces for the cache; on a GPU in one."""
        step = max(1, WINDOWS_BLOCK // self.held) if xp.device == "cpu" else max(1, self.batch)
        for start in range(samples.start, samples.stop, step):
            yield slice(start, min(start + step, samples.stop))


@_convolution.forward
def convolution_forward(xp, x, weight, bias, *, stride, dilation, around, groups):
    arrays = tuple(a if a is None else xp.contiguous(a) for a in (x, weight, bias))
    if loops := xp.loops_over("convolution", *arrays):
        return loops.convolution(*arrays, stride, dilation, around, groups), (loops, *arrays[:2])
    padded = _padded(xp, x, around, 0)
    windows = Windows(padded, weight, stride, dilation, groups)
    filters = xp.contiguous(weight).reshape(groups, len(weight) // groups, -1)
    out = xp.fresh((len(x), *filters.shape[:2], *windows.count), dtype=x.dtype)

    def multiply_samples(i: slice) -> None:
        for j in windows.blocks(xp, i):
            flat = out[j].reshape(j.stop - j.start, *filters.shape[:2], windows.columns)
            xp.matmul(filters, windows.gather(xp, padded[j]), out=flat)
            if bias is not None:
                flat += bias.reshape(groups, -1, 1)

    xp.in_parts(multiply_samples, len(x), windows.work, product=True)
    return out.reshape(len(x), len(weight), *windows.count), (padded, weight)


@_convolution.backward
def convolution_backward(xp, g, saved, needs, *, stride, dilation, around, groups):
    options = {"stride": stride, "dilation": dilation, "around": around, "groups": groups}
    if len(saved) == 3:
        loops, x, weight = saved
        found = loops.convolution_gradient(xp.contiguous(g), x, weight, needs, *options.values())
    else:
        x, weight = saved[0][_inside(saved[0].shape[2:], around)], saved[1]
        found = _gradients(xp, g, saved, needs, **options)
    if xp.device == "cpu" and any(each is not None and np.isnan(each).any() for each in found[:2]):
        # Perhaps an infinite number met a 0 that stands for no position; by the formula it does not.
        with tt.enable_grad(), tt.textbook():
            given = [tt.tensor(each, requires_grad=True) for each in (x, weight)]
            exact = tt.grad(_convolution(*given, None, **options), given, tt.asarray(g))
        return *(each._data for each in exact), found[2]
    return found


def _gradients(xp, g, saved, needs, *, stride, dilation, around, groups):
    padded, weight = saved
    windows = Windows(padded, weight, stride, dilation, groups)
    filters = xp.contiguous(weight).reshape(groups, len(weight) // groups, -1)
    g = xp.contiguous(g).reshape(len(g), *filters.shape[:2], *windows.count)
    g_padded: Any = xp.zeros(padded.shape, dtype=padded.dtype) if needs[0] else None
    sums: dict[int, Any] = {}  # for the weight, by the first sample of each part

    def gradients_of_samples(i: slice) -> None:
        for j in windows.blocks(xp, i):
            rows = g[j].reshape(j.stop - j.start, *filters.shape[:2], windows.columns)
            if needs[1]:
                columns = windows.gather(xp, padded[j])
                part = xp.sum(xp.matmul(rows, xp.matrix_transpose(columns)), axis=0)
                sums[i.start] = sums[i.start] + part if i.start in sums else part
            if needs[0]:
                windows.add(xp.matmul(xp.matrix_transpose(filters), rows), g_padded[j])

    xp.in_parts(gradients_of_samples, len(g), 2 * windows.work, product=True)
    g_x = g_padded[_inside(windows.lengths, around)] if needs[0] else None
    g_weight = g_bias = None
    if needs[1]:
        g_weight = sum(sums[start] for start in sorted(sums)) if sums else xp.zeros(filters.shape, dtype=weight.dtype)
        g_weight = g_weight.reshape(weight.shape)
    if needs[2]:
        g_bias = xp.sum(xp.sum(g.reshape(len(g), len(weight), -1 if g.size else 0), axis=2), axis=0)
    return g_x, g_weight, g_bias


# ---- pooling


@_max_pool.forward
def max_pool_forward(xp, x, *, kernel, stride, dilation, around):
    padded = _padded(xp, x, around, -math.inf)
    count = positions(padded.shape[-len(kernel) :], kernel, stride, dilation)
    out = xp.fresh((*x.shape[: -len(kernel)], *count), dtype=x.dtype)

    def largest_of_rows(i: slice) -> None:
        found = padded[i]
        for axis in range(len(kernel)):  # of each stretch along one axis, then of these along the next
            key = (..., slice(None), *[slice(None)] * (len(kernel) - 1 - axis))
            n, s, d = count[axis], stride[axis], dilation[axis]
            parts = [found[(..., slice(k * d, k * d + (n - 1) * s + 1, s), *key[2:])] for k in range(kernel[axis])]
            last = axis == len(kernel) - 1
            found = out[i] if last else xp.fresh(parts[0].shape, dtype=x.dtype)
            found[...] = parts[0]
            for part in parts[1:]:
                xp.maximum(found, part, out=found)

    xp.in_parts(largest_of_rows, len(x), out.size * math.prod(kernel))
    return out, (padded, out)


@_max_pool.backward
def max_pool_backward(xp, g, saved, needs, *, kernel, stride, dilation, around):
    padded, out = saved
    met = _met(out.shape[-len(kernel) :], kernel, stride, dilation)
    g_padded = xp.zeros(padded.shape, dtype=padded.dtype)
    apart = all(s >= k for s, k in zip(stride, kernel)) and max(dilation) == 1  # no number is in two windows
    bits = tt.uint8 if len(met) < 256 else tt.int32

    def share_of_rows(i: slice) -> None:
        x, largest, found = padded[i], out[i], g_padded[i]
        hits = [xp.equal(x[key], largest) | xp.isnan(x[key]) for key in met]  # then the largest is NaN, too
        count = xp.zeros(largest.shape, dtype=bits)
        for hit in hits:
            count += hit
        share = xp.astype(g[i] / xp.maximum(count, 1), g.dtype)
        for hit, key in zip(hits, met):
            if apart:
                xp.multiply(share, hit, out=found[key])
            else:
                found[key] += share * hit

    xp.in_parts(share_of_rows, len(g), 4 * out.size * len(met), width=math.prod(padded.shape[1:]))
    return (g_padded[_inside(padded.shape[-len(kernel) :], around)],)
