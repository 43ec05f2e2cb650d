"""A page in which a trained model answers while one types: one HTML file that needs no network."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from tinytensor.pages.html_page import html_page, text_of

from ..explorer import NAMES, Explorer
from ..ramp import HIDDEN, WEIGHTS
from ..svg import clean
from .texts import described

TITLE = "A model at work"
SCRIPTS = ("machine.js", "decoding.js", "levers.js", "texts.js", "page.js")


def live(
    model: Any, tokenizer: Any, path: str | os.PathLike[str] | None = None, *, text: str = "", title: str = TITLE
) -> LivePage:
    """A page in which a trained model answers while one types, with levers for what it computes.

        visualize.live(model, ToyText("en-fr"), "page.html", text="the black cat eats the fresh bread.")

    It shows the tokens, what each position says next, the attention of every head, and q, k, v, scores and weights of
    one query. The answer is greedy, from a beam search, or drawn with a temperature and top-p. Levers change the factor
    of the scores, the mask and the positions, leave out heads and layers, and set weights, as `nn.intervene` does. The
    page runs the recorded program of the model (`graph.program()`) and asks no other machine.

    Args:
        model: a `models.LanguageModel` or `models.Transformer` in float32; it is recorded in evaluation mode.
        tokenizer: text to ids and back: `ToyText`, `Characters` or `Bytes`.
        path: the file to write, whose name ends in .html; None to write it later, with `save`.
        text: what is typed at first.
        title: the title of the page.

    Raises TypeError for other models and tokenizers; ValueError for ops that the page does not have, for a tokenizer
    with other ids, and for more than 64 MB of weights; and what `save` raises.
    """
    from .recording import record  # these know graphs, which no other picture of this package loads
    from .writing import Writer

    found = record(model)
    ends = model.eos_id if isinstance(model.eos_id, (list, tuple)) else [model.eos_id]
    kinds = {("ids", "ids"): "of the text to itself", ("source", "source"): NAMES["encoder"]}
    kinds |= {("target", "target"): NAMES["decoder"], ("target", "source"): NAMES["cross"]}
    data = {
        "program": Writer().write(found),
        "model": {"bos": model.bos_id, "pad": model.pad_id, "longest": model.max_length},
        "ends": [i for i in ends if i is not None],
        "text": described(tokenizer, model),
        "begin": text,
        "attentions": [asdict(one) | {"kind": kinds[one.queries, one.keys]} for one in found.attentions],
        "masks": _masks(found),
        "positions": _positions(found),
        "ramp": {mode: [getattr(colour, mode) for colour in [*WEIGHTS.colours, HIDDEN]] for mode in ("light", "dark")},
    }
    page = LivePage(title, data)
    if path is not None:
        page.save(path)
    return page


class LivePage(Explorer):
    """A page of HTML; a notebook shows it in a frame, `str()` is its text."""

    height = 900

    def __repr__(self) -> str:
        return f"<live page: {self.title}>"

    def __str__(self) -> str:
        title, style = clean(self.title), text_of(__package__, "page.css")
        lists = "".join(LIST.format(name=name, title=LISTS[name]) for name in self.data["program"]["inputs"])
        script = "".join(text_of(__package__, name) for name in SCRIPTS)
        return html_page(title, BODY.format(title=title, lists=lists), self.data, style=style, script=script)


def _masks(found: Any) -> list[str]:
    """The names of the masks; several may be one array."""
    masks = {name: at for name, at in found.names.items() if name.rpartition(".")[2] in ("mask", "tgt_mask")}
    return [*{tuple(at): name for name, at in masks.items()}.values()]


def _positions(found: Any) -> list[list[Any]]:
    """The names that carry a model's positions, with what goes on instead, which is "level" for ALiBi's slopes."""
    names = found.names
    pairs: list[list[Any]] = [[name, "level"] for name in _masks(found) if found.values[name].dtype.kind == "f"]
    pairs += [[name, 1 - int(name[-1])] for name in names if name.startswith("layers.0.rotation_")]  # cos, sin
    if names.get("positions") != names.get("positions.x"):
        pairs.append(["positions", "positions.x" if "positions.x" in names else 0])
    return pairs


SAYS = "and what each position says next"
LISTS = {"ids": f"The text, {SAYS}", "source": "Source", "target": f"Target, {SAYS}"}
LIST = """<h2 id="{name}-name">{title}</h2>
<div class="scroll"><ol class="tokens" id="{name}" role="listbox" aria-labelledby="{name}-name"></ol></div>
"""
BODY = """\
<main>
<h1>{title}</h1>
<label>Text <textarea id="text" rows="2" spellcheck="false" autocapitalize="off"></textarea></label>
<p id="fault" role="alert"></p><p id="answer" role="status"></p>
<div class="controls">
<label>Next token <select id="method"><option value="greedy">the likeliest</option><option value="beam">of a beam
search</option><option value="drawn">drawn at random</option></select></label>
<label data-method="beam">beam <input type="range" id="beam" min="2" max="8"> <output id="beam-is"></output></label>
<label data-method="drawn">temperature <input type="range" id="temperature" min="0.1" max="3" step="0.1">
<output id="temperature-is"></output></label>
<label data-method="drawn">top-p <input type="range" id="topP" min="0.05" max="1" step="0.05">
<output id="topP-is"></output></label>
<button id="again" data-method="drawn">draw again</button>
<label>at most <input type="number" id="limit" min="1" max="999"> tokens</label></div>
<fieldset class="controls"><legend>Levers</legend>
<label>scores × <input type="range" id="factor" min="0" max="12" step="any"> <output id="factor-is"></output></label>
<button id="unscaled">without 1/√d<sub>k</sub></button>
<label><input type="checkbox" id="mask"> mask</label>
<label><input type="checkbox" id="positions"> positions</label>
<button id="reset">as trained</button></fieldset>
{lists}<div class="columns">
<section><h2 id="next-name">Next</h2><ol id="next" aria-labelledby="next-name"></ol></section>
<section><h2><label>Attention <select id="kind"></select></label></h2>
<div class="scroll"><div id="heads"></div></div></section>
<section><h2>Rows are queries, columns are keys</h2><div class="scroll"><table id="map"></table></div></section></div>
<h2 id="query-name">Query</h2><p id="q"></p>
<div class="scroll"><table><thead><tr><th>key</th><th>k</th><th>q · k</th><th id="score-name">score</th>
<th>weight</th><th>v</th></tr></thead><tbody id="rows"></tbody></table></div>
<p id="z"></p>
<p class="help">Type, and the model answers. A click or the arrow keys choose a token: the query below. A box without
its mark leaves a head or a layer out; a weight follows its slider, and the others of its row share the rest.</p>
<noscript><p>The model runs in JavaScript; visualize.attention_explorer draws a recording.</p></noscript>
</main>"""
