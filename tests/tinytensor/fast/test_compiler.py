"""Compiled loops: what they compute is what NumPy computes by the same lines, for any shapes, strides and numbers."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.backend import numpy as arrays
from tinytensor.nn import functional as F
from tinytensor.record.tape import NotRecorded, record

pytest.importorskip("llvmlite")
from tinytensor.fast import shortcuts
from tinytensor.fast.compiler import expressions, jit, llvm, run

NUMBERS = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, 1e30, -1e30, 86.9, -86.9, 88.7, 200, -200, 1e-5, 20, 0.3]
ONE = [
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "sqrt", "abs", "sign", "square", "reciprocal", "negative",
    "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "erf",
]  # fmt: skip


def computed(function, *inputs):
    """The results of a compiled function, and those of its lines."""
    tape = record(function, inputs)
    found = run.Program(tape, tape.inputs, tape.results)(*inputs)
    with np.errstate(all="ignore"):
        expected = function(arrays, *inputs)
    return found, list(expected) if isinstance(expected, (tuple, list)) else [expected]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ONE)
def test_functions_have_numpys_values(name, dtype):
    if name in expressions.ONLY_FLOAT32 and dtype is np.float64:
        pytest.skip("its polynomial has the digits of float32")
    rng = np.random.default_rng(0)
    x = np.concatenate([np.array(NUMBERS), rng.standard_normal(500) * 5, rng.standard_normal(500) * 1e-3]).astype(dtype)
    (found,), (expected,) = computed(lambda xp, x: getattr(xp, name)(x), x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("exponent", [-2, -1, 0, 0.5, 1, 2, 3, 7])
def test_powers(exponent):
    x = np.array(NUMBERS, np.float64)
    (found,), (expected,) = computed(lambda xp, x: x**exponent + xp.abs(x) * 0, x)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


ELEMENT = {
    "exp": lambda xp, a, b: xp.exp(xp.minimum(a, 3.0)), "tanh": lambda xp, a, b: xp.tanh(a),
    "sigmoid": lambda xp, a, b: xp.sigmoid(a), "root": lambda xp, a, b: xp.sqrt(xp.abs(a)),
    "log1p": lambda xp, a, b: xp.log1p(xp.abs(b)), "add": lambda xp, a, b: a + b, "minus": lambda xp, a, b: 1 - a,
    "times": lambda xp, a, b: a * b, "ratio": lambda xp, a, b: a / (1 + xp.abs(b)), "square": lambda xp, a, b: a**2,
    "maximum": lambda xp, a, b: xp.maximum(a, b), "where": lambda xp, a, b: xp.where(a > b, a, b * 0.5),
    "leaky": lambda xp, a, b: xp.where((a > 0) | (b != b), a, 0.01 * a), "third": lambda xp, a, b: a / 3.0,
}  # fmt: skip


def program(rng, ndim):
    """A function of some arrays: elements, sums over some axes, and running sums."""
    kinds, count = [*ELEMENT, "sum", "mean", "max", "min", "scan"], rng.integers(1, 9)
    lines = [(str(rng.choice(kinds)), *rng.integers(0, 99, 2), rng.random(ndim) < 0.5) for _ in range(count)]

    def function(xp, *inputs):
        values = list(inputs)
        for name, i, j, axes in lines:
            a, b = values[i % len(values)], values[j % len(values)]
            axis = tuple(k for k in range(a.ndim) if axes[k])
            if name in ELEMENT:
                values.append(ELEMENT[name](xp, a, b))
            elif name == "scan" and a.shape and a.shape[-1] > 1:
                values.append(xp.cumulative_sum(a, axis=a.ndim - 1))
            elif axis and name != "scan":
                values.append(getattr(xp, name)(a, axis=axis, keepdims=True))
        return values[-3:]

    return function


def array(rng, shape, dtype):
    """An array that broadcasts to a shape, contiguous, turned, with gaps or backwards."""
    first = rng.integers(0, len(shape)) if rng.random() < 0.2 else 0
    shape = tuple(1 if rng.random() < 0.25 else n for n in shape)[first:]
    x, order = rng.standard_normal(shape).astype(dtype), rng.permutation(len(shape))
    kind = rng.integers(0, 4)
    if kind == 1:
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if kind == 2:
        gaps = np.zeros([2 * n for n in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
        gaps[...] = x
        return gaps
    return x[::-1] if kind == 3 and shape else x


@pytest.mark.parametrize(
    "seed",
    [
        0,
        *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3)],
        *[pytest.param(n, marks=pytest.mark.again) for n in range(4, 40)],
    ],
)
def test_random_programs(seed):
    rng, count = np.random.default_rng(seed), 0
    for _ in range(25):
        shape = [int(rng.choice([1, 2, 3, 5, 8, 17, 33])) for _ in range(rng.integers(1, 5))]
        dtype = rng.choice([np.float32, np.float64])
        inputs = [array(rng, shape, dtype) for _ in range(rng.integers(1, 4))]
        try:
            pairs = zip(*computed(program(rng, len(shape)), *inputs), strict=True)
        except NotRecorded:
            continue
        count += 1
        for found, expected in pairs:
            assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
            tolerance = 2e-4 if dtype is np.float32 else 1e-10
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert count > 15


def test_sums_of_long_rows_keep_their_digits():
    x = np.full((3, 1_000_000), 0.1, np.float32)
    (along, over), (expected, _) = computed(lambda xp, x: (xp.sum(x, axis=1), xp.sum(x, axis=0)), x)
    np.testing.assert_allclose(along, expected, rtol=1e-6)
    x = np.full((1_000_000, 3), 0.1, np.float32)
    (over,), _ = computed(lambda xp, x: [xp.sum(x, axis=0)], x)
    np.testing.assert_allclose(over, 100_000, rtol=1e-6)


def large_results():
    rng = np.random.default_rng(0)
    x = tt.tensor(rng.standard_normal((3000, 700), dtype=np.float32), requires_grad=True)
    w = tt.tensor(rng.standard_normal(700, dtype=np.float32), requires_grad=True)
    outs = [F.layer_norm(x, (700,), w, w), F.softmax(x, dim=0), F.elu(x), F.batch_norm(x, None, None, w, w, True)]
    gradients = [g for out in outs for g in tt.grad((out * out).sum(), [x])]
    return [y.numpy().tobytes() for y in (*outs, *gradients)]


def test_the_bits_are_those_of_any_number_of_threads():
    before = tt.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            found.append(large_results())
    finally:
        tt.set_num_threads(before)
    assert found[0] == found[1] == found[2]


PROGRAM = """
import numpy as np, tinytensor as tt
from tinytensor.fast.compiler import llvm
count, own = [], llvm.compiled
llvm.compiled = lambda text: count.append(text) or own(text)
tt.sigmoid(tt.ones((200, 200)) * 0.123) ** 3
print(len(count))
"""


def compiles(folder):
    kept = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=kept, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_code_is_kept_on_disk_and_damaged_code_is_compiled_anew(tmp_path, monkeypatch):
    compiles(tmp_path)
    assert compiles(tmp_path) == 0
    assert llvm.cache_folder() is not None
    monkeypatch.setattr(llvm, "cache_folder", lambda: tmp_path)
    function = lambda xp, x: xp.exp(x) * 0.777 + xp.abs(x)  # noqa: E731
    x = np.linspace(-2, 2, 40)
    (first,), (expected,) = computed(function, x)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[:32] == hashlib.sha256(path.read_bytes()[32:]).digest()
    for damage in (b"", path.read_bytes()[:-7], b"x" * 4000):
        path.write_bytes(damage)
        llvm.compile_text.cache_clear()
        (found,), _ = computed(function, x)
        np.testing.assert_array_equal(found, first)
        assert path.read_bytes() != damage
    np.testing.assert_allclose(first, expected, rtol=1e-15)


@pytest.fixture
def all_sizes(monkeypatch):
    """Compile for arrays of any size."""
    for module in (jit, shortcuts):
        monkeypatch.setattr(module, "LARGE", 0)


def test_what_warns_does_so_each_time(all_sizes):
    for _ in range(2):
        with pytest.warns(UserWarning, match="differ in shape"):
            F.mse_loss(tt.ones((4, 1)), tt.ones(4))


def test_a_rule_that_is_replaced_is_obeyed(all_sizes, monkeypatch):
    def gradient():
        x = tt.tensor(np.ones(5), requires_grad=True)
        return tt.grad(tt.sigmoid(x).sum(), [x])[0].numpy()

    before, op = gradient(), tt.sigmoid.op
    monkeypatch.setitem(op.rules, "x", (lambda xp, g, out: g * out * 3, ("xp", "g", "out")))
    np.testing.assert_allclose(gradient(), 3 / (1 + np.exp(-np.ones(5))))
    monkeypatch.undo()
    np.testing.assert_array_equal(gradient(), before)


def test_errors_are_those_of_the_lines(all_sizes):
    with pytest.raises(ValueError, match="celu: alpha must be above 0"):
        F.celu(tt.ones(3), alpha=-1)
    with pytest.raises(ValueError, match="add: .*shapes"):
        tt.ones((2, 3)) + tt.ones((4,))


def test_derivatives_of_derivatives_go_by_the_formula(all_sizes):
    x = tt.tensor(np.linspace(-2, 2, 7), requires_grad=True)
    (first,) = tt.grad(F.elu(x).sum(), [x], create_graph=True)
    (second,) = tt.grad(first.sum(), [x])
    np.testing.assert_allclose(second.numpy(), np.where(x.numpy() > 0, 0, np.exp(x.numpy())))


def test_the_memory_of_a_graph_is_not_kept(all_sizes):
    import gc
    import weakref

    x = tt.tensor(np.ones((300, 300), np.float32), requires_grad=True)
    out = F.elu(x)
    out.sum().backward()
    dead = weakref.ref(x)
    del x, out
    gc.collect()
    assert dead() is None


def test_what_was_recorded_for_other_numbers_is_not_taken(all_sizes):
    mask, x = tt.asarray(np.array([True, False, True])), tt.asarray(np.array([1.0, 2.0, 3.0]))
    signs = [np.signbit(tt.where(mask, x, zero).numpy()[1]) for zero in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    (found,), (expected,) = computed(lambda xp, x: xp.copysign(x, xp.full_like(x, -0.0)) + xp.zeros_like(x), x.numpy())
    np.testing.assert_array_equal(found, expected)
    try:
        found = []
        for dtype in (tt.float32, tt.float64):
            tt.set_default_dtype(dtype)
            found.append(F.mish(mask).dtype)
    finally:
        tt.set_default_dtype(tt.float32)
    assert found == [tt.float32, tt.float64]


def test_fields_of_records_are_read_where_they_lie(all_sizes):
    for kinds in ([("a", "i1"), ("b", "f4")], [("a", "f4"), ("b", "f8")]):
        records = np.zeros(5, kinds)
        records["b"] = np.arange(5) - 2
        found = tt.sigmoid(tt.asarray(records["b"], copy=False)).numpy()
        np.testing.assert_allclose(found, 1 / (1 + np.exp(2 - np.arange(5))), rtol=1e-6)


def test_equal_products_differ_by_nothing():
    x = np.random.default_rng(0).standard_normal(1000)
    for found, expected in zip(*computed(lambda xp, x, y: [x * x - y * y, xp.sqrt(x * x - y * y)], x, x.copy())):
        np.testing.assert_array_equal(found, expected)


def test_quotients_of_rows_are_whole_where_they_should_be():
    x, rows = np.outer(np.arange(1.0, 200), [1, 2, 3]), np.arange(1.0, 200)[:, None]
    for dtype in (np.float32, np.float64):
        (found,), (expected,) = computed(lambda xp, x, y: xp.floor(x / y), x.astype(dtype), rows.astype(dtype))
        np.testing.assert_array_equal(found, expected)
    rows = np.array([[0.0], [1e-310], [np.inf], [np.nan], [-0.0], [1e308]])
    x = np.array([[1.0, 0.0, -1.0, np.inf, np.nan, 1e-310]])
    (found,), (expected,) = computed(lambda xp, x, y: x / y + 0 * x * 0, np.repeat(x, 6, 0), rows)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "function",
    [
        lambda xp, x: xp.where((x > 0) + (x > -5), x, 0.0),
        lambda xp, x: xp.where((x > 0) == (x > 2), x, 0.0),
        lambda xp, x: xp.where(xp.maximum(x > 0, x > 2), x, 0.0),
        lambda xp, x: xp.where(xp.logical_not(x), x, 1.0),
        lambda xp, x: xp.where(x, x, 1.0),
    ],
)
def test_arithmetic_of_masks_goes_by_the_lines(function):
    with pytest.raises(NotRecorded):
        computed(function, np.array([1.0, -2.0, 3.0, 0.0]))


def test_a_running_sum_that_a_later_pass_reads():
    x = np.random.default_rng(0).standard_normal((4, 30))

    def function(xp, x):
        return xp.exp(xp.cumulative_sum(x, axis=1)) * xp.sum(
            x - xp.max(x, axis=1, keepdims=True), axis=1, keepdims=True
        )

    (found,), (expected,) = computed(function, x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_copy_is_a_copy(all_sizes):
    x = tt.asarray(np.ones(4))
    y = tt.positive(x) * 1.0
    (found,), _ = computed(lambda xp, x: [xp.copy(x)], x.numpy())
    found[0] = 99
    assert x.numpy().max() == y.numpy().max() == 1


def test_wrappers_of_users_are_called_each_time(all_sizes, monkeypatch):
    import functools

    op, calls = tt.sigmoid.op, []
    rule, reads = op.rules["x"]

    @functools.wraps(rule)
    def loud(*args):
        calls.append(len(calls))
        return rule(*args) * len(calls)

    monkeypatch.setitem(op.rules, "x", (loud, reads))
    found = []
    for _ in range(3):
        x = tt.tensor(np.zeros(3), requires_grad=True)
        found.append(tt.grad(tt.sigmoid(x).sum(), [x])[0].numpy()[0])
    assert found == [0.25, 0.5, 0.75]
    assert len(calls) == 3


def test_a_number_that_changes_in_each_step_is_not_recorded_each_time(all_sizes, monkeypatch):
    recorded = []
    monkeypatch.setattr(
        jit.Pair, "__init__", lambda self, *args, own=jit.Pair.__init__: recorded.append(own(self, *args))
    )
    x = tt.tensor(np.linspace(-1, 1, 7), requires_grad=True)
    for step in range(20):
        slope = 0.01 * (step + 1)
        found = F.leaky_relu(x, slope)
        np.testing.assert_allclose(found.numpy(), np.where(x.numpy() > 0, x.numpy(), slope * x.numpy()))
    assert len(recorded) <= jit.VARIANTS


def test_few_bits_of_an_index_are_enough():
    ids = np.random.default_rng(0).integers(0, 120, 6000)
    for dtype in (np.int8, np.uint8, np.int64):
        x = tt.tensor(np.ones((1000, 2)), requires_grad=True)
        (found,) = tt.grad(x[tt.asarray(ids.astype(dtype))].sum(), [x])
        np.testing.assert_array_equal(found.numpy()[:, 0], np.bincount(ids, minlength=1000))


def test_numbers_as_weights(all_sizes):
    x = tt.asarray(np.random.default_rng(0).standard_normal((3, 5)))
    found = tt.ops["layer_norm"].call(x, 2.0, 1.0, eps=1e-5)
    np.testing.assert_allclose(found.numpy(), 2 * F.layer_norm(x, (5,)).numpy() + 1, rtol=1e-12)
