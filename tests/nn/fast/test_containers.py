"""In a chain of layers ReLU comes behind the pool, unless somebody looks: the same bits from fewer numbers."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn.fast.containers import in_order, pools_first


class Mine(nn.ReLU):
    pass


def hooked(module):
    module.register_forward_hook(lambda module, args, out: None)
    return module


@pytest.mark.parametrize(
    ("modules", "order"),
    [
        ([nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool1d(3)], [1, 0, 3, 2]),
        ([nn.Flatten(), nn.ReLU(), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.ReLU()], [0, 1, 3, 2, 4]),
        ([nn.MaxPool2d(2), nn.ReLU()], [0, 1]),
        ([nn.ReLU(), nn.AvgPool2d(2)], [0, 1]),
        ([nn.GELU(), nn.MaxPool2d(2)], [0, 1]),
        ([Mine(), nn.MaxPool2d(2)], [0, 1]),
        ([hooked(nn.ReLU()), nn.MaxPool2d(2)], [0, 1]),
        ([nn.ReLU(), hooked(nn.MaxPool2d(2))], [0, 1]),
        ([nn.ReLU(), nn.MaxPool2d(2, 1, 1, 3)], [0, 1]),
        ([nn.ReLU(), nn.MaxPool2d(2, return_indices=True)], [0, 1]),
        ([nn.ReLU()], [0]),
        ([], []),
    ],
)
def test_which_pool_comes_first(modules, order):
    assert list(pools_first(modules)) == [modules[i] for i in order]


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.MaxPool2d(3, 1)])
def test_the_bits_are_the_same(pool, device):
    chain = nn.Sequential(nn.ReLU(), pool)
    numbers = np.random.default_rng(0).integers(-2, 3, (2, 3, 7, 6)).astype(np.float32)  # with many equal ones
    numbers[0, 0, 0] = np.nan, -np.inf, np.inf, 0.0, 1.0, 1.0
    found = []
    for call in (chain, lambda x: in_order(chain, x)):
        x = tt.tensor(numbers, requires_grad=True, device=device)
        out = call(x)
        (g,) = tt.grad(out, [x], tt.asarray(np.arange(out.size, dtype=np.float32).reshape(out.shape), device=device))
        found.append((out.detach().numpy().tobytes(), g.numpy().tobytes()))
    assert found[0] == found[1]


def test_who_looks_sees_the_layers_in_their_order():
    chain, x = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), tt.ones((1, 1, 2, 2)).requires_grad_()
    assert chain(x)._node.name == "relu"
    with tt.record() as graph:
        assert chain(x)._node.name == "max_pool"
    assert [op.name for op in graph.ops] == ["relu", "max_pool"]
    with tt.textbook():
        assert chain(x)._node.name != "relu"
