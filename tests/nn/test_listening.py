"""listening: a function's variables are told by their names, and what is put in their place goes on."""

import importlib.util
import math
import threading

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.models.language_model import LLAMA, LanguageModel
from tinytensor.nn.listening import listening

ATTENTION = F.attention.attention
MULTI_HEAD = F.attention.multi_head.__wrapped__


def normal(*shape, seed=0, device=None):
    return tt.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32), device=device)


def told(function, *functions):
    """The names that are told while a function runs, and its result."""
    found = []
    with listening(lambda of, name, value: found.append((of, name, getattr(value, "shape", value))), *functions):
        out = function()
    return found, out


def without(head):
    """A listener that takes a head's weights away."""

    def listen(function, name, value):
        if name == "weights":
            there = tt.arange(value.shape[1], device=value.device) != head
            return value * tt.astype(there[:, None, None], value.dtype)
        return None

    return listen


# ---- who is told what


def test_the_variables_of_attention_in_their_order(device):
    layer = nn.MultiheadAttention(6, 2, batch_first=True, device=device)
    x, y = normal(2, 3, 6, device=device), normal(2, 4, 6, seed=1, device=device)
    found, _ = told(lambda: layer(x, y, y), ATTENTION)
    assert found == [
        ("attention", "q", (2, 2, 3, 3)), ("attention", "k", (2, 2, 4, 3)), ("attention", "v", (2, 2, 4, 3)),
        ("attention", "mask", None), ("attention", "dropped", None), ("attention", "scale", 1 / math.sqrt(3)),
        ("attention", "scores", (2, 2, 3, 4)), ("attention", "weights", (2, 2, 3, 4)),
        ("attention", "kept", (2, 2, 3, 4)), ("attention", "z", (2, 2, 3, 3)),
    ]  # fmt: skip


def test_scores_are_told_once_with_the_mask_in_them():
    q, found = normal(1, 3, 4), []

    def listen(function, name, value):
        if name == "scores":
            found.append(np.isinf(value.numpy()[0]))

    with listening(listen, ATTENTION):
        F.scaled_dot_product_attention(q, q, q, is_causal=True)
    np.testing.assert_array_equal(found, [~np.tri(3, dtype=bool)])


def test_two_functions_at_once():
    x = normal(2, 3, 6)
    found, _ = told(lambda: nn.MultiheadAttention(6, 2)(x, x, x), MULTI_HEAD, ATTENTION)
    names = [f"{function}.{name}" for function, name, _ in found]
    assert names[:3] == ["multi_head.query", "multi_head.key", "multi_head.value"]
    assert names.index("multi_head.weights_of") < names.index("multi_head.q") < names.index("attention.q")


# ---- what it does not change


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_where_nothing_is_replaced_all_bits_stay(device, dropout):
    def run(listens):
        tt.manual_seed(0)
        layer = nn.MultiheadAttention(6, 2, dropout, batch_first=True, device=device)
        x = normal(2, 3, 6, device=device).requires_grad_()

        def both():
            return layer(x, x, x, need_weights=False)[0] + F.scaled_dot_product_attention(x, x, x, dropout_p=dropout)

        out = told(both, ATTENTION)[1] if listens else both()
        (out * out).sum().backward()
        return [out.detach(), x.grad, *[p.grad for p in layer.parameters()], tt.random.normal((3,))]

    for plain, heard in zip(run(False), run(True)):
        assert plain.numpy().tobytes() == heard.numpy().tobytes()


def test_the_functions_own_code_is_back_after_an_error():
    code, q = ATTENTION.__code__, normal(1, 3, 4)
    with pytest.raises(ZeroDivisionError), listening(lambda *told: 1 / 0, ATTENTION):
        F.scaled_dot_product_attention(q, q, q)
    assert ATTENTION.__code__ is code
    assert told(lambda: F.scaled_dot_product_attention(q, q, q), MULTI_HEAD)[0] == []


def test_another_thread_hears_and_changes_nothing():
    q, found = normal(1, 3, 4), []
    before = F.scaled_dot_product_attention(q, q, q).numpy()
    with listening(lambda function, name, value: 0 * value if name == "v" else None, ATTENTION):
        thread = threading.Thread(target=lambda: found.append(F.scaled_dot_product_attention(q, q, q).numpy()))
        thread.start()
        thread.join()
        heard = F.scaled_dot_product_attention(q, q, q).numpy()
    np.testing.assert_array_equal(found[0], before)
    assert not heard.any()


def test_a_picture_shows_none_of_it():
    """The lines and variables of a recording are those of the function, not of who computes it for the listener."""

    def lines_of(*functions):
        layer, x = nn.MultiheadAttention(6, 2, add_zero_attn=True), normal(4, 1, 6)
        with tt.textbook(), tt.record() as graph, listening(lambda *told: None, *functions):
            F.scaled_dot_product_attention(*[layer(x, x, x, need_weights=False)[0]] * 3)
        structure = graph.structure
        return [(op.name, op.origin) for op in structure.ops], [value.name for value in structure.values]

    found = lines_of(ATTENTION)
    assert found == lines_of()
    assert len(found[0]) > 20


# ---- what is put in their place


def test_weights_of_a_head_that_are_taken_away_are_gone_from_the_result_and_its_gradient(device):
    layer = nn.MultiheadAttention(6, 2, batch_first=True, device=device)
    x = normal(2, 3, 6, device=device)
    with listening(without(1), ATTENTION):
        out, weights = layer(x, x, x, average_attn_weights=False)
        out.sum().backward()
    weights = weights.numpy()
    assert weights[:, 0].all()
    assert not weights[:, 1].any()
    v = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).numpy()[..., 12:]
    heads = np.concatenate([weights[:, 0] @ v[..., :3], 0 * v[..., 3:]], axis=-1)
    expected = heads @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)
    of_v = layer.in_proj_weight.grad.numpy()[12:]
    assert of_v[:3].any()
    assert not of_v[3:].any()


@pytest.mark.parametrize("size", [(2, 3), (24, 48)])
def test_compiled_stacks_step_aside(loops, size):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2), normal(*size, 16)
    with listening(without(0), ATTENTION):
        found = model(x)
        with tt.textbook():
            expected = model(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)
    assert np.abs(found.numpy() - model(x).numpy()).max() > 1e-3


def test_each_step_of_decoding_is_told(loops):
    tt.manual_seed(0)
    model = LanguageModel(11, **{**LLAMA, "d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 16, "max_length": 9})
    prompt = np.array([[3, 4, 5]])
    found, ids = told(lambda: model.generate(prompt, 4), ATTENTION)
    shapes = [shape for _, name, shape in found if name == "weights"]
    assert shapes == [shape for length in (3, 4, 5, 6) for shape in [(1, 2, 3 if length == 3 else 1, length)] * 2]
    np.testing.assert_array_equal(ids.numpy(), model.generate(prompt, 4).numpy())


def test_a_compiled_step_is_told_each_time(device):
    layer, x = nn.MultiheadAttention(6, 2, device=device), normal(2, 3, 6, device=device)
    step = nn.compile_step(lambda x: (layer(x, x, x)[0] ** 2).sum(), layer)
    for _ in range(3):
        step(x)
    found, _ = told(lambda: [step(x) for _ in range(2)], ATTENTION)
    assert [name for _, name, _ in found].count("z") == 2


def test_of_two_listeners_the_inner_one_is_told_first():
    q, found = normal(1, 2, 4), []

    def outer(function, name, value):
        if name == "scale":
            found.append(value)

    with listening(outer, ATTENTION), listening(lambda of, name, value: 7.0 if name == "scale" else None, ATTENTION):
        out = F.scaled_dot_product_attention(q, q, q, scale=1.0)
    assert found == [7.0]
    np.testing.assert_allclose(out.numpy(), F.scaled_dot_product_attention(q, q, q, scale=7.0).numpy(), rtol=1e-5)


# ---- which text


MODULE = '''"""A module."""

import math as m


def twice(x, *, add=1):
    if x < 0:
        only = 1
    squares = [i * i for i in range(x)]
    total, (first, rest) = sum(squares), (x, add)
    total += 0
    if m.inf > total:
        total = total + rest
    squares[0] = 5
    return total + first
'''


def of_a_user(folder, text):
    file = folder / "of_a_user.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("of_a_user", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return file, module.twice


def test_a_function_of_a_user(tmp_path):
    _, twice = of_a_user(tmp_path, MODULE)
    found, out = told(lambda: twice(3), twice)
    assert found == [
        ("twice", "x", 3), ("twice", "add", 1), ("twice", "squares", [5, 1, 4]),
        ("twice", "first", 3), ("twice", "rest", 1), ("twice", "total", 6),
    ]  # fmt: skip
    assert out == twice(3) == 9


@pytest.mark.parametrize(
    "changed",
    [lambda text: text.replace("10", "11"), lambda text: "\n" + text, lambda text: "", lambda text: text[:90]],
)
def test_a_file_that_was_edited_since_is_refused(tmp_path, changed):
    file, twice = of_a_user(tmp_path, MODULE.replace("1", "10"))
    file.write_text(changed(MODULE.replace("1", "10")), encoding="utf-8")
    with pytest.raises(RuntimeError, match="twice: its variables cannot be told.*does not have the text that runs"):
        told(lambda: twice(3), twice)
    assert "__tell__" not in twice.__code__.co_names


def test_a_function_without_a_file_is_refused():
    names = {}
    exec("def nowhere(x):\n    return x", names)
    with pytest.raises(RuntimeError, match="nowhere: its variables cannot be told"):
        told(lambda: names["nowhere"](3), ATTENTION, names["nowhere"])
    assert ATTENTION.__code__.co_names.count("__tell__") == 0
