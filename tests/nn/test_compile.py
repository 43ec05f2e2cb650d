"""`tt.compile`: the numbers of the function's own lines, and nothing that may change is taken for good."""

import copy
import pickle
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

pytest.importorskip("llvmlite")

rate = 0.5  # read by functions of this file
weight = tt.ones((3, 3))


def normal(*shape, seed=0, requires_grad=False):
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tt.tensor(numbers, requires_grad=requires_grad)


def leaves(found):
    return [found] if isinstance(found, tt.Tensor) else [x for each in found for x in leaves(each)]


def gradients_of(function, parameters, *inputs):
    """The results, and the gradients of the first one."""
    found = leaves(function(*inputs))
    total = tt.sum(found[0])
    return [*found, *tt.grad(total, parameters)]


def agree(function, parameters, *inputs, compiled=None, close=1e-5):
    """Compile a function, and compare its results and gradients with those of its lines."""
    compiled = tt.compile(function) if compiled is None else compiled
    for _ in range(2):
        tt.manual_seed(0)
        expected = gradients_of(function, parameters, *inputs)
        tt.manual_seed(0)
        found = gradients_of(compiled, parameters, *inputs)
        assert compiled.why_not is None
        for a, b in zip(found, expected, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=close, atol=close)
    return compiled


def same(compiled, *inputs):
    """Compare a call with the function's own lines; returns why it was computed by these, or None."""
    np.testing.assert_allclose(compiled(*inputs).numpy(), compiled.function(*inputs).numpy(), rtol=1e-5, atol=1e-5)
    return compiled.why_not


# ---- the numbers


class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads, self.maps, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", tt.tril(tt.ones((8, 8))))

    def forward(self, x):
        b, t, c = x.shape
        parts = tt.split(self.maps(x), 3, axis=2)
        q, k, v = (tt.permute_dims(tt.reshape(p, (b, t, self.heads, -1)), (0, 2, 1, 3)) for p in parts)
        scores = q @ k.mT / (c // self.heads) ** 0.5
        scores = tt.where(self.mask[:t, :t] == 0, -np.inf, scores)
        y = tt.permute_dims(F.softmax(scores, dim=-1) @ v, (0, 2, 1, 3))
        return self.out(tt.reshape(y, (b, t, c)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), nn.LayerNorm(16), nn.RMSNorm(16)
        self.network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 16))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 16), nn.Embedding(8, 16)
        self.blocks, self.out = nn.ModuleList([Block() for _ in range(2)]), nn.Linear(16, 11)

    def forward(self, ids):
        x = self.words(ids) + self.places(tt.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def test_a_language_model_written_by_hand():
    model = Language()
    ids, target = (tt.asarray(np.random.default_rng(i).integers(0, 11, (4, 8))) for i in range(2))

    def loss_of(ids, target):
        return F.cross_entropy(tt.reshape(model(ids), (-1, 11)), tt.reshape(target, (-1,)))

    agree(loss_of, list(model.parameters()), ids, target)


LAYERS = {
    "convolution": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2)), (2, 2, 8, 8)),
    "convolution and norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)),
        (2, 2, 8, 8),
    ),
    "lstm": (lambda: nn.LSTM(4, 5, batch_first=True), (2, 6, 4)),
    "gru cell": (lambda: nn.GRUCell(4, 5), (3, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Sigmoid()), (6, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]
    module = make()
    x = normal(*shape, requires_grad=True)
    inputs = (x, x, x) if name == "attention" else (x,)
    agree(module, [x, *module.parameters()], *inputs)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16])
def test_dtypes(dtype):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).to(dtype)
    agree(model, list(model.parameters()), tt.astype(normal(5, 4), dtype), close=1e-2 if dtype == tt.float16 else 1e-5)


def test_results_of_every_form_and_the_gradients_of_each():
    x = normal(3, 4, requires_grad=True)

    def function(x):
        return {"loss": tt.sum(x * x), "all": [tt.exp(x), (x + 1, 3, None)], "mean": tt.mean(x)}

    compiled = tt.compile(function)
    for _ in range(2):
        found, expected = compiled(x), function(x)
        assert found["all"][1][1:] == (3, None)
        for take in (lambda y: y["loss"], lambda y: y["all"][0].sum(), lambda y: y["mean"] + y["all"][1][0].sum()):
            (a,), (b,) = (tt.grad(take(y), [x], retain_graph=True) for y in (found, expected))
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    assert compiled.why_not is None


def test_gradients_of_slices_and_of_rows_that_overlap():
    table, ids = normal(6, 4, requires_grad=True), tt.asarray([[0, 5], [0, -1]])
    agree(lambda ids: (table[ids] ** 2).sum() + (table[ids[0]] ** 3).sum() + table[ids[:, 1]].sum(), [table], ids)
    agree(lambda: (table[:, :2] * table[:, 2:]).sum() + (table[1:4] ** 2).sum(), [table])
    agree(lambda: (table[:2] ** 2).sum() + (table[2:] ** 3).sum(), [table])


@pytest.mark.parametrize("is_single", [False, True], ids=["BLAS as it is", "BLAS on one thread"])
def test_the_same_bits_on_any_number_of_threads(is_single, monkeypatch):
    monkeypatch.setattr("tinytensor.fast.threads._blas_is_single", is_single)
    tt.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(300, 500), nn.GELU(), nn.LayerNorm(500), nn.Linear(500, 400)), normal(600, 300)
    former, found = tt.get_num_threads(), []
    compiled = tt.compile(model)
    try:
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            y = compiled(x)
            found.append([y.detach().numpy(), *[g.numpy() for g in tt.grad(tt.sum(y * y), list(model.parameters()))]])
    finally:
        tt.set_num_threads(former)
    assert compiled.why_not is None
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_result_shares_no_memory():
    x = normal(3, 4)
    compiled = tt.compile(lambda x: (x.reshape(4, 3) * 1.0, tt.reshape(x + 1, (-1,)), x + 1, x.T))
    first, second = compiled(x), compiled(x)
    arrays = [y._data for y in (*first, *second, x)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def test_gradients_of_gradients_by_the_lines():
    x, layer = normal(3, 3, requires_grad=True), nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh())

    def second(function):
        tt.manual_seed(3)
        (first,) = tt.grad(tt.sum(function(x)), [x], create_graph=True)
        return tt.grad(tt.sum(first * first), [x, *layer.parameters()], allow_unused=True)

    compiled = tt.compile(layer)
    for a, b in zip(second(compiled), second(layer)):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
    assert compiled.why_not is None


def test_twenty_steps_of_training():
    losses = {}
    for kind in (tt.compile, lambda f: f):
        tt.manual_seed(0)
        model = Language()
        step, optimizer = kind(model), nn.optim.AdamW(model.parameters(), lr=1e-2)
        ids = tt.asarray(np.random.default_rng(0).integers(0, 11, (4, 9)))
        losses[kind] = found = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.cross_entropy(tt.reshape(step(ids[:, :-1]), (-1, 11)), tt.reshape(ids[:, 1:], (-1,)))
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    np.testing.assert_allclose(*losses.values(), rtol=2e-3)


def test_running_statistics_move_and_an_older_graph_stays_good():
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other, x = copy.deepcopy(model), normal(6, 3)
    compiled = tt.compile(model)
    tt.sum(compiled(x) * compiled(x)).backward()
    tt.sum(other(x) * other(x)).backward()
    assert compiled.why_not is None
    for (name, a), (_, b) in zip(model.state_dict().items(), other.state_dict().items()):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    assert model[1].num_batches_tracked.item() == 2


# ---- what may change is a key or an input, never a constant


def test_a_global_number_and_a_global_tensor(monkeypatch):
    compiled, x = tt.compile(lambda x: tt.tanh(x @ weight) * rate), normal(2, 3)
    assert same(compiled, x) is None
    monkeypatch.setattr(f"{__name__}.rate", 0.7)
    assert same(compiled, x) is None
    weight.copy_(normal(3, 3))
    assert same(compiled, x) is None
    monkeypatch.setattr(f"{__name__}.weight", tt.zeros((3, 3)))
    assert same(compiled, x) is None


class Settings:
    scale = 2.0


def test_the_values_of_a_closure_of_attributes_lists_and_dictionaries():
    number, settings, table, matrices = 3.0, Settings(), {"shift": 1.0}, [normal(3, 3)]

    def function(x, power=2.0):
        return (x @ matrices[0] * number + table["shift"]) ** power * settings.scale

    compiled, x = tt.compile(function), normal(2, 3)
    assert same(compiled, x) is None
    number = 4.0
    assert same(compiled, x) is None
    settings.scale = 5.0
    assert same(compiled, x) is None
    Settings.scale, settings.__dict__ = 7.0, {}
    assert same(compiled, x) is None
    table["shift"] = 2.0
    assert same(compiled, x) is None
    matrices[0] = normal(3, 3, seed=1)
    assert same(compiled, x) is None
    function.__defaults__ = (3.0,)
    assert same(compiled, x) is None


def test_arguments_that_are_numbers():
    compiled, x = tt.compile(lambda x, lr, flag=False: x * lr if flag else x - lr), normal(2, 3)
    for arguments in ((1,), (1.0,), (True,), (0.5, True), (0.5,), (-0.0,), (0.0,)):
        assert same(compiled, x, *arguments) is None
    assert str(compiled(tt.zeros(1), -0.0, True).item()) == "-0.0"


def test_the_same_tensor_twice_is_another_call():
    compiled, x, y = tt.compile(lambda x, y: x * 2 + y), normal(2, 3), normal(2, 3, seed=1)
    assert same(compiled, x, x) is None
    assert same(compiled, x, y) is None


def test_modes_and_settings_of_modules():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), normal(4, 3)
    compiled = tt.compile(model)
    assert (compiled(x) == 0).any()
    model.eval()
    assert same(compiled, x) is None
    model.train()
    model[1].p = 1.0
    assert same(compiled, x) is None
    with tt.no_grad():
        assert not compiled(x).requires_grad
    model[0].weight.requires_grad = False
    tt.sum(compiled(x)).backward()
    assert (model[0].weight.grad, compiled.why_not) == (None, None)


def test_an_assigned_parameter_layer_and_method():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(3, 3)

        def act(self, x):
            return tt.tanh(x)

        def forward(self, x):
            return self.act(self.map(x))

    model, x = Layer(), normal(2, 3)
    compiled = tt.compile(model)
    assert same(compiled, x) is None
    model.map.weight = nn.Parameter(normal(3, 3, seed=5))
    assert same(compiled, x) is None
    model.map = nn.Linear(3, 3, bias=False)
    assert same(compiled, x) is None
    Layer.act = lambda self, x: x * 3
    assert same(compiled, x) is None
    model.act = lambda x: x * 4
    assert same(compiled, x) is None
    Layer.forward = lambda self, x: x + 1
    assert same(compiled, x) is None


def test_a_replaced_function_of_the_library(monkeypatch):
    compiled, x = tt.compile(lambda x: F.gelu(x)), normal(2, 3)
    assert same(compiled, x) is None
    monkeypatch.setattr(F, "gelu", lambda x: x * 5)
    np.testing.assert_array_equal(compiled(x).numpy(), (x * 5).numpy())


def test_functions_at_the_address_of_former_ones():
    class Scale(nn.Module):
        def forward(self, x):
            return self.act(x)

    model, x = Scale(), normal(2, 3)
    compiled = tt.compile(model)
    for factor in range(20):
        model.act = eval(f"lambda x: x * {factor}.0")
        np.testing.assert_array_equal(compiled(x).numpy(), (x * factor).numpy())


def test_an_edited_function():
    def function(x):
        return x * 2

    def edited(x):
        return x * 3

    compiled, x = tt.compile(function), normal(2, 3)
    assert same(compiled, x) is None
    function.__code__ = edited.__code__
    assert same(compiled, x) is None


def test_a_branch_is_checked_in_each_call():
    compiled = tt.compile(lambda x: x * 2 if tt.sum(x) > 0 else x * 3)
    assert same(compiled, tt.ones(3)) is None
    assert "branch" in same(compiled, -tt.ones(3))
    assert same(compiled, tt.ones(3)) is None


def test_random_numbers_after_another_branch_are_those_of_the_lines():
    def function(x):
        y = F.dropout(x, 0.5)
        return y if tt.sum(x) > 0 else -y

    compiled = tt.compile(function)
    for x in (tt.ones(9), -tt.ones(9)):
        found = []
        for f in (compiled, function):
            tt.manual_seed(1)
            found.append(f(x).numpy())
        np.testing.assert_array_equal(*found)


def test_an_id_out_of_range_is_an_error_in_a_later_call():
    table = nn.Embedding(5, 3)
    compiled = tt.compile(table)
    compiled(tt.asarray([0, 4]))
    with pytest.raises(IndexError, match="ids must be from 0 to 4, got 5"):
        compiled(tt.asarray([0, 5]))


# ---- by the function's own lines


def test_complex_numbers():
    x = tt.asarray([1 + 2j, 3 - 1j])
    x.requires_grad = True
    found = []
    for f in (tt.compile(lambda x: tt.sum(tt.abs(x * x))), lambda x: tt.sum(tt.abs(x * x))):
        found.append([y.detach().numpy() for y in (f(x), *tt.grad(f(x), [x]))])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-6)


REFUSED = {
    "item": (lambda x: x * tt.sum(x).item(), "asks for a number"),
    "a list": (lambda x: x * tt.asarray([1.0, 2.0, 3.0]), "array"),
    "a list as an index": (lambda x: x[:, [0, 2]], "makes a Tensor of a list"),
    "NumPy": (lambda x: x * tt.tensor(np.exp(np.ones(3, np.float32))), "array"),
    "random numbers": (lambda x: x + tt.random.normal((3,)), "random"),
    "shapes that depend on numbers": (lambda x: x[x > 0].sum() + x, "depends on numbers"),
    "an object": (lambda x: types.SimpleNamespace(x=x), "SimpleNamespace"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded(name):
    function, reason = REFUSED[name]
    compiled, x = tt.compile(function), normal(2, 3)
    for _ in range(2):
        tt.manual_seed(0)
        found = compiled(x)
        assert reason in compiled.why_not
        tt.manual_seed(0)
        if isinstance(found, tt.Tensor):
            np.testing.assert_array_equal(found.numpy(), function(x).numpy())


def test_why_not_names_file_and_line():
    def function(x):
        y = x * 2
        return y * y.sum().item()

    compiled = tt.compile(function)
    compiled(normal(2, 3))
    line = function.__code__.co_firstlineno + 2
    assert compiled.why_not.startswith(f"{__file__}:{line}: ")


def test_prints_are_repeated(capsys):
    def function(x):
        print("here")
        return x * 2

    compiled = tt.compile(function)
    for _ in range(3):
        compiled(normal(2, 3))
    assert capsys.readouterr().out == "here\n" * 3
    assert compiled.why_not.endswith("it calls print()")


def test_what_it_assigns_is_assigned_in_each_call_and_undone_after_recording():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.map, self.calls, self.seen = nn.Linear(3, 3), 0, []

        def forward(self, x):
            self.calls += 1
            self.seen.append(x)
            self.last = self.map(x)
            return self.last

    model = Counting()
    compiled = tt.compile(model)
    for n in range(100):
        compiled(normal(2, 3))
        assert (model.calls, len(model.seen)) == (n + 1, n + 1)
        assert isinstance(model.last._data, np.ndarray)


def test_an_error_is_that_of_the_lines():
    compiled = tt.compile(lambda x: x @ tt.ones((5, 5)))
    with pytest.raises(ValueError, match="matmul"):
        compiled(normal(2, 3))


def test_hooks_are_called():
    model, x, calls = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), normal(2, 3), []
    compiled = tt.compile(model)
    compiled(x)
    handle = model[0].register_forward_hook(lambda *call: calls.append(call))
    compiled(x)
    assert (len(calls), "hook" in compiled.why_not) == (1, True)
    handle.remove()
    assert same(compiled, x) is None
    seen = []
    model[0].weight.register_hook(lambda g: seen.append(g.shape))
    tt.sum(compiled(x)).backward()
    assert (seen, compiled.why_not) == ([(3, 3)], None)


def test_modes_in_which_each_op_is_seen():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), normal(2, 3)
    compiled = tt.compile(model)
    compiled(x)
    with tt.record():
        compiled(x)
        assert "recorded, watched or checked" in compiled.why_not
    with tt.detect_anomaly():
        compiled(x)
        assert compiled.why_not
    with tt.textbook():
        compiled(x)
        assert compiled.why_not
    with nn.cache(model) as cache:
        compiled(x)
    assert len(cache)
    with nn.intervene(model, {"0": lambda y: y * 0}):
        assert not compiled(x).numpy().any()
    assert same(compiled, x) is None


def test_backward_within_it_fills_gradients():
    layer, x = nn.Linear(3, 3), normal(2, 3)

    def step(x):
        loss = tt.sum(layer(x))
        loss.backward()
        return loss

    compiled = tt.compile(step)
    for n in (1, 2, 3):
        compiled(x)
        np.testing.assert_allclose(layer.bias.grad.numpy(), 2 * n)
    assert compiled.why_not is None


def test_without_llvm_the_lines_compute(monkeypatch):
    from tinytensor.fast.compiler import jit

    monkeypatch.setattr(jit, "can_compile", lambda: False)
    compiled = tt.compile(lambda x: x * 2)
    assert compiled(tt.ones(2)).tolist() == [2, 2]
    assert "llvmlite" in compiled.why_not


# ---- as a function, a module, a method


def test_it_is_what_it_was_given():
    model = nn.Linear(3, 3)
    compiled = tt.compile(model)
    assert list(compiled.parameters()) == list(model.parameters())
    assert compiled.in_features == 3
    assert repr(compiled).startswith("compile(Linear(")
    with pytest.raises(AttributeError, match="nothing"):
        _ = compiled.nothing
    with pytest.raises(TypeError, match="expected a function or a module, got a int"):
        tt.compile(3)
    compiled(normal(2, 3))
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert same(other, normal(2, 3)) is None
    assert tt.compile(agree).__name__ == "agree"


def test_a_method_of_each_object():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @tt.compile
        def scale(self, x):
            return x * self.factor

    two, three, x = Scale(2.0), Scale(3.0), normal(2, 3)
    for thing in (two, three, two):
        np.testing.assert_array_equal(thing.scale(x).numpy(), (x * thing.factor).numpy())
        assert thing.scale.why_not is None


def test_other_threads_use_the_model_meanwhile():
    model, x = Language().eval(), tt.asarray(np.random.default_rng(0).integers(0, 11, (2, 8)))
    with tt.no_grad():
        expected, wrong, ends = model(x).numpy(), [], threading.Event()

        def use():
            with tt.no_grad():
                while not ends.is_set():
                    try:
                        wrong.extend([] if np.allclose(model(x).numpy(), expected, atol=1e-4) else ["numbers"])
                    except Exception as error:
                        wrong.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        for _ in range(3):
            np.testing.assert_allclose(tt.compile(model)(x).numpy(), expected, rtol=1e-4, atol=1e-4)
        ends.set()
        thread.join()
    assert not wrong
    assert all(type(p) is nn.Parameter for p in model.parameters())


def test_columns_times_rows_are_products_of_numbers():
    a, b = normal(6, 5, 1), normal(6, 1, 7)
    a._data[0, 0], b._data[0, 0, :3] = -1.0, [0.0, -0.0, 2.0]
    compiled = tt.compile(lambda a, b: a @ b)
    found = compiled(a, b).numpy()
    assert "matmul" not in compiled.listing()
    np.testing.assert_array_equal(found, (a @ b).numpy())
    np.testing.assert_array_equal(np.signbit(found), np.signbit((a @ b).numpy()))


def test_a_sum_of_everything_goes_by_rows():
    x = normal(300, 200)
    compiled = tt.compile(lambda x: tt.sum(x * x))
    np.testing.assert_allclose(compiled(x).item(), tt.sum(x * x).item(), rtol=1e-6)
    assert compiled.listing().count("loop over") == 2


def test_the_listing_is_that_of_the_page():
    page = (Path(__file__).parents[2] / "docs/compile.md").read_text()
    compiled = tt.compile(lambda x: tt.sqrt(tt.sum(x * x)))
    assert compiled.listing() == ""
    compiled(tt.ones((4, 3)))
    assert f"```text\n{compiled.listing()}\n```" in page
    compiled(normal(4, 3, requires_grad=True))
    assert "backward:\n  loop over" in compiled.listing()


def test_a_compiled_function_within_another():
    inner = tt.compile(lambda x: tt.tanh(x) * 2)
    assert same(tt.compile(lambda x: inner(x) + 1), normal(2, 3)) is None
