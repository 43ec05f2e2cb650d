"""Matrices of any numbers as heat maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .ramp import scale
from .svg import INK, MUTED, Element, Picture, text_width, titled
from .tiles import Scale, Tile, few
from .tokens import isolated
from .weights import to_numpy

MARGIN, GAP, TOP, WIDEST = 16.0, 28.0, 76.0, 960.0


def matrix(
    values: Any, *, rows: Any = None, columns: Any = None, title: str = "Matrix", numbers: bool | None = None
) -> Picture:
    """Numbers as colours, on a ramp in two directions from 0 if some are negative.

        visualize.matrix({"before": before, "after": after}, rows=words, title="Embeddings").save("embeddings.svg")

    Cells without a finite number are hatched. Each cell's title has its number; with more than 5,000 cells a matrix is
    an image without titles.

    Args:
        values: (rows, columns); (columns,) is one row; (matrix, rows, columns), or a dict of matrices by name, gives
            several side by side on one scale of colours. Tensors, arrays or lists.
        rows, columns: labels, one for each; default: their numbers.
        title: a line above the picture.
        numbers: True if cells hold their numbers; default: for matrices with at most 150 numbers, and 16 in a row.

    Raises ValueError for labels that do not fit, for other shapes, and if there is no finite number.
    """
    named = _read(values)
    if not any(np.isfinite(v).any() for v in named.values()):
        raise ValueError("matrix: no value can be drawn; expected finite numbers")
    colours = Scale.of(list(named.values()))
    tiles = {name: _tile(name, v, colours, rows, columns, numbers) for name, v in named.items()}
    if len(tiles) > 1:
        share = WIDEST / min(len(tiles), 4) - GAP - 20  # smaller cells have labels that reach further beyond
        tiles = {name: t.within(max(160.0, share - t.left - t.overhang)) for name, t in tiles.items()}

    children = [scale(colours.ramp, MARGIN + 14, 36, 180, colours.ticks(), MUTED)]
    x, y, right, bottom = MARGIN, TOP, MARGIN + 230, TOP
    above = max(tile.above for tile in tiles.values()) + (22 if len(tiles) > 1 else 0)
    for name, tile in tiles.items():
        wide = max(tile.left + tile.width + tile.overhang, tile.left + text_width(name, 13) * (len(tiles) > 1))
        if x > MARGIN and x + wide > WIDEST:
            x, y = MARGIN, bottom + GAP
        corner = x + tile.left, y + above
        children.append(tile.draw(*corner))
        if len(tiles) > 1:
            place = {"x": corner[0], "y": y + 12, "font_size": 13, "class_": "name"}
            children.append(Element("text", isolated(name), fill=INK, **place))
        x += wide + GAP
        right, bottom = max(right, x - GAP), max(bottom, corner[1] + tile.height)
    description = "; ".join(_words(name, v, len(named) > 1) for name, v in named.items())
    return titled(right + MARGIN, bottom + MARGIN, title, f"{description}.", children)


def _read(values: Any) -> dict[str, np.ndarray]:
    """The matrices by name, each (rows, columns), float64."""
    if isinstance(values, Mapping):
        named = {str(name): _numbers(item, str(name)) for name, item in values.items()}
    else:
        array = _numbers(values, "values")
        named = {str(i): part for i, part in enumerate(array)} if array.ndim == 3 else {"values": array}
    named = {name: array[None] if array.ndim == 1 else array for name, array in named.items()}
    if not named:
        raise ValueError("matrix: no matrix was given")
    for name, array in named.items():
        if array.ndim != 2 or not array.size:
            raise ValueError(
                f"matrix: {name} has shape {array.shape}; expected (rows, columns) or (columns,), with no axis empty, "
                "or (matrix, rows, columns) for several"
            )
    return named


def _numbers(values: Any, name: str) -> np.ndarray:
    array = to_numpy(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"matrix: {name} has dtype {array.dtype}; expected real numbers")
    return array.astype(np.float64)


def _tile(name: str, values: np.ndarray, colours: Scale, rows: Any, columns: Any, numbers: bool | None) -> Tile:
    # a single row needs no number
    beside = None if rows is None and len(values) == 1 else _labels(rows, "rows", len(values), name)
    above = _labels(columns, "columns", values.shape[1], name)
    return Tile(values, colours, few(values) if numbers is None else numbers, beside, above)


def _labels(given: Any, which: str, count: int, name: str) -> list[str]:
    """Labels as text; their numbers by default."""
    labels = [str(i) for i in range(count)] if given is None else [str(label) for label in given]
    if len(labels) != count:
        raise ValueError(f"matrix: {len(labels)} {which} were named, but {name} has {count}; give one label for each")
    return labels


def _words(name: str, values: np.ndarray, several: bool) -> str:
    """A matrix in words, for those who cannot see it."""
    rows, columns = values.shape
    finite = values[np.isfinite(values)]
    range_ = f"values from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "no finite value"
    hidden = f", {values.size - finite.size} not finite" if 0 < finite.size < values.size else ""
    return f"{isolated(name)}: " * several + f"{rows} rows and {columns} columns, {range_}{hidden}"
