"""`nn.utils.checkpoint`: the same numbers from less memory, and an error where the second call is not the first."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.nn.utils import checkpoint


def leaf(*shape, seed=0, device=None):
    values = np.random.default_rng(seed).normal(size=shape)
    return tt.tensor(values, dtype=tt.float64, device=device, requires_grad=True)


def layer(dropout=0.3, device=None):
    tt.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True, dtype=tt.float64, device=device)


def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def gradients(call, create_graph=False, device=None):
    """The gradients of a layer called twice, with dropout, for the input and all parameters."""
    model, x = layer(device=device), leaf(2, 5, 8, device=device)
    tt.manual_seed(1)
    out = call(model, call(model, x))
    wanted = [x, *model.parameters()]
    found = tt.grad((out**2).sum(), wanted, create_graph=create_graph)
    if not create_graph:
        return found
    return tt.grad(sum((g**2).sum() for g in found), wanted)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_are_the_same(create_graph, device):
    plain = gradients(lambda model, x: model(x), create_graph, device)
    same(gradients(checkpoint, create_graph, device), plain)


def test_calls_within_calls():
    def twice(model, x):
        return checkpoint(model, checkpoint(model, x))

    found = gradients(lambda model, x: checkpoint(twice, model, x))
    same(found, gradients(lambda model, x: model(model(x))))


def test_several_results_of_which_some_are_used():
    x = leaf(4)

    def function(x, *, scale):
        y = tt.exp(x) * scale
        return {"y": y, "both": (y * y, [tt.sin(y)])}

    plain, found = function(x, scale=2.0), checkpoint(function, x, scale=2.0)
    for pick in (lambda r: r["y"], lambda r: r["both"][0], lambda r: r["both"][1][0] * r["y"]):
        same(
            tt.grad(pick(found).sum(), [x], retain_graph=True),
            tt.grad(pick(plain).sum(), [x], retain_graph=True),
        )
    found["y"].sum().backward()
    with pytest.raises(RuntimeError, match="already used and freed"):
        found["both"][0].sum().backward()


def test_what_the_function_reads_from_outside_gets_its_gradient():
    x, weight = leaf(3), leaf(3, seed=1)
    outside = tt.exp(weight)
    out = checkpoint(lambda x: tt.sin(x * outside), x)
    same(tt.grad(out.sum(), [x, weight]), tt.grad(tt.sin(x * tt.exp(weight)).sum(), [x, weight]))


def test_random_numbers_go_on_as_without_it():
    x = leaf(50)
    drawn = []
    for call in (lambda f, x: f(x), checkpoint):
        tt.manual_seed(3)
        out = call(lambda x: F.dropout(x, 0.5), x)
        (g,) = tt.grad(out.sum(), [x])
        drawn.append((out, g, tt.random.randn(4)))
    same(drawn[1], drawn[0])


def test_without_the_generators_state_other_numbers_are_drawn():
    x = leaf(500)
    tt.manual_seed(3)
    out = checkpoint(lambda x: F.dropout(x, 0.5), x, preserve_rng_state=False)
    (g,) = tt.grad(out.sum(), [x])
    assert ((out.numpy() != 0) != (g.numpy() != 0)).any()


def test_hooks_see_the_gradient():
    x, seen = leaf(3), []

    def function(x):
        y = x * 2
        if not seen:
            y.register_hook(lambda g: seen.append(g.numpy()) or g * 10)
        return tt.exp(y)

    out = checkpoint(function, x)
    (g,) = tt.grad(out.sum(), [x])
    np.testing.assert_allclose(g.numpy(), 20 * np.exp(2 * x.detach().numpy()))
    assert len(seen) == 1


def test_nothing_is_recorded_where_gradients_are_off():
    with tt.no_grad():
        assert not checkpoint(tt.exp, leaf(3)).requires_grad
    assert not checkpoint(tt.exp, tt.ones(3)).requires_grad


def test_a_picture_shows_what_is_inside():
    x = leaf(3)
    with tt.record() as graph:
        checkpoint(lambda x: tt.exp(tt.sin(x)), x)
    assert [op.name for op in graph.ops] == ["sin", "exp"]
    program = str(tt.backward_program(checkpoint(lambda x: tt.exp(tt.sin(x)), x).sum()))
    assert "np.sin" in program


# ---- what must not happen between the two calls


def test_another_computation_is_an_error():
    x, flag = leaf(3), [True]
    out = checkpoint(lambda x: tt.exp(x) if flag[0] else tt.sin(x), x)
    flag[0] = False
    with pytest.raises(RuntimeError, match=r"second call of the function computed sin \(3,\), the first exp \(3,\)"):
        out.sum().backward()


def test_the_error_names_a_few_ops():
    x, flag = leaf(3), [True]
    out = checkpoint(lambda x: tt.exp(-(x * x) * 2 + x / 3) if flag[0] else x, x)
    flag[0] = False
    words = r"computed nothing, the first multiply \(3,\), negative \(3,\), multiply \(3,\), divide \(3,\) and 2 more;"
    with pytest.raises(RuntimeError, match=words):
        out.sum().backward()


@pytest.mark.parametrize("view", [False, True])
def test_a_parameter_that_was_changed_is_an_error(view):
    x, weight = leaf(3, 3), leaf(3, 3, seed=1)
    out = checkpoint(lambda x: x @ (weight.mT if view else weight), x)
    with tt.no_grad():
        weight *= 2
    with pytest.raises(RuntimeError, match=r"gave other numbers \(3, 3\) float64 than the first"):
        out.sum().backward()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("change", ["write", "data"])
def test_what_no_gradient_rule_keeps_is_watched_as_well(change, nested):
    x, b = leaf(2), tt.tensor([0.1, 0.2], dtype=tt.float64)

    def inner(x):
        return tt.tanh(x + b)

    out = checkpoint((lambda x: checkpoint(inner, x)) if nested else inner, x)
    if change == "write":
        b += 1
    else:
        b.data = tt.tensor([1.1, 1.2], dtype=tt.float64).data
    with pytest.raises(RuntimeError, match="gave other numbers"):
        out.sum().backward()


def test_tensors_may_be_moved_on_in_place():
    def branch(h):
        h += 1
        return tt.sin(h) * h

    found = []
    for call in (lambda f, h: f(wrapped(h)), checkpoint):
        x = leaf(4)
        h = x * 2
        h += call(branch, h)
        h *= 3
        found.append(tt.grad(h.sum(), [x]))
    same(found[1], found[0])


def wrapped(h):
    return h * 1.0


def test_memory_that_the_function_made_and_gave_back():
    def function(x):
        b = tt.zeros(3, dtype=tt.float64)
        b += 1.5
        return tt.tanh(x * b), b

    x = leaf(3)
    out, _ = checkpoint(function, x)
    same(tt.grad(out.sum(), [x]), tt.grad(function(x)[0].sum(), [x]))


def test_a_function_that_changes_its_argument_in_memory_is_an_error():
    x, count = leaf(3), tt.zeros(3, dtype=tt.float64)

    def function(x, count):
        count += 1
        return tt.sin(x * count)

    out = checkpoint(function, x, count)
    with pytest.raises(RuntimeError, match="gave other numbers"):
        out.sum().backward()


def test_mixed_precision_is_that_of_the_first_call():
    weight, x = (tt.tensor(np.ones((3, 3), np.float32), requires_grad=True) for _ in range(2))
    with nn.amp.autocast("cpu"):
        out = checkpoint(F.linear, x, weight)
    out.sum().backward()
    assert weight.grad.dtype == tt.float32


def test_attention_is_recorded_once():
    model = layer(dropout=0.0)
    x = leaf(2, 5, 8)
    with nn.record_attention() as attention:
        checkpoint(model, x).sum().backward()
    assert len(attention.calls) == 1


def test_pytorchs_argument():
    x = leaf(3)
    same([checkpoint(tt.sin, x, use_reentrant=False).detach()], [tt.sin(x).detach()])
    with pytest.raises(ValueError, match="use_reentrant=True is not supported"):
        checkpoint(tt.sin, x, use_reentrant=True)


def test_writes_to_other_memory_do_not_matter():
    x = leaf(3)
    out = checkpoint(lambda x: tt.exp(tt.sin(x)), x)
    for _ in range(100):
        other = tt.zeros(3)
        other += 1
        other[0] = 2
        del other
    expected = tt.grad(tt.exp(tt.sin(x)).sum(), [x])
    same(tt.grad(out.sum(), [x]), expected)


# ---- memory


def kept_bytes(call):
    x = tt.tensor(np.ones((256, 1024), dtype=np.float32), requires_grad=True)
    tracemalloc.start()
    out = x
    for _ in range(8):
        out = call(lambda x: tt.sin(tt.exp(tt.sin(x)) * 0.5), out)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    out.sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return kept, peak


@pytest.mark.usefixtures("no_pool")
def test_memory_is_that_of_the_results_and_one_call():
    kept_bytes(checkpoint)  # loads and compiles what the measured calls need
    kept, peak = kept_bytes(checkpoint)
    plain_kept, plain_peak = kept_bytes(lambda f, x: f(x))
    megabyte = 256 * 1024 * 4
    assert kept < 8.5 * megabyte < 24 * megabyte < plain_kept  # one array of each call against three
    assert peak < 16 * megabyte < plain_peak


def test_there_is_no_cycle():
    gc.collect()
    gc.disable()
    try:
        used, unused = (checkpoint(lambda x: tt.exp(tt.sin(x)), leaf(3)) for _ in range(2))
        residual = leaf(3) * 1
        residual += checkpoint(tt.sin, residual)
        nodes = [weakref.ref(out._node) for out in (used, unused, residual)]
        used.sum().backward()
        del used, unused, residual
        assert [node() for node in nodes] == [None] * 3
    finally:
        gc.enable()
