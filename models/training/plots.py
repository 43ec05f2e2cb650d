"""Pictures of a run: the loss curve, and attention as a heat map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tinytensor.nn import visualize
from tinytensor.nn.recording import Kind

from ..sentence_attention import SentenceAttention
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


def draw_attention(
    path: Path,
    seen: SentenceAttention,
    kind: Kind | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    token: int | None = None,
) -> None:
    """Draw the attention of each word of a sentence, or of one: a page with everything (.html), or a picture (.svg).

    Args:
        kind: the kind of attention. This and the rest are for pictures. Default: cross-attention, if there is any.
        layer: default: the clearest one.
        head: default: the mean of all; with a token, all in their colours.
        token: the place of the only word to draw, with lines to the words it looked at (Vaswani et al. 2017, Figures 3
            to 5); default: all words, as a heat map.
    """
    if path.suffix.lower() == ".html":
        tokens = {name: seen.tokens(name) for name in seen.layers}
        keys, queries = ({name: pair[i] for name, pair in tokens.items()} for i in range(2))
        visualize.attention_explorer(seen.layers, source=keys, target=queries).save(path)
        return
    drawn: Kind = next(iter(seen.layers)) if kind is None else kind
    layers, (source, target) = seen.layers[drawn], seen.tokens(drawn)
    at = clearest_layer([call.weights[0] for call in layers])[0] if layer is None else layer
    which = f"layer {at}" if drawn == "cross" else f"{drawn}, layer {at}"
    if token is not None:
        title = f"What \N{LEFT DOUBLE QUOTATION MARK}{target[token]}\N{RIGHT DOUBLE QUOTATION MARK} looked at ({which})"
        visualize.attention_lines(layers, source, target, layer=at, heads=head, token=token, title=title).save(path)
        return
    heads = "mean of its heads" if head is None else f"head {head}"
    call, chosen = layers[at], slice(None) if head is None else slice(head, head + 1)
    mask = None if call.mask is None else call.mask[:, :1]
    mean = replace(call, weights=call.weights[:, chosen].mean(axis=1, keepdims=True), mask=mask)
    title = f"What each word looked at ({which}, {heads})"
    visualize.attention_grid(mean, source=source, target=target, title=title).save(path)


def draw_run(folder: RunFolder, seen: SentenceAttention | None, *, log: bool) -> None:
    """Write a translator's pictures and print their names: `loss.svg`, and with attention `attention.svg` and `.html`.

    Args:
        folder: the run, whose log has the losses.
        seen: the attention in a sentence.
        log: whether the axis of the loss is logarithmic.
    """
    paths = draw_losses(folder, log=log)
    if seen is not None and seen.layers:
        for name in ("attention.svg", "attention.html"):
            paths.append(folder.path / name)
            draw_attention(paths[-1], seen)
    for path in paths:
        print(f"wrote {path}")
