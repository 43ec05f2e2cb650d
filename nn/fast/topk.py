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
            total = log_sum_exp(xp, rows[i], xp.contiguous(values[:, :1]))
            if excluded is not None:  # to the end with it, and the others stay in their order
                values = xp.where(best == excluded, -math.inf, values)
                order = xp.stable_argsort(best == excluded, 1)
                best, values = (xp.take_along_axis(x, order, 1) for x in (best, values))
            places[i] = best[:, :k]
            log_probabilities[i] = values[:, :k] - total

    xp.in_parts(rank_rows, len(rows), 6 * rows.size, width=classes)
    shape = (*logits.shape[:-1], k)
    return wrap(xp.reshape(log_probabilities, shape), None), wrap(xp.reshape(places, shape), None)


def log_sum_exp(xp: Any, rows: Any, largest: Any) -> Any:
    """log sum exp of each row (n, classes), of which `largest` (n, 1) is the largest element: (n, 1) in float64."""
    if exponential_sums := xp.kernel("exponential_sums", rows, largest):
        total = xp.log(exponential_sums(rows, largest)) + largest
    elif xp.within(largest, SAFE):
        total = xp.log(xp.row_sum(xp.exp(rows)))
    else:
        total = xp.log(xp.row_sum(xp.exp(rows - largest))) + largest
    return xp.astype(total, tt.float64)


topk.fast = log_softmax_topk
