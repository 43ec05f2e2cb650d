"""A picture of how a sentence was translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor.nn import visualize

from .decoding_trace import trace_beam, trace_choices
from .sentence_attention import BEGIN, END
from .training.evaluation import LIMIT
from .translator import Translation, Translator


def draw_decoding(
    path: Path, translator: Translator, line: str, translation: Translation, *, beam: int, length_penalty: float = 1.0,
    **narrowed: Any,
) -> None:  # fmt: skip
    """Draw how a line was translated (.svg): the tree of its beam search, or for one branch the alternatives.

    Args:
        beam: that of the translation; 1 for one decoded greedily or drawn at random.
        length_penalty: that of the beam search.
        narrowed: temperature, top_k and top_p of a translation drawn at random.
    """
    model = translator.model
    source = tt.asarray([[*translator.encode(line), model.eos_id]], device=next(model.parameters()).device)

    def token(i: int) -> str:
        return {model.bos_id: BEGIN, model.eos_id: END}.get(i) or "".join(translator.codec.target_pieces([i]))

    if beam > 1:
        branches, _ = trace_beam(model, source, beam=beam, length_penalty=length_penalty, max_length=LIMIT)
        nodes = [visualize.BeamNode(b.parent, token(b.id), b.log_probability, b.score) for b in branches]
        visualize.beam_tree(nodes, title=f"Beam search, {beam} wide").save(path)
        return
    choices = trace_choices(model, source, translation.ids, **narrowed)
    candidates = [[(token(i), p) for i, p in zip(choice.ids, choice.probabilities)] for choice in choices]
    visualize.decoding_steps(candidates, [choice.chosen for choice in choices], title="What could be said").save(path)
