"""What CuPy's arrays do otherwise than NumPy's, and nobody may notice: the same numbers and errors on either device."""

import numpy as np
import pytest

import tinytensor as tt

# ---- memory: CuPy knows no read-only arrays


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_writes_to_its_gradient_changes_nothing(create_graph, device):
    def write(g):
        g[0] = 7.0
        g *= 3

    x, y = (tt.ones(2, device=device).requires_grad_() for _ in range(2))
    z = x + y
    z.register_hook(write)
    x.register_hook(write)
    seed = tt.tensor([1.0, 2.0], device=device)
    z.backward(seed, create_graph=create_graph)
    assert [t.tolist() for t in (x.grad, y.grad, seed)] == [[1, 2]] * 3


@pytest.mark.parametrize(
    "repeated",
    [
        lambda x: tt.broadcast_to(x, (2, 3)),
        lambda x: tt.broadcast_to(x, x.shape),
        lambda x: tt.broadcast_to(x, (2, 3))[0],
        lambda x: tt.broadcast_to(x, (2, 3)).T.detach(),
        lambda x: tt.broadcast_to(tt.broadcast_to(x, (2, 3)), (2, 2, 3)),
        lambda x: tt.broadcast_arrays(x, tt.zeros((2, 3), device=x.device))[0],
        lambda x: tt.meshgrid(x, x)[0],
        lambda x: tt.meshgrid(x, x, indexing="ij")[0],
    ],
)
def test_a_write_to_what_was_broadcast_hits_one_place(repeated, device):
    x = tt.tensor([1.0, 2.0, 3.0], device=device)
    for write in (lambda y: y.__setitem__(0, 7.0), lambda y: y.__iadd__(1.0)):
        y = repeated(x)
        expected = y.numpy().copy()
        write(expected)
        write(y)
        np.testing.assert_array_equal(y.numpy(), expected)
        assert x.tolist() == [1, 2, 3]
        view = y[:1]  # it has memory of its own now
        write(y)
        np.testing.assert_array_equal(view.numpy(), y.numpy()[:1])


def test_a_write_to_the_identity_hits_one_place(device):
    power = tt.linalg.matrix_power(tt.ones((2, 2, 2), device=device), 0)
    power[0, 0, 1] = 5.0
    assert power.tolist() == [[[1, 5], [0, 1]], [[1, 0], [0, 1]]]


def test_what_was_broadcast_moves_to_its_own_memory_only_if_no_view_is_left_behind(device):
    y = tt.broadcast_to(tt.ones(3, device=device), (2, 3))
    view = y[0]
    with pytest.raises(RuntimeError, match=r"in place: there is a view of this Tensor \(2, 3\)"):
        y += 1
    with pytest.raises(RuntimeError, match="in place: there is a view"):
        y[0] = 1.0
    del view
    y += 1
    assert y.tolist() == [[2] * 3] * 2


def test_an_optimizer_and_clipping_do_not_write_to_what_was_broadcast(device):
    x, g = (tt.ones(3, device=device) for _ in range(2))
    parameter = tt.broadcast_to(x, (2, 3)).requires_grad_()
    parameter.grad = tt.broadcast_to(g, (2, 3))
    tt.nn.utils.clip_grad_value_(parameter, 0.5)
    tt.nn.utils.clip_grad_norm_(parameter, 0.1)
    for optimizer in (tt.nn.optim.SGD([parameter], lr=0.5), tt.nn.optim.Adam([parameter])):
        optimizer.step()
    assert [t.tolist() for t in (x, g)] == [[1, 1, 1]] * 2
    assert len(set(parameter.detach().numpy().ravel().tolist())) == 1


# ---- linear algebra: CuPy tells of singular input only who asks

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (tt.linalg.inv, "inv: Singular matrix; inputs: x"),
        (lambda x: tt.linalg.solve(x, tt.ones_like(x)), "solve: Singular matrix; inputs: x1"),
        (lambda x: tt.linalg.matrix_power(x, -2), "inv: Singular matrix"),
        (tt.linalg.cholesky, "cholesky: Matrix is not positive definite; inputs: x"),
    ],
)
def test_what_is_singular_is_refused(function, message, batch, device):
    x = tt.broadcast_to(tt.tensor(SINGULAR, device=device) - 1, (*batch, 2, 2)).clone()
    x[(0,) * len(batch)] = tt.tensor(SINGULAR, device=device)
    with pytest.raises(ValueError, match=message):
        function(x)


def test_determinants_of_what_is_singular(device):
    x = tt.tensor([SINGULAR, [[0.0, 2.0], [3.0, 0.0]]], device=device, dtype=tt.float64)
    sign, logarithm = tt.linalg.slogdet(x)
    assert (sign.tolist(), logarithm[0].item()) == ([0, -1], -np.inf)
    np.testing.assert_allclose(tt.linalg.det(x).numpy(), [0, -6], rtol=1e-14)


@pytest.mark.parametrize(
    ("shape1", "shape2"),
    [
        ((2, 2), (2,)),
        ((3, 2, 2), (2,)),
        ((3, 2, 2), (2, 1)),
        ((2, 2), (3, 2, 4)),
        ((3, 1, 2, 2), (4, 2, 3)),
        ((2, 2, 2), (2, 2)),
        ((1, 1, 1), (1,)),
        ((0, 2, 2), (2, 3)),
        ((0, 0), (0, 3)),
        ((2, 2), (2, 0)),
        ((4, 0, 0), (0,)),
    ],
)
def test_solve_broadcasts(shape1, shape2, device):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape1) + 3 * np.eye(shape1[-1]), rng.normal(size=shape2)
    x1, x2 = (tt.tensor(x, device=device, requires_grad=True) for x in (a, b))
    found = tt.linalg.solve(x1, x2)
    expected = np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    assert tt.gradcheck(tt.linalg.solve, [x1, x2])


@pytest.mark.parametrize("function", [tt.linalg.inv, tt.linalg.cholesky, tt.linalg.det])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 2, 2)])
def test_linear_algebra_of_nothing(function, shape, device):
    x = tt.ones(shape, device=device).requires_grad_()
    found = function(x)
    assert found.shape == (shape[:-2] if function is tt.linalg.det else shape)
    assert tt.grad(found, x, tt.ones_like(found)).shape == shape


def test_solve_of_what_does_not_fit(device):
    with pytest.raises(ValueError, match=r"solve: .*x1 \(0, 0\).*x2 \(3, 1\)"):
        tt.linalg.solve(tt.ones((0, 0), device=device), tt.ones((3, 1), device=device))
