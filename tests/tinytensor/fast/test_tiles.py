"""Products of tiles inside compiled loops."""

import numpy as np
import pytest

pytest.importorskip("numba")
from tinytensor.fast import tiles
from tinytensor.fast.compiling import address
from tinytensor.fast.tiles import COLUMNS, ROWS, multiply, padded


def normal(*shape, seed, dtype):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("inner", [1, 70])
def test_products_are_right(dtype, turned, inner):
    rows, columns, margin = 2 * ROWS, 3 * COLUMNS, 5
    a, b = normal(rows, inner, seed=0, dtype=dtype), normal(inner, columns, seed=1, dtype=dtype)
    size, lying = a.itemsize, np.ascontiguousarray(a.T if turned else a)
    steps = lying.strides[::-1] if turned else lying.strides
    panels = np.ascontiguousarray(b.reshape(inner, -1, COLUMNS).swapaxes(0, 1))
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for read, row, panel in ((b, b.strides[0], COLUMNS * size), (panels, *panels.strides[1::-1])):
        out = normal(rows * (columns + margin) + margin, seed=2, dtype=dtype)
        for keep in (False, True):
            before = out.copy()
            multiply(a.dtype).ctypes(
                0, size, address(lying), *steps, address(read), row, panel, keep, address(out) + margin * size,
                (columns + margin) * size, rows, columns, inner,
            )  # fmt: skip
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
