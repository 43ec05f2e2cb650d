"""Every op and function whose text is compiled gives what the text gives, at usual and at special values."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F
from tinytensor.nn.utils import checkpoint

from ...tinytensor.op_samples import SAMPLES
from .. import op_samples  # noqa: F401  (registers the samples)

pytest.importorskip("llvmlite")
from tinytensor.fast import shortcuts
from tinytensor.fast.compiler import jit

SPECIAL = [None, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, 1e-40]
BY_HAND = {name for name, op in tt.ops.items() if op.fast_backward and name not in jit.BY_TEXT}
NAMES = sorted({*SAMPLES} - BY_HAND)


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch):
    for module in (jit, shortcuts):
        monkeypatch.setattr(module, "LARGE", 0)


def outcome(function, inputs, params):
    """Values and gradients, or the kind of error."""
    floats = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in inputs]
    leaves = [tt.tensor(x, requires_grad=True) if f else x for x, f in zip(inputs, floats)]
    tensors = [tt.asarray(x) if isinstance(x, np.ndarray) else x for x in leaves]
    try:
        with np.errstate(all="ignore"):
            found = function(*tensors, **params)
            outs = found if isinstance(found, tuple) else (found,)
            wanted, gradients = [x for x, f in zip(leaves, floats) if f], []
            if outs[0].requires_grad and outs[0].dtype.kind == "f":
                g = np.cos(np.arange(outs[0].size)).reshape(outs[0].shape).astype(outs[0].dtype)
                gradients = tt.grad(outs[0], wanted, tt.asarray(g), allow_unused=True)
    except Exception as error:
        return type(error)
    return [None if x is None else x.numpy() for x in (*outs, *gradients)]


def agree(function, inputs, params, dtype):
    found = outcome(function, inputs, params)
    with tt.textbook():
        expected = outcome(function, inputs, params)
    if isinstance(expected, type):
        assert found is expected
        return
    tolerance = 2e-4 if dtype is np.float32 else 1e-9
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_ops(name, dtype):
    for sample, special in itertools.product(SAMPLES[name], SPECIAL if name not in ("eig",) else [None]):
        rng = np.random.default_rng(0)
        inputs = [
            (x if special is None else np.where(rng.random(x.shape) < 0.4, special, x)).astype(dtype)
            if getattr(x, "dtype", "") == np.float64
            else x
            for x in sample.inputs
        ]
        agree(sample.function, inputs, sample.params, dtype)


LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy_with_logits")
FUNCTIONS = {
    **{name: lambda x, y, name=name: getattr(F, name)(x) for name in (
        "mish", "hardsigmoid", "hardswish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "softplus", "logsigmoid",
        "softsign", "tanhshrink", "hardshrink", "softshrink", "relu6",
    )},
    **{name: lambda x, y, name=name: getattr(F, name)(x, y) for name in LOSSES},
    "none": lambda x, y: F.mse_loss(x, y, reduction="none"), "threshold": lambda x, y: F.threshold(x, 0.1, 3.0),
    "weighted": lambda x, y: F.mse_loss(x, y, weight=tt.abs(y.detach())),
    "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1), "normalize": lambda x, y: F.normalize(x, dim=1),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, y[0, :, 0], y[1, :, 0], True),
    "batch_norm, running": lambda x, y: F.batch_norm(x, y[0, :, 0], y[1, :, 0] ** 2, None, y[1, :, 0]),
    "group_norm": lambda x, y: F.group_norm(x, 2, y[0, :, 0]), "var": lambda x, y: tt.var(x, axis=(0, 2), correction=1),
    "layer_norm": lambda x, y: F.layer_norm(x, (6, 8), y[0], y[1]), "rms_norm": lambda x, y: F.rms_norm(x, (8,)),
    "softmax": lambda x, y: F.softmax(x, dim=1), "log_softmax": lambda x, y: F.log_softmax(x, dim=0),
    "cross entropy": lambda x, y: F.cross_entropy(x, F.softmax(y.detach(), dim=1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    for special in SPECIAL:
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((2, 4, 6, 8)).astype(dtype)
        if special is not None:
            x = np.where(rng.random(x.shape) < 0.05, dtype(special), x)
        agree(FUNCTIONS[name], [x, y], {}, dtype)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "layer_norm"])  # here an op between reshapes
def test_each_is_compiled(name, monkeypatch):
    made = []
    monkeypatch.setattr(jit.Pair, "__init__", lambda self, *args, own=jit.Pair.__init__: made.append(own(self, *args)))
    x, y = (tt.tensor(z, requires_grad=True) for z in np.random.default_rng(1).standard_normal((2, 5, 6, 8)))
    FUNCTIONS[name](x, y)
    assert made


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("hardtanh", "relu6", "threshold")])
def test_second_derivatives_are_the_formulas(name):
    found = []
    for textbook in (False, True):
        x, y = (tt.tensor(z, requires_grad=True) for z in np.random.default_rng(2).standard_normal((2, 4, 6, 8)))
        with tt.textbook() if textbook else tt.enable_grad():
            (first,) = tt.grad((FUNCTIONS[name](x, y) ** 3).sum(), [x], create_graph=True)
            found.append(tt.grad((first * first).sum(), [x])[0].numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)


def test_a_checkpoint_computes_the_same_ops_wherever_it_is_restored():
    x = tt.tensor(np.linspace(-1, 1, 12), requires_grad=True)
    with tt.record():
        recorded = checkpoint(lambda x: F.elu(tt.sigmoid(x)), x)
    plain = checkpoint(lambda x: F.elu(tt.sigmoid(x)), x)
    assert "np.exp" in str(tt.backward_program(plain.sum()))
    with tt.textbook():
        found = [tt.grad(out.sum(), [x], retain_graph=True)[0].numpy() for out in (recorded, plain)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_running_statistics_are_the_formulas():
    x = tt.tensor(np.random.default_rng(0).standard_normal((5, 3, 4)))
    found = []
    for textbook in (False, True):
        mean, variance = tt.zeros(3, dtype=tt.float64), tt.ones(3, dtype=tt.float64)
        with tt.textbook() if textbook else tt.enable_grad():
            F.batch_norm(x, mean, variance, training=True)
        found.append((mean.numpy(), variance.numpy()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("key", ["rows", "grid", "below 0", "one", "two axes", "a slice behind"])
def test_gradients_of_large_arrays_by_index(key, dtype):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 300, 600)
    key = {
        "rows": places,
        "grid": places.reshape(20, 30).astype("int32"),
        "below 0": places - 300,
        "one": 7,
        "two axes": (places, places % 100),
        "a slice behind": (places, slice(3, 70)),
    }[key]
    x = tt.tensor(rng.standard_normal((300, 100)).astype(dtype), requires_grad=True)
    g = tt.tensor(rng.standard_normal(x[key].shape).astype(dtype))
    (found,) = tt.grad([x[key]], [x], [g])
    with tt.textbook():
        (expected,) = tt.grad([x[key]], [x], [g])
    assert found.dtype == expected.dtype
    close = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=close, atol=close)


def test_room_functions_of_elements_are_compiled():
    from tinytensor.torch.functions import METHODS

    x, y = (
        tt.tensor(np.random.default_rng(i).standard_normal((200, 100)).astype("f4"), requires_grad=True) for i in (0, 1)
    )
    calls = {
        "lerp": lambda: METHODS["lerp"](x, y, 0.3), "sign": lambda: METHODS["sign"](x),
        "frac": lambda: METHODS["frac"](x), "addcmul": lambda: METHODS["addcmul"](x, y, y, value=0.5),
        "addcdiv": lambda: METHODS["addcdiv"](x, y, y),
    }  # fmt: skip
    for name, call in calls.items():
        found = call()
        assert type(found._node.op).__name__ == "Fused", name
        assert found._node.op.name == name
        with tt.textbook():
            np.testing.assert_allclose(found.detach().numpy(), call().detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_ops_within_a_compiled_function(name, dtype):
    for sample in SAMPLES[name]:
        inputs = [x.astype(dtype) if getattr(x, "dtype", "") == np.float64 else x for x in sample.inputs]
        agree(tt.compile(sample.function), inputs, sample.params, dtype)
