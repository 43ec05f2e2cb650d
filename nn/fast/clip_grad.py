"""The clipping of gradients by their norm, with one pass over all of them for the norm and one for the scaling."""

from __future__ import annotations

from typing import Any

from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.modes import state

from ..utils import clip_grad

CLIP = Way("the clipping of gradients", "nn.utils.clip_grad:_power_sums", "nn.utils.clip_grad:_scale")


def loop_for(name: str, arrays: list[Any]) -> Any:
    """The loop of that name, if there is one that takes these arrays."""
    namespaces = {for_array(array) for array in arrays}
    if len(namespaces) != 1 or state.textbook:
        return None
    return namespaces.pop().kernel(name, *arrays, size=sum(array.size for array in arrays))


def power_sums(arrays: list[Any], p: float) -> Any:
    some = [array for array in arrays if array.size]
    sum_of_squares = loop_for("sum_of_squares", some) if p == 2 and (not CLIP.off or CLIP.holds()) else None
    return sum_of_squares(some) if sum_of_squares else piece_by_piece(arrays, p)


def scale(arrays: list[Any], coefficient: Any) -> None:
    some = [array for array in arrays if array.size]
    scale_all = loop_for("scale_all", some) if not CLIP.off or CLIP.holds() else None
    scale_all(some, coefficient) if scale_all else one_by_one(some, coefficient)


piece_by_piece, clip_grad._power_sums = clip_grad._power_sums, power_sums
one_by_one, clip_grad._scale = clip_grad._scale, scale
