"""Translation as a task: batches, vocabularies, repetition."""

import random

import numpy as np
import pytest

from tinytensor.models.data.batch import BOS, EOS, PAD
from tinytensor.models.data.languages import PAIRS, ToyText, TranslationTask, Vocabulary, written


@pytest.fixture(scope="module", params=PAIRS)
def task(request):
    return TranslationTask(request.param, seed=3)


def test_a_batch_is_shifted_ended_and_padded(task):
    pairs = task.training_pairs(0, 16)
    batch = task.make_batch(pairs)
    assert batch.source.dtype == batch.target_in.dtype == batch.target_out.dtype == np.int64
    assert batch.source.shape[1] == max(len(pair.source) for pair in pairs) + 1
    assert batch.target_in.shape == batch.target_out.shape == (16, max(len(pair.target) for pair in pairs) + 1)
    assert batch.tokens == sum(len(pair.target) + 1 for pair in pairs)
    for pair, source, seen, said in zip(pairs, batch.source, batch.target_in, batch.target_out):
        rest = np.full(100, PAD)
        np.testing.assert_array_equal(source, [*task.source.ids(pair.source), EOS, *rest][: len(source)])
        np.testing.assert_array_equal(seen, [BOS, *task.target.ids(pair.target), *rest][: len(seen)])
        np.testing.assert_array_equal(said, [*task.target.ids(pair.target), EOS, *rest][: len(said)])
        assert task.source.tokens(source) == list(pair.source)
        assert task.target.tokens(said) == list(pair.target)
        assert task.to_text(said) == written(pair.target, task.name[3:])


def test_a_step_of_a_seed_is_always_the_same_batch(task):
    batch = task.training_batch(4, 32)
    task.training_batch(7, 5)
    task.test_pairs(3)
    other = TranslationTask(task.name, seed=3)
    for again in (task.training_batch(4, 32), other.training_batch(4, 32)):
        for array, expected in zip(vars(again).values(), vars(batch).values()):
            np.testing.assert_array_equal(array, expected)
    sources = [pair.source for pair in task.training_pairs(4, 32)]
    assert sources != [pair.source for pair in task.training_pairs(5, 32)]
    assert sources != [pair.source for pair in TranslationTask(task.name, seed=4).training_pairs(4, 32)]


def test_batches_that_are_drawn_together_differ_in_length_and_repeat(task):
    together = TranslationTask(task.name, seed=3, together=3)
    batches = [together.training_pairs(step, 20) for step in (3, 4, 5)]
    lengths = sorted([sorted(len(pair.target) for pair in pairs) for pairs in batches])
    assert lengths[0][-1] <= lengths[1][0]
    assert lengths[1][-1] <= lengths[2][0]
    assert lengths[0][0] < lengths[2][0]
    assert TranslationTask(task.name, seed=3, together=3).training_pairs(4, 20) == batches[1]
    at_once = TranslationTask(task.name, seed=3).training_pairs(1, 60)
    assert sorted(p.source for p in at_once) == sorted(p.source for pairs in batches for p in pairs)


def test_training_shows_sentences_as_long_as_the_tests(task):
    def mean(pairs):
        return np.mean([len(pair.target) for pair in pairs])

    assert abs(mean(task.training_pairs(0, 500)) - mean(task.test_pairs(500))) < 1


def test_test_pairs_differ_repeat_and_more_of_them_begin_with_the_same(task):
    pairs = task.test_pairs(300)
    assert len({pair.source for pair in pairs}) == 300
    assert all(pair.held_out for pair in pairs)
    assert task.test_pairs(40) == TranslationTask(task.name, seed=3).test_pairs(40) == pairs[:40]
    assert TranslationTask(task.name, seed=4).test_pairs(40) != pairs[:40]
    assert task.test_pairs(0) == []


def test_nothing_touches_the_global_generators(task):
    python, numpy = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    task.training_batch(0, 8)
    task.test_pairs(8)
    assert random.getstate() == python
    np.testing.assert_array_equal(np.random.get_state()[1], numpy)  # noqa: NPY002


def test_vocabularies_are_sorted_after_the_special_ids_and_as_large_as_they_say():
    sizes = {}
    for language in ("en", "fr", "ko"):
        vocabulary = Vocabulary(language)
        assert vocabulary.words[PAD] == "<pad>"
        assert vocabulary.words[BOS] == "<bos>"
        assert vocabulary.words[EOS] == "<eos>"
        assert vocabulary.words[3:] == sorted(set(vocabulary.words[3:]))
        assert vocabulary.ids(vocabulary.words) == list(range(len(vocabulary)))
        sizes[language] = len(vocabulary)
    assert f"English has {sizes['en']} ids, French {sizes['fr']}, Korean {sizes['ko']}." in Vocabulary.__doc__


def test_text_ends_where_the_sentence_ends(task):
    words = task.target.ids(task.test_pairs(1)[0].target)
    assert task.to_text([*words, EOS, words[0]]) == task.to_text([*words, PAD]) == task.to_text(np.asarray(words))
    assert task.to_text([EOS]) == ""
    assert task.to_text([BOS, EOS]) == "<bos>"


@pytest.mark.parametrize(
    ("words", "language", "text"),
    [
        ("qu' il l' a vue , hier .", "fr", "qu'il l'a vue, hier."),
        ("est-ce que l' ami dort aujourd'hui ?", "fr", "est-ce que l'ami dort aujourd'hui ?"),
        ("고양이 -들 -이 우유 -를 마셔요 ?", "ko", "고양이들이 우유를 마셔요?"),
        ("does he sleep ?", "en", "does he sleep?"),
        ("", "en", ""),
    ],
)
def test_written(words, language, text):
    assert written(words.split(), language) == text


def test_unknown_names_and_words_are_refused(task):
    with pytest.raises(ValueError, match=r"unknown pair of languages 'en-de'; expected one of en-fr, en-ko"):
        TranslationTask("en-de")
    with pytest.raises(ValueError, match=r"'computing' is no word"):
        task.source.ids(["the", "computing"])
    with pytest.raises(ValueError, match=r"'A', 'computing' are no words of this toy language; it has 'a'"):
        task.source.ids(["A", "computing", "the", "A"])


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_an_id_that_no_word_has(wrong):
    text = ToyText("en-fr")
    for call in (text.decode, text.source_pieces, text.target_pieces):
        with pytest.raises(ValueError, match=f"no text has the id {wrong}"):
            call([5, wrong])
