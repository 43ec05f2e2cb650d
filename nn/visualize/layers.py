"""Numbers of each layer: of its heads or positions, and the words that it would say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .svg import Picture, titled
from .tiles import Scale, Tile
from .tokens import check_tokens, isolated, visible
from .weights import to_numpy

MARGIN, TOP, WORD, LINE = 16.0, 76.0, 72.0, 22.0


def layer_map(
    values: Any,
    columns: Any = None,
    *,
    rows: Any = None,
    axis: str = "head",
    ends: tuple[str, str] = ("", ""),
    title: str = "Layers and heads",
) -> Picture:
    """A number for each layer and each of its heads, or each position, as colours around 0; layer 0 is above.

        visualize.layer_map(heads_left_out(model, loss), ends=("better without", "worse"))      # models.inside
        visualize.layer_map(patched(model, clean, corrupted, score), words, axis="position", title="What comes back")

    Args:
        values: (layers, columns); cells that are not finite, such as heads that a layer does not have, are hatched.
        columns: a text for each; default: their numbers.
        rows: likewise; default: the numbers of the layers.
        axis: the name of a column.
        ends: the texts beside the bar of colours, for small and for large numbers.

    Raises ValueError for other shapes, for texts that do not fit, and if no number is finite.
    """
    numbers = to_numpy(values).astype(np.float64)
    if numbers.ndim != 2 or not np.isfinite(numbers).any():
        raise ValueError(f"layer_map: values have shape {numbers.shape}; expected finite numbers, (layers, columns)")
    names = [visible(text) for text in _texts(columns, "columns", numbers.shape[1])]
    layers = _texts(rows, "rows", len(numbers))
    colours = Scale.of([numbers])
    children, end = colours.legend(ends, f"rows: layers, columns: {axis}s")
    tile = Tile(numbers, colours, False, layers, names, size=(max(16.0, min(34.0, 640 / numbers.shape[1])), 16.0))
    left, top = MARGIN + tile.left, TOP + tile.above
    children.append(tile.draw(left, top))
    i, j = np.unravel_index(int(np.nanargmax(np.abs(numbers))), numbers.shape)
    description = (
        f"{len(numbers)} layers, {numbers.shape[1]} {axis}s in each; the largest number, {numbers[i, j]:.3g}, is that "
        f"of layer {isolated(layers[i])}, {axis} {isolated(names[j])}."
    )
    width = max(left + tile.width + tile.overhang, end) + MARGIN
    return titled(width, top + tile.height + MARGIN, title, description, children)


def logit_lens(
    logits: Any, words: Callable[[int], str] | Sequence[str], tokens: Any = None, *, title: str = "Logit lens"
) -> Picture:
    """The likeliest next word of each position, were each layer the last, on its probability as a colour.

        visualize.logit_lens(models.inside.logit_lens(model, ids)[:, 0], tokenizer.pieces, tokens)

    Args:
        logits: (layers + 1, length, vocabulary), below the first layer and above each.
        words: the text of each id, or a function from an id to it.
        tokens: the text of each position; default: their numbers.

    Raises ValueError for other shapes and for tokens that do not fit.
    """
    scores = to_numpy(logits).astype(np.float64)
    if scores.ndim != 3 or not scores.size:
        raise ValueError(f"logit_lens: logits have shape {scores.shape}; expected (layers + 1, length, vocabulary)")
    best = scores.argmax(axis=-1)
    top = scores.max(axis=-1)
    chances = 1 / np.exp(scores - top[..., None]).sum(axis=-1)
    say = words if callable(words) else words.__getitem__
    texts = [visible(say(int(i))) for i in best.flat]
    columns = [visible(token) for token in check_tokens(tokens, "tokens", best.shape[1], "position")]
    rows = ["embedding", *[f"layer {i}" for i in range(len(best) - 1)]]
    colours = Scale(1.0, False)
    children, end = colours.legend(("", "probability"), "rows: the layer that speaks, columns: after which word")
    tile = Tile(chances, colours, True, rows, columns, size=(WORD, LINE), inside=texts)
    left, at = MARGIN + tile.left, TOP + tile.above
    children.append(tile.draw(left, at))
    last = texts[-1]
    first = next(i for i in range(len(best)) if (best[i:, -1] == best[-1, -1]).all())
    description = (
        f"{len(best) - 1} layers and {best.shape[1]} positions. After the last one the model says {isolated(last)}, "
        f"with {chances[-1, -1]:.0%}; that is the likeliest word from here on: {rows[first]}."
    )
    width = max(left + tile.width + tile.overhang, end) + MARGIN
    return titled(width, at + tile.height + MARGIN, title, description, children)


def _texts(given: Any, which: str, count: int) -> list[str]:
    texts = [str(i) for i in range(count)] if given is None else [str(text) for text in given]
    if len(texts) != count:
        raise ValueError(f"layer_map: {len(texts)} {which} were named, but there are {count}; give one text for each")
    return texts
