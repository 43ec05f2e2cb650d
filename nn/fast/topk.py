"""The fast version of `log_softmax_topk`: one pass over the logits of a few rows at a time, and none is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.tensor import wrap

from ..functional import topk
from .activations import SAFE


def log_softmax_topk(logits: Tensor, k: int, excluded: int | None) -> tuple[Tensor, Tensor]:
    """As `nn.functional.topk.likeliest`; the sums are in the logits' dtype."""
    xp = for_array(logits._data)
    classes = logits.shape[-1]
    rows = xp.reshape(logits._data, (-1, classes)) if logits.size else xp.empty((0, classes), dtype=logits.dtype)
    places = xp.empty((len(rows), k), dtype=tt.int64)
    log_probabilities = xp.empty((len(rows), k), dtype=tt.float64)

    def rank_rows(i: slice) -> None:
        with np.errstate(all="ignore"):  # rows of nothing but -inf, or with NaN, give NaN
            best = xp.largest_places(rows[i], min(max(k, 1) + (excluded is not None), classes))
            values = xp.take_along_axis(rows[i], best, 1)
            values = log_probabilities_of(xp, values, rows[i])
            if excluded is not None:  # to the end with it, and the others stay in their order
                values = xp.where(best == excluded, -math.inf, values)
                order = xp.stable_argsort(best == excluded, 1)
                best, values = (xp.take_along_axis(x, order, 1) for x in (best, values))
            places[i] = best[:, :k]
            log_probabilities[i] = values[:, :k]

    xp.in_parts(rank_rows, len(rows), 6 * rows.size, width=classes)
    shape = (*logits.shape[:-1], k)
    return wrap(xp.reshape(log_probabilities, shape), None), wrap(xp.reshape(places, shape), None)


def log_probabilities_of(xp: Any, best: Any, rows: Any) -> Any:
    """The log-probabilities of the largest logits (n, k) of rows (n, classes), descending: (n, k) in float64.

    Relative to the largest, so that they keep their digits where logits are large.
    """
    largest = xp.contiguous(best[:, :1])
    if exponential_sums := xp.kernel("exponential_sums", rows, largest):
        total = exponential_sums(rows, largest)
    elif xp.within(largest, SAFE):
        total, largest = xp.row_sum(xp.exp(rows)), 0
    else:
        total = xp.row_sum(xp.exp(rows - largest))
    return xp.astype(best, tt.float64) - largest - xp.astype(xp.log(total), tt.float64)


topk.fast = log_softmax_topk
