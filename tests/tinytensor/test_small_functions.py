"""The small functions of NumPy and PyTorch that the standard does not have: values and gradients of both orders."""

import math

import numpy as np
import pytest

import tinytensor as tt

RNG = np.random.default_rng(0)
MATRIX = RNG.permutation(np.linspace(-2, 2, 15)).reshape(3, 5)  # no two numbers are close
WITH_NAN = np.where(np.arange(15).reshape(3, 5) % 7 == 2, np.nan, MATRIX)
PLACES = np.array([[0, 2, 1, 2, 0], [1, 1, 0, 2, 2]])

CASES = {  # ours and NumPy's, as functions of a namespace and an array; the array
    "diag of a vector": (lambda xp, x: xp.diag(x[0]), MATRIX),
    "diag above": (lambda xp, x: xp.diag(x[0], k=2), MATRIX),
    "diag below": (lambda xp, x: xp.diag(x[0], k=-1), MATRIX),
    "diag of a matrix": (lambda xp, x: xp.diag(x, k=1), MATRIX),
    "hstack": (lambda xp, x: xp.hstack([x, x[:, :2]]), MATRIX),
    "hstack of vectors": (lambda xp, x: xp.hstack([x[0], x[1, 2], x[2]]), MATRIX),
    "vstack": (lambda xp, x: xp.vstack([x, x[0]]), MATRIX),
    "inner": (lambda xp, x: xp.inner(x, x[:2]), MATRIX),
    "inner with a number": (lambda xp, x: xp.inner(x, x[0, 0]), MATRIX),
    "kron": (lambda xp, x: xp.kron(x[:2, :2], x[:, :2]), MATRIX),
    "kron of other dimensions": (lambda xp, x: xp.kron(x[0, :2], x[:2]), MATRIX),
    "nansum": (lambda xp, x: xp.nansum(x, axis=1), WITH_NAN),
    "nanmean": (lambda xp, x: xp.nanmean(x, axis=(0, 1)), WITH_NAN),
    "nanmax": (lambda xp, x: xp.nanmax(x, axis=0), WITH_NAN),
    "nanmin": (lambda xp, x: xp.nanmin(x, axis=1, keepdims=True), WITH_NAN),
    "nan_to_num": (lambda xp, x: xp.nan_to_num(x, nan=3.0), WITH_NAN),
    "fmax": (lambda xp, x: xp.fmax(x, x[::-1] * 0.5 + 0.1), WITH_NAN),
    "fmin": (lambda xp, x: xp.fmin(x, x[::-1] * 0.5 + 0.1), WITH_NAN),
    "quantile": (lambda xp, x: xp.quantile(x, 0.3, axis=1), MATRIX),
    "quantiles": (lambda xp, x: xp.quantile(x, [0.0, 0.5, 0.9], axis=0, keepdims=True), MATRIX),
    "quantile of all": (lambda xp, x: xp.quantile(x, 0.77), MATRIX),
    "median": (lambda xp, x: xp.median(x, axis=1), MATRIX),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, device):
    function, values = CASES[case]
    found = function(tt, tt.asarray(values, device=device))
    np.testing.assert_allclose(found.numpy(), function(np, values), rtol=1e-12)
    good = ~np.isnan(values)  # what is missing stays so while the others move
    x = tt.tensor(np.where(good, values, 0.0), device=device, requires_grad=True)
    holes = tt.asarray(np.where(good, 0.0, np.nan), device=device)

    def smooth(x):
        return tt.where(tt.isnan(out := function(tt, x + holes)), 0.0, out)

    assert tt.gradcheck(smooth, x)
    assert tt.gradgradcheck(lambda x: smooth(x) ** 2, x)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_interpolations(interpolation):
    found = tt.quantile(MATRIX, [0.1, 0.33, 1.0], axis=(0, 1), interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), np.quantile(MATRIX, [0.1, 0.33, 1.0], method=interpolation))


def test_quantiles_of_nan_and_of_integers():
    assert np.isnan(tt.quantile(WITH_NAN, 0.5, axis=1).numpy()).tolist() == np.isnan(WITH_NAN).any(1).tolist()
    found = tt.quantile(tt.asarray([1, 2, 3, 4]), 0.5)
    assert (found.item(), found.dtype) == (2.5, tt.float32)
    assert tt.median(tt.asarray([4.0, 1.0, 3.0, 2.0])).item() == 2  # PyTorch's; NumPy's is 2.5
    assert tt.median(tt.asarray([1.0, math.inf, math.inf])).item() == math.inf
    found = tt.median(tt.asarray([2**60 + 1, 2**60 + 3, 3]))
    assert (found.item(), found.dtype) == (2**60 + 1, tt.int64)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tt.quantile(MATRIX, 1.5), r"q must be a number from 0 to 1, or a vector of such; got 1\.5"),
        (lambda: tt.quantile(MATRIX, 0.5, interpolation="cubic"), "quantile: interpolation must be one of linear"),
        (lambda: tt.quantile(tt.ones((0, 2)), 0.5, axis=0), r"no quantile of nothing: shape \(0, 2\)"),
        (lambda: tt.diag(tt.ones((2, 2, 2))), r"diag: expected a vector or a matrix, got shape \(2, 2, 2\)"),
        (
            lambda: tt.put_along_axis(MATRIX, [[0, 1]], 0.0, axis=1),
            r"indices \(1, 2\) must have the shape of x \(3, 5\)",
        ),
        (lambda: tt.logcumsumexp(MATRIX), "logcumsumexp: axis may be left out for 1 dimension only"),
        (lambda: tt.special.polygamma(-1, 1.0), "polygamma: n must be an integer from 0 on, got -1"),
        (lambda: tt.one_hot(tt.zeros(0, dtype=tt.int64)), "num_classes must be given"),
    ],
)
def test_errors(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin", "median", "logcumsumexp"])
def test_other_words_for_axis(name):
    with pytest.raises(TypeError, match=f"{name}: got dim=; tinytensor names it axis"):
        getattr(tt, name)(MATRIX, dim=1)


def test_nothing_but_nan():
    x = tt.tensor([[math.nan, math.nan], [1.0, math.nan]], requires_grad=True)
    for function, first in ((tt.nansum, 0.0), (tt.nanmean, math.nan), (tt.nanmax, math.nan), (tt.nanmin, math.nan)):
        found = function(x, axis=1)
        np.testing.assert_array_equal(found.numpy(), [first, 1.0])
        x.grad = None
        found[1].backward()
        assert x.grad.tolist() == [[0, 0], [1, 0]]


def test_infinities_as_numbers(device):
    x = tt.tensor([math.inf, -math.inf, math.nan, 2.0], device=device, requires_grad=True)
    found = tt.nan_to_num(x)
    limits = tt.finfo(tt.float32)
    assert found.tolist() == [limits.max, limits.min, 0, 2]
    assert tt.nan_to_num(x, 7.0, posinf=1.0, neginf=-1.0).tolist() == [1, -1, 7, 2]
    found.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]
    assert tt.nan_to_num(tt.asarray([3])).tolist() == [3]
    assert tt.nan_to_num(tt.asarray([complex(math.nan, 1)])).tolist() == [1j]


def test_what_is_equal_shares(device):
    x = tt.tensor([1.0, math.nan, math.nan], device=device, requires_grad=True)
    y = tt.tensor([1.0, 2.0, math.nan], device=device, requires_grad=True)
    tt.fmax(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.5, 0, 0.5], [0.5, 1, 0.5])


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 5)])
def test_running_logsumexp(shape, device):
    values = RNG.normal(size=shape) * 3
    x = tt.tensor(values, device=device, requires_grad=True)
    expected = np.logaddexp.accumulate(values, axis=-1)
    np.testing.assert_allclose(tt.logcumsumexp(x, axis=-1).numpy(), expected, rtol=1e-12)
    assert tt.gradcheck(lambda x: tt.logcumsumexp(x, axis=-1), x)
    assert tt.gradgradcheck(lambda x: tt.logcumsumexp(x, axis=-1), x)


def test_running_logsumexp_far_apart():
    assert tt.logcumsumexp(tt.asarray([-1000.0, 0.0, -math.inf])).tolist() == [-1000, 0, 0]
    x = tt.tensor([-math.inf, -math.inf, 1.0], requires_grad=True)
    tt.logcumsumexp(x)[2].backward()
    assert x.grad.tolist() == [0, 0, 1]


def test_writing_along_an_axis(device):
    x = tt.tensor(MATRIX[:2, :3], device=device, requires_grad=True)
    values = tt.tensor(RNG.normal(size=(2, 5)), device=device, requires_grad=True)
    places = tt.asarray(PLACES, device=device)
    added, put = MATRIX[:2, :3].copy(), MATRIX[:2, :3].copy()
    for i, j in np.ndindex(2, 5):
        added[i, PLACES[i, j]] += values.numpy()[i, j]
        put[i, PLACES[i, j]] = values.numpy()[i, j]
    for function, expected in ((tt.scatter_add, added), (tt.put_along_axis, put)):
        np.testing.assert_allclose(function(x, places, values, axis=1).numpy(), expected, rtol=1e-12)
        assert tt.gradcheck(lambda x, v, f=function: f(x, places, v, axis=1), [x, values])
        assert tt.gradgradcheck(lambda x, v, f=function: f(x, places, v, axis=1) ** 2, [x, values])
    whole = tt.take_along_axis(tt.put_along_axis(x, places[:, :2], 7.0, axis=1), places[:, :2], axis=1)
    assert whole.tolist() == [[7, 7], [7, 7]]


# ---- tt.vmap


def test_vmap_is_the_function_of_each_sample(device):
    x = tt.tensor(RNG.normal(size=(4, 2, 3)), device=device, requires_grad=True)
    w = tt.tensor(RNG.normal(size=3), device=device, requires_grad=True)
    found = tt.vmap(lambda x, w: tt.tanh(x @ w), in_dims=(0, None))(x, w)
    np.testing.assert_allclose(found.numpy(), np.tanh(x.numpy() @ w.numpy()), rtol=1e-12)
    turned = tt.vmap(lambda x: x * 2, in_dims=-1, out_dims=1)(x)
    np.testing.assert_array_equal(turned.numpy(), 2 * np.moveaxis(x.numpy(), -1, 1))
    assert tt.gradcheck(tt.vmap(lambda x, w: tt.tanh(x @ w), in_dims=(0, None)), [x, w])


def test_vmap_of_several_results_and_of_tuples():
    x = tt.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    total, largest = tt.vmap(lambda pair, scale=1: (tt.sum(pair[0]) * scale, tt.max(pair[1])), in_dims=((0, 1),))(
        (x, x.T), scale=2
    )
    assert (total.tolist(), largest.tolist()) == ([6, 14, 22], [2, 4, 6])


def test_vmap_gives_gradients_of_each_sample():
    x = tt.asarray([[1.0, 2.0], [3.0, 4.0]])
    w = tt.tensor([1.0, 1.0], requires_grad=True)
    found = tt.vmap(lambda x: tt.grad(tt.sum(x * w) ** 2, [w])[0])(x)
    assert found.tolist() == [[6, 12], [42, 56]]


def test_vmap_and_random_numbers():
    x = tt.zeros((3, 2))
    with pytest.raises(RuntimeError, match="drew random numbers; say randomness='different'"):
        tt.vmap(lambda x: x + tt.random.rand(2))(x)
    for randomness, distinct in (("different", 3), ("same", 1)):
        found = tt.vmap(lambda x: x + tt.random.rand(2), randomness=randomness)(x)
        assert len({tuple(row) for row in found.tolist()}) == distinct


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: tt.vmap(tt.add)(tt.ones(2), tt.ones(3)), ValueError, r"samples of different number \[2, 3\]"),
        (lambda: tt.vmap(tt.add, in_dims=(0, None))(tt.ones(2)), ValueError, "in_dims has 2 entries for 1 arguments"),
        (lambda: tt.vmap(tt.sum)(tt.ones((0, 2))), ValueError, "vmap: got nothing to map over"),
        (lambda: tt.vmap(tt.sum)(3.0), TypeError, "in_dims is 0 for a float; expected a Tensor, or None"),
        (lambda: tt.vmap(lambda x: 1)(tt.ones(2)), TypeError, "the function gave a int; expected a Tensor or a tuple"),
        (lambda: tt.vmap(tt.sum, in_dims=2)(tt.ones((2, 2))), IndexError, "vmap: in_dims 2 is out of range"),
        (lambda: tt.vmap(tt.sum, randomness="some"), ValueError, "vmap: randomness must be one of error"),
    ],
)
def test_errors_of_vmap(call, kind, says):
    with pytest.raises(kind, match=says):
        call()
