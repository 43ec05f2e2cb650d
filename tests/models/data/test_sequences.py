"""The sequence tasks: what a batch holds, that it repeats, and that no test sequence is ever trained on."""

import numpy as np
import pytest

from tinytensor.models.data.batch import BOS, EOS, PAD
from tinytensor.models.data.sequences import FIRST_LETTER, LETTERS, TASKS, SequenceTask


def sequences(batch):
    """The sources of a batch without end and padding."""
    return [tuple(row[: row.index(EOS)]) for row in batch.source.tolist()]


def to_ids(text):
    return [FIRST_LETTER + LETTERS.index(letter) for letter in text]


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [("copy", "hello", "hello"), ("reverse", "hello", "olleh"), ("sort", "hello", "ehllo"), ("sort", "a", "a")],
)
def test_answers(name, text, answer):
    task = SequenceTask(name)
    given = to_ids(text)
    assert task.answer(given) == to_ids(answer)
    assert given == to_ids(text)


def test_a_batch_is_shifted_ended_and_padded():
    batch = SequenceTask("reverse").make_batch([to_ids("abc"), to_ids("d"), to_ids("wxyz")])
    a, d, w = to_ids("abc"), to_ids("d"), to_ids("wxyz")
    assert batch.source.tolist() == [[*a, EOS, PAD], [*d, EOS, PAD, PAD, PAD], [*w, EOS]]
    assert batch.target_in.tolist() == [[BOS, *a[::-1], PAD], [BOS, *d, PAD, PAD, PAD], [BOS, *w[::-1]]]
    assert batch.target_out.tolist() == [[*a[::-1], EOS, PAD], [*d, EOS, PAD, PAD, PAD], [*w[::-1], EOS]]
    assert batch.tokens == 4 + 2 + 5
    assert batch.source.dtype == batch.target_in.dtype == batch.target_out.dtype == np.int64


@pytest.mark.parametrize("name", sorted(TASKS))
def test_training_batches_are_of_the_task(name):
    task = SequenceTask(name, seed=3, min_length=2, max_length=7)
    batch = task.training_batch(5, 200)
    lengths = [len(s) for s in sequences(batch)]
    assert len(lengths) == 200
    assert set(lengths) == {2, 3, 4, 5, 6, 7}
    assert batch.source.min() == PAD
    assert batch.source.max() < task.vocabulary == FIRST_LETTER + 26
    again = task.make_batch([list(s) for s in sequences(batch)])
    for array, expected in zip(vars(batch).values(), vars(again).values()):
        np.testing.assert_array_equal(array, expected)


def test_a_step_of_a_seed_is_always_the_same_batch():
    def sources(seed, step):
        return sequences(SequenceTask("copy", seed).training_batch(step, 50))

    assert sources(1, 4) == sources(1, 4)
    assert sources(1, 4) != sources(1, 5)
    assert sources(1, 4) != sources(2, 4)
    task = SequenceTask("copy", 1)
    for step in (7, 2, 0):  # whatever was asked for before
        task.training_batch(step, 9)
    assert sequences(task.training_batch(4, 50)) == sources(1, 4)


def test_batches_do_not_touch_numpys_global_generator():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    SequenceTask("copy", 0).training_batch(0, 10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_test_sequences_repeat_with_the_seed():
    task = SequenceTask("copy", 0)
    assert task.test_sequences(100) == SequenceTask("copy", 0).test_sequences(100)
    assert task.test_sequences(100) != SequenceTask("copy", 1).test_sequences(100)
    assert {len(s) for s in task.test_sequences(1000)} == set(range(1, 13))


@pytest.mark.parametrize("max_length", [2, 12])
def test_no_test_sequence_is_in_any_training_batch(max_length):
    """With lengths up to 2 there are 702 sequences, so that a leak would show at once."""
    held_out = {tuple(s) for seed in range(3) for s in SequenceTask("copy", seed, 1, max_length).test_sequences(1000)}
    trained = {
        s
        for seed in range(3)
        for step in range(100)
        for s in sequences(SequenceTask("copy", seed, 1, max_length).training_batch(step, 64))
    }
    assert held_out.isdisjoint(trained)
    if max_length == 2:
        assert len(held_out | trained) == 26 + 26 * 26
        assert 0.05 < len(held_out) / 702 < 0.2


def test_even_the_shortest_sequences_leave_some_for_testing():
    task = SequenceTask("copy", max_length=1)
    held_out = {tuple(s) for s in task.test_sequences(50)}
    batch = sequences(task.training_batch(0, 500))
    assert len(task.test_sequences(50)) == len(held_out) == 26 - len(set(batch))
    assert len(held_out) > 0
    assert len(batch) == 500


@pytest.mark.parametrize("max_length", [1, 2, 12])
def test_test_sequences_differ_and_more_of_them_begin_with_the_same(max_length):
    task = SequenceTask("copy", max_length=max_length)
    many = task.test_sequences(1000)
    assert len({tuple(s) for s in many}) == len(many) <= 1000
    assert (len(many) == 1000) == (max_length == 12)
    for count in (0, 1, 3, 20, 300):
        assert task.test_sequences(count) == many[:count]


def test_text():
    assert SequenceTask.to_text([*to_ids("hello"), EOS, PAD, *to_ids("x")]) == "hello"
    assert SequenceTask.to_text(np.asarray(to_ids("az"))) == "az"
    assert SequenceTask.to_text([*to_ids("a"), BOS, *to_ids("b"), PAD]) == "a?b"
    assert SequenceTask.to_text([]) == ""


def test_an_unknown_task_and_impossible_lengths_are_refused():
    with pytest.raises(ValueError, match=r"unknown task 'shuffle'; expected one of copy, reverse, sort"):
        SequenceTask("shuffle")
    for shortest, longest in [(0, 4), (5, 4)]:
        with pytest.raises(ValueError, match=f"got {shortest} and {longest}"):
            SequenceTask("copy", min_length=shortest, max_length=longest)
