"""Pictures of a run: the loss curve, and attention as a heat map."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.files import atomic_write
from tinytensor.nn import visualize

from .evaluation import clearest_layer
from .run_folder import RunFolder


def plot_losses(folder: Path, steps: Sequence[int], losses: Sequence[float]) -> list[Path]:
    """Write `loss.png` and `loss.svg`: the loss, on a logarithmic axis, against the step."""
    figure, axes = _figure(6.4, 4.0)
    axes.plot(steps, losses, color="#0072B2", linewidth=1.4)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("training loss (nats per token)")
    axes.set_title("Training loss")
    axes.grid(True, which="both", alpha=0.25)
    return _save(figure, folder / "loss")


def plot_attention(folder: Path, weights: Any, source: Sequence[str], target: Sequence[str]) -> list[Path]:
    """Write `cross-attention.png` and `.svg`: what each output token attended to, mean over heads.

    Args:
        weights: (target, source) NumPy array whose rows add up to 1.
        source, target: the token shown at each column and row.
    """
    figure, axes = _figure(1.6 + 0.36 * len(source), 1.4 + 0.36 * len(target))
    image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(source)), source)
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source token")
    axes.set_ylabel("output token")
    figure.colorbar(image, ax=axes, label="attention weight", fraction=0.046, pad=0.04)
    return _save(figure, folder / "cross-attention")


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
    losses = {}
    for name, event, key in (("training", "step", "loss"), ("validation", "evaluation", "validation_loss")):
        entries = folder.entries(event)
        if entries:
            losses[name] = ([e["step"] for e in entries], [e[key] for e in entries])
    paths = [folder.path / "loss.svg"]
    visualize.loss_curve(losses, log=log).save(paths[0])
    for name in ("attention.svg", "attention.html") if weights else ():
        paths.append(folder.path / name)
        draw_attention(paths[-1], weights, source, target)
    for path in paths:
        print(f"wrote {path}")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, stem: Path) -> list[Path]:
    paths = []
    for suffix in (".png", ".svg"):
        buffer = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else None  # the same bytes for the same picture
        figure.savefig(buffer, format=suffix[1:], dpi=150, metadata=metadata)
        path = stem.with_suffix(suffix)
        atomic_write(path, buffer.getvalue())
        paths.append(path)
    return paths
