"""Averages of weights: the means they are, saving and going on, the swap for an evaluation, errors."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn.optim import SGD
from tinytensor.nn.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)


class Counting(nn.Module):
    """A layer with a buffer that changes at each call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("calls", tt.asarray(0.0))

    def forward(self, x):
        self.calls += 1.0
        return self.linear(x)


def weights(model):
    return [p.detach().numpy().copy() for p in model.parameters()]


def walk(model, averaged, steps, seed=0):
    """Change the weights at random; returns what they were after each step."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        with tt.no_grad():
            for parameter in model.parameters():
                parameter.copy_(tt.asarray(rng.normal(size=parameter.shape), dtype=parameter.dtype))
        model(tt.ones((1, 3)))
        averaged.update_parameters(model)
        seen.append(weights(model))
    return seen


@pytest.mark.parametrize("options", [{}, {"avg_fn": get_swa_avg_fn()}, {"multi_avg_fn": get_swa_multi_avg_fn()}])
def test_the_mean_of_all(options):
    model = Counting()
    averaged = AveragedModel(model, **options)
    seen = walk(model, averaged, 5)
    for average, *each in zip(weights(averaged), *seen):
        np.testing.assert_allclose(average, np.mean(each, axis=0), rtol=1e-6, atol=1e-6)
    assert averaged.n_averaged.item() == 5
    assert averaged.module.calls.item() == 5


@pytest.mark.parametrize("options", [{"avg_fn": get_ema_avg_fn(0.75)}, {"multi_avg_fn": get_ema_multi_avg_fn(0.75)}])
def test_the_exponential_moving_average(options):
    model = Counting()
    averaged = AveragedModel(model, use_buffers=True, **options)
    seen = walk(model, averaged, 4)
    factors = [0.75**3, 0.75**2 * 0.25, 0.75 * 0.25, 0.25]
    for average, *each in zip(weights(averaged), *seen):
        expected = sum(factor * value for factor, value in zip(factors, each))
        np.testing.assert_allclose(average, expected, rtol=1e-6, atol=1e-6)
    assert averaged.module.calls.item() == pytest.approx(sum(f * n for f, n in zip(factors, (1, 2, 3, 4))))


def test_the_model_and_its_average_are_apart(device):
    model = nn.Linear(3, 2, device=device)
    averaged = AveragedModel(model)
    before = weights(averaged)
    with tt.no_grad():
        model.weight += 1.0
    assert [a.tolist() for a in weights(averaged)] == [b.tolist() for b in before]
    averaged.update_parameters(model)
    x = tt.ones((1, 3), device=device)
    assert averaged(x).tolist() == model(x).tolist()
    assert averaged.module.weight.device == device
    assert averaged.module.weight.requires_grad


def test_the_swap_and_back():
    model = Counting()
    averaged = AveragedModel(model)
    walk(model, averaged, 3)
    own, means, memory = weights(model), weights(averaged), model.linear.weight._data
    with averaged.swapped_into(model):
        assert [w.tolist() for w in weights(model)] == [w.tolist() for w in means]
        assert model.linear.weight._data is memory  # so that an optimiser still knows it
    assert [w.tolist() for w in weights(model)] == [w.tolist() for w in own]
    with pytest.raises(KeyError), averaged.swapped_into(model):
        raise KeyError
    assert [w.tolist() for w in weights(model)] == [w.tolist() for w in own]
    assert [w.tolist() for w in weights(averaged)] == [w.tolist() for w in means]


def test_a_graph_from_before_the_swap_is_stopped():
    model = nn.Linear(3, 2)
    averaged = AveragedModel(model)
    loss = tt.sum(model(tt.ones((1, 3), dtype=tt.float32).requires_grad_()) ** 2)
    with averaged.swapped_into(model), pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_it_is_saved_and_goes_on(tmp_path):
    model = Counting()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    walk(model, averaged, 3)
    nn.save(averaged.state_dict(), tmp_path / "average.safetensors")
    resumed = AveragedModel(Counting(), multi_avg_fn=get_ema_multi_avg_fn(0.9))
    resumed.load_state_dict(nn.load(tmp_path / "average.safetensors"))
    assert list(resumed.state_dict()) == [
        "n_averaged", "module.calls", "module.linear.weight", "module.linear.bias",
    ]  # fmt: skip
    for each in (averaged, resumed):
        walk(model, each, 3, seed=1)
    assert resumed.n_averaged.item() == 6
    assert [w.tolist() for w in weights(resumed)] == [w.tolist() for w in weights(averaged)]


class Centring(nn.Module):
    """The smallest batch normalisation: the mean alone."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.register_buffer("running_mean", tt.zeros(3))
        self.seen = 0

    def reset_running_stats(self):
        self.running_mean.copy_(0.0)
        self.seen = 0

    def forward(self, x):
        if self.training:
            self.seen += 1
            share = 1 / self.seen if self.momentum is None else self.momentum
            self.running_mean.copy_(self.running_mean + share * (tt.mean(x, 0) - self.running_mean))
        return x - self.running_mean


@pytest.mark.parametrize("pack", [lambda x: x, lambda x: (x, 0), lambda x: [x]])
@pytest.mark.parametrize("training", [True, False])
def test_normalisations_see_the_data_anew(pack, training):
    model = nn.Sequential(Centring()).train(training)
    model[0].running_mean.copy_(100.0)
    batches = [float(i) * tt.ones((2, 3)) for i in (1, 2, 6)]
    update_bn(map(pack, batches), model)
    assert model[0].running_mean.tolist() == pytest.approx([3.0] * 3)
    assert (model[0].momentum, model.training) == (0.1, training)
    update_bn(iter([object()]), nn.Linear(3, 2))  # nothing to update: nothing is read


def test_float16_stays_float16():
    model = nn.Linear(3, 2, dtype=tt.float16)
    averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(np.float64(0.5)))
    for _ in range(2):
        averaged.update_parameters(model)
    assert averaged.module.weight.dtype == tt.float16


def test_what_is_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="avg_fn or multi_avg_fn, not both"):
        AveragedModel(model, avg_fn=get_swa_avg_fn(), multi_avg_fn=get_swa_multi_avg_fn())
    averaged = AveragedModel(model)
    for other, shapes in (
        (nn.Linear(4, 2), r"\(2, 3\) in .* \(2, 4\) in"),
        (nn.Linear(3, 2, bias=False), r"\(2,\) in .* N"),
    ):
        with pytest.raises(ValueError, match=f"another model than the one it was made of: Tensor . has shape {shapes}"):
            averaged.update_parameters(other)
        with pytest.raises(ValueError, match="another model"), averaged.swapped_into(other):
            pass
    assert averaged.n_averaged.item() == 0
    for make in (get_ema_avg_fn, get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"decay must be from 0 to 1, got 1\.5"):
            make(1.5)
    optimizer = SGD(model.parameters())
    with pytest.raises(ValueError, match="anneal_strategy must be 'cos' or 'linear'"):
        SWALR(optimizer, 0.1, anneal_strategy="none")
    with pytest.raises(ValueError, match="anneal_epochs must be an integer of at least 0"):
        SWALR(optimizer, 0.1, anneal_epochs=-1)


@pytest.mark.parametrize(("strategy", "half"), [("cos", 0.3), ("linear", 0.3)])
def test_the_rate_of_averaging(strategy, half):
    optimizer = SGD([tt.zeros(1)], lr=0.5)
    scheduler = SWALR(optimizer, 0.1, 10, strategy)
    found = []
    for _ in range(15):
        found.append(scheduler.get_last_lr()[0])
        scheduler.step()
    assert found[0] == 0.5
    assert found[5] == pytest.approx(half)
    np.testing.assert_allclose(found[10:], 0.1, rtol=1e-12)
