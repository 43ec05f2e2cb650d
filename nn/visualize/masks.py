"""Attention masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .grid import key_tokens, query_tokens, widest_token
from .ramp import HIDDEN, frame, hatching
from .svg import BOLD, MUTED, PAPER, SERIES, Colour, Element, Picture, heading, text_width
from .tokens import check_pair, visible
from .weights import choose, to_numpy

MARGIN, TOP = 16.0, 40.0
SEEN = SERIES[0]
PADDING = Colour("padding", "#f3d3c2", "#54301f")
PADDING_STROKE = Colour("padding-hatch", "#c0571f", "#e08a5c")
MOST = 60


def attention_mask(
    attn_mask: Any = None,
    key_padding_mask: Any = None,
    *,
    source: Any = None,
    target: Any = None,
    sample: int = 0,
    title: str = "Attention mask",
) -> Picture:
    """The keys that each query may see: a row for each query, a column for each key.

    Cells hidden by `attn_mask` (in a causal mask, the future) are hatched like /, padding like \\, both are crossed.

    Args:
        attn_mask: (target, source), as in MultiheadAttention: boolean, True where attention is not allowed, or
            floating, -inf where it is not.
        key_padding_mask: (batch, source) or (source,), in the same forms.
        source, target: the tokens of keys and queries; default: their numbers; if the lengths are the same, one list
            serves both.
        sample: the index in a batch.
        title: a line above the picture.

    Raises ValueError if shapes or tokens do not fit, or if there are more than 60 positions, since nobody could tell
    the squares apart.
    """
    if attn_mask is None and key_padding_mask is None:
        raise ValueError("attention_mask: give attn_mask, key_padding_mask or both")
    hidden = None if attn_mask is None else _hidden(attn_mask)
    padding = None if key_padding_mask is None else _hidden(key_padding_mask)
    if padding is not None and padding.ndim == 2:
        padding = padding[choose(sample, len(padding), "sample")[0]]
    keys = hidden.shape[-1] if hidden is not None else padding.shape[-1]  # type: ignore[union-attr]
    hidden = np.zeros((keys, keys), dtype=bool) if hidden is None else hidden
    padding = np.zeros(keys, dtype=bool) if padding is None else padding
    if hidden.ndim != 2 or padding.shape != (keys,):
        raise ValueError(
            f"attention_mask: attn_mask {hidden.shape} must be (target, source), and key_padding_mask {padding.shape} "
            "(batch, source) or (source,) of the same source"
        )
    queries = len(hidden)
    if max(queries, keys) > MOST:
        raise ValueError(f"attention_mask: {queries} x {keys} positions are more than {MOST}; draw a part of the mask")
    source, target = check_pair(source, target, keys, queries)

    cell = min(30.0, 560 / max(queries, keys))
    size = min(13.0, cell * 0.8)
    widest = [widest_token(tokens, size) for tokens in (target, source)]
    left, top = MARGIN + widest[0] + 8, TOP + widest[1] * 0.75 + 14
    cells, slashes, backslashes = Element("g", stroke=PAPER, stroke_width=1), [], []
    for i in range(queries):
        for j in range(keys):
            x, y = left + j * cell, top + i * cell
            kind = " ".join(["hidden"] * bool(hidden[i, j]) + ["padding"] * bool(padding[j])) or "seen"
            fill = SEEN if kind == "seen" else HIDDEN if kind == "hidden" else PADDING
            title_ = Element("title", f"{visible(target[i])} → {visible(source[j])}: {kind}")
            cells.children.append(Element("rect", title_, x=x, y=y, width=cell, height=cell, fill=fill, class_=kind))
            if hidden[i, j]:
                slashes.append((x, y + cell, x + cell, y))
            if padding[j]:
                backslashes.append((x, y, x + cell, y + cell))
    children = [heading(title), cells, *hatching(slashes), *hatching(backslashes, PADDING_STROKE)]
    box = (left, top, keys * cell, queries * cell)
    children += [frame(*box), *query_tokens(target, box, size), *key_tokens(source, box, size)]
    causal = queries == keys > 1 and bool((hidden == ~np.tri(keys, dtype=bool)).all())
    words = {"hidden": "the future, hidden by attn_mask" if causal else "hidden by attn_mask", "padding": "padding"}
    legend, wide = _legend(MARGIN, top + queries * cell + 14, bool(hidden.any()), bool(padding.any()), words)
    width = max(left + keys * cell + widest[1] * 0.75, wide, BOLD * text_width(title, 15)) + MARGIN
    description = (
        f"{queries} queries (rows) and {keys} keys (columns): {int((~hidden & ~padding).sum())} pairs may be seen, "
        f"{int(hidden.sum())} are {words['hidden']}, {int(padding.sum())} keys are padding."
    )
    height = top + queries * cell + 24 + 20 * (1 + int(hidden.any()) + int(padding.any()))
    return Picture(width, height, title, description, [*children, legend])


def _hidden(mask: Any) -> np.ndarray:
    array = to_numpy(mask)
    if array.dtype.kind not in "bf":
        raise TypeError(f"attention_mask: masks are boolean or floating, got {array.dtype}")
    return array if array.dtype.kind == "b" else array == -math.inf


def _legend(x: float, y: float, hidden: bool, padding: bool, words: dict[str, str]) -> tuple[Element, float]:
    """A square for each kind that occurs, from (x, y) downwards, and the right end of the legend."""
    legend = Element("g", font_size=12, class_="legend")
    rows = [(SEEN, "may be seen")]
    rows += [(HIDDEN, words["hidden"])] * hidden + [(PADDING, words["padding"])] * padding
    for i, (fill, text) in enumerate(rows):
        top = y + 20 * i
        legend.children.append(Element("rect", x=x, y=top, width=12, height=12, fill=fill))
        legend.children += hatching([(x, top + 12, x + 12, top)] * (fill is HIDDEN))
        legend.children += hatching([(x, top, x + 12, top + 12)] * (fill is PADDING), PADDING_STROKE)
        legend.children.append(Element("text", text, x=x + 20, y=top + 10, fill=MUTED))
    return legend, x + 20 + max(text_width(text, 12) for _, text in rows)
