"""The fast pair of dropout, and dropping on raw arrays, which attention computes with as well."""

from __future__ import annotations

from typing import Any

from ..functional.dropout import _dropout


@_dropout.forward
def dropout_forward(xp, input, keep, *, scale):
    return drop(xp, input, keep, scale), (keep,)


@_dropout.backward
def dropout_backward(xp, g, saved, needs, *, scale):
    return drop(xp, g, saved[0], scale), None


def drop(xp: Any, x: Any, keep: Any, scale: float) -> Any:
    """x * keep * scale on raw arrays, on every core."""
    x, keep = xp.contiguous(x), xp.contiguous(keep)
    out = xp.fresh_like(x)
    dropped, mask, values = (a.reshape(-1) for a in (out, keep, x))

    def drop_elements(i: slice) -> None:
        drop_into(xp, values[i], mask[i], scale, dropped[i])

    xp.in_parts(drop_elements, x.size, 4 * x.size, width=1)
    return out


def drop_into(xp: Any, x: Any, keep: Any, scale: float, out: Any) -> None:
    """Write x * keep * scale into `out`, which may be x: contiguous raw arrays."""
    if keep.dtype.kind == "b" and (drop_kernel := xp.kernel("drop", x, out)):
        return drop_kernel(x, keep, scale, out)
    xp.multiply(x, keep, out=out)
    out *= scale
