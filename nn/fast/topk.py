"""The fast version of `log_softmax_topk`: one pass over the logits of a few rows at a time, and none is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.tensor import wrap

from ..functional import topk
from .sublayers import FLOATS

LIKELIEST = Way("the likeliest classes", "nn.functional.topk:log_softmax_topk", "nn.functional.topk:likeliest")


def log_softmax_topk(logits: Tensor, k: int, excluded: int | None) -> tuple[Tensor, Tensor] | None:
    """As `nn.functional.topk.likeliest`; the sums are in the logits' dtype where that is one of FLOATS."""
    if (logits.requires_grad and tt.is_grad_enabled()) or not LIKELIEST.holds():
        return None
    xp = for_array(logits._data)
    classes = logits.shape[-1]
    rows = xp.reshape(logits._data, (-1, classes)) if logits.size else xp.fresh((0, classes), dtype=logits.dtype)
    if rows.dtype not in FLOATS:  # sums of 16 bits end at 65,504, and whole numbers know no -inf
        rows = xp.astype(rows, tt.float64)
    places = xp.fresh((len(rows), k), dtype=tt.int64)
    log_probabilities = xp.fresh((len(rows), k), dtype=tt.float64)

    def rank_rows(i: slice) -> None:
        places[i] = likeliest_places(xp, rows[i], k, excluded)
        with np.errstate(all="ignore"):  # rows of nothing but -inf, or with NaN, give NaN
            log_probabilities[i] = log_probabilities_at(xp, rows[i], places[i], excluded)

    if k == 1 and (likeliest := xp.kernel("likeliest", rows)):
        likeliest(rows, -1 if excluded is None else excluded, places, log_probabilities)
    else:
        xp.in_parts(rank_rows, len(rows), 6 * rows.size, width=classes)
    shape = (*logits.shape[:-1], k)
    return wrap(xp.reshape(log_probabilities, shape), None), wrap(xp.reshape(places, shape), None)


def likeliest_places(xp: Any, rows: Any, k: int, excluded: int | None) -> Any:
    """Where the k largest of each row (n, classes) are, from the largest on; `excluded` only where none is left."""
    if excluded is None:
        return xp.k_largest(rows, k)
    if k == 1 and rows.shape[1] > 1:
        places = xp.argmax(rows, axis=1)
        if bool(xp.any(places == excluded)):
            others = xp.copy(rows)
            others[:, excluded] = -math.inf
            places = xp.argmax(others, axis=1)
        return places[:, None]
    places = xp.k_largest(rows, min(k + 1, rows.shape[1]))
    hits = places == excluded
    if bool(xp.any(hits)):
        places = xp.take_along_axis(places, xp.stable_argsort(hits, 1), 1)
    return places[:, :k]


def log_probabilities_at(xp: Any, rows: Any, places: Any, excluded: int | None) -> Any:
    """The log-probabilities of the likeliest classes (n, k) of rows (n, classes): (n, k) in float64.

    Relative to the largest logit, so that they keep their digits where logits are large.
    """
    best = xp.take_along_axis(rows, places, 1)
    if not places.shape[1]:
        return best
    largest = xp.contiguous(best[:, :1])
    if excluded is not None:
        largest = xp.maximum(largest, rows[:, excluded : excluded + 1])
        best = xp.where(places == excluded, rows.dtype.type(-math.inf), best)
    if exponential_sums := xp.kernel("exponential_sums", rows, largest):
        total = exponential_sums(rows, largest)
    else:
        total = xp.row_sum(xp.exp(rows - largest))
    return xp.astype(best, tt.float64) - largest - xp.astype(xp.log(total), tt.float64)


topk.likeliest.faster = log_softmax_topk  # type: ignore[attr-defined]
