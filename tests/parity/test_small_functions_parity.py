"""Special functions, quantiles, sums without NaN and their kin beside PyTorch's: values, first and second order."""

import numpy as np
import pytest

import tinytensor as tt

torch = pytest.importorskip("torch")

from .test_complex_parity import check  # noqa: E402  (it needs PyTorch)

RNG = np.random.default_rng(0)


def draw(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape)


HOLES = np.where(np.arange(12).reshape(3, 4) % 5 == 1, np.nan, draw(3, 4))
PLACES = np.array([[0, 2, 1, 2], [1, 1, 0, 2]])

UNARY = {  # the method's name: bounds of the input
    "digamma": (0.2, 4), "erfc": (-2, 2), "erfinv": (-0.9, 0.9), "exp2": (-2, 2), "lgamma": (0.2, 4),
    "logit": (0.1, 0.9), "rsqrt": (0.3, 2), "sinc": (0.1, 2),
}  # fmt: skip


def method(name):
    return lambda x: getattr(x, name)()


CASES = {  # ours, PyTorch's, the inputs
    **{name: (method(name), method(name), [draw(6, low=low, high=high)]) for name, (low, high) in UNARY.items()},
    "polygamma": (
        lambda x: tt.special.polygamma(2, x),
        lambda x: torch.special.polygamma(2, x),
        [draw(4, low=0.2, high=4)],
    ),
    "xlogy": (lambda x, y: x.xlogy(y), lambda x, y: x.xlogy(y), [draw(4), draw(4, low=0.2)]),
    "diag": (lambda x: x.diag(1), lambda x: x.diag(1), [draw(3)]),
    "inner": (lambda x, y: x.inner(y), lambda x, y: x.inner(y), [draw(2, 3), draw(4, 3)]),
    "kron": (lambda x, y: x.kron(y), lambda x, y: x.kron(y), [draw(2, 3), draw(2, 1)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda x: x.logcumsumexp(1), [draw(2, 5)]),
    "quantile": (lambda x: x.quantile(0.3, 1), lambda x: x.quantile(0.3, 1), [draw(2, 5)]),
    "quantile and its share": (
        lambda x, q: x.quantile(q, 1),
        lambda x, q: x.quantile(q, 1),
        [draw(2, 5), RNG.uniform(0.1, 0.9, 2)],
    ),
    "the smallest": (lambda x: x.topk(2, 1, False)[0], lambda x: x.topk(2, 1, False)[0], [draw(2, 5)]),
    "logit with bounds": (lambda x: x.logit(0.2), lambda x: x.logit(0.2), [draw(6, low=0.01, high=0.99)]),
    "sum with alpha": (lambda x, y: x.add(y, alpha=3), lambda x, y: x.add(y, alpha=3), [draw(4), draw(4)]),
    "matrix_norm of other axes": (
        lambda x: tt.linalg.matrix_norm(x, "nuc", (2, 0), True),
        lambda x: torch.linalg.matrix_norm(x, "nuc", (2, 0), True),
        [draw(3, 2, 4)],
    ),
    "vector_norm by position": (
        lambda x: tt.linalg.vector_norm(x, 3, 1),
        lambda x: torch.linalg.vector_norm(x, 3, 1),
        [draw(3, 2)],
    ),
    "pinv": (lambda x: tt.linalg.pinv(x, atol=0.2), lambda x: torch.linalg.pinv(x, atol=0.2), [draw(3, 2)]),
    "quantiles": (
        lambda x: tt.quantile(x, [0.1, 0.8], axis=0, keepdims=True),
        lambda x: torch.quantile(x, torch.tensor([0.1, 0.8], dtype=torch.float64), dim=0, keepdim=True),
        [draw(5, 2)],
    ),
    "median": (tt.median, torch.median, [draw(4, 2)]),
    "median over an axis": (lambda x: tt.median(x, axis=0), lambda x: x.median(0).values, [draw(4, 2)]),
    "scatter_add": (
        lambda x, y: tt.scatter_add(x, PLACES, y, axis=1),
        lambda x, y: x.scatter_add(1, torch.tensor(PLACES), y),
        [draw(2, 3), draw(2, 4)],
    ),
    "put_along_axis": (
        lambda x, y: tt.put_along_axis(x, PLACES[:, ::3], y, axis=1),
        lambda x, y: x.scatter(1, torch.tensor(PLACES[:, ::3].copy()), y),
        [draw(2, 3), draw(2, 2)],
    ),
    "vmap": (
        lambda x, y: tt.vmap(lambda a, b: (a @ b) ** 2, in_dims=(1, None), out_dims=1)(x, y),
        lambda x, y: torch.func.vmap(lambda a, b: (a @ b) ** 2, in_dims=(1, None), out_dims=1)(x, y),
        [draw(2, 4, 3), draw(3, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_parity(name):
    ours, theirs, values = CASES[name]
    check(lambda *xs: ours(*xs) ** 2, lambda *xs: theirs(*xs) ** 2, values)  # so that there are second derivatives


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nan_to_num"])
def test_holes(name):
    x, t = tt.tensor(HOLES, requires_grad=True), torch.tensor(HOLES, requires_grad=True)
    arguments = () if name == "nan_to_num" else (1,)
    found, expected = getattr(x, name)(*arguments), getattr(t, name)(*arguments)
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-12)
    (found**2).sum().backward()
    (expected**2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.nan_to_num(t.grad.numpy()), rtol=1e-12)


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_of_two_with_holes(name):
    values = HOLES, np.roll(HOLES, 1)
    xs = [tt.tensor(v, requires_grad=True) for v in values]
    ts = [torch.tensor(v, requires_grad=True) for v in values]
    found, expected = getattr(xs[0], name)(xs[1]), getattr(ts[0], name)(ts[1])
    np.testing.assert_array_equal(found.numpy(), expected.detach().numpy())
    kept = ~np.isnan(found.numpy())
    tt.sum(found[kept] ** 2).backward()
    (expected[torch.tensor(kept)] ** 2).sum().backward()
    for x, t in zip(xs, ts):
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("tolerances", [{}, {"rtol": 0.3}, {"atol": 1.5}, {"rtol": 0.1, "atol": 0.5}])
def test_what_counts_as_zero(tolerances):
    matrices = np.stack([np.diag([4.0, 1.0, 1e-17]), np.diag([2.0, 2.0, 0.5])])
    for name in ("matrix_rank", "pinv"):
        found = getattr(tt.linalg, name)(tt.asarray(matrices), **tolerances)
        expected = getattr(torch.linalg, name)(torch.tensor(matrices), **tolerances)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    with pytest.raises(ValueError, match=r"a tolerance is a number, or one for each matrix: \(2,\), not \(2, 1\)"):
        tt.linalg.pinv(matrices, rtol=tt.ones((2, 1)))


def test_numbers_between_two_tensors_keep_their_digits():
    found = tt.linspace(tt.asarray(0.1, dtype=tt.float32), 1, 7, dtype=tt.float64)
    expected = torch.linspace(torch.tensor(0.1), 1, 7, dtype=torch.float64)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-15)
