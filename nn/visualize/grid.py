"""Attention as heat maps: of layers and heads, of what two checkpoints do otherwise, and of heads by what they do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .ramp import Box, frame, pixels, squares
from .svg import BOLD, INK, MINUS, Element, Picture, number, text_width, titled
from .tiles import Scale
from .tokens import check_tokens, isolated, label, visible
from .weights import Layer, choose, read_attention, read_layers

WIDTH, HEIGHT = 1240.0, 690.0  # a slide of 1280 x 720, with room around
MARGIN, GAP, TOP = 16.0, 12.0, 84.0
LARGEST_CELL, SMALLEST_MAP = 44.0, 12.0
LARGEST_FONT, SMALLEST_FONT, LONGEST_TOKEN = 13.0, 9.0, 160.0
MOST_TITLES = 5000

Map = tuple[np.ndarray, np.ndarray | None]  # (queries, keys): numbers; True where attention is not allowed


def attention_grid(
    weights: Any,
    source: Any = None,
    target: Any = None,
    *,
    layers: Any = None,
    heads: Any = None,
    without: Any = None,
    sample: int = 0,
    title: str | None = None,
) -> Picture:
    """Heat maps of the weights, a row for each layer and a column for each head, on one scale of colours.

    Rows of a map are queries, columns are keys. Masked cells are hatched, if a recording knows the mask. The title of
    each cell has its tokens and its weight; with more than 5,000 cells in all, maps are images without titles.
    Tokens are next to the maps if the maps are large enough to read them.

    Args:
        weights: (layer, head, target, source), a recording, or another form that `read_layers` takes.
        source: the tokens of the keys; default: their numbers.
        target: the tokens of the queries; default: `source` if the lengths are the same.
        layers, heads: one or several of each; default: all.
        without: keys to leave out, such as a first token that takes most of the attention (a sink; Xiao et al. 2024);
            the rest of each row is divided by its sum.
        sample: the index in a batch.

    Raises ValueError if tokens do not fit the weights or weights do not add up to one.
    """
    named = source is not None or target is not None
    read, source, target, less = read_attention(weights, source, target, sample, without)
    rows = choose(layers, len(read), "layer")
    most_heads = max(len(read[i].weights) for i in rows)
    columns = choose(heads, most_heads, "head")
    maps = {
        (i, head): (weights, hidden)
        for i in rows
        for head, (weights, hidden) in enumerate(zip(read[i].weights, read[i].masks))
        if head in columns
    }
    only = f", layer {rows[0]}" if len(rows) == 1 < len(read) else ""
    title = title or ((read[rows[0]].name if len(rows) == 1 else "") or f"Attention weights{only}") + less
    layers = {i: read[i].name for i in rows}
    return _heat_maps(
        maps, layers, columns, source, target, Scale(1.0, False), ("", "weight"), title, named=named, count=most_heads
    )


def attention_difference(
    weights_a: Any,
    weights_b: Any,
    source: Any = None,
    target: Any = None,
    *,
    layers: Any = None,
    heads: Any = None,
    without: Any = None,
    sample: int = 0,
    names: tuple[str, str] = ("A", "B"),
    title: str | None = None,
) -> Picture:
    """Heat maps of B − A, a row for each layer and a column for each head, on one scale of colours around 0.

        with nn.record_attention() as before: model(x)
        model.load_state_dict(nn.load_file("trained.safetensors"))
        with nn.record_attention() as after: model(x)
        visualize.attention_difference(before, after, words, names=("before", "after")).save("difference.svg")

    Rows of a map are queries, columns are keys. A row of differences adds up to 0: what one key wins, others lose. Each
    cell's title has its tokens and the difference; with more than 5,000 cells in all, maps are images without titles.

    Args:
        weights_a, weights_b: (layer, head, target, source), a recording, or another form that `attention_grid` takes;
            with the same shape, for the same tokens.
        source, target, layers, heads, without, sample, title: as in `attention_grid`.
        names: the names of the two.

    Raises ValueError if tokens do not fit the weights, weights do not add up to one, or the two differ in shape.
    """
    named = source is not None or target is not None
    other, *_ = read_attention(weights_b, None, None, sample, without)
    one, source, target, less = read_attention(weights_a, source, target, sample, without)
    shapes = [[layer.weights.shape for layer in read] for read in (one, other)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"attention_difference: {names[0]} has {_shapes(shapes[0])}, {names[1]} has {_shapes(shapes[1])}; expected "
            "equal numbers of layers, heads, queries and keys"
        )
    rows = choose(layers, len(one), "layer")
    columns = choose(heads, max(len(one[i].weights) for i in rows), "head")
    differences = {
        (i, head): other[i].weights[head] - weights
        for i in rows
        for head, weights in enumerate(one[i].weights)
        if head in columns
    }
    colours = Scale(max(float(np.abs(values).max()) for values in differences.values()) or 1.0, True)
    maps = {(i, head): (values, _hidden_in_both(one[i], other[i], head)) for (i, head), values in differences.items()}
    only = f", layer {rows[0]}" if len(rows) == 1 < len(one) else ""
    title = title or f"Attention of {names[1]} {MINUS} {names[0]}{only}{less}"
    drawn = _heat_maps(
        maps, {i: one[i].name or other[i].name for i in rows}, columns, source, target, colours,
        (f"more in {names[0]}", f"more in {names[1]}"), title, named=named, count=len(one[rows[0]].weights),
    )  # fmt: skip
    drawn.description += f" {_described(differences, names, source, target)}"
    return drawn


def _heat_maps(
    maps: Mapping[tuple[int, int], Map],
    layers: Mapping[int, str],
    heads: Sequence[int],
    source: list[str],
    target: list[str],
    colours: Scale,
    ends: tuple[str, str],
    title: str,
    *,
    named: bool,
    count: int,
) -> Picture:
    """Heat maps in rows of layers and columns of heads.

    Args:
        maps: by the numbers of the layer and the head.
        layers: the path of each module by its number, in order.
        ends: the texts before and behind the bar of the colours.
        named: True if tokens were given.
        count: the number of all heads; a single one needs no number.
    """
    queries, keys = len(target), len(source)
    layout = _arrange(len(layers), len(heads), source, target, named)
    as_images = len(layers) * len(heads) * queries * keys > MOST_TITLES
    masked = any(hidden is not None and hidden.any() for _, hidden in maps.values())
    axes = "rows are queries, columns are keys"
    legend, end = colours.legend(ends, axes, masked=masked, hatched=not as_images)
    children = legend
    if count > 1:
        children += [_head_name(head, layout.box(0, column)) for column, head in enumerate(heads)]
    for row, (i, name) in enumerate(layers.items()):
        if layout.font is None or len(layers) > 1:
            aside = 0.0 if layout.font is None else widest_token(target, layout.font) + 8
            children.append(_layer_name(i, name, layout.box(row, 0), aside))
        if layout.font is not None:
            children += query_tokens(target, layout.box(row, 0), layout.font)
        for column, head in enumerate(heads):
            if (i, head) not in maps:
                continue
            (values, hidden), box = maps[i, head], layout.box(row, column)
            shares = np.clip(colours.shares(values), 0, 1)
            if as_images:
                cells = [*pixels(shares, hidden, colours.ramp, box), Element("title", f"layer {i}, head {head}")]
            else:
                title_ = partial(_cell_title, maps[i, head], source, target)
                cells = [squares(shares, hidden, colours.ramp, box, title_)]
            children.append(Element("g", *cells, frame(*box), class_="map"))
    if layout.font is not None:
        for column in range(len(heads)):
            children += key_tokens(source, layout.box(0, column), layout.font)
    width = max(max(layout.right, end) + MARGIN, 2 * MARGIN + BOLD * text_width(title, 15)) + layout.overhang
    description = (
        f"{len(layers)} layer{'s' * (len(layers) > 1)} of {len(heads)} head{'s' * (len(heads) > 1)}; each map has "
        f"{queries} queries (rows) and {keys} keys (columns)."
    )
    return titled(width, layout.bottom + MARGIN, title, description, children)


# ---- differences


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    """`2 layers of (4, 10, 12)`, as (head, target, source)."""
    return f"{len(shapes)} layer{'s' * (len(shapes) != 1)} of {' and '.join(map(str, dict.fromkeys(shapes)))}"


def _hidden_in_both(one: Layer, other: Layer, head: int) -> np.ndarray | None:
    """The cells that both masks hide; None if one of them is unknown."""
    hidden = one.masks[head], other.masks[head]
    return None if hidden[0] is None or hidden[1] is None else hidden[0] & hidden[1]


def _described(
    values: Mapping[tuple[int, int], np.ndarray], names: tuple[str, str], source: list[str], target: list[str]
) -> str:
    """The largest difference, in words."""
    layer, head = max(values, key=lambda place: float(np.abs(values[place]).max()))
    found = values[layer, head]
    query, key = (int(i) for i in np.unravel_index(int(np.abs(found).argmax()), found.shape))
    most = float(found[query, key])
    if not most:
        return f"{names[0]} and {names[1]} do not differ."
    return (
        f"The largest difference, {number(most, 3).replace('-', MINUS)}, is in layer {layer}, head {head}, from "
        f"{isolated(visible(target[query]))} to {isolated(visible(source[key]))}: more in {names[most > 0]}."
    )


# ---- the places of the maps


@dataclass(frozen=True)
class _Layout:
    """Maps of one size in rows and columns, in pixels.

    Attributes:
        left, top: the corner of the first one.
        right, bottom: the corner of the last one, with the gap behind it.
        width, height: the size of each.
        font: the size of the tokens next to the map; None if tokens have no room.
        overhang: how far tokens above the map reach beyond its right side.
    """

    left: float
    top: float
    right: float
    bottom: float
    width: float
    height: float
    font: float | None
    overhang: float

    def box(self, row: int, column: int) -> Box:
        """The (x, y, width, height) of one map."""
        x, y = self.left + column * (self.width + GAP), self.top + row * (self.height + GAP)
        return x, y, self.width, self.height


def _arrange(rows: int, columns: int, source: list[str], target: list[str], named: bool) -> _Layout:
    """Maps as large as a slide allows. Tokens are next to the first column and above the first row, if they were given
    and are large enough to read.
    """
    queries, keys = len(target), len(source)
    left, top, font, overhang = MARGIN + 58.0, TOP, None, 0.0

    def side(left: float, top: float) -> float:
        """The largest side of a cell, with the corner of the first map there."""
        across, down = (WIDTH - left - GAP * columns) / columns, (HEIGHT - top - GAP * rows) / rows
        return min(across / keys, down / queries, LARGEST_CELL)

    if named:
        readable = min(LARGEST_FONT, side(110 + (58 if rows > 1 else 0), TOP + 40) * 0.8)
        if readable >= SMALLEST_FONT:
            font = readable
            overhang = widest_token(source, font) * 0.75
            left = MARGIN + widest_token(target, font) + 30 + (50 if rows > 1 else 0)
            top = TOP + overhang + 16
    cell = side(left, top)
    width, height = max(cell * keys, SMALLEST_MAP), max(cell * queries, SMALLEST_MAP)
    right, bottom = left + columns * (width + GAP), top + rows * (height + GAP)
    return _Layout(left, top, right, bottom, width, height, font, overhang)


def widest_token(tokens: list[str], font: float) -> float:
    return min(LONGEST_TOKEN, max(text_width(visible(token), font) for token in tokens))


# ---- the text around them


def _head_name(head: int, box: Box) -> Element:
    x, _, width, _ = box
    text = f"head {head}" if width > 46 else str(head)
    middle = x + width / 2
    return Element("text", text, x=middle, y=TOP - 6, font_size=12, text_anchor="middle", fill=INK, class_="head")


def _layer_name(i: int, path: str, box: Box, aside: float) -> Element:
    """Draw the number of a layer next to its first map and the tokens there, with its module's path as a tooltip."""
    x, y, _, height = box
    middle = y + height / 2
    name = Element("text", f"layer {i}", x=x - 8 - aside, y=middle + 4, text_anchor="end", font_size=12, fill=INK)
    if path:
        name.children.append(Element("title", path))
    return name


def _cell_title(each: Map, source: list[str], target: list[str], query: int, key: int) -> str:
    """The tooltip of a cell: its two tokens, and its number."""
    values, hidden = each
    masked = hidden is not None and hidden[query, key]
    weight = "masked" if masked else number(values[query, key], 4).replace("-", MINUS)
    return f"{isolated(visible(target[query]))} → {isolated(visible(source[key]))}: {weight}"


def query_tokens(target: list[str], box: Box, font: float) -> list[Element]:
    """The tokens of the queries before the rows of a map."""
    left, top, _, height = box
    labels = []
    for i, token in enumerate(target):
        y = top + (i + 0.5) * height / len(target) + font * 0.35
        labels.append(label(token, LONGEST_TOKEN, font, fill=INK, class_="query", x=left - 8, y=y, text_anchor="end"))
    return labels


def key_tokens(source: list[str], box: Box, font: float) -> list[Element]:
    """The tokens of the keys, slanted, above the columns of a map."""
    left, top, width, _ = box
    labels = []
    for j, token in enumerate(source):
        x, y = left + (j + 0.5) * width / len(source) + font * 0.25, top - 8
        turn = f"rotate(-45 {number(x)} {number(y)})"
        labels.append(label(token, LONGEST_TOKEN, font, fill=INK, class_="key", x=x, y=y, transform=turn))
    return labels


# ---- heads by what they do

LEAST, COLUMNS, SIDE, LEFT = 0.4, 6, 86.0, 84.0  # a kind's least score; maps in a row, their size, room for a kind


def head_scores(weights: Any, tokens: Any = None, *, sample: int = 0) -> dict[str, np.ndarray]:
    """How much each head does each of five things, from 0 to 1: by kind (layers, heads).

    A score is the weight that a query gives to the keys of the kind, on average over the queries that have such keys:

    - "previous" and "next": the position before and the position after its own;
    - "same": all positions with its token, its own included;
    - "first": position 0, for all other queries;
    - "induction": the position after the last earlier one with its token (Olsson et al. 2022). In random tokens,
      repeated, nothing else tells what comes next.

    Args:
        weights: self-attention, in a form that `attention_grid` takes.
        tokens: the text of each position; default: all differ.
        sample: the index in a batch.

    A score is NaN where no query has such a key, as for induction if no token is repeated, and where a layer has no
    such head. Raises ValueError for attention between two sequences, and the errors of `attention_grid`.
    """
    layers = read_layers(weights, sample)
    queries, keys = layers[0].weights.shape[1:]
    if queries != keys:
        raise ValueError(
            f"head_scores: {queries} queries look at {keys} keys; expected the attention of a sequence to itself, such "
            "as attention.encoder or attention.decoder"
        )
    text = np.array(check_tokens(tokens, "tokens", keys, "source"), dtype=object)
    query, key = np.arange(queries)[:, None], np.arange(keys)
    same = text[:, None] == text
    after = np.where(same & (key < query), key, -1).max(axis=1, keepdims=True) + 1  # 0 for a new token
    found = {}
    for kind, wanted in {
        "previous": key == query - 1,
        "next": key == query + 1,
        "same": same,
        "first": (key == 0) & (query > 0),
        "induction": (key == after) & (key > 0) & (key < query),
    }.items():
        found[kind] = np.full((len(layers), max(len(layer.weights) for layer in layers)), np.nan)
        rows = wanted.any(axis=1)
        for i, layer in enumerate(layers if rows.any() else []):
            found[kind][i, : len(layer.weights)] = (layer.weights * wanted).sum(axis=-1)[:, rows].mean(axis=-1)
    return found


def attention_heads(weights: Any, tokens: Any = None, *, sample: int = 0, title: str | None = None) -> Picture:
    """Heat maps of all heads, sorted by what they do most, with its score, as `head_scores` defines it.

        ids = tt.concat([tt.random.integers(0, 50, (1, 20))] * 2, axis=1)    # repeated, so that induction shows
        with nn.record_attention() as attention:
            model(ids)
        visualize.attention_heads(attention, [str(i) for i in ids.numpy()[0]]).save("heads.svg")

    Above a map are layer, head and score. Heads without a score of 0.4 are under "other". Arguments and errors are
    those of `head_scores`.
    """
    scores, layers = head_scores(weights, tokens, sample=sample), read_layers(weights, sample)
    table = np.nan_to_num(np.array([*scores.values()]))  # (kinds, layers, heads)
    best = np.where(table.max(axis=0) < LEAST, len(scores), table.argmax(axis=0))
    masked = any(layer.hidden is not None and layer.hidden.any() for layer in layers)
    title, colours = title or "Heads by what they do", Scale(1.0, False)
    legend, end = colours.legend(("", "weight"), "above each map: layer.head: score", masked=masked, hatched=False)
    children, top, counts = [*legend], 76.0, []
    for k, kind in enumerate([*scores, "other"]):
        places = [(i, j) for i, j in np.argwhere(best == k).tolist() if j < len(layers[i].weights)]
        heads = sorted((-table[:, i, j].max(), i, j) for i, j in places)
        for place, (score, i, j) in enumerate(heads):
            x, y = LEFT + place % COLUMNS * (SIDE + 12), top + place // COLUMNS * (SIDE + 26)
            every = Element("title", ", ".join(f"{name} {found[i, j]:.2f}" for name, found in scores.items()))
            look = {"x": x, "y": y + 12, "font_size": 12, "fill": INK, "class_": "head"}
            cells = colours.shares(np.clip(layers[i].weights[j], 0, 1)), layers[i].masks[j], colours.ramp
            box = (x, y + 18, SIDE, SIDE)
            children += [Element("text", f"{i}.{j}: {-score:.2f}", every, **look), *pixels(*cells, box), frame(*box)]
        if heads:
            children.append(Element("text", kind, x=16, y=top + 18 + SIDE / 2, font_size=12, fill=INK, class_="kind"))
            counts.append(f"{len(heads)} {kind}")
            top += math.ceil(len(heads) / COLUMNS) * (SIDE + 26) + 8
    width = max(LEFT + COLUMNS * (SIDE + 12), end + 16)
    return titled(width, top, title, f"Heads by what they do most: {', '.join(counts)}.", children)
