"""The page of a run: figures, samples and attention, drawn from the log while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinytensor.machine.files import atomic_write
from tinytensor.nn import visualize
from tinytensor.nn.visualize.curves import WIDTH
from tinytensor.nn.visualize.ramp import WEIGHTS
from tinytensor.pages.html_page import html_page, text_of
from tinytensor.pages.svg import Picture, clean

from ..sentence_attention import SentenceAttention
from .run_folder import RunFolder, entries
from .trainer import Callback, StepResult, Trainer

PAGE = "run.html"
MOST_LOOKS = 24  # in the page; the log has all
SHARE = 0.01  # the most of the training time for writing the page


class RunPage(Callback):
    """Keeps a page about the run in its folder, and logs the model's attention in one sentence.

    It rewrites the page as often as 1 % of the time allows. The page shows the log: if a killed run goes on, so does
    the page. An open browser reloads it by itself. The callback comes after those whose figures it shows, and before
    `Checkpoints`.

    Args:
        look: returns the attention in one fixed sentence; default: show none. The page shows its cross-attention, or
            without any, the first kind there is.
        every: steps between two looks; the first is before training.
    """

    def __init__(
        self, folder: RunFolder, look: Callable[[], SentenceAttention | None] | None = None, every: int = 100
    ) -> None:
        self.folder, self.look, self.every = folder, look, every
        self._next = 0.0  # the time when it may be written again

    def begin(self, trainer: Trainer) -> None:
        if trainer.step == 0:
            self._look(trainer)
        self._write(trainer)

    def after_step(self, trainer: Trainer, result: StepResult) -> None:
        if trainer.step % self.every == 0:
            self._look(trainer)
        if trainer.is_noted(trainer.step) and time.monotonic() >= self._next:
            self._write(trainer)

    def _look(self, trainer: Trainer) -> None:
        seen = self.look() if self.look is not None else None
        if seen is not None and seen.layers:
            kind = next(iter(seen.layers))
            layers = [call.weights[0].astype(float).round(3).tolist() for call in seen.layers[kind]]
            source, said = seen.tokens(kind)
            self.folder.log(event="attention", step=trainer.step, source=source, said=said, layers=layers)

    def _write(self, trainer: Trainer) -> None:
        begun = time.monotonic()
        try:
            write_page(self.folder.path, f"training: step {trainer.step:,} of {trainer.steps:,}", live=True)
        except OSError as error:  # not a reason to lose a run
            trainer.progress.say(f"the page of the run could not be written: {error}")
        now = time.monotonic()
        self._next = now + (now - begun) / SHARE


def write_page(folder: Path, status: str, *, live: bool = False) -> Path:
    """Write the page of the run in a folder, `run.html`, whole or not at all; returns its path.

    Args:
        status: the progress of the run, in words.
        live: whether the run goes on, so that a browser reloads the page every few seconds.
    """
    data = {"live": live, "ramp": {mode: [getattr(c, mode) for c in WEIGHTS.colours] for mode in ("light", "dark")}}
    samples, looks = entries(folder, "samples"), _thinned(entries(folder, "attention"))
    data["samples"] = [{"step": entry["step"], "lines": entry["lines"]} for entry in samples]
    data["looks"] = [{"step": entry["step"], "layers": entry["layers"]} for entry in looks]
    data["source"], data["said"] = (looks[0]["source"], looks[0]["said"]) if looks else ([], [])
    start = entries(folder, "start")[-1:]
    body = BODY.format(
        name=clean(folder.name),
        status=clean(status),
        charts="\n".join(map(_figure, _charts(folder))),
        arguments=_rows(start[0]["arguments"]) if start else "",
        results="".join(f"<table>{_rows(entry)}</table>" for entry in entries(folder, "result")),
    )
    style, script = (text_of(__package__, f"page.{ending}") for ending in ("css", "js"))
    page = html_page(f"{folder.name}: {status}", body, data, style=style, script=script, inline_styles=True)
    path = folder / PAGE
    atomic_write(path, page.encode())
    return path


def _charts(folder: Path) -> list[Picture]:
    """Charts of loss, accuracies, evaluations, gradient norms and learning rate, for those in the log."""
    steps, evaluations = entries(folder, "step"), entries(folder, "evaluation")

    def curve(log: list[dict[str, Any]], key: str) -> Any:
        found = [(entry["step"], entry[key]) for entry in log if key in entry]
        return tuple(map(list, zip(*found))) if found else None

    gradients = [{"step": entry["step"], **entry.get("gradient_norms", {})} for entry in steps]
    layers = [key for key in dict.fromkeys(k for g in gradients for k in g) if key != "step"]
    norms = {layer: curve(gradients, layer) for layer in layers}
    others = dict.fromkeys(key for e in evaluations for key in e if key not in ("event", "step", "validation_loss"))
    wanted: list[tuple[str, dict[str, Any], bool]] = [
        ("Loss", {"training": curve(steps, "loss"), "validation": curve(evaluations, "validation_loss")}, True),
        (
            "Accuracy in training",
            {"of tokens": curve(steps, "token_accuracy"), "of sequences": curve(steps, "sequence_accuracy")},
            False,
        ),
        *((key.replace("_", " ").capitalize(), {key: curve(evaluations, key)}, False) for key in others),
        ("Learning rate", {"learning rate": curve(steps, "learning_rate")}, False),
        ("Norm of the gradient, by layer", norms, True),
    ]
    charts = []
    for title, curves, log in wanted:
        known = {name: values for name, values in curves.items() if values is not None}
        drawable = any(value > 0 or (value == 0 and not log) for _, values in known.values() for value in values)
        if drawable:
            charts.append(visualize.curves(known, title=title, x_label="step", log_y=log))
    return charts


def _figure(chart: Picture) -> str:
    wide = " wide" if chart.width > WIDTH else ""  # with names beside it
    return f'<figure class="scroll{wide}">{chart}</figure>'


def _thinned(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most MOST_LOOKS of them, evenly spaced, including the first and the last."""
    if len(looks) <= MOST_LOOKS:
        return looks
    return [looks[round(i * (len(looks) - 1) / (MOST_LOOKS - 1))] for i in range(MOST_LOOKS)]


def _rows(values: dict[str, Any]) -> str:
    """Rows of a table: names and values."""
    shown = {name.replace("_", " "): value for name, value in values.items() if value is not None and name != "event"}
    return "".join(f'<tr><th scope="row">{clean(name)}</th><td>{_text(v)}</td></tr>' for name, v in shown.items())


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else clean(str(value))


BODY = """\
<main>
<h1>{name}</h1>
<p id="status">{status}</p>
<p id="again" hidden><label><input type="checkbox" id="follow" checked> load again every 5 seconds</label></p>
<section class="charts" aria-label="Figures">
{charts}
</section>
<section id="moments" hidden aria-label="What the model does at a step">
<div class="controls">
<label>Step <input type="range" id="step" min="0"></label> <output id="at"></output>
<button id="play" type="button">play</button>
</div>
<h2>What it makes of some inputs</h2>
<ol id="samples"></ol>
<div id="attention" hidden>
<h2>What each token looked at</h2>
<div class="controls">
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
</div>
<p id="readout" role="status"></p>
<div class="scroll"><table id="map"></table></div>
<h2 id="through">The same through training</h2>
<div id="strip" role="group" aria-labelledby="through"></div>
</div>
</section>
<section class="tables">
<div>{results}</div>
<details><summary>Arguments of the run</summary><table>{arguments}</table></details>
</section>
<noscript><p>Samples and attention need JavaScript; log.jsonl has them as text.</p></noscript>
</main>"""
