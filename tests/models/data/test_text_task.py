"""Real text as ids: the tokenizer, and batches filled by the number of tokens."""

import numpy as np
import pytest

pytest.importorskip("sentencepiece")

from tinytensor.models.data.batch import BOS, EOS, PAD
from tinytensor.models.data.corpus import Corpus
from tinytensor.models.data.text import TextTask
from tinytensor.models.data.tokenizer import Tokenizer, TokenizerError

WORDS = [
    "a",
    "dog",
    "cat",
    "house",
    "tree",
    "runs",
    "sees",
    "the",
    "big",
    "small",
    "red",
    "on",
    "under",
    "near",
    "man",
    "woman",
    "child",
    "ball",
]


def sentences(count, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(sentences(500, 0), 120)


@pytest.fixture(scope="module")
def task(tokenizer):
    return TextTask(Corpus(sentences(300, 1), sentences(300, 2), 0), tokenizer, seed=3, max_tokens=200)


def test_text_goes_there_and_back(tokenizer, tmp_path):
    assert len(tokenizer) == 120
    for text in sentences(20, 5):
        assert tokenizer.decode([BOS, *tokenizer.encode(text), EOS, PAD]) == text
        assert min(tokenizer.encode(text)) > 2
    tokenizer.save(tmp_path / "t.model")
    assert Tokenizer.load(tmp_path / "t.model").encode("the dog") == tokenizer.encode("the dog")


def test_the_same_text_gives_the_same_vocabulary():
    assert Tokenizer.train(sentences(200, 0), 80).model == Tokenizer.train(sentences(200, 0), 80).model


def test_what_cannot_be_a_vocabulary(tmp_path):
    for vocabulary, reason in (
        (3, "padding, begin, end and unknown words take 4"),
        (5, r"its characters and 4 special ids take \d\d"),
        (5000, r"it has \d\d\d subwords at most"),
    ):
        with pytest.raises(TokenizerError, match=f"vocabulary {vocabulary} does not suit this text: {reason}"):
            Tokenizer.train(sentences(20, 0), vocabulary)
    (tmp_path / "broken").write_bytes(b"no model")
    with pytest.raises(TokenizerError, match="broken is no sentencepiece model"):
        Tokenizer.load(tmp_path / "broken")


def rows(batch):
    return [(tuple(s[s != PAD].tolist()), tuple(t[t != PAD].tolist())) for s, t in zip(batch.source, batch.target_out)]


def test_an_epoch_holds_every_pair_once(task):
    for epoch in range(3):
        seen = [row for i in range(task.batches) for row in rows(task.training_batch(epoch * task.batches + i))]
        assert sorted(seen) == sorted(((*s, EOS), (*t, EOS)) for s, t in task.pairs)


def test_epochs_differ_in_order(task):
    first, second = (
        [rows(task.training_batch(epoch * task.batches + i)) for i in range(task.batches)] for epoch in (0, 1)
    )
    assert first != second
    assert [set(b) for b in first] != [set(b) for b in second]


def test_a_batch_follows_from_seed_and_step_alone(task, tokenizer):
    other = TextTask(Corpus(sentences(300, 1), sentences(300, 2), 0), tokenizer, seed=3, max_tokens=200)
    for step in (500, 2, 90, 0):
        np.testing.assert_array_equal(other.training_batch(step).source, task.training_batch(step).source)
    changed = TextTask(Corpus(sentences(300, 1), sentences(300, 2), 0), tokenizer, seed=4, max_tokens=200)
    assert any(rows(changed.training_batch(i)) != rows(task.training_batch(i)) for i in range(task.batches))


def test_no_batch_is_larger_than_allowed_and_most_are_nearly_full(task):
    sizes = [max(b.source.size, b.target_in.size) for b in task.all_batches()]
    assert max(sizes) <= 200
    assert np.median(sizes) > 150
    padding = np.mean([(b.source == PAD).mean() for b in task.all_batches()])
    assert padding < 0.35


def test_batches_are_shifted_and_ended(task):
    batch = task.training_batch(0)
    assert (batch.target_in[:, 0] == BOS).all()
    for before, after in zip(batch.target_in.tolist(), batch.target_out.tolist()):
        length = after.index(EOS)
        assert before[1 : length + 1] == after[:length]


def test_sentences_that_are_too_long_are_left_out_and_counted(tokenizer):
    corpus = Corpus(["the dog"] * 4 + ["the dog " * 50], ["a cat"] * 5, 0)
    task = TextTask(corpus, tokenizer, max_length=20)
    assert (len(task.pairs), task.too_long, task.first_too_long) == (4, 1, 4)
    assert TextTask(corpus, tokenizer, max_length=200).first_too_long is None


def test_a_very_long_line_counts_for_the_vocabulary():
    made = Tokenizer.train(["zebra " * 2000, "the dog"], 24)
    assert made.decode(made.encode("zebra")) == "zebra"


def test_one_pair_longer_than_a_batch_is_a_batch(tokenizer):
    task = TextTask(Corpus(["the dog " * 20, "a"], ["a cat", "a"], 0), tokenizer, max_tokens=10)
    assert task.batches == 2
