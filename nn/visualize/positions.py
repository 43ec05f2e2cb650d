"""Positional encodings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..positional import PositionalEncoding, sinusoidal_encoding
from .ramp import SIGNED, frame, pixels, scale
from .svg import INK, MUTED, Element, Picture, titled
from .tiles import Scale
from .weights import to_numpy

LEFT, TOP = 62.0, 84.0


def positional_encoding(
    encoding: Any = 64, d_model: int = 128, *, length: int | None = None, title: str = "Positional encoding"
) -> Picture:
    """A positional encoding as a heat map: a row for each position, a column for each dimension.

    Args:
        encoding: the number of positions, for the sinusoids of Vaswani et al. 2017 (section 3.5); a
            `PositionalEncoding`; or numbers (length, d_model), such as learned ones.
        d_model: the size of the vectors, if `encoding` is a number.
        length: how many positions to draw; default: all, or the first 64 of a `PositionalEncoding`.
        title: a line above the picture.

    Raises ValueError for another shape and for numbers that are not finite.
    """
    if isinstance(encoding, int):
        encoding = sinusoidal_encoding(encoding, d_model)
    elif isinstance(encoding, PositionalEncoding):
        encoding, length = encoding.encoding, 64 if length is None else length
    values = to_numpy(encoding).astype(np.float64)[:length]
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"positional_encoding: expected finite numbers (length, d_model), got shape {values.shape}")
    positions, size = values.shape
    most = float(np.abs(values).max()) or 1.0
    width, height = min(900.0, max(320.0, size * 6.0)), min(520.0, max(120.0, positions * 6.0))
    box = (LEFT, TOP, width, height)
    children = [
        scale(SIGNED, LEFT, 36, 180, Scale(most, True).ticks(), MUTED),
        *pixels((values / most + 1) / 2, None, SIGNED, box),
        frame(*box),
    ]
    for i in _marks(positions):
        y = TOP + (i + 0.5) * height / positions + 4
        children.append(Element("text", str(i), x=LEFT - 6, y=y, text_anchor="end", font_size=11, fill=MUTED))
    for j in _marks(size):
        x = LEFT + (j + 0.5) * width / size
        place = {"x": x, "y": TOP + height + 16, "text_anchor": "middle"}
        children.append(Element("text", str(j), font_size=11, fill=MUTED, **place))
    middle = TOP + height / 2
    turn = f"rotate(-90 20 {middle:g})"
    words = {"font_size": 12, "fill": INK, "text_anchor": "middle"}
    children.append(Element("text", "position", x=20, y=middle, transform=turn, **words))
    children.append(Element("text", "dimension", x=LEFT + width / 2, y=TOP + height + 34, **words))
    description = (
        f"{positions} positions (rows) of {size} dimensions (columns), values from {values.min():.3g} to "
        f"{values.max():.3g}."
    )
    return titled(LEFT + width + 24, TOP + height + 48, title, description, children)


def _marks(count: int) -> list[int]:
    """Up to nine round positions, from 0."""
    step = next(s for s in (m * 10**e for e in range(9) for m in (1, 2, 5)) if count <= 9 * s)
    return list(range(0, count, step))
