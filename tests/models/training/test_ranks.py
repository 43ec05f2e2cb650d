"""What each of many ranks has of a batch; tests/distributed trains with them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tinytensor.models.data.batch import Batch
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.training.ranks import share


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_shares_are_the_batch(rows, size):
    batch = SequenceTask("copy", 0).training_batch(0, rows)
    shares = [share(batch, rank, size) for rank in range(size)]
    assert all(isinstance(each, Batch) for each in shares)
    for name in ("source", "target_in", "target_out"):
        np.testing.assert_array_equal(np.concatenate([getattr(s, name) for s in shares]), getattr(batch, name))
    assert {each.tokens for each in shares} == {batch.tokens}
    assert sum(each.own_tokens for each in shares) == batch.tokens
    counts = [len(each.source) for each in shares]
    assert max(counts) - min(counts) <= 1
    assert counts[0] == max(counts)


def test_a_batch_of_another_class():
    @dataclass(frozen=True)
    class Labelled:
        ids: Any
        target_out: Any

        @property
        def tokens(self):
            return self.target_out.size

    found = share(Labelled(np.arange(6).reshape(3, 2), np.arange(3)), 1, 2)
    assert isinstance(found, Labelled)
    assert (found.ids.tolist(), found.target_out.tolist(), found.tokens, found.own_tokens) == ([[4, 5]], [2], 3, 1)
