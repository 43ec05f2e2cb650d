"""A page to explore attention: one HTML file that needs no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from tinytensor.pages.html_page import html_page, save_page, text_of

from ..recording import AttentionCall, record_attention
from .ramp import HIDDEN, WEIGHTS
from .steps import scaling
from .svg import SERIES, clean
from .tokens import check_tokens, visible
from .weights import read_layers

NAMES = {
    "encoder": "encoder (source to source)",
    "decoder": "decoder (target to target)",
    "cross": "cross (target to source)",
}
FULL = 10_000  # the integer for weight 1: weights have four digits
MOST_NUMBERS = 60_000  # a layer with more in queries and keys is left without them, so that the page stays small


def attention_explorer(
    weights: Any, source: Any = None, target: Any = None, *, sample: int = 0, title: str = "Attention"
) -> Explorer:
    """A page to explore attention: choose kind, layer and head, point at a token or walk to it with the keyboard.

    An overview has a small map for each layer and head, and a click leads to it; lines or a heat map show the weights,
    rounded to four digits; and if a recording knows queries and keys, the page shows one query in numbers, as
    softmax(q Kᵀ / √dₖ) with the products element by element. Tiles switch heads on and off. The page is one file that
    needs no network; a notebook shows it in a frame.

    Args:
        weights: a recording, with every kind of attention to choose from; a dict of weights by kind ("encoder",
            "decoder", "cross", or a name of your own); or the weights of one kind, in a form that `read_layers` takes.
        source: the tokens of the encoder, or of the keys if there is one kind; default: their numbers.
        target: the tokens of the decoder, or of the queries; default: `source` if the lengths are the same. Either may
            be a dict by kind: then they are keys and queries of each.
        sample: the index in a batch.
        title: the title of the page.

    Raises ValueError if tokens do not fit the weights or weights do not add up to one.
    """
    data = {
        "views": [_view(name, w, source, target, sample) for name, w in _kinds(weights).items()],
        "series": len(SERIES),
        "ramp": {mode: [getattr(colour, mode) for colour in [*WEIGHTS.colours, HIDDEN]] for mode in ("light", "dark")},
    }
    return Explorer(title, data)


class Explorer:
    """A page of HTML; a notebook shows it in a frame, `str()` is its text."""

    def __init__(self, title: str, data: dict[str, Any]) -> None:
        self.title = title
        self.data = data

    def __repr__(self) -> str:
        return f"<attention explorer: {', '.join(view['name'] for view in self.data['views'])}>"

    def __str__(self) -> str:
        title = clean(self.title)
        style, script = (text_of(__package__, f"explorer.{ending}") for ending in ("css", "js"))
        return html_page(title, BODY.format(title=title), self.data, style=_head_colours() + style, script=script)

    @property
    def height(self) -> int:
        """In a notebook, in pixels."""
        rows = max(max(len(view["source"]), len(view["target"])) for view in self.data["views"])
        return min(max(400 + 26 * rows, 520), 900)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(str(self))}" sandbox="allow-scripts" title="{clean(self.title)}" '
            f'width="100%" height="{self.height}" style="border: 0"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file whose name ends in .html, whole or not at all.

        Raises ValueError for another ending, OSError if the file cannot be written.
        """
        save_page("save", path, self.__str__)


def _kinds(weights: Any) -> dict[str, Any]:
    if isinstance(weights, record_attention):
        found = {kind: getattr(weights, kind) for kind in NAMES}
        found["attention"] = [call for call in weights.layers if call.kind is None]
        weights = {kind: calls for kind, calls in found.items() if calls}
    if isinstance(weights, Mapping):
        if not weights:
            raise ValueError("attention_explorer: no attention was recorded; call the model within record_attention()")
        return dict(weights)
    return {"attention": weights}


def _view(kind: str, weights: Any, source: Any, target: Any, sample: int) -> dict[str, Any]:
    """One kind of attention as plain values, with the tokens of its queries and keys."""
    layers = read_layers(weights, sample)
    queries, keys = layers[0].weights.shape[1:]
    if isinstance(source, Mapping) or isinstance(target, Mapping):
        source, target = (tokens.get(kind) if isinstance(tokens, Mapping) else tokens for tokens in (source, target))
    elif kind == "encoder":
        target = source
    elif kind == "decoder":
        source = target = source if target is None else target
    elif target is None and queries == keys:
        target = source
    return {
        "name": NAMES.get(kind, kind),
        "source": [visible(t) for t in check_tokens(source, f"{kind}: keys", keys, "source")],
        "target": [visible(t) for t in check_tokens(target, f"{kind}: queries", queries, "target")],
        "layers": [
            {
                "name": layer.name,
                **_products(layer.call, sample),
                "heads": np.where(
                    False if layer.hidden is None else layer.hidden, -1, np.rint(layer.weights * FULL).astype(np.int64)
                ).tolist(),
            }
            for layer in layers
        ],
    }


def _products(call: AttentionCall | None, sample: int) -> dict[str, Any]:
    """Queries and keys, with three digits, and the scale; nothing if they are unknown or too many."""
    if call is None or call.query is None or call.key is None or call.scale is None:
        return {}
    query, key = call.query[sample], call.key[sample]
    if query.size + key.size > MOST_NUMBERS:
        return {}
    short = {name: np.round(x.astype(np.float64), 3).tolist() for name, x in (("query", query), ("key", key))}
    return {**short, "scale": call.scale, "scaled": ", ".join(scaling(call.scale, query.shape[-1]))}


def _head_colours() -> str:
    light, dark = (
        " ".join(f"--head-{i}: {getattr(colour, mode)};" for i, colour in enumerate(SERIES))
        for mode in ("light", "dark")
    )
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


BODY = """\
<main>
<h1>{title}</h1>
<p id="sentence"></p>
<div class="controls">
<label>Attention <select id="view"></select></label>
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
<fieldset aria-label="Picture">
<label><input type="radio" name="picture" value="overview"> overview</label>
<label><input type="radio" name="picture" value="lines" checked> lines</label>
<label><input type="radio" name="picture" value="map"> heat map</label>
<label><input type="radio" name="picture" value="numbers"> one query in numbers</label>
</fieldset>
</div>
<p id="readout" role="status"></p>
<div id="legend"></div>
<div id="lines">
<div><h2 id="queries-name">queries</h2><ol id="query" role="listbox" aria-labelledby="queries-name"></ol></div>
<svg id="strands" preserveAspectRatio="none" aria-hidden="true"></svg>
<div><h2 id="keys-name">keys</h2><ol id="key" role="listbox" aria-labelledby="keys-name"></ol></div>
</div>
<div id="overview" class="scroll" hidden></div>
<div id="numbers" class="scroll" hidden></div>
<div id="map" hidden>
<canvas id="cells" tabindex="0" role="img" aria-label="Heat map: rows are queries, columns are keys"></canvas>
</div>
<p class="help">Point at a token to see where it looks; a click, Enter or Space holds it, Escape lets go. In the lists
the arrow keys up and down walk over the tokens, left and right over the heads; in the heat map they walk over its
cells. Lines of weights under 0.02 are left out, and of more than 4,000 the faintest. A click on a
head's tile puts the head in or out, a double click leaves it alone.</p>
<noscript><p>To look around needs JavaScript; visualize.attention_grid and attention_lines draw pictures without.</p>
</noscript>
</main>"""
