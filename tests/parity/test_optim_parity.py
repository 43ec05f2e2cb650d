"""Optimisers, schedules and clipping give PyTorch's numbers, and their states go over in both directions."""

import copy
import inspect
import math
import warnings

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import optim, utils

torch = pytest.importorskip("torch")

STEPS = 50
SHAPES = [(), (3,), (4, 5)]

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.9, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"rho": 0.95, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "nesterov": False, "weight_decay": 0.3, "ns_steps": 3}),
    ("Muon", {"lr": 0.1, "momentum": 0.5, "adjust_lr_fn": "match_rms_adamw"}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in OPTIMIZERS]


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """PyTorch keeps NAdam's product of momenta in the default dtype, and Muon's matrices in 8 bits of precision."""
    torch.set_default_dtype(torch.float64)
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    yield
    torch.set_default_dtype(torch.float32)


def shapes_for(name):
    return [(3, 3), (2, 7), (6, 4)] if name == "Muon" else SHAPES


def make_pair(dtype="float64", shapes=SHAPES, seed=0):
    values = [np.random.default_rng((seed, i)).normal(size=shape).astype(dtype) for i, shape in enumerate(shapes)]
    ours = [tt.tensor(v, requires_grad=True) for v in values]
    theirs = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    return ours, theirs


def give(ours, theirs, step):
    for i, (our, their) in enumerate(zip(ours, theirs)):
        values = np.random.default_rng((step, i)).normal(size=our.shape).astype(our.dtype)
        our.grad, their.grad = tt.tensor(values), torch.tensor(values)


def assert_near(ours, theirs, tolerance):
    for our, their in zip(ours, theirs):
        np.testing.assert_allclose(
            our.detach().numpy(), their.detach().numpy(), rtol=tolerance, atol=tolerance, strict=True
        )


def to_torch(value):
    if isinstance(value, tt.Tensor):
        return torch.tensor(value.numpy())
    if isinstance(value, dict):
        return {key: to_torch(item) for key, item in value.items()}
    return [to_torch(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 3e-6)])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=IDS)
def test_optimizer(name, options, dtype, tolerance):
    ours, theirs = make_pair(dtype, shapes_for(name))
    our = getattr(optim, name)(ours, **options)
    their = getattr(torch.optim, name)(theirs, **options)
    for step in range(STEPS):
        give(ours, theirs, step)
        if step == 3:
            ours[1].grad = theirs[1].grad = None
        our.step()
        their.step()
        assert_near(ours, theirs, tolerance)


def test_defaults():
    for name in dict.fromkeys(name for name, _ in OPTIMIZERS):
        theirs = getattr(torch.optim, name)([torch.zeros(1, 1)]).defaults
        ours = getattr(optim, name)([tt.zeros((1, 1))]).defaults
        assert ours == {key: theirs[key] for key in ours}
        assert set(theirs) - set(ours) <= {"foreach", "fused", "capturable", "differentiable"}


def test_groups():
    ours, theirs = make_pair()
    pair = []
    for module, parameters in ((optim, ours), (torch.optim, theirs)):
        groups = [{"params": parameters[:1]}, {"params": parameters[1:2], "lr": 0.3, "weight_decay": 0.0}]
        optimizer = module.AdamW(groups, lr=0.1, weight_decay=0.2)
        optimizer.add_param_group({"params": parameters[2:], "betas": (0.5, 0.6)})
        pair.append(optimizer)
    for step in range(STEPS):
        give(ours, theirs, step)
        for optimizer in pair:
            optimizer.step()
    assert_near(ours, theirs, 1e-12)


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=IDS)
def test_states_go_over_in_both_directions(name, options):
    ours, theirs = make_pair(shapes=shapes_for(name))
    our = getattr(optim, name)(ours, **options)
    their = getattr(torch.optim, name)(theirs, **options)
    for step in range(3):
        give(ours, theirs, step)
        our.step()
        their.step()
    # Both go on from the other's state, in optimisers that were made with other settings.
    new_our = getattr(optim, name)(ours, lr=7.0)
    new_their = getattr(torch.optim, name)(theirs, lr=7.0)
    new_our.load_state_dict(their.state_dict())
    new_their.load_state_dict(to_torch(our.state_dict()))
    for step in range(3, 8):
        give(ours, theirs, step)
        new_our.step()
        new_their.step()
        assert_near(ours, theirs, 1e-12)
    ours_saved, theirs_saved = new_our.state_dict(), new_their.state_dict()
    assert list(ours_saved["state"]) == list(theirs_saved["state"])
    assert [set(s) for s in ours_saved["state"].values()] == [set(s) for s in theirs_saved["state"].values()]
    for our_state, their_state in zip(ours_saved["state"].values(), theirs_saved["state"].values()):
        for key, value in our_state.items():
            np.testing.assert_allclose(np.asarray(value), np.asarray(their_state[key]), rtol=1e-12, atol=1e-12)


def test_muon_computes_in_the_dtype_of_its_parameters(monkeypatch):
    """PyTorch rounds to bfloat16 on the way; the first steps differ by that alone."""
    monkeypatch.undo()
    ours, theirs = make_pair("float32", [(6, 4)])
    our, their = optim.Muon(ours, lr=0.1), torch.optim.Muon(theirs, lr=0.1)
    for step in range(3):
        give(ours, theirs, step)
        our.step()
        their.step()
        assert_near(ours, theirs, 0.02)


def quietly(function):
    """PyTorch warns when a schedule goes on without a step of its optimiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function()


SCHEDULERS = {
    "LambdaLR": ((lambda epoch: 0.95**epoch,), {}),
    "StepLR": ((7,), {"gamma": 0.5}),
    "MultiStepLR": (([3, 10, 10, 30],), {"gamma": 0.5}),
    "CosineAnnealingLR": ((10,), {"eta_min": 0.01}),
    "ConstantLR": ((), {"factor": 0.2, "total_iters": 7}),
    "LinearLR": ((), {"start_factor": 0.1, "end_factor": 0.7, "total_iters": 9}),
    "ExponentialLR": ((0.97,), {}),
    "PolynomialLR": ((), {"total_iters": 20, "power": 1.7}),
    "MultiplicativeLR": ((lambda epoch: 1 - 1 / (epoch + 5),), {}),
    "CosineAnnealingWarmRestarts": ((12,), {"T_mult": 2, "eta_min": 0.01}),
    "CyclicLR": (([0.01, 0.02], [0.1, 0.5]), {"step_size_up": 7, "step_size_down": 4, "mode": "triangular2"}),
}
CYCLES = [
    ("OneCycleLR", (0.4,), {"total_steps": 300}),
    ("OneCycleLR", ([0.4, 0.2],), {"epochs": 20, "steps_per_epoch": 15, "three_phase": True, "pct_start": 0.4}),
    ("OneCycleLR", (0.4,), {"total_steps": 300, "anneal_strategy": "linear", "cycle_momentum": False}),
    ("OneCycleLR", (0.4,), {"total_steps": 300, "div_factor": 10, "final_div_factor": 7, "max_momentum": [0.9, 0.8]}),
    ("CyclicLR", (0.01, [0.1, 0.2]), {"step_size_up": 20, "base_momentum": 0.7}),
    ("CyclicLR", (0.01, 0.1), {"step_size_up": 9, "step_size_down": 13, "mode": "exp_range", "gamma": 0.99}),
    ("CyclicLR", (0.01, 0.1), {"step_size_up": 9, "scale_fn": lambda x: 1 / x, "scale_mode": "cycle"}),
    ("CyclicLR", (0.01, 0.1), {"step_size_up": 9, "mode": "triangular2", "cycle_momentum": False}),
]


def groups_of(module, kind="SGD"):
    zeros = tt.zeros if module is optim else torch.zeros
    groups = [{"params": [zeros(1)], "lr": 0.5}, {"params": [zeros(1)]}]
    return getattr(module, kind)(groups, lr=0.3)


def assert_same_rates(pair, steps):
    """And the same momenta, through so many steps."""
    for _ in range(steps):
        rates = [[group["lr"] for group in scheduler.optimizer.param_groups] for scheduler in pair]
        np.testing.assert_allclose(*rates, rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(*[scheduler.get_last_lr() for scheduler in pair], rtol=1e-11, atol=1e-15)
        momenta = [[g.get("betas", g.get("momentum")) for g in s.optimizer.param_groups] for s in pair]
        np.testing.assert_allclose(*momenta, rtol=1e-11)
        for scheduler in pair:
            quietly(scheduler.step)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "args", "options"), CYCLES)
def test_cycles(name, args, options, kind):
    if kind == "SGD":
        options = {"cycle_momentum": True, **options}
    pair = [getattr(m.lr_scheduler, name)(groups_of(m, kind), *args, **options) for m in (optim, torch.optim)]
    assert_same_rates(pair, 299)


SEQUENCES = {
    "warm-up and cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=20), s.CosineAnnealingLR(o, 100)], [20]
    ),
    "many": lambda s, o: s.SequentialLR(
        o,
        [
            s.ConstantLR(o, 0.2, 100),
            s.ExponentialLR(o, 0.95),
            s.MultiplicativeLR(o, lambda epoch: 0.97),
            s.StepLR(o, 3, 0.8),
            s.PolynomialLR(o, 30, 2.0),
            s.CosineAnnealingWarmRestarts(o, 7, 2),
            s.LinearLR(o, 0.5, total_iters=10),
            s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
            s.MultiStepLR(o, [2, 5], 0.5),
        ],
        [10, 30, 50, 70, 110, 150, 170, 190],
    ),
    "one cycle, then down": lambda s, o: s.SequentialLR(
        o, [s.OneCycleLR(o, 0.4, total_steps=50), s.ExponentialLR(o, 0.9)], [50]
    ),
    "begins at the second": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [0]),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.98)]),
    "chained of three": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, total_iters=20), s.CosineAnnealingLR(o, 100), s.MultiStepLR(o, [30, 60], 0.5)], o
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_schedules_made_of_schedules(name):
    pair = [SEQUENCES[name](m.lr_scheduler, groups_of(m)) for m in (optim, torch.optim)]
    assert_same_rates(pair, 220)


@pytest.mark.parametrize("name", SEQUENCES)
def test_states_of_schedules_made_of_schedules(name):
    pair, new = ([SEQUENCES[name](m.lr_scheduler, groups_of(m)) for m in (optim, torch.optim)] for _ in range(2))
    for scheduler in pair:
        for _ in range(35):
            quietly(scheduler.step)
    for target, source in ((new[0], pair[1]), (new[1], pair[0])):
        target.load_state_dict(copy.deepcopy(source.state_dict()))
        for into, group in zip(target.optimizer.param_groups, source.optimizer.param_groups):
            into["lr"] = group["lr"]
    assert_same_rates(new, 150)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "factor": 0.5, "patience": 2, "cooldown": 3},
        {"factor": 0.5, "patience": 0, "threshold": 0.1, "min_lr": [0.01, 0.1]},
        {"threshold_mode": "abs", "threshold": 0.3, "patience": 3, "eps": 0.01},
        {"mode": "max", "threshold_mode": "abs", "threshold": 0.3, "patience": 1},
    ],
)
def test_the_plateau(options):
    pair, new = (
        [m.lr_scheduler.ReduceLROnPlateau(groups_of(m), **options) for m in (optim, torch.optim)] for _ in range(2)
    )
    losses = np.random.default_rng(0).normal(size=300).cumsum() / 10
    for i, loss in enumerate(losses):
        for scheduler in pair:
            scheduler.step(loss)
        assert pair[0].get_last_lr() == pair[1].get_last_lr()
        if i == 100:
            for target, source in ((new[0], pair[1]), (new[1], pair[0])):
                target.load_state_dict(source.state_dict())
                for into, group in zip(target.optimizer.param_groups, source.optimizer.param_groups):
                    into["lr"] = group["lr"]
            pair = new
    assert pair[0].get_last_lr()[0] < 0.5
    ours, theirs = (scheduler.state_dict() for scheduler in pair)
    assert set(ours) == set(theirs)


def test_arguments_of_schedules_are_theirs():
    ours, theirs = optim.lr_scheduler, torch.optim.lr_scheduler
    for name in set(ours.__all__) - {"TransformerLR", "LRScheduler"}:
        mine, expected = (inspect.signature(getattr(module, name)).parameters for module in (ours, theirs))
        assert [(p.name, p.default) for p in mine.values()] == [(p.name, p.default) for p in expected.values()], name


@pytest.mark.parametrize("last_epoch", [-1, 3, 10])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedule(name, last_epoch):
    args, options = SCHEDULERS[name]
    pair = []
    for module, zeros in ((optim, tt.zeros), (torch.optim, torch.zeros)):
        groups = [{"params": [zeros(1)], "initial_lr": 0.5}, {"params": [zeros(1)], "lr": 0.2, "initial_lr": 0.4}]
        for group in groups if name == "CyclicLR" else ():
            group.update(base_momentum=0.8, max_momentum=0.9)
        optimizer = module.SGD(groups, lr=0.3)
        pair.append(getattr(module.lr_scheduler, name)(optimizer, *args, last_epoch=last_epoch, **options))
    assert_same_rates(pair, 200)


def test_schedules_in_a_chain():
    rates = []
    for module, zeros in ((optim, tt.zeros), (torch.optim, torch.zeros)):
        optimizer = module.SGD([zeros(1)], lr=0.3)
        s = module.lr_scheduler
        chain = [s.StepLR(optimizer, 4, 0.5), s.CosineAnnealingLR(optimizer, 10), s.MultiStepLR(optimizer, [5], 0.1)]
        for i in range(50):
            if i == 20:
                optimizer.param_groups[0]["lr"] = 0.7
            for scheduler in chain:
                quietly(scheduler.step)
            rates.append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(rates[:50], rates[50:], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_states_of_schedules_go_over_in_both_directions(name):
    args, options = SCHEDULERS[name]
    pair, new = [], []
    for module, zeros in ((optim, tt.zeros), (torch.optim, torch.zeros)):
        for made in (pair, new):
            optimizer = module.SGD([{"params": [zeros(1)]}, {"params": [zeros(1)], "lr": 0.1}], lr=0.3)
            made.append(getattr(module.lr_scheduler, name)(optimizer, *args, **options))
        for _ in range(12):
            quietly(pair[-1].step)
    for target, source in ((new[0], pair[1]), (new[1], pair[0])):
        target.load_state_dict(copy.deepcopy(source.state_dict()))
        for into, group in zip(target.optimizer.param_groups, source.optimizer.param_groups):
            into["lr"] = group["lr"]
        assert target.get_last_lr() == source.get_last_lr()
    for _ in range(20):
        for scheduler in new:
            quietly(scheduler.step)
        np.testing.assert_allclose(new[0].get_last_lr(), new[1].get_last_lr(), rtol=1e-12, atol=1e-15)


def test_the_transformers_schedule_is_the_lambda_people_write():
    theirs = torch.optim.lr_scheduler.LambdaLR(
        torch.optim.Adam([torch.zeros(1)], lr=1.0),
        lambda epoch: 64**-0.5 * min((epoch + 1) ** -0.5, (epoch + 1) * 10**-1.5),
    )
    ours = optim.lr_scheduler.TransformerLR(optim.Adam([tt.zeros(1)]), 64, 10)
    for _ in range(50):
        np.testing.assert_allclose(ours.get_last_lr(), theirs.get_last_lr(), rtol=1e-12)
        ours.step()
        quietly(theirs.step)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1e6])
def test_clip_grad_norm(max_norm, norm_type, dtype, tolerance):
    ours, theirs = make_pair(dtype)
    give(ours, theirs, 0)
    our = utils.clip_grad_norm_(ours, max_norm, norm_type)
    their = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert_near([our], [their], tolerance)
    assert_near([p.grad for p in ours], [p.grad for p in theirs], tolerance)


def test_clip_grad_norm_of_gradients_that_are_not_finite():
    for values in ([1.0, math.inf], [1.0, math.nan], [0.0, 0.0]):
        ours, theirs = make_pair(shapes=[(2,)])
        ours[0].grad, theirs[0].grad = tt.tensor(values, dtype=tt.float64), torch.tensor(values).double()
        our = utils.clip_grad_norm_(ours, 1.0)
        their = torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        assert_near([our, ours[0].grad], [their, theirs[0].grad], 0.0)


def test_clip_grad_value():
    ours, theirs = make_pair()
    give(ours, theirs, 0)
    utils.clip_grad_value_(ours, 0.3)
    torch.nn.utils.clip_grad_value_(theirs, 0.3)
    assert_near([p.grad for p in ours], [p.grad for p in theirs], 0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda swa: {},
        lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
        lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
        lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn(), "use_buffers": True},
    ],
)
def test_averages_of_weights(make):
    from tinytensor import nn

    mine, theirs = nn.Sequential(nn.Linear(3, 2, dtype=tt.float64)), torch.nn.Sequential(torch.nn.Linear(3, 2))
    averages = [
        module.swa_utils.AveragedModel(model, **make(module.swa_utils))
        for module, model in ((optim, mine), (torch.optim, theirs))
    ]
    for step in range(10):
        for name, values in theirs.state_dict().items():
            new = np.random.default_rng((step, len(name))).normal(size=tuple(values.shape))
            values.copy_(torch.tensor(new))
            dict(mine.named_parameters())[name].data = new
        for averaged, model in zip(averages, (mine, theirs)):
            averaged.update_parameters(model)
    ours, expected = (averaged.state_dict() for averaged in averages)
    assert list(ours) == list(expected)
    assert_near(ours.values(), expected.values(), 1e-12)
    averages[0].load_state_dict({name: value.numpy() for name, value in expected.items()})


@pytest.mark.parametrize("options", [{}, {"anneal_strategy": "linear", "anneal_epochs": 7}, {"anneal_epochs": 0}])
def test_the_rate_of_averaging(options):
    pair, new = ([m.swa_utils.SWALR(groups_of(m), 0.05, **options) for m in (optim, torch.optim)] for _ in range(2))
    assert_same_rates(pair, 5)
    for target, source in ((new[0], pair[1]), (new[1], pair[0])):
        target.load_state_dict(source.state_dict())
        for into, group in zip(target.optimizer.param_groups, source.optimizer.param_groups):
            into["lr"] = group["lr"]
    assert_same_rates(new, 30)
