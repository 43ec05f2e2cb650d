"""Windows that slide over positions: their sizes, padding and elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import ArrayLike

AXES: dict[int, tuple[str, ...]] = {1: ("length",), 2: ("height", "width")}
"""The names of the axes that windows slide along, by the number of axes."""

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: ArrayLike, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The input with more positions before and after, along its last axes.

        F.pad(x, (1, 2))        # one before and two after, along the last axis
        F.pad(x, (1, 2, 3, 4))  # and three before and four after along the axis in front of it

    Args:
        pad: pairs (before, after), the last axis first. A negative number removes positions.
        mode: fills them: "constant" with `value`; "reflect" with the input mirrored at its first and last position,
            without repeating these; "replicate" with these two; "circular" with the input from its other end, as in a
            ring.
        value: with "constant"; default 0.

    Raises ValueError for pairs that do not fit the input.
    """
    x = tt.asarray(input)
    pairs = _pairs(pad, x)
    if mode not in MODES:
        raise ValueError(f"pad: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if mode == "constant":
        kept, shape, place = [], [], []
        for length, (before, after) in zip(x.shape, pairs):
            kept.append(slice(max(-before, 0), max(length - max(-after, 0), 0)))
            shape.append(max(length + before + after, 0))
            place.append(slice(max(before, 0), max(before, 0) + len(range(length)[kept[-1]])))
        frame = tt.full(tuple(shape), 0 if value is None else value, dtype=x.dtype, device=x.device)
        return tt.index_set(frame, tuple(place), x[tuple(kept)])
    if value is not None:
        raise ValueError(f"pad: a value is for mode 'constant', got {value} with {mode!r}")
    if mode == "circular":  # remove positions before closing the ring
        ends = [(max(-before, 0), length - max(-after, 0)) for length, (before, after) in zip(x.shape, pairs)]
        x = x[tuple(slice(first, last) for first, last in ends)]
        pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            places = _places(mode, x.shape[axis], before, after)
            x = tt.take(x, tt.asarray(places, device=x.device), axis=axis)
    return x


def _pairs(pad: Sequence[int], x: Tensor) -> list[tuple[int, int]]:
    """(before, after) for each axis of x, the first axis first."""
    numbers = [operator.index(n) for n in pad]
    if len(numbers) % 2 or len(numbers) > 2 * x.ndim:
        raise ValueError(f"pad: expected a pair for each axis, the last first, got {tuple(pad)} for shape {x.shape}")
    pairs = list(zip(numbers[::2], numbers[1::2]))
    pairs += [(0, 0)] * (x.ndim - len(pairs))
    for length, (before, after) in zip(x.shape, pairs[::-1]):
        if length + before + after < 0:
            raise ValueError(f"pad: {tuple(pad)} takes away more than there is in an input of shape {x.shape}")
    return pairs[::-1]


def _places(mode: str, length: int, before: int, after: int) -> Any:
    """The axis's own position for each place of the padded axis."""
    places = np.arange(-before, length + after)
    most = {"reflect": length - 1, "circular": length, "replicate": max(before, after) if length else 0}[mode]
    if max(before, after) > most:
        raise ValueError(f"pad: {mode!r} can add at most {most} to an axis of {length}, got {before} and {after}")
    if mode == "replicate":
        return np.clip(places, 0, length - 1)
    if mode == "circular":
        return places % length
    mirrored = np.abs(places)
    return np.where(mirrored < length, mirrored, 2 * (length - 1) - mirrored)


def unfold(input: ArrayLike, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The elements of a window at each of its positions in an image, as columns.

    Args:
        kernel_size, dilation, padding, stride: as for `conv2d`; numbers, or pairs for height and width.

    Shapes: input (batch, channels, height, width), or without the batch -> (batch, channels * window, positions).
    `W @ F.unfold(x, k)`, with W of shape (out_channels, channels * window), is a convolution.
    """
    x = tt.asarray(input)
    if x.ndim not in (3, 4):
        raise ValueError(f"unfold: expected (batch, channels, height, width), or without the batch, got {x.shape}")
    kernel, steps, apart = (
        sizes("unfold", what, value, 2, 1)
        for what, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
    )
    around = [(n, n) for n in sizes("unfold", "padding", padding, 2, 0)]
    count_positions("unfold", x.shape[-2:], kernel, steps, apart, around)
    found = windows(zeros_around(x, around), kernel, steps, apart)
    return tt.reshape(found, (*x.shape[:-3], x.shape[-3] * found.shape[-3], found.shape[-2] * found.shape[-1]))


def windows(x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """The elements of windows over the last axes: (..., *lengths) -> (..., elements of a window, *positions).

    One element of the window at all positions is a slice of x.
    """
    count = positions(x.shape[-len(kernel) :], kernel, stride, dilation)
    met = [
        x[(..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in zip(element, count, stride, dilation)))]
        for element in np.ndindex(*kernel)
    ]
    return tt.stack(met, axis=-1 - len(kernel))


def zeros_around(x: Tensor, around: Sequence[tuple[int, int]]) -> Tensor:
    """x with `around` (before, after) zeros along each of its last axes."""
    if not any(map(any, around)):
        return x
    return pad(x, [n for pair in reversed(around) for n in pair])


# ---- sizes


def sizes(name: str, what: str, value: Any, axes: int, least: int) -> tuple[int, ...]:
    """A number for each of `axes` axes, from one number for all or a sequence."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes
    try:
        numbers = tuple(map(operator.index, given))
    except TypeError:
        numbers = ()
    if len(numbers) != axes:
        words = {1: "one", 2: "two"}[axes]
        raise TypeError(f"{name}: {what} must be an integer, or a sequence of {words}, got {value!r}")
    if min(numbers) < least:
        raise ValueError(f"{name}: {what} must be at least {least}, got {min(numbers)}")
    return numbers


def positions(
    lengths: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """The number of a window's positions along each axis: (length - dilation (kernel - 1) - 1) // stride + 1."""
    return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(lengths, kernel, stride, dilation))


def count_positions(
    name: str,
    lengths: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    around: Sequence[tuple[int, int]],
) -> tuple[int, ...]:
    """The numbers of positions over an input with zeros around it; ValueError if a window does not fit into it."""
    padded = [n + before + after for n, (before, after) in zip(lengths, around)]
    count = positions(padded, kernel, stride, dilation)
    for axis, n, k, d, (before, after), found in zip(AXES[len(kernel)], lengths, kernel, dilation, around, count):
        if found < 1:
            raise ValueError(
                f"{name}: {k} positions, {d} apart, do not fit into an input of {axis} {n} with {before} + {after} "
                "zeros of padding"
            )
    return count
