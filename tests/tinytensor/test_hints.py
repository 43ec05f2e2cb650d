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
    assert (w.is_leaf, w.requires_grad) == (True, True)
    with pytest.raises(RuntimeError, match="changed in place"):
        later.backward()


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda w: w.data.zero_(), [0.0, 0.0]),
        (lambda w: w.data.fill_(2.0), [2.0, 2.0]),
        (lambda w: w.data.copy_(tt.asarray([5.0, 6.0], device=w.device)), [5.0, 6.0]),
        (lambda w: w.data.uniform_(3.0, 3.0), [3.0, 3.0]),
        (lambda w: w.data.normal_(4.0, 0.0), [4.0, 4.0]),
        (lambda w: tt.nn.init.ones_(w.data), [1.0, 1.0]),
        (lambda w: tt.nn.init.zeros_(w.detach().data.data), [0.0, 0.0]),
        (lambda w: w.data.__setitem__(0, 9.0), [9.0, 4.0]),
    ],
)
def test_a_write_to_data_reaches_the_parameter_and_counts_as_a_change(write, expected, device):
    w = tt.tensor([3.0, 4.0], requires_grad=True, device=device)
    kept = (w * w).sum()
    write(w)
    assert (w.tolist(), w.is_leaf, w.grad) == (expected, True, None)
    with pytest.raises(RuntimeError, match="changed in place"):
        kept.backward()
    (w * w).sum().backward()
    np.testing.assert_allclose(w.grad.tolist(), 2 * np.array(expected))


def test_data_is_a_tensor_off_the_graph(device):
    x = tt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device=device)
    y = (x * 2).data
    assert (type(y), y.requires_grad, y.device, y.tolist()) == (tt.Tensor, False, device, [[2.0, 4.0], [6.0, 8.0]])
    assert (x.data.topk(1)[0].tolist(), (x.data @ x.data).requires_grad) == ([[2.0], [4.0]], False)
    with pytest.raises(AttributeError, match=r"'mul_': tinytensor does without it; write x \*= y"):
        x.data.mul_(2)
    with pytest.raises(RuntimeError, match="leaf Tensor"):
        x.uniform_()
    x.data = x.data.T
    assert x.tolist() == [[1.0, 3.0], [2.0, 4.0]]


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
