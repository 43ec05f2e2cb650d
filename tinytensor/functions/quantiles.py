"""Quantiles: the value below which a share of the elements falls. Loaded when first asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Never

import numpy as np

import tinytensor as tt

from .. import dtypes
from ..tensor import Tensor
from ..typing import ArrayLike, Axis
from .reductions import normalize_axes

INTERPOLATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda rank: rank,
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": lambda rank: (np.floor(rank) + np.ceil(rank)) / 2,
}
"""By name, the function applied to a rank, which may be between two elements."""

ELEMENTS = ("lower", "higher", "nearest")
"""The interpolations that give an element itself, in the dtype of x."""


def quantile(
    x: ArrayLike,
    q: Any,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    interpolation: str = "linear",
    **unknown: Never,
) -> Tensor:
    """The values below which the shares `q`, from 0 to 1, of the elements over `axis` fall; NaN if an element is NaN.

    The q-quantile of n sorted elements is the one of rank q (n - 1), counted from 0 (Hyndman and Fan, 1996, type 7).

    Args:
        q: a number or a vector; the result has its shape, followed by what is left of the shape of x. A Tensor that
            requires a gradient has one under "linear": the distance between the two elements, times n - 1.
        axis: one, several, or None for all.
        interpolation: for a rank between two elements: "linear" between them, the "lower", the "higher", the
            "nearest", or the "midpoint". NumPy calls it `method`.
    """
    x = tt.asarray(x)
    axes = normalize_axes("quantile", axis, x.shape, unknown=unknown)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"quantile: interpolation must be one of {', '.join(INTERPOLATIONS)}; got {interpolation!r}")
    if x.dtype.kind not in "biuf":
        raise TypeError(f"quantile: expected real numbers, got {x.dtype}")
    shares = np.asarray(tt.asarray(q).detach().numpy() if isinstance(q, Tensor) else q, dtype=np.float64)
    if shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"quantile: q must be a number from 0 to 1, or a vector of such; got {shares.tolist()}")
    x = x if x.dtype.kind == "f" or interpolation in ELEMENTS else tt.astype(x, dtypes.get_default_dtype())
    rest = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)
    if not count:
        raise ValueError(f"quantile: there is no quantile of nothing: shape {x.shape} is empty over axis {axes}")
    ordered = tt.sort(tt.reshape(tt.permute_dims(x, rest + list(axes)), (*[x.shape[i] for i in rest], count)))
    rank = INTERPOLATIONS[interpolation](shares.reshape(-1) * (count - 1))
    below = np.floor(rank).astype(np.int64)
    found = ordered[..., tt.asarray(below, device=x.device)]
    if interpolation not in ELEMENTS:
        gap = ordered[..., tt.asarray(np.ceil(rank).astype(np.int64), device=x.device)] - found
        part = tt.asarray(rank - below, dtype=x.dtype, device=x.device)
        if isinstance(q, Tensor) and interpolation == "linear":
            part = tt.reshape(q, (-1,)) * (count - 1) - tt.asarray(below, dtype=x.dtype, device=x.device)
        found = found + gap * part
    if x.dtype.kind == "f":
        found = tt.where(tt.isnan(ordered[..., -1:]), math.nan, found)  # they are sorted to the end
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape)) if keepdims else tuple(x.shape[i] for i in rest)
    return tt.reshape(tt.moveaxis(found, -1, 0), (*shares.shape, *kept))


def median(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
    """The middle element over `axis`; for an even number the lower of the two, as in PyTorch.

    `quantile(x, 0.5)` is NumPy's, the mean of the two. NaN if an element is NaN; an integer for integers.
    """
    x = tt.asarray(x)
    axes = normalize_axes("median", axis, x.shape, unknown=unknown)
    return quantile(x, 0.5, axis=axes, keepdims=keepdims, interpolation="lower")
