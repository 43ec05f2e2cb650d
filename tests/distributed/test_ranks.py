"""Two and four ranks, each of which checks the same things: see `programs.py`."""

import pytest

from .programs import CHECKS


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("check", [check.__name__ for check in CHECKS])
def test_on_every_rank(on_ranks, check, size):
    told = on_ranks(size)[check]
    assert not told, told
