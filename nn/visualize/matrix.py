"""Numbers as heat maps: matrices, positional encodings, and the shares of tokens in an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..positional import PositionalEncoding, sinusoidal_encoding
from .ramp import scale
from .svg import INK, MUTED, Element, Picture, text_width, titled
from .tiles import FONT, LINE, Scale, Tile, written
from .tokens import check_tokens, isolated, visible
from .weights import real

MARGIN, GAP, TOP, WIDEST = 16.0, 28.0, 76.0, 960.0
MOST_NUMBERS, MOST_COLUMNS = 150, 16


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
        tiles = {name: replace(t, room=max(160.0, share - t.left - t.overhang)) for name, t in tiles.items()}

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
        named = {str(name): real(item, f"matrix: {name}") for name, item in values.items()}
    else:
        array = real(values, "matrix: values")
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


def _tile(name: str, values: np.ndarray, colours: Scale, rows: Any, columns: Any, numbers: bool | None) -> Tile:
    # a single row needs no number
    beside = None if rows is None and len(values) == 1 else _labels(rows, "rows", len(values), name)
    above = _labels(columns, "columns", values.shape[1], name)
    few = values.size <= MOST_NUMBERS and values.shape[1] <= MOST_COLUMNS
    return Tile(values, colours, few if numbers is None else numbers, beside, above)


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


# ---- positional encodings


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
    values = real(encoding, "positional_encoding: encoding", "numbers (length, d_model)")
    values = values[:length] if values.ndim else values
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"positional_encoding: expected finite numbers (length, d_model), got shape {values.shape}")
    positions, size = values.shape
    colours = Scale(float(np.abs(values).max()) or 1.0, True)
    rows, columns = ([str(i) for i in range(count)] for count in values.shape)
    tile = Tile(values, colours, False, rows, columns, room=900.0)
    children, end = colours.legend(("", "value"), "rows are positions, columns are dimensions")
    children.append(tile.draw(MARGIN + tile.left, TOP + tile.above))
    description = (
        f"{positions} positions (rows) of {size} dimensions (columns), values from {values.min():.3g} to "
        f"{values.max():.3g}."
    )
    width, height = max(tile.left + tile.width + tile.overhang, end), TOP + tile.above + tile.height + MARGIN
    return titled(MARGIN + width + MARGIN, height, title, description, children)


# ---- shares of tokens

PAGE, WIDEST_TOKEN = 640.0, 96.0  # a page is narrow enough for a telephone


def attribution(values: Any, tokens: Any, attention: Any = None, *, title: str = "Attribution") -> Picture:
    """Tokens on colours around 0: orange ones raise an output, blue ones lower it; below, the attention to each.

        (values,) = integrated_gradients(output, embeddings)      # tinytensor.models.attribution
        visualize.attribution(values, words, call.weights[0, 2, -1])     # head 2; [0, :, -1].mean(axis=0): all heads

    Attention says where a head looked, attribution what made the output: they may differ. Weights are from 0 to 1.

    Args:
        values: (length,) or (1, length), such as those of `integrated_gradients`.
        tokens: the text of each.
        attention: (length,), the weights that one query gives to them; NaN for a token left out.
        title: a line above the picture.

    Raises ValueError for tokens or weights of another length, and for values that are not finite; TypeError for a
    recording in place of weights.
    """
    one = "the weights of one query, (length,), such as call.weights[0, 2, -1] of a recorded call"
    shares = np.atleast_2d(real(values, "attribution: values", "a number for each token"))
    weights = None if attention is None else np.atleast_2d(real(attention, "attribution: attention", one))
    if shares.ndim != 2 or len(shares) != 1 or not shares.size or not np.isfinite(shares).all():
        raise ValueError(f"attribution: values have shape {shares.shape}; expected finite numbers, (length,)")
    if weights is not None and weights.shape != shares.shape:
        raise ValueError(
            f"attribution: attention has shape {weights.shape}; expected {shares.shape}, as the values: {one}"
        )
    texts = [visible(token) for token in check_tokens(tokens, "tokens", shares.size, "key")]
    colours, numbers = Scale(float(np.abs(shares).max()) or 1.0, True), written(shares)[0].tolist()
    children, _ = colours.legend(("lowers the output", "raises it"))
    left, top = MARGIN + text_width("attribution", FONT) + 12, 76.0
    size = 8 + min(WIDEST_TOKEN, max(text_width(text, FONT) for text in [*texts, *numbers])), LINE
    count = int((PAGE - MARGIN - left) // size[0])
    for part in (slice(at, at + count) for at in range(0, len(texts), count)):
        tiles = [Tile(shares[:, part], colours, True, ["attribution"], numbers[part], size=size, inside=texts[part])]
        if weights is not None:
            inside = ["" if np.isnan(weight) else f"{weight:.2f}" for weight in weights[0, part]]
            tiles.append(Tile(weights[:, part], Scale(1.0, False), True, ["attention"], size=size, inside=inside))
        for tile in tiles:
            children.append(tile.draw(left, top + tile.above))
            top += tile.above + LINE + 4
        top += 12
    most = int(np.abs(shares).argmax())
    description = f"{isolated(texts[most])} has the largest share, {shares[0, most]:.3g} of {shares.sum():.3g}."
    return titled(PAGE, top, title, description, children)
