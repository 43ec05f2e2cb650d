"""The optimisers beside SGD and Adam: what all of them promise, and what is each one's own.

`tests/parity/test_optim_parity.py` compares all but Lion, which PyTorch lacks, with PyTorch's.
"""

import math
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import optim
from tinytensor.nn.optim import Adadelta, Adagrad, Adamax, Lion, Muon, NAdam, RAdam, RMSprop
from tinytensor.nn.optim.muon import orthogonalized

from .test_optim import give, gradients, make, train

KINDS = {
    "Adadelta": lambda p, **s: Adadelta(p, **s),
    "Adagrad": lambda p, **s: Adagrad(p, lr_decay=0.1, **s),
    "Adamax": lambda p, **s: Adamax(p, **s),
    "Lion": lambda p, **s: Lion(p, **s),
    "Muon": lambda p, **s: Muon(p, **s),
    "NAdam": lambda p, **s: NAdam(p, **s),
    "RAdam": lambda p, **s: RAdam(p, betas=(0.5, 0.9), **s),  # is rectified from the sixth step on
    "RMSprop": lambda p, **s: RMSprop(p, momentum=0.9, centered=True, **s),
}
each = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def test_all_are_here():
    assert set(KINDS) | {"SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler", "swa_utils"} >= {*optim.__all__} - {
        "ZeroRedundancyOptimizer"
    }  # which is around another


def test_they_are_loaded_when_they_are_asked_for():
    code = """
import sys
from tinytensor import nn
names = ("adadelta", "adagrad", "adamax", "lion", "muon", "nadam", "radam", "rmsprop", "swa_utils")
print([name for name in names if f"tinytensor.nn.optim.{name}" in sys.modules])
print(set(nn.optim.__all__) <= set(dir(nn.optim)))
nn.optim.Lion, nn.optim.swa_utils.AveragedModel
print([name for name in names if f"tinytensor.nn.optim.{name}" in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\nTrue\n['lion', 'swa_utils']\n"


@each
def test_it_goes_downhill(kind, device):
    parameter = make((4, 5), device)
    optimizer = kind([parameter], lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = tt.sum(parameter**2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[10] < losses[0]


@each
def test_maximize_is_the_negative_gradient(kind):
    if "maximize" not in kind([make((2, 2))]).defaults:
        pytest.skip("as in PyTorch, it has no maximize")
    up, down = make((4, 5)), make((4, 5))
    for parameter, sign, maximize in ((up, 1, True), (down, -1, False)):
        optimizer = kind([parameter], weight_decay=0.1, maximize=maximize)
        for values in gradients((4, 5)):
            give(parameter, sign * values)
            optimizer.step()
    assert up.tolist() == down.tolist()


@each
def test_update_changes_nothing(kind):
    parameter = make((2, 3))
    optimizer = kind([parameter])
    give(parameter, np.ones((2, 3)))
    optimizer.step()
    state = optimizer.state[parameter]
    tensors = [parameter.detach(), parameter.grad, *(v for v in state.values() if isinstance(v, tt.Tensor))]
    before, names = [t.tolist() for t in tensors], dict(state)
    theta, remembered = optimizer.update(parameter.detach(), parameter.grad, state, optimizer.param_groups[0])
    assert [t.tolist() for t in tensors] == before
    assert state == names
    optimizer.step()
    assert parameter.tolist() == theta.tolist()
    assert set(optimizer.state[parameter]) == set(remembered)


@each
def test_float32_stays_float32(kind, device):
    parameter = make((4, 5), device, tt.float32)
    optimizer = kind([parameter])
    optimizer.param_groups[0].update(lr=np.float64(0.1), weight_decay=np.float64(0.3))
    train(optimizer, [parameter], 3, seed=0)
    tensors = [parameter, *(v for v in optimizer.state[parameter].values() if isinstance(v, tt.Tensor))]
    assert [t.dtype for t in tensors] == [tt.float32] * len(tensors)


@each
def test_float16_is_computed_in_32_bits(kind, device):
    half, single = (make((4, 5), device, dtype) for dtype in (tt.float16, tt.float32))
    mine, expected = kind([half]), kind([single])
    for values in gradients((4, 5)):
        with tt.no_grad():
            single.copy_(half)
        for parameter in (half, single):
            give(parameter, (np.clip(values, -1, 1) * 1e-4).astype(np.float16))
        mine.step()
        expected.step()
        assert half.dtype == tt.float16
        np.testing.assert_array_equal(half.detach().numpy(), single.detach().numpy().astype(np.float16))
    for name, value in mine.state[half].items():
        if isinstance(value, tt.Tensor):
            assert value.dtype == tt.float32
            np.testing.assert_array_equal(value.numpy(), expected.state[single][name].numpy())


@each
def test_a_parameter_without_gradient_is_left_alone(kind):
    used, unused = make((3, 3)), make((3, 3))
    before = unused.tolist()
    optimizer = kind([used, unused], lr=0.1, weight_decay=0.5)
    give(used, np.ones((3, 3)))
    optimizer.step()
    assert unused.tolist() == before
    assert used.tolist() != before


@each
def test_a_loaded_state_goes_on_bit_for_bit(kind, device):
    through = [make((3, 3), device), make((2, 2), device)]
    optimizer = kind([{"params": through[:1]}, {"params": through[1:], "lr": 0.3}])
    train(optimizer, through, 3, seed=1)
    resumed = [p.detach().clone().requires_grad_() for p in through]
    other = kind(resumed[:1])
    other.add_param_group({"params": resumed[1:]})
    other.load_state_dict(optimizer.state_dict())
    for parameters, each_of_both in ((through, optimizer), (resumed, other)):
        train(each_of_both, parameters, 3, seed=2)
    assert [p.tolist() for p in resumed] == [p.tolist() for p in through]


@each
def test_settings_and_states_that_do_not_fit(kind):
    parameter = make((2, 2))
    for name in ("lr", "weight_decay"):
        with pytest.raises(ValueError, match=f": {name} must be"):
            kind([{"params": [parameter], name: math.nan}])
    optimizer = kind([parameter])
    train(optimizer, [parameter], 1, seed=0)
    state = optimizer.state_dict()
    lost = list(state["state"][0])[-1]
    del state["state"][0][lost]
    if state["state"][0]:
        with pytest.raises(ValueError, match=rf"parameter 0 lacks {lost}"):
            optimizer.load_state_dict(state)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (RMSprop, {"alpha": 1.0}, "RMSprop: alpha must be at least 0 and below 1"),
        (RMSprop, {"momentum": -1.0}, "RMSprop: momentum"),
        (Adagrad, {"lr_decay": -1.0}, "Adagrad: lr_decay"),
        (Adadelta, {"rho": 1.5}, "Adadelta: rho"),
        (NAdam, {"momentum_decay": -1.0}, "NAdam: momentum_decay"),
        (RAdam, {"betas": (0.9, 1.0)}, "RAdam: betas"),
        (Adamax, {"eps": -1.0}, "Adamax: eps"),
        (Lion, {"betas": (0.9,)}, "Lion: betas must be two numbers"),
        (Muon, {"ns_steps": 100}, "Muon: ns_steps must be at least 0 and below 100"),
        (Muon, {"ns_coefficients": (1.0, 2.0)}, "Muon: ns_coefficients must be three numbers"),
        (Muon, {"adjust_lr_fn": "mine"}, "Muon: adjust_lr_fn must be None, 'original'"),
    ],
)
def test_settings_of_one_optimizer_out_of_range(kind, settings, words):
    with pytest.raises(ValueError, match=words):
        kind([make((2, 2))], **settings)


# ---- the papers' algorithms on arrays: all places that the gradients of some steps lead to


def adadelta(theta, gradients, rho=0.9, eps=1e-6):
    v, u = 0.0, np.zeros_like(theta)
    for g in gradients:
        v = rho * v + (1 - rho) * g * g
        d = np.sqrt((u + eps) / (v + eps)) * g
        u = rho * u + (1 - rho) * d * d
        yield (theta := theta - d)


def adagrad(theta, gradients, lr=0.01):
    for t in range(len(gradients)):
        total = sum(g * g for g in gradients[: t + 1])
        yield (theta := theta - lr / (1 + 0.1 * t) * gradients[t] / (np.sqrt(total) + 1e-10))


def adamax(theta, gradients, lr=2e-3):
    m, u = 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, u = 0.9 * m + 0.1 * g, np.maximum(0.999 * u, np.abs(g) + 1e-8)
        yield (theta := theta - lr / (1 - 0.9**t) * m / u)


def nadam(theta, gradients, lr=2e-3):
    mu = [0.9 * (1 - 0.96 ** (0.004 * t) / 2) for t in range(1, len(gradients) + 2)]
    m, v = 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        ahead = mu[t] * m / (1 - np.prod(mu[: t + 1])) + (1 - mu[t - 1]) * g / (1 - np.prod(mu[:t]))
        yield (theta := theta - lr * ahead / (np.sqrt(v / (1 - 0.999**t)) + 1e-8))


def radam(theta, gradients, lr=1e-3, b1=0.5, b2=0.9):
    m, v, longest = 0.0, 0.0, 2 / (1 - b2) - 1
    for t, g in enumerate(gradients, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        step, length = m / (1 - b1**t), longest - 2 * t * b2**t / (1 - b2**t)
        if length > 5:
            variances = [(n - 4) * (n - 2) / n for n in (length, longest)]
            step = step * np.sqrt(variances[0] / variances[1]) * np.sqrt(1 - b2**t) / (np.sqrt(v) + 1e-8)
        yield (theta := theta - lr * step)


def rmsprop(theta, gradients, lr=0.01):
    v, a, b = 0.0, 0.0, 0.0
    for g in gradients:
        v, a = 0.99 * v + 0.01 * g * g, 0.99 * a + 0.01 * g
        b = 0.9 * b + g / (np.sqrt(v - a * a) + 1e-8)
        yield (theta := theta - lr * b)


@pytest.mark.parametrize("formula", [adadelta, adagrad, adamax, nadam, radam, rmsprop], ids=lambda f: f.__name__)
def test_it_is_its_formula(formula, device):
    parameter = make((4, 5), device)
    optimizer = {name.lower(): kind for name, kind in KINDS.items()}[formula.__name__]([parameter])
    steps = gradients((4, 5)) + gradients((4, 5))
    for values, expected in zip(steps, formula(parameter.detach().numpy().copy(), steps), strict=True):
        give(parameter, values)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    assert optimizer.state[parameter]["step"] == 8


# ---- each one's own


def test_lion_is_its_formula(device):
    parameter = make((4, 5), device)
    theta, m = parameter.detach().numpy().copy(), np.zeros((4, 5))
    optimizer = Lion([parameter], lr=0.05, betas=(0.8, 0.9), weight_decay=0.3)
    for g in gradients((4, 5)):
        give(parameter, g)
        theta = theta - 0.05 * (np.sign(0.8 * m + 0.2 * g) + 0.3 * theta)
        m = 0.9 * m + 0.1 * g
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(optimizer.state[parameter]["exp_avg"].numpy(), m, rtol=1e-13)


@pytest.mark.parametrize("shape", [(6, 6), (3, 8), (8, 3)])
def test_muons_direction_is_nearly_orthogonal(shape, device):
    x = make(shape, device).detach()
    u, _, vt = np.linalg.svd(x.numpy(), full_matrices=False)
    found = orthogonalized(x, steps=10).numpy()
    inside = u.T @ found @ vt.T
    np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=1e-12)
    assert np.all((np.diag(inside) > 0.68) & (np.diag(inside) < 1.14))
    np.testing.assert_array_equal(orthogonalized(tt.zeros(shape)).numpy(), np.zeros(shape))


def test_muon_is_for_matrices():
    with pytest.raises(ValueError, match=r"parameter 1 \(3,\) is no matrix; give matrices to Muon, and the rest to A"):
        Muon([make((2, 3)), make((3,))])


def test_rmsprop_of_a_constant_gradient_divides_by_no_root_of_a_negative_number():
    """The variance is 0 but for rounding; PyTorch's parameters become NaN here."""
    parameter = tt.tensor(np.full(1000, 1.0), dtype=tt.float32, requires_grad=True)
    optimizer = RMSprop([parameter], lr=1e-12, alpha=0.5, centered=True)
    values = np.random.default_rng(0).normal(size=1000)
    for _ in range(40):
        give(parameter, values)
        optimizer.step()
        assert np.isfinite(parameter.detach().numpy()).all()


def test_adagrad_begins_with_the_sums_it_is_given():
    first, second = make((2,), dtype=tt.float16), make((3,))
    optimizer = Adagrad([first], initial_accumulator_value=0.25)
    optimizer.add_param_group({"params": [second], "initial_accumulator_value": 4.0})
    assert [state["sum"].tolist() for state in optimizer.state.values()] == [[0.25] * 2, [4.0] * 3]
    assert optimizer.state[first]["sum"].dtype == tt.float32
    give(second, np.ones(3))
    optimizer.step()
    assert optimizer.state[second]["sum"].tolist() == [5.0] * 3
    assert optimizer.state[first]["step"] == 0
