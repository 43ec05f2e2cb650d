"""Files in ONNX: every op's row of the table, and what is refused, against ONNX Runtime."""

import importlib
import itertools
import re
import sys

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.processes import modules_of_the_library
from tinytensor import nn

from ..nn import op_samples
from ..tinytensor.op_samples import SAMPLES

assert op_samples  # which adds samples of the ops of nn
pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from tinytensor.onnx import table  # noqa: E402
from tinytensor.onnx.writer import tensors  # noqa: E402

runtime.set_default_logger_severity(4)
errors = runtime.capi.onnxruntime_pybind11_state

BY_FUNCTION = {"binary_cross_entropy", "clip", "count_nonzero", "euclidean", "logsumexp", "rotate", "rsqrt", "std"}
ELSEWHERE = {  # samples that no file can have, by op and place, and why
    "attention": {33: "dropout", 34: "dropout"},
    "clip": {3: "neither bound is given"},
    "cross_entropy": {1: "targets in uint8 cannot be -100"},
    "getitem": {6: "a slice between indices"},
    "index_set": {12: "a slice between indices", 13: "a slice between indices"},
    "scatter": {6: "a slice between indices"},
}
NOT_IN_THE_RUNTIME = r"NOT_IMPLEMENTED|Mod::Mod"  # ONNX Runtime has no kernel: for 8 bits; for the remainder by 0


def run(path, *inputs):
    """The results of ONNX Runtime."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    arrays = [np.asarray(x.numpy() if isinstance(x, tt.Tensor) else x) for _, x in tensors("", list(inputs))]
    assert len(arrays) == len(session.get_inputs())
    return session.run(None, {entry.name: x for entry, x in zip(session.get_inputs(), arrays)})


def check(path, model, *calls, rtol=1e-4, atol=1e-5):
    """Compare what the file gives with what the model does."""
    for inputs in calls:
        with tt.no_grad(), np.errstate(all="ignore"):
            expected = [x.numpy() for _, x in tensors("", model(*inputs))]
        found = run(path, *inputs)
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def exported(path, model, *calls, free=None, **options):
    """Export a model on the first call's inputs, and check it on those of all."""
    tt.onnx.export(model, calls[0], path, dynamic_shapes=free, **options)
    check(path, model, *calls)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def draw(*shape):
    return tt.random.randn(*shape)


# ---- the table


def library():
    """Every op that a module of the library declares."""
    for name in modules_of_the_library():
        if not re.search(r"scripts|__main__|fast\.(cublas|graphs|kernels)|backend\.cupy|distributed\.", name):
            importlib.import_module(name)
    return {name: op for name, op in tt.ops.items() if str(op.function.__module__).startswith("tinytensor.")}


def test_every_op_of_the_library_has_a_place():
    ops = library()
    tables = [*table.ROWS, *table.FORMULAS, *table.LACKING]
    assert len(tables) == len({*tables})
    assert {*tables} <= {*ops}
    assert {name for name, op in ops.items() if op.pure} - {*tables} == BY_FUNCTION
    assert all(table.LACKING.values())


@pytest.mark.filterwarnings("ignore:export. Python reads numbers")
@pytest.mark.parametrize("name", sorted({*SAMPLES} - {*table.LACKING}))
def test_an_op_gives_the_same_in_the_runtime(name, path):
    """On each sample, in float32; complex numbers are not in ONNX."""
    checked = 0
    for place, sample in enumerate(SAMPLES[name]):
        kinds = {x.dtype.kind for _, x in tensors("", list(sample.inputs))}
        if "c" not in kinds and kinds and place not in ELSEWHERE.get(name, {}):
            checked += in_the_runtime(path, sample)
    assert checked


def in_the_runtime(path, sample, change=lambda x: x):
    """Export a sample in float32, its floats changed, and check it. False if the runtime has not implemented it."""
    inputs = [change(x).astype("f") if getattr(x, "dtype", "") == np.float64 else x for x in sample.inputs]

    def function(*given):
        return sample.function(*given, **sample.params)

    try:
        exported(path, function, tuple(tt.asarray(x) if hasattr(x, "dtype") else x for x in inputs))
    except (errors.Fail, errors.NotImplemented) as error:
        if not re.search(NOT_IN_THE_RUNTIME, str(error)):
            raise
        return False
    return True


SPECIAL = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30
OTHERWISE = {  # what differs at special values, and why
    "attention": "hidden values of infinity, times weights of 0, are left out of blocks",
    "binary_cross_entropy": "the targets are no probabilities",
    "gru": "sums of 1e30 and -1e30 depend on their order",
    "pow": "-inf to 0.5 is NaN here, as the square root is",
}
OVERFLOWS = {"layer_norm"}  # at 1e30: a row whose squares overflow is NaN here, as in PyTorch; the runtime has 0


def test_nan_is_the_largest_and_the_smallest(path):
    """ONNX's own reductions leave it out."""
    x = tt.asarray([[2.0, np.nan, 1.0], [np.nan, 1.0, 2.0], [np.inf, 2.0, np.nan], [3.0, 1.0, -np.inf]])

    def function(x):
        found = [f(x, axis=axis) for f in (tt.max, tt.min, tt.argmax, tt.argmin) for axis in (0, 1, None)]
        return (*found, F.max_pool1d(x[:, None], 3), F.max_pool1d(-x, 2, 1, 1), F.softmax(x, 1), *tt.topk(x, 2))

    exported(path, function, (x,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:export. Python reads numbers")
@pytest.mark.parametrize("name", sorted({*SAMPLES} - {*table.LACKING} - {*OTHERWISE}))
def test_an_op_gives_the_same_at_special_values(name, path):
    """Four elements in ten are NaN, infinite, 0, or so large or small that a square of them is."""
    for special, (place, sample) in itertools.product(SPECIAL, enumerate(SAMPLES[name])):
        arrays = [x for x in sample.inputs if hasattr(x, "dtype")]
        is_complex = any(x.dtype.kind == "c" for x in arrays)
        is_float = any(x.dtype == np.float64 and x.ndim > 0 for x in arrays)
        overflows = name in OVERFLOWS and abs(special) == 1e30
        if is_float and not is_complex and place not in ELSEWHERE.get(name, {}) and not overflows:
            rng = np.random.default_rng(0)
            in_the_runtime(
                path, sample, lambda x, rng=rng, special=special: np.where(rng.random(x.shape) < 0.4, special, x)
            )


@pytest.mark.parametrize(
    ("name", "place"), [(n, place) for n in ELSEWHERE for place in ELSEWHERE[n] if n != "attention"]
)
def test_what_no_file_can_have_is_refused(name, place, path):
    sample = SAMPLES[name][place]
    inputs = tuple(x.astype(np.float32) if getattr(x, "dtype", "") == np.float64 else x for x in sample.inputs)
    with pytest.raises((NotImplementedError, OverflowError)):
        tt.onnx.export(lambda *x: sample.function(*x, **sample.params), inputs, path)


@pytest.mark.parametrize("name", sorted({*table.LACKING} & {*SAMPLES} - {"multi_head", "through"}))
def test_an_op_without_a_counterpart_is_named(name, path):
    sample = SAMPLES[name][0]
    with pytest.raises(NotImplementedError, match=r"export: \w+ at \w+.py:\d+ in \S+ has no counterpart in ONNX: \S+"):
        tt.onnx.export(lambda *x: sample.function(*x, **sample.params), tuple(sample.inputs), path)


# ---- free lengths


def shifted(x):
    y = tt.zeros_like(x)
    y[1:] = x[:-1]
    y[0] += 1.0
    return y


FREE = {
    "arange": lambda x: x + tt.arange(len(x))[:, None] + tt.arange(0.5, len(x), 1)[:, None],
    "backwards": lambda x: x * tt.arange(len(x) - 1, -1, -1)[:, None],
    "argsort": lambda x: (tt.argsort(x, axis=0), tt.sort(x, axis=0, descending=True)),
    "broadcast": lambda x: tt.broadcast_to(x[:, None], (len(x), 2, 3)),
    "causal": lambda x: tt.masked_fill(x @ x.T, F.causal_mask(len(x)), -np.inf),
    "cumulative": lambda x: tt.cumulative_sum(x, axis=0),
    "flip": lambda x: tt.flip(x, axis=0),
    "gather": lambda x: tt.take_along_axis(x, tt.argmax(x, axis=1)[:, None], axis=1),
    "keys": lambda x: (x[-1], x[1:-1], x[::2], x[:, None, 1:], x[..., -1], x[tt.arange(len(x) - 1)], x[None, 0, :2]),
    "mask": lambda x: x[x[:, 0] > 0],
    "mean": lambda x: (tt.mean(x), tt.mean(x, axis=0), tt.std(x, axis=0), tt.sum(x) / len(x)),
    "pad": lambda x: F.pad(x, (1, 2, 3, 0), value=2.0),
    "products": lambda x: tt.reshape(x[:, None] * x, (len(x) * len(x), 3)),
    "roll": lambda x: tt.roll(x, (1, -2), (0, 1)),
    "scatter": lambda x: tt.scatter_add(x, tt.argmax(x, axis=1)[:, None], x[:, :1], axis=1),
    "softmax": lambda x: F.softmax(tt.where(x[:, :1] > 0, x, -np.inf), dim=1),
    "split": lambda x: [tt.concat([x, x * 2.0]), tt.stack([x, x], axis=1)],
    "tile": lambda x: tt.tile(x, (2, 1, 2)),
    "topk": lambda x: (*tt.topk(x, 2), *tt.topk(x, 2, axis=0, largest=False), tt.topk(x, 1)[1]),
    "write": shifted,
}


@pytest.mark.parametrize("name", FREE)
def test_a_length_stays_free(name, path):
    exported(path, FREE[name], (draw(5, 3),), (draw(8, 3),), (draw(2, 3),), free={"x": {0: "length"}})


def test_axes_of_one_name_and_of_others(path):
    def model(a, b, c):
        return {
            "scores": a @ tt.matrix_transpose(b),
            "masked": tt.where(c, a, 0.0),
            "rows": len(a) * len(b) * 0 + 1 + a,
        }

    def example(batch, rows, others):
        return draw(batch, rows, 4), draw(batch, others, 4), draw(batch, rows, 1) > 0

    free = {"a": {0: "batch", 1: "rows"}, "b": {0: "batch", 1: "others"}, "c": {0: "batch", 1: "rows", 2: None}}
    exported(path, model, example(1, 3, 3), example(2, 3, 5), example(4, 1, 2), free=free)
    session = runtime.InferenceSession(str(path))
    assert [entry.shape for entry in session.get_inputs()] == [
        ["batch", "rows", 4],
        ["batch", "others", 4],
        ["batch", "rows", 1],
    ]
    assert [(entry.name, entry.shape) for entry in session.get_outputs()][:2] == [
        ("scores", ["batch", "rows", "others"]),
        ("masked", ["batch", "rows", 4]),
    ]


# ---- own ops


@tt.op
def squash(x, *, scale):
    """A fused op by its formula."""
    return tt.tanh(x * scale) / scale


@tt.op(x=lambda xp, g, x: 2 * g * x)
def twice_squared(xp, x):
    """A pure op, whose function runs on Tensors."""
    return xp.add(x * x, xp.where(x > 0, x, 0.0) * 0 + x * x)


@tt.op(x=lambda xp, g: g)
def of_numpy_alone(xp, x):
    return xp.nextafter(x.ravel(), 0.0)


for _name in ("squash", "twice_squared", "of_numpy_alone"):
    del tt.ops[_name]  # they are not of the library, as other tests count it


def test_ops_of_ones_own_go_by_their_parts(path):
    former = tt.ops["softmax"]

    @tt.op
    def softmax(x, *, axis):
        return x / tt.sum(x, axis=axis, keepdims=True)

    try:
        free = {"x": {0: "length"}}
        exported(
            path,
            lambda x: softmax(squash(twice_squared(x), scale=0.5), axis=1),
            (draw(5, 3),),
            (draw(4, 3),),
            free=free,
        )
    finally:
        tt.ops["softmax"] = former
    with pytest.raises(
        NotImplementedError, match=r"nextafter at test_onnx.py:\d+ in of_numpy_alone has no counterpart"
    ):
        tt.onnx.export(lambda x: of_numpy_alone(x), (draw(5, 3),), path)


# ---- the file


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x, times=1):
        for _ in range(times):
            x = self.second(self.first(x))
        return F.dropout(self.norm(x), training=self.training)


def test_weights_have_their_names_and_are_there_once(path):
    import onnx

    model = Tied()
    model.norm.eval()
    tt.onnx.export(model, (draw(5, 4), 2), path, input_names=["array"], output_names=["found"])
    assert [part.training for part in model.modules()] == [True, True, True, False, True]
    check(path, model.eval(), (draw(5, 4), 2))
    file = onnx.load(path)
    stored = {entry.name: onnx.numpy_helper.to_array(entry) for entry in file.graph.initializer}
    assert {name for name in stored if not name.startswith("constant_")} == {
        "first.weight", "second.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
    }  # fmt: skip
    np.testing.assert_array_equal(stored["first.weight"], model.first.weight.numpy())
    assert ([x.name for x in file.graph.input], [x.name for x in file.graph.output]) == (["array"], ["found"])
    assert all(
        re.match(r"\w+.py:\d+ in forward, module Tied.(first|second|norm)$", n.doc_string) for n in file.graph.node
    )


def test_the_file_is_the_same_in_textbook_mode(path):
    model, x = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"), draw(3, 4, 8)
    tt.onnx.export(model, x, path)
    usual = path.read_bytes()
    with tt.textbook():
        tt.onnx.export(model, x, path)
    assert path.read_bytes() == usual
    for name in (b"Softmax", b"LayerNormalization", b"Gelu"):
        assert name in usual


def test_float64_and_integers_keep_their_dtypes(path):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.RMSNorm(4), nn.Softmax(-1)).to(tt.float64)
    exported(path, model, (draw(5, 3).astype(tt.float64),), (draw(2, 3).astype(tt.float64),), free={"input": {0: "n"}})
    numbers = tt.asarray([[-5, 3, 7], [4, -1, 2]])
    exported(path, lambda x: (x // 2 + x % 3, x / 2, x**2, x & 3, -x), (numbers,))


def test_containers_are_several_inputs_and_results(path):
    def model(pair, *, more):
        (a, b), c = pair, more["c"]
        return (a + b, [b * c]), {"a": a, "nothing": None}

    a, b, c = draw(2, 3), draw(3), draw(2, 1)
    tt.onnx.export(model, ((a, b),), path, kwargs={"more": {"c": c}})
    session = runtime.InferenceSession(str(path))
    assert [entry.name for entry in session.get_inputs()] == ["pair_0", "pair_1", "c"]
    assert [entry.name for entry in session.get_outputs()] == ["output_0_0", "output_0_1_0", "a"]
    found = run(path, a, b, c)
    for x, y in zip(found, (a + b, b * c, a)):
        np.testing.assert_array_equal(x, y.numpy())


# ---- what cannot be


def halved(x):
    return x[: len(x) // 2]


def branching(x):
    return x * 2.0 if float(tt.sum(x * x)) > 0 else x


MODELS = {
    "a number": (lambda x: x * float(tt.max(x)), ValueError, r"multiply at test_onnx.py:\d+ in <lambda>: .* follow no"),
    "a constant": (lambda x: x + np.ones(x.shape), ValueError, r"a constant \(5, 3\) is \(8, 3\) .*, read by add"),
    "half": (halved, ValueError, r"getitem at test_onnx.py:\d+ in halved: 2 and 4 follow no length"),
    "a root": (
        lambda x: x / np.sqrt(len(x)),
        ValueError,
        r"divide at test_onnx.py:\d+ in <lambda>: .* follow no length",
    ),
    "windows": (lambda x: F.avg_pool1d(x.T[None], 3), ValueError, r"getitem at test_onnx.py:\d+ in <lambda>: .*follow"),
    "other ops": (lambda x: x if len(x) > 6 else tt.exp(x), ValueError, "one recording has 1 ops, the other 0"),
    "random": (lambda x: x + tt.random.randn(3), ValueError, r"a constant \(3,\) has other numbers .*, read by add"),
    "dropout": (lambda x: F.dropout(x), NotImplementedError, r"dropout at test_onnx.py:\d+ .* draws random numbers"),
    "complex": (lambda x: tt.abs(x * 1j), NotImplementedError, r"multiply at .* it takes no complex numbers"),
    "attributes": (
        lambda x: F.max_pool1d(x.T[None], 2, stride=len(x)),
        NotImplementedError,
        "strides of its MaxPool is a fixed",
    ),
    "nothing": (lambda x: 3, ValueError, "output_names: expected one name for each of 0 arrays"),
    "too long": (lambda x: nn.PositionalEncoding(3, 0.0, 6)(x), ValueError, r"the model fails at {'n': 8}: .*len 6"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:export. Python reads numbers")
def test_what_a_file_cannot_hold_is_named(name, path):
    model, error, message = MODELS[name]
    path.write_text("former")
    with pytest.raises(error, match=message):
        tt.onnx.export(model, draw(5, 3), path, dynamic_shapes={"x": {0: "n"}})
    assert path.read_text() == "former"


@pytest.mark.parametrize("model", [branching, lambda x: x * 2.0 if x.tolist() else x], ids=["result", "input"])
def test_numbers_that_python_reads_are_told(model, path):
    with pytest.warns(UserWarning, match=r"Python reads numbers at test_onnx.py:\d+ in .*; what it does with them"):
        tt.onnx.export(model, draw(5, 3), path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": ["a", "b"]}, r"input_names: expected one name for each of 1 arrays, got \['a', 'b'\]"),
        ({"input_names": ["a"], "output_names": ["a"]}, "two arrays have the name 'a'"),
        ({"dynamic_shapes": {"y": {0: "n"}}}, "'n' cannot be the length of axis 0 of 'y' .*; the inputs are x,"),
        ({"dynamic_shapes": {"x": {2: "n"}}}, r"'n' cannot be the length of axis 2 of 'x' \(5, 3\)"),
        ({"dynamic_shapes": {"x": {0: "n", 1: "n"}}}, r"'n' cannot be the length of axis 1 of 'x' \(5, 3\)"),
    ],
)
def test_names_and_axes_that_do_not_fit_are_named(options, message, path):
    with pytest.raises(ValueError, match=message):
        tt.onnx.export(lambda x: x + 1, draw(5, 3), path, **options)
    assert not path.exists()


def test_weights_of_two_gigabytes_are_refused(path, monkeypatch):
    monkeypatch.setattr(sys.modules["tinytensor.onnx.export"], "MOST", 100)
    with pytest.raises(ValueError, match=r"export: 0.0 GB of weights, and a file holds 2 GB"):
        tt.onnx.export(nn.Linear(5, 6), draw(2, 5), path)


def test_without_the_package_the_error_says_what_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"the package onnx is missing; run: pip install .*onnx"):
        tt.onnx.export(nn.Linear(5, 6), draw(2, 5), path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"):
        tt.onnx.export(nn.Linear(5, 6), draw(2, 5), tmp_path / "none" / "model.onnx")
