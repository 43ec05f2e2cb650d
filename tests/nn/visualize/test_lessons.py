"""The small pictures: positional encodings, masks, learning rates, losses."""

import copy
import math
import re
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import visualize
from tinytensor.nn.visualize.curves import _log_ticks, linear_ticks

from .drawing import Read


def curve(picture, i=-1):
    """The points of a curve, between gaps."""
    d = Read(picture).all("path", "curve")[i].get("d")
    return [np.array(re.findall(r"([\d.]+) ([\d.]+)", part), dtype=float) for part in d.split("M")[1:]]


# ---- masks


def classes(picture):
    rects = [r for r in Read(picture).all("rect") if len(r)]
    kinds = [re.sub(r" ?fill-\S+", "", r.get("class")) for r in rects]
    side = math.isqrt(len(kinds))
    return np.array(kinds).reshape(side, side).tolist()


def test_causal_and_padding_are_told_apart():
    picture = visualize.attention_mask(nn.functional.causal_mask(3), np.array([False, False, True]), source=list("abc"))
    assert classes(picture) == [
        ["seen", "hidden", "hidden padding"],
        ["seen", "seen", "hidden padding"],
        ["seen", "seen", "padding"],
    ]
    texts = [t.text for t in Read(picture).all("text")]
    assert {"may be seen", "the future, hidden by attn_mask", "padding"} <= set(texts)
    slashes, backslashes = [p.get("d") for p in Read(picture).all("path")][:2]
    assert (slashes.count("M"), backslashes.count("M")) == (3, 3)
    assert "3 queries (rows) and 3 keys (columns): 5 pairs may be seen" in Read(picture).description


def test_floating_masks_and_batches():
    additive = tt.where(nn.functional.causal_mask(3), -tt.inf, 0.0)
    assert classes(visualize.attention_mask(additive)) == classes(
        visualize.attention_mask(nn.functional.causal_mask(3))
    )
    padding = np.array([[False, False], [False, True]])
    assert classes(visualize.attention_mask(key_padding_mask=padding, sample=1)) == [["seen", "padding"]] * 2
    not_causal = np.array([[False, True], [True, False]])
    assert "the future" not in str(visualize.attention_mask(not_causal))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "give attn_mask, key_padding_mask or both"),
        ({"attn_mask": np.zeros((2, 3), int)}, TypeError, "masks are boolean or floating, got int64"),
        ({"attn_mask": np.zeros((2, 3), bool), "key_padding_mask": np.zeros(2, bool)}, ValueError, r"\(2, 3\) must be"),
        ({"attn_mask": np.zeros((2, 2, 3), bool)}, ValueError, r"\(2, 2, 3\) must be \(target, source\)"),
        ({"attn_mask": np.zeros((61, 61), bool)}, ValueError, "61 x 61 positions are more than 60"),
        ({"key_padding_mask": np.zeros((1, 2), bool), "sample": 1}, ValueError, "sample 1 does not exist"),
        ({"attn_mask": np.zeros((2, 3), bool), "source": ["a"]}, ValueError, "source: 1 tokens"),
    ],
)
def test_masks_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        visualize.attention_mask(**arguments)


# ---- positional encodings


def test_positional_encodings_from_anywhere_are_the_same_picture():
    picture = str(visualize.positional_encoding(10, 16))
    table = nn.sinusoidal_encoding(10, 16)
    module = nn.PositionalEncoding(16, max_len=50)
    assert str(visualize.positional_encoding(table)) == picture
    assert str(visualize.positional_encoding(table.numpy())) == picture
    assert str(visualize.positional_encoding(module, length=10)) == picture
    assert str(visualize.positional_encoding(10, 18)) != picture
    learned = nn.LearnedPositionalEncoding(16, max_len=50)
    table = learned.encoding.numpy()[:10]
    assert str(visualize.positional_encoding(learned, length=10)) == str(visualize.positional_encoding(table))
    assert "64 positions" not in picture
    assert "50 positions" in str(visualize.positional_encoding(module))
    assert Read(visualize.positional_encoding(1000, 512)).width <= 1280


def test_positional_encodings_that_are_none():
    for wrong in (np.ones(3), np.full((2, 2), np.nan), np.ones((0, 4))):
        with pytest.raises(ValueError, match=r"expected finite numbers \(length, d_model\)"):
            visualize.positional_encoding(wrong)


# ---- curves


def test_a_curve_goes_through_its_points():
    (points,) = curve(visualize.loss_curve([3.0, 2.0, 1.0, 0.0]))
    steps = np.diff(points, axis=0)
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], (3, 2)), atol=0.011)
    assert (steps > 0).all()  # to the right, and down


def test_a_logarithmic_curve():
    (points,) = curve(visualize.loss_curve([1.0, 0.1, 0.01], log=True))
    steps = np.diff(points, axis=0)
    np.testing.assert_allclose(steps[0], steps[1], atol=0.011)


@pytest.mark.parametrize("gap", [math.nan, math.inf, -1.0])
def test_what_cannot_be_drawn_is_a_gap(gap):
    parts = curve(visualize.loss_curve([2.0, 1.0, gap, 0.5, 0.25], log=True))
    assert [len(p) for p in parts] == [2, 2]


def test_losses_as_a_training_loop_has_them():
    losses = [tt.tensor(v, requires_grad=True) for v in (3.0, 2.0)]
    assert str(visualize.loss_curve(losses)) == str(visualize.loss_curve([3.0, 2.0]))
    assert str(visualize.loss_curve(np.array([3.0, 2.0]))) == str(visualize.loss_curve([3.0, 2.0]))


def test_several_losses_have_a_legend_and_steps_of_their_own():
    picture = visualize.loss_curve({"training": [4.0, 3.0, 2.0, 1.0], "validation <1>": ([2, 4], [3.5, 1.5])})
    read = Read(picture)
    texts = [t.text for t in read.all("text")]
    assert {"training", "validation <1>"} <= set(texts)
    validation, training = curve(picture, 0)[0], curve(picture, 1)[0]  # the first is drawn last, on top
    np.testing.assert_allclose(validation[:, 0], training[[1, 3], 0])
    looks = [p.get("stroke-dasharray") for p in read.all("path", "curve")]
    assert looks == ["7 3", None]  # told apart without colours
    assert read.description == "Over the steps, training from 4 to 1; validation <1> from 3.5 to 1.5."


def test_many_points_keep_their_extremes():
    y = np.random.default_rng(0).normal(size=50_000)
    y[12_345], y[40_000] = 50.0, -50.0
    picture = visualize.loss_curve(y)
    (points,) = curve(picture)
    assert len(points) <= 2002
    few = curve(visualize.loss_curve([50.0, -50.0]))[0]
    assert (points[:, 1].min(), points[:, 1].max()) == (few[:, 1].min(), few[:, 1].max())


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        ([], {}, r"loss has shape \(0,\)"),
        ([1.0, 2.0], {"steps": [1]}, r"loss has shape \(2,\) and its steps \(1,\)"),
        ([math.nan], {}, "no value can be drawn; expected finite numbers"),
        ([-1.0], {"log": True}, "expected finite positive numbers"),
        ({}, {}, "no losses were given"),
    ],
)
def test_losses_that_are_refused(losses, options, message):
    with pytest.raises(ValueError, match=message):
        visualize.loss_curve(losses, **options)


def testlinear_ticks_are_round_and_around_the_values():
    assert linear_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert linear_ticks(1, 4000) == [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000]
    assert linear_ticks(2, 2) == [2]
    assert _log_ticks(0.02, 3) == pytest.approx([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    assert _log_ticks(1e-8, 1) == pytest.approx([10.0**e for e in range(-8, 1, 2)])


# ---- schedules


def scheduler():
    parameter = nn.Parameter(tt.ones(1))
    optimizer = nn.optim.Adam([parameter], lr=0.1)
    return optimizer, nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


def test_a_scheduler_is_rehearsed_and_left_as_it_is():
    optimizer, schedule = scheduler()
    before = schedule.state_dict()
    picture = visualize.learning_rate_schedule(schedule, 11)
    assert schedule.state_dict() == before
    assert optimizer.param_groups[0]["lr"] == 0.1
    rates = []
    for _ in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert str(visualize.learning_rate_schedule(rates)) == str(picture)
    assert str(visualize.learning_rate_schedule(lambda step: rates[step], 11)) == str(picture)
    assert Read(picture).description == "learning rate is highest, 0.1, at step 0 of 11."


class Slower:
    """A schedule's function with something to remember."""

    def __init__(self):
        self.seen = []

    def __call__(self, epoch):
        self.seen.append(epoch)
        return 0.9**epoch


@pytest.mark.parametrize(
    "build",
    [
        lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
        lambda s, o: s.LambdaLR(o, Slower()),
        lambda s, o: s.OneCycleLR(o, 1.0, 20),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o), s.CosineAnnealingLR(o, 10)], [5]),
        lambda s, o: s.ChainedScheduler([s.LinearLR(o), s.ExponentialLR(o, 0.9)]),
    ],
)
def test_schedules_of_every_make_are_rehearsed(build):
    optimizer = nn.optim.Adam([nn.Parameter(tt.ones(1))], lr=0.1)
    schedule = build(nn.optim.lr_scheduler, optimizer)
    before = copy.deepcopy((schedule.state_dict(), optimizer.state_dict()))
    picture = visualize.learning_rate_schedule(schedule, 15)
    assert (schedule.state_dict(), optimizer.state_dict()) == before
    rates = []
    for _ in range(15):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert str(visualize.learning_rate_schedule(rates)) == str(picture)


def test_schedules_side_by_side():
    picture = visualize.learning_rate_schedule({"a": [1.0, 2.0], "b": lambda step: 1.5}, 2)
    assert len(Read(picture).all("path", "curve")) == 2


def test_schedules_that_are_refused():
    with pytest.raises(ValueError, match="steps is None; expected how many steps to draw"):
        visualize.learning_rate_schedule(scheduler()[1])
    plateau = nn.optim.lr_scheduler.ReduceLROnPlateau(scheduler()[0])
    with pytest.raises(ValueError, match="a ReduceLROnPlateau does depends on losses to come"):
        visualize.learning_rate_schedule(plateau, 10)
    with pytest.raises(ValueError, match="expected one rate for each step"):
        visualize.learning_rate_schedule([])


# ---- what it costs who draws nothing


def test_pictures_are_not_loaded_with_nn():
    code = "import sys, tinytensor.nn; print([m for m in sys.modules if 'visualize' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_pictures_load_nothing_but_what_is_here():
    code = (
        "import sys\nfrom tinytensor.nn import visualize\n"
        "visualize.attention_lines([[1.0]]), visualize.loss_curve([1.0, 2.0])\n"
        "print([m for m in ('matplotlib', 'graphviz', 'torch', 'PIL', 'IPython') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
