"""Attention of one head as matrices: every product, the scale, the mask and the softmax as a tile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .heads import Head, read_head
from .steps import TIMES, scaling
from .svg import BOLD, INK, MINUS, MUTED, Element, Picture, text_width, titled
from .tiles import Scale, Tile
from .tokens import check_pair, isolated, visible

MARGIN, TOP, CAPTION, NOTES, GAP, WIDEST = 16.0, 44.0, 22.0, 38.0, 12.0, 960.0
MOST_NUMBERED, LARGEST_CELL, LARGEST_TILE = 8, 20.0, 240.0


def attention_matrices(
    query: Any,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    *,
    source: Any = None,
    target: Any = None,
    head: int = 0,
    sample: int = 0,
    scale: float | None = None,
    title: str | None = None,
) -> Picture:
    """softmax(Q Kᵀ / √d_k + mask) V matrix by matrix (Vaswani et al. 2017, equation 1): all queries at once.

    If no axis is longer than 8, the cells hold their numbers. Each tile has its own scale of colours, in two directions
    from 0 if it has negative numbers; the scale of the weights goes from 0 to 1. Masked cells are hatched.

    Args:
        query, key, value, mask, head, sample, scale: as in `attention_steps`; query, a recorded AttentionCall or
            Q, (target, d_k), must be given.
        source, target: the tokens of keys and queries; if the lengths are the same, one list serves both.

    Raises ValueError if shapes or tokens do not fit, or numbers are not finite.
    """
    inputs = read_head("attention_matrices", query, key, value, mask, head, sample, scale)
    queries, keys = inputs.hidden.shape
    weights = inputs.weights
    source_names, target_names = check_pair(source, target, keys, queries)
    named = source is not None or target is not None
    rows, columns = ([visible(t) for t in names] if named else None for names in (target_names, source_names))

    lines = _lines(_groups(inputs, weights, rows, columns))
    title = title or f"Scaled dot-product attention as matrices{inputs.name}"
    children: list[Element] = []
    bottom, right = TOP, BOLD * text_width(title, 15) + MARGIN
    for line in lines:
        bottom = _draw(line, bottom, children) + GAP
        right = max(right, sum(piece.width for piece in line))
    i, j = np.unravel_index(int(weights.argmax()), weights.shape)
    description = (
        f"{queries} queries over {keys} keys of size {inputs.query.shape[1]}, values of size {inputs.value.shape[1]}; "
        f"the largest weight, {weights[i, j]:.2f}, goes from {isolated(visible(target_names[i]))} to "
        f"{isolated(visible(source_names[j]))}."
    )
    return titled(right + 2 * MARGIN, bottom, title, description, children)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A tile, and the operator before it.

    Attributes:
        formula: the text above the tile.
        note: the text below it, beside its shape.
    """

    operator: str
    formula: str
    note: str
    tile: Tile

    @property
    def before(self) -> float:
        """The width of the operator."""
        return text_width(self.operator, 15) + 2 * GAP if self.operator else 0.0

    @property
    def width(self) -> float:
        heading = max(text_width(self.formula, 14), *(text_width(note, 11) for note in self.notes))
        return self.before + self.tile.left + max(self.tile.width + self.tile.overhang, heading)

    @property
    def notes(self) -> list[str]:
        """The shape and the note; if the cells hold no numbers, also their range."""
        tile = self.tile
        shape = TIMES.join(map(str, tile.values.shape))
        finite = tile.values[np.isfinite(tile.values)]
        between = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size and not tile.numbers else ""
        return [f"{shape}, {self.note}" if self.note else shape, between.replace("-", MINUS)]


def _groups(inputs: Head, weights: np.ndarray, rows: list[str] | None, columns: list[str] | None) -> list[list[_Piece]]:
    """The steps from Q and K to the result; the pieces of a group share a line."""
    steps = [inputs.follow(i) for i in range(len(weights))]
    products, scores, masked = (np.array([getattr(s, n) for s in steps]) for n in ("products", "scores", "masked"))
    divided, meaning = scaling(inputs.scale, inputs.query.shape[1])
    divided = divided.replace("/", "÷")
    added = [[_Piece("+ mask", "+ mask", f"{MINUS}∞ hides", _tile(masked, rows, columns))]] if inputs.masked else []
    seen = "rows add up to 1" if weights.any(axis=1).all() else "rows add up to 1, or to 0"
    groups = [
        [
            _Piece("", "Q", "", _tile(inputs.query, rows, None)),
            _Piece("·", "Kᵀ", "", _tile(inputs.key.T, None, columns)),
            _Piece("=", "Q Kᵀ", "", _tile(products, rows, columns)),
        ],
        [_Piece(divided, f"Q Kᵀ {divided}", meaning, _tile(scores, rows, columns))],
        *added,
        [_Piece("softmax", "A = softmax", seen, _tile(weights, rows, columns, Scale(1.0, False)))],
        [
            _Piece("·", "V", "", _tile(inputs.value, columns, None)),
            _Piece("=", "A V", "the result", _tile(weights @ inputs.value, rows, None)),
        ],
    ]
    return _alike(groups)


def _tile(values: np.ndarray, rows: list[str] | None, columns: list[str] | None, colours: Scale | None = None) -> Tile:
    return Tile(values, colours or Scale.of([values]), True, rows, columns)


def _alike(groups: list[list[_Piece]]) -> list[list[_Piece]]:
    """The groups with cells of one size, so that the sides of tiles show which fit together."""
    tiles = [piece.tile for group in groups for piece in group]
    longest = max(max(tile.values.shape) for tile in tiles)
    numbers = longest <= MOST_NUMBERED
    side = min(LARGEST_CELL, LARGEST_TILE / longest)
    size = (max(tile.cell[0] for tile in tiles), tiles[0].cell[1]) if numbers else (side, side)
    return [[replace(p, tile=replace(p.tile, numbers=numbers, size=size)) for p in group] for group in groups]


def _lines(groups: list[list[_Piece]]) -> list[list[_Piece]]:
    """Lines of groups, with as many groups in each as fit."""
    lines: list[list[_Piece]] = [[]]
    for group in groups:
        if lines[-1] and sum(piece.width for piece in [*lines[-1], *group]) > WIDEST:
            lines.append([])
        lines[-1] += group
    return lines


def _draw(line: list[_Piece], top: float, children: list[Element]) -> float:
    """Draw the pieces of a line, with their tiles around one axis; returns the lower end of the line."""
    above = max(piece.tile.above + piece.tile.height / 2 for piece in line)
    axis = top + CAPTION + above
    x = MARGIN
    for piece in line:
        tile = piece.tile
        if piece.operator:
            place = {"x": x + piece.before / 2, "y": axis + 5, "text_anchor": "middle", "class_": "operator"}
            size = 20 if len(piece.operator) == 1 else 15
            children.append(Element("text", piece.operator, font_size=size, fill=INK, **place))
        left, y = x + piece.before + tile.left, axis - tile.height / 2
        heading = {"x": left, "y": y - tile.above - 8, "font_size": 14, "font_style": "italic", "class_": "formula"}
        children.append(Element("text", piece.formula, fill=INK, **heading))
        children.append(tile.draw(left, y))
        for i, note in enumerate(piece.notes):
            if note:
                place = {"x": left, "y": y + tile.height + 16 + 14 * i, "font_size": 11, "class_": "note"}
                children.append(Element("text", note, fill=MUTED, **place))
        x += piece.width
    return axis + max(piece.tile.height for piece in line) / 2 + NOTES
