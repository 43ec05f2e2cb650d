"""Attention as lines between tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from .svg import BOLD, INK, MUTED, PANEL, SERIES, Element, Picture, legend, text_width, titled
from .tokens import isolated, label, visible
from .weights import choose, read_attention

MARGIN, TOP, MIDDLE, SQUARE = 16.0, 66.0, 300.0, 11.0
FAINT = 0.02


def attention_lines(
    weights: Any,
    source: Any = None,
    target: Any = None,
    *,
    layer: int | None = None,
    heads: Any = None,
    token: int | None = None,
    without: Any = None,
    sample: int = 0,
    title: str | None = None,
) -> Picture:
    """Lines from each query to the keys it attends to, as in Figures 3 to 5 of Vaswani et al. 2017.

    Each head has its own colour and its lines a small offset in height, so that none covers another; the weight sets
    their opacity and width. Weights under 0.02 have no line. The squares beside a token are the heads: the opacity of a
    key's squares is the weight that the chosen query gives it, or without a chosen query the largest weight that any
    query gives it.

    Args:
        weights: (layer, head, target, source), a recording, or another form that `read_layers` takes.
        source, target, without, sample: as in `attention_grid`; keys are on the right, queries on the left.
        layer: the index of the layer; default: the last one.
        heads: one or several; default: all.
        token: the index of the one query to draw; default: all of them.

    Raises ValueError if tokens do not fit the weights or weights do not add up to one.
    """
    layers, source, target, less = read_attention(weights, source, target, sample, without)
    at = choose(len(layers) - 1 if layer is None else layer, len(layers), "layer")[0]
    chosen = choose(heads, len(layers[at].weights), "head")
    values = layers[at].weights
    queries, keys = values.shape[1:]
    rows = range(queries) if token is None else choose(token, queries, "token")

    longest = max(queries, keys)
    step = 24.0 if longest <= 24 else 18.0 if longest <= 60 else 14.0
    size = step * 0.62 if step < 24 else 14.0
    squares = min(SQUARE, 120 / len(chosen), step - 4)
    band = squares * len(chosen)
    left, right = (min(220.0, max(text_width(visible(t), size * BOLD) for t in tokens)) for tokens in (target, source))
    colours = {head: SERIES[head % len(SERIES)] for head in chosen}
    row, end = legend(MARGIN + 36, 46, [({"fill": colours[head]}, str(head)) for head in chosen])
    x_left = MARGIN + max(left, text_width("queries", 12)) + 8  # the left side of the queries' squares
    x_from = x_left + band
    x_to = x_from + MIDDLE
    x_right = x_to + band + 8
    apart = min(step * 0.75 / max(len(chosen) - 1, 1), 6.0)  # distance between lines of neighbouring heads
    thick = min(2.0, max(apart, 0.8)) if len(chosen) > 1 else 2.0
    width = max(x_right + max(right, text_width("keys", 12)) + MARGIN, end + MARGIN)
    height = TOP + longest * step + MARGIN

    def y(i: int) -> float:
        return TOP + (i + 0.5) * step

    named = f"layer {at}" + (f" ({layers[at].name})" if layers[at].name else "")
    title = title or f"Attention, {named}{less}"
    head_word = Element("text", "head", x=MARGIN, y=46, font_size=12, fill=MUTED)
    children = [Element("g", head_word, *row, class_="legend")]
    heading = {"font_size": 12, "fill": MUTED, "y": TOP - 4}
    children.append(Element("text", "queries", x=x_left - 8, text_anchor="end", **heading))
    children.append(Element("text", "keys", x=x_right, **heading))
    if token is not None:
        children.append(Element("rect", x=4, y=y(rows[0]) - step / 2, width=x_from - 4, height=step, rx=4, fill=PANEL))
    for k, head in enumerate(chosen):
        up = (k - (len(chosen) - 1) / 2) * apart
        strands = [
            _strand(values[head, i, j], thick, x1=x_from, y1=y(i) + up, x2=x_to, y2=y(j) + up)
            for i in rows
            for j in np.flatnonzero(values[head, i] >= FAINT).tolist()
        ]
        children.append(Element("g", *strands, stroke=colours[head], class_="head"))
    given = values[:, rows].max(axis=1)
    for k, head in enumerate(chosen):
        places: list[tuple[float | None, float, int]] = [(None, x_left, i) for i in rows]
        places += [(float(w), x_to, j) for j, w in enumerate(given[head]) if w >= FAINT]
        group = Element("g", fill=colours[head], class_="squares")
        for opacity, x, i in places:
            square = {"x": x + k * squares, "y": y(i) - squares / 2, "width": squares, "height": squares}
            group.children.append(Element("rect", fill_opacity=opacity, **square))
        children.append(group)
    for i, text in enumerate(target):
        ink = INK if i in rows else MUTED
        weight = "bold" if token is not None and i in rows else None
        place = {"x": x_left - 8, "y": y(i) + size * 0.35, "text_anchor": "end"}
        children.append(label(text, left, size, fill=ink, class_="query", font_weight=weight, **place))
    for j, text in enumerate(source):
        children.append(label(text, right, size, fill=INK, class_="key", x=x_right, y=y(j) + size * 0.35))
    return titled(width, height, title, _describe(values, chosen, rows, source, target), children)


def _strand(weight: float, thick: float, **ends: float) -> Element:
    """One line; `thick` is its width for a weight of 1."""
    return Element("line", stroke_opacity=weight, stroke_width=thick * (0.4 + 0.6 * weight), **ends)


def _describe(values: np.ndarray, chosen: list[int], rows: Any, source: list[str], target: list[str]) -> str:
    many = f"{len(chosen)} heads" if len(chosen) > 1 else f"Head {chosen[0]}"
    if len(rows) > 1:
        return f"{many}: lines from {len(target)} queries to {len(source)} keys; opacity is the attention weight."
    most = values[chosen, rows[0]].mean(axis=0)
    j = int(most.argmax())
    return (
        f"{many}: lines from the query {isolated(visible(target[rows[0]]))} to {len(source)} keys; on average most "
        f"weight, {most[j]:.2f}, goes to {isolated(visible(source[j]))}."
    )
