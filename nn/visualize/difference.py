"""The difference of the attention of two checkpoints: of their weights, as heat maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .grid import heat_maps
from .svg import MINUS, Picture, number
from .tiles import Scale
from .tokens import isolated, visible
from .weights import Layer, choose, read_attention


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
        source: the tokens of the keys; default: their numbers.
        target: the tokens of the queries; default: `source` if the lengths are the same.
        layers, heads: one or several of each; default: all.
        without: keys to leave out, as in `attention_grid`.
        sample: the index in a batch.
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
            "as many layers of the same heads, queries and keys"
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
    maps = {(i, head): (values, _hidden(one[i], other[i], head)) for (i, head), values in differences.items()}
    only = f", layer {rows[0]}" if len(rows) == 1 < len(one) else ""
    title = title or f"Attention of {names[1]} {MINUS} {names[0]}{only}{less}"
    drawn = heat_maps(
        maps, {i: one[i].name or other[i].name for i in rows}, columns, source, target, colours,
        (f"more in {names[0]}", f"more in {names[1]}"), title, named=named, count=len(one[rows[0]].weights),
    )  # fmt: skip
    drawn.description += f" {_described(differences, names, source, target)}"
    return drawn


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    """`2 layers of (4, 10, 12)`, as (head, target, source)."""
    return f"{len(shapes)} layer{'s' * (len(shapes) != 1)} of {' and '.join(map(str, dict.fromkeys(shapes)))}"


def _hidden(one: Layer, other: Layer, head: int) -> np.ndarray | None:
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
