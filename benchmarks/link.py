"""What an all-reduce costs on a link: the model of a ring (Patarasuk & Yuan 2009), and what a step takes then."""

from __future__ import annotations

from collections.abc import Iterable


def bytes_sent(nbytes: float, ranks: int) -> float:
    """What each rank sends to have so many bytes added up over all of them, at least: 2 (n - 1) / n of them."""
    return 2 * (ranks - 1) / ranks * nbytes


def seconds_of_all_reduce(nbytes: float, ranks: int, bandwidth: float, latency: float) -> float:
    """On a ring: 2 (n - 1) messages one after another, each of an n-th of the bytes.

    Args:
        bandwidth: bytes a second that a rank can send, while it receives as many.
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
    """What a step takes, of which it is known what it takes when nothing is sent.

    Args:
        alone: seconds of the step when nothing is sent.
        backward_ends: after so many of them the backward pass is done.
        begun: of each bucket, after how many of them it is full, and its bytes.
    """
    free = 0.0
    for full, nbytes in begun:
        free = max(full, free) + seconds_of_all_reduce(nbytes, ranks, bandwidth, latency)
    return alone + max(0.0, free - backward_ends)
