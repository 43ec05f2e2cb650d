"""Linear maps of few rows: the numbers of a matrix product, whatever the shapes and however many threads."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.fast import threads, workers
from tinytensor.nn import functional as F


@pytest.fixture
def few_rows(loops):
    from tinytensor.fast import few_rows

    return few_rows


def arrays(count, columns, features, dtype=np.float64):
    rng = np.random.default_rng(0)
    shapes = (count, columns), (features, columns), (features,)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 16])
@pytest.mark.parametrize(("columns", "features"), [(1, 1), (7, 5), (33, 2), (600, 9)])
def test_they_are_products(few_rows, count, columns, features):
    rows, weight, bias = arrays(count, columns, features)
    for given in (bias, None):
        out = np.full((count, features), np.nan)
        few_rows.multiply(rows, weight, given, out)
        np.testing.assert_allclose(out, rows @ weight.T + (0 if given is None else given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("features", [4, 5, 33, 70])
def test_parts_of_a_product_are_where_they_belong(few_rows, features, monkeypatch):
    monkeypatch.setattr(threads, "GRAIN", 1)
    rows, weight, bias = arrays(3, 7, features)
    for given in (bias, None):
        out = np.full((3, features), np.nan)
        few_rows.multiply(rows, weight, given, out)
        np.testing.assert_allclose(out, rows @ weight.T + (0 if given is None else given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "places", "inner"), [(1, 1, 1), (2, 3, 5), (5, 8, 32), (4, 9, 16)])
def test_of_rows_that_lie_apart(few_rows, rows, places, inner, dtype):
    """As attention has them: scores of queries and keys, then sums of values, each a part of wider rows."""
    rng = np.random.default_rng(0)
    query, kept = (rng.normal(size=(n, 3 * inner)).astype(dtype) for n in (rows, places))
    scores, out = (np.full((rows, 3 * n), np.nan, dtype) for n in (places, inner))
    q, key, value = query[:, inner : 2 * inner], kept[:, :inner], kept[:, 2 * inner :]
    weights, sums = scores[:, places : 2 * places], out[:, inner : 2 * inner]

    def place(matrix):
        return matrix.ctypes.data, matrix.strides[0]

    few_rows.dots(query.dtype).ctypes(
        0, query.itemsize, rows, places, inner, *place(q), *place(key), 0, *place(weights)
    )
    few_rows.mix(query.dtype).ctypes(0, rows, places, inner, *place(weights), *place(value), *place(sums))
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(weights, q @ key.T, rtol=0, atol=tolerance)
    np.testing.assert_allclose(sums, weights @ value, rtol=0, atol=tolerance)
    for whole, width in ((scores, places), (out, inner)):  # and nothing is written beside
        assert np.isnan(whole[:, :width]).all()
        assert np.isnan(whole[:, 2 * width :]).all()


def test_a_linear_map_uses_them(few_rows, monkeypatch):
    called = []
    monkeypatch.setattr(few_rows, "multiply", lambda *given: called.append(given[0].shape) or given[-1].fill(1.0))
    out = F.linear(tt.ones((2, 3, 4)), tt.ones((5, 4)))
    assert called == [(6, 4)]
    assert out.tolist() == [[[1.0] * 5] * 3] * 2


def test_the_bits_do_not_depend_on_the_number_of_threads(few_rows, monkeypatch):
    rows, weight, bias = arrays(5, 40, 1001, np.float32)
    monkeypatch.setattr(threads, "GRAIN", 1 << 8)  # so that there is enough to do for many
    parts, found, run = [], [], workers.run
    monkeypatch.setattr(
        workers, "run", lambda function, slices, others: parts.append(slices) or run(function, slices, 1)
    )
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_threads", count)
        out = np.empty((5, 1001), np.float32)
        few_rows.multiply(rows, weight, bias, out)
        found.append(out.tobytes())
    assert [len(slices) for slices in parts] == [2, 3]
    assert len(set(found)) == 1
