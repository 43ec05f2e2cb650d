"""Linear maps of few rows, as a batch that decodes has them: the formula's numbers, and no row for itself."""

from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.nn.fast.linear import linear_forward


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 31, 32, 33])
@pytest.mark.parametrize("shape", [(5000, 70), (3, 300), (257, 64)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_are_the_formula(rows, shape, bias, dtype, device):
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=size).astype(dtype) for size in ((rows, shape[1]), shape, shape[:1]))
    tensors = [tt.tensor(a, requires_grad=True, device=device) for a in (x, w, b)[: 2 + bias]]
    out = F.linear(*tensors)
    expected = x.astype("f8") @ w.T + (b if bias else 0)
    np.testing.assert_allclose(
        out.numpy(), expected, rtol=0, atol=abs(expected).max() * (1e-5 if dtype == "float32" else 1e-13)
    )
    g = rng.normal(size=out.shape).astype(dtype)
    out.backward(tt.asarray(g, device=device))
    np.testing.assert_allclose(tensors[0].grad.numpy(), g @ w, rtol=0, atol=1e-4 * abs(g @ w).max())


def test_few_rows_are_the_factor_on_the_right():
    """A BLAS copies that factor, which would be a vocabulary's whole weight."""
    left = []

    def matmul(a, b, out=None):
        left.append(len(a))
        return np.matmul(a, b, out=out)

    names = {"device": "cpu", "contiguous": np.ascontiguousarray, "fresh": np.empty, "loops_over": lambda *given: None}
    for rows in (1, 8, 40):
        out, _ = linear_forward(SimpleNamespace(**names, matmul=matmul), np.ones((rows, 64)), np.ones((5000, 64)), None)
        assert (out == 64).all()
    assert left == [1, 5000, 40]
