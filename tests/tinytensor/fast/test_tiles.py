"""The tiles of products; `test_products.py` multiplies with them."""

import pytest

pytest.importorskip("numba")
from tinytensor.fast import tiles
from tinytensor.fast.tiles import COLUMNS, padded


@pytest.mark.parametrize("features", [{}, {"avx2": True}, {"avx2": True, "avx512f": True}])
def test_tiles_of_every_processor_divide_a_panel(features):
    tile = tiles._tile(features)
    for size in (4, 8):
        assert COLUMNS % (tile.vectors * tile.vector // size) == 0


def test_padding_rounds_up():
    assert [padded(n, 12) for n in (0, 1, 12, 13)] == [0, 12, 12, 24]
