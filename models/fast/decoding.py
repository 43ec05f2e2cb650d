"""Decoding of many sentences in two halves, side by side where there are threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.fast.texts import Way

from .. import decoding as textbook
from ..decoding import T

MANY = 8
"""From so many sentences on, two threads decode two halves faster; one thread has halves, too, for the same bits."""

HALVES = Way(
    "decoding in two halves", "models.decoding:in_evaluation",
    calls=("nn.module:evaluating", "models.decoding:as_ids"),
)  # fmt: skip


def in_halves(decode: Callable[[Tensor], list[T]], model: Any, source: Any) -> list[T] | None:
    """The results of `in_evaluation`, few sentences at once; None where its own lines are to compute.

    Every second one is in a half: of sentences that are sorted by their lengths, both have as much to do.
    """
    if nn.inside.watching.watchers() or not HALVES.holds():  # a watcher meets whole batches
        return None
    with tt.no_grad(), textbook.evaluating(model):
        source = textbook.as_ids(model, source)
        if len(source) < MANY or source.device != "cpu":
            return decode(source)
        evens, odds = nn.parallel.side_by_side([partial(decode, half) for half in (source[::2], source[1::2])])
        found = [*evens, *odds]
        found[::2], found[1::2] = evens, odds
        return found


textbook.in_evaluation.faster = in_halves  # type: ignore[attr-defined]
