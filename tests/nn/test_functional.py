"""What the functions of `nn.functional` do at the edges of their domains; `test_ops.py` tests their gradients."""

import contextlib
import math
import threading

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

INF = math.inf


def leaf(values, device=None, dtype=tt.float64):
    return tt.tensor(values, dtype=dtype, device=device, requires_grad=True)


@pytest.fixture(autouse=True)
def nothing_overflows():
    """Warnings are errors in these tests; here they are, even where a caller has turned them off."""
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


# ---- softmax


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_softmax_of_large_logits(dtype, device):
    x = leaf([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, 0.0], [-1e4, 9999.0, 1e4]], device, dtype)
    out = F.softmax(x)
    third, e = 1 / 3, 1 / (1 + math.exp(-1))
    expected = [[1, 0, 0], [third] * 3, [0.5, 0.5, 0], [0, 1 - e, e]]
    np.testing.assert_allclose(out.numpy(), expected, rtol=4 * float(tt.finfo(dtype).eps), atol=0)
    assert out.dtype == dtype
    out[:, 0].sum().backward()
    assert x.grad[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(x.grad.numpy()[2], [0.25, -0.25, 0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_log_softmax_is_exact_where_softmax_underflows(dtype, device):
    x = leaf([[0.0, -1000.0], [-1000.0, 0.0], [1e4, -1e4], [1e4, 1e4]], device, dtype)
    out = F.log_softmax(x)
    assert out[:3].tolist() == [[0, -1000], [-1000, 0], [0, -2e4]]
    np.testing.assert_allclose(out[3].numpy(), [-math.log(2)] * 2, rtol=1e-3 if dtype == tt.float32 else 1e-12)
    out.backward(tt.asarray([[0.0, 1.0]] * 4, dtype=dtype, device=device))
    assert x.grad.tolist() == [[-1, 1], [0, 0], [-1, 1], [-0.5, 0.5]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_softmax_of_nothing_but_minus_infinity_is_zero(create_graph, device):
    x = leaf([[-INF, -INF, -INF], [-INF, 1.0, 2.0]], device)
    out = F.softmax(x)
    assert out[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(out[1].numpy(), [0, 1 / (1 + math.e), math.e / (1 + math.e)], rtol=1e-14)
    g = tt.grad(out, x, tt.asarray([[1.0, 2.0, 3.0]] * 2, dtype=tt.float64, device=device), create_graph=create_graph)
    p = 1 / (1 + math.e)
    assert g[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(g[1].numpy(), [0, -p * (1 - p), p * (1 - p)], rtol=1e-14)
    if create_graph:
        second = tt.grad(g.sum() + tt.square(g).sum(), x)
        assert tt.all(tt.isfinite(second))
        assert second[0].tolist() == [0, 0, 0]


def test_softmax_along_another_axis_is_that_of_the_transpose():
    x = leaf(np.random.default_rng(0).normal(size=(3, 4, 5)))
    for function in (F.softmax, F.log_softmax):
        for dim in (0, 1, -3):
            np.testing.assert_allclose(
                function(x, dim=dim).numpy(),
                tt.moveaxis(function(tt.moveaxis(x, dim, -1)), -1, dim).numpy(),
                rtol=1e-14,
            )
        with pytest.raises(IndexError):
            function(x, dim=3)
        with pytest.raises(ValueError, match="at least 1 dimension"):
            function(tt.tensor(1.0))


# ---- activations


def test_relu_at_zero_and_below():
    x = leaf([-1.0, 0.0, -0.0, 2.0])
    out = F.relu(x)
    assert out.tolist() == [0, 0, 0, 2]
    assert tt.grad(out.sum(), x).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("by_formula", [False, True])
def test_gelu_far_out_is_the_identity_or_zero(approximate, dtype, by_formula, device):
    x = leaf([-(2.0**100), -1e4, -50.0, 0.0, 50.0, 1e4, 2.0**100], device, dtype)
    with tt.textbook() if by_formula else contextlib.nullcontext(), np.errstate(over="ignore"):  # of squares
        out = F.gelu(x, approximate)
        assert out.tolist() == [0, 0, 0, 0, 50, 1e4, 2.0**100]
        assert tt.grad(out.sum(), x).tolist() == [0, 0, 0, 0.5, 1, 1, 1]


def test_gelu_knows_two_ways():
    with pytest.raises(ValueError, match="approximate must be 'none' or 'tanh', got 'sigmoid'"):
        F.gelu(tt.ones(2), approximate="sigmoid")


@pytest.mark.parametrize("function", [F.relu, F.gelu, F.tanh, F.sigmoid, lambda x: F.gelu(x, "tanh")])
def test_activations_of_a_number_without_dimensions(function, device):
    x = leaf(0.5, device)
    one = leaf([0.5], device)
    out = function(x)
    assert out.shape == ()
    assert out.item() == function(one).item()
    g = tt.grad(out, x)
    assert g.shape == ()
    assert g.item() == pytest.approx(tt.grad(function(one), one).item(), rel=1e-15)


# ---- linear and embedding


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 3), (5, 4), None], r"linear: input \(2, 3\) and weight \(5, 4\) do not agree in in_features"),
        ([(2, 3), (5, 3), (4,)], r"linear: weight \(5, 3\) and bias \(4,\) do not agree in out_features"),
        ([(2, 3), (5, 3), (1, 5)], r"bias \(1, 5\)"),
        ([(), (5, 3), None], r"input \(\)"),
        ([(3,), (3,), None], r"weight \(3,\)"),
    ],
)
def test_linear_names_the_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(ValueError, match=message):
        F.linear(*(None if shape is None else tt.ones(shape) for shape in shapes))


@pytest.mark.parametrize("ids", [[0, 4], [-1], [[0], [100]], [2**40]])
def test_ids_out_of_range_raise_on_every_device(ids, device):
    weight = leaf(np.ones((4, 2)), device)
    for wrong in (ids, tt.asarray(ids, device=device)):
        with pytest.raises(IndexError, match="embedding: ids must be from 0 to 3, got "):
            F.embedding(wrong, weight).detach().numpy()
    F.embedding(np.array([0, 3]), weight).detach().numpy()  # what was told of is forgotten


def test_ids_must_be_integers(device):
    weight = leaf(np.ones((4, 2)), device)
    for wrong in ([0.0], [True], np.array([1 + 0j])):
        with pytest.raises(TypeError, match="embedding: ids must be integers, got "):
            F.embedding(wrong, weight)
    with pytest.raises(ValueError, match=r"must be \(num_embeddings, embedding_dim\), got shape \(2, 2, 2\)"):
        F.embedding([0], tt.ones((2, 2, 2)))
    for padding_idx in (4, -5):
        with pytest.raises(IndexError, match=f"padding_idx {padding_idx} is out of range for 4 rows"):
            F.embedding([0], weight, padding_idx=padding_idx)


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "uint64"])
def test_ids_of_every_integer_dtype(kind, device):
    weight = leaf(np.arange(8.0).reshape(4, 2), device)
    out = F.embedding(tt.asarray(np.array([3, 0, 3], dtype=kind), device=device), weight)
    assert out.tolist() == [[6, 7], [0, 1], [6, 7]]
    out.sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [2, 2]]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("padding_idx", [1, -3])
def test_the_padding_row_learns_nothing(padding_idx, create_graph, device):
    weight = leaf(np.arange(8.0).reshape(4, 2), device)
    out = F.embedding([[0, 1], [1, 3]], weight, padding_idx=padding_idx)
    assert out.tolist() == [[[0, 1], [2, 3]], [[2, 3], [6, 7]]]
    g = tt.grad(tt.square(out).sum(), weight, create_graph=create_graph)
    assert g.tolist() == [[0, 2], [0, 0], [0, 0], [12, 14]]
    if create_graph:
        assert tt.grad(g.sum(), weight).tolist() == [[2, 2], [0, 0], [0, 0], [2, 2]]


# ---- layer norm


def test_layer_norm_takes_two_passes(device):
    """At mean 10,000 a variance from squares would have no right digit in float32."""
    noise = np.random.default_rng(0).normal(size=(50, 64))
    values = (noise + 10_000).astype(np.float32)
    exact = values.astype(np.float64)
    exact = (exact - exact.mean(axis=1, keepdims=True)) / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5)
    out = F.layer_norm(tt.asarray(values, device=device), 64)
    np.testing.assert_allclose(out.numpy(), exact, rtol=0, atol=0.002)


def test_layer_norm_of_a_constant_row(device):
    x = leaf(np.full((2, 4), 3.0), device)
    out = F.layer_norm(x, 4, bias=tt.full((4,), 2.0, dtype=tt.float64, device=device))
    assert out.tolist() == [[2] * 4] * 2
    assert tt.all(tt.isfinite(tt.grad(tt.square(out).sum(), x)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, 3), 4), r"layer_norm: input \(2, 3\) does not end in normalized_shape \(4,\)"),
        (((3,), (2, 3)), r"does not end in normalized_shape \(2, 3\)"),
        (((2, 3), ()), r"normalized_shape \(\)"),
        (((2, 3), 3, (2,)), r"layer_norm: weight \(2,\) is not of normalized_shape \(3,\)"),
        (((2, 3), 3, (3,), (1, 3)), r"layer_norm: bias \(1, 3\) is not of normalized_shape \(3,\)"),
    ],
)
def test_layer_norm_names_the_shapes_that_do_not_fit(arguments, message):
    shape, normalized_shape, *others = arguments
    with pytest.raises(ValueError, match=message):
        F.layer_norm(tt.ones(shape), normalized_shape, *(tt.ones(o) for o in others))


# ---- dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(p, device):
    tt.random.manual_seed(0)
    x = leaf(np.ones(40_000), device)
    out = F.dropout(x, p)
    dropped = (out.numpy() == 0).mean()
    assert abs(dropped - p) < 5 * math.sqrt(p * (1 - p) / x.size)
    np.testing.assert_allclose(np.unique(out.numpy()), [0, 1 / (1 - p)], rtol=1e-15)
    g = tt.grad(out, x, tt.full_like(out, 3.0))
    np.testing.assert_allclose(g.numpy(), out.numpy() * 3, rtol=1e-15)


def test_dropout_of_nothing_and_of_everything(device):
    x = leaf([1.0, -2.0], device)
    assert set(F.dropout(tt.ones(100, device=device)).tolist()) == {0, 2}
    assert F.dropout(x, 0.5, training=False) is x
    assert F.dropout(x, 0.0) is x
    out = F.dropout(x, 1.0)
    assert out.tolist() == [0, 0]
    assert tt.grad(out.sum(), x).tolist() == [0, 0]
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="the probability must be from 0 to 1"):
            F.dropout(x, p, training=False)


def test_dropout_from_a_generator_of_ones_own():
    x = tt.ones((100,))
    state = tt.random.get_state()
    first, again = (F.dropout(x, 0.5, generator=tt.random.Generator(7)) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert tt.random.get_state() == state
    assert F.dropout(x, 0.5, generator=tt.random.Generator(8)).tolist() != first.tolist()


# ---- the same everywhere

MAKERS = {
    "relu": lambda x: F.relu(x),
    "gelu": lambda x: F.gelu(x),
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "softmax": lambda x: F.softmax(x, dim=0),
    "log_softmax": lambda x: F.log_softmax(x),
    "linear": lambda x: F.linear(x, x, x[:, 0]),
    "embedding": lambda x: F.embedding([0, 1, 1], x, padding_idx=0),
    "layer_norm": lambda x: F.layer_norm(x, 4, x[0], x[1]),
    "dropout": lambda x: F.dropout(x, 0.3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.2, is_causal=True),
    "attention_mask": lambda x: F.scaled_dot_product_attention(x, x, x, x[:, :3]),
    "cross_entropy": lambda x: F.cross_entropy(x, [0, 1, -100], label_smoothing=0.1),
    "cross_entropy_weight": lambda x: F.cross_entropy(x, [0, 1, 3], x[0].detach() ** 2, reduction="none"),
    "soft_cross_entropy": lambda x: F.cross_entropy(x, F.softmax(x), label_smoothing=0.1),
    "nll_loss": lambda x: F.nll_loss(x, [0, 1, -100]),
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, F.sigmoid(x), pos_weight=x[0] ** 2),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_float32_stays_float32(name, create_graph, device):
    x = leaf(np.random.default_rng(0).normal(size=(3, 4)), device, tt.float32)
    out = MAKERS[name](x)
    assert (out.dtype, out.device) == (tt.float32, device)
    g = tt.grad(out.sum(), x, create_graph=create_graph)
    assert (g.dtype, g.shape, g.device) == (tt.float32, (3, 4), device)
    if g.requires_grad:
        second = tt.grad(tt.square(g).sum(), x)
        assert (second.dtype, second.shape, second.device) == (tt.float32, (3, 4), device)


@pytest.mark.parametrize(
    "name",
    ["softmax", "log_softmax", "layer_norm", "cross_entropy", "smoothed", "attention", "causal", "masked", "heads"],
)
def test_large_inputs_are_computed_in_parts(name, device):
    """Large enough to be divided among threads, and of uneven length: each part as it is alone."""
    rows = 37 if name in ("attention", "causal", "masked", "heads") else 4099
    x = leaf(np.random.default_rng(0).normal(size=(rows, 64, 32) if rows == 37 else (rows, 64)), device)
    target = np.random.default_rng(1).integers(0, 64, size=rows)
    target[::5] = -100
    bias = tt.asarray(np.random.default_rng(2).normal(size=(rows, 1, 64)), device=device)
    weight = tt.asarray(np.random.default_rng(3).normal(size=(96, 32)), device=device)
    functions = {
        "softmax": lambda x, i: F.softmax(x),
        "log_softmax": lambda x, i: F.log_softmax(x),
        "layer_norm": lambda x, i: F.layer_norm(x, 64),
        "cross_entropy": lambda x, i: F.cross_entropy(x, target[i], reduction="none"),
        "smoothed": lambda x, i: F.cross_entropy(x, target[i], label_smoothing=0.1, reduction="none"),
        "attention": lambda x, i: F.scaled_dot_product_attention(x, x, x),
        "causal": lambda x, i: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        "masked": lambda x, i: F.scaled_dot_product_attention(x, x, x, bias[i]),
        "heads": lambda x, i: F.multi_head_attention_forward(
            x, x, x, 4, weight, None, 0.0, weight[:32], None, key_padding_mask=bias[i, 0] > 0, need_weights=False
        )[0],
    }
    out = functions[name](x, slice(None))
    g = tt.asarray(np.random.default_rng(4).normal(size=out.shape), device=device)
    gradient = tt.grad(out, x, g)
    for i in (slice(0, 3), slice(rows // 2, rows // 2 + 2), slice(rows - 3, rows)):
        part = x[i].detach().requires_grad_()
        alone = functions[name](part, i)
        np.testing.assert_allclose(out[i].numpy(), alone.numpy(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(gradient[i].numpy(), tt.grad(alone, part, g[i]).numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in MAKERS if "dropout" not in name and name != "attention"])
def test_four_threads_compute_what_one_does(name):
    """Buffers that are used again must not be shared (those left out draw from the one default generator)."""

    def work(i):
        results = []
        for _ in range(20):
            x = leaf(np.random.default_rng(i).normal(size=(3, 4)))
            out = MAKERS[name](x)
            out.backward(tt.ones_like(out))
            results.append((out.numpy().tobytes(), x.grad.numpy().tobytes()))
        found[i] = results

    found: dict[int, list] = {}
    for i in range(4):
        work(i)
    expected, found = found, {}
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    assert all(len(set(results)) == 1 for results in expected.values())


def test_mixed_devices_name_both(request):
    if request.config.getoption("--device") == "cpu":
        pytest.skip("needs a second device")
    rng = np.random.default_rng(0)
    here, there = (tt.tensor(rng.normal(size=(3, 4)), device=d, requires_grad=True) for d in ("cpu", "gpu"))
    ids = {d: tt.asarray([0, 1, 2], device=d) for d in ("cpu", "gpu")}
    mask = tt.ones((3, 3), dtype=tt.bool, device="gpu")
    calls = {
        "linear": lambda: F.linear(here, there),
        "bias": lambda: F.linear(here, here, there[0, :3]),
        "layer_norm": lambda: F.layer_norm(here, 4, there[0]),
        "query": lambda: F.scaled_dot_product_attention(there, here, here),
        "mask": lambda: F.scaled_dot_product_attention(here, here, here, mask),
        "embedding": lambda: F.embedding(ids["gpu"], here),
        "cross_entropy": lambda: F.cross_entropy(here, ids["gpu"]),
        "class weights": lambda: F.cross_entropy(here, ids["cpu"], there[0].detach()),
        "probabilities": lambda: F.cross_entropy(here, F.softmax(there)),
        "nll_loss": lambda: F.nll_loss(there, ids["cpu"]),
        "mse_loss": lambda: F.mse_loss(here, there),
        "bce": lambda: F.binary_cross_entropy_with_logits(here, F.sigmoid(there)),
        "module": lambda: nn.Linear(4, 2)(there),
    }
    silent = []
    for name, call in calls.items():
        try:
            call()
            silent.append(name)
        except tt.DeviceError as error:
            text = str(error)
            assert "cpu" in text, name
            assert "gpu" in text, name
    assert not silent, f"computed from two devices without an error: {', '.join(silent)}"


def test_relu_of_what_is_not_finite():
    x = tt.tensor([math.nan, -math.inf, math.inf, -1.0], requires_grad=True)
    out = F.relu(x)
    np.testing.assert_array_equal(out.numpy(), [math.nan, 0, math.inf, 0])
    g = tt.tensor([1.0, math.inf, math.nan, math.nan])
    np.testing.assert_array_equal(tt.grad(out, x, g, retain_graph=True).numpy(), [1, 0, math.nan, 0])
    np.testing.assert_array_equal(tt.grad(out, x, g, create_graph=True).detach().numpy(), [1, 0, math.nan, 0])


def test_linear_takes_lists():
    assert F.linear([[1.0, 2.0]], tt.ones((3, 2))).tolist() == [[3, 3, 3]]


def test_the_function_is_named_in_errors():
    with pytest.raises(ValueError, match="^log_softmax: expected at least 1 dimension"):
        F.log_softmax(tt.tensor(1.0))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_a_dim_out_of_range_is_named_as_it_was_written(function, device):
    name = function.__name__
    for x in (tt.ones((2, 3), device=device), np.ones((2, 3)), [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]):
        for dim in (5, 2, -3):
            with pytest.raises(IndexError, match=rf"^{name}: dim {dim} is out of range for an input of shape \(2, 3\)"):
                function(x, dim=dim)
    for dim in (1.0, None, "1", (0, 1)):
        with pytest.raises(TypeError, match=f"^{name}: dim must be an integer, got "):
            function(tt.ones((2, 3)), dim=dim)
    for dim in (0, -2):
        assert function(tt.ones((2, 3)), dim=np.int64(dim)).tolist() == function(tt.ones((2, 3)), dim=0).tolist()


# ---- the likeliest classes


def test_log_softmax_topk(device):
    x = leaf([[1.0, 2.0, 3.0, 2.0], [0.0, 0.0, 5.0, 0.0]], device)
    values, ids = F.log_softmax_topk(x, 3)
    assert ids.tolist() == [[2, 1, 3], [2, 0, 1]]
    expected = np.take_along_axis(F.log_softmax(x).detach().numpy(), ids.numpy(), axis=1)
    np.testing.assert_allclose(values.detach().numpy(), expected, rtol=1e-13)
    values, ids = F.log_softmax_topk(x.detach(), 4, excluded=2)
    assert ids[:, :3].tolist() == [[1, 3, 0], [0, 1, 3]]
    assert values[:, 3].tolist() == [-INF, -INF]
    assert F.log_softmax_topk(x, 0)[0].shape == (2, 0)


def test_log_softmax_topk_has_a_gradient():
    x = leaf([[1.0, 2.0, 3.0, 2.0]])
    g = tt.grad(F.log_softmax_topk(x, 1)[0].sum(), x)
    np.testing.assert_allclose(g.numpy(), np.array([[0.0, 0, 1, 0]]) - F.softmax(x).detach().numpy(), rtol=1e-12)


def test_log_softmax_topk_names_what_is_out_of_range():
    for k in (-1, 5):
        with pytest.raises(ValueError, match=f"topk: k must be from 0 to 4, the number of classes, got {k}"):
            F.log_softmax_topk(tt.ones((2, 4)), k)
    for excluded in (-1, 4):
        with pytest.raises(IndexError, match=f"log_softmax_topk: excluded must be from 0 to 3, got {excluded}"):
            F.log_softmax_topk(tt.ones((2, 4)), 1, excluded=excluded)
    with pytest.raises(ValueError, match="log_softmax_topk: expected at least 1 dimension"):
        F.log_softmax_topk(1.0, 1)


# ---- 16 bits


@pytest.mark.parametrize("by_formula", [False, True])
def test_layer_norm_of_large_16_bit_numbers(by_formula, device):
    values = np.array([[-300.0, 300.0, 280.0, 0.0], [3000.0, -2000.0, 10.0, 7.0]])
    x = tt.tensor(values, dtype=tt.float16, device=device, requires_grad=True)
    wide = tt.tensor(values, dtype=tt.float64, requires_grad=True)
    weights = tt.tensor([[1.0, -2.0, 0.5, 3.0]])
    with tt.textbook() if by_formula else contextlib.nullcontext():
        found, exact = F.layer_norm(x, (4,)), F.layer_norm(wide, (4,))
        (g,), (g_exact,) = (
            tt.grad(out, [leaf], tt.broadcast_to(weights, (2, 4)).to(out.device).astype(out.dtype))
            for out, leaf in ((found, x), (exact, wide))
        )
    assert found.dtype == g.dtype == tt.float16
    np.testing.assert_allclose(found.tolist(), exact.tolist(), atol=2e-3)
    np.testing.assert_allclose(g.tolist(), g_exact.tolist(), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("by_formula", [False, True])
def test_gelu_of_large_16_bit_numbers(by_formula, device):
    x = tt.tensor([-1000.0, -200.0, 200.0, 60000.0], dtype=tt.float16, device=device, requires_grad=True)
    with tt.textbook() if by_formula else contextlib.nullcontext():
        out = F.gelu(x, approximate="tanh")
        (g,) = tt.grad(out, [x], tt.ones_like(out))
    assert out.tolist() == [0, 0, 200, 60000]
    assert g.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("by_formula", [False, True])
def test_attention_of_large_16_bit_numbers(by_formula, device):
    """The products of queries and keys are beyond what 16 bits hold; scaled, they are not."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(1, 2, 5, 64)) * scale for scale in (70.0, 70.0, 1.0)]
    narrow = [tt.tensor(v, dtype=tt.float16, device=device, requires_grad=True) for v in values]
    wide = [tt.tensor(x.tolist(), dtype=tt.float64, requires_grad=True) for x in narrow]
    with tt.textbook() if by_formula else contextlib.nullcontext():
        found, exact = F.scaled_dot_product_attention(*narrow), F.scaled_dot_product_attention(*wide)
        gradients, g_exact = (tt.grad(out, xs, tt.ones_like(out)) for out, xs in ((found, narrow), (exact, wide)))
    np.testing.assert_allclose(found.tolist(), exact.tolist(), atol=5e-3)
    for g, wanted in zip(gradients, g_exact):
        np.testing.assert_allclose(g.tolist(), wanted.tolist(), atol=5e-2)
