"""`tt.compile` of whole training steps: gradients that the function computes, and the steps of optimisers."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.nn import optim

pytest.importorskip("llvmlite")


def batches(count=5):
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.standard_normal((6, 4)).astype(np.float32)
        yield tt.asarray(x), tt.asarray(rng.integers(0, 3, 6))


def a_model():
    tt.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def first(model, optimizer, x, y, between=lambda: None):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    between()
    optimizer.step()
    return loss


def last(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def in_place(model, optimizer, x, y):
    optimizer.zero_grad(set_to_none=False)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def clipped(model, optimizer, x, y):
    return first(model, optimizer, x, y, lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1))


def by_closure(model, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return optimizer.step(closure)


def twice(model, optimizer, x, y):
    optimizer.zero_grad()
    for half in (slice(0, 3), slice(3, 6)):
        loss = F.cross_entropy(model(x[half]), y[half]) / 2
        loss.backward()
    optimizer.step()
    return loss


def by_hand(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with tt.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    return loss


def accumulating(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss


STEPS = [first, last, clipped, by_closure, twice, by_hand, accumulating]


def train(step, model, optimizer, changes=lambda i, model, optimizer: None):
    losses = []
    for i, (x, y) in enumerate(batches()):
        changes(i, model, optimizer)
        losses.append(step(x, y).sum().item())
    gradients = [None if p.grad is None else p.grad.numpy() for p in model.parameters()]
    return losses, [p.detach().numpy() for p in model.parameters()], gradients, optimizer.state_dict()


def assert_equal(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for a, b in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert found[3]["param_groups"] == expected[3]["param_groups"]
    assert found[3]["state"].keys() == expected[3]["state"].keys()
    for i, state in found[3]["state"].items():
        for name, value in state.items():
            there = expected[3]["state"][i][name]
            if isinstance(value, tt.Tensor):
                np.testing.assert_allclose(value.numpy(), there.numpy(), rtol=1e-3, atol=1e-6)
            else:
                assert value == there, name


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("step", STEPS)
def test_a_whole_step_trains_as_its_lines_do(step, kind):
    found = []
    for compiles in (False, True):
        model = a_model()
        optimizer = getattr(optim, kind)(model.parameters(), lr=0.05)

        def whole(x, y, model=model, optimizer=optimizer):
            return step(model, optimizer, x, y)

        whole = tt.compile(whole) if compiles else whole
        found.append(train(whole, model, optimizer))
    assert whole.why_not is None
    assert_equal(found[1], found[0])


def a_new_rate(i, model, optimizer):
    if i == 2:
        optimizer.param_groups[0]["lr"] = 0.2


def loaded(i, model, optimizer):
    if i == 2:
        saved = optimizer.state_dict()
        saved["param_groups"][0]["lr"] = 0.3
        optimizer.load_state_dict(saved)


def frozen(i, model, optimizer):
    model[0].weight.requires_grad = i != 2


def another_group(i, model, optimizer):
    if i == 2:
        optimizer.add_param_group({"params": [tt.tensor([1.0], requires_grad=True)], "lr": 0.1})


def another_parameter(i, model, optimizer):
    if i == 2:
        model[2].bias.copy_(tt.ones(3))


def evaluated(i, model, optimizer):
    model.train(i != 2)


def hooked(i, model, optimizer):
    if i == 2:
        model[0].bias.register_hook(lambda g: g * 2)


@pytest.mark.parametrize("step", [first, last])
@pytest.mark.parametrize("changes", [a_new_rate, loaded, frozen, another_group, another_parameter, evaluated, hooked])
def test_what_changes_between_steps_holds(changes, step):
    found = []
    for compiles in (False, True):
        model = a_model()
        optimizer = optim.Adam(model.parameters(), lr=0.05)

        def whole(x, y, model=model, optimizer=optimizer):
            return step(model, optimizer, x, y)

        def change(i, model, optimizer):
            with tt.no_grad():
                changes(i, model, optimizer)

        found.append(train(tt.compile(whole) if compiles else whole, model, optimizer, change))
    assert_equal(found[1], found[0])


def test_dropout_and_batch_norm_train_as_by_the_lines():
    found = []
    for compiles in (False, True):
        tt.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
        )
        optimizer = optim.Adam(model.parameters(), lr=0.05)

        def whole(x, y, model=model, optimizer=optimizer):
            return first(model, optimizer, x, y)

        tt.manual_seed(1)
        found.append(train(tt.compile(whole) if compiles else whole, model, optimizer))
        found[-1][1].extend(b.numpy() for b in model.buffers())
    assert_equal(found[1], found[0])


def reads_a_rate(model, optimizer, x, y):
    loss = first(model, optimizer, x, y)
    return loss * optimizer.param_groups[0]["lr"]


def reads_a_state(model, optimizer, x, y):
    count = len(optimizer.state)
    return first(model, optimizer, x, y) if count >= 0 else None


def changes_a_rate(model, optimizer, x, y):
    for group in optimizer.param_groups:
        group["lr"] *= 0.9
    return first(model, optimizer, x, y)


def computes_more(model, optimizer, x, y):
    first(model, optimizer, x, y)
    return F.cross_entropy(model(x), y)


def keeps_the_graph(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(create_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def with_a_graph_left(model, optimizer, x, y):
    optimizer.zero_grad()
    other = model[0].weight.sum()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    return other


def limited(model, optimizer, x, y):
    return first(model, optimizer, x, y, lambda: nn.utils.clip_grad_value_(model.parameters(), 0.001))


def clipped_by_a_tensor(model, optimizer, x, y):
    return first(
        model, optimizer, x, y, lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm=tt.max(x) * 0.01)
    )


OTHER = tt.ones(8).requires_grad_()


def clipped_elsewhere(model, optimizer, x, y):
    if OTHER.grad is None:
        OTHER.grad = tt.ones(8)
    return first(model, optimizer, x, y, lambda: nn.utils.clip_grad_norm_([*model.parameters(), OTHER], 0.1))


def returns_gradients(model, optimizer, x, y):
    first(model, optimizer, x, y)
    return tt.sum(model[0].bias.grad) * 0 + 1 if optimizer is None else model[2].bias.grad


def returns_a_weight(model, optimizer, x, y):
    first(model, optimizer, x, y)
    return model[2].bias.detach()


def returns_a_view(model, optimizer, x, y):
    view = model[2].weight.detach()[0]
    first(model, optimizer, x, y)
    return view


def leaves_a_weight_as_gradient(model, optimizer, x, y):
    loss = first(model, optimizer, x, y)
    OTHER.grad = model[0].bias.detach()
    return loss


def forgets_its_state(model, optimizer, x, y):
    optimizer.state = {}
    return first(model, optimizer, x, y)


def reads_by_the_library(model, optimizer, x, y):
    return first(model, optimizer, x, y) * optimizer.state_dict()["param_groups"][0]["lr"]


def hooks_its_weight(model, optimizer, x, y):
    model[2].bias.register_hook(lambda g: g * 0.5)
    return first(model, optimizer, x, y)


REASONS = {
    with_a_graph_left: "or a graph",
    limited: "writes into an array",
    clipped_by_a_tensor: "it clips by a Tensor",
    clipped_elsewhere: "it clips a gradient that it does not compute",
    returns_gradients: "a gradient that is in .grad",
    returns_a_weight: "what optimizer.step()",
    returns_a_view: "what optimizer.step()",
    leaves_a_weight_as_gradient: "optimizer.step()",
    forgets_its_state: "assigns to what it reads",
    reads_by_the_library: "state or the settings of an optimiser",
    hooks_its_weight: "it registers a hook",
    reads_a_rate: "state or the settings of an optimiser",
    reads_a_state: "state or the settings of an optimiser",
    changes_a_rate: "state or the settings of an optimiser",
    computes_more: "more after optimizer.step()",
    keeps_the_graph: "",
    in_place: "it makes a Tensor of",
}


@pytest.mark.parametrize("step", REASONS)
def test_what_cannot_be_put_off_runs_by_its_lines(step):
    found = []
    for compiles in (False, True):
        model = a_model()
        OTHER.grad = None
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def whole(x, y, model=model, optimizer=optimizer):
            return step(model, optimizer, x, y)

        whole = tt.compile(whole) if compiles else whole
        found.append(train(whole, model, optimizer))
    assert REASONS[step] in whole.why_not
    assert_equal(found[1], found[0])


@pytest.mark.parametrize("norm", [0.1, 100.0])
def test_the_norm_before_clipping_is_a_result(norm):
    found = []
    for compiles in (False, True):
        model = a_model()
        optimizer = optim.SGD(model.parameters(), lr=0.05)

        def whole(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total = nn.utils.clip_grad_norm_(model.parameters(), max_norm=norm, norm_type=3)
            optimizer.step()
            return {"loss": loss, "norm": total}

        whole = tt.compile(whole) if compiles else whole
        told = [whole(x, y) for x, y in batches()]
        gradients = [p.grad.numpy() for p in model.parameters()]
        found.append([[*map(float, (each["loss"].item(), each["norm"].item()))] for each in told] + [gradients])
    assert whole.why_not is None
    np.testing.assert_allclose(found[1][:-1], found[0][:-1], rtol=1e-4)
    for a, b in zip(found[1][-1], found[0][-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_a_schedule_outside_changes_the_rate_without_another_program():
    model = a_model()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    whole = tt.compile(lambda x, y: first(model, optimizer, x, y))
    for x, y in batches(6):
        whole(x, y)
        schedule.step()
    assert len(whole.programs.programs) == 2  # without gradients before, and with
    assert whole.why_not is None


class WithSchedule:
    """As users write trainers: the model, the optimiser and the schedule in one object."""

    def __init__(self, kind=optim.lr_scheduler.StepLR):
        self.model = a_model()
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.schedule = kind(self.optimizer, 1, 0.5)

    def step(self, x, y):
        return first(self.model, self.optimizer, x, y)

    def reading(self, x, y):
        return first(self.model, self.optimizer, x, y) * self.schedule.get_last_lr()[0]

    def stepping(self, x, y):
        loss = first(self.model, self.optimizer, x, y)
        self.schedule.step()
        return loss


class OwnSchedule(optim.lr_scheduler.LRScheduler):
    """A user's own, whose attributes are others in each step."""

    def __init__(self, optimizer, every, factor):
        self.history = [(every, factor)]
        super().__init__(optimizer)

    def get_lr(self):
        self.history = [*self.history, self.last_epoch]
        return [rate * self.history[0][1] ** self.last_epoch for rate in self.base_lrs]


@pytest.mark.parametrize("kind", [optim.lr_scheduler.StepLR, OwnSchedule])
def test_an_object_that_holds_a_schedule_needs_no_program_for_each_step(kind):
    losses = []
    for compiles in (False, True):
        owner = WithSchedule(kind)
        step = tt.compile(owner.step) if compiles else owner.step
        losses.append([])
        for x, y in batches(6):
            losses[-1].append(step(x, y).item())
            owner.schedule.step()
    assert len(step.programs.programs) == 2
    assert step.why_not is None
    assert type(owner.schedule) is kind
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@pytest.mark.parametrize("name", ["reading", "stepping"])
def test_a_schedule_within_a_step_is_no_constant(name):
    losses = []
    for compiles in (False, True):
        owner = WithSchedule()
        step = getattr(owner, name)
        step = tt.compile(step) if compiles else step
        losses.append([])
        for x, y in batches(6):
            losses[-1].append(step(x, y).item())
            owner.schedule.step()
    assert "a learning rate schedule" in step.why_not
    assert losses[1] == losses[0]


def test_backward_through_an_argument_goes_on_behind_it():
    layer, w = nn.Linear(3, 3), tt.ones(3).requires_grad_()
    compiled = tt.compile(lambda x: tt.sum(layer(x)).backward())
    for n in (1, 2):
        x = w * 2
        compiled(x)
        np.testing.assert_allclose(w.grad.numpy(), 2 * n * layer.weight.detach().numpy().sum(0), rtol=1e-5)
    assert "computed before" in compiled.why_not


def test_a_result_behind_backward_has_no_graph_left():
    layer = nn.Linear(3, 3)

    def step(x):
        loss = tt.sum(layer(x))
        loss.backward()
        return loss

    for function in (step, tt.compile(step)):
        loss = function(tt.ones(3))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="already used and freed"):
            loss.backward()


def test_equal_gradients_share_no_memory():
    lstm = nn.LSTM(4, 8)
    optimizer = optim.SGD(lstm.parameters(), lr=0.1)

    @tt.compile
    def step(x):
        optimizer.zero_grad()
        tt.sum(lstm(x)[0]).backward()
        optimizer.step()

    step(tt.ones((3, 2, 4)))
    assert step.why_not is None
    a, b = lstm.bias_ih_l0.grad, lstm.bias_hh_l0.grad
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert not np.may_share_memory(a._data, b._data)


def test_another_thread_may_read_the_optimiser_meanwhile():
    model, rates, stop = a_model(), [], threading.Event()
    optimizer = optim.SGD(model.parameters(), lr=0.25)

    def look():
        while not stop.is_set():
            rates.append(optimizer.param_groups[0]["lr"])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for length in range(1, 6):
            x, y = tt.ones((length, 4)), tt.asarray([0] * length)
            whole = tt.compile(lambda x, y: first(model, optimizer, x, y))
            whole(x, y)
    finally:
        stop.set()
        thread.join()
    assert whole.why_not is None
    assert {*rates} == {0.25}


def test_a_method_of_a_trainer_and_pytorch_s_names():
    code = """
import tinytensor.torch
tinytensor.torch.install()
import torch
from torch import nn

class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 3)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

torch.manual_seed(0)
trainer = Trainer()
step = torch.compile(trainer.step)
x, y = torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
losses = [step(x, y).item() for _ in range(30)]
assert losses[-1] < losses[0], losses
print(step.why_not)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_another_optimiser_takes_over():
    model = a_model()
    optimizer = optim.Adam(model.parameters(), lr=0.05)

    @tt.compile
    def step(x, y):
        return first(model, optimizer, x, y)

    for x, y in batches():
        step(x, y)
    before = optimizer
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for x, y in batches(2):
        step(x, y)
    assert [state["step"] for state in optimizer.state.values()] == [2] * 4
    assert [state["step"] for state in before.state.values()] == [5] * 4


@pytest.mark.parametrize("loss", [F.mse_loss, lambda a, b: ((a - b) ** 2).mean()])
def test_a_mean_with_backward_inside(loss):
    layer, x = nn.Linear(4, 3), tt.ones((5, 4))
    compiled = tt.compile(lambda x, y: loss(layer(x), y).backward())
    compiled(x, tt.zeros((5, 3)))
    assert compiled.why_not is None
    found = layer.weight.grad.numpy()
    layer.zero_grad()
    loss(layer(x), tt.zeros((5, 3))).backward()
    np.testing.assert_allclose(found, layer.weight.grad.numpy(), rtol=1e-5)


def by_grad(model, x, y):
    loss, parameters = F.cross_entropy(model(x), y), list(model.parameters())
    for p, g in zip(parameters, tt.grad(loss, parameters)):
        p.grad = g if p.grad is None else p.grad + g


def by_another_name(model, x, y):
    getattr(F.cross_entropy(model(x), y), "back" + "ward")()


@pytest.mark.parametrize("step", [by_grad, by_another_name])
def test_gradients_add_up_by_every_name(step):
    found = []
    for compiles in (False, True):
        model = a_model()

        def whole(x, y, model=model):
            step(model, x, y)

        whole = tt.compile(whole) if compiles else whole
        for x, y in batches():
            whole(x, y)
        found.append([p.grad.numpy() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_step_alone_begins_when_there_are_gradients():
    weight = tt.ones(3).requires_grad_()
    optimizer = optim.SGD([weight], lr=1.0)
    compiled = tt.compile(lambda: optimizer.step())
    compiled()
    weight.grad = tt.ones(3)
    compiled()
    assert weight.tolist() == [0, 0, 0]


def test_the_parameters_of_a_group_may_change():
    model = a_model()
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    compiled = tt.compile(lambda x, y: last(model, optimizer, x, y))
    x, y = next(batches())
    compiled(x, y), compiled(x, y)
    optimizer.param_groups[0]["params"] = [model[2].weight]
    before = model[0].bias.detach().numpy().copy()
    compiled(x, y)
    np.testing.assert_array_equal(model[0].bias.detach().numpy(), before)
