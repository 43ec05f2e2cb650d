"""Optimisers: their papers' algorithms in NumPy, groups, skipped parameters, state, and errors."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.optim import SGD, Adam, AdamW, Optimizer

SHAPES = [(), (0,), (3,), (4, 5)]

SGD_SETTINGS = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    {"weight_decay": 0.1, "maximize": True},
]

ADAM_SETTINGS = [
    {},
    {"betas": (0.5, 0.7), "eps": 1e-3},
    {"weight_decay": 0.1},
    {"maximize": True},
    {"weight_decay": 0.1, "maximize": True},
    {"amsgrad": True},
    {"amsgrad": True, "weight_decay": 0.1},
    {"betas": (0.0, 0.0)},
]


def make(shape, device="cpu", dtype=tt.float64, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return tt.tensor(values, requires_grad=True, dtype=dtype, device=device)


def gradients(shape, steps=4):
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape) * scale for scale in (1.0, 10.0, 0.1, 1.0)[:steps]]


def give(parameter, values):
    parameter.grad = tt.tensor(values, dtype=parameter.dtype, device=parameter.device)


def assert_near(got, wanted, tolerance=1e-13):
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=tolerance, atol=tolerance)


def sgd(theta, g, b, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    """One step on arrays: theta and b."""
    g = (-g if maximize else g) + weight_decay * theta
    b = g if b is None else momentum * b + (1 - dampening) * g
    direction = g + momentum * b if nesterov else b if momentum else g
    return theta - lr * direction, b


def adam(
    theta, g, m, v, t, largest, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False,
    decoupled=False,
):  # fmt: skip
    """Step t on arrays: theta, m, v and the largest v so far."""
    g = -g if maximize else g
    decay = lr * weight_decay * theta if decoupled else 0.0
    g = g if decoupled else g + weight_decay * theta
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    largest = np.maximum(largest, v)
    v_hat = (largest if amsgrad else v) / (1 - betas[1] ** t)
    return theta - decay - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v_hat) + eps), m, v, largest


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("settings", SGD_SETTINGS)
def test_sgd_is_its_formula(shape, settings, device):
    parameter = make(shape, device)
    theta, b = parameter.detach().numpy().copy(), None
    optimizer = SGD([parameter], lr=0.05, **settings)
    for values in gradients(shape):
        give(parameter, values)
        theta, b = sgd(theta, values, b, lr=0.05, **settings)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("settings", ADAM_SETTINGS)
@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_adam_is_its_formula(shape, settings, kind, device):
    parameter = make(shape, device)
    theta, m, v, largest = parameter.detach().numpy().copy(), 0.0, 0.0, 0.0
    optimizer = kind([parameter], lr=0.05, **settings)
    plain = {"weight_decay": 0.01 if kind is AdamW else 0.0, **settings, "decoupled": kind is AdamW}
    for t, values in enumerate(gradients(shape), start=1):
        give(parameter, values)
        theta, m, v, largest = adam(theta, values, m, v, t, largest, lr=0.05, **plain)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-13, atol=1e-13)
    state = optimizer.state[parameter]
    assert state["step"] == 4
    expected = {"exp_avg": m, "exp_avg_sq": v, **({"max_exp_avg_sq": largest} if settings.get("amsgrad") else {})}
    assert set(state) == {"step", *expected}
    for name, values in expected.items():
        np.testing.assert_allclose(state[name].numpy(), values, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", [lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), Adam, AdamW])
def test_update_changes_nothing(kind):
    """It is the algorithm; `step` writes what it gives."""
    parameter = make((3,))
    optimizer = kind([parameter])
    give(parameter, [1.0, 2.0, 3.0])
    optimizer.step()
    group, state = optimizer.param_groups[0], optimizer.state[parameter]
    tensors = [parameter.detach(), parameter.grad, *(v for v in state.values() if isinstance(v, tt.Tensor))]
    before, names = [t.tolist() for t in tensors], dict(state)
    theta, remembered = optimizer.update(parameter.detach(), parameter.grad, state, group)
    assert [t.tolist() for t in tensors] == before
    assert state == names
    optimizer.step()
    assert_near(parameter, theta)
    for name, value in remembered.items():
        np.testing.assert_allclose(np.asarray(optimizer.state[parameter][name]), np.asarray(value), rtol=1e-13)


@pytest.mark.parametrize("kind", [lambda p: SGD(p, momentum=0.9), Adam, AdamW])
def test_float32_stays_float32(kind, device):
    """NumPy's float64 scalars among the settings change nothing, not even the last bit."""
    results = []
    for number in (float, np.float64):
        parameter = make((1000,), device, tt.float32)
        optimizer = kind([parameter])
        optimizer.param_groups[0].update(lr=number(0.1), weight_decay=number(0.3))
        for values in gradients((1000,)):
            give(parameter, values)
            optimizer.step()
        arrays = [parameter, *(v for v in optimizer.state[parameter].values() if isinstance(v, tt.Tensor))]
        assert [a.dtype for a in arrays] == [tt.float32] * len(arrays)
        results.append(parameter.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("size", [1e-6, 1e-4, 1.0, 300.0, 6e4])
@pytest.mark.parametrize(
    "kind",
    [lambda p: SGD(p, momentum=0.9, weight_decay=0.1), Adam, AdamW, lambda p: Adam(p, amsgrad=True, weight_decay=0.1)],
)
def test_float16_is_computed_in_32_bits(kind, size, device):
    """Where 16 bits have 0 for eps and for the squares of small gradients, and infinity for those of large ones."""
    half, single = (make((4, 5), device, dtype) for dtype in (tt.float16, tt.float32))
    mine, expected = kind([half]), kind([single])
    for values in gradients((4, 5)):
        with tt.no_grad():
            single.copy_(half)
        g = (np.clip(values, -1, 1) * size).astype(np.float16)
        give(half, g)
        give(single, g)
        mine.step()
        expected.step()
        assert half.dtype == tt.float16
        assert np.isfinite(half.detach().numpy()).all()
        np.testing.assert_array_equal(half.detach().numpy(), single.detach().numpy().astype(np.float16))
    for name, value in mine.state[half].items():
        if name != "step":
            assert value.dtype == tt.float32
            np.testing.assert_array_equal(value.numpy(), expected.state[single][name].numpy())
    again = kind([half])
    again.load_state_dict(mine.state_dict())
    assert all(v.dtype == tt.float32 for name, v in again.state[half].items() if name != "step")


@pytest.mark.parametrize("layout", ["transposed", "reversed", "strided", "broadcast"])
@pytest.mark.parametrize("kind", [lambda p: SGD(p, lr=0.1, momentum=0.9), Adam])
def test_parameters_and_gradients_of_any_layout(layout, kind):
    base = np.random.default_rng(0).normal(size=(6, 4))
    views = {"transposed": base.T, "reversed": base[::-1, ::-1], "strided": base[::2, ::3]}
    view = views.get(layout, np.broadcast_to(base[:1], (3, 4)))
    parameter, plain = tt.tensor(0.0), tt.tensor(np.ascontiguousarray(view), requires_grad=True)
    parameter._data = view  # `data` itself would take a copy
    parameter.requires_grad = True
    optimizers = kind([parameter]), kind([plain])
    for values in gradients(view.shape):
        give(plain, values)
        give(parameter, values)
        parameter.grad._data = np.asfortranarray(values)
        for optimizer in optimizers:
            optimizer.step()
        np.testing.assert_array_equal(parameter.detach().numpy(), plain.detach().numpy())
    if layout != "broadcast":
        assert parameter._data is view


def test_a_gradient_is_only_read():
    parameter = make((4,))
    give(parameter, [1.0, 2.0, 3.0, 4.0])
    for optimizer in (SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True), Adam([parameter])):
        parameter.grad._data.flags.writeable = False
        optimizer.step()
        assert parameter.grad.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_parameters_without_gradient_are_left_alone():
    for kind in (SGD, Adam, AdamW):
        used, unused = make((3,)), make((3,))
        before = unused.tolist()
        optimizer = kind([used, unused], lr=0.1, weight_decay=0.5)
        give(used, np.ones(3))
        optimizer.step()
        assert unused.tolist() == before
        assert unused not in optimizer.state
        assert used.tolist() != before


def test_sgd_without_momentum_remembers_nothing():
    parameter = make((3,))
    optimizer = SGD([parameter], lr=0.1)
    give(parameter, np.ones(3))
    optimizer.step()
    assert optimizer.state_dict()["state"] == {}


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_step_between_forward_and_backward_is_an_error(kind):
    parameter = make((3,))
    optimizer = kind([parameter], lr=0.1)
    give(parameter, np.ones(3))
    loss = (parameter * parameter).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_step_of_a_non_contiguous_parameter_is_seen_by_graphs():
    parameter = tt.tensor(0.0)
    parameter.data = np.ones((4, 3)).T
    parameter.requires_grad = True
    give(parameter, np.ones((3, 4)))
    loss = (parameter * parameter).sum()
    SGD([parameter], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_graph_on_the_state_sees_the_step():
    parameter = make((3,))
    optimizer = Adam([parameter])
    give(parameter, np.ones(3))
    optimizer.step()
    weight = make((3,))
    loss = (optimizer.state[parameter]["exp_avg"] * weight).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_settings_are_pytorchs_where_none_are_given():
    plain = {"lr": 1e-3, "weight_decay": 0, "maximize": False}
    adam = {**plain, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "decoupled_weight_decay": False}
    assert SGD([tt.zeros(1)]).defaults == {**plain, "momentum": 0, "dampening": 0, "nesterov": False}
    assert Adam([tt.zeros(1)]).defaults == adam
    assert AdamW([tt.zeros(1)]).defaults == {**adam, "weight_decay": 0.01, "decoupled_weight_decay": True}


def test_groups_have_settings_of_their_own():
    first, second, third = make((2,)), make((2,)), make((2,))
    start = first.tolist()
    optimizer = SGD([{"params": [first]}, {"params": second, "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": [third], "lr": 0.0})
    for parameter in (first, second, third):
        give(parameter, np.ones(2))
    optimizer.step()
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5, 0.0]
    np.testing.assert_allclose(first.tolist(), np.subtract(start, 0.1), rtol=1e-15)
    np.testing.assert_allclose(second.tolist(), np.subtract(start, 0.5), rtol=1e-15)
    assert third.tolist() == start
    assert "lr: 0.5" in repr(optimizer)


def test_zero_grad():
    parameter = make((3,))
    optimizer = SGD([parameter], lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad is None
    give(parameter, np.ones(3))
    gradient = parameter.grad
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad.tolist() == gradient.tolist() == [0.0, 0.0, 0.0]
    optimizer.zero_grad()
    assert parameter.grad is None


def test_zero_grad_of_a_gradient_in_a_graph():
    parameter = make((3,))
    (parameter**3).sum().backward(create_graph=True)
    penalty = tt.sum(parameter.grad**2)
    SGD([parameter], lr=0.1).zero_grad(set_to_none=False)
    assert not parameter.grad.requires_grad
    with pytest.raises(RuntimeError, match="changed in place"):
        penalty.backward()


def test_step_with_a_closure():
    parameter = make((3,))
    optimizer = SGD([parameter], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = tt.sum(parameter**2)
        loss.backward()
        return loss

    with tt.no_grad():
        losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_allclose(losses[1], losses[0] * 0.8**2, rtol=1e-12)
    assert optimizer.step() is None


def test_infinite_gradients_pass_without_a_warning():
    for kind in (SGD, Adam, AdamW):
        parameter = make((3,), dtype=tt.float32)
        give(parameter, [math.inf, math.nan, 3e38])
        kind([parameter], lr=0.1).step()
        assert not np.isfinite(parameter.detach().numpy()[:2]).any()


def test_adam_converges():
    target = tt.tensor(np.arange(6.0), dtype=tt.float64)
    parameter = make((6,))
    optimizer = Adam([parameter], lr=0.1)
    for _ in range(500):
        optimizer.zero_grad()
        tt.sum((parameter - target) ** 2).backward()
        optimizer.step()
    assert_near(parameter, target, 1e-6)


# ---- errors


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
@pytest.mark.parametrize("name", ["lr", "weight_decay"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_settings_out_of_range(kind, name, value):
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be"):
        kind([make((2,))], **{"lr": 0.1, name: value})
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be"):
        kind([{"params": [make((2,))], name: value}], lr=0.1)


def test_settings_of_one_optimizer_out_of_range():
    parameter = make((2,))
    for settings in ({"momentum": -1.0}, {"nesterov": True}, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}):
        with pytest.raises(ValueError, match="SGD: "):
            SGD([parameter], lr=0.1, **settings)
    for settings in ({"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"betas": (0.9,)}, {"eps": -1e-8}):
        with pytest.raises(ValueError, match="Adam: "):
            Adam([parameter], **settings)


def test_parameters_that_cannot_be_optimized():
    parameter = make((2,))
    with pytest.raises(ValueError, match="empty"):
        Adam([])
    with pytest.raises(ValueError, match=r"parameter 1 .* twice"):
        Adam([parameter, parameter])
    with pytest.raises(ValueError, match="twice"):
        Adam([{"params": [parameter]}, {"params": [parameter]}])
    with pytest.raises(ValueError, match=r"parameter 0 \(2,\) was computed"):
        Adam([parameter * 2])
    with pytest.raises(TypeError, match=r"parameter 0 \(1,\) is complex64; optimise its real and its imaginary part"):
        SGD([tt.tensor([1j], requires_grad=True)], lr=0.1)
    with pytest.raises(TypeError, match="ndarray"):
        Adam([np.ones(2)])
    for wrong in (parameter, {parameter}, {"params": [parameter]}):
        with pytest.raises(TypeError, match="params must be"):
            Adam(wrong)
    with pytest.raises(TypeError, match="no order"):
        Adam([{"params": {parameter}}])
    assert len(Adam(iter([parameter])).param_groups[0]["params"]) == 1


def test_a_group_that_cannot_be_added_changes_nothing():
    parameter = make((2,))
    optimizer = Adam([parameter])
    for group in ({"params": [make((2,)), parameter]}, {"params": [make((2,))], "lr": -1.0}):
        with pytest.raises(ValueError):
            optimizer.add_param_group(group)
    with pytest.raises(TypeError, match="group"):
        optimizer.add_param_group([make((2,))])
    assert len(optimizer.param_groups) == 1


def test_an_optimizer_of_ones_own():
    class SignDescent(Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def update(self, theta, g, state, group):
            return theta - group["lr"] * tt.sign(g), {}

    parameter = tt.tensor([1.0, 1.0], requires_grad=True)
    give(parameter, [5.0, -5.0])
    memory = parameter._data
    optimizer = SignDescent([parameter], lr=0.5)
    optimizer.step()
    assert parameter.tolist() == [0.5, 1.5]
    assert parameter._data is memory
    assert optimizer.state_dict()["state"] == {}


def test_an_optimizer_of_ones_own_remembers(device):
    class Heavy(Optimizer):
        state_names = ("velocity",)

        def update(self, theta, g, state, group):
            v = state["velocity"] + g if state else g
            return theta - group["lr"] * v, {"velocity": v}

    parameter = make((2,), device, tt.float32)
    parameter.detach().fill_(0.0)
    optimizer = Heavy([parameter], {"lr": 0.5})
    for _ in range(2):
        give(parameter, [1.0, 2.0])
        gradient = parameter.grad
        optimizer.step()
    assert parameter.tolist() == [-1.5, -3.0]
    assert gradient.tolist() == [1.0, 2.0]
    assert optimizer.state[parameter]["velocity"].tolist() == [2.0, 4.0]
    other = Heavy([make((2,), device)], {"lr": 0.5})
    other.load_state_dict(optimizer.state_dict())
    assert next(iter(other.state.values()))["velocity"].tolist() == [2.0, 4.0]


def test_an_update_written_anew_is_the_one_that_is_taken():
    class Still(Adam):
        def update(self, theta, g, state, group):
            return theta, {}

    parameter = make((3,))
    before = parameter.tolist()
    give(parameter, np.ones(3))
    Still([parameter]).step()
    assert parameter.tolist() == before


def test_an_optimizer_without_an_update_says_what_to_write():
    parameter = make((3,))
    give(parameter, np.ones(3))
    with pytest.raises(NotImplementedError, match=r"Optimizer: write update\(theta, g, state, group\)"):
        Optimizer([parameter], {"lr": 0.1}).step()


# ---- state


def train(optimizer, parameters, steps, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        for parameter in parameters:
            give(parameter, rng.normal(size=parameter.shape))
        optimizer.step()


@pytest.mark.parametrize(
    "kind",
    [
        lambda p: SGD(p, lr=0.1, momentum=0.9),
        lambda p: Adam(p, amsgrad=True),
        lambda p: AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}]),
    ],
)
def test_a_loaded_state_goes_on_bit_for_bit(kind, device):
    through = [make((3,), device), make((2, 2), device)]
    optimizer = kind(through)
    train(optimizer, through, 3, seed=1)
    resumed = [p.detach().clone().requires_grad_() for p in through]
    other = kind(resumed)
    other.load_state_dict(optimizer.state_dict())
    for parameters, each in ((through, optimizer), (resumed, other)):
        train(each, parameters, 3, seed=2)
    assert [p.tolist() for p in resumed] == [p.tolist() for p in through]


def test_state_dict_has_pytorchs_layout():
    parameters = [make((3,)), make((2,)), make((1,))]
    optimizer = Adam([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.3}])
    give(parameters[2], [1.0])
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [2]
    assert list(state["state"][2]) == ["step", "exp_avg", "exp_avg_sq"]
    assert [g["params"] for g in state["param_groups"]] == [[0], [1, 2]]
    assert state["param_groups"][1]["lr"] == 0.3


def test_loading_copies_and_casts():
    source, target = make((3,)), make((3,), dtype=tt.float32)
    optimizer, other = Adam([source]), Adam([target])
    train(optimizer, [source], 1, seed=0)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[target]["exp_avg"].dtype == tt.float32
    before = other.state[target]["exp_avg"].tolist()
    train(optimizer, [source], 1, seed=1)
    assert other.state[target]["exp_avg"].tolist() == before


def broken_states():
    def change(function):
        def broken(state):
            function(state)
            return state

        return broken

    return {
        "foreign": lambda state: {"weights": 1},
        "fewer groups": change(lambda s: s["param_groups"].pop()),
        "another length": change(lambda s: s["param_groups"][0]["params"].append(7)),
        "a shape": change(lambda s: s["state"][1].update(exp_avg=np.ones(9))),
        "no moment": change(lambda s: s["state"][0].pop("exp_avg_sq")),
        "unknown name": change(lambda s: s["state"][0].update(momentum_buffer=np.ones(3))),
        "unknown parameter": change(lambda s: s["state"].update({5: {}})),
        "no lr": change(lambda s: s["param_groups"][0].pop("lr")),
        "negative lr": change(lambda s: s["param_groups"][1].update(lr=-1.0)),
        "amsgrad without its state": change(lambda s: s["param_groups"][0].update(amsgrad=True)),
    }


@pytest.mark.parametrize("fault", broken_states())
def test_a_state_that_does_not_fit_changes_nothing(fault):
    parameters = [make((3,)), make((2,))]
    optimizer = Adam([{"params": parameters[:1]}, {"params": parameters[1:]}])
    train(optimizer, parameters, 2, seed=0)
    source = Adam([{"params": [make((3,))]}, {"params": [make((2,))], "lr": 0.7}])
    train(source, [p for g in source.param_groups for p in g["params"]], 1, seed=3)
    groups, state = optimizer.param_groups, optimizer.state
    with pytest.raises(ValueError, match="Adam: load_state_dict"):
        optimizer.load_state_dict(broken_states()[fault](source.state_dict()))
    assert optimizer.param_groups is groups
    assert optimizer.state is state
    assert groups[1]["lr"] == 1e-3
    assert state[parameters[0]]["step"] == 2


def test_all_problems_are_in_one_message():
    parameters = [make((3,)), make((2,))]
    optimizer = Adam(parameters)
    train(optimizer, parameters, 1, seed=0)
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = np.ones(7)
    state["state"][1].pop("step")
    state["param_groups"][0]["eps"] = -1.0
    with pytest.raises(ValueError, match=r"(?s)eps must be.*exp_avg of parameter 0 is \(7,\).*parameter 1 lacks step"):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_step_that_failed_leaves_nothing_for_the_next(kind, device):
    first, second = (tt.tensor([1.0], device=device, requires_grad=True) for _ in range(2))
    optimizer = kind([{"params": [first]}, {"params": [second]}], lr=0.5)
    for parameter in (first, second):
        parameter.grad = tt.ones_like(parameter)
    optimizer.param_groups[1]["lr"] = None
    with pytest.raises(TypeError):
        optimizer.step()
    assert first.item() == 1.0
    optimizer.param_groups[1]["lr"] = 0.5
    optimizer.step()
    assert first.item() == pytest.approx(second.item(), abs=0.2)
    assert first.item() > 0.4
