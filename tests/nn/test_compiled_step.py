"""`nn.compile_step`: the same numbers as op by op, wherever Python is left out of them; and why it cannot be."""

import copy
import gc
import warnings
import weakref

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import models, nn
from tinytensor.nn.compiled_step import CompiledStep

WORDS = 17


def transformer(device, dropout=0.0):
    tt.manual_seed(1)
    model = models.Transformer(
        WORDS, d_model=16, num_heads=2, num_layers=2, d_ff=32, dropout=dropout, max_length=8
    )  # fmt: skip
    return model.to(device)


def batches(device, count=5, lengths=((6, 7),)):
    rng = np.random.default_rng(0)
    for i in range(count):
        source, target = lengths[i % len(lengths)]
        shapes = ((4, source), (4, target), (4, target))
        yield [tt.asarray(rng.integers(1, WORDS, shape), device=device) for shape in shapes]


def loss_of(model):
    def loss(source, target_in, target_out):
        return F.cross_entropy(model(source, target_in).reshape(-1, WORDS), target_out.reshape(-1))

    return loss


def trained(device, compiled, dropout=0.0, **options):
    """Losses, gradients of each step and the weights at the end."""
    model = transformer(device, dropout)
    counted = Counted(loss_of(model))
    optimizer, step = nn.optim.SGD(model.parameters(), lr=0.3), nn.compile_step(counted, model)
    tt.manual_seed(2)
    losses, gradients = [], []
    for batch in batches(device, **options):
        optimizer.zero_grad()
        losses.append(step(*batch) if compiled else step.op_by_op(*batch))
        gradients.append([p.grad for p in model.parameters()])
        optimizer.step()
        assert step.why_not is None
    shapes = len(options["lengths"])
    assert counted.calls == (2 * shapes if compiled and replays(device) else len(losses))
    state = tt.random.get_state()
    return losses, gradients, [p.numpy() for p in model.parameters()], state


class Counted:
    """A function with a count of how often Python called it."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *inputs):
        self.calls += 1
        return self.function(*inputs)


def small(device, function=None, **options):
    """A step of a linear layer, its inputs, and what it calls."""
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, **options), nn.Tanh(), nn.Linear(4, 1, **options)).to(device)
    counted = Counted(function or (lambda x: tt.mean(model(x) ** 2)))
    return nn.compile_step(counted, model), tt.random.normal((5, 3), **options).to(device), counted


def replays(device):
    return device == "gpu"


def close(found, expected):
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


# ---- the same numbers


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("lengths", [((6, 7),), ((6, 7), (5, 3))])
def test_training_is_that_of_the_formulas(device, dropout, lengths):
    found, expected = (trained(device, compiled, dropout, count=8, lengths=lengths) for compiled in (True, False))
    assert found[3] == expected[3]  # the generator has drawn as much
    for a, b in zip(found[0], expected[0], strict=True):  # losses held since the first step
        close(a, b)
    for one, other in zip(found[1], expected[1], strict=True):  # and gradients
        for a, b in zip(one, other, strict=True):
            close(a, b)
    for a, b in zip(found[2], expected[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_dropout_drops_other_elements_in_each_call(device):
    model = transformer(device, 0.5)
    step = nn.compile_step(loss_of(model), model)
    batch = next(batches(device))
    losses = [step(*batch).item() for _ in range(6)]
    assert len(set(losses)) == 6


def test_what_is_recomputed_drops_the_same_elements(device):
    losses, gradients = [], []
    for compiled in (True, False):
        tt.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)]).to(device)
        x = tt.random.normal((50, 6)).to(device)

        def loss(x, layers=layers):
            for layer in layers:
                x = nn.utils.checkpoint(lambda x, layer=layer: F.dropout(tt.tanh(layer(x)), 0.5), x)
            return tt.sum(F.dropout(x, 0.5) ** 2)

        step = nn.compile_step(loss, layers)
        losses.append([(step if compiled else step.op_by_op)(x).item() for _ in range(5)])
        gradients.append([p.grad for p in layers.parameters()])
        assert step.why_not is None
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    for a, b in zip(*gradients, strict=True):
        close(a, b)


def test_from_the_third_call_on_a_gpu_needs_no_python(device):
    step, x, counted = small(device)
    for calls in (1, 2, 3, 4):
        step(x)
        assert counted.calls == (min(calls, 2) if replays(device) else calls)


def test_each_shape_is_recorded_by_itself(device):
    step, x, counted = small(device)
    expected = [step.op_by_op(x[:n]) for n in (5, 2)]
    counted.calls = 0
    for _ in range(4):
        for n, loss in zip((5, 2), expected):
            close(step(x[:n]), loss)
    assert counted.calls == (4 if replays(device) else 8)


def test_gradients_add_up_and_old_ones_stay(device):
    step, x, _ = small(device)
    weight = step.model[0].weight
    held = []
    for _ in range(5):
        step(x)
        held.append((weight.grad, weight.grad.numpy()))
    for number, (gradient, value) in enumerate(held, 1):
        np.testing.assert_allclose(value, number * held[0][1], rtol=1e-5)
        assert (gradient.numpy() == value).all()


def test_a_gradient_may_be_written_to(device):
    step, x, _ = small(device)
    for _ in range(4):
        step.model.zero_grad()
        step(x)
        norm = nn.utils.clip_grad_norm_(step.model.parameters(), 1e-3)
        assert norm.item() > 1e-3
        np.testing.assert_allclose(
            nn.utils.get_total_norm([p.grad for p in step.model.parameters()]).item(), 1e-3, 1e-2
        )


def test_other_results_come_with_the_loss(device):
    step, x, counted = small(device)
    counted.function = lambda x: (tt.mean(step.model(x) ** 2), step.model(x), tt.argmax(x, axis=-1))
    results = [step(x) for _ in range(4)]
    for loss, output, places in results:
        close(loss, tt.mean(output**2))
        assert (output.shape, places.tolist()) == ((5, 1), np.argmax(x.numpy(), axis=-1).tolist())
        assert not loss.requires_grad
        assert not output.requires_grad


def test_a_parameter_that_takes_no_part_gets_no_gradient(device):
    step, x, _ = small(device)
    step.model.append(nn.Linear(1, 1).to(device))
    step.function = lambda x: tt.mean(step.model[:3](x) ** 2)
    for _ in range(4):
        step(x)
        assert [p.grad is None for p in step.model.parameters()] == [False] * 4 + [True] * 2


def test_constants_are_told_apart(device):
    step, x, counted = small(device)
    counted.function = lambda x, power: tt.mean(step.model(x) ** power)
    expected = {power: step.op_by_op(x, power) for power in (2, 4)}
    for _ in range(3):
        for power, loss in expected.items():
            close(step(x, power), loss)


def test_float64(device):
    step, x, _ = small(device, dtype=tt.float64)
    losses = [step(x) for _ in range(4)]
    assert losses[-1].dtype == step.model[0].weight.grad.dtype == tt.float64
    np.testing.assert_allclose(losses[-1].item(), losses[0].item(), rtol=1e-12)


@pytest.mark.parametrize(
    "shapes", [((4, 3, 5), (5, 2)), ((2, 1, 3, 5), (4, 5, 2)), ((3, 5), (4, 5, 2)), ((5,), (5, 2))]
)
def test_products_of_every_shape_are_recorded(device, shapes):
    tt.manual_seed(0)
    model = nn.ParameterList([nn.Parameter(tt.random.normal(shape)) for shape in shapes]).to(device)
    one = tt.ones((), device=device)
    step = nn.compile_step(lambda one: tt.sum(tt.exp(0.1 * (model[0] @ model[1]))) * one, model)
    expected = step.op_by_op(one)
    gradients = [p.grad for p in model]
    for _ in range(4):
        model.zero_grad()
        close(step(one), expected)
        for p, gradient in zip(model, gradients):
            close(p.grad, gradient)
    assert step.why_not is None or len(shapes[0]) == 1


# ---- what changes beside the inputs


def test_weights_that_are_replaced_are_looked_up_again(device):
    step, x, _ = small(device)
    for _ in range(3):
        step(x)
    other, _, _ = small(device)
    with tt.no_grad():
        for p in other.model.parameters():
            p.copy_(p * 2.0)
    for change in (
        lambda: step.model.load_state_dict(other.model.state_dict()),
        lambda: setattr(step.model[0], "weight", nn.Parameter(tt.ones((4, 3), device=device))),
        lambda: step.model[0].bias.requires_grad_(False),
        lambda: step.model.append(nn.Tanh()),
    ):
        change()
        for _ in range(4):
            step.model.zero_grad()
            close(step(x), step.op_by_op(x))
            assert [p.grad is not None for p in step.model.parameters()] == [
                p.requires_grad for p in step.model.parameters()
            ]


def test_training_and_evaluation_are_told_apart(device):
    model = transformer(device, 0.5)
    step = nn.compile_step(loss_of(model), model)
    batch = next(batches(device))
    for _ in range(3):
        model.train()
        step(*batch)
        model.eval()
        assert step(*batch).item() == pytest.approx(step.op_by_op(*batch).item(), rel=1e-5)


def test_settings_of_modules_may_change(device):
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 300), nn.Dropout(0.5)).to(device)
    step = nn.compile_step(lambda x: tt.mean(tt.astype(model(x) == 0, tt.float32)) + 0 * tt.sum(model(x)), model)
    x = tt.ones((5, 3), device=device)
    for p in (0.5, 0.1, 0.5):
        model[1].p = p
        for _ in range(4):
            assert step(x).item() == pytest.approx(p, abs=0.07)


def test_a_seed_set_later_is_heeded(device):
    model = transformer(device, 0.5)
    step = nn.compile_step(loss_of(model), model)
    batch = next(batches(device))
    for _ in range(3):
        step(*batch)

    def losses(call, generator=None):
        tt.manual_seed(7)
        with tt.random.using(generator or tt.random.default_generator):
            return [call(*batch).item() for _ in range(3)]

    assert losses(step) == pytest.approx(losses(step.op_by_op), rel=1e-5)
    assert losses(step, tt.random.Generator(8)) == pytest.approx(
        losses(step.op_by_op, tt.random.Generator(8)), rel=1e-5
    )
    assert losses(step, tt.random.Generator(8)) != pytest.approx(losses(step), rel=1e-5)


def test_the_default_dtype_is_heeded(device):
    step, x, counted = small(device)
    counted.function = lambda x: tt.mean(step.model(x) ** 2) * tt.ones((), device=device)
    try:
        for _ in range(3):
            for dtype in (tt.float64, tt.float32):
                tt.set_default_dtype(dtype)
                assert step(x).dtype == dtype
    finally:
        tt.set_default_dtype(tt.float32)


def test_the_precision_of_products_is_heeded(device):
    model = nn.Linear(64, 96, bias=False, device=device)
    model.weight.data = tt.full((96, 64), 1 + 2**-12, device=device)
    step = nn.compile_step(lambda x: tt.mean(model(x)), model)
    x = tt.full((128, 64), 1 + 2**-12, device=device)
    exact = 64 * (1 + 2**-12) ** 2
    try:
        for _ in range(3):
            for precision in ("high", "highest"):
                tt.set_float32_matmul_precision(precision)
                expected = 64 if precision == "high" and device == "gpu" else exact
                assert step(x).item() == pytest.approx(expected, rel=1e-6)
    finally:
        tt.set_float32_matmul_precision("highest")


def test_inputs_that_are_never_the_same_are_forgotten(device, monkeypatch):
    if replays(device):
        from tinytensor.nn.fast import recorded_step

        monkeypatch.setattr(recorded_step, "REMEMBERED", 4)
    step, x, counted = small(device)
    counted.function = lambda x, number: tt.mean(step.model(x) ** 2) * number
    for _ in range(3):
        step(x, 0.0)
    said = []
    for number in range(1, 9):
        step(x, number)
        said.append(step.why_not)
    assert any("other constants" in str(reason) for reason in said) == replays(device)
    counted.calls = 0
    step(x, 0.0)
    assert counted.calls == (0 if replays(device) else 1)


def test_half_precision(device):
    step, x, counted = small(device)

    def loss(x):
        with nn.amp.autocast(device):
            return tt.mean(step.model(x).float() ** 2)

    counted.function = loss
    expected = step.op_by_op(x)
    for _ in range(4):
        step.model.zero_grad()
        close(step(x), expected)
        assert step.why_not is None


def test_running_statistics_run(device):
    tt.manual_seed(0)
    found, expected = (nn.BatchNorm1d(3).to(device) for _ in range(2))
    steps = [nn.compile_step(lambda x, model=model: tt.mean(model(x) ** 4), model) for model in (found, expected)]
    for _ in range(5):
        x = tt.random.normal((8, 3)).to(device)
        steps[0](x)
        steps[1].op_by_op(x)
    for a, b in zip(found.buffers(), expected.buffers(), strict=True):
        close(a, b)
    assert found.num_batches_tracked.item() == 5


@pytest.mark.parametrize("mode", [tt.textbook, tt.detect_anomaly])
def test_who_watches_sees_every_op(device, mode):
    step, x, counted = small(device)
    for _ in range(3):
        step(x)
    counted.calls = 0
    with mode():
        step(x)
    assert counted.calls == 1


def test_ids_out_of_range_are_told_of(device):
    tt.manual_seed(0)
    model = nn.Embedding(5, 3).to(device)
    step = nn.compile_step(lambda ids: tt.sum(model(ids) ** 2), model)
    good, bad = (tt.asarray(ids, device=device) for ids in ([1, 2], [1, 7]))
    for _ in range(3):
        step(good).item()
    with pytest.raises(IndexError, match="7"):
        step(bad).item()
    step(good).item()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Lion", "Adagrad"])
def test_every_optimizer_leaves_parameters_where_they_are(device, optimizer):
    step, x, counted = small(device)
    optimizer = getattr(nn.optim, optimizer)(step.model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        losses.append(step(x).item())
        optimizer.step()
    assert counted.calls == (2 if replays(device) else 5)
    assert losses == sorted(losses, reverse=True)


class Attribute(nn.Module):
    """A module with Tensors and numbers that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(tt.ones(3)), None
        self.offset = tt.ones(3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = self.weight * x + self.offset.to(x.device)
        return out if self.bias is None else out + self.bias


def agrees(step, inputs, calls=4, parameters=()):
    """In each call the step gives the loss and the gradients that it gives op by op."""
    parameters = [*step.model.parameters(), *parameters]
    for _ in range(calls):
        found = []
        for call in (step, step.op_by_op):
            for p in parameters:
                p.grad = None
            found.append((call(*inputs), [p.grad for p in parameters]))
        (loss, gradients), (expected, right) = found
        close(loss, expected)
        assert [g is None for g in gradients] == [g is None for g in right]
        for g, h in zip(gradients, right):
            if g is not None:
                close(g, h)
        assert step.why_not is None


def test_what_is_held_in_other_ways_is_looked_up_again(device):
    model = Attribute().to(device)
    model.offset = model.offset.to(device)
    counted = Counted(lambda x: tt.sum(model(x) ** 2))
    step, x = nn.compile_step(counted, model), tt.ones(3, device=device)
    agrees(step, [x])
    assert counted.calls == 4 + (2 if replays(device) else 4)  # counting calls is no reason to record anew
    model.offset = model.offset * 5
    agrees(step, [x])
    model.bias = nn.Parameter(tt.ones(3, device=device) * 9)
    agrees(step, [x])
    assert model.bias.grad is not None


class Remembers(nn.Module):
    """A module whose attributes become Tensors in time."""

    def __init__(self, what):
        super().__init__()
        self.weight, self.h, self.p, self.act, self.what = nn.Parameter(tt.ones(3)), None, 1.0, tt.tanh, what

    def forward(self, x):
        out = self.act(self.weight * x) * self.p
        if self.what == "state":
            self.h = out.detach() if self.h is None else self.h * 0.9 + out.detach()
            return out + self.h
        if self.what == "seen":
            self.seen = out.detach()
        if self.what == "schedule":
            self.p *= 0.5
        if self.what == "once" and self.h is None:
            self.h = x * 2
        return out


@pytest.mark.parametrize("what", ["state", "seen", "schedule", "once"])
def test_modules_that_change_themselves(device, what):
    losses = []
    for compiled in (True, False):
        model = Remembers(what).to(device)
        counted = Counted(lambda x, model=model: tt.sum(model(x)))
        step, x = nn.compile_step(counted, model), tt.ones(3, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses.append([(step if compiled else step.op_by_op)(x).item() for _ in range(9)])
            if compiled and what == "once":
                assert counted.calls == (2 if replays(device) else 9)
            elif compiled and replays(device):
                assert "in place" in step.why_not
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_module_that_comes_to_rest_is_recorded_again(device):
    model = Remembers("seen").to(device)
    counted = Counted(lambda x: tt.sum(model(x)))
    step, x = nn.compile_step(counted, model), tt.ones(3, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):
            step(x)
    model.what, counted.calls = "nothing", 0
    for _ in range(8):
        step(x)
    assert counted.calls <= (5 if replays(device) else 8)


def test_attributes_that_are_no_numbers_are_looked_at(device):
    model = Remembers("nothing").to(device)
    step, x = nn.compile_step(lambda x: tt.sum(model(x)), model), tt.ones(3, device=device)
    agrees(step, [x])
    model.act = tt.exp
    agrees(step, [x])
    model.p = 3.0
    agrees(step, [x])
    model.forward = lambda x: tt.sum(model.weight * 7 * x)
    agrees(step, [x])


def test_what_is_replaced_before_each_call_is_told_of(device):
    step, x, counted = small(device)
    offset = tt.zeros((), device=device)
    counted.function = lambda x: tt.mean(step.model(x) ** 2) + offset
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(10):
            offset = tt.asarray(float(number), device=device)
            assert step(x).item() == pytest.approx(number + step.op_by_op(x).item() - number, rel=1e-5)
    assert len(caught) == (1 if replays(device) else 0)
    for _ in range(3):
        step(x)
    assert step.why_not is None


def test_copies_of_a_step(device):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)
            self.step = nn.compile_step(self.loss, self)

        def loss(self, x):
            return tt.mean(self.layer(x) ** 2)

    model = Own().to(device)
    x = tt.ones((2, 3), device=device)
    for _ in range(3):
        model.step(x)
    other = copy.deepcopy(model)
    with tt.no_grad():
        other.layer.weight.copy_(other.layer.weight * 3)
    for one in (model, other):
        agrees(one.step, [x])
    assert model.step(x).item() != pytest.approx(other.step(x).item())


def test_an_input_that_is_made_to_want_a_gradient(device):
    step, x, counted = small(device)

    def penalty(x):
        x.requires_grad_()
        loss = tt.mean(step.model(x) ** 2)
        (slope,) = tt.grad(loss, [x], create_graph=True)
        return loss + tt.sum(slope**2)

    counted.function = penalty
    given = [tt.asarray(x, copy=True) for _ in range(4)]
    losses = []
    for y in given:
        losses.append(step(y).item())
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-4)


def test_positions_follow_to_where_they_are_asked_for(device):
    model = nn.PositionalEncoding(4, max_len=8).eval()
    layer = nn.Linear(4, 4).to(device)
    step = nn.compile_step(lambda x: tt.sum(model(layer(x)) ** 2), layer)
    x = tt.ones((2, 3, 4), device=device)
    agrees(step, [x])
    model(tt.ones((1, 3, 4)))
    agrees(step, [x])


def test_another_module_of_the_function_is_looked_at_too(device):
    step, x, _ = small(device)
    tt.manual_seed(5)
    teacher, offset = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5)).to(device).eval(), tt.ones(1, device=device)

    @tt.no_grad()
    def helper(x):
        return teacher(x)

    def loss(x):
        return tt.mean((step.model(x) - helper(x) + offset) ** 2)

    step.function = loss
    agrees(step, [x])
    teacher[0].weight = nn.Parameter(tt.ones((1, 3), device=device) * 30)
    agrees(step, [x])
    offset = offset * 20
    agrees(step, [x])
    with tt.no_grad():
        teacher[0].bias.copy_(teacher[0].bias + 7)
    agrees(step, [x])
    seen = []
    teacher.register_forward_hook(lambda *_: seen.append(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(x)
        step(x)
    assert len(seen) == 2


def test_another_function_is_another_step(device):
    step, x, _ = small(device)
    agrees(step, [x])
    step.function = lambda x: tt.sum(step.model(x) ** 4)
    agrees(step, [x])


def test_modes_are_told_apart(device):
    step, x, _ = small(device)

    def loss(x):
        return tt.mean(step.model(x * 1.001).float() ** 2)

    step.function = loss
    found = []
    for _ in range(4):
        found.append(step(x).item())
        with nn.amp.autocast(device):
            found.append(step(x).item())
    assert len(set(np.round(found, 7))) == 2
    with tt.no_grad(), pytest.raises(RuntimeError):
        step(x)


def test_dtypes_and_constants_that_are_equal_are_told_apart(device):
    step, x, counted = small(device)
    counted.function = lambda x, number: tt.mean(step.model(x.float()) ** 2) * (type(number) is int) + number
    for _ in range(3):
        for number in (1, 1.0, True, 0.0, (2.0), 2):
            close(step(x, number), step.op_by_op(x, number))
    counted.function = lambda x: tt.mean(step.model(x.float()) ** 2) + tt.mean(x / 3).float()
    for _ in range(3):
        for dtype in (tt.float32, tt.float64, tt.float16):
            given = tt.astype(x, dtype)
            close(step(given), step.op_by_op(given))


@pytest.mark.parametrize("many", [2, 20])
def test_many_arrays_are_joined(device, many):
    step, x, counted = small(device)
    counted.function = lambda x: (
        tt.mean(step.model(tt.concat([x, x * 2] * many, axis=0)) ** 2)
        + tt.mean(tt.stack([step.model(x)] * many, axis=-1) * tt.stack([step.model(x)] * many, axis=-1))
    )
    agrees(step, [x])
    assert counted.calls == 4 + (2 if replays(device) else 4)


def test_nothing_is_kept_longer_than_the_step(device):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)
            self.step = nn.compile_step(lambda x: tt.mean(self.layer(x) ** 2), self)

    model = Own().to(device)
    x = tt.ones((2, 3), device=device)
    for _ in range(3):
        model.step(x)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


# ---- what cannot be recorded


def swallowed(loss):
    try:
        return loss.item()
    except RuntimeError:
        return 0.0


def refused(step, inputs, reason, device):
    """The step is computed op by op in every call, with one warning."""
    expected = step.op_by_op(*inputs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            close(step(*inputs), expected)
    if replays(device):
        assert reason in step.why_not
        assert [str(w.message) for w in caught] == [f"compile_step: computed op by op, since {step.why_not}"]
        assert caught[0].filename == __file__
    else:
        assert step.why_not is None
        assert not caught


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("reads numbers", lambda loss: loss * loss.item()),
        ("reads numbers", lambda loss: loss * 2 if loss > 100 else loss),
        ("moves a ndarray", lambda loss: loss * tt.asarray([2.0, 1.0], device=loss.device)[0]),
        ("reads numbers", lambda loss: loss * (1 if swallowed(loss) else 1.0)),
        ("GradScaler.scale has a number", lambda loss: nn.amp.GradScaler(init_scale=8.0).scale(loss)),
        ("a generator of its own", lambda loss: F.dropout(loss, 0.0001, generator=tt.random.Generator(1))),
        ("GradScaler.get_scale", lambda loss: loss * nn.amp.GradScaler(init_scale=8.0).get_scale()),
        ("it sets a seed", lambda loss: tt.manual_seed(1) and loss),
        ("random numbers on the CPU", lambda loss: loss * tt.sum(tt.random.bernoulli(1.0, (3,))).item()),
        ("random numbers on the CPU", lambda loss: loss * tt.random.integers(1, 2).item()),
    ],
)
def test_what_comes_from_the_cpu_is_refused(reason, change, device):
    step, x, counted = small(device)
    counted.function = lambda x: change(tt.mean(step.model(x) ** 2))
    refused(step, [x], reason, device)


def test_copies_that_cupy_makes_inside_are_found(device):
    if not replays(device):
        pytest.skip("is about CuPy")
    import cupy

    step, x, counted = small(device)
    numbers = np.ones(5, np.float32)
    counted.function = lambda x: tt.mean(step.model(x) ** 2 * tt.asarray(cupy.asarray(numbers))[:, None])
    refused(step, [x], "H2D transfers", device)


def test_what_a_failed_recording_drew_is_drawn_again(device):
    """The step goes on with the numbers that it would have found."""
    states = []
    for compiled in (True, False):
        step, x, counted = small(device)
        counted.function = lambda x, step=step: (
            tt.mean(step.model(F.dropout(x, 0.5)) ** 2) * float(x.sum().item() < 1e9)
        )
        tt.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses = [(step if compiled else step.op_by_op)(x).item() for _ in range(4)]
        states.append((losses, tt.random.get_state()))
    assert states[0] == states[1]


def test_no_warning_where_none_is_wanted(device):
    step, x, counted = small(device)
    counted.function = lambda x: tt.mean(step.model(x) ** 2) * float(x.sum().item() < 1e9)
    step = nn.compile_step(counted, step.model, warn=False)
    for _ in range(4):
        step(x)
    assert (step.why_not is not None) == replays(device)


def test_hooks_are_called_in_each_call(device):
    step, x, _ = small(device)
    seen = []
    hook = step.model[1].register_forward_hook(lambda *_: seen.append(1))
    refused(step, [x], "a Tanh has a hook", device)
    hook.remove()
    seen.clear()
    for _ in range(3):
        step(x)
    assert step.why_not is None
    step.model[0].weight.register_hook(lambda g: seen.append(2))
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step(x)
    assert seen == [2, 2, 2]


def test_inputs_that_no_recording_can_read(device):
    step, x, counted = small(device)
    counted.function = lambda x, other: tt.mean(step.model(x) ** 2)
    refused(step, [x, tt.ones(3)], "input 1 is on the CPU", device)
    refused(step, [x, [1, 2]], "input 1 is or has a list", device)
    refused(step, [x, (1, x)], "input 1 is or has a Tensor", device)
    refused(step, [x, object()], "input 1 is or has a object", device)
    refused(step, [x, tt.ones(3, device=device).requires_grad_()], "input 1 requires a gradient", device)


def test_a_buffer_put_in_place_of_another_is_refused(device):
    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(tt.ones(3))
            self.register_buffer("mean", tt.zeros(3))

        def forward(self, x):
            self.mean._data = (self.mean.detach() * 0.9 + x)._data
            return self.weight * x + self.mean

    model = Moving().to(device)
    step = nn.compile_step(lambda x: tt.sum(model(x)), model)
    x = tt.ones(3, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = [step(x).item() for _ in range(4)]
    np.testing.assert_allclose(losses, [6.0, 8.7, 11.13, 13.317], rtol=1e-5)
    assert step.why_not == ("it puts another mean in place; write to it with copy_()" if replays(device) else None)


def test_a_step_within_a_step_is_refused(device):
    inner, x, _ = small(device)
    outer, _, both = small(device)
    both.function = lambda x: tt.mean(outer.model(x) ** 2) + inner(x)
    gradients = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            outer(x)
            gradients.append(inner.model[0].weight.grad.numpy())
    for number, gradient in enumerate(gradients, 1):
        np.testing.assert_allclose(gradient, number * gradients[0], rtol=1e-5)
    assert outer.why_not == ("another compiled step is called within it" if replays(device) else None)


def test_gradients_are_left_to_the_step(device):
    step, x, counted = small(device)
    function = counted.function

    def backward_too(x):
        function(x).backward()
        return function(x)

    counted.function = backward_too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in (1, 2, 3, 4):
            step(x)
            if number == 1:
                first = step.model[0].weight.grad.numpy()
            np.testing.assert_allclose(step.model[0].weight.grad.numpy(), number * first, rtol=1e-5)
    said = "it fills .grad itself; return the loss, and leave backward() to the step"
    assert step.why_not == (said if replays(device) else None)


def test_an_interrupt_leaves_all_as_it_was(device):
    step, x, counted = small(device)
    step(x)
    gradient = step.model[0].weight.grad.numpy()
    function = counted.function

    def interrupted(x):
        function(x)
        raise KeyboardInterrupt

    counted.function = interrupted
    with pytest.raises(KeyboardInterrupt):
        step(x)
    assert (step.model[0].weight.grad.numpy() == gradient).all()
    counted.function = function
    for number in (2, 3, 4):
        step(x)
        np.testing.assert_allclose(step.model[0].weight.grad.numpy(), number * gradient, rtol=1e-5)


def test_only_so_many_shapes_are_recorded(device, monkeypatch):
    if replays(device):
        from tinytensor.nn.fast import recorded_step

        monkeypatch.setattr(recorded_step, "MOST", 2)
    step, x, counted = small(device)
    for _ in range(4):
        for n in (1, 2, 3):
            close(step(x[:n]), step.op_by_op(x[:n]))
    assert counted.calls == 12 + (2 + 2 + 4 if replays(device) else 12)
    assert (step.why_not is not None) == replays(device)


# ---- mistakes


def test_mistakes(device):
    step, x, counted = small(device)
    with pytest.raises(TypeError, match="expected a Module as model, got list"):
        nn.compile_step(counted, list(step.model.parameters()))
    for result, error, message in (
        (3.0, TypeError, "got float"),
        ((tt.ones(()), 3.0), TypeError, "a tuple with a float"),
        (tt.ones(3), ValueError, r"one element, got \(3,\)"),
        ((), ValueError, "one element"),
    ):
        counted.function = lambda x, result=result: result
        with pytest.raises(error, match=message):
            step(x)


def test_without_the_engine_room_it_is_op_by_op(device, monkeypatch):
    monkeypatch.setattr(CompiledStep.__call__, "faster", None)
    step, x, counted = small(device)
    for _ in range(4):
        step(x)
    assert counted.calls == 4


def test_what_is_replaced_between_two_calls_is_called(device, monkeypatch):
    model = transformer(device)
    step, (batch, *_) = nn.compile_step(loss_of(model), model), batches(device)
    for _ in range(4):
        step(*batch)
    own = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: own(self, x) * 2)
    expected = step.op_by_op(*batch).item()
    for _ in range(4):
        np.testing.assert_allclose(step(*batch).item(), expected, rtol=1e-5)
    monkeypatch.undo()
    expected = step.op_by_op(*batch).item()
    np.testing.assert_allclose(step(*batch).item(), expected, rtol=1e-5)
