"""Decoding: with and without a cache, beam search against brute force, sampling against NumPy, limits, errors."""

import itertools
import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.decoding import Hypothesis, Recomputed, beam_search, greedy, next_probabilities, sample
from tinytensor.nn import functional as F

from ..engine_room import room

PAD, BOS, EOS = 0, 1, 2
VOCABULARY = 11
CLOSE = {"rtol": 0, "atol": 1e-10}


def make(device="cpu", **options):
    """A tiny Transformer in float64 with weights so large that answers differ and end at different times."""
    tt.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12, "dropout": 0.0, "max_length": 14}
    model = Transformer(VOCABULARY, **{**sizes, **options}).double().to(device)
    with tt.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(parameter + 0.3 * tt.random.normal(parameter.shape, dtype=tt.float64, device=device))
            if "embedding" in name or "attn" in name or name == "projection.weight":
                parameter.copy_(2 * parameter)
        if model.projection.bias is not None:
            model.projection.bias[:] = 0.0
    return model.eval()


def sources(count=6, longest=7, seed=0):
    """Padded ids, of lengths from 1 to `longest`."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, VOCABULARY, (count, longest))
    ids[np.arange(longest) >= rng.integers(1, longest + 1, (count, 1))] = PAD
    ids[0] = rng.integers(3, VOCABULARY, longest)
    return ids


def log_softmax(logits):
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def assert_same(found, expected):
    """Equal ids, and scores and log-probabilities to 1e-10."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(ours, list):
            assert_same(ours, theirs)
            continue
        assert ours.ids == theirs.ids
        assert ours.score == pytest.approx(theirs.score, rel=0, abs=1e-10)
        np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities, **CLOSE)


class Scripted:
    """A model whose logits are a function of the source's first id and of the ids so far."""

    pad_id, bos_id, eos_id = PAD, BOS, EOS

    def __init__(self, logits):
        self.logits = logits
        self.asked = []  # (sentences, branches) of each step

    def initial_state(self, source):
        return [[(row[0],)] for row in source.tolist()]

    def next_logits(self, ids, state):
        self.asked.append(ids.shape)
        state = [[(*b, i) for b, i in zip(branches, row)] for branches, row in zip(state, ids.tolist())]
        logits = [[self.logits(branch[0], branch[2:]) for branch in branches] for branches in state]
        return tt.asarray(np.array(logits, dtype=np.float64)), state

    def reorder(self, state, sentences, branches):
        return [[state[i][j] for j in row] for i, row in zip(sentences.tolist(), branches.tolist())]


def table(vocabulary=5, temperature=1.5):
    """Random logits for every prefix."""

    def logits(first, ids):
        return np.random.default_rng((first, *ids, 7)).normal(size=vocabulary) * temperature

    return Scripted(logits)


def saying(*probabilities):
    """The same distribution everywhere, from the probabilities of ids 2, 3, ..."""
    with np.errstate(divide="ignore"):
        logits = np.log([0.0, 0.0, *probabilities])
    return Scripted(lambda first, ids: logits)


DECODERS = {
    "greedy": lambda model, source, **options: greedy(model, source, **options),
    "beam 1": lambda model, source, **options: beam_search(model, source, beam=1, **options),
    "beam 4": lambda model, source, **options: beam_search(model, source, beam=4, **options),
    "beam 20": lambda model, source, **options: beam_search(model, source, beam=20, **options),
    "sample": lambda model, source, **options: sample(
        model, source, temperature=1.3, top_k=8, top_p=0.95, generator=tt.random.Generator(5), **options
    ),
}


# ---- cached decoding


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_cached_decoding_is_recomputed_decoding(device, norm_first, decoder):
    model, source = make(device, norm_first=norm_first), sources()
    decode = DECODERS[decoder]
    found = decode(model, source, max_length=12)
    assert_same(found, decode(Recomputed(model), source, max_length=12))
    lengths = [len(h.ids) for row in found for h in (row if isinstance(row, list) else [row])]
    assert len(set(lengths)) > 1  # not all leave the batch at the same time


@pytest.mark.parametrize(
    "options",
    [
        {"tie_weights": True},
        {"share_embeddings": True},
        {"num_layers": 1},
        {"positions": "learned"},
        {"positions": None},
        {"scale": 1.0},
    ],
)
def test_cached_decoding_is_recomputed_decoding_for_other_models(options):
    model, source = make(**options), sources()
    assert_same(beam_search(model, source, max_length=8), beam_search(Recomputed(model), source, max_length=8))


@pytest.mark.parametrize("norm_first", [False, True])
def test_steps_give_the_logits_of_decode(device, norm_first):
    """Whatever the ids, padding and begin of sequence among them."""
    model, source = make(device, norm_first=norm_first), tt.asarray(sources(3), device=device)
    target = np.random.default_rng(1).integers(0, VOCABULARY, (3, 14))
    target[:, 0] = BOS
    target = tt.asarray(target, device=device)
    with tt.no_grad():
        expected = model(source, target).numpy()
        state = model.initial_state(source)
        for t in range(14):
            logits, state = model.next_logits(target[:, t : t + 1], state)
            assert logits.shape == (3, 1, VOCABULARY)
            np.testing.assert_allclose(logits.numpy()[:, 0], expected[:, t], **CLOSE)
        with pytest.raises(ValueError, match="sequence of 15 is longer than max_length 14"):
            model.next_logits(target[:, :1], state)


@pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "sample"])
def test_a_sentence_alone_is_decoded_as_in_a_batch(decoder):
    model, source = make(), sources()
    decode = DECODERS[decoder]
    together = decode(model, source, max_length=12)
    for i, row in enumerate(source):
        assert_same(decode(model, row[row != PAD][None], max_length=12), together[i : i + 1])


@pytest.mark.skipif(room("models.fast.decoding") is None, reason="the engine room is left out")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("decoder", [greedy, beam_search])
def test_many_sentences_are_decoded_in_halves(decoder, threads, monkeypatch):
    many = room("models.fast.decoding").MANY
    model, ids = make(), sources(many + 1)
    whole = decoder(model, ids, max_length=9)
    alone = [decoder(model, ids[i : i + 1], max_length=9)[0] for i in range(len(ids))]
    assert_same(whole, alone)
    sizes = []
    initial_state = model.initial_state
    monkeypatch.setattr(model, "initial_state", lambda source: (sizes.append(len(source)), initial_state(source))[1])
    former = tt.get_num_threads()
    tt.set_num_threads(threads)
    try:
        assert_same(decoder(model, ids, max_length=9), alone)
    finally:
        tt.set_num_threads(former)
    assert sorted(sizes) == [many // 2, many // 2 + 1]


def test_float32_stays_float32():
    model = make().float()
    with tt.no_grad():
        logits, _ = model.next_logits(tt.full((2, 1), BOS, dtype=tt.int64), model.initial_state(sources(2)))
    assert logits.dtype is tt.float32
    assert all(math.isfinite(h[0].score) for h in beam_search(model, sources(2), max_length=5))


# ---- greedy


def test_greedy_takes_the_likeliest_id_at_each_step():
    model, source = make(), sources()
    for row, hypothesis in zip(source, greedy(model, source, max_length=12)):
        prefix, log_probabilities = [BOS], []
        while len(prefix) <= 12 and prefix[-1] != EOS:
            logits = model(row[None], np.array([prefix])).detach().numpy()[0, -1]
            reached = log_softmax(logits)
            reached[PAD] = -np.inf
            prefix.append(int(reached.argmax()))
            log_probabilities.append(reached.max())
        assert hypothesis.ids == prefix[1:]
        np.testing.assert_allclose(hypothesis.log_probabilities, log_probabilities, **CLOSE)
        assert hypothesis.score == pytest.approx(np.mean(log_probabilities), abs=1e-10)


def test_the_first_of_equally_likely_ids_is_taken():
    model = saying(0.2, 0.3, 0.3, 0.2)
    assert greedy(model, [[3]], max_length=3)[0].ids == [3, 3, 3]
    assert beam_search(model, [[3]], beam=1, max_length=3)[0][0].ids == [3, 3, 3]
    assert [h.ids for h in beam_search(model, [[3]], beam=4, max_length=1)[0]] == [[3], [4], [2], [5]]


def test_generate_is_greedy_and_padded(device):
    model, source = make(device), sources()
    found = greedy(model, source, max_length=9)
    generated = model.generate(source, max_length=9)
    assert generated.shape == (6, max(len(h.ids) for h in found))
    assert generated.device == device
    for row, hypothesis in zip(generated.tolist(), found):
        assert row == hypothesis.ids + [PAD] * (len(row) - len(hypothesis.ids))


def test_a_recording_of_generate_shows_whole_sequences():
    model, source = make(), sources(2)
    with nn.record_attention() as attention:
        generated = model.generate(source, max_length=5)
    assert generated.tolist() == model.generate(source, max_length=5).tolist()
    length = generated.shape[1]
    assert length > 1
    assert [call.weights.shape[-2:] for call in attention.cross] == [(length, 7)] * 2


# ---- beam search


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_of_one_is_greedy(length_penalty):
    model, source = make(), sources()
    single = greedy(model, source, max_length=12)
    found = beam_search(model, source, beam=1, length_penalty=length_penalty, max_length=12)
    assert [len(row) for row in found] == [1] * 6
    for hypothesis, (best,) in zip(single, found):
        assert best.ids == hypothesis.ids
        assert best.log_probabilities == hypothesis.log_probabilities
        expected = sum(hypothesis.log_probabilities) / len(hypothesis.ids) ** length_penalty
        assert best.score == pytest.approx(expected, rel=1e-12)


def every_hypothesis(model, first, vocabulary, longest, length_penalty):
    """All there are, the best first: each ends in eos or has the greatest length."""
    middle = [i for i in range(vocabulary) if i not in (PAD, EOS)]
    found = []
    for length in range(1, longest + 1):
        for beginning in itertools.product(middle, repeat=length - 1):
            for last in [EOS, *middle] if length == longest else [EOS]:
                ids = [*beginning, last]
                steps = [log_softmax(model.logits(first, tuple(ids[:t])))[ids[t]] for t in range(length)]
                found.append(Hypothesis(ids, sum(steps) / length**length_penalty, steps))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.7])
def test_a_beam_as_large_as_the_space_finds_everything(length_penalty):
    model = table()
    expected = [every_hypothesis(model, first, 5, 4, length_penalty) for first in (3, 4, 9)]
    found = beam_search(model, [[3], [4], [9]], beam=200, length_penalty=length_penalty, max_length=4)
    assert [len(row) for row in found] == [1 + 3 + 9 + 27 * 4] * 3
    assert_same(found, expected)


def test_a_small_beam_finds_the_best_of_most_and_never_better():
    model = table(temperature=2.5)
    found = beam_search(model, [[i] for i in range(3, 33)], beam=6, max_length=4)
    best = [every_hypothesis(model, first, 5, 4, 1.0)[0].score for first in range(3, 33)]
    gaps = np.array(best) - [row[0].score for row in found]
    assert gaps.min() > -1e-12
    assert (gaps < 1e-12).mean() > 0.7


@pytest.mark.parametrize("beam", [2, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_hypotheses_are_sorted_different_and_scored_as_the_model_scores_them(beam, length_penalty):
    model, source = make(), sources()
    found = beam_search(model, source, beam=beam, length_penalty=length_penalty, max_length=8)
    for row, hypotheses in zip(source, found):
        assert len(hypotheses) == beam
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({tuple(h.ids) for h in hypotheses}) == beam
        for h in hypotheses:
            assert EOS not in h.ids[:-1]
            assert PAD not in h.ids
            assert h.ids[-1] == EOS or len(h.ids) == 8
            logits = model(row[None], np.array([[BOS, *h.ids[:-1]]])).detach().numpy()[0]
            expected = log_softmax(logits)[np.arange(len(h.ids)), h.ids]
            np.testing.assert_allclose(h.log_probabilities, expected, **CLOSE)
            assert h.score == pytest.approx(expected.sum() / len(h.ids) ** length_penalty, abs=1e-10)


def test_the_length_penalty_decides_between_short_and_long():
    """eos at once has probability 0.4; three ids and then eos have 0.6 each."""

    def logits(first, ids):
        with np.errstate(divide="ignore"):
            return np.log([0, 0, 0.4, 0.6] if len(ids) < 3 else [0, 0, 0.6, 0.4])

    model = Scripted(logits)
    scores = {(EOS,): (0.4, 1), (3, 3, 3, EOS): (0.6**4, 4)}
    for length_penalty, best in [(0.0, (EOS,)), (1.0, (3, 3, 3, EOS))]:
        found = beam_search(model, [[5]], beam=4, length_penalty=length_penalty)[0]
        assert tuple(found[0].ids) == best
        p, n = scores[best]
        assert found[0].score == pytest.approx(math.log(p) / n**length_penalty, rel=1e-12)


def test_a_sentence_is_done_when_as_many_hypotheses_have_ended_as_the_beam_is_wide():
    """eos is always the second of two: with beam 2, one hypothesis ends at each step."""
    model = saying(0.4, 0.6)
    found = beam_search(model, [[3]], beam=2)[0]
    assert sorted(h.ids for h in found) == [[2], [3, 2]]
    assert model.asked == [(1, 1), (1, 2)]


def test_an_eos_behind_the_first_of_the_beam_ends_nothing():
    """fairseq's rule: of the 2 * beam continuations, only the first `beam` may end."""
    found = beam_search(saying(0.1, 0.5, 0.4), [[3]], beam=2, max_length=2)[0]
    assert sorted(h.ids for h in found) == [[3, 3], [3, 4]]


def test_fewer_continuations_than_the_beam_is_wide():
    """Two of five ids are possible: after n steps there are 2 ** n branches; places without one lead nowhere."""
    model = saying(0.0, 0.7, 0.3)
    found = beam_search(model, [[3], [4]], beam=6, max_length=3)
    for hypotheses in found:
        assert [h.ids for h in hypotheses] == [[3, 3, 3], [3, 3, 4], [3, 4, 3], [4, 3, 3], [3, 4, 4], [4, 3, 4]]
    assert model.asked == [(2, 1), (2, 5), (2, 6)]


def test_a_beam_below_one_is_refused():
    with pytest.raises(ValueError, match="beam must be at least 1, got 0"):
        beam_search(make(), sources(), beam=0)


# ---- ends and limits


def ends_after(first):
    """A model that says id 3 as often as the source's first id tells, then eos; likely, not certainly."""

    def logits(source, ids):
        out = np.full(5, -4.0)
        out[PAD] = 9.0
        out[EOS if len(ids) >= source - 3 else 3] = 3.0
        return out

    return Scripted(logits)


def test_sentences_that_are_done_leave_the_batch():
    model = ends_after(3)
    found = greedy(model, [[5], [3], [7], [5]])
    assert [h.ids for h in found] == [[3, 3, EOS], [EOS], [3, 3, 3, 3, EOS], [3, 3, EOS]]
    assert model.asked == [(4, 1), (3, 1), (3, 1), (1, 1), (1, 1)]


def test_no_work_is_done_on_sentences_whose_beams_ended():
    alone = []
    for first in (5, 3, 7):
        model = ends_after(3)
        beam_search(model, [[first]], beam=2)
        alone.append(len(model.asked))
    model = ends_after(3)
    beam_search(model, [[5], [3], [7]], beam=2)
    assert [sentences for sentences, _ in model.asked] == [sum(n > t for n in alone) for t in range(max(alone))]
    assert len(set(alone)) == 3


@pytest.mark.parametrize("decoder", DECODERS)
def test_eos_at_once(decoder):
    model = saying(1.0)
    found = DECODERS[decoder](model, [[3], [4]])
    expected = Hypothesis([EOS], 0.0, [0.0])
    assert found == ([[expected]] * 2 if "beam" in decoder else [expected] * 2)
    assert len(model.asked) == 1


@pytest.mark.parametrize("decoder", DECODERS)
def test_no_hypothesis_is_longer_than_the_limit(decoder):
    source = [[3, 0, 0, 0], [3, 3, 3, 3], [3, 3, 0, 0]]

    def lengths(max_length, model):
        found = DECODERS[decoder](model, source, max_length=max_length)
        return [{len(h.ids) for h in (row if isinstance(row, list) else [row])} for row in found]

    never = [0.0, 0.5, 0.5]
    assert lengths(4, saying(*never)) == [{4}] * 3
    assert lengths(1, saying(*never)) == [{1}] * 3
    assert lengths((2, 1), saying(*never)) == [{3}, {9}, {5}]
    assert lengths((1.5, 0), saying(*never)) == [{1}, {6}, {3}]
    assert lengths((0.5, 0), saying(*never)) == [{1}, {2}, {1}]
    model = saying(*never)
    model.max_length = 5
    assert lengths((2, 1), model) == [{3}, {5}, {5}]
    assert lengths(200, model) == [{5}] * 3


@pytest.mark.parametrize("bad", [0, -3, (0, 0), (-1, 5), (1, -1)])
def test_a_limit_that_allows_nothing_is_refused(bad):
    with pytest.raises(ValueError, match="max_length must be at least 1"):
        greedy(make(), sources(), max_length=bad)


@pytest.mark.parametrize("decoder", DECODERS)
def test_no_sentences_give_no_hypotheses(decoder):
    assert DECODERS[decoder](make(), np.zeros((0, 4), np.int64)) == []
    assert make().generate(np.zeros((0, 4), np.int64)).shape == (0, 0)


def test_sources_that_are_no_ids_are_refused():
    for bad in (np.ones((2, 3)), np.ones(3, np.int64)):
        with pytest.raises(ValueError, match=r"expected integer ids \(batch, length\), got"):
            beam_search(make(), bad)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    ("logits", "told"),
    [
        ([-np.inf] * 5, "no id can follow: the model's logits hold NaN or infinity, or are -inf except for padding"),
        ([0.0, 0.0, np.nan, 0.0, 0.0], "no id can follow: the model's logits hold NaN"),
        ([0.0, 0.0, np.inf, 0.0, 0.0], "no id can follow: the model's logits hold NaN or infinity"),
        ([1.0] + [-np.inf] * 4, "no id can follow: .* -inf except for padding"),
        ([np.nan] + [0.0] * 4, "no id can follow: the model's logits hold NaN"),
        ([np.inf] + [0.0] * 4, "no id can follow: the model's logits hold NaN or infinity"),
    ],
)
def test_where_nothing_can_follow_an_error_says_so(decoder, logits, told):
    """Sentence 0 ends at the first step, sentence 1 comes to the impossible at its second."""
    impossible = np.array(logits)

    def script(first, ids):
        likely = np.full(5, -np.inf)
        likely[EOS if first == 3 else 3] = 0.0
        return impossible if len(ids) == 1 else likely

    with pytest.raises(ValueError, match=told):
        DECODERS[decoder](Scripted(script), [[3], [4]])


# ---- sampling


def narrowed(logits, temperature, top_k, top_p):
    """One row, by the definitions."""
    p = np.exp(log_softmax(np.asarray(logits, dtype=np.float64) / temperature))
    order = sorted(range(len(p)), key=lambda i: -p[i])[: top_k or len(p)]
    q = np.zeros(len(p))
    q[order] = p[order] / p[order].sum()
    if top_p is not None:
        nucleus, total = [], 0.0
        for i in order:
            if total >= top_p:
                break
            nucleus.append(i)
            total += q[i]
        q = np.where(np.isin(np.arange(len(p)), nucleus), q, 0.0) / q[nucleus].sum()
    return q


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("top_k", [None, 1, 3, 40, 100])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.5, 0.9, 1.0])
def test_probabilities_are_narrowed_as_defined(device, temperature, top_k, top_p):
    logits = np.random.default_rng(0).normal(size=(2, 3, 40)) * 3
    found = next_probabilities(tt.asarray(logits, device=device), temperature, top_k, top_p)
    assert (found.shape, found.dtype, found.device) == ((2, 3, 40), tt.float64, device)
    for row, p in zip(logits.reshape(-1, 40), found.numpy().reshape(-1, 40)):
        np.testing.assert_allclose(p, narrowed(row, temperature, top_k, top_p), rtol=0, atol=1e-14)


def test_the_likeliest_id_is_always_in_the_nucleus_and_ties_go_to_the_first():
    logits = tt.log(tt.asarray([[0.2, 0.4, 0.4]]))
    np.testing.assert_allclose(next_probabilities(logits, top_p=1e-9).numpy(), [[0, 1, 0]])
    np.testing.assert_allclose(next_probabilities(logits, top_k=1).numpy(), [[0, 1, 0]])
    np.testing.assert_allclose(next_probabilities(logits, top_p=0.5).numpy(), [[0, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temperature": 0}, "temperature must be positive, got 0; `greedy`"),
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"temperature": math.nan}, "temperature must be a finite number, got nan"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0"),
    ],
)
def test_settings_that_leave_nothing_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        sample(make(), sources(), **options)
    with pytest.raises(ValueError, match=told):
        next_probabilities(tt.zeros((1, 3)), **options)


@pytest.mark.parametrize("options", [{"temperature": 1e-6}, {"temperature": 5e-324}, {"top_k": 1}, {"top_p": 1e-9}])
def test_the_coldest_samples_are_greedy(options):
    model, source = make(), sources()
    assert_same(sample(model, source, max_length=12, **options), greedy(model, source, max_length=12))


def test_samples_follow_the_distribution():
    p = [0.5, 0.3, 0.15, 0.05]
    count = 20_000
    found = sample(saying(*p), [[3]] * count, max_length=1, generator=tt.random.Generator(0))
    frequencies = np.bincount([h.ids[0] for h in found], minlength=6)[2:] / count
    np.testing.assert_allclose(frequencies, p, atol=4 * 0.5 / math.sqrt(count))


def test_a_seed_repeats_the_samples():
    model, source = make(), sources()

    def drawn(seed):
        tt.manual_seed(seed)
        return [h.ids for h in sample(model, source, max_length=10)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    own = [h.ids for h in sample(model, source, max_length=10, generator=tt.random.Generator(1))]
    assert own == drawn(1)


def test_a_sample_does_not_depend_on_when_the_others_end():
    def drawn(first):
        found = sample(ends_after(3), [[first], [20]], temperature=3.0, generator=tt.random.Generator(3))
        return found[1]

    assert drawn(3) == drawn(9)


def test_log_probabilities_of_samples_are_the_models_own():
    model, source = make(), sources()
    for row, h in zip(source, sample(model, source, temperature=2.0, top_k=5, max_length=8)):
        logits = model(row[None], np.array([[BOS, *h.ids[:-1]]])).detach().numpy()[0]
        np.testing.assert_allclose(h.log_probabilities, log_softmax(logits)[np.arange(len(h.ids)), h.ids], **CLOSE)


# ---- what the model is like afterwards


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("cached", [True, False])
def test_dropout_is_off_and_the_mode_comes_back(decoder, cached):
    model, source = make(dropout=0.5), sources(3)
    expected = DECODERS[decoder](model, source, max_length=6)
    model.train()
    model.projection.eval()
    before = [module.training for module in model.modules()]
    assert_same(DECODERS[decoder](model if cached else Recomputed(model), source, max_length=6), expected)
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match="longer than max_length 14"):
        DECODERS[decoder](model, np.full((1, 15), 3))
    assert [module.training for module in model.modules()] == before


def test_nothing_is_recorded_for_gradients(monkeypatch):
    model, recorded = make(), []
    original = model.next_logits

    def next_logits(ids, state):
        logits, state = original(ids, state)
        recorded.append(logits.requires_grad)
        return logits, state

    monkeypatch.setattr(model, "next_logits", next_logits)
    greedy(model, sources(2), max_length=3)
    beam_search(model, sources(2), max_length=3)
    assert not any(recorded)
    model.next_logits(tt.full((2, 1), BOS, dtype=tt.int64), model.initial_state(sources(2)))
    assert recorded[-1]


def test_large_and_small_logits_have_their_log_probabilities():
    """Beyond what exp can take, and with probability on padding."""
    for shift in (0.0, 700.0, -900.0, 1e4):
        logits = np.array([0.5, 0.0, 1.0, 2.0, -3.0]) + shift
        model = Scripted(lambda first, ids: logits)
        expected = log_softmax(logits)
        for h in [greedy(model, [[3]], max_length=1)[0], *beam_search(model, [[3]], beam=4, max_length=1)[0]]:
            np.testing.assert_allclose(h.log_probabilities, expected[h.ids], **CLOSE)


def test_a_model_that_learned_answers_alike_in_every_way():
    """Trained on four sentences: all ways of decoding say the answers, with probabilities near 1."""
    tt.manual_seed(0)
    model = Transformer(VOCABULARY, d_model=16, num_heads=2, num_layers=1, dropout=0.0, max_length=14, norm_first=True)
    source = np.random.default_rng(0).integers(3, VOCABULARY, (4, 5))
    answer = np.concatenate([source[:, ::-1], np.full((4, 1), EOS)], axis=1)
    shown = np.concatenate([np.full((4, 1), BOS), answer[:, :-1]], axis=1)
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(source, shown).reshape(-1, VOCABULARY), answer.reshape(-1)).backward()
        optimizer.step()
    assert [h.ids for h in greedy(model, source)] == answer.tolist()
    assert [row[0].ids for row in beam_search(model, source)] == answer.tolist()
    assert [h.ids for h in sample(model, source, temperature=0.2)] == answer.tolist()
    assert all(h.score > -0.2 for h in greedy(model, source))


def test_several_ids_end_a_sentence():
    model = saying(0.1, 0.2, 0.6, 0.1)
    for ends in (4, [4], (3, 4), [2, 4]):
        model.eos_id = ends
        for decode in (greedy, sample, DECODERS["beam 4"]):
            for found in decode(model, [[3]] * 20, max_length=9):
                for hypothesis in found if isinstance(found, list) else [found]:
                    ended = [i in np.atleast_1d(ends) for i in hypothesis.ids]
                    assert not any(ended[:-1])
                    assert ended[-1] or len(ended) == 9


@pytest.mark.parametrize("decoder", DECODERS)
def test_without_an_end_the_limit_ends_a_sentence(decoder):
    model = saying(0.3, 0.2, 0.4, 0.1)
    model.bos_id = model.eos_id = None
    for found in DECODERS[decoder](model, [[3], [4]], max_length=5):
        for hypothesis in found if isinstance(found, list) else [found]:
            assert len(hypothesis.ids) == 5
            assert min(hypothesis.ids) >= 2
