"""The likeliest classes, which decoding needs at every step."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster

from .activations import log_softmax
from .checks import check_dim


def log_softmax_topk(input: Any, k: int, *, excluded: int | None = None) -> tuple[Tensor, Tensor]:
    """The k largest of log(softmax(x)) along the last axis, in descending order, and their classes.

    Args:
        input: logits, (..., classes).
        k: how many, from 0 to classes; of equal ones, the first.
        excluded: a class to give log-probability -inf, such as padding; the others do not get its probability.

    Returns log-probabilities (..., k) in float64 and classes (..., k) in int64. Raises ValueError for a k out of range
    and IndexError for an `excluded` out of range.
    """
    logits = input if isinstance(input, Tensor) else tt.asarray(input)
    check_dim("log_softmax_topk", logits, -1)
    classes = logits.shape[-1]
    if not 0 <= k <= classes:
        raise ValueError(f"log_softmax_topk: k must be from 0 to {classes}, the number of classes, got {k}")
    excluded = None if excluded is None else int(index(excluded))
    if excluded is not None and not 0 <= excluded < classes:
        raise IndexError(f"log_softmax_topk: excluded must be from 0 to {classes - 1}, got {excluded}")
    return likeliest(logits, k, excluded)


@may_be_faster
def likeliest(logits: Tensor, k: int, excluded: int | None) -> tuple[Tensor, Tensor]:
    """The formula of `log_softmax_topk`."""
    log_p = log_softmax(tt.astype(logits, tt.float64), dim=-1)
    if excluded is not None:
        log_p = tt.where(tt.arange(log_p.shape[-1], device=log_p.device) == excluded, -math.inf, log_p)
    return tt.topk(log_p, k)
