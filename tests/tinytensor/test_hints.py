"""Names of PyTorch's and NumPy's that tinytensor does not have: the error says what to write, and that works."""

import copy
import inspect
import io
import json
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import data
from tinytensor.nn import functional as F
from tinytensor.nn.optim import lr_scheduler
from tinytensor.tensors import hints
from tinytensor.tensors.missing import NAMES

PLACES = {
    "tinytensor": tt,
    "Tensor": tt.ones((2, 3)),
    "tinytensor.nn": nn,
    "tinytensor.nn.functional": F,
    "tinytensor.nn.optim": nn.optim,
    "tinytensor.nn.optim.lr_scheduler": lr_scheduler,
    "tinytensor.nn.init": nn.init,
    "tinytensor.models.data": data,
    "tinytensor.linalg": tt.linalg,
    "tinytensor.fft": tt.fft,
    "tinytensor.special": tt.special,
    "tinytensor.random": tt.random,
}
STANDARD = (Path(__file__).parents[1] / "names" / "array_api.txt").read_text(encoding="utf-8").split()
ROWS = [(place, name) for place in PLACES for name in hints.table(place)]


@pytest.mark.parametrize(
    ("thing", "name", "says"),
    [
        (tt, "cat", "tinytensor names it concat, as the array API does: tt.concat(tensors, axis=0)"),
        (tt, "numel", "x.size"),
        (tt, "long", "tinytensor names it int64"),
        (tt, "softmax", "write tt.nn.functional.softmax"),
        (tt, "expand_as", "it is a method of Tensors: x.expand_as"),
        (tt, "conv3d", "not in tinytensor, which is about attention and the Transformer"),
        (tt.ones(3), "repeat", "tt.tile(x, (2, 3)), tt.repeat(x, 2, axis=0) (PyTorch's"),
        (tt.ones(3), "cuda", 'write x.to("gpu")'),
        (tt.ones(3), "addmm", "write y + x @ x"),
        (tt.ones(3), "sin_", "write x.copy_(x.sin(...))"),
        (nn, "ReflectionPad1d", 'write F.pad(x, (1, 2), "reflect")'),
        (nn, "Conv3d", "not in tinytensor, which is about attention and the Transformer"),
        (F, "pdist", "write tt.linalg.vector_norm(x[:, None] - x[None], axis=-1)"),
        (nn.optim, "Rprop", "nn.optim.RMSprop"),
        (data, "IterableDataset", "write data.DataLoader(list(range(5)))"),
        (nn.init, "xavier_uniform", "nn.init.xavier_uniform_"),
        (tt.linalg, "norm", "tt.linalg.vector_norm(x)"),
        (tt.random, "randint", "tt.random.integers(0, 10, (2, 3))"),
    ],
)
def test_a_missing_name_says_what_to_write(thing, name, says):
    assert not hasattr(thing, name)
    with pytest.raises(AttributeError) as caught:
        getattr(thing, name)
    assert f"has no attribute {name!r}: " in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(("place", "name"), ROWS, ids=str)
def test_a_hinted_name_does_not_exist_and_its_example_runs(place, name):
    assert not hasattr(PLACES[place], name)
    ours, example = hints.table(place)[name]
    assert not ours or ours in STANDARD
    w, x = tt.tensor(tt.eye(3), requires_grad=True), tt.random.uniform((3, 3), 0.1, 0.9) + tt.eye(3)
    names = {
        "tt": tt, "np": np, "nn": nn, "F": F, "data": data, "w": w, "x": x, "y": x + 1, "n": 2,
        "v": tt.asarray([1.0, 2.0, 3.0]), "i": tt.asarray([0, 2, 1]), "mask": x > 0.5, "tensors": [x, x],
        "p": tt.asarray([0.2, 0.7]), "z": tt.asarray([1 + 2j]),
        "model": nn.Linear(3, 3), "optimizer": nn.optim.SGD([w], lr=0.1), "file": io.StringIO("1 2"),
    }  # fmt: skip
    with np.printoptions():
        exec(compile(example, name, "exec"), names)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda x: tt.linalg.eigh(x, UPLO="U"),
            "eigh: got UPLO=; leave it out: of each matrix the lower",
        ),
        (lambda x: tt.linalg.pinv(x, hermitian=True), "pinv: got hermitian=; leave it out: what it gives is the same"),
        (lambda x: tt.nonzero(x, as_tuple=True), "nonzero: got as_tuple=; it always gives a tuple"),
        (lambda x: tt.searchsorted(x[0], x, right=True), "got right=; tinytensor names it side"),
        (lambda x: x.max(x), r"max: axis must be an integer, got \(3, 3\) float32; of two Tensors it is tt.maximum"),
        (
            lambda x: x.var(correction=None),
            r"var: PyTorch's method divides by n - 1, NumPy's by n; write x\.var\(correction=1\) for PyTorch's, or",
        ),
    ],
)
def test_an_argument_that_is_not_here_says_what_to_write(call, says):
    with pytest.raises(TypeError, match=says):
        call(tt.eye(3))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("zero_", "x.data is a NumPy array, x.detach() a Tensor; write tt.nn.init.zeros_(x)"),
        ("normal_", "write tt.nn.init.normal_(x)"),
        ("uniform_", "write tt.nn.init.uniform_(x)"),
        ("fill_", "write with tt.no_grad(): x.fill_(...)"),
        ("copy_", "write with tt.no_grad(): x.copy_(...)"),
        ("add_", "write with tt.no_grad(): x += y"),
        ("clamp_", "write with tt.no_grad(): x.copy_(tt.clip(x, 0, 1))"),
        ("topk", "write x.detach().topk"),
        ("detach", "write x.detach()"),
    ],
)
def test_a_name_of_pytorchs_after_data_says_what_to_write(name, says):
    x = tt.ones((2, 2))
    assert not hasattr(x.data, name)
    with pytest.raises(AttributeError) as caught:
        getattr(x.data, name)
    assert str(caught.value).startswith(f"'numpy.ndarray' object has no attribute {name!r}: ")
    assert str(caught.value).endswith(says)
    with pytest.raises(AttributeError, match=r"'sofmtax'$"):
        x.data.sofmtax  # noqa: B018


def test_data_is_numpys_array_in_all_else():
    x = tt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert repr(x.data) == repr(x.detach().numpy())
    assert np.shares_memory(x.data, x._data)
    for result in (x.data + 1, np.sqrt(x.data), x.data.mean(0), x.data @ x.data):
        assert type(result) is np.ndarray
    assert type(x.data.sum()) is np.float32
    memory = x._data
    x.data[0, 0] = 5.0
    x.data -= 1
    assert x._data is memory
    assert x.tolist() == [[4.0, 1.0], [2.0, 3.0]]
    x.data = x.data.T
    assert type(x._data) is type(pickle.loads(pickle.dumps(x.data))) is np.ndarray
    for made in (tt.asarray(x.data), tt.asarray(x.data, copy=False), tt.Tensor(x.data), x.detach() + x.data):
        assert type(made._data) is np.ndarray


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda w: 0.1 * w.grad, [0.8, 1.6]),
        (lambda w: w.grad, [-1.0, -2.0]),
        (lambda w: (0.1 * w.grad).numpy(), [0.8, 1.6]),
    ],
)
def test_a_step_on_data_is_taken(step, expected):
    w = tt.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    later = (w * w).sum()
    w.data -= step(w)
    np.testing.assert_allclose(w.tolist(), expected, rtol=1e-6)
    with pytest.raises(RuntimeError):
        later.backward()  # as for every other write
    with pytest.raises(TypeError, match=r"np\.subtract: .* write tt\.subtract, or convert first with x\.detach"):
        w.data -= w


def test_what_python_would_guess_is_not_said():
    for name in ("numel", "long"):
        with pytest.raises(AttributeError) as caught:
            getattr(tt, name)
        assert caught.value.name == name
        assert "Did you mean" not in "".join(traceback.format_exception(caught.value))


def test_an_unknown_name_is_unknown():
    for thing in PLACES.values():
        with pytest.raises(AttributeError, match=r"has no attribute 'sofmtax'$"):
            getattr(thing, "sofmtax")  # noqa: B009


def test_the_methods_that_raise_are_those_with_something_to_write():
    assert set(hints.table("Tensor")) <= set(NAMES.split())
    for name in NAMES.split():
        assert "write " in hints.hint("Tensor", name) or "tinytensor names it" in hints.hint("Tensor", name)
        assert not hasattr(tt.Tensor, name)


def test_a_tensor_is_copied_pickled_and_inspected_as_ever():
    x = tt.tensor([[1.0, 2.0]], requires_grad=True)
    for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin.requires_grad
        assert twin.tolist() == x.tolist()
    names = {name for name, _ in inspect.getmembers(x)}
    assert {"sum", "T", "shape"} <= names
    assert not names & set(NAMES.split())
    assert not set(dir(x)) & set(NAMES.split())


def test_a_class_of_ones_own_may_have_such_a_method():
    class Mine(tt.Tensor):
        def repeat(self):
            return "mine"

    assert Mine([1.0]).repeat() == "mine"


def test_hints_are_loaded_for_an_error_only():
    code = (
        "import sys, tinytensor as tt\nfrom tinytensor import nn\n"
        "tt.ones(2).sum(), nn.Linear(2, 2), tt.linalg.det, hasattr(tt.ones(2), '__wrapped__')\n"
        "print('tinytensor.tensors.hints' in sys.modules)\nhasattr(tt, 'cat')\n"
        "print('tinytensor.tensors.hints' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]


# ---- PyTorch's spelling of what is here


def test_a_size_is_a_number_that_can_be_called():
    x = tt.ones((2, 3, 5))
    assert x.size == 30
    assert (x.size(), x.size(0), x.size(-1), x.size(dim=1)) == ((2, 3, 5), 2, 5, 3)
    assert tt.reshape(x, (x.size,)).shape == (30,)
    assert json.dumps(x.size) == repr(x.size) == "30"
    assert type(pickle.loads(pickle.dumps(x.size))) is int
    batch, *_ = x.size()
    assert batch == 2
    with pytest.raises(IndexError, match=r"size: dim 3 is out of range .* \(2, 3, 5\)"):
        x.size(3)


@pytest.mark.parametrize("name", ["std", "var"])
def test_a_deviation_that_two_libraries_mean_differently_wants_a_word(name):
    x = tt.asarray([[1.0, 2.0, 6.0]])
    method, function, numpy = getattr(x, name), getattr(tt, name), getattr(np, name)
    for call in (method, lambda: method(-1), lambda: method(-1, keepdims=True), lambda: method(correction=None)):
        with pytest.raises(TypeError, match=rf"write x\.{name}\(correction=1\) for PyTorch's, or correction=0"):
            call()
    for ways, ddof in (((method(correction=1), method(unbiased=True), method(1, True)), 1),
                       ((method(correction=0), method(unbiased=False), function(x)), 0)):  # fmt: skip
        for found in ways:
            assert float(found) == pytest.approx(numpy(x.numpy(), ddof=ddof), rel=1e-6)
    with pytest.raises(TypeError, match="got keepdim=; tinytensor names it keepdims"):
        method(-1, keepdim=True)


def test_a_device_is_a_text_that_says_so():
    x = tt.ones(2)
    assert (x.device, f"{x.device}") == ("cpu", "cpu")
    with pytest.raises(AttributeError, match="x.device is a text, 'cpu'; write x.device == 'gpu'"):
        _ = x.device.type
    assert not hasattr(x.device, "index_of")


def test_more_by_position_than_two_libraries_agree_on():
    x = tt.ones((4, 4))
    with pytest.raises(TypeError, match="split: got 1 more than it takes by position; write axis=1"):
        tt.split(x, 2, 1)
    assert tt.triu(x, 1).tolist() == np.triu(x.numpy(), 1).tolist()
    assert tt.tril(x, -1).tolist() == np.tril(x.numpy(), -1).tolist()
    with pytest.raises(TypeError, match=r"write tt.empty\(\(2, 3\)\) for a Tensor of a shape"):
        tt.Tensor(2, 3)


def test_python_rounds_and_einsum_takes_a_list():
    x = tt.asarray([1.26, 2.5, -0.04])
    assert [round(x).tolist(), round(x, 1).tolist()] == [np.round(x.numpy(), n).tolist() for n in (0, 1)]
    a, b = tt.ones((2, 3)), tt.ones((3, 4))
    assert tt.einsum("ij,jk->ik", [a, b]).tolist() == tt.einsum("ij,jk->ik", a, b).tolist()
    assert tt.einsum("i->", [1.0, 2.0]).item() == 3  # one operand, which is a list
