"""Schedules: closed forms, saving and going on, errors."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.optim import SGD, Adam
from tinytensor.nn.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LRScheduler,
    MultiStepLR,
    StepLR,
    TransformerLR,
)


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


SCHEDULES = {
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
    with pytest.raises(TypeError, match="expected an Optimizer, got a list"):
        StepLR([], 2)
