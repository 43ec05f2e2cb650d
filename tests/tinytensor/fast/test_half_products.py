"""Products whose inputs are rounded to bfloat16: what they give, where they are used, and what they leave alone."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

pytest.importorskip("numba")
from tinytensor.fast import half_products, products
from tinytensor.fast import medium as medium_choice
from tinytensor.fast.compiling import address
from tinytensor.models.training.trainer import Trainer

needs_instructions = pytest.mark.skipif(not half_products.CAN, reason="this processor has no AVX512_BF16")


def bfloat16(x):
    """The nearest number with 8 digits in its fraction, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, rounded).astype(np.float32)


def product(a, turn_a, b, turn_b, out, keep=False):
    products.rounded = half_products.rounded_product
    try:
        products.multiply_arrays(a, turn_a, b, turn_b, out, keep)
    finally:
        products.rounded = None
    return out


@pytest.fixture
def medium(loops, monkeypatch):
    if not half_products.CAN:
        pytest.skip("this processor has no AVX512_BF16")
    monkeypatch.setenv("TINYTENSOR_MEDIUM", "bfloat16")
    tt.set_float32_matmul_precision("medium")
    yield
    tt.set_float32_matmul_precision("highest")


@needs_instructions
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 5, 7), (12, 2, 32), (13, 33, 40), (505, 64, 33), (100, 513, 100), (600, 1031, 70)]
)
def test_the_sum_of_rounded_factors(sizes, turn_a, turn_b):
    rows, inner, columns = sizes
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((rows, inner), (inner, columns)))
    lying = [np.ascontiguousarray(x.T) if turn else x for x, turn in ((a, turn_a), (b, turn_b))]
    expected = bfloat16(a).astype(np.float64) @ bfloat16(b).astype(np.float64)
    margin = 1e-6 * np.abs(a).astype(np.float64) @ np.abs(b) + 1e-6
    around = np.full((rows + 2, columns + 2), 7, np.float32)  # nothing is written beside the result
    out = around[1:-1, 1:-1]
    product(lying[0], turn_a, lying[1], turn_b, out)
    assert (np.abs(out - expected) <= margin).all()
    product(lying[0], turn_a, lying[1], turn_b, out, keep=True)
    assert (np.abs(out - 2 * expected) <= 2 * margin).all()
    around[1:-1, 1:-1] = 7
    assert (around == 7).all()


@needs_instructions
def test_what_is_no_number_stays_so():
    a, b = np.ones((4, 40), np.float32), np.ones((40, 4), np.float32)
    a[0, 3], a[1, 3], a[2, 3], b[7, 2] = np.nan, np.inf, np.float32(3.4e38), -np.inf
    a[3, 3] = np.array(0x7FFFFFFF, np.uint32).view(np.float32)  # a NaN that rounding as a number would make negative
    out = product(a, False, b, False, np.empty((4, 4), np.float32))
    assert np.isnan(out[[0, 3]]).all()
    assert np.isnan(out[1, 2])
    assert (out[1, [0, 1, 3]] == np.inf).all()
    assert (out[2, [0, 1, 3]] == np.inf).all()  # beyond bfloat16


@needs_instructions
def test_copies_have_room():
    """The rounded product writes its copies where the exact one has its own, and no further."""
    rows, inner, columns = 1100, 1100, 70
    memory = np.full(products.MEMORY + 64, 7, np.float32)
    a, b, out = (np.ones(size, np.float32) for size in ((inner, rows), (columns, inner), (rows, columns)))
    half_products.rounded_product(a.dtype).ctypes(
        0, 4, address(memory), address(a), 4, a.strides[0], address(b), b.strides[0], True, False, address(out),
        out.strides[0], rows, columns, inner,
    )  # fmt: skip
    assert (out == inner).all()
    assert (memory[products.MEMORY :] == 7).all()


@needs_instructions
@pytest.mark.parametrize("layer", ["linear", "encoder", "language", "convolution", "lstm"])
def test_layers_round_where_they_are_asked_to_and_only_there(layer, medium):
    tt.manual_seed(0)
    modules = {
        "linear": (nn.Linear(128, 256), (64, 128)),
        "encoder": (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0), (16, 24, 64)),
        "language": (nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 300)), (32, 20, 64)),
        "convolution": (nn.Conv2d(8, 16, 3, padding=1), (8, 8, 16, 16)),
        "lstm": (nn.LSTM(32, 32, batch_first=True), (8, 64, 32)),
    }
    module, shape = modules[layer]
    x = tt.random.randn(*shape).requires_grad_()

    def compute():
        x.grad = None
        module.zero_grad()
        result = module(x)
        result = result[0] if isinstance(result, tuple) else result
        tt.mean(result * tt.sin(tt.reshape(tt.arange(result.size), result.shape) * 1.0)).backward()
        return [result.numpy().copy(), x.grad.numpy().copy(), *(p.grad.numpy().copy() for p in module.parameters())]

    rounded = compute()
    tt.set_float32_matmul_precision("highest")
    exact = compute()
    tt.set_float32_matmul_precision("medium")
    again = compute()
    for r, e, a in zip(rounded, exact, again):
        assert np.linalg.norm(r - e) < 0.06 * np.linalg.norm(e)
        np.testing.assert_array_equal(r, a)
    if layer != "lstm":  # its steps are NumPy's own products
        assert np.abs(rounded[0] - exact[0]).max() > 1e-4 * np.abs(exact[0]).max()


@needs_instructions
def test_the_same_bits_on_any_number_of_threads(medium):
    rng = np.random.default_rng(0)
    x, w = (tt.asarray(rng.standard_normal(shape, dtype=np.float32)) for shape in ((700, 300), (400, 300)))
    x.requires_grad_()
    found = []
    before = tt.get_num_threads()
    try:
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            x.grad = None
            y = F.linear(x, w)
            (y * y).sum().backward()
            found.append((y.numpy().tobytes(), x.grad.numpy().tobytes()))
    finally:
        tt.set_num_threads(before)
    assert len(set(found)) == 1


@needs_instructions
def test_other_dtypes_and_the_textbook_are_exact(medium):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((256, 256)), rng.standard_normal((256, 256))
    np.testing.assert_allclose(F.linear(tt.asarray(x), tt.asarray(w)).numpy(), x @ w.T, rtol=1e-10, atol=1e-10)
    x, w = x.astype(np.float32), w.astype(np.float32)
    with tt.textbook():
        np.testing.assert_allclose(F.linear(tt.asarray(x), tt.asarray(w)).numpy(), x @ w.T, rtol=1e-4, atol=1e-4)


@needs_instructions
def test_a_stack_learns(medium):
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    points = tt.asarray(rng.standard_normal((512, 64), dtype=np.float32))
    kinds = tt.asarray(np.argmax(points.numpy()[:, :4], axis=1))
    for _ in range(60):
        loss = F.cross_entropy(model(points), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_the_words(loops):
    assert tt.get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match="expected one of highest, high, medium, got 'low'"):
        tt.set_float32_matmul_precision("low")
    tt.set_float32_matmul_precision("high")
    assert tt.get_float32_matmul_precision() == "high"
    tt.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("code", "environment", "says"),
    [
        ("from tinytensor.fast import half_products as h; h.CAN = False", {}, "no AVX512_BF16"),
        ("", {"TINYTENSOR_COMPILE_LOOPS": "0"}, "no compiled loops"),
        ("", {"TINYTENSOR_TEXTBOOK": "1"}, "TINYTENSOR_TEXTBOOK=1"),
    ],
)
def test_where_it_cannot_it_says_so_and_computes_as_before(code, environment, says):
    program = f"""
import warnings
import numpy as np
import tinytensor as tt
{code}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tt.set_float32_matmul_precision("medium")
print(*[each.message for each in caught])
x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
print(np.abs(tt.nn.functional.linear(tt.asarray(x), tt.asarray(x)).numpy() - x @ x.T).max() < 1e-3)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert says in done.stdout, done
    assert done.stdout.splitlines()[-1] == "True"


@pytest.fixture
def choice(loops, monkeypatch, tmp_path):
    """The module that chooses, with its file in a new folder, and nothing chosen yet."""
    monkeypatch.delenv("TINYTENSOR_MEDIUM", raising=False)
    monkeypatch.setattr(medium_choice, "_path", lambda: tmp_path / "medium.txt")
    monkeypatch.setattr(half_products, "CAN", True)
    monkeypatch.setattr(sys.modules["tinytensor.fast.switches"], "_kind", None)
    ratio = medium_choice.ratio
    ratio.cache_clear()
    yield medium_choice
    ratio.cache_clear()
    tt.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("ratio", "kind"), [(0.5, "bfloat16"), (0.94, "bfloat16"), (0.97, "float32"), (1.61, "float32")]
)
def test_medium_is_what_is_faster_and_stays_so(ratio, kind, choice, monkeypatch, tmp_path):
    monkeypatch.setattr(choice, "measure", lambda: ratio)
    assert choice.kind() == kind
    choice.ratio.cache_clear()
    monkeypatch.setattr(choice, "measure", lambda: 2 - ratio)  # another process finds it on disk
    assert choice.kind() == kind
    if kind == "float32":
        with pytest.warns(UserWarning, match=rf"as they were: float32, since bfloat16 takes {ratio} of float32's time"):
            tt.set_float32_matmul_precision("medium")
        assert products.rounded is None
    else:
        tt.set_float32_matmul_precision("medium")
        assert products.rounded is half_products.rounded_product
    (tmp_path / "medium.txt").write_text("")  # cut off
    choice.ratio.cache_clear()
    assert choice.ratio() == 2 - ratio


def test_a_folder_that_cannot_be_written_to_is_no_error(choice, monkeypatch, tmp_path):
    monkeypatch.setattr(choice, "measure", lambda: 0.5)
    monkeypatch.setattr(choice, "_path", lambda: tmp_path / "missing" / "medium.txt")
    assert choice.ratio() == 0.5
    monkeypatch.setattr(choice, "_path", lambda: None)
    choice.ratio.cache_clear()
    assert choice.ratio() == 0.5


@needs_instructions
def test_both_are_measured_and_nothing_changes(loops):
    assert 0.1 < medium_choice.measure() < 10
    assert products.rounded is None


def test_the_environment_chooses(choice, monkeypatch):
    monkeypatch.setattr(choice, "measure", lambda: 1.5)
    monkeypatch.setenv("TINYTENSOR_MEDIUM", "bfloat16")
    assert choice.kind() == "bfloat16"
    monkeypatch.setenv("TINYTENSOR_MEDIUM", "bf16")
    with pytest.raises(ValueError, match="TINYTENSOR_MEDIUM: expected bfloat16 or float32, got 'bf16'"):
        choice.kind()


@pytest.mark.parametrize(("ratio", "began", "here"), [(0.5, "bfloat16", 1.5), (1.5, "float32", 0.5)])
@pytest.mark.filterwarnings("ignore:set_float32_matmul_precision")
def test_a_checkpoint_keeps_the_choice(ratio, began, here, choice, monkeypatch):
    def trainer():
        tt.manual_seed(0)
        model = nn.Linear(2, 2)
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
        return Trainer(model, optimizer, nn.optim.lr_scheduler.ConstantLR(optimizer), None, batch_size=1)

    monkeypatch.setattr(choice, "measure", lambda: ratio)
    tt.set_float32_matmul_precision("medium")
    state = trainer().state_dict()
    assert state["medium"] == began
    monkeypatch.setattr(choice, "ratio", lambda: here)
    tt.set_float32_matmul_precision("highest")
    assert "medium" not in trainer().state_dict()
    tt.set_float32_matmul_precision("medium")
    assert (products.rounded is None) == (began == "bfloat16")
    trainer().load_state_dict(state)
    assert (products.rounded is None) == (began == "float32")
    monkeypatch.setattr(half_products, "CAN", False)
    if began == "bfloat16":
        with pytest.warns(UserWarning, match="the run began with products in bfloat16, and continues in float32"):
            trainer().load_state_dict(state)
        assert products.rounded is None


def test_what_asks_for_no_bfloat16_loads_no_numba():
    code = "import sys, tinytensor as tt; tt.set_float32_matmul_precision('high'); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
