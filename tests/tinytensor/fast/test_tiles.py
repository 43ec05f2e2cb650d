"""Products of tiles inside compiled loops."""

import numpy as np
import pytest

pytest.importorskip("numba")
from tinytensor.fast import tiles
from tinytensor.fast.tiles import COLUMNS, ROWS, multiply, padded


def normal(*shape, seed, dtype):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("inner", [1, 70])
def test_products_are_right(dtype, turned, inner):
    rows, columns, margin = 2 * ROWS, 3 * COLUMNS, 5
    a, b = normal(rows, inner, seed=0, dtype=dtype), normal(inner, columns, seed=1, dtype=dtype)
    lying = np.ascontiguousarray(a.T if turned else a).reshape(-1)
    steps = (1, rows) if turned else (inner, 1)
    panels = np.ascontiguousarray(b.reshape(inner, -1, COLUMNS).swapaxes(0, 1)).reshape(-1)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for flat, row, panel in ((b.reshape(-1), columns, COLUMNS), (panels, COLUMNS, inner * COLUMNS)):
        out = normal(rows * (columns + margin) + margin, seed=2, dtype=dtype)
        for keep in (False, True):
            before = out.copy()
            multiply(lying, 0, *steps, flat, 0, row, panel, keep, out, margin, columns + margin, rows, columns, inner)
            now, then = (x[margin:].reshape(rows, -1) for x in (out, before))
            kept = then[:, :columns] if keep else 0
            np.testing.assert_allclose(now[:, :columns], a @ b + kept, rtol=tolerance, atol=tolerance)
            assert (now[:, columns:] == then[:, columns:]).all()
            assert (out[:margin] == before[:margin]).all()


@pytest.mark.parametrize("features", [{}, {"avx2": True}, {"avx2": True, "avx512f": True}])
def test_tiles_of_every_processor_divide_the_blocks(features):
    tile = tiles._tile(features)
    for size in (4, 8):
        assert ROWS % tile.rows == 0
        assert COLUMNS % (tile.vectors * tile.vector // size) == 0


def test_padding_rounds_up():
    assert [padded(n, 12) for n in (0, 1, 12, 13)] == [0, 12, 12, 24]
