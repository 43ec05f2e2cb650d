"""Parts of a batch side by side: the gradient of the whole, whatever the number of threads."""

import threading

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

from ..engine_room import room


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    compute_on(request.param, monkeypatch)
    return request.param


def compute_on(count, monkeypatch):
    """Let so many threads share the work; there is one where the engine room is left out."""
    if threads := room("fast.threads"):
        monkeypatch.setattr(threads, "_threads", count)
        monkeypatch.setattr(threads, "_blas_is_single", True)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def model_of(dropout=0.0, dtype=tt.float64):
    tt.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8, dtype=dtype), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2, dtype=dtype))


def losses_of(model, parts=2, dtype=np.float64):
    x, y = (np.array_split(normal(12, n, seed=n).astype(dtype), parts) for n in (5, 2))
    return [lambda x=a, y=b: F.mse_loss(model(x), tt.asarray(y), reduction="sum") for a, b in zip(x, y)]


def gradients(model):
    return [p.grad.numpy() for p in model.parameters()]


def test_the_gradient_of_the_whole(threads):
    whole, split = model_of(), model_of()
    (loss,) = (loss() for loss in losses_of(whole, 1))
    loss.backward()
    for parts in (1, 2, 5):
        split.zero_grad()
        total = nn.parallel.backward_of_sum(losses_of(split, parts), split.parameters())
        assert total.item() == pytest.approx(loss.item(), rel=1e-12)
        assert total.shape == ()
        assert not total.requires_grad
        for a, b in zip(gradients(split), gradients(whole)):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    found = []
    for count in (1, 2, 4):
        compute_on(count, monkeypatch)
        model = model_of(dropout=0.5, dtype=tt.float32).train()
        tt.manual_seed(7)
        for _ in range(3):  # gradients add up
            nn.parallel.backward_of_sum(losses_of(model, 4, np.float32), model.parameters())
        found.append(([g.tobytes() for g in gradients(model)], tt.random.randn(3).numpy().tobytes()))
    assert found[0] == found[1] == found[2]


def test_each_loss_drops_other_elements(threads):
    x = tt.ones(1000)
    weight = tt.tensor(np.ones(1000), requires_grad=True)
    masks = []

    def loss():
        dropped = F.dropout(x * weight, 0.5)
        masks.append(dropped.numpy() != 0)
        return dropped.sum()

    nn.parallel.backward_of_sum([loss, loss], [weight])
    assert (masks[0] != masks[1]).any()
    np.testing.assert_array_equal(weight.grad.numpy(), 2.0 * (masks[0].astype(float) + masks[1]))


@pytest.mark.skipif(room("fast.threads") is None, reason="tinytensor/fast is left out")
def test_they_run_side_by_side(monkeypatch):
    compute_on(2, monkeypatch)
    weight = tt.tensor([1.0], requires_grad=True)
    met = threading.Barrier(2, timeout=30)

    def loss():
        met.wait()  # nobody passes alone
        return weight.sum()

    assert nn.parallel.backward_of_sum([loss, loss], [weight]).item() == 2.0


def test_a_single_loss_is_a_single_task(monkeypatch):
    """The next one is computed by what the threads saw of this one, not of what came behind it."""
    tasks = []
    monkeypatch.setattr(
        tt.machine.speed, "concurrently", lambda given: tasks.append(len(given)) or [task() for task in given]
    )
    model = model_of()
    nn.parallel.backward_of_sum(losses_of(model, 1), model.parameters())
    assert tasks == [1]


def test_modes_of_the_caller_hold_in_every_thread(threads):
    weight = tt.tensor([1.0], requires_grad=True)
    with tt.detect_anomaly(), pytest.raises(FloatingPointError, match="log"), np.errstate(all="ignore"):
        nn.parallel.backward_of_sum([lambda: weight.sum(), lambda: tt.log(weight - 2).sum()], [weight])
    with tt.record() as graph:
        nn.parallel.backward_of_sum([lambda: weight.sum(), lambda: tt.exp(weight).sum()], [weight])
    assert {"sum", "exp"} <= {op.name for op in graph.ops}
    tt.exp(weight).sum().backward()  # this thread is what it was


def test_an_error_is_raised_and_nothing_is_filled(threads):
    weight = tt.tensor([1.0], requires_grad=True)

    def fails():
        raise ValueError("no batch")

    with pytest.raises(ValueError, match="no batch"):
        nn.parallel.backward_of_sum([lambda: weight.sum(), fails], [weight])
    assert weight.grad is None


def test_parameters_without_a_part_in_it(threads):
    used, unused, half = (tt.tensor([1.0], requires_grad=True) for _ in range(3))
    frozen = tt.tensor([1.0])
    losses = [lambda: (used * 2).sum(), lambda: (used * half * frozen).sum()]
    nn.parallel.backward_of_sum(losses, [used, unused, half, frozen])
    assert [None if p.grad is None else p.grad.item() for p in (used, unused, half)] == [3.0, None, 1.0]


def test_small_batches_are_not_worth_splitting():
    weight = tt.zeros((1000, 1000))
    assert nn.parallel.worth_splitting([weight], 1000)
    assert not nn.parallel.worth_splitting([weight], 999)
    assert not nn.parallel.worth_splitting([weight.to("gpu")], 1000)


def test_a_loss_of_one_element_and_no_losses():
    weight = tt.tensor([3.0], requires_grad=True)
    assert nn.parallel.backward_of_sum([lambda: weight * 2], [weight]).shape == ()
    with pytest.raises(ValueError, match="no losses"):
        nn.parallel.backward_of_sum([], [weight])
