"""The steps in place, against the algorithms in the optimisers' classes."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.optim import SGD, Adam, AdamW, Optimizer

from ..test_optim import ADAM_SETTINGS, SGD_SETTINGS, give, gradients, make


@pytest.mark.parametrize("shape", [(), (0,), (4, 5), (107,)])
@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(kind, s) for kind, all_ in ((SGD, SGD_SETTINGS), (Adam, ADAM_SETTINGS), (AdamW, ADAM_SETTINGS)) for s in all_],
)
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


def test_which_optimizers_have_a_step_in_place():
    assert set(tt.nn.fast.optim.STEPS) == {SGD.update, Adam.update}
    assert AdamW.update is Adam.update


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


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("adam")])
def test_sgd_in_a_loop_is_sgd_without(kind, dtype, loops, monkeypatch):
    looped = stepped(KINDS[kind], dtype)
    monkeypatch.delattr(loops, "sgd")
    assert stepped(KINDS[kind], dtype) == looped


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


def test_loops_are_for_all_parameters_but_those_that_they_cannot_take(loops, monkeypatch):
    batches = []
    monkeypatch.setattr(loops, "adam", lambda parameters, numbers: batches.append(len(parameters)))
    shapes = [(3,), (0,), (4, 2), ()]
    parameters = [make(s, dtype=t) for t in (tt.float32, tt.float64, tt.float16) for s in shapes]
    turned = tt.asarray(np.ones((4, 3), np.float32).T, copy=False).requires_grad_()  # neither writable nor contiguous
    groups = [{"params": [*parameters, turned]}, {"params": [make((2,), dtype=tt.float32)], "lr": 0.5}]
    optimizer = Adam(groups)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            give(parameter, np.ones(parameter.shape))
    optimizer.step()
    assert batches == [4, 3, 3, 1]
    assert len(optimizer.state) == len(parameters) + 2


def test_a_step_that_fails_says_so_and_what_was_read_before_is_known_to_be_changed(loops, monkeypatch):
    parameter = make((3,), dtype=tt.float32)
    loss = (parameter * parameter).sum()
    give(parameter, np.ones(3))
    optimizer = Adam([parameter])

    def fail(parameters, numbers):
        raise MemoryError("for a test")

    monkeypatch.setattr(loops, "adam", fail)
    with pytest.raises(MemoryError, match="for a test"):
        optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()
