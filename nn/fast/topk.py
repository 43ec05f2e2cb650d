"""The fast version of `log_softmax_topk`: in one compiled loop, or without sorting all classes."""

from __future__ import annotations

import math

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
    if not logits.size or (logits.requires_grad and tt.is_grad_enabled()) or not LIKELIEST.holds():
        return None
    xp = for_array(logits._data)
    classes = logits.shape[-1]
    rows = xp.reshape(logits._data, (-1, classes))
    if rows.dtype not in FLOATS:  # sums of 16 bits end at 65,504, and whole numbers know no -inf
        rows = xp.astype(rows, tt.float64)
    if k and (likeliest := xp.kernel("likeliest", rows)):
        places, log_probabilities = likeliest(rows, k, -1 if excluded is None else excluded)
    else:
        asked = rows if excluded is None else xp.where(xp.arange(classes) == excluded, rows.dtype.type(-math.inf), rows)
        places = xp.argmax(asked, axis=1)[:, None] if k == 1 else xp.k_largest(asked, k)
        with np.errstate(all="ignore"):  # rows of nothing but -inf, or with NaN, give NaN
            largest = xp.row_max(rows)  # relative to it, digits stay where logits are large
            total = xp.astype(xp.log(xp.row_sum(xp.exp(rows - largest))), tt.float64)
            log_probabilities = xp.astype(xp.take_along_axis(asked, places, 1), tt.float64) - largest - total
    shape = (*logits.shape[:-1], k)
    return wrap(xp.reshape(log_probabilities, shape), None), wrap(xp.reshape(places, shape), None)


topk.likeliest.faster = log_softmax_topk  # type: ignore[attr-defined]
