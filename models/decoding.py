"""From a model's distributions over the next id to sentences: greedy, beam search, sampling.

A model that can be decoded offers three methods (`Decodable`): the state before the first step, the logits of the next
id together with the state after a step, and the state of other branches. The model decides what its state holds.
Branches are the hypotheses of one sentence that decoding follows at the same time: one in greedy decoding and sampling,
`beam` in beam search.

Finished sentences leave the batch, so the rest costs no more than it must, and the result for a sentence does not
depend on the others in the batch. Padding is never chosen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.grad_mode import may_be_faster
from tinytensor.nn import functional as F
from tinytensor.nn.decoder_cache import passed_by
from tinytensor.nn.functional.settings import settings

from .ids import NONE, Ends, as_batch, ends

Limit = int | tuple[float, int]

T = TypeVar("T")


class Decodable(Protocol):
    """The interface of a model that can be decoded."""

    @property
    def bos_id(self) -> int | None:
        """The id that begins a text; None if a source does."""

    @property
    def eos_id(self) -> Ends:
        """The id that ends a text, or several; None if only the limit ends it."""

    @property
    def pad_id(self) -> int | None:
        """The id that is never chosen; None if every id is a word."""

    def initial_state(self, source: Tensor) -> Any:
        """The state before the first step, from ids (sentences, source), with one branch for each sentence."""

    def next_logits(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step: logits (sentences, branches, vocabulary) of the next id, and the state after the step.

        `ids` (sentences, branches) holds the last id of each branch, bos at first, or 0 without one. The former state
        is not used again, so the model may change and return it.
        """

    def reorder(self, state: Any, sentences: Tensor, branches: Tensor) -> Any:
        """The state of other branches: for the new sentence i, the branches branches[i] of sentence sentences[i].

        Shapes: sentences (new sentences,), branches (new sentences, new branches). The former state is not used again.
        """


@dataclass(frozen=True)
class Hypothesis:
    """An output that decoding found for a source.

    Attributes:
        ids: without bos, with eos unless the limit came first.
        score: the sum of `log_probabilities`, divided by its number of terms to the power of the length penalty.
        log_probabilities: the model's own, of each id given those before it.
    """

    ids: list[int]
    score: float
    log_probabilities: list[float]


# ---- one hypothesis for each sentence


@settings
def greedy(model: Decodable, source: Any, *, max_length: Limit = 200) -> list[Hypothesis]:
    """For each sentence, the likeliest id at each step.

    Args:
        source: ids (sentences, source), padded.
        max_length: the most ids, eos included: a number, or (a, b) for a * (ids of the source) + b, rounded down, as
            fairseq's --max-len-a and --max-len-b. Never more than `model.max_length`, if there is one.

    Scores have length penalty 1: they are mean log-probabilities. Dropout is off meanwhile.

    Raises ValueError if no id can follow, because all logits but padding's are -inf or some are NaN.
    """
    return [best for (best,) in beam_search(model, source, beam=1, max_length=max_length)]


@settings
def sample(
    model: Decodable,
    source: Any,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: Limit = 200,
    generator: tt.random.Generator | None = None,
) -> list[Hypothesis]:
    """For each sentence, an id drawn at each step from the model's distribution, as `next_probabilities` narrows it.

    Args:
        source, max_length: as for `greedy`; so are scores and errors.
        temperature, top_k, top_p: as for `next_probabilities`.
        generator: draws the random numbers; default: the library's own (`tt.manual_seed`). Each step draws a number for
            every sentence of the batch, so that none depends on when another ends.
    """
    _check_sampling(temperature, top_k, top_p)
    generator = generator or tt.random.default_generator
    batch = as_ids(model, source).shape[0]

    def drawn(logits: Tensor, sentences: Any) -> tuple[Tensor, Tensor]:
        with np.errstate(invalid="ignore"):  # rows without a distribution, which are found below
            log_p = F.log_softmax(logits, dim=-1)
        if model.pad_id is not None:
            log_p[:, model.pad_id] = -np.inf
        _check_possible(tt.max(log_p, axis=-1).numpy())
        numbers = tt.asarray(generator.uniform((batch, 1), dtype=tt.float64).numpy()[sentences], device=logits.device)
        below = tt.cumulative_sum(next_probabilities(log_p, temperature, top_k, top_p), axis=-1)
        ids = tt.sum(below <= numbers * below[:, -1:], axis=-1, keepdims=True)
        return ids, tt.take_along_axis(log_p, ids, axis=-1)

    with tt.no_grad(), evaluating(model):
        return _one_for_each(model, as_ids(model, source), max_length, drawn)


@settings
def next_probabilities(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """The distribution to draw from: softmax(logits / temperature), narrowed to the likeliest ids.

    Args:
        logits: (..., vocabulary).
        temperature: below 1 favours likely ids, towards 0 only the likeliest.
        top_k: only the k likeliest ids (Fan et al. 2018).
        top_p: of those, only the likeliest whose probabilities together reach p: the nucleus (Holtzman et al. 2020).
            It always includes the likeliest.

    Returns probabilities (..., vocabulary) in float64, 0 for the ids left out; the others sum to 1. Of ids with equal
    probabilities, it keeps the first.

    Raises ValueError for a temperature or top_p that is not positive, top_p above 1, or top_k below 1.
    """
    _check_sampling(temperature, top_k, top_p)
    logits = tt.astype(logits, tt.float64)
    least = 1e-100  # practically 0, but quotients are finite
    scaled = (logits - tt.max(logits, axis=-1, keepdims=True)) / max(temperature, least)
    vocabulary = logits.shape[-1]
    if top_k is None and top_p is None:
        return F.softmax(scaled)
    kept, places = tt.topk(scaled, min(top_k or vocabulary, vocabulary))
    if top_p is not None:
        probabilities = F.softmax(kept)
        before = tt.cumulative_sum(probabilities, axis=-1) - probabilities
        kept = tt.where(before < top_p, kept, -np.inf)
    count = logits.size // vocabulary
    rows = tt.arange(count, device=logits.device)[:, None]
    narrowed = tt.zeros((count, vocabulary), dtype=tt.float64, device=logits.device)
    narrowed[rows, tt.reshape(places, (count, -1))] = tt.reshape(F.softmax(kept), (count, -1))
    return tt.reshape(narrowed, logits.shape)


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not temperature > 0:
        raise ValueError(f"sampling: temperature must be positive, got {temperature}; `greedy` is its limit at 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"sampling: top_k must be at least 1, got {top_k}; None keeps every id")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling: top_p must be above 0 and at most 1, got {top_p}; None keeps every id")


def _one_for_each(
    model: Decodable,
    source: Tensor,
    max_length: Limit,
    choose: Callable[[Tensor, Any], tuple[Tensor, Tensor]],
    length_penalty: float = 1.0,
) -> list[Hypothesis]:
    """Decode with one branch.

    `choose(logits, sentences)` gives each remaining sentence's next id and its log-probability, (sentences, 1).
    """
    model, limits = stepwise(model), _limits(model, source, max_length)
    ids: list[list[int]] = [[] for _ in limits]
    log_probabilities: list[list[float]] = [[] for _ in limits]
    sentences = np.arange(len(limits))
    state = model.initial_state(source) if sentences.size else None
    last = tt.full((len(limits), 1), model.bos_id or 0, dtype=tt.int64, device=source.device)
    while sentences.size:
        logits, state = model.next_logits(last, state)
        last, reached = choose(logits[:, 0], sentences)
        for i, (following,), (log_probability,) in zip(sentences.tolist(), last.tolist(), reached.tolist()):
            ids[i].append(following)
            log_probabilities[i].append(log_probability)
        going_on = np.array([ids[i][-1] not in ends(model.eos_id) and len(ids[i]) < limits[i] for i in sentences])
        if not going_on.all():
            places = _closed_up(going_on)
            sentences = sentences[places]
            if sentences.size:
                where = tt.asarray(places, device=source.device)
                last, state = last[where], model.reorder(state, where, tt.zeros_like(where)[:, None])
    return [_hypothesis(*parts, length_penalty) for parts in zip(ids, log_probabilities)]


# ---- several hypotheses for each sentence


@dataclass(frozen=True)
class _Branches:
    """Unfinished hypotheses, equally many for each sentence. One with total -inf only fills a place.

    Attributes:
        ids: (sentences, branches, length).
        log_probabilities: of these ids, (sentences, branches, length).
        totals: (sentences, branches), the sums of the log-probabilities.
    """

    ids: np.ndarray
    log_probabilities: np.ndarray
    totals: np.ndarray

    def __getitem__(self, places: Any) -> _Branches:
        return _Branches(self.ids[places], self.log_probabilities[places], self.totals[places])


@settings
def beam_search(
    model: Decodable, source: Any, *, beam: int = 5, length_penalty: float = 1.0, max_length: Limit = 200
) -> list[list[Hypothesis]]:
    """For each sentence the best hypotheses found, at most `beam`, best first.

    The search follows the `beam` likeliest beginnings at the same time. Each step looks at the 2 * beam likeliest
    continuations of them all, as fairseq does (Ott et al. 2019): an eos among the first `beam` ends a hypothesis, and
    the search follows the first `beam` of the others. A sentence is done when `beam` hypotheses have ended; those that
    reach the limit end there, without eos.

    Args:
        source, max_length: as for `greedy`; so are errors.
        beam: the number of hypotheses to follow. 1 is greedy decoding.
        length_penalty: a hypothesis of n ids, eos included, has score sum(log-probabilities) / n ** length_penalty, as
            in fairseq: 0 favours short ones, 1 compares the means, more favours long ones.
    """
    if beam < 1:
        raise ValueError(f"beam_search: beam must be at least 1, got {beam}")

    def likeliest(logits: Tensor, sentences: Any) -> tuple[Tensor, Tensor]:
        return _likeliest(logits, 1, model.pad_id)

    def decode(part: Tensor) -> list[list[Hypothesis]]:
        if beam > 1:
            return _search(model, part, beam, length_penalty, max_length)
        return [[one] for one in _one_for_each(model, part, max_length, likeliest, length_penalty)]

    return in_evaluation(decode, model, source)


def _search(
    model: Decodable, source: Tensor, beam: int, length_penalty: float, max_length: Limit
) -> list[list[Hypothesis]]:
    model, limits = stepwise(model), np.array(_limits(model, source, max_length), dtype=np.int64)
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def end(hypotheses: _Branches, chosen: np.ndarray) -> None:
        """End the chosen hypotheses, (sentences, branches), unless their sentence has enough."""
        for place, branch in np.argwhere(chosen).tolist():
            found = ended[sentences[place]]
            if len(found) < beam:
                ids, log_probabilities = hypotheses.ids[place, branch], hypotheses.log_probabilities[place, branch]
                found.append(_hypothesis(ids.tolist(), log_probabilities.tolist(), length_penalty))

    sentences = np.arange(len(limits))
    none = np.zeros((len(limits), 1, 0))
    branches = _Branches(none.astype(np.int64), none, np.zeros((len(limits), 1)))
    state = model.initial_state(source) if len(limits) else None
    last = tt.full((len(limits), 1), model.bos_id or 0, dtype=tt.int64, device=source.device)
    while sentences.size:
        logits, state = model.next_logits(last, state)
        parents, candidates = _best_continuations(logits, branches, 2 * beam, model.pad_id)
        possible = candidates.totals > -np.inf
        is_end = np.isin(candidates.ids[:, :, -1], ends(model.eos_id))
        end(candidates, possible & is_end & (np.arange(possible.shape[1]) < beam))

        goes_on = possible & ~is_end  # follow the best `beam` of these
        first = (np.arange(len(sentences))[:, None], np.argsort(~goes_on, axis=1, kind="stable")[:, :beam])
        branches, parents, goes_on = candidates[first], parents[first], goes_on[first]
        branches.totals[~goes_on] = -np.inf
        branches.ids[~goes_on] = (*ends(model.eos_id), NONE)[0]  # any id but padding, which attends to nothing
        at_limit = branches.ids.shape[2] == limits[sentences]
        end(branches, goes_on & at_limit[:, None])

        enough = np.array([len(ended[i]) == beam for i in sentences])
        where = _closed_up(goes_on.any(axis=1) & ~at_limit & ~enough)
        sentences, branches = sentences[where], branches[where]
        if sentences.size:
            indices = (tt.asarray(numbers, device=source.device) for numbers in (where, parents[where]))
            state = model.reorder(state, *indices)
            last = tt.asarray(branches.ids[:, :, -1], device=source.device)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in ended]


def _best_continuations(
    logits: Tensor, branches: _Branches, count: int, pad_id: int | None
) -> tuple[np.ndarray, _Branches]:
    """For each sentence the `count` best hypotheses that are longer by an id, or all if fewer, best first.

    Returns the parent branch of each (sentences, count), and the hypotheses.
    """
    ids, log_probabilities = (x.numpy() for x in _likeliest(logits, min(count, logits.shape[-1]), pad_id))
    totals = (branches.totals[:, :, None] + log_probabilities).reshape(len(ids), -1)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :count]
    rows = np.arange(len(ids))[:, None]
    parents, ranks = np.divmod(order, ids.shape[2])

    def longer(former: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.concatenate([former[rows, parents], last[rows, parents, ranks][:, :, None]], axis=2)

    return parents, _Branches(
        longer(branches.ids, ids), longer(branches.log_probabilities, log_probabilities), totals[rows, order]
    )


# ---- shared parts


@may_be_faster
def in_evaluation(decode: Callable[[Tensor], list[T]], model: Any, source: Any) -> list[T]:
    """Call `decode` on a batch of ids, without gradients or dropout."""
    with tt.no_grad(), evaluating(model):
        return decode(as_ids(model, source))


def _closed_up(stays: np.ndarray) -> np.ndarray:
    """The places of what stays in a batch. Only the last ones move, into the gaps of those that leave."""
    count = np.count_nonzero(stays)
    places = np.arange(count)
    places[~stays[:count]] = np.flatnonzero(stays[count:]) + count
    return places


def _likeliest(logits: Tensor, count: int, pad_id: int | None) -> tuple[Tensor, Tensor]:
    """The likeliest ids of each branch but padding, and their log-probabilities, (..., count) each."""
    with np.errstate(invalid="ignore"):  # rows without a distribution, which are found below
        log_probabilities, ids = F.log_softmax_topk(logits, count, excluded=pad_id)
    _check_possible(log_probabilities.numpy()[..., 0])
    return ids, log_probabilities


def _check_possible(log_probabilities: np.ndarray) -> None:
    """Raise ValueError if the likeliest id other than padding has no probability: none can follow."""
    if not np.isfinite(log_probabilities).all():
        raise ValueError(
            "decoding: no id can follow: the model's logits hold NaN or infinity, or are -inf but for padding; "
            "look for what overflows in the model, or for weights that diverged in training"
        )


def _hypothesis(ids: Any, log_probabilities: Any, length_penalty: float) -> Hypothesis:
    score = sum(log_probabilities) / len(ids) ** length_penalty
    return Hypothesis(list(ids), score, list(log_probabilities))


def as_ids(model: Any, source: Any) -> Tensor:
    device = next((p.device for p in model.parameters()), None) if isinstance(model, nn.Module) else None
    return as_batch("decoding", source, source.device if isinstance(source, Tensor) else device)


def _limits(model: Any, source: Tensor, max_length: Limit) -> list[int]:
    """The most ids for each sentence."""
    ratio, constant = max_length if isinstance(max_length, tuple) else (0.0, max_length)
    if ratio < 0 or constant < (ratio == 0):
        raise ValueError(
            f"decoding: max_length must be at least 1, or (a, b) with a > 0 and b >= 0; got {max_length!r}"
        )
    most = getattr(model, "max_length", None)
    lengths = np.sum((source.numpy() != model.pad_id) & (source.numpy() != NONE), axis=1)
    limits = [max(1, int(ratio * length + constant)) for length in lengths.tolist()]
    return limits if most is None else [min(limit, most) for limit in limits]


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch every part of a model to evaluation mode, without dropout, and afterwards back to its former mode."""
    former = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    for module, _ in former:
        module.training = False
    try:
        yield
    finally:
        for module, training in former:
            module.training = training


def stepwise(model: Decodable) -> Decodable:
    """The model, or `Recomputed` where its own steps would pass by a hook or a `forward` of one of its modules."""
    has_whole = isinstance(model, nn.Module) and hasattr(model, "decode")
    return Recomputed(model) if has_whole and passed_by(cast(nn.Module, model)) else model


class Recomputed(nn.Module):
    """A model's `encode` and `decode` as steps; every step recomputes every branch from its beginning.

    This defines decoding: a model's own steps must give the same results and are measured against it.

    Args:
        model: has `encode(source)`, whose results are the further arguments of `decode(target, ...)`, which turns
            target ids (batch, target) into logits (batch, target, vocabulary).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.pad_id, self.bos_id, self.eos_id = model.pad_id, model.bos_id, model.eos_id
        self.max_length = getattr(model, "max_length", None)

    def initial_state(self, source: Tensor) -> Any:
        return self.model.encode(source), None

    def next_logits(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        encoded, former = state
        so_far = ids[:, :, None] if former is None else tt.concat([former, ids[:, :, None]], axis=2)
        sentences, branches, length = so_far.shape
        repeated = [tt.repeat(part, branches, axis=0) for part in encoded]
        logits = self.model.decode(tt.reshape(so_far, (sentences * branches, length)), *repeated)[:, -1]
        return tt.reshape(logits, (sentences, branches, -1)), (encoded, so_far)

    def reorder(self, state: Any, sentences: Tensor, branches: Tensor) -> Any:
        encoded, so_far = state
        return [tt.take(part, sentences, axis=0) for part in encoded], so_far[sentences[:, None], branches]
