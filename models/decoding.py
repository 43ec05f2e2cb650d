"""From a model's distributions over the next id to sentences: greedy, beam search, sampling.

A model that can be decoded offers three methods (`Decodable`): the state before the first step, the logits of the next
id together with the state after a step, and the state of other branches. The model decides what its state holds.
Branches are the hypotheses of one sentence that decoding follows at the same time: one in greedy decoding and sampling,
`beam` in beam search.

Finished sentences leave the batch, so the rest costs no more than it must, and the result for a sentence does not
depend on the others in the batch. Padding is never chosen. `Rules` punish repetition and end a text at more than eos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.grad_mode import may_be_faster
from tinytensor.nn import functional as F
from tinytensor.nn.decoder_cache import passed_by
from tinytensor.nn.functional.settings import settings
from tinytensor.nn.module import evaluating

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
        log_probabilities: of each id given those before it: the model's own, unless `Rules` change them.
    """

    ids: list[int]
    score: float
    log_probabilities: list[float]


@dataclass(frozen=True)
class Rules:
    """The rules of decoding in addition to the model. The numbers are those of `transformers`, under its names.

    Attributes:
        repetition_penalty: of an id that was said, a positive logit is divided by it, a negative one multiplied (Keskar
            et al. 2019, section 4.1); beam search does so with log-probabilities. 1 changes nothing.
        no_repeat_ngram_size: no sequence of n ids occurs twice (Paulus et al. 2017, section 2.5); 0 allows all.
        eos_id: the id or ids that end a text; None for the model's.
        stop: True for the ids of a text, without its source, that end with it.
        with_source: count the source among what was said, as the beginning of the text.
        sequence_bias: runs of ids, each with a number that is added to the score of its last id; -inf bars it.
        min_new_tokens: no id of `eos_id` comes among the first n ids.
        begin_suppress_tokens: ids that no text begins with, its source left out.
        forced_eos_token_id: the only ids that may be the last one before the limit.
        renormalize: changed scores are log-probabilities again, which matters to beams.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    eos_id: Ends = None
    stop: Callable[[list[int]], bool] | None = None
    with_source: bool = False
    sequence_bias: Sequence[tuple[Sequence[int], float]] = ()
    min_new_tokens: int = 0
    begin_suppress_tokens: Sequence[int] = ()
    forced_eos_token_id: Ends = None
    renormalize: bool = False

    def __post_init__(self) -> None:
        if self.repetition_penalty <= 0:
            raise ValueError(f"decoding: repetition_penalty must be positive, got {self.repetition_penalty}; 1 is none")
        if self.no_repeat_ngram_size < 0:
            raise ValueError(
                f"decoding: no_repeat_ngram_size must be at least 0, which allows all, got {self.no_repeat_ngram_size}"
            )

    @property
    def changes(self) -> bool:
        """True if they change what may follow."""
        forced = ends(self.forced_eos_token_id)
        other = self.no_repeat_ngram_size, self.sequence_bias, self.min_new_tokens, self.begin_suppress_tokens, forced
        return self.repetition_penalty != 1 or any(other)

    def changed(self, scores: Tensor, said: Sequence[Sequence[int]], count: int = 0, limits: Any = ()) -> Tensor:
        """Scores (rows, vocabulary), logits or log-probabilities, after the ids that were said in each row.

        `count` of these came after the source, where at most `limits` (rows,) may come.
        """
        found, n = scores.numpy().copy(), self.no_repeat_ngram_size
        vocabulary = range(found.shape[1])
        for row, ids in zip(found, said, strict=True):
            for (*run, last), bias in self.sequence_bias:
                if last in vocabulary and list(ids[len(ids) - len(run) :]) == run:
                    row[last] += bias
            known = np.unique(ids).astype(np.int64)
            row[known] *= np.where(row[known] < 0, self.repetition_penalty, 1 / self.repetition_penalty)
            begun = list(ids[len(ids) - n + 1 :])
            row[[ids[i + n - 1] for i in range(len(ids) - n + 1) if n and list(ids[i : i + n - 1]) == begun]] = -np.inf
        barred = [*self.begin_suppress_tokens] * (count == 0) + [*ends(self.eos_id)] * (count < self.min_new_tokens)
        found[:, [i for i in barred if i in vocabulary]] = -np.inf
        if forced := ends(self.forced_eos_token_id):
            rows = np.flatnonzero(np.asarray(limits) == count + 1)
            found[rows] = -np.inf
            found[rows[:, None], forced] = 0.0
        changed = tt.asarray(found, device=scores.device)
        return F.log_softmax(changed, dim=-1) if self.renormalize else changed

    def beginnings(self, model: Any, source: Tensor) -> list[list[int]]:
        """For each sentence what was said before its first id."""
        if not self.with_source:
            return [[] for _ in range(len(source))]
        return [[i for i in row if i not in (NONE, model.pad_id)] for row in source.tolist()]

    def of(self, model: Any) -> Rules:
        """The rules for a model, whose own ids end a text unless these name others."""
        return replace(self, eos_id=ends(model.eos_id if self.eos_id is None else self.eos_id))


def stop_at(stop: Any, tokenizer: Any = None) -> Callable[[list[int]], bool] | None:
    """`Rules.stop` for a text, or a list of texts and of lists of ids; None and a function as they are.

    A text needs a tokenizer with `decode(ids)`, and ends all as soon as it is in what was said. Raises ValueError
    without a tokenizer, and TypeError for anything else.
    """
    if stop is None or callable(stop):
        return stop
    asked = list(stop) if isinstance(stop, (list, tuple)) else [stop]
    if not asked or not all(isinstance(each, (str, list, tuple)) and each for each in asked):
        raise TypeError(
            f"stop: expected a text, or a list of texts or of lists of ids, got {stop!r}; ids that each end a text are "
            "eos_token_id=[...]"
        )
    texts = [each for each in asked if isinstance(each, str)]
    if texts and tokenizer is None:
        raise ValueError(
            f"stop: the text {texts[0]!r} needs a tokenizer; write tokenizer=..., or stop=[[...]] with its ids"
        )
    runs = [list(each) for each in asked if not isinstance(each, str)]
    longest = max((len(text.encode()) for text in texts), default=0) + 8  # ids, of a byte at least; 8 for special ones

    def is_said(ids: list[int]) -> bool:
        said = tokenizer.decode(ids[-longest:]) if texts else ""
        return any(text in said for text in texts) or any(ids[-len(run) :] == run for run in runs)

    return is_said


# ---- one hypothesis for each sentence


NO_RULES = Rules()


@settings
def greedy(model: Decodable, source: Any, *, max_length: Limit = 200, rules: Rules = NO_RULES) -> list[Hypothesis]:
    """Decode greedily: choose the most likely id of each sentence at each step.

    Args:
        source: ids (sentences, source), padded.
        max_length: the most ids, eos included: a number, or (a, b) for a * (ids of the source) + b, rounded down, as
            fairseq's --max-len-a and --max-len-b. Never more than `model.max_length`, if any.
        rules: what else changes and ends a text.

    Scores have length penalty 1: they are mean log-probabilities. Dropout is off meanwhile.

    Raises ValueError if no id can follow, because all logits but padding's are -inf or some are NaN.
    """
    return [best for (best,) in beam_search(model, source, beam=1, max_length=max_length, rules=rules)]


@settings
def sample(
    model: Decodable,
    source: Any,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    max_length: Limit = 200,
    generator: tt.random.Generator | None = None,
    rules: Rules = NO_RULES,
) -> list[Hypothesis]:
    """For each sentence, an id drawn at each step from the model's distribution, as `next_probabilities` narrows it.

    Args:
        source, max_length, rules: as for `greedy`; so are scores and errors.
        temperature, top_k, top_p, min_p: as for `next_probabilities`.
        generator: draws the random numbers; default: the library's own (`tt.manual_seed`). Each step draws a number for
            every sentence of the batch, so that none depends on when another ends.
    """
    with tt.no_grad(), evaluating(model):
        source = as_ids(model, source)
        how: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        return _one_for_each(model, source, max_length, drawing(model, len(source), generator, **how), rules=rules)


Choice = Callable[[Tensor, Any], tuple[Tensor, Tensor]]
"""From logits (rows, vocabulary) of some sentences to the next id of each and its log-probability, (rows, 1)."""


def drawing(model: Decodable, batch: int, generator: tt.random.Generator | None = None, **narrowing: Any) -> Choice:
    """Return the choice of `sample` for a batch of this number of sentences."""
    generator = generator or tt.random.default_generator

    def drawn(logits: Tensor, sentences: Any) -> tuple[Tensor, Tensor]:
        with np.errstate(invalid="ignore"):  # rows without a distribution, which are found below
            log_p = F.log_softmax(logits, dim=-1)
        if model.pad_id is not None:
            log_p[:, model.pad_id] = -np.inf
        _check_possible(tt.max(log_p, axis=-1).numpy())
        numbers = tt.asarray(generator.uniform((batch, 1), dtype=tt.float64).numpy()[sentences], device=logits.device)
        below = tt.cumulative_sum(next_probabilities(log_p, **narrowing), axis=-1)
        ids = tt.sum(below <= numbers * below[:, -1:], axis=-1, keepdims=True)
        return ids, tt.take_along_axis(log_p, ids, axis=-1)

    return drawn


def choosing(model: Decodable) -> Choice:
    """The choice of `greedy`."""
    return lambda logits, sentences: _likeliest(logits, 1, model.pad_id)


@settings
def next_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """The distribution to draw from: softmax(logits / temperature), narrowed to the most likely ids.

    Args:
        logits: (..., vocabulary).
        temperature: below 1 favours likely ids, towards 0 only the most likely.
        top_k: only the k most likely ids (Fan et al. 2018).
        top_p: of those, only the most likely whose probabilities together reach p: the nucleus (Holtzman et al.
            2020). It always includes the most likely id.
        min_p: of those, only ids with at least this share of the highest probability (Nguyen et al. 2024).

    Returns probabilities (..., vocabulary) in float64, 0 for the ids left out; the others sum to 1. Of ids with equal
    probabilities, it keeps the first.

    Raises ValueError for a temperature or top_p that is not positive, top_p above 1, top_k below 1, or min_p outside
    of 0 to 1.
    """
    _check_sampling(temperature, top_k, top_p, min_p)
    logits = tt.astype(logits, tt.float64)
    least = 1e-100  # practically 0, but quotients are finite
    scaled = (logits - tt.max(logits, axis=-1, keepdims=True)) / max(temperature, least)
    vocabulary = logits.shape[-1]
    if top_k is None and top_p is None and min_p is None:
        return F.softmax(scaled)
    kept, places = tt.topk(scaled, min(top_k or vocabulary, vocabulary))
    if top_p is not None:
        probabilities = F.softmax(kept)
        before = tt.cumulative_sum(probabilities, axis=-1) - probabilities
        kept = tt.where(before < top_p, kept, -np.inf)
    if min_p is not None:
        kept = tt.where(tt.exp(kept) >= min_p, kept, -np.inf)  # the most likely id has exp(0)
    count = logits.size // vocabulary
    rows = tt.arange(count, device=logits.device)[:, None]
    narrowed = tt.zeros((count, vocabulary), dtype=tt.float64, device=logits.device)
    narrowed[rows, tt.reshape(places, (count, -1))] = tt.reshape(F.softmax(kept), (count, -1))
    return tt.reshape(narrowed, logits.shape)


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> None:
    if not temperature > 0:
        raise ValueError(f"sampling: temperature must be positive, got {temperature}; `greedy` is its limit at 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"sampling: top_k must be at least 1, got {top_k}; None keeps every id")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling: top_p must be above 0 and at most 1, got {top_p}; None keeps every id")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"sampling: min_p must be from 0 to 1, got {min_p}; None keeps every id")


def steps(
    model: Decodable, source: Tensor, max_length: Limit, choose: Choice, rules: Rules = NO_RULES
) -> Iterator[list[tuple[int, int, float]]]:
    """Decode with one branch: at each step, for each remaining sentence, its place, next id and log-probability.

    Each step is computed when it is asked for: ask without gradients, in evaluation mode (`evaluating`).
    """
    model, limits, rules = stepwise(model), np.array(_limits(model, source, max_length)), rules.of(model)
    over = ends(rules.eos_id)
    ids: list[list[int]] = [[] for _ in limits]
    before = rules.beginnings(model, source)
    sentences = np.arange(len(limits))
    state = model.initial_state(source) if sentences.size else None
    last = tt.full((len(limits), 1), model.bos_id or 0, dtype=tt.int64, device=source.device)
    while sentences.size:
        logits, state = model.next_logits(last, state)
        logits = logits[:, 0]
        if rules.changes:
            said = [before[i] + ids[i] for i in sentences]
            logits = rules.changed(logits, said, len(ids[sentences[0]]), limits[sentences])
        last, reached = choose(logits, sentences)
        found = [(i, *each, *log_p) for i, each, log_p in zip(sentences.tolist(), last.tolist(), reached.tolist())]
        for i, following, _ in found:
            ids[i].append(following)
        yield found
        going_on = np.array([ids[i][-1] not in over and len(ids[i]) < limits[i] for i in sentences])
        if rules.stop is not None:
            going_on &= [not rules.stop(ids[i]) for i in sentences]
        if not going_on.all():
            places = _closed_up(going_on)
            sentences = sentences[places]
            if sentences.size:
                where = tt.asarray(places, device=source.device)
                last, state = last[where], model.reorder(state, where, tt.zeros_like(where)[:, None])


def _one_for_each(
    model: Decodable,
    source: Tensor,
    max_length: Limit,
    choose: Choice,
    length_penalty: float = 1.0,
    rules: Rules = NO_RULES,
) -> list[Hypothesis]:
    """Decode with one branch."""
    found: list[tuple[list[int], list[float]]] = [([], []) for _ in range(len(source))]
    for step in steps(model, source, max_length, choose, rules):
        for i, following, log_probability in step:
            found[i][0].append(following)
            found[i][1].append(log_probability)
    return [_hypothesis(*parts, length_penalty) for parts in found]


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
    model: Decodable,
    source: Any,
    *,
    beam: int = 5,
    length_penalty: float = 1.0,
    early_stopping: bool | str | None = None,
    max_length: Limit = 200,
    rules: Rules = NO_RULES,
) -> list[list[Hypothesis]]:
    """For each sentence the best hypotheses found, at most `beam`, best first.

    The search follows the `beam` likeliest beginnings at the same time. Each step looks at the 2 * beam likeliest
    continuations of them all, as fairseq does (Ott et al. 2019): an eos among the first `beam` ends a hypothesis, and
    the search follows the first `beam` of the others. A sentence is done when `beam` hypotheses have ended; those that
    reach the limit end there, without eos.

    Args:
        source, max_length, rules: as for `greedy`; so are errors.
        beam: the number of hypotheses to follow. 1 is greedy decoding.
        length_penalty: a hypothesis of n ids, eos included, has score sum(log-probabilities) / n ** length_penalty, as
            in fairseq: 0 favours short ones, 1 compares the means, more favours long ones.
        early_stopping: None searches as above. Others search as `transformers` does (Wolf et al. 2020): of the
            hypotheses that ended the best `beam` stay, and at the limit only the first `beam` continuations end. True
            is done with `beam` of them. False continues while the most likely prefix, if it ended now, would be better
            than the worst of them; "never" assumes the limit as its length, if length_penalty is above 0.
    """
    if beam < 1:
        raise ValueError(f"beam_search: beam must be at least 1, got {beam}")
    if early_stopping not in (None, True, False, "never"):
        raise ValueError(f"beam_search: early_stopping must be True, False, 'never' or None, got {early_stopping!r}")
    rules = rules.of(model)

    def decode(part: Tensor) -> list[list[Hypothesis]]:
        if beam > 1:
            return _search(model, part, beam, length_penalty, early_stopping, max_length, rules)
        return [[one] for one in _one_for_each(model, part, max_length, choosing(model), length_penalty, rules)]

    return in_evaluation(decode, model, source)


def _search(
    model: Decodable,
    source: Tensor,
    beam: int,
    length_penalty: float,
    early_stopping: bool | str | None,
    max_length: Limit,
    rules: Rules,
) -> list[list[Hypothesis]]:
    model, limits = stepwise(model), np.array(_limits(model, source, max_length), dtype=np.int64)
    ended: list[list[Hypothesis]] = [[] for _ in limits]
    over, before, in_order = ends(rules.eos_id), rules.beginnings(model, source), early_stopping is None
    count = beam * (2 if in_order else max(2, 1 + len(over)))

    def end(hypotheses: _Branches, chosen: np.ndarray) -> None:
        """End the chosen hypotheses, (sentences, branches), unless their sentence has enough."""
        for place, branch in np.argwhere(chosen).tolist():
            found = ended[sentences[place]]
            if len(found) < beam or not in_order:
                ids, log_probabilities = hypotheses.ids[place, branch], hypotheses.log_probabilities[place, branch]
                found.append(_hypothesis(ids.tolist(), log_probabilities.tolist(), length_penalty))

    def is_done(sentence: int, likeliest: float, length: int) -> bool:
        """Keep the best ended hypotheses; True if no prefix of this log-probability can improve them."""
        found = ended[sentence]
        found.sort(key=lambda hypothesis: -hypothesis.score)
        del found[beam:]
        if len(found) < beam or early_stopping in (None, True):
            return len(found) == beam
        assumed = limits[sentence] if early_stopping == "never" and length_penalty > 0 else length
        return likeliest / assumed**length_penalty <= found[-1].score

    sentences = np.arange(len(limits))
    none = np.zeros((len(limits), 1, 0))
    branches = _Branches(none.astype(np.int64), none, np.zeros((len(limits), 1)))
    state = model.initial_state(source) if len(limits) else None
    last = tt.full((len(limits), 1), model.bos_id or 0, dtype=tt.int64, device=source.device)
    while sentences.size:
        logits, state = model.next_logits(last, state)
        all_ids = zip(sentences, branches.ids.tolist()) if rules.changes else ()
        said = [before[i] + ids for i, rows in all_ids for ids in rows]
        parents, candidates = _best_continuations(logits, branches, count, model.pad_id, rules, said, limits[sentences])
        possible = candidates.totals > -np.inf
        is_end = np.isin(candidates.ids[:, :, -1], over)
        if rules.stop is not None:
            is_end |= np.array([[rules.stop(ids) for ids in rows] for rows in candidates.ids.tolist()])
        at_limit = candidates.ids.shape[2] == limits[sentences]
        ends_here = is_end if in_order else is_end | at_limit[:, None]
        end(candidates, possible & ends_here & (np.arange(possible.shape[1]) < beam))

        goes_on = possible & ~is_end  # follow the best `beam` of these
        first = (np.arange(len(sentences))[:, None], np.argsort(~goes_on, axis=1, kind="stable")[:, :beam])
        branches, parents, goes_on = candidates[first], parents[first], goes_on[first]
        branches.totals[~goes_on] = -np.inf
        branches.ids[~goes_on] = (*over, NONE)[0]  # any id but padding, which attends to nothing
        if in_order:
            end(branches, goes_on & at_limit[:, None])

        length = branches.ids.shape[2]
        enough = np.array([is_done(i, totals[0], length) for i, totals in zip(sentences.tolist(), branches.totals)])
        where = _closed_up(goes_on.any(axis=1) & ~at_limit & ~enough)
        sentences, branches = sentences[where], branches[where]
        if sentences.size:
            indices = (tt.asarray(numbers, device=source.device) for numbers in (where, parents[where]))
            state = model.reorder(state, *indices)
            last = tt.asarray(branches.ids[:, :, -1], device=source.device)
    _check_possible(np.array([0.0 if found else -np.inf for found in ended]))
    return ended


def _best_continuations(
    logits: Tensor,
    branches: _Branches,
    count: int,
    pad_id: int | None,
    rules: Rules,
    said: list[list[int]],
    limits: np.ndarray,
) -> tuple[np.ndarray, _Branches]:
    """For each sentence the `count` best hypotheses that are longer by an id, or all if fewer, best first.

    `said` are the ids of all branches, one after another, where rules change what follows; `limits` (sentences,) are
    the most ids. Returns the parent branch of each (sentences, count), and the hypotheses.
    """
    kept = min(count, logits.shape[-1])
    if rules.changes:
        with np.errstate(invalid="ignore"):  # as in `_likeliest`
            log_p = F.log_softmax(tt.astype(logits, tt.float64))
        _check_possible(tt.max(log_p, axis=-1).numpy())
        flat = tt.reshape(log_p, (-1, logits.shape[-1]))
        changed = rules.changed(flat, said, branches.ids.shape[2], np.repeat(limits, logits.shape[1]))
        log_p = tt.reshape(changed, logits.shape)
        if pad_id is not None:
            log_p[..., pad_id] = -np.inf
        best = tt.topk(log_p, kept)[::-1]
    else:
        best = _likeliest(logits, kept, pad_id)
    ids, log_probabilities = (x.numpy() for x in best)
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
    """Raise ValueError if no id except padding has a probability: none can follow."""
    if not np.isfinite(log_probabilities).all():
        raise ValueError(
            "decoding: no id can follow: the model's logits hold NaN or infinity, or are -inf except for padding; "
            "look for what overflows in the model, for weights that diverged in training, or for a "
            "no_repeat_ngram_size that leaves no id, or suppress_tokens"
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
