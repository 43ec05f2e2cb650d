"""A trace of decoding: the most likely ids at each step, the tree of a beam search, and pictures of both.

Decoding itself is in `decoding.py` and does not depend on this: it runs the model again, step by step, or watches it
during a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F
from tinytensor.nn import visualize
from tinytensor.nn.module import evaluating

from .decoding import Decodable, Hypothesis, Limit, as_ids, beam_search, next_probabilities, stepwise
from .ids import NONE, ends
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


@dataclass(frozen=True)
class Choice:
    """One step of decoding with one branch.

    Attributes:
        ids: the most likely ids, best first; the chosen id comes last if it is not among them.
        probabilities: the probability of each, given all ids before.
        chosen: the place of the chosen one.
    """

    ids: list[int]
    probabilities: list[float]
    chosen: int


def trace_choices(
    model: Decodable,
    source: Any,
    ids: Sequence[int],
    count: int = 5,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> list[Choice]:
    """The alternatives at each step of a hypothesis.

    Args:
        source: the decoded ids, (1, source).
        ids: the hypothesis, from `greedy` or `sample`.
        count: the number of likeliest ids.
        temperature, top_k, top_p: those of `sample`, for the distribution it drew from; see `next_probabilities`.

    Raises ValueError for more than one sentence, or a count below 1.
    """
    if count < 1:
        raise ValueError(f"trace_choices: count must be at least 1, got {count}")
    source = _one_sentence("trace_choices", model, source)
    found = []
    with tt.no_grad(), evaluating(model):
        model = stepwise(model)
        state = model.initial_state(source)
        for last, chosen in zip([model.bos_id, *ids], ids):
            logits, state = model.next_logits(tt.asarray([[last]], device=source.device), state)
            log_p = F.log_softmax(logits[0])
            if model.pad_id is not None:
                log_p[:, model.pad_id] = -np.inf  # never chosen
            narrowed = temperature != 1 or top_k is not None or top_p is not None
            probabilities = next_probabilities(log_p, temperature, top_k, top_p) if narrowed else tt.exp(log_p)
            row = probabilities[0].numpy()
            likeliest = [int(i) for i in np.argsort(-row, kind="stable")[:count] if row[i] > 0]
            shown = likeliest if chosen in likeliest else [*likeliest, chosen]
            found.append(Choice(shown, [float(row[i]) for i in shown], shown.index(chosen)))
    return found


@dataclass(frozen=True)
class Branch:
    """A beginning of a hypothesis that beam search looked at, one id longer than its parent.

    Attributes:
        parent: the place of the parent in the list; None for the root.
        id: its last id.
        log_probability: that of this id, given those before.
        score: that of a hypothesis that ends here; else None.
        followed: True if the search continued from here, or ended here; False if others were better.
    """

    parent: int | None
    id: int
    log_probability: float
    score: float | None = None
    followed: bool = True


def trace_beam(
    model: Decodable,
    source: Any,
    *,
    beam: int = 5,
    length_penalty: float = 1.0,
    max_length: Limit = 200,
    candidates: int = 0,
) -> tuple[list[Branch], list[Hypothesis]]:
    """The tree of a beam search, parents before children, and the hypotheses it found.

    Args:
        source: the ids of one sentence, (1, source).
        beam, length_penalty, max_length: as for `beam_search`.
        candidates: the number of likeliest ids to include after each hypothesis, even if they were not followed;
            default: only those that were.

    Raises ValueError for more than one sentence, or fewer than 0 candidates.
    """
    if candidates < 0:
        raise ValueError(f"trace_beam: candidates must be at least 0, got {candidates}")
    source = _one_sentence("trace_beam", model, source)
    watched = _Watched(stepwise(model), candidates)
    (hypotheses,) = beam_search(watched, source, beam=beam, length_penalty=length_penalty, max_length=max_length)
    branches = watched.branches
    children = {(branch.parent, branch.id): place for place, branch in enumerate(branches)}
    for hypothesis in hypotheses:
        (*before, last), place = hypothesis.ids, 0
        for each in before:
            place = children[place, each]
        children[place, last] = len(branches)
        branches.append(Branch(place, last, hypothesis.log_probabilities[-1], hypothesis.score))
    branches += [branch for branch in watched.candidates if (branch.parent, branch.id) not in children]
    return branches, hypotheses


def _one_sentence(who: str, model: Decodable, source: Any) -> Tensor:
    ids = as_ids(model, source)
    if len(ids) != 1:
        raise ValueError(f"{who}: expected the ids of one sentence, (1, source), got {len(ids)} sentences")
    return ids


class _Watched(nn.Module):
    """A model for decoding that remembers the branches it followed, and the ids that could follow each."""

    def __init__(self, model: Decodable, count: int) -> None:
        super().__init__()
        self.model = model
        self.pad_id, self.bos_id, self.eos_id = model.pad_id, model.bos_id, model.eos_id
        self.max_length = getattr(model, "max_length", None)
        self.branches = [Branch(None, NONE if model.bos_id is None else model.bos_id, 0.0)]
        self.candidates: list[Branch] = []
        self._count = count
        self._followed: list[int | None] = []  # each branch's place in the list; None without a hypothesis
        self._log_probabilities: Any = None  # those of the ids that could follow, (branches, vocabulary)

    def initial_state(self, source: Tensor) -> Any:
        return self.model.initial_state(source)

    def next_logits(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        self._followed = [0] if not self._followed else self._grown(ids.numpy()[0].tolist())
        logits, state = self.model.next_logits(ids, state)
        self._log_probabilities = F.log_softmax(logits[0]).numpy()
        for place, row in zip(self._followed, self._log_probabilities, strict=True):
            if place is not None:
                self.candidates += self._likeliest(place, row)
        return logits, state

    def reorder(self, state: Any, sentences: Tensor, branches: Tensor) -> Any:
        parents = branches.numpy()[0]
        self._followed = [self._followed[parent] for parent in parents]
        self._log_probabilities = self._log_probabilities[parents]
        return self.model.reorder(state, sentences, branches)

    def _grown(self, ids: list[int]) -> list[int | None]:
        """Extend the branches by one id. A place without a hypothesis holds an end, or none."""
        places: list[int | None] = []
        for parent, each, row in zip(self._followed, ids, self._log_probabilities, strict=True):
            places.append(None if parent is None or each in (NONE, *ends(self.eos_id)) else len(self.branches))
            if places[-1] is not None:
                self.branches.append(Branch(parent, each, float(row[each])))
        return places

    def _likeliest(self, place: int, row: np.ndarray) -> list[Branch]:
        possible = [i for i in np.argsort(-row, kind="stable").tolist() if i != self.pad_id and row[i] > -np.inf]
        return [Branch(place, i, float(row[i]), followed=False) for i in possible[: self._count]]
