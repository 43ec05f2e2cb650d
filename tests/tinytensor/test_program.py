"""Printed programs give what the engine gives: every op, and whole layers."""

import io
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.program import backward_program, print_backward

from ..engine_room import room
from ..nn import op_samples  # noqa: F401  (registers the samples)
from .op_samples import SAMPLES


def run(program, **given):
    """Execute a program in an empty namespace; returns its outputs, as a list, and its gradients by name."""
    namespace = {"__name__": "program"}
    exec(compile(str(program), "<program>", "exec"), namespace)
    inputs = {name: given.get(name, array) for name, array in program.inputs.items()}
    outputs, gradients = namespace["forward_and_backward"](**inputs)
    return list(outputs) if isinstance(outputs, tuple) else [outputs], gradients


def check(function, *leaves, names=None):
    """Outputs and gradients of the program of `function()` against the engine's, to 1e-12 of their scale."""
    with tt.record():
        outs = function()
    outs = [outs] if isinstance(outs, tt.Tensor) else [out for out in outs if out._node is not None]
    names = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)} if names is None else names
    program = backward_program(outs, names=names)
    assert "tinytensor" not in str(program)
    assert "import tt" not in str(program)
    rng = np.random.default_rng(1)
    weights = [tt.Tensor(np.ones(o.shape) if o.size == 1 else rng.normal(size=o.shape)) for o in outs]
    unknown = [name for name, array in program.inputs.items() if array is None]
    given = dict(zip(unknown, [w.numpy() for o, w in zip(outs, weights) if o.size != 1], strict=True))
    found_outs, found = run(program, **given)
    for out, result in zip(outs, found_outs, strict=True):
        close(result, out.detach().numpy())
    expected = tt.grad(outs, leaves, weights, allow_unused=True)
    wanted = {name: g.numpy() for name, g in zip(names, expected, strict=True) if g is not None}
    assert found.keys() == wanted.keys()
    for name, g in wanted.items():
        close(found[name], g)
    return program, found


def close(found, expected):
    assert np.shape(found) == expected.shape
    assert np.asarray(found).dtype == expected.dtype
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * max(scale, 1e-2))


def differentiable():
    for name in sorted(SAMPLES):
        for i, sample in enumerate(SAMPLES[name]):
            places = sample.differentiable
            if places is None:
                places = [k for k, x in enumerate(sample.inputs) if hasattr(x, "dtype") and x.dtype.kind == "f"]
            if places:
                yield pytest.param(sample, places, id=f"{name}-{i}", marks=[pytest.mark.again] * (i > 0))


@pytest.mark.parametrize(("sample", "places"), list(differentiable()))
def test_every_op(sample, places):
    inputs = [
        tt.tensor(x, requires_grad=i in places) if hasattr(x, "dtype") else x for i, x in enumerate(sample.inputs)
    ]
    with tt.no_grad():
        probe = sample.function(*inputs, **sample.params)
    probe = probe if isinstance(probe, tt.Tensor) else probe[0]
    if probe.dtype.kind != "f":
        return
    check(lambda: sample.function(*inputs, **sample.params), *[inputs[i] for i in places])


# ---- whole layers


def layer_inputs(batch=2, target=4, source=5, d_model=8):
    rng = np.random.default_rng(0)
    x, memory = (tt.Tensor(rng.normal(size=(batch, n, d_model)), requires_grad=True) for n in (target, source))
    return x, memory, tt.asarray(np.arange(target) >= np.array([[target], [target - 1]]))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer(norm_first, activation, dropout):
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout, activation, batch_first=True, norm_first=norm_first, dtype=tt.float64
    )
    x, _, padding = layer_inputs()
    causal = nn.functional.causal_mask(4)
    names = {"src": x, **{name.replace(".", "_"): p for name, p in layer.named_parameters()}}
    check_named(lambda: tt.mean(tt.square(layer(x, causal, padding))), names)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_layer(norm_first):
    tt.random.manual_seed(0)
    layer = nn.TransformerDecoderLayer(8, 2, 16, 0.2, batch_first=True, norm_first=norm_first, dtype=tt.float64)
    x, memory, padding = layer_inputs()
    names = {"tgt": x, "memory": memory, **{name.replace(".", "_"): p for name, p in layer.named_parameters()}}
    check_named(lambda: layer(x, memory, nn.functional.causal_mask(4), tgt_key_padding_mask=padding), names)


def check_named(function, names):
    """As `check`, of leaves by name."""
    return check(function, *names.values(), names=names)


# ---- what the text is


def regression():
    rng = np.random.default_rng(0)
    x, y = tt.Tensor(rng.normal(size=(4, 3))), tt.Tensor(rng.normal(size=4))
    weight = tt.Tensor(rng.normal(size=(3, 1)), requires_grad=True)
    bias = tt.Tensor(np.array([0.5]), requires_grad=True)
    with tt.record():
        loss = tt.mean(tt.square((x @ weight + bias)[:, 0] - y))
    return loss, {"x": x, "y": y, "weight": weight, "bias": bias, "loss": loss}


def code(program):
    """The lines of a program without comments."""
    return [re.sub(r"(?<=\S) +# .*", "", line) for line in program.source.splitlines()]


def test_a_linear_regression_reads_as_one_would_write_it():
    loss, names = regression()
    lines = code(backward_program(loss, names=names))
    body = lines[lines.index("    # forward") :]
    assert body == [
        "    # forward",
        "    v1 = x @ weight",
        "    v2 = v1 + bias",
        "    v3 = v2[:, 0]",
        "    v4 = v3 - y",
        "    v5 = np.square(v4)",
        "    loss = np.mean(v5)",
        "",
        "    # backward",
        "    g_loss = np.ones_like(loss)",
        "    g_v5 = np.broadcast_to(g_loss * 0.25, (4,))",
        "    g_v4 = g_v5 * (2 * v4)",
        "    g_v3 = g_v4",
        "    g_v2 = scatter(g_v3, np.s_[:, 0], (4, 1))",
        "    g_bias = np.sum(g_v2, axis=0)",
        "    g_v1 = g_v2",
        "    g_weight = x.T @ g_v1",
        "",
        '    return loss, {"weight": g_weight, "bias": g_bias}',
    ]


def test_the_text_is_the_same_every_time():
    (first, a), (second, b) = regression(), regression()
    assert str(backward_program(first, names=a)) == str(backward_program(second, names=b))


def test_gradients_add_up_where_paths_join():
    x = tt.tensor([0.5, 1.5, 2.5], dtype=tt.float64, requires_grad=True)
    program, _ = check_named(lambda: tt.sum(tt.sin(x) * x + tt.exp(x) + x), {"x": x})
    assert sum(line.startswith("    g_x = ") for line in code(program)) > 1
    assert any(line.startswith("    g_x = g_x + ") for line in code(program))


def test_broadcasting_views_and_repeated_indices():
    rng = np.random.default_rng(0)
    x = tt.Tensor(rng.normal(size=(4, 3)), requires_grad=True)
    row = tt.Tensor(rng.normal(size=(1, 3)), requires_grad=True)
    column = tt.Tensor(rng.normal(size=(4, 1)), requires_grad=True)
    scale = tt.Tensor(np.float64(0.5), dtype=tt.float64, requires_grad=True)

    def function():
        y = x.T.reshape(2, 6).mT[::-1, None] * scale
        return tt.sum(x[[0, 2, 2, 0]] * row + column), y

    check_named(function, {"x": x, "row": row, "column": column, "scale": scale})


def test_names_are_valid_unique_and_hide_nothing():
    given = {name: tt.tensor([1.5, 2.5], dtype=tt.float64, requires_grad=True) for name in (
        "np", "lambda", "a.b", "a_b", "2x", "g_x", "x", "v1", "scatter", "forward_and_backward", "",
    )}  # fmt: skip
    with tt.record():
        out = tt.sum(sum((tt.exp(x) * x for x in given.values()), start=tt.asarray(0.0)))
    program = backward_program(out, names=given)
    assert all(name.isidentifier() for name in program.inputs)
    assert not {"np", "lambda"} & set(program.inputs)
    assert {"a_b", "g_x", "x", "v1"} <= set(program.inputs)
    _, gradients = run(program)
    assert len(gradients) == len(given)
    for gradient in gradients.values():
        close(gradient, np.exp([1.5, 2.5]) * np.array([2.5, 3.5]))


def test_a_saved_program_runs(tmp_path):
    for count in (3, 300):  # data within the text, and beside it
        x = tt.Tensor(np.linspace(0, 1, count), requires_grad=True)
        with tt.record():
            loss = tt.sum(tt.square(x))
        path = tmp_path / f"program{count}.py"
        backward_program(loss, names={"x": x}).save(path)
        result = subprocess.run(
            [sys.executable, "-W", "error", path.name], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.stderr == ""
        assert float(result.stdout.split()[0]) == pytest.approx(loss.item(), rel=1e-12)


def test_print_backward_prints_the_program():
    loss, names = regression()
    file = io.StringIO()
    print_backward(loss, names=names, file=file)
    assert file.getvalue() == f"{backward_program(loss, names=names)}\n"


# ---- what cannot be printed


def test_a_freed_graph():
    loss, names = regression()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"print_backward: the graph behind .* was already used and freed"):
        print_backward(loss, names=names)


def test_what_has_no_graph():
    with pytest.raises(ValueError, match="output 0 .* has no graph"):
        print_backward(tt.ones(3))
    with pytest.raises(TypeError, match="output 0 is a float; expected a Tensor"):
        print_backward([1.0])
    with pytest.raises(ValueError, match="at least one output"):
        print_backward([])


def test_a_constant_that_was_not_recorded():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"add \(2,\) does not keep its input 'x2'.*with tt.record"):
        print_backward(x + tt.ones(2))


def test_an_array_that_was_written_to():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = tt.square(x)
    with tt.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        print_backward(y)


def test_a_hook():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: 2 * g)
    with pytest.raises(RuntimeError, match="has a hook"):
        print_backward(tt.square(x))


def test_modes_and_fast_pairs_are_as_before():
    softmax = tt.ops["softmax"]
    fast_forward = softmax.fast_forward
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.no_grad():
        with tt.enable_grad():
            y = nn.functional.softmax(x)
        backward_program(y)
        assert not tt.is_grad_enabled()
    assert softmax.fast_forward is fast_forward
    assert (fast_forward is not None) == (room("nn.fast") is not None)


@pytest.mark.slow
def test_the_time_for_a_program_is_in_proportion_to_its_ops():
    """Eight times the ops in 8 times the time, or a little more; 64 times would be quadratic (it was: 14 s)."""

    def seconds(ops):
        x = tt.tensor([0.5, 0.25], requires_grad=True)
        with tt.record():
            y = x
            for _ in range(ops // 2):
                y = tt.sin(y) * x
        began = time.process_time()
        program = backward_program(y)
        spent = time.process_time() - began
        assert len(str(program).splitlines()) > 2 * ops
        return spent

    seconds(100)
    few = min(seconds(2_000) for _ in range(2))
    assert seconds(16_000) < 24 * few
