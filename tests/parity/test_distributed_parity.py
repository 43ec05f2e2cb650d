"""DistributedDataParallel and ZeroRedundancyOptimizer against PyTorch's, in a group of one process."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def models():
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    ours = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs


def inputs(seed):
    x = np.random.default_rng(seed).normal(size=(5, 3))
    return tt.asarray(x), torch.tensor(x)


def assert_same_gradients(ours, theirs):
    for (name, p), (their_name, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == their_name
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-10, atol=1e-14)


def test_keys_and_gradients_with_and_without_no_sync():
    plain, their_plain = models()
    ours = nn.parallel.DistributedDataParallel(plain)
    theirs = torch.nn.parallel.DistributedDataParallel(their_plain)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for seed, alone in enumerate((False, True, False, True, True, False)):
        x, their_x = inputs(seed)
        if alone:
            with ours.no_sync(), theirs.no_sync():
                ours(x).sum().backward()
                theirs(their_x).sum().backward()
        else:
            ours(x).sum().backward()
            theirs(their_x).sum().backward()
        assert_same_gradients(ours, theirs)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_zero_redundancy_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ours, theirs = models()
    optimizer = nn.optim.ZeroRedundancyOptimizer(ours.parameters(), nn.optim.AdamW, lr=0.1, weight_decay=0.2)
    reference = ZeroRedundancyOptimizer(theirs.parameters(), torch.optim.AdamW, lr=0.1, weight_decay=0.2)
    for seed in range(4):
        x, their_x = inputs(seed)
        optimizer.zero_grad()
        reference.zero_grad()
        ours(x).pow(2).sum().backward()
        theirs(their_x).pow(2).sum().backward()
        optimizer.step()
        reference.step()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-10)
    optimizer.consolidate_state_dict(to=0)
    reference.consolidate_state_dict(to=0)
    state, expected = optimizer.state_dict(), reference.state_dict()
    assert state["state"].keys() == expected["state"].keys()
    np.testing.assert_allclose(np.asarray(state["state"][0]["exp_avg"]), expected["state"][0]["exp_avg"], rtol=1e-10)
