"""Attention as heat maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ramp import HIDDEN, STROKE, WEIGHTS, hatching, pixels, scale, squares
from .svg import INK, MUTED, RULE, Element, Picture, number, text_width
from .tokens import check_tokens, isolated, label, visible
from .weights import choose, read_layers

WIDTH, HEIGHT = 1240.0, 690.0  # a slide of 1280 x 720, with room around
MARGIN, GAP, TOP = 16.0, 12.0, 84.0
MOST_TITLES = 5000


def attention_grid(
    weights: Any,
    source: Any = None,
    target: Any = None,
    *,
    layers: Any = None,
    heads: Any = None,
    sample: int = 0,
    title: str | None = None,
) -> Picture:
    """Heat maps of the weights, a row for each layer and a column for each head, on one scale of colours.

    Rows of a map are queries, columns are keys. What the mask hides is hatched, if a recording knows the mask. Each
    cell's title has its tokens and its weight; with more than 5,000 cells in all, maps are images, and have none.
    Tokens stand beside the maps where the maps are large enough to read them.

    Args:
        weights: (layer, head, target, source), a recording, or another form that `read_layers` takes.
        source: the tokens of the keys; default: their numbers.
        target: the tokens of the queries; default: those of `source` where the lengths are the same.
        layers, heads: one or several of each; default: all.
        sample: which one of a batch.

    Raises ValueError where tokens do not fit the weights or weights do not add up to one.
    """
    read = read_layers(weights, sample)
    shown = choose(layers, len(read), "layer")
    most = max(len(read[i].weights) for i in shown)
    columns = choose(heads, most, "head")
    queries, keys = read[0].weights.shape[1:]
    named = source is not None or target is not None
    source = check_tokens(source, "source", keys, "source") if source is not None or queries != keys else source
    target = check_tokens(source if target is None and queries == keys else target, "target", queries, "target")
    source = target if source is None else source

    cell = min((WIDTH - 110) / len(columns) / keys, (HEIGHT - TOP - 40) / len(shown) / queries, 44.0)
    size = min(13.0, cell * 0.8)
    beside = named and size >= 9 and len(columns) * len(shown) == 1
    left = MARGIN + 58.0
    above = TOP
    if beside:
        widest = [min(160.0, max(text_width(visible(t), size) for t in tokens)) for tokens in (target, source)]
        left, above = MARGIN + widest[0] + 30, TOP + widest[1] * 0.75 + 16
    across = (WIDTH - left - GAP * len(columns)) / len(columns)
    down = (HEIGHT - above - GAP * len(shown)) / len(shown)
    cell = min(across / keys, down / queries, 44.0)
    w, h = max(cell * keys, 12.0), max(cell * queries, 12.0)
    pictured = len(shown) * len(columns) * queries * keys > MOST_TITLES

    hidden_known = any(read[i].hidden is not None for i in shown)
    title = title or ("Attention weights" if len(shown) > 1 or not read[shown[0]].name else read[shown[0]].name)
    children = [Element("text", title, x=MARGIN, y=24, font_size=15, font_weight="bold", fill=INK)]
    children.append(scale(WEIGHTS, MARGIN, 36, 180, [(0, "0"), (0.5, "0.5"), (1, "1")], MUTED))
    children.append(Element("text", "weight", x=MARGIN + 192, y=45, font_size=12, fill=MUTED))
    if hidden_known:
        children.append(Element("rect", x=MARGIN + 250, y=35, width=12, height=12, fill=HIDDEN))
        if not pictured:
            children.append(hatching([(MARGIN + 250, 47, MARGIN + 262, 35)], STROKE))
        children.append(Element("text", "masked", x=MARGIN + 268, y=45, font_size=12, fill=MUTED))
    for k, head in enumerate(columns if most > 1 else []):  # the only head needs no number
        middle = left + k * (w + GAP) + w / 2
        text = f"head {head}" if w > 46 else str(head)
        children.append(
            Element("text", text, x=middle, y=TOP - 6, font_size=12, text_anchor="middle", fill=INK, class_="head")
        )
    for row, i in enumerate(shown):
        y = above + row * (h + GAP)
        if not beside:
            name = Element("text", f"layer {i}", x=left - 8, y=y + h / 2 + 4, text_anchor="end", font_size=12, fill=INK)
            if read[i].name:
                name.children.append(Element("title", read[i].name))
            children.append(name)
        for k, head in enumerate(columns):
            if head >= len(read[i].weights):
                continue
            box = (left + k * (w + GAP), y, w, h)
            shares = np.clip(read[i].weights[head], 0, 1)
            hidden = read[i].hidden
            mask = None if hidden is None else hidden[head]

            def words(q: int, s: int, shares: Any = shares, mask: Any = mask) -> str:
                pair = f"{isolated(visible(target[q]))} → {isolated(visible(source[s]))}"
                return f"{pair}: masked" if mask is not None and mask[q, s] else f"{pair}: {number(shares[q, s], 4)}"

            group = Element("g", class_="map")
            if pictured:
                group.children.extend(pixels(shares, mask, WEIGHTS, box))
                group.children.append(Element("title", f"layer {i}, head {head}"))
            else:
                group.children.append(squares(shares, mask, WEIGHTS, box, words))
            frame = {"x": box[0] - 0.5, "y": box[1] - 0.5, "width": w + 1, "height": h + 1}
            group.children.append(Element("rect", fill="none", stroke=RULE, pointer_events="none", **frame))
            children.append(group)
    if beside:
        children += _tokens(source, target, left, above, w / keys, h / queries, size)
    width = max(left + len(columns) * (w + GAP) + MARGIN, MARGIN + 340, 2 * MARGIN + text_width(title, 16))
    if beside:
        width += widest[1] * 0.75
    description = (
        f"{len(shown)} layer{'s' * (len(shown) > 1)} of {len(columns)} head{'s' * (len(columns) > 1)}; each map has "
        f"{queries} queries (rows) and {keys} keys (columns)."
    )
    return Picture(width, above + len(shown) * (h + GAP) + MARGIN, title, description, children)


def _tokens(
    source: list[str], target: list[str], left: float, above: float, w: float, h: float, size: float
) -> list[Element]:
    labels = []
    for i, token in enumerate(target):
        place = {"x": left - 8, "y": above + (i + 0.5) * h + size * 0.35, "text_anchor": "end"}
        labels.append(label(token, 160, size, fill=INK, class_="query", **place))
    for j, token in enumerate(source):
        x, y = left + (j + 0.5) * w + size * 0.25, above - 8
        turn = f"rotate(-45 {number(x)} {number(y)})"
        labels.append(label(token, 160, size, fill=INK, class_="key", x=x, y=y, transform=turn))
    return labels
