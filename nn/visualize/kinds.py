"""What heads do: how much each looks at the token before, at the first one, at what followed an earlier one, ..."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ramp import frame, pixels
from .svg import INK, Element, Picture, titled
from .tiles import Scale
from .tokens import check_tokens
from .weights import read_layers

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
