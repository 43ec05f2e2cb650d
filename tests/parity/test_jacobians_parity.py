"""`tt.jacobian`, `tt.hessian`, `tt.vjp` and `tt.jvp` beside PyTorch's, in float64."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")

FUNCTIONS = {  # ours, PyTorch's, shapes of the inputs
    "softmax": (lambda x: F.softmax(x, dim=-1), lambda x: x.softmax(-1), [(5,)]),
    "softmax of rows": (lambda x: F.softmax(x, dim=-1), lambda x: x.softmax(-1), [(2, 3)]),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), lambda x: torch.nn.functional.layer_norm(x, (4,)), [(3, 4)]),
    "gelu": (F.gelu, torch.nn.functional.gelu, [(3,)]),
    "product": (lambda x, y: x @ y, lambda x, y: x @ y, [(2, 3), (3, 2)]),
    "attention": (
        F.scaled_dot_product_attention,
        torch.nn.functional.scaled_dot_product_attention,
        [(2, 3), (4, 3), (4, 2)],
    ),
    "two results": (lambda x, y: (x * y, tt.sum(x)), lambda x, y: (x * y, x.sum()), [(3,), (3,)]),
    "number": (lambda x: tt.sum(x**3), lambda x: (x**3).sum(), [()]),
}


def arrays(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def close(found, expected):
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            close(a, b)
    else:
        assert found.shape == tuple(expected.shape)
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name):
    ours, theirs, shapes = FUNCTIONS[name]
    inputs = arrays(shapes)
    given = tuple(map(torch.tensor, inputs))
    expected = torch.autograd.functional.jacobian(theirs, given if len(given) > 1 else given[0])
    close(tt.jacobian(ours, *map(tt.asarray, inputs)), expected)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "two results"])
def test_hessian(name):
    ours, theirs, shapes = FUNCTIONS[name]
    inputs = arrays(shapes)
    given = tuple(map(torch.tensor, inputs))
    expected = torch.autograd.functional.hessian(
        lambda *x: theirs(*x).square().sum(), given if len(given) > 1 else given[0]
    )
    close(tt.hessian(lambda *x: tt.sum(tt.square(ours(*x))), *map(tt.asarray, inputs)), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp(name):
    ours, theirs, shapes = FUNCTIONS[name]
    inputs = arrays(shapes)
    out, theirs_vjp = torch.func.vjp(theirs, *map(torch.tensor, inputs))
    weights = arrays([x.shape for x in (out if isinstance(out, tuple) else (out,))], seed=1)
    several = isinstance(out, tuple)
    found, multiply = tt.vjp(ours, *map(tt.asarray, inputs))
    close(found, out)
    mine, other = (tuple(map(make, weights)) for make in (tt.asarray, torch.tensor))
    close(multiply(mine if several else mine[0]), theirs_vjp(other if several else other[0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp(name):
    ours, theirs, shapes = FUNCTIONS[name]
    inputs, directions = arrays(shapes), arrays(shapes, seed=1)
    expected = torch.autograd.functional.jvp(
        theirs, tuple(map(torch.tensor, inputs)), tuple(map(torch.tensor, directions))
    )
    close(tt.jvp(ours, tuple(map(tt.asarray, inputs)), tuple(map(tt.asarray, directions))), expected)
