"""The steps in place, compiled and by hand, against the algorithms in the optimisers' classes."""

import functools
import math
import random

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import optim
from tinytensor.nn.optim import SGD, Adam, AdamW, Optimizer

from ..test_more_optimizers import KINDS as OTHERS
from ..test_optim import ADAM_SETTINGS, SGD_SETTINGS, give, gradients, make

SETTINGS = [
    (kind, s) for kind, all_ in ((SGD, SGD_SETTINGS), (Adam, ADAM_SETTINGS), (AdamW, ADAM_SETTINGS)) for s in all_
]
OTHER_SETTINGS = [
    (OTHERS[name], {"lr": 0.01, **settings})
    for name in OTHERS
    for settings in ({}, {"weight_decay": 0.1}, {"maximize": True})
    if name != "Muon" or "maximize" not in settings
]


@pytest.fixture
def rooms():
    """The modules that take steps in place."""
    from tinytensor.fast.compiler import in_place, jit
    from tinytensor.nn.fast import update

    if not jit.can_compile():
        pytest.skip("llvmlite is not installed")
    return update, in_place


@pytest.fixture
def compiled(rooms, monkeypatch):
    """Record a user's update for small parameters, too; counts the calls of loops."""
    update, in_place = rooms
    monkeypatch.setattr(update, "LARGE", 1)
    return called(in_place, monkeypatch)


def called(in_place, monkeypatch):
    rows, call = [], in_place.InPlace.__call__

    def counting(self, given, numbers):
        rows.append(len(given))
        return call(self, given, numbers)

    monkeypatch.setattr(in_place.InPlace, "__call__", counting)
    return rows


@pytest.mark.parametrize("shape", [(), (0,), (4, 5), (107,)])
@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_a_step_in_place_is_one_by_the_formula(kind, settings, dtype, shape, device, monkeypatch):
    fast, slow = (make(shape, device, dtype) for _ in range(2))
    optimizers = [(fast, kind([fast], lr=0.05, **settings)), (slow, kind([slow], lr=0.05, **settings))]
    memory = fast._data
    tolerance = 100 * float(tt.finfo(dtype).eps)
    for values in gradients(shape):
        for parameter, optimizer in optimizers:
            give(parameter, values)
            with monkeypatch.context() as patch:
                if parameter is slow:
                    patch.setattr(Optimizer._step_by_formula, "faster", None)
                optimizer.step()
        np.testing.assert_allclose(fast.detach().numpy(), slow.detach().numpy(), rtol=tolerance, atol=tolerance)
    assert fast._data is memory
    (state,), (expected,) = (list(optimizer.state_dict()["state"].values()) or [{}] for _, optimizer in optimizers)
    assert list(state) == list(expected)
    for name, value in state.items():
        if name == "step":
            assert value == expected[name] == 4
        else:
            assert value.dtype == expected[name].dtype == (tt.float32 if dtype == tt.float16 else dtype)
            np.testing.assert_allclose(value.numpy(), expected[name].numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize(("kind", "settings"), [*SETTINGS, *OTHER_SETTINGS])
def test_a_compiled_step_has_the_bits_of_the_formula(kind, settings, dtype, compiled):
    """For twenty steps of a rate that falls, so that no number of a step can stay in the loop of the next."""
    found = []
    for is_fast in (True, False):
        parameters = [make(shape, dtype=dtype, seed=n) for n, shape in enumerate([(4, 5), (3, 2), (1, 40)])]
        optimizer = kind(parameters, **settings)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        for step in range(20):
            for n, parameter in enumerate(parameters):
                if step or n:  # one of them begins later
                    give(parameter, np.random.default_rng((step, n)).normal(size=parameter.shape))
            with tt.textbook() if not is_fast else tt.no_grad():
                optimizer.step()
            schedule.step()
        states = [optimizer.state.get(parameter, {}) for parameter in parameters]
        found.append([*parameters, *[value for state in states for value in state.values()]])
    for fast, slow in zip(*found, strict=True):
        if isinstance(slow, tt.Tensor):
            np.testing.assert_array_equal(fast.detach().numpy(), slow.detach().numpy())
        else:
            assert type(fast) is type(slow)
            assert fast == slow
    assert compiled or kind is OTHERS["Muon"]


class Rprop(Optimizer):
    """One of a user's own: it counts, draws, looks at a shape, asks `math`, and reads an attribute."""

    state_names = ("last",)

    def __init__(self, params, lr=0.01):
        super().__init__(params, {"lr": lr})
        self.calls, self.gain = 0, 0.5

    def update(self, theta, g, state, group):
        self.calls += 1
        t = state.get("step", 0) + 1
        rate = group["lr"] * (1 + random.random()) / math.sqrt(t)
        last = state.get("last", tt.zeros_like(g))
        g = g * self.gain if theta.ndim > 1 else g
        return theta - rate * tt.sign(g) * tt.abs(last + g), {"step": t, "last": 0.5 * last + g}


def test_one_of_a_users_own_runs_for_each_parameter_and_its_arrays_are_compiled(compiled):
    found, calls = [], []
    for is_fast in (True, False):
        random.seed(3)
        parameters = [make(shape, dtype=tt.float32, seed=n) for n, shape in enumerate([(4, 5), (20,), (4, 5)])]
        optimizer = Rprop(parameters)
        for step in range(4):
            optimizer.gain = 1 / (step + 1)
            for n, parameter in enumerate(parameters):
                give(parameter, np.random.default_rng((step, n)).normal(size=parameter.shape))
            with tt.textbook() if not is_fast else tt.no_grad():
                optimizer.step()
        found.append([p.detach().numpy().tobytes() for p in parameters])
        calls.append(optimizer.calls)
    assert found[0] == found[1]
    assert calls == [12, 12]
    assert sum(compiled) == 12


def test_one_that_cannot_be_recorded_runs_by_its_lines(compiled):
    class Noisy(Optimizer):
        def update(self, theta, g, state, group):
            seen.append(type(theta._data))
            return theta - group["lr"] * g * tt.random.randn(*g.shape), {}

    class Told(Optimizer):
        def update(self, theta, g, state, group):
            print(theta.shape)
            return theta - group["lr"] * g, {}

    for kind in (Noisy, Told):
        seen = []
        parameters = [make((4, 5)), make((3,))]
        optimizer = kind(parameters, {"lr": 1.0})
        for _ in range(3):
            for parameter in parameters:
                give(parameter, np.ones(parameter.shape))
            optimizer.step()
        assert seen[-6:] == [np.ndarray] * 6 * (kind is Noisy)
    assert not compiled


class InItself(Optimizer):
    """It writes its state and a number of the group itself, which the formula's way allows."""

    def update(self, theta, g, state, group):
        state["m"] = 0.5 * state.get("m", 0.0) + g
        group["calls"] = group.get("calls", 0) + 1
        return theta - group["lr"] * state["m"], {}


def taken(kind, is_fast, steps=3, shape=(4, 5), change=lambda optimizer: None):
    """An optimiser after some steps, and its parameters as bytes."""
    parameters = [make(shape, dtype=tt.float32, seed=n) for n in range(2)]
    optimizer = kind(parameters, {"lr": 0.1}) if kind is InItself else kind(parameters)
    change(optimizer)
    for step in range(steps):
        for n, parameter in enumerate(parameters):
            give(parameter, np.random.default_rng((step, n)).normal(size=shape))
        with tt.textbook() if not is_fast else tt.no_grad():
            optimizer.step()
    return optimizer, [p.detach().numpy().tobytes() for p in parameters]


def test_an_update_that_writes_its_state_runs_by_its_lines(compiled):
    (fast, found), (slow, expected) = taken(InItself, True), taken(InItself, False)
    assert found == expected
    assert slow.param_groups[0]["calls"] == 6
    assert fast.param_groups[0]["calls"] == 8  # with and without a state, the first one ran twice, to be recorded


def keeps_on_itself(self, theta, g, state, group):
    self.last = g * 2
    return theta - group["lr"] * g, {}


def writes(state, name, value):
    state[name] = value
    return value


USERS = {
    "sum along an axis": lambda self, t, g, s, p: (t - 0.1 * g / (tt.sum(g * g, axis=-1, keepdims=True) + 0.1), {}),
    "maximum": lambda self, t, g, s, p: (t - 0.1 * g / (tt.max(g, axis=0, keepdims=True) + 9), {}),
    "norm": lambda self, t, g, s, p: (t - 0.1 * g / tt.linalg.vector_norm(g), {}),
    "branch": lambda self, t, g, s, p: (t - 0.1 * g if tt.sum(g) > 0 else t + g, {}),
    "writes its state": lambda self, t, g, s, p: (t - 0.1 * writes(s, "m", 0.9 * s.get("m", 0.0) + g), {}),
    "list": lambda self, t, g, s, p: (t - 0.1 * sum(s.get("h", []), g), {"h": [*s.get("h", [])[-2:], g * 1.0]}),
    "single element": lambda self, t, g, s, p: (t - s.get("n", 0.0) * g, {"n": tt.max(tt.abs(g))}),
    "mask": lambda self, t, g, s, p: (t - tt.where(s.get("up", g > 0), 0.1, 0.2) * g, {"up": g > 0.5}),
    "float64": lambda self, t, g, s, p: (t - 0.1 * g, {"m": 0.9 * s.get("m", 0.0) + tt.astype(g, tt.float64)}),
    "old arrays": lambda self, t, g, s, p: (t - 0.1 * g - 0.01 * s.get("old", 0.0), {"old": t, "g_before": g}),
    "restarts": lambda self, t, g, s, p: (
        t - 0.1 * s.get("m", g), {"m": 0.0 if s.get("n") == 1 else g * 1, "n": s.get("n", 0) + 1},
    ),
    "theta in its state": lambda self, t, g, s, p: (t - 0.1 * s.get("theta", g), {"theta": g * 2}),
    "keeps an array on itself": keeps_on_itself,
    "root of a number": lambda self, t, g, s, p: (t - g / math.sqrt(s.get("n", 0) + 1), {"n": s.get("n", 0) + 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
def test_an_update_of_a_users_is_what_computes(name, compiled):
    kind = type("Users", (Optimizer,), {"update": USERS[name], "state_names": ("m", "a", "b", "old", "up", "theta")})
    found = []
    for is_fast in (True, False):
        parameters = [make(shape, dtype=tt.float32, seed=n) for n, shape in enumerate([(60, 1), (6, 10), (1, 60)])]
        optimizer = kind(parameters, {"lr": 0.1})
        for step in range(4):
            for n, parameter in enumerate(parameters):
                give(parameter, np.random.default_rng((step, n)).normal(size=parameter.shape))
            with tt.textbook() if not is_fast else tt.no_grad():
                optimizer.step()
        kept = getattr(optimizer, "last", tt.zeros(()))
        found.append([p.detach().numpy() for p in (*parameters, kept)])
    for fast, slow in zip(*found, strict=True):
        np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("taken_for_good", ["math.sqrt(1 - 0.9**t)", "float(t)", "abs(-t)", "round(t)", "(-0.5) ** t"])
def test_an_edited_update_that_takes_a_number_for_good_is_found_out(taken_for_good, compiled, monkeypatch):
    """An edit of `nn/optim/adam.py`: `math` gives the number of the step that was recorded."""
    text = (
        "def update(self, theta, g, state, group):\n    t = state.get('step', 0) + 1\n"
        f"    return theta - group['lr'] * {taken_for_good} * g, {{'step': t}}\n"
    )
    there = {"math": math, "tt": tt}
    exec(compile(text, Adam.update.__code__.co_filename, "exec"), there)
    monkeypatch.setattr(Adam, "update", there["update"])
    assert taken(Adam, True, steps=6)[1] == taken(Adam, False, steps=6)[1]


def test_a_step_that_fails_after_small_ones_changes_nothing(rooms):
    def update(self, theta, g, state, group):
        m = 0.9 * state.get("m", 0.0) + g
        return theta - 0.1 * m, {"m": m}

    parameters = [make((3,), dtype=tt.float32), make((130, 140), dtype=tt.float32)]
    optimizer = type("Users", (Optimizer,), {"update": update})(parameters, {"lr": 0.1})
    for parameter in parameters:
        give(parameter, np.ones(parameter.shape))
    optimizer.state[parameters[1]] = {"m": tt.zeros((7,))}
    before = [p.detach().numpy().tobytes() for p in parameters]
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert [p.detach().numpy().tobytes() for p in parameters] == before


def test_memory_of_a_state_that_is_read_only_is_not_written(compiled):
    parameter, ones = make((4, 5), dtype=tt.float32), np.ones((4, 5), np.float32)
    ones.flags.writeable = False
    optimizer = Adam([parameter])
    for _ in range(2):
        give(parameter, np.ones((4, 5)))
        optimizer.step()
        optimizer.state[parameter]["exp_avg"] = tt.asarray(ones, copy=False)
    give(parameter, np.ones((4, 5)))
    optimizer.step()
    assert (ones == 1).all()


@pytest.mark.parametrize("way", ["partial", "callable", "lambda", "method of another"])
def test_an_update_that_is_put_on_an_instance_is_called(way, compiled):
    def change(optimizer):
        own = optimizer.update

        class Callable:
            def __call__(self, *arguments):
                return own(*arguments)

        optimizer.update = {
            "partial": functools.partial(own),
            "callable": Callable(),
            "lambda": lambda theta, g, state, group: own(theta, g * 2, state, group),
            "method of another": Adam([make((2,))], lr=0.1).update,
        }[way]

    assert taken(Adam, True, change=change)[1] == taken(Adam, False, change=change)[1]


def test_groups_of_one_rate_may_remember_different_arrays(monkeypatch, rooms):
    """By hand as well: one of them with `amsgrad`, and parameters of two dtypes."""
    for can in (True, False):
        monkeypatch.setattr(rooms[0], "can_compile", lambda can=can: can)
        found = []
        for is_fast in (True, False):
            parameters = [make((4, 5), dtype=t, seed=n) for n, t in enumerate((tt.float32, tt.float32, tt.float64))]
            optimizer = Adam([{"params": parameters[:1], "amsgrad": True}, {"params": parameters[1:]}], lr=0.1)
            for step in range(3):
                for n, parameter in enumerate(parameters):
                    give(parameter, np.random.default_rng((step, n)).normal(size=(4, 5)))
                with tt.textbook() if not is_fast else tt.no_grad():
                    optimizer.step()
            found.append([p.detach().numpy() for p in parameters])
        for fast, slow in zip(*found):
            np.testing.assert_allclose(fast, slow, rtol=1e-5)


def test_a_state_that_holds_a_list_is_taken_along(compiled):
    parameter = make((4, 5))
    optimizer = Adam([parameter])
    for _ in range(3):
        give(parameter, np.ones((4, 5)))
        optimizer.step()
        optimizer.state[parameter]["seen"] = [1, 2]
    assert optimizer.state[parameter]["seen"] == [1, 2]
    assert optimizer.state[parameter]["step"] == 3


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError])
def test_an_error_of_an_update_is_raised_and_nothing_is_changed(error, compiled):
    class Wrong(Optimizer):
        def update(self, theta, g, state, group):
            if theta.ndim == 1:
                raise error("for a test")
            return theta - group["lr"] * g, {"step": 1}

    parameters = [make((4, 5)), make((3,))]
    optimizer = Wrong(parameters, {"lr": 1.0})
    for parameter in parameters:
        give(parameter, np.ones(parameter.shape))
    before = [p.detach().numpy().tobytes() for p in parameters]
    with pytest.raises(error, match="for a test"):
        optimizer.step()
    assert [p.detach().numpy().tobytes() for p in parameters] == before
    assert not optimizer.state


def test_a_number_that_divides_by_zero_is_an_error_of_the_formula(compiled):
    parameter = make((4, 5))
    give(parameter, np.ones((4, 5)))
    optimizer = optim.Adamax([parameter])
    optimizer.step()
    optimizer.param_groups[0]["betas"] = (1.0, 0.9)
    with pytest.raises(ZeroDivisionError):
        optimizer.step()


@pytest.mark.parametrize("settings", ADAM_SETTINGS)
def test_adam_has_a_step_where_nothing_can_be_compiled(settings, rooms, monkeypatch):
    monkeypatch.setattr(rooms[0], "can_compile", lambda: False)
    rows = called(rooms[1], monkeypatch)
    test_a_step_in_place_is_one_by_the_formula(Adam, settings, tt.float32, (4, 5), "cpu", monkeypatch)
    assert rows == []


def test_an_update_that_is_replaced_is_the_one_that_computes(compiled, monkeypatch):
    parameter = make((4, 5))
    optimizer = Adam([parameter])
    for step in range(3):
        give(parameter, np.ones((4, 5)))
        if step == 2:
            monkeypatch.setattr(Adam, "update", lambda self, theta, g, state, group: (theta * 0 + 7, {}))
        optimizer.step()
    np.testing.assert_array_equal(parameter.detach().numpy(), 7.0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parameters_of_several_dtypes_and_sizes(threads, monkeypatch):
    from tinytensor.fast import threads as parallel

    monkeypatch.setattr(parallel, "_threads", threads)
    sizes = ((100, tt.float32), (90, tt.float64), (80, tt.float64), (40_000, tt.float32), (3, tt.float64))
    parameters = [tt.tensor(np.ones(n), dtype=dtype, requires_grad=True) for n, dtype in sizes]
    optimizer = Adam(parameters, lr=0.5)
    for parameter in parameters:
        parameter.grad = tt.ones_like(parameter)
    optimizer.step()
    for parameter in parameters:
        np.testing.assert_allclose(parameter.detach().numpy(), 0.5, rtol=1e-6)


UNLIKE = [(40_000,), (3, 5), (), (0,), (7, 11, 2), (300, 200)]  # shapes that no number of threads divides evenly


def stepped(kind, dtype, shapes=UNLIKE):
    """Parameters after three steps, and what is remembered of them, as bytes."""
    parameters = [make(shape, dtype=dtype, seed=n) for n, shape in enumerate(shapes)]
    optimizer = kind(parameters)
    for scale in (1.0, 1e-3, 10.0):
        for n, parameter in enumerate(parameters):
            give(parameter, np.random.default_rng(n).normal(size=parameter.shape) * scale)
        optimizer.step()
    remembered = [v for p in parameters for v in optimizer.state.get(p, {}).values() if isinstance(v, tt.Tensor)]
    return [tensor.detach().numpy().tobytes() for tensor in (*parameters, *remembered)]


KINDS = {
    "adam": lambda p: Adam(p, lr=0.05, weight_decay=0.1),
    "adamw": lambda p: AdamW(p, lr=0.05, maximize=True),
    "sgd": lambda p: SGD(p, lr=0.05, weight_decay=0.1),
    "momentum": lambda p: SGD(p, lr=0.05, momentum=0.9, dampening=0.3, maximize=True),
    "nesterov": lambda p: SGD(p, lr=0.05, momentum=0.9, nesterov=True),
}


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loops_give_the_same_bits_on_any_number_of_threads(kind, dtype, loops, monkeypatch):
    from tinytensor.fast import threads as parallel

    found = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(parallel, "_threads", threads)
        found.append(stepped(KINDS[kind], dtype))
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_is_updated_as_if_it_were_alone(kind, loops):
    together, count = stepped(KINDS[kind], tt.float32), len(UNLIKE)
    alone = stepped(KINDS[kind], tt.float32, UNLIKE[:1])
    assert alone == together[:1] + together[count : count + len(alone) - 1]


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_transposed_leaf_is_updated_in_its_place(kind, dtype):
    turned = tt.ones((3, 2), dtype=dtype).T.detach().requires_grad_()
    optimizer = kind([turned], lr=0.5)
    give(turned, np.ones((2, 3)))
    optimizer.step()
    np.testing.assert_allclose(turned.detach().numpy(), 0.5, rtol=1e-3)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3, 1)])
def test_a_state_of_another_shape_is_refused(shape, device):
    parameter = make((2, 3), device, tt.float32)
    optimizer = Adam([parameter])
    for _ in range(2):
        give(parameter, np.ones((2, 3)))
        optimizer.step()
    optimizer.state[parameter]["exp_avg"] = tt.zeros(shape, device=device)
    with pytest.raises(ValueError, match=r"state 'exp_avg' has shape .*, but its parameter \(2, 3\)"):
        optimizer.step()


@pytest.mark.parametrize(("kind", "name"), [(SGD, "momentum_buffer"), (Adam, "exp_avg")])
def test_a_state_in_another_order_of_memory_is_updated(kind, name):
    def trained(change):
        parameter = make((2, 3), dtype=tt.float64)
        optimizer = kind([parameter], **({"momentum": 0.9} if kind is SGD else {}), lr=0.1)
        for step in range(4):
            if step == 2:
                optimizer.state[parameter][name] = change(optimizer.state[parameter][name].numpy())
            give(parameter, np.arange(6.0).reshape(2, 3) + step)
            optimizer.step()
        return parameter.detach().numpy()

    np.testing.assert_array_equal(trained(lambda v: tt.asarray(v.T.copy()).T), trained(tt.asarray))


def test_a_loop_takes_parameters_of_all_shapes_and_layouts(compiled):
    shapes = [(3,), (0,), (4, 2), ()]
    parameters = [make(s, dtype=t) for t in (tt.float32, tt.float64, tt.float16) for s in shapes]
    turned = tt.asarray(np.ones((4, 3), np.float32).T, copy=False).requires_grad_()  # neither writable nor contiguous
    groups = [{"params": [*parameters, turned]}, {"params": [make((2,), dtype=tt.float32)], "lr": 0.5}]
    optimizer = Adam(groups)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            give(parameter, np.ones(parameter.shape))
    optimizer.step()
    assert sorted(compiled) == [1, 3, 7]  # of float64, of float32 with those of float16, and the one of another rate
    assert len(optimizer.state) == len(parameters) + 2


def test_a_step_that_fails_says_so_and_what_was_read_before_is_known_to_be_changed(compiled, rooms, monkeypatch):
    parameter = make((3,), dtype=tt.float32)
    loss = (parameter * parameter).sum()
    give(parameter, np.ones(3))
    optimizer = Adam([parameter])

    def fail(self, rows, numbers):
        raise MemoryError("for a test")

    monkeypatch.setattr(rooms[1].InPlace, "__call__", fail)
    with pytest.raises(MemoryError, match="for a test"):
        optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()
