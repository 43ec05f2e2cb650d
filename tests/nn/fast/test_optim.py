"""The steps in place, against the algorithms in the optimisers' classes."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.fast import optim as steps
from tinytensor.nn.optim import SGD, Adam, AdamW, Optimizer

from ..test_optim import ADAM_SETTINGS, SGD_SETTINGS, give, gradients, make

CHUNK = 100  # so many elements go through a step together


@pytest.mark.parametrize("shape", [(), (0,), (4, 5), (CHUNK + 7,)])
@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(kind, s) for kind, all_ in ((SGD, SGD_SETTINGS), (Adam, ADAM_SETTINGS), (AdamW, ADAM_SETTINGS)) for s in all_],
)
def test_a_step_in_place_is_one_by_the_formula(kind, settings, dtype, shape, device, monkeypatch):
    monkeypatch.setattr(steps, "UPDATE_CHUNK", CHUNK)
    fast, slow = (make(shape, device, dtype) for _ in range(2))
    optimizers = [(fast, kind([fast], lr=0.05, **settings)), (slow, kind([slow], lr=0.05, **settings))]
    memory = fast._data
    tolerance = 100 * float(tt.finfo(dtype).eps)
    for values in gradients(shape):
        for parameter, optimizer in optimizers:
            give(parameter, values)
            with monkeypatch.context() as patch:
                if parameter is slow:
                    patch.setattr(Optimizer, "in_place", {})
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
    assert set(Optimizer.in_place) == {SGD.update, Adam.update}
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
