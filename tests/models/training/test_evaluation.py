"""Translating many sentences, and how good translations are."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.models.data.languages import TranslationTask, written
from tinytensor.models.training import evaluation
from tinytensor.models.training.presets import MODELS, make_model


@pytest.fixture(scope="module")
def task():
    return TranslationTask("en-fr")


def model(task, name="transformer"):
    tt.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 32, "dropout": 0.3}
    made = make_model(name, len(task.source), len(task.target), sizes, max_length=60, joint=False)
    return made.double().eval()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_the_order_of_sentences_and_their_company_do_not_matter(task, name, beam, monkeypatch):
    monkeypatch.setattr(evaluation, "CHUNK", 4)
    monkeypatch.setattr(evaluation, "LIMIT", (1.2, 5))
    made = model(task, name)
    sources = [task.source.ids(pair.source) for pair in task.test_pairs(10)]
    together = evaluation.decode_all(made, sources, beam=beam)
    for source, found in zip(sources, together):
        (alone,) = evaluation.decode_all(made, [source], beam=beam)
        assert [h.ids for h in found] == [h.ids for h in alone]
        np.testing.assert_allclose([h.score for h in found], [h.score for h in alone], rtol=0, atol=1e-10)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_scores_have_the_length_penalty_with_any_beam(task, length_penalty):
    sources = [task.source.ids(pair.source) for pair in task.test_pairs(3)]
    for beam in (1, 2):
        for best, *_ in evaluation.decode_all(model(task), sources, beam=beam, length_penalty=length_penalty):
            expected = sum(best.log_probabilities) / len(best.ids) ** length_penalty
            assert best.score == pytest.approx(expected, rel=1e-12)


def test_bleu_is_that_of_sacrebleu_on_tokens():
    score, signature = evaluation.bleu(["the cat sat on the mat .", "a dog"], ["the cat sat on a mat .", "a dog"])
    precisions = [8 / 9, 5 / 7, 2 / 5, 1 / 4]  # of 1- to 4-grams
    assert score == pytest.approx(100 * np.prod(precisions) ** 0.25, rel=1e-6)
    assert "tok:none" in signature


def test_a_perfect_model_has_perfect_figures(task, monkeypatch):
    pairs = task.test_pairs(20)
    monkeypatch.setattr(evaluation, "translate_pairs", lambda *_: [list(pair.target) for pair in pairs])
    figures = evaluation.toy_figures(model(task, "none"), task, pairs)
    assert figures == {"exact_match": 1.0, "bleu": pytest.approx(100.0)}


def test_bleu_of_the_toy_languages_is_that_of_text(monkeypatch):
    """As compare_translators.py has it, which translates lines."""
    task = TranslationTask("en-ko")
    pairs = task.test_pairs(20)
    answers = [list(pair.target) if i % 2 else ["모자", "-를", "사요", "."] for i, pair in enumerate(pairs)]
    monkeypatch.setattr(evaluation, "translate_pairs", lambda *_: answers)
    figures = evaluation.toy_figures(model(task, "none"), task, pairs)
    expected, _ = evaluation.bleu([written(a, "ko") for a in answers], [written(p.target, "ko") for p in pairs])
    assert figures["bleu"] == expected


def test_the_layer_of_the_alignment_is_chosen_by_other_pairs(task, monkeypatch):
    pairs = task.test_pairs(20)
    rates = {True: [0.5, 0.2, 0.4], False: [0.1, 0.3, 0.05]}  # on pairs of training, on these
    monkeypatch.setattr(evaluation, "alignment_error_rates", lambda m, t, given: rates[given != pairs])
    assert evaluation.toy_figures(model(task), task, pairs)["alignment_error_rate"] == 0.3


def test_alignment_is_read_from_the_rows_of_the_words(task):
    pairs = [p for p in task.test_pairs(50) if len({t for _, t in p.alignment}) == len(p.alignment)][:5]

    class Perfect:
        def cross_attention(self, source, target):
            weights = np.zeros((len(pairs), 2, target.shape[1], source.shape[1]))
            for i, pair in enumerate(pairs):
                for s, t in pair.alignment:
                    weights[i, :, t, s] = 1.0
            return [tt.asarray(weights * 0 + 0.1), tt.asarray(weights)]

    rates = evaluation.alignment_error_rates(Perfect(), task, pairs)
    assert rates[1] == 0
    assert rates[0] > 0.5


def test_the_validation_loss_is_a_mean_over_tokens(task):
    made = model(task)
    pairs = task.test_pairs(6)
    batches = [task.make_batch(pairs[:1]), task.make_batch(pairs[1:])]
    split = evaluation.validation_loss(made, batches)
    assert split == pytest.approx(evaluation.validation_loss(made, [task.make_batch(pairs)]), rel=1e-10)


def test_the_clearest_layer_is_the_one_that_points():
    vague = np.full((2, 3, 4), 0.25)
    one_head = np.stack([np.eye(3, 4), np.full((3, 4), 0.25)])  # clear in one head, half as clear in the mean
    sharp = 0.8 * np.eye(3, 4)[None] + 0.05
    assert evaluation.clearest_layer([vague, one_head])[0] == 1
    layer, mean = evaluation.clearest_layer([sharp, one_head, vague])
    assert layer == 0
    np.testing.assert_allclose(mean, sharp[0])
