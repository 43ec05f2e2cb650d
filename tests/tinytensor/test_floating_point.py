"""What is promised about floating point: dtypes that stay, sums that are accurate, functions that do not overflow."""

import math

import numpy as np
import pytest

import tinytensor as tt

# ---- dtypes


OF_FLOATS = (
    "sqrt reciprocal exp expm1 log log1p log2 log10 sigmoid softplus erf sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh mean std logsumexp"
)
OF_TWO_FLOATS = "divide logaddexp atan2 hypot"
OF_MATRICES = "det inv solve slogdet cholesky vector_norm"


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64])
@pytest.mark.parametrize("scalar", [2, 2.5, True, np.float64(2.5), math.pi])
def test_python_scalars_are_weak(dtype, scalar, device):
    x = tt.ones(3, dtype=dtype, device=device)
    results = [x + scalar, scalar + x, x * scalar, scalar / x, x / scalar, x - scalar, x**scalar, scalar**x]
    results += [tt.maximum(x, scalar), tt.where(x > 0, x, scalar), tt.where(x > 0, scalar, x), tt.clip(x, 0, scalar)]
    results += [tt.masked_fill(x, x > 0, scalar), tt.atan2(x, scalar), tt.hypot(scalar, x)]
    assert {r.dtype for r in results} == {dtype}


def test_arrays_promote():
    f32, f64, i64, i32, f16 = (tt.ones(2, dtype=d) for d in ("float32", "float64", "int64", "int32", "float16"))
    assert (f32 + f64).dtype == tt.float64
    assert (f32 + i64).dtype == tt.float32
    assert (i64 * f16).dtype == tt.float16
    assert (i32 + i64).dtype == tt.int64
    assert (f16 + f32).dtype == tt.float32
    assert tt.concat([f32, i64]).dtype == tt.float32
    assert tt.where(tt.tensor([True, False]), f32, i64).dtype == tt.float32
    assert (f32 + np.ones(2)).dtype == tt.float64
    assert (f32 + np.ones(2, dtype=np.float32)).dtype == tt.float32
    assert (f32 @ i64).dtype == tt.float32


@pytest.mark.parametrize("dtype", [tt.int8, tt.int64, tt.bool])
def test_functions_of_floats_make_integers_the_default_float(dtype, device):
    x, matrix = tt.ones(2, dtype=dtype, device=device), tt.eye(2, dtype=dtype, device=device)
    with np.errstate(divide="ignore"):
        results = {name: getattr(tt, name)(x) for name in OF_FLOATS.split()}
    results |= {name: getattr(tt, name)(x, x) for name in OF_TWO_FLOATS.split()}
    for name in OF_MATRICES.split():
        found = getattr(tt.linalg, name)(*[matrix] * (2 if name == "solve" else 1))
        results[name] = found[1] if name == "slogdet" else found
    assert {name: y.dtype for name, y in results.items() if y.dtype != tt.float32} == {}


def test_a_complex_number_keeps_the_precision_that_it_meets():
    met = {tt.float32: tt.complex64, tt.float64: tt.complex128, tt.complex128: tt.complex128, tt.int64: tt.complex64}
    assert {dtype: (tt.ones(1, dtype=dtype) + 2j).dtype for dtype in met} == met


def test_integers_become_the_default_float():
    i = tt.arange(1, 4)
    results = [i / 2, tt.exp(i), tt.mean(i), tt.std(i), tt.sqrt(i), i / i, tt.logsumexp(i), tt.linalg.vector_norm(i)]
    assert {r.dtype for r in results} == {tt.float32}
    assert (i + 0.5).dtype == tt.float32
    assert (i + 1).dtype == tt.int64
    assert (i**2).dtype == tt.int64
    tt.set_default_dtype(tt.float64)
    try:
        assert {(i / 2).dtype, tt.exp(i).dtype, tt.zeros(1).dtype, (i + 0.5).dtype} == {tt.float64}
    finally:
        tt.set_default_dtype(tt.float32)


def test_numbers_alone_have_the_default_dtype():
    mask = tt.tensor([True, False])
    assert tt.where(mask, 1.0, 0.0).dtype == tt.float32
    assert tt.where(mask, 1, 0).dtype == tt.int64
    assert tt.add(1, 2.5).dtype == tt.float32
    assert tt.exp(1).dtype == tt.float32


def test_numpy_scalars_have_no_device(device):
    x = tt.ones(2, dtype=tt.float32, device=device)
    assert (x * np.float32(2)).device == device
    assert (np.int64(2) * x).dtype == tt.float32
    assert (x * np.float64(2)).dtype == tt.float32
    assert tt.where(np.bool_(True), x, 0.0).device == device


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
def test_no_gradient_leaves_the_dtype(dtype):
    x = tt.tensor([[0.5, 0.25], [0.75, 1.0]], dtype=dtype, requires_grad=True)
    for function in (
        tt.std,
        tt.logsumexp,
        tt.erf,
        tt.mean,
        tt.log2,
        tt.softplus,
        tt.sigmoid,
        tt.prod,
        tt.cumulative_prod,
    ):
        out = function(x, axis=0) if function is tt.cumulative_prod else function(x)
        assert out.dtype == dtype
        assert tt.grad(out.sum(), x).dtype == dtype


# ---- sums

MILLIONS = 5_000_000


def test_sum_over_many_rows():
    """NumPy's own sum over axis 0 is off by 4.4 % here."""
    rows = np.full((MILLIONS, 2), 0.1, dtype=np.float32)
    exact = float(rows[0, 0]) * MILLIONS
    found = tt.sum(tt.asarray(rows, copy=False), axis=0).numpy()
    np.testing.assert_allclose(found, exact, rtol=3e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), None])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_sums_are_accurate_over_any_axis(dtype, axis, order, device):
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 1, (70, 90, 50)).astype(dtype)
    values = np.asfortranarray(values) if order == "F" else values[::-2, :, ::3] if order == "strided" else values
    exact = np.sum(values, axis=axis, dtype=np.float64)
    eps = np.finfo(dtype).eps
    x = tt.asarray(values, device=device)
    with np.errstate(over="ignore"):  # float16 ends at 65504
        found = tt.sum(x, axis=axis).numpy().astype(np.float64)
    if np.max(exact) < np.finfo(dtype).max:
        np.testing.assert_allclose(found, exact, rtol=4 * eps)
    mean = tt.mean(x, axis=axis)
    assert mean.dtype == dtype
    np.testing.assert_allclose(
        mean.numpy().astype(np.float64), np.mean(values, axis=axis, dtype=np.float64), rtol=4 * eps
    )


def test_sums_of_alternating_signs_err_on_the_scale_of_their_terms():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(300_000, 3)).astype(np.float32)
    exact = values.astype(np.float64).sum(axis=0)
    scale = np.abs(values).astype(np.float64).sum(axis=0)
    assert np.all(np.abs(tt.sum(tt.asarray(values), axis=0).numpy() - exact) < 4 * np.finfo(np.float32).eps * scale)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [-1, -2, (-1, 0), (-2, -1)])
def test_an_op_of_ones_own_may_count_axes_from_the_end(axis, order):
    @tt.op
    def summed(xp, x):
        return xp.sum(x, axis=axis, keepdims=True)

    values = np.asarray(np.arange(60.0).reshape(3, 4, 5), order=order)
    found = summed(values).numpy()
    tt.ops.pop("summed")
    assert found.tolist() == values.sum(axis=axis, keepdims=True).tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_are_accurate(axis, device):
    shape = (1_000_000, 2) if axis == 0 else (2, 1_000_000)
    x = tt.full(shape, 0.1, dtype=tt.float32, device=device)
    last = tt.cumulative_sum(x, axis=axis).numpy().max()
    assert math.isclose(last, float(np.float32(0.1)) * 1_000_000, rel_tol=2e-7)


def test_a_bias_gradient_is_accurate():
    bias = tt.zeros(3, dtype=tt.float32).requires_grad_()
    g = tt.full((1_000_000, 3), 0.1, dtype=tt.float32)
    (bias + tt.zeros((1_000_000, 3))).backward(g)
    np.testing.assert_allclose(bias.grad.numpy(), float(np.float32(0.1)) * 1_000_000, rtol=3e-7)


def test_float16_sums_do_not_overflow_inside():
    x = tt.full((4000,), 30.0, dtype=tt.float16)
    assert tt.mean(x).item() == 30.0
    assert tt.mean(tt.full((40, 4000), 30.0, dtype=tt.float16), axis=0).numpy().max() == 30.0


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_float16_gradients_of_many_paths_add_up_in_float32(create_graph, shape, device):
    """Added up in float16, ones would stop growing at 2048."""
    x = tt.ones(shape, dtype=tt.float16, device=device).requires_grad_()
    y = x * 1
    total = tt.zeros((), dtype=tt.float32, device=device)
    for _ in range(3000):
        total = total + tt.astype(y.sum(), tt.float32)
    (g,) = tt.grad(total, [x], create_graph=create_graph)
    assert g.dtype == tt.float16
    assert g.tolist() == tt.full(shape, 3000.0).tolist()


def test_variance_takes_two_passes():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100_000)
    values = (noise + 10_000).astype(np.float32)
    exact = np.var(values.astype(np.float64))
    assert math.isclose(tt.var(tt.asarray(values)).item(), exact, rel_tol=1e-3)
    assert math.isclose(tt.std(tt.asarray(values)).item(), math.sqrt(exact), rel_tol=1e-3)


# ---- nothing overflows, nothing warns (warnings are errors here)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("value", [-1e4, -100.0, 0.0, 100.0, 1e4])
def test_no_overflow_at_large_logits(dtype, value, device):
    x = tt.tensor([value, 0.0, -value], dtype=dtype, device=device, requires_grad=True)
    for function in (tt.sigmoid, tt.softplus, tt.logsumexp, tt.tanh, tt.erf, lambda x: tt.logaddexp(x, 0.0)):
        out = function(x)
        g = tt.grad(out.sum(), x)
        assert tt.all(tt.isfinite(out))
        assert tt.all(tt.isfinite(g))


def test_values_at_large_logits():
    x = tt.tensor([-1e4, 1e4])
    assert tt.sigmoid(x).tolist() == [0, 1]
    assert tt.softplus(x).tolist() == [0, 1e4]
    assert tt.logsumexp(x).item() == 1e4
    assert tt.logsumexp(tt.tensor([1e4, 1e4], dtype=tt.float64)).item() == 1e4 + math.log(2)
    assert (tt.tensor([0.0, -1000.0]) - tt.logsumexp(tt.tensor([0.0, -1000.0]))).tolist() == [0, -1000]


def test_logsumexp_of_infinities():
    inf = math.inf
    assert tt.logsumexp(tt.tensor([inf, 0.0])).item() == inf
    assert tt.logsumexp(tt.tensor([-inf, 1.0])).item() == 1.0
    x = tt.tensor([[-inf, -inf], [-inf, 2.0]], requires_grad=True)
    out = tt.logsumexp(x, axis=1)
    assert out.tolist() == [-inf, 2]
    assert tt.grad(out, x, tt.ones(2)).tolist() == [[0, 0], [0, 1]]


def test_statistics_of_nothing_are_nan_in_silence():
    assert math.isnan(tt.mean(tt.zeros((0,))).item())
    assert math.isnan(tt.var(tt.ones(1), correction=1).item())
    assert math.isnan(tt.std(tt.ones(1), correction=1).item())


def test_hypot_does_not_overflow():
    assert tt.hypot(tt.tensor(3e30), tt.tensor(4e30)).item() == pytest.approx(5e30)


# ---- anomaly mode


def test_anomaly_names_the_first_op_that_left_finite_numbers():
    x = tt.tensor([1.0, 0.0], requires_grad=True)
    with np.errstate(divide="ignore"), tt.detect_anomaly():
        with pytest.raises(FloatingPointError, match=r"^log: .*test_floating_point\.py:\d+"):
            tt.log(x) * 2
        y = tt.sqrt(x).sum()
        with pytest.raises(FloatingPointError, match=r"gradient of sqrt \(2,\).*test_floating_point\.py"):
            y.backward()


def test_anomaly_passes_infinities_that_came_in():
    x = tt.tensor([1.0, -math.inf], requires_grad=True)
    with tt.detect_anomaly():
        assert (x * 2).tolist() == [2, -math.inf]


# ---- no false alarms


def test_rows_of_five_are_not_summed_by_a_product(monkeypatch):
    """OpenBLAS's AVX-512 loop for 5 columns computes with what a register held: right sums, now and then a warning."""
    fast = pytest.importorskip("tinytensor.fast.numpy")
    products = []
    monkeypatch.setattr(fast, "accurate_matmul", lambda x, y: products.append(x.shape) or x @ y)
    for length in (4, 5, 6):
        rows = np.arange(3 * length, dtype=np.float32).reshape(3, length)
        assert (fast.row_sum(rows) == rows.sum(axis=1, keepdims=True)).all()
    assert products == [(3, 4), (3, 6)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("share", [0.9, -0.9])
def test_a_spread_whose_square_is_no_float_has_its_std(dtype, share):
    """Near the largest and the smallest normal number."""
    info = np.finfo(dtype)
    size = np.dtype(dtype).type(2.0 ** int(np.log2(float(info.max if share > 0 else info.tiny) or 1.0) * abs(share)))
    x = tt.tensor((np.array([1.0, 2.0, 3.0]) * float(size)).astype(dtype), requires_grad=True)
    y = tt.std(x, correction=1)
    y.backward()
    np.testing.assert_allclose(float(y.detach()) / float(size), 1.0, rtol=1e-2 if dtype == "float16" else 1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [-0.5, 0.0, 0.5], rtol=1e-2, atol=1e-3)
