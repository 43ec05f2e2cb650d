"""Pictures of a run: the loss curve, and attention as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.nn import visualize

from .evaluation import clearest_layer
from .run_folder import RunFolder


def draw_losses(folder: RunFolder, *, log: bool) -> list[Path]:
    """Write `loss.svg`, the losses of a run's log against the step; nothing if the log has none.

    Args:
        log: whether the axis of the loss is logarithmic.
    """
    losses = {}
    for name, event, key in (("training", "step", "loss"), ("validation", "evaluation", "validation_loss")):
        entries = folder.entries(event)
        if entries:
            losses[name] = ([entry["step"] for entry in entries], [entry[key] for entry in entries])
    if not losses:
        return []
    path = folder.path / "loss.svg"
    visualize.loss_curve(losses, log=log).save(path)
    return [path]


def draw_cross_attention(folder: RunFolder, weights: Any, source: Sequence[str], target: Sequence[str]) -> list[Path]:
    """Write `cross-attention.svg`: what each output token attended to.

    Args:
        weights: (target, source) NumPy array whose rows add up to 1.
        source, target: the token shown at each column and row.
    """
    path = folder.path / "cross-attention.svg"
    title = "What each output token looked at (mean of the heads)"
    visualize.attention_grid(weights[None, None], source=source, target=target, title=title).save(path)
    return [path]


def draw_attention(path: Path, layers: Sequence[Any], source: Sequence[str], target: Sequence[str]) -> None:
    """Write what each word of a translation looked at: a page of all heads (.html), or the clearest layer (.svg).

    Args:
        layers: weights (heads, target, source) of each layer, as NumPy arrays.
        source, target: the pieces of the sentence, at each column and row.

    Rows are drawn as shares of their sum, which is 1 but for local attention (Luong et al. 2015, equation 10).
    """
    layers = [layer / np.maximum(layer.sum(axis=-1, keepdims=True), np.finfo(layer.dtype).tiny) for layer in layers]
    if path.suffix.lower() == ".html":
        visualize.attention_explorer(layers, source=source, target=target).save(path)
        return
    layer, mean = clearest_layer(layers)
    title = f"What each word looked at (layer {layer}, mean of its heads)"
    visualize.attention_grid(mean[None, None], source=source, target=target, title=title).save(path)


def draw_run(
    folder: RunFolder, weights: Sequence[Any], source: Sequence[str], target: Sequence[str], *, log: bool
) -> None:
    """Write and name a translator's pictures: `loss.svg`, and with attention `attention.svg` and `.html`.

    Args:
        folder: the run, whose log has the losses.
        weights, source, target: of a sentence, as for `draw_attention`; no weights: there is no attention.
        log: whether the axis of the loss is logarithmic.
    """
    paths = draw_losses(folder, log=log)
    for name in ("attention.svg", "attention.html") if weights else ():
        paths.append(folder.path / name)
        draw_attention(paths[-1], weights, source, target)
    for path in paths:
        print(f"wrote {path}")
