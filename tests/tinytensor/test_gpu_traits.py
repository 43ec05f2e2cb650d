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
