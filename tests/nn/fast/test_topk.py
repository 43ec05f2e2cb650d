"""The fast version of `log_softmax_topk` against its formula."""

import math

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.nn import fast
from tinytensor.nn.functional import topk


def test_it_is_registered():
    assert topk.likeliest.faster is fast.topk.log_softmax_topk


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize(
    ("shape", "k"),
    [((3, 7), 1), ((3, 7), 7), ((2, 3, 50), 6), ((300, 1000), 8), ((5,), 2), ((4, 1), 1), ((0, 5), 2), ((3, 0), 0)],
)
def test_the_fast_version_is_the_formula(shape, k, dtype, device):
    rng, tolerance = np.random.default_rng(0), 1e-6 if dtype == tt.float32 else 1e-13
    for scale, shift in ((1.0, 0.0), (1.0, 700.0), (10.0, -1e4)):
        logits = tt.asarray(scale * rng.normal(size=shape) + shift, dtype=dtype, device=device)
        before = logits.tolist()
        for excluded in {None, 0, shape[-1] - 1} if shape[-1] else {None}:
            values, ids = F.log_softmax_topk(logits, k, excluded=excluded)
            expected, places = topk.likeliest(logits, k, excluded)
            assert ids.tolist() == places.tolist()
            assert (values.dtype, ids.dtype, values.device) == (tt.float64, tt.int64, device)
            np.testing.assert_allclose(values.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)
        assert logits.tolist() == before


def test_excluded_classes_that_are_the_largest(device):
    """Then the others come in their order, with the share of the probability that they have beside it."""
    logits = tt.asarray([[9.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0, 1.0], [math.inf] * 4], device=device)
    logits[2] = tt.asarray([-math.inf, 0.0, -math.inf, -math.inf], device=device)
    values, ids = F.log_softmax_topk(logits, 3, excluded=0)
    assert ids[:2].tolist() == [[2, 1, 3]] * 2
    assert ids[2, 0].item() == 1
    assert values[2].tolist() == [0.0, -math.inf, -math.inf]
    total = math.log(math.exp(9) + 2 * math.e + math.exp(2))
    np.testing.assert_allclose(values[0].numpy(), [2 - total, 1 - total, 1 - total], rtol=1e-6)


@pytest.mark.parametrize("row", [[math.nan, 0.0, 1.0], [math.inf, 0.0, 1.0], [-math.inf] * 3])
def test_rows_without_a_distribution_give_nan_first(row, device):
    values, _ = F.log_softmax_topk(tt.asarray([row, [0.0, 1.0, 2.0]], device=device), 2)
    assert not np.isfinite(values.numpy()[0, 0])
    assert np.isfinite(values.numpy()[1]).all()


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_the_likeliest_alone_in_a_loop(dtype, loops, monkeypatch):
    """Of equal ones the first; the excluded never, but with its share; none where there is no distribution."""
    rows = np.random.default_rng(0).normal(size=(6, 700))
    rows[1, [5, 9]] = rows[2, 0] = 30.0
    rows[3] += 500.0
    logits, asked, likeliest = tt.asarray(rows, dtype=dtype), [], loops.likeliest
    monkeypatch.setattr(loops, "likeliest", lambda *given: asked.append(given[1:]) or likeliest(*given))
    for excluded in (None, 0, 5):
        values, ids = F.log_softmax_topk(logits, 1, excluded=excluded)
        with tt.textbook():
            expected, places = topk.likeliest(logits, 1, excluded)
        assert ids.tolist() == places.tolist()
        np.testing.assert_allclose(
            values.numpy(), expected.numpy(), rtol=0, atol=3e-5 if dtype == tt.float32 else 1e-12
        )
    assert asked == [(1, -1), (1, 0), (1, 5)]
    for row in ([math.nan, 0.0], [math.inf, 0.0], [-math.inf] * 2, [1.0, -math.inf]):
        values, _ = F.log_softmax_topk(tt.asarray([row], dtype=dtype), 1, excluded=0)
        assert np.isfinite(values.item()) == (row[1] > -math.inf and math.isfinite(row[0]))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("columns", [63, 64, 65, 200])
def test_equal_ones_wherever_they_stand(k, columns, loops):
    """The loops look at 64 at a time, and pass over those of which none is larger than what was found."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-2, 3, size=(20, columns)).astype("float32")
    rows[::2, -1] = 5.0  # the largest stands last, and is excluded in turn
    for excluded in (None, columns - 1, 1):
        values, ids = F.log_softmax_topk(tt.asarray(rows), k, excluded=excluded)
        expected, places = topk.likeliest(tt.asarray(rows), k, excluded)
        assert ids.tolist() == places.tolist()
        np.testing.assert_allclose(values.numpy(), expected.numpy(), rtol=1e-5)
