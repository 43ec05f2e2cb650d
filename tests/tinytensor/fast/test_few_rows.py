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
