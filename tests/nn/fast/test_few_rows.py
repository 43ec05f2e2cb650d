"""Linear maps of few rows, as a batch that decodes has them: the formula's numbers, and no row for itself."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.backend import numpy as room
from tinytensor.nn import functional as F


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


def test_the_weight_is_read_by_columns(monkeypatch):
    """Cut along eight rows, the product would read a vocabulary's weight eight times."""
    counts = []
    monkeypatch.setattr(room, "loops_over", lambda *given: None)
    monkeypatch.setattr(
        room, "in_parts", lambda function, count, *rest, **more: (counts.append(count), function(slice(0, count)))
    )
    with tt.no_grad():
        for rows in (1, 8, 40):
            F.linear(tt.ones((rows, 64)), tt.ones((5000, 64)))
    assert counts == [1, 5000, 40]
