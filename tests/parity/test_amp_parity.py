"""`nn.amp.GradScaler` against `torch.amp.GradScaler`: the same scale, the same steps, the same state."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

torch = pytest.importorskip("torch")


def test_grad_scaler():
    options = {"init_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3}
    ours, theirs = nn.amp.GradScaler("cpu", **options), torch.amp.GradScaler("cpu", **options)
    x, u = tt.tensor([1.0, -2.0], requires_grad=True), torch.tensor([1.0, -2.0], requires_grad=True)
    sgd, their_sgd = nn.optim.SGD([x], lr=0.1, momentum=0.9), torch.optim.SGD([u], lr=0.1, momentum=0.9)
    for factor in [1.0, 0.5, 2.0, np.inf, 1.0, 1.0, np.nan, 3.0, 1.0, 1.0, 1.0, 1.0]:
        for optimizer in (sgd, their_sgd):
            optimizer.zero_grad()
        ours.scale((x * x * factor).sum()).backward()
        theirs.scale((u * u * factor).sum()).backward()
        ours.step(sgd)
        theirs.step(their_sgd)
        ours.update()
        theirs.update()
        assert ours.state_dict() == theirs.state_dict()
        np.testing.assert_allclose(x.detach().numpy(), u.detach().numpy(), rtol=1e-6)
