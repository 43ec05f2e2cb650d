"""Masked words: what is hidden, how, and that the test has what training never shows."""

import numpy as np

from tinytensor.models.data.masked import HIDDEN, MaskedWordTask

TASK = MaskedWordTask(seed=1)


def test_of_ten_words_eight_are_hidden_one_is_another_and_one_as_it_was():
    ids = np.full((400, 50), 7)
    batch = TASK.asked(ids, np.random.default_rng(0))
    asked = batch.target_out != 0
    assert abs(asked.mean() - 0.15) < 0.01
    np.testing.assert_array_equal(batch.target_out[asked], 7)
    np.testing.assert_array_equal(batch.ids[~asked], 7)
    shares = [(batch.ids[asked] == TASK.mask_id).mean(), (batch.ids[asked] == 7).mean()]
    np.testing.assert_allclose(shares, [0.8, 0.1], atol=0.03)


def test_a_step_is_the_same_each_time():
    one, two, other = (TASK.training_batch(step, 6) for step in (3, 3, 4))
    np.testing.assert_array_equal(one.ids, two.ids)
    assert one.ids.shape != other.ids.shape or (one.ids != other.ids).any()
    assert (one.ids[:, 0] == 1).all()


def test_neither_begin_nor_padding_is_asked():
    for batch in TASK.test_batches(50, 20):
        assert (batch.target_out[batch.ids < 2] == 0).all()
        np.testing.assert_array_equal(batch.ids == TASK.mask_id, batch.target_out != 0)


def test_words_and_ids():
    ids = TASK.ids([["Emma", HIDDEN, "."]])
    assert [TASK.word(i) for i in ids[0, 1:].tolist()] == ["Emma", HIDDEN, "."]
    assert ids[0, 2] == TASK.mask_id == len(TASK) - 1
