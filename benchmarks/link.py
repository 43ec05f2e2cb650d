"""The time of an all-reduce on a link, by the model of a ring (Patarasuk & Yuan 2009), and of a step with it."""

from __future__ import annotations

from collections.abc import Iterable


def bytes_sent(nbytes: float, ranks: int) -> float:
    """The least that each rank must send to add up this many bytes over all ranks: 2 (n - 1) / n of them."""
    return 2 * (ranks - 1) / ranks * nbytes


def seconds_of_all_reduce(nbytes: float, ranks: int, bandwidth: float, latency: float) -> float:
    """The time on a ring: 2 (n - 1) messages one after another, each with an n-th of the bytes.

    Args:
        bandwidth: bytes a second that a rank can send while it receives the same number.
        latency: seconds of a message without content.
    """
    return 2 * (ranks - 1) * latency + bytes_sent(nbytes, ranks) / bandwidth


def seconds_of_step(
    alone: float,
    backward_ends: float,
    begun: Iterable[tuple[float, float]],
    ranks: int,
    bandwidth: float,
    latency: float,
) -> float:
    """The time of a step, from its time when it sends nothing.

    Args:
        alone: seconds of the step when it sends nothing.
        backward_ends: the second at which the backward pass ends.
        begun: for each bucket, the second at which it is full, and its bytes.
    """
    free = 0.0
    for full, nbytes in begun:
        free = max(full, free) + seconds_of_all_reduce(nbytes, ranks, bandwidth, latency)
    return alone + max(0.0, free - backward_ends)
