"""Tokens shaded by their share in an output, with the attention to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .svg import Picture, text_width, titled
from .tiles import FONT, LINE, Scale, Tile, written
from .tokens import check_tokens, isolated, visible
from .weights import to_numpy

MARGIN, PAGE, WIDEST = 16.0, 640.0, 96.0  # a page is narrow enough for a telephone


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

    Raises ValueError for tokens or weights of another length, and for values that are not finite.
    """
    shares = np.atleast_2d(to_numpy(values)).astype(np.float64)
    weights = None if attention is None else np.atleast_2d(to_numpy(attention)).astype(np.float64)
    if shares.ndim != 2 or len(shares) != 1 or not shares.size or not np.isfinite(shares).all():
        raise ValueError(f"attribution: values have shape {shares.shape}; expected finite numbers, (length,)")
    if weights is not None and weights.shape != shares.shape:
        raise ValueError(f"attribution: attention has shape {weights.shape}; expected {shares.shape}, as the values")
    texts = [visible(token) for token in check_tokens(tokens, "tokens", shares.size, "key")]
    colours, numbers = Scale(float(np.abs(shares).max()) or 1.0, True), written(shares)[0].tolist()
    children, _ = colours.legend(("lowers the output", "raises it"))
    left, top = MARGIN + text_width("attribution", FONT) + 12, 76.0
    size = 8 + min(WIDEST, max(text_width(text, FONT) for text in [*texts, *numbers])), LINE
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
