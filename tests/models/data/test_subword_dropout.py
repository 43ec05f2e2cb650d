"""BPE-dropout: the same text in other subwords, and the same draws for the same seed."""

import random
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sentencepiece")

from tinytensor.models.data.batch import BOS, EOS, PAD
from tinytensor.models.data.corpus import Corpus
from tinytensor.models.data.subword_dropout import FORMS, SubwordDropout
from tinytensor.models.data.text import TextTask
from tinytensor.models.data.tokenizer import UNKNOWN, Tokenizer

from .test_text_task import rows, sentences


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(sentences(500, 0), 120)


@pytest.fixture(scope="module")
def texts():
    return sentences(300, 1)


def test_without_dropout_the_subwords_are_the_tokenizers(tokenizer, texts):
    odd = ["", " ", "a  dog ", "redhouse under-tree", "tree!!?tree ! #", "\uff24og dog"]
    assert SubwordDropout(tokenizer, texts + odd, 0.0).draw(0) == [tokenizer.encode(text) for text in texts + odd]


@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
def test_other_subwords_of_the_same_text(tokenizer, texts, probability):
    drawn = SubwordDropout(tokenizer, texts, probability).draw(0)
    assert [tokenizer.decode(ids) for ids in drawn] == texts
    plain = [tokenizer.encode(text) for text in texts]
    assert drawn != plain
    assert sum(map(len, drawn)) > sum(map(len, plain))
    if probability == 1:
        assert [tokenizer.pieces(ids) for ids in drawn] == [list("▁" + text.replace(" ", "▁")) for text in texts]


class Pieces:
    """A tokenizer of these pieces, in the order in which they were learned."""

    def __init__(self, *pieces):
        self.all = pieces

    def __len__(self):
        return UNKNOWN + 1 + len(self.all)

    def pieces(self, ids):
        return [self.all[i - UNKNOWN - 1] for i in ids]


def test_the_probabilities_are_those_of_the_algorithm():
    """A merge that was left out is possible again at the next step.

    Of "aab" with the merges (a, b), then (a, ab): all of it stands with (1 - p)^2, "a ab" with (1 - p) p. Of "abcd"
    with (a, b) and (c, d): both are merged with (1 - p^2) (1 - p), neither with p^2.
    """
    p, count = 0.3, 20_000
    dropout, rng = SubwordDropout(Pieces("ab", "cd", *"abcd"), [], p), random.Random(0)
    lengths = [len(dropout.split("abcd", rng)) for _ in range(count)]
    for length, share in ((2, (1 - p**2) * (1 - p)), (3, (1 - p**2) * p), (4, p**2)):
        assert lengths.count(length) / count == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))
    dropout = SubwordDropout(Pieces("ab", "aab", "a", "b"), [], p)
    names = {
        (UNKNOWN + 2,): "aab",
        (UNKNOWN + 3, UNKNOWN + 1): "a ab",
        (UNKNOWN + 3, UNKNOWN + 3, UNKNOWN + 4): "a a b",
    }
    found = [names[tuple(dropout.split("aab", rng))] for _ in range(count)]
    expected = {"aab": (1 - p) ** 2, "a ab": (1 - p) * p, "a a b": p}
    for name, share in expected.items():
        assert found.count(name) / count == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))


def test_the_merge_learned_first_comes_first(tokenizer):
    """With the right pair and the left one possible, the order of learning decides, not the place."""
    learned = tokenizer.pieces(range(UNKNOWN + 1, len(tokenizer)))
    whole = SubwordDropout(tokenizer, [], 0.0)
    for word in ("▁house", "▁woman", "▁child", "▁housewoman"):
        assert tokenizer.pieces(whole.split(word, random.Random(0))) == tokenizer.pieces(tokenizer.encode(word[1:]))
    assert "▁house" in learned


def test_draws_follow_from_the_seed_in_every_process(tokenizer, texts, tmp_path):
    dropout = SubwordDropout(tokenizer, texts, 0.2)
    assert dropout.draw(5) == dropout.draw(5) != dropout.draw(6)
    tokenizer.save(tmp_path / "t.model")
    code = (
        "import sys; from pathlib import Path; from tinytensor.models.data.subword_dropout import *; "
        "t = Tokenizer.load(Path(sys.argv[1])); print(SubwordDropout(t, sys.argv[2:], 0.2).draw(5))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t.model"), *texts], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(dropout.draw(5))


def test_a_frequent_word_has_several_forms_in_one_draw(tokenizer):
    forms = {tuple(ids) for ids in SubwordDropout(tokenizer, ["house"] * 500, 0.5).draw(0)}
    assert 1 < len(forms) <= FORMS


# ---- in batches


@pytest.fixture(scope="module")
def task(tokenizer):
    corpus = Corpus(sentences(300, 1), sentences(300, 2), 0)
    return TextTask(corpus, tokenizer, seed=3, max_length=30, max_tokens=200, subword_dropout=0.2)


def text_of(tokenizer, batches):
    return sorted((tokenizer.decode(s), tokenizer.decode(t)) for batch in batches for s, t in rows(batch))


def test_an_epoch_holds_every_pair_once_in_subwords_of_its_own(task, tokenizer):
    epochs = [[task.training_batch(e * task.batches + i) for i in range(task.batches)] for e in (0, 1)]
    texts = sorted(zip(sentences(300, 1), sentences(300, 2)))
    assert text_of(tokenizer, epochs[0]) == text_of(tokenizer, epochs[1]) == texts
    first, second = (sorted(row for batch in epoch for row in rows(batch)) for epoch in epochs)
    assert first != second


def test_batches_stay_near_what_is_allowed(task):
    sizes = [
        max(batch.source.size, batch.target_in.size)
        for batch in (task.training_batch(step) for step in range(4 * task.batches))
    ]
    assert max(sizes) < 1.5 * 200
    assert np.mean(sizes) < 200
    assert np.median(sizes) > 150


def test_validation_sees_the_tokenizers_subwords(task):
    seen = [row for batch in task.all_batches() for row in rows(batch)]
    assert sorted(seen) == sorted(((*s, EOS), (*t, EOS)) for s, t in task.pairs)


def test_a_pair_that_would_become_too_long_stays_as_it_is(tokenizer):
    corpus = Corpus(["the house", "the dog"], ["woman child", "a"], 0)
    length = max(len(tokenizer.encode(text)) for text in (*corpus.sources, *corpus.targets)) + 1
    task = TextTask(corpus, tokenizer, max_length=length, subword_dropout=1.0)
    (batch,) = [task.training_batch(i) for i in range(task.batches)]
    assert max(batch.source.shape[1], batch.target_out.shape[1]) <= length
    characters = ("▁", *"thedog")
    pairs = [[tokenizer.pieces([i for i in ids if i not in (PAD, BOS, EOS)]) for ids in row] for row in rows(batch)]
    assert tokenizer.pieces(tokenizer.encode("the house")) in [source for source, _ in pairs]
    assert all(len(source) < len(characters) for source, _ in pairs)
