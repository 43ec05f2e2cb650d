"""What decoding looked at: it must agree with what decoding gives, for every model and every way to decode."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tests.models.test_decoding import BOS, EOS, PAD, VOCABULARY, Scripted, make, sources
from tinytensor.models import LanguageModel, Seq2Seq
from tinytensor.models.decoding import Recomputed, beam_search, greedy, next_probabilities, sample
from tinytensor.models.decoding_trace import trace_beam, trace_choices
from tinytensor.nn import functional as F


def recurrent():
    tt.manual_seed(3)
    return Seq2Seq(11, 11, attention="bahdanau", d_model=8, max_length=14, dropout=0.3).double()


@pytest.fixture(params=["transformer", "recurrent"])
def model(request):
    return make() if request.param == "transformer" else recurrent()


def test_choices_are_those_of_greedy_decoding(model):
    for row in sources(8):
        (hypothesis,) = greedy(model, row[None], max_length=9)
        choices = trace_choices(model, row[None], hypothesis.ids, 4)
        assert [choice.ids[choice.chosen] for choice in choices] == hypothesis.ids
        assert all(choice.chosen == 0 for choice in choices)
        chosen = [choice.probabilities[choice.chosen] for choice in choices]
        np.testing.assert_allclose(np.log(chosen), hypothesis.log_probabilities, rtol=0, atol=1e-9)
        for choice in choices:
            assert len(choice.ids) == 4
            assert PAD not in choice.ids
            assert choice.probabilities == sorted(choice.probabilities, reverse=True)
            assert sum(choice.probabilities) <= 1 + 1e-9


def test_a_drawn_id_is_shown_however_unlikely_with_the_probability_that_it_was_drawn_with(model):
    row = sources(1)
    tt.manual_seed(5)
    (hypothesis,) = sample(model, row, temperature=3.0, top_k=9, max_length=9)
    choices = trace_choices(model, row, hypothesis.ids, 2, temperature=3.0, top_k=9)
    assert [choice.ids[choice.chosen] for choice in choices] == hypothesis.ids
    assert any(choice.chosen == 2 for choice in choices)  # none of the two likeliest
    with tt.no_grad():
        model.eval()
        logits = model(tt.asarray(row), tt.asarray([[BOS, *hypothesis.ids[:-1]]]))[0]
    logits[:, PAD] = -np.inf
    rows = next_probabilities(logits, 3.0, 9).numpy()
    for choice, expected in zip(choices, rows, strict=True):
        np.testing.assert_allclose(choice.probabilities, expected[choice.ids], rtol=1e-9)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("max_length", slow_after(1, [4, 1, 200]))
def test_the_tree_holds_what_beam_search_gives(model, beam, max_length):
    for row in sources(6, seed=beam):
        options = {"beam": beam, "length_penalty": 0.7, "max_length": max_length}
        branches, found = trace_beam(model, row[None], **options)
        assert found == beam_search(model, row[None], **options)[0]
        assert [branch.parent is None for branch in branches] == [True] + [False] * (len(branches) - 1)
        assert all(branch.parent < place for place, branch in enumerate(branches) if place)
        ended = [branch for branch in branches if branch.score is not None]
        assert [branch.score for branch in ended] == [hypothesis.score for hypothesis in found]
        for branch, hypothesis in zip(ended, found, strict=True):
            ids, log_probabilities = [], []
            while branch.parent is not None:
                ids.append(branch.id)
                log_probabilities.append(branch.log_probability)
                branch = branches[branch.parent]
            assert ids[::-1] == hypothesis.ids
            np.testing.assert_allclose(log_probabilities[::-1], hypothesis.log_probabilities, rtol=0, atol=1e-9)
        depths = [0]
        for branch in branches[1:]:
            depths.append(depths[branch.parent] + 1)
        followed = [depth for depth, branch in zip(depths, branches) if branch.score is None]
        assert max(np.bincount(followed)) <= beam
        assert not any(branch.id in (PAD, EOS) for branch in branches if branch.score is None)


def test_siblings_are_different_ids_whose_probabilities_add_up_to_one_at_most(model):
    branches, _ = trace_beam(model, sources(1), beam=5)
    children = {}
    for branch in branches[1:]:
        children.setdefault(branch.parent, {}).setdefault(branch.id, []).append(math.exp(branch.log_probability))
    for siblings in children.values():
        assert sum(max(p) for p in siblings.values()) <= 1 + 1e-9


@pytest.mark.parametrize("max_length", [1, 4, 200])
def test_candidates_are_the_likeliest_ids_after_each_hypothesis(model, max_length):
    row, options = sources(1, seed=3), {"beam": 3, "max_length": max_length}
    without, found = trace_beam(model, row, **options)
    branches, again = trace_beam(model, row, **options, candidates=4)
    assert again == found
    assert branches[: len(without)] == without
    assert all(branch.followed for branch in without)
    left_out = branches[len(without) :]
    assert left_out
    assert not any(branch.followed or branch.score is not None or branch.id == PAD for branch in left_out)
    children = {}
    for branch in branches[1:]:
        assert branches[branch.parent].followed
        assert branch.id not in children.setdefault(branch.parent, {})
        children[branch.parent][branch.id] = math.exp(branch.log_probability)
    for place, siblings in children.items():
        ids = [BOS]
        while place:
            ids.insert(1, branches[place].id)
            place = branches[place].parent
        with tt.no_grad():
            logits = model.eval()(tt.asarray(row), tt.asarray([ids]))[0, -1].numpy()
        p = np.exp(logits - logits.max())
        p /= p.sum()
        likeliest = [i for i in np.argsort(-p) if i != PAD][:4]
        assert set(likeliest) <= set(siblings)
        np.testing.assert_allclose(list(siblings.values()), p[list(siblings)], rtol=1e-8)
        assert sum(siblings.values()) <= 1 + 1e-9


def test_fewer_than_no_candidates_are_refused():
    with pytest.raises(ValueError, match="candidates must be at least 0, got -1"):
        trace_beam(make(), sources(1), candidates=-1)


def test_watching_leaves_the_model_as_it_was():
    model = recurrent().train()
    trace_beam(model, sources(1), beam=2)
    trace_choices(model, sources(1), [5, EOS])
    assert all(module.training for module in model.modules())


def scripted():
    """Decodable without parameters, and no module."""
    return Scripted(lambda first, ids: np.random.default_rng([first, *ids]).normal(size=VOCABULARY) * 2)


@pytest.mark.parametrize("made", [scripted, lambda: Recomputed(make())])
def test_all_that_can_be_decoded_can_be_traced(made):
    row = sources(1)
    branches, found = trace_beam(made(), row, beam=3, max_length=6)
    assert found == beam_search(made(), row, beam=3, max_length=6)[0]
    assert [branch.score for branch in branches if branch.score is not None] == [h.score for h in found]
    (hypothesis,) = greedy(made(), row, max_length=6)
    choices = trace_choices(made(), row, hypothesis.ids)
    assert [choice.ids[0] for choice in choices] == hypothesis.ids


def test_what_was_decoded_in_a_batch_is_traced_alone():
    """Of so many sentences two halves are decoded side by side."""
    model, rows = make(), sources(40)
    for row, found, (likeliest,) in zip(rows, beam_search(model, rows, beam=3), zip(greedy(model, rows)), strict=True):
        _, traced = trace_beam(model, row[None], beam=3)
        assert [hypothesis.ids for hypothesis in traced] == [hypothesis.ids for hypothesis in found]
        np.testing.assert_allclose([h.score for h in traced], [h.score for h in found], rtol=0, atol=1e-9)
        choices = trace_choices(model, row[None], likeliest.ids)
        assert all(choice.chosen == 0 for choice in choices)
        chosen = np.log([choice.probabilities[0] for choice in choices])
        np.testing.assert_allclose(chosen, likeliest.log_probabilities, rtol=0, atol=1e-9)


def test_a_count_of_none_is_refused():
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        trace_choices(make(), sources(1), [EOS], 0)


@pytest.mark.parametrize("trace", [trace_beam, lambda model, source: trace_choices(model, source, [EOS])])
def test_more_than_one_sentence_is_refused(trace):
    with pytest.raises(ValueError, match=r"expected the ids of one sentence, \(1, source\), got 6 sentences"):
        trace(make(), sources(6))


@pytest.mark.parametrize("ends", [None, [2, 3], (4,)])
def test_the_tree_of_several_ends_and_of_none(ends):
    model = Scripted(lambda first, ids: [-math.inf, -math.inf, -2.0, -1.5, -1.0])
    model.eos_id = ends
    branches, hypotheses = trace_beam(model, [[3]], beam=4, max_length=3)
    for hypothesis in hypotheses:
        place = next(i for i, branch in enumerate(branches) if branch.score == hypothesis.score)
        ids = []
        while branches[place].parent is not None:
            ids.insert(0, branches[place].id)
            place = branches[place].parent
        assert ids in [each.ids for each in hypotheses]
    assert {branch.id for branch in branches[1:]} <= {2, 3, 4}


def test_a_model_without_padding_has_choices():
    tt.manual_seed(0)
    model = LanguageModel(20, d_model=16, num_heads=2, num_layers=1, pad_id=None, eos_id=3)
    with tt.no_grad():
        row = F.softmax(model(tt.asarray([[1, 5]]))[0, -1], dim=-1).numpy()
    (choice,) = trace_choices(model, [[1, 5]], [7], count=20)
    np.testing.assert_allclose([choice.probabilities[choice.ids.index(i)] for i in range(20)], row, rtol=1e-4)
