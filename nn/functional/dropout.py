"""Dropout."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .checks import check_probability


@tt.op
def _dropout(input, keep, *, scale):
    """input * keep * scale."""
    return input * keep * scale


def dropout(input: Any, p: float = 0.5, training: bool = True, *, generator: Any = None) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    Without `training` the input as it is. Random numbers come from `generator`, by default the library's own.
    """
    check_probability("dropout", p)
    x = input if isinstance(input, Tensor) else tt.asarray(input)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    return _dropout(x, tt.random.bernoulli(1 - p, x.shape, device=x.device, generator=generator), scale=1 / (1 - p))
