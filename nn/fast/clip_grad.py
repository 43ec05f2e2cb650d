"""The clipping of gradients by their norm, with one pass over all of them for the norm and one for the scaling."""

from __future__ import annotations

from typing import Any

from tinytensor.backend import for_array
from tinytensor.fast.texts import Way

from ..utils import clip_grad

CLIP = Way("the clipping of gradients", "nn.utils.clip_grad:_power_sums", "nn.utils.clip_grad:_scale")


def loop_for(name: str, arrays: list[Any]) -> Any:
    """The loop of that name, if there is one that takes these arrays and the text is what it stands for."""
    namespaces = {for_array(array) for array in arrays}
    if len(namespaces) != 1 or not CLIP.holds():
        return None
    return namespaces.pop().kernel(name, *arrays, size=sum(array.size for array in arrays))


def power_sums(arrays: list[Any], p: float) -> Any:
    some = [array for array in arrays if array.size]
    sum_of_squares = loop_for("sum_of_squares", some) if p == 2 else None
    return sum_of_squares(some) if sum_of_squares else None


def scale(arrays: list[Any], coefficient: Any) -> bool | None:
    some = [array for array in arrays if array.size]
    scale_all = loop_for("scale_all", some)
    if scale_all is None:
        return None
    scale_all(some, coefficient)
    return True


clip_grad._power_sums.faster = power_sums  # type: ignore[attr-defined]
clip_grad._scale.faster = scale  # type: ignore[attr-defined]
