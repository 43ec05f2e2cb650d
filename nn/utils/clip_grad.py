"""Clipping of gradients, by their common norm or value by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor.backend import for_array
from tinytensor.grad_mode import may_be_faster
from tinytensor.in_place import is_writable

from ..functional.precision import unchanged

Tensors = tt.Tensor | Iterable[tt.Tensor]
CHUNK = 1 << 15  # elements to copy to float64 at a time on the CPU


@unchanged
@may_be_faster
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> tt.Tensor:
    """Scale all gradients down in place, by one factor, so that their common norm is at most `max_norm`.

    The norm is that of all gradients as one vector (Pascanu et al. 2013, "On the difficulty of training recurrent
    neural networks", Algorithm 1). Skips parameters without a gradient; gradients of 0 stay 0.

    Args:
        parameters: the Tensors whose gradients to scale.
        max_norm: the largest allowed norm.
        norm_type: the p of the p-norm, above 0; `inf` for the largest absolute value.
        error_if_nonfinite: raise if the norm is infinite or NaN. Otherwise it turns the gradients to 0 or NaN.

    Returns the norm before scaling, 0-d. With error_if_nonfinite, raises RuntimeError for a norm that is not finite,
    and then changes no gradient.
    """
    parameters = _as_list(parameters)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@unchanged
def clip_grad_value_(parameters: Tensors, clip_value: float) -> None:
    """Limit every element of the gradients, in place, to the interval from -clip_value to clip_value.

    Raises ValueError for a negative `clip_value`.
    """
    limit = float(clip_value)
    if not limit >= 0:
        raise ValueError(f"clip_grad_value_: clip_value must be at least 0, got {clip_value!r}")
    for parameter in _as_list(parameters):
        if parameter.grad is not None:
            array = _writable(parameter.grad)
            xp = for_array(array)
            xp.maximum(array, -limit, out=array)
            xp.minimum(array, limit, out=array)
            tt.mark_written(array)


@unchanged
def get_total_norm(tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> tt.Tensor:
    """The p-norm of all Tensors as one vector, summed in float64.

    Returns a 0-d Tensor, in the Tensors' dtype (float32 for float16) and on the first one's device. Raises ValueError
    unless `norm_type` is above 0, and with `error_if_nonfinite` RuntimeError for a norm that is not finite.
    """
    tensors = _as_list(tensors)
    p = float(norm_type)
    if not p > 0:
        raise ValueError(f"get_total_norm: norm_type must be above 0, got {norm_type!r}")
    dtype = tt.result_type(tt.float32, *{t.dtype for t in tensors}) if tensors else None
    device = tensors[0].device if tensors else None
    with np.errstate(all="ignore"):
        if math.isinf(p):
            largest = [_largest(t._data) for t in tensors if t.size]
            total = math.nan if any(map(math.isnan, largest)) else max(largest, default=0.0)
        else:
            total = _power_sums([t._data for t in tensors], p) ** (1 / p)
        if error_if_nonfinite and not math.isfinite(total):
            raise RuntimeError(
                f"the norm of order {p:g} of the gradients is {total}, so they cannot be clipped; look for the cause "
                "with tt.detect_anomaly(), or pass error_if_nonfinite=False to go on"
            )
        return tt.asarray(total, dtype=dtype, device=device)


@unchanged
def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: tt.Tensor | float) -> None:
    """Scale all gradients, in place, by max_norm / (total_norm + 1e-6) if that is below 1."""
    if isinstance(total_norm, tt.Tensor) and total_norm.device == "gpu":
        norm = total_norm._data  # an array on the GPU: testing whether it is below 1 would mean waiting
        coefficient = for_array(norm).minimum(float(max_norm) / (norm + 1e-6), 1.0)
    else:
        coefficient = float(max_norm) / (float(total_norm) + 1e-6)
        if coefficient >= 1:
            return
    with np.errstate(all="ignore"):
        gradients = [_writable(parameter.grad) for parameter in _as_list(parameters) if parameter.grad is not None]
        _scale(gradients, coefficient)
        tt.mark_written(*gradients)


def unscale_(parameters: list[Any], scale: float) -> None:
    """Divide the gradients, in place, by a number."""
    with np.errstate(all="ignore"):
        gradients = [_writable(parameter.grad) for parameter in parameters]
        _scale(gradients, 1 / scale)
        tt.mark_written(*gradients)


def are_finite(tensors: list[tt.Tensor]) -> bool:
    """True if no element is infinite or NaN. If so, waits for a GPU once, not for each Tensor."""
    with np.errstate(all="ignore"):
        if math.isfinite(float(_power_sums([t._data for t in tensors], 2.0))):
            return True
    return all(bool(tt.all(tt.isfinite(t)).item()) for t in tensors)  # squares overflow sooner


def _as_list(tensors: Tensors) -> list[Any]:
    return [tensors] if isinstance(tensors, tt.Tensor) else list(tensors)


def _writable(gradient: tt.Tensor) -> Any:
    """The gradient's array, after replacing a read-only one by a copy."""
    if not is_writable(gradient):
        gradient._data, gradient._memory = for_array(gradient._data).copy(gradient._data), None
    return gradient._data


def _largest(array: Any) -> float:
    xp = for_array(array)
    return float(xp.max(xp.abs(array)))


@may_be_faster
def _power_sums(arrays: list[Any], p: float) -> Any:
    """The sum of |x|^p over all arrays in float64; if they are on one device, an array there, without waiting.

    On the CPU it converts arrays to float64 piece by piece, to avoid a large copy.
    """
    sums: dict[Any, Any] = {}
    for array in arrays:
        xp = for_array(array)
        flat = xp.reshape(array, (-1,))
        length = CHUNK if xp.device == "cpu" else max(flat.size, 1)
        for start in range(0, flat.size, length):
            piece = flat[start : start + length].astype(tt.float64)
            powers = xp.vecdot(piece, piece) if p == 2 else xp.sum(xp.abs(piece) ** p)
            sums[xp] = sums[xp] + powers if xp in sums else powers
    return next(iter(sums.values())) if len(sums) == 1 else np.float64(sum(map(float, sums.values())))


@may_be_faster
def _scale(arrays: list[Any], coefficient: Any) -> None:
    """Multiply arrays, in place, by a number, or by an array of one on the GPU."""
    for array in arrays:
        factor = coefficient if isinstance(coefficient, float) else coefficient.astype(array.dtype)
        for_array(array).multiply(array, factor, out=array)
