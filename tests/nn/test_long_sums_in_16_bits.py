"""A sum of float16, or a count of rows in it, ends at 65504. Results that are in range come out right beyond that."""

import contextlib

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F

N = 100_000
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((2, N)).astype(np.float16)
EQUAL = np.ones((2, N), np.float16)
COLUMNS = np.ascontiguousarray(ROWS.T)
MEMORY = RNG.standard_normal((1, 70_000, 4)).astype(np.float16)
LAST = np.array([5, N - 1])
FIRST = np.zeros(N, np.int64)
WEIGHT = RNG.random(N).astype(np.float16)


def like(x, values):
    return tt.asarray(values.astype(x.numpy().dtype))


CASES = {
    "softmax": (F.softmax, ROWS),
    "softmax of equal numbers": (F.softmax, EQUAL),
    "softmin": (F.softmin, EQUAL),
    "log_softmax": (F.log_softmax, EQUAL),
    "logsumexp": (lambda x: tt.logsumexp(x, axis=1), ROWS),
    "logsumexp of equal numbers": (lambda x: tt.logsumexp(x, axis=-1), EQUAL),
    "logsumexp down": (lambda x: tt.logsumexp(x, axis=0), COLUMNS),
    "mean": (lambda x: tt.mean(x, axis=1), EQUAL),
    "nanmean": (tt.nanmean, EQUAL),
    "var": (lambda x: tt.var(x, axis=1), ROWS),
    "layer_norm": (lambda x: F.layer_norm(x, (N,)), ROWS),
    "rms_norm": (lambda x: F.rms_norm(x, (N,)), ROWS),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), COLUMNS),
    "cross_entropy": (lambda x: F.cross_entropy(x, tt.asarray(LAST)), ROWS),
    "cross_entropy of equal numbers": (lambda x: F.cross_entropy(x, tt.asarray(LAST), label_smoothing=0.1), EQUAL),
    "cross_entropy, smooth": (lambda x: F.cross_entropy(x, tt.asarray(LAST), label_smoothing=0.1), ROWS),
    "cross_entropy, weights": (lambda x: F.cross_entropy(x, tt.asarray(LAST), weight=like(x, WEIGHT)), ROWS),
    "cross_entropy of many rows": (lambda x: F.cross_entropy(x, tt.asarray(FIRST)), COLUMNS),
    "cross_entropy, weights of rows": (
        lambda x: F.cross_entropy(x, tt.asarray(FIRST), weight=like(x, np.array([2, 1]))), COLUMNS,
    ),
    "nll_loss": (lambda x: F.nll_loss(x, tt.asarray(FIRST)), COLUMNS),
    "kl_div": (lambda x: F.kl_div(F.log_softmax(x), F.softmax(x * 0), reduction="batchmean"), ROWS),
    "mse_loss": (lambda x: F.mse_loss(x, x * 0), ROWS),
    "binary_cross_entropy_with_logits": (lambda x: F.binary_cross_entropy_with_logits(x, x * 0 + 1), ROWS),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[None], N), EQUAL),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x[None], 1), EQUAL),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x + 1), ROWS),
    "norm": (lambda x: tt.linalg.vector_norm(x, axis=1), ROWS),
    "attention": (lambda x: F.scaled_dot_product_attention(x[:, :2], x, x), MEMORY),
    "attention to equal keys": (lambda x: F.scaled_dot_product_attention(x[:, :2] * 0, x, x), MEMORY),
}  # fmt: skip


SLOW = {"avg_pool1d"}  # it cuts a window into one slice for each of its positions


@pytest.mark.parametrize("formulas", [False, True], ids=["fast", "formulas"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.again] * (name in SLOW)) for name in CASES]
)
def test_it_is_as_in_64_bits(name, formulas):
    function, values = CASES[name]

    def value_and_gradient(dtype):
        x = tt.tensor(values.astype(dtype), requires_grad=True)
        with tt.textbook() if formulas else contextlib.nullcontext():
            y = function(x)
            y.backward(tt.asarray(np.random.default_rng(1).standard_normal(y.shape).astype(dtype)))
        assert y.dtype == x.grad.dtype == x.dtype
        return y.numpy().astype(np.float64), x.grad.numpy().astype(np.float64)

    (found, gradient), (expected, exact) = value_and_gradient(np.float16), value_and_gradient(np.float64)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=1e-3)
    np.testing.assert_allclose(gradient, exact, rtol=2e-2, atol=2e-3 * max(1e-3, np.abs(exact).max()))


def test_what_a_wider_argument_or_a_dtype_asks_for_stays():
    x = tt.asarray(ROWS[:, :3])
    assert F.softmax(x, dtype=tt.float32).dtype == tt.float32
    assert F.softmax(input=x).dtype == tt.float16
    assert F.softmax(ROWS[:, :3]).dtype == tt.float16
    assert F.mse_loss(x, x.float()).dtype == F.mse_loss(x.float(), x).dtype == tt.float32
    assert F.cross_entropy(x, tt.asarray([0, 1]), reduction="none").dtype == tt.float16
