"""What CuPy's arrays do otherwise than NumPy's, and nobody may notice: the same numbers and errors on either device."""

import numpy as np
import pytest

import tinytensor as tt

# ---- memory: CuPy knows no read-only arrays


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_writes_to_its_gradient_changes_nothing(create_graph, device):
    def write(g):
        g[0] = 7.0
        g *= 3

    x, y = (tt.ones(2, device=device).requires_grad_() for _ in range(2))
    z = x + y
    z.register_hook(write)
    x.register_hook(write)
    seed = tt.tensor([1.0, 2.0], device=device)
    z.backward(seed, create_graph=create_graph)
    assert [t.tolist() for t in (x.grad, y.grad, seed)] == [[1, 2]] * 3
