"""How the learning rate changes."""

import math

import pytest

from tinytensor.models.training.schedules import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_up_in_a_straight_line(name):
    factor = SCHEDULES[name](10, 100)
    assert [factor(step) for step in range(10)] == pytest.approx([(step + 1) / 10 for step in range(10)])


def test_down_along_a_cosine_to_0():
    factor = SCHEDULES["cosine"](10, 110)
    assert [factor(step) for step in (10, 35, 60, 85, 110, 500)] == pytest.approx(
        [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0, 0]
    )


@pytest.mark.parametrize("steps", [20, 10_000])
def test_down_as_one_over_the_square_root_however_many_steps_there_are(steps):
    factor = SCHEDULES["inverse-square-root"](10, steps)
    assert [factor(10 * n - 1) for n in (1, 4, 9, 100)] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 10])
