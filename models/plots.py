"""Pictures of a run: the loss curve, and attention as a heat map."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinytensor.files import atomic_write


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
