"""Schedules: closed forms, saving and going on, errors."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.optim import SGD, Adagrad, Adam
from tinytensor.nn.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
    TransformerLR,
)
from tinytensor.nn.optim.swa_utils import SWALR


def make(lr=0.5):
    return SGD([{"params": [tt.zeros(2)]}, {"params": [tt.zeros(3)], "lr": 0.2}], lr=lr)


def rates(scheduler, steps):
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in scheduler.optimizer.param_groups])
        assert scheduler.get_last_lr() == found[-1]
        scheduler.step()
    return np.array(found)


def cosine(epoch, low=0.1, length=10):
    return (1 + np.cos(np.pi * epoch / length)) / 2 * (np.array([[0.5], [0.2]]) - low) + low


def products(e):
    return np.cumprod(np.where(e == 0, 1.0, 0.9 + 0.001 * e))


def turns(e):
    """The place in turns of 5, 10, 20, ... steps, and their lengths."""
    turn = np.floor(np.log2(e / 5 + 1))
    return e - 5 * (2**turn - 1), 0.1, 5 * 2**turn


def triangle(e, up, down):
    """Up from 0 to 1 and down again."""
    place = e % (up + down)
    return np.where(place <= up, place / up, (up + down - place) / down)


BASE = np.array([[0.5], [0.2]])
SCHEDULES = {
    "ConstantLR": (lambda o: ConstantLR(o, 0.25, 7), lambda e: BASE * np.where(e < 7, 0.25, 1)),
    "LinearLR": (lambda o: LinearLR(o, 0.1, 0.7, 20), lambda e: BASE * (0.1 + 0.6 * np.minimum(e, 20) / 20)),
    "ExponentialLR": (lambda o: ExponentialLR(o, 0.9), lambda e: BASE * 0.9**e),
    "PolynomialLR": (lambda o: PolynomialLR(o, 30, 2.5), lambda e: BASE * (1 - np.minimum(e, 30) / 30) ** 2.5),
    "MultiplicativeLR": (lambda o: MultiplicativeLR(o, lambda e: 0.9 + 0.001 * e), lambda e: BASE * products(e)),
    "CosineAnnealingWarmRestarts": (
        lambda o: CosineAnnealingWarmRestarts(o, 5, 2, 0.1),
        lambda e: cosine(*turns(e)),
    ),
    "OneCycleLR": (
        lambda o: OneCycleLR(o, [0.5, 0.2], 51, pct_start=11 / 51, anneal_strategy="linear", cycle_momentum=False),
        lambda e: BASE * np.interp(e, [0, 10, 50], [1 / 25, 1, 1 / 25e4]),
    ),
    "CyclicLR": (
        lambda o: CyclicLR(o, [0.1, 0.05], [0.5, 0.2], 6, 9, cycle_momentum=False),
        lambda e: BASE * triangle(e, 6, 9) + (1 - triangle(e, 6, 9)) * np.array([[0.1], [0.05]]),
    ),
    "SequentialLR": (
        lambda o: SequentialLR(o, [LinearLR(o, 0.1, total_iters=10), ExponentialLR(o, 0.9)], [10]),
        lambda e: BASE * np.where(e < 10, 0.1 + 0.9 * e / 10, 0.9 ** (e - 10)),
    ),
    "ChainedScheduler": (
        lambda o: ChainedScheduler([ConstantLR(o, 0.25, 7), ExponentialLR(o, 0.9)]),
        lambda e: BASE * np.where(e < 7, 0.25, 1) * 0.9**e,
    ),
    "LambdaLR": (lambda o: LambdaLR(o, lambda e: 0.9**e), lambda e: np.array([[0.5], [0.2]]) * 0.9**e),
    "StepLR": (lambda o: StepLR(o, 4, 0.5), lambda e: np.array([[0.5], [0.2]]) * 0.5 ** (e // 4)),
    "MultiStepLR": (
        lambda o: MultiStepLR(o, [3, 8, 8], 0.5),
        lambda e: np.array([[0.5], [0.2]]) * 0.5 ** ((e >= 3) * 1.0 + (e >= 8) * 2.0),
    ),
    "CosineAnnealingLR": (lambda o: CosineAnnealingLR(o, 10, 0.1), cosine),
    "TransformerLR": (
        lambda o: TransformerLR(o, 512, 20, factor=2.0),
        lambda e: np.ones((2, 1)) * 2 * 512**-0.5 * np.minimum((e + 1) ** -0.5, (e + 1) * 20**-1.5),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_closed_form(name):
    build, closed = SCHEDULES[name]
    np.testing.assert_allclose(rates(build(make()), 50), closed(np.arange(50.0)).T, rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_going_on_from_a_state_gives_the_same_rates(name):
    build, _ = SCHEDULES[name]
    through = build(make())
    rates(through, 13)
    resumed = build(make())
    resumed.optimizer.load_state_dict(through.optimizer.state_dict())
    resumed.load_state_dict(through.state_dict())
    assert resumed.get_last_lr() == through.get_last_lr()
    np.testing.assert_array_equal(rates(resumed, 20), rates(through, 20))


def test_every_schedule_is_here():
    from tinytensor.nn.optim import lr_scheduler

    assert set(SCHEDULES) | {"LRScheduler", "ReduceLROnPlateau"} == set(lr_scheduler.__all__)


def test_the_rate_of_the_transformer():
    optimizer = Adam([tt.zeros(1)], betas=(0.9, 0.98), eps=1e-9)
    scheduler = TransformerLR(optimizer, 512, 4000)
    assert math.isclose(optimizer.param_groups[0]["lr"], 512**-0.5 * 4000**-1.5)
    found = rates(scheduler, 6000)[:, 0]
    assert found.argmax() == 3999
    assert math.isclose(found.max(), (512 * 4000) ** -0.5)
    np.testing.assert_allclose(np.diff(found[:4000]), found[0], rtol=1e-9)


def test_what_is_not_given():
    for scheduler in (StepLR(make(), 1), MultiStepLR(make(), [1])):
        np.testing.assert_allclose(rates(scheduler, 2), [[0.5, 0.2], [0.05, 0.02]])
    np.testing.assert_allclose(rates(CosineAnnealingLR(make(), 1), 2), [[0.5, 0.2], [0, 0]], atol=1e-15)
    assert rates(TransformerLR(make(), 1), 1)[0, 0] == pytest.approx(4000**-1.5)
    assert rates(TransformerLR(make(), 1, 1), 1)[0, 0] == 1


def test_one_function_for_each_group():
    scheduler = LambdaLR(make(), [lambda e: 1.0, lambda e: np.float64(e)])
    scheduler.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5, 0.4]
    assert type(scheduler.get_last_lr()[1]) is float
    with pytest.raises(ValueError, match="3 functions for 2 parameter groups"):
        LambdaLR(make(), [lambda e: 1.0] * 3)


def test_the_attributes_of_callable_objects_are_saved():
    class Decay:
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, epoch):
            return self.rate**epoch

    saved = LambdaLR(make(), Decay(0.5)).state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.5}] * 2
    other = LambdaLR(make(), Decay(0.9))
    other.load_state_dict(saved)
    other.step()
    assert other.get_last_lr() == [0.25, 0.1]


def test_two_schedules_work_together():
    optimizer = make(1.0)
    schedulers = StepLR(optimizer, 2, 0.5), MultiStepLR(optimizer, [3], 0.1)
    for _ in range(4):
        for scheduler in schedulers:
            scheduler.step()
    assert math.isclose(optimizer.param_groups[0]["lr"], 0.5**2 * 0.1)


def test_a_rate_changed_by_hand_stays_changed():
    scheduler = StepLR(make(), 2, 0.5)
    scheduler.optimizer.param_groups[0]["lr"] = 0.04
    scheduler.step()
    assert scheduler.get_last_lr()[0] == 0.04
    scheduler.step()
    assert scheduler.get_last_lr()[0] == 0.02


def test_beginning_in_the_middle():
    with pytest.raises(KeyError, match="group 0 has no 'initial_lr'"):
        StepLR(make(), 2, last_epoch=3)
    optimizer = make()
    StepLR(optimizer, 2)
    scheduler = StepLR(optimizer, 2, last_epoch=4)
    assert scheduler.last_epoch == 5
    assert scheduler.base_lrs == [0.5, 0.2]


def test_a_schedule_of_ones_own():
    class Halving(LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    assert rates(Halving(make()), 3)[:, 0].tolist() == [0.5, 0.25, 0.125]


def test_states_that_do_not_fit_change_nothing():
    scheduler = StepLR(make(), 2)
    before = dict(scheduler.state_dict())
    for wrong in (
        CosineAnnealingLR(make(), 3).state_dict(),
        LambdaLR(make(), lambda e: 1.0).state_dict(),
        StepLR(SGD([tt.zeros(1)], lr=0.1), 2).state_dict(),
        {},
    ):
        with pytest.raises(ValueError, match="StepLR: load_state_dict"):
            scheduler.load_state_dict(wrong)
        assert scheduler.state_dict() == before


def test_arguments_out_of_range():
    for build in (
        lambda o: StepLR(o, 0),
        lambda o: CosineAnnealingLR(o, 0),
        lambda o: TransformerLR(o, 0),
        lambda o: TransformerLR(o, 512, 0),
    ):
        with pytest.raises(ValueError, match="at least 1"):
            build(make())
    for build in (lambda o: StepLR(o, 2), lambda o: OneCycleLR(o, 1.0, 9), lambda o: CyclicLR(o, 0.1, 1.0)):
        with pytest.raises(TypeError, match="expected an Optimizer, got a list"):
            build([])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda o: ConstantLR(o, 0.0), "ConstantLR: factor must be above 0"),
        (lambda o: LinearLR(o, 0.0), "LinearLR: start_factor must be above 0"),
        (lambda o: LinearLR(o, 0.5, 2.0), "LinearLR: end_factor must be from 0 to 1"),
        (lambda o: CosineAnnealingWarmRestarts(o, 0), "T_0 must be an integer of at least 1"),
        (lambda o: CosineAnnealingWarmRestarts(o, 3, 0), "T_mult must be an integer of at least 1"),
        (lambda o: OneCycleLR(o, 1.0), "give total_steps, or epochs and steps_per_epoch"),
        (lambda o: OneCycleLR(o, 1.0, 0), "the number of steps must be an integer of at least 1"),
        (lambda o: OneCycleLR(o, 1.0, 9, pct_start=2.0), "pct_start must be from 0 to 1"),
        (lambda o: OneCycleLR(o, 1.0, 9, anneal_strategy="sin"), "anneal_strategy must be 'cos' or 'linear'"),
        (lambda o: OneCycleLR(o, [1.0], 9), "max_lr: got 1 values for 2 parameter groups"),
        (lambda o: CyclicLR(o, 0.1, 1.0, mode="square"), "mode must be one of triangular, triangular2, exp_range"),
        (lambda o: CyclicLR(o, 0.1, 1.0, 0), "it must rise and fall for at least 1 step"),
        (lambda o: ReduceLROnPlateau(o, factor=1.0), "factor must be below 1"),
        (lambda o: ReduceLROnPlateau(o, "low"), "mode must be 'min' or 'max'"),
        (lambda o: ReduceLROnPlateau(o, threshold_mode="none"), "threshold_mode must be 'rel' or 'abs'"),
        (lambda o: ReduceLROnPlateau(o, min_lr=[0.1]), "min_lr: got 1 values for 2 parameter groups"),
        (lambda o: SequentialLR(o, [], []), "SequentialLR: expected at least one scheduler"),
        (lambda o: SequentialLR(o, [StepLR(o, 2)], [3]), "expected 0 milestones for 1 schedulers, got 1"),
        (lambda o: ChainedScheduler([StepLR(o, 2), StepLR(make(), 2)]), "scheduler 1, a StepLR, is of another optim"),
        (lambda o: ChainedScheduler([StepLR(o, 2), ReduceLROnPlateau(o)]), "scheduler 1 is a ReduceLROnPlateau"),
    ],
)
def test_what_a_schedule_refuses(build, words):
    with pytest.raises(ValueError, match=words):
        build(make())


# ---- cycles, restarts, plateaus, combinations


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_the_momentum_of_a_cycle_goes_the_other_way(kind):
    for build in (lambda o: OneCycleLR(o, 1.0, 41, pct_start=21 / 41), lambda o: CyclicLR(o, 0.1, 1.0, 20)):
        optimizer = kind([tt.zeros(1)])
        scheduler, found = build(optimizer), []
        for _ in range(41):
            group = optimizer.param_groups[0]
            found.append((group["lr"], group["betas"][0] if kind is Adam else group["momentum"]))
            scheduler.step()
        lrs, momenta = np.array(found).T
        assert lrs.argmax() == momenta.argmin() == 20
        assert momenta[0] == momenta[-1] == momenta.max()
        assert kind is SGD or optimizer.param_groups[0]["betas"][1] == 0.999


def test_a_cycle_ends_and_needs_a_momentum():
    scheduler = OneCycleLR(make(), 1.0, 3, pct_start=1 / 3)  # the highest rate is the first
    assert rates(scheduler, 3)[:, 0].argmax() == 0
    with pytest.raises(ValueError, match="step 4 of 3; the cycle is over"):
        scheduler.step()
    for build in (lambda o: OneCycleLR(o, 1.0, 9), lambda o: CyclicLR(o, 0.1, 1.0)):
        with pytest.raises(ValueError, match="Adagrad has no momentum and no betas to change; pass cycle_momentum=F"):
            build(Adagrad([tt.zeros(1)]))


def test_the_attributes_of_a_scale_are_saved():
    class Scale:
        factor = 1.0

        def __call__(self, x):
            return self.factor / x

    scale = Scale()
    scale.factor = 0.5
    saved = CyclicLR(make(), 0.1, 1.0, 4, scale_fn=scale).state_dict()
    assert saved["_scale_fn_custom"] == {"factor": 0.5}
    other = CyclicLR(make(), 0.1, 1.0, 4, scale_fn=Scale())
    other.load_state_dict(saved)
    assert rates(other, 9)[4, 0] == pytest.approx(0.1 + 0.9 * 0.5)


def test_restarts_begun_in_the_middle_are_where_they_would_be():
    """PyTorch's are not, behind the first turn."""
    through = CosineAnnealingWarmRestarts(make(), 3, 2)
    expected = rates(through, 60)
    optimizer = make()
    CosineAnnealingWarmRestarts(optimizer, 3, 2)
    begun = CosineAnnealingWarmRestarts(optimizer, 3, 2, last_epoch=24)
    np.testing.assert_allclose(rates(begun, 35), expected[25:], rtol=1e-12)


def test_a_plateau_counts_patience_and_cools_down():
    scheduler = ReduceLROnPlateau(make(1.0), factor=0.5, patience=1, cooldown=2, min_lr=[0.3, 0.2])
    found = []
    for loss in (1.0, tt.tensor(1.0), 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5):
        scheduler.step(loss)
        found.append((scheduler.get_last_lr()[0], scheduler.in_cooldown))
    assert [lr for lr, _ in found] == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]
    assert [i for i, (_, cooling) in enumerate(found) if cooling] == [2, 3, 6, 7]
    scheduler.optimizer.add_param_group({"params": [tt.zeros(1)]})
    scheduler.cooldown_counter = 0
    with pytest.raises(ValueError, match="ReduceLROnPlateau: min_lr has 2 values for 3 parameter groups"):
        scheduler.step(1.0)


def double(epoch):
    return 2.0**epoch


ALONE = {
    "lambda": lambda o: LambdaLR(o, double),
    "multiplicative": lambda o: MultiplicativeLR(o, double),
    "step": lambda o: StepLR(o, 1, 0.5),
    "steps": lambda o: MultiStepLR(o, [2, 3], 0.5),
    "exponential": lambda o: ExponentialLR(o, 0.5),
    "constant": lambda o: ConstantLR(o, 0.5, 4),
    "linear": lambda o: LinearLR(o, 0.5, total_iters=9),
    "polynomial": lambda o: PolynomialLR(o, 9),
    "cosine": lambda o: CosineAnnealingLR(o, 9, 0.1),
    "restarts": lambda o: CosineAnnealingWarmRestarts(o, 4),
    "cyclic": lambda o: CyclicLR(o, 0.1, 1.0, 3),
    "cyclic, no momentum": lambda o: CyclicLR(o, 0.1, 1.0, 3, cycle_momentum=False),
    "one cycle": lambda o: OneCycleLR(o, 1.0, 12),
    "one cycle, no momentum": lambda o: OneCycleLR(o, 1.0, 12, cycle_momentum=False),
    "transformer": lambda o: TransformerLR(o, 16, 4),
    "averages": lambda o: SWALR(o, 0.05, 9),
    "plateau": lambda o: ReduceLROnPlateau(o, factor=0.5, patience=0),
}
TOGETHER = ALONE | {
    "sequence": lambda o: SequentialLR(o, [ConstantLR(o, 0.5, 9), LambdaLR(o, double)], [3]),
    "sequence of sequences": lambda o: SequentialLR(
        o, [StepLR(o, 9), SequentialLR(o, [StepLR(o, 1, 0.5), CosineAnnealingLR(o, 4)], [3])], [3]
    ),
    "chain": lambda o: ChainedScheduler([LambdaLR(o, double), CosineAnnealingWarmRestarts(o, 4)]),
}


def go(scheduler, steps):
    for _ in range(steps):
        scheduler.step(*[1.0] * isinstance(scheduler, ReduceLROnPlateau))


def joined(name, first=2):
    """A schedule of a group, which another one has joined after some steps."""
    scheduler = TOGETHER[name](SGD([tt.zeros(2)], lr=0.5, momentum=0.9))
    go(scheduler, first)
    scheduler.optimizer.add_param_group({"params": [tt.zeros(3)], "lr": 0.2})
    return scheduler


@pytest.mark.parametrize("name", TOGETHER)
def test_a_group_that_joins_follows_the_schedule(name):
    scheduler, found = joined(name), []
    for _ in range(5):
        go(scheduler, 1)
        found.append([group["lr"] for group in scheduler.optimizer.param_groups])
        assert scheduler.get_last_lr() == found[-1]
    ours, theirs = np.array(found).T
    assert theirs[-1] != 0.2
    if name in ("lambda", "restarts"):
        np.testing.assert_allclose(theirs, 0.4 * ours)
    if name.startswith(("cyclic", "one cycle", "transformer")):
        groups = scheduler.optimizer.param_groups
        np.testing.assert_array_equal(theirs, ours)
        assert groups[0]["momentum"] == groups[1]["momentum"]
        assert (groups[0]["momentum"] != 0.9) == (name in ("cyclic", "one cycle"))


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("name", TOGETHER)
def test_a_schedule_with_a_group_that_joined_goes_on_from_its_state(name, early, steps):
    """Also where the state is saved at once; the program that goes on makes the schedule before or after the group."""
    scheduler = joined(name)
    go(scheduler, steps)
    optimizer = SGD([tt.zeros(2)], lr=0.5, momentum=0.9)
    other = TOGETHER[name](optimizer) if early else None
    optimizer.add_param_group({"params": [tt.zeros(3)], "lr": 0.2})
    other = other or TOGETHER[name](optimizer)
    optimizer.load_state_dict(scheduler.optimizer.state_dict())
    other.load_state_dict(scheduler.state_dict())
    for _ in range(5):
        go(scheduler, 1)
        go(other, 1)
        assert optimizer.param_groups[1]["lr"] == scheduler.optimizer.param_groups[1]["lr"]
        assert other.get_last_lr() == scheduler.get_last_lr()


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda o: LambdaLR(o, [double, lambda epoch: 1.0]), "lr_lambda"),
        (lambda o: MultiplicativeLR(o, [double, lambda epoch: 1.0]), "lr_lambda"),
        (lambda o: CyclicLR(o, [0.1, 0.2], 1.0), "base_lr"),
        (lambda o: CyclicLR(o, 0.1, [1.0, 2.0]), "max_lr"),
        (lambda o: CyclicLR(o, 0.1, 1.0, base_momentum=[0.1, 0.2]), "base_momentum"),
        (lambda o: OneCycleLR(o, [1.0, 2.0], 9), "max_lr"),
        (lambda o: OneCycleLR(o, 1.0, 9, max_momentum=[0.8, 0.9]), "max_momentum"),
        (lambda o: SWALR(o, [0.1, 0.2]), "swa_lr"),
    ],
)
def test_a_group_that_joins_one_with_values_for_each_group_is_refused(build, name):
    scheduler = build(make())
    scheduler.optimizer.add_param_group({"params": [tt.zeros(1)]})
    for _ in range(2):
        with pytest.raises(ValueError, match=f": a parameter group was added, but the others differ in {name};"):
            scheduler.step()


def test_a_schedule_of_ones_own_that_forgets_a_group_is_refused():
    class Mine(LRScheduler):
        def get_lr(self):
            return [0.1, 0.2]

    scheduler = Mine(make())
    scheduler.optimizer.add_param_group({"params": [tt.zeros(1)]})
    with pytest.raises(ValueError, match="Mine: get_lr gave 2 rates for 3 parameter groups"):
        scheduler.step()


def test_combinations_within_combinations():
    def build(o):
        warm_up = SequentialLR(o, [ConstantLR(o, 0.5, 100), LinearLR(o, 0.5, total_iters=4)], [3])
        decay = ChainedScheduler([ExponentialLR(o, 0.9), ConstantLR(o, 0.1, 2)])
        return SequentialLR(o, [warm_up, decay], [10])

    found = rates(build(make(1.0)), 14)[:, 0]
    first = [0.5] * 4 + [0.625, 0.75, 0.875, 1, 1, 1]
    np.testing.assert_allclose(found, [*first, 0.1, 0.1 * 0.9, 0.9**2, 0.9**3], rtol=1e-12)


def test_a_chain_may_be_the_first_of_a_sequence():
    def build(o):
        chain = ChainedScheduler([ConstantLR(o, 0.5, 2), ExponentialLR(o, 0.9)])
        return SequentialLR(o, [chain, StepLR(o, 2, 0.1)], [4])

    found = rates(build(make(1.0)), 7)[:, 0]
    np.testing.assert_allclose(found, [0.5, 0.45, 0.81, 0.729, 1, 1, 0.1], rtol=1e-12)


def test_a_sequence_of_schedules_that_go_on():
    optimizer = make()
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    first = ExponentialLR(optimizer, 0.5, last_epoch=4)
    scheduler = SequentialLR(optimizer, [first, StepLR(optimizer, 2)], [9], last_epoch=4)
    assert (scheduler.last_epoch, first.last_epoch) == (5, 5)
    scheduler.step()
    assert scheduler.get_last_lr() == [0.25, 0.1]


def test_a_combination_whose_states_do_not_fit_changes_nothing():
    def build(length):
        optimizer = make()
        return SequentialLR(optimizer, [ConstantLR(optimizer), StepLR(optimizer, length)], [5])

    scheduler, other = build(3), build(4)
    rates(other, 9)
    before = scheduler.state_dict()
    saved = other.state_dict()
    saved["_schedulers"][1].pop("gamma")
    with pytest.raises(ValueError, match="StepLR: load_state_dict: missing: gamma"):
        scheduler.load_state_dict(saved)
    saved["_schedulers"].pop()
    with pytest.raises(ValueError, match="SequentialLR: load_state_dict: expected 2 schedulers, got 1"):
        scheduler.load_state_dict(saved)
    assert scheduler.state_dict() == before
