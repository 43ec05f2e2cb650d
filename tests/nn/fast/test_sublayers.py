"""Stacks of sub-layers in compiled loops: the numbers of the modules' own way, gone where anything is unusual."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.fast import texts, threads
from tinytensor.fast.hashed import Dropping
from tinytensor.nn.fast import sublayers

from .test_pairs import ops_behind

pytest.importorskip("numba")
D, INNER, HEADS, BATCH, TARGET, SOURCE = 8, 12, 2, 3, 5, 7
CAUSAL = np.triu(np.ones((TARGET, TARGET), bool), 1)
PADDING = np.arange(SOURCE) >= np.array([SOURCE, 2, 0])[:, None]  # the last sentence is nothing but padding


@pytest.fixture(autouse=True)
def in_loops(monkeypatch, loops):
    monkeypatch.setattr(threads, "_blas_is_single", True)


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def decoder_layer(dtype=np.float64, kind=nn.TransformerDecoderLayer, **options):
    tt.manual_seed(1)
    layer = kind(D, HEADS, INNER, **{"dropout": 0.0, "batch_first": True, "dtype": dtype, **options})
    with tt.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter += tt.asarray(normal(*parameter.shape, seed=i, dtype=dtype) * 0.3)
    return layer


def is_fused(out):
    return "through" in ops_behind(out)


def inputs(dtype=np.float64, batch=BATCH):
    shapes = ((batch, TARGET, D), (batch, SOURCE, D))
    return [tt.tensor(normal(*shape, seed=i, dtype=dtype), requires_grad=True) for i, shape in enumerate(shapes)]


def outcome(layer, masks, dtype=np.float64, batch=BATCH):
    """The result and all first derivatives, as arrays."""
    leaves = inputs(dtype, batch)
    out = layer(*leaves, **{name: tt.asarray(mask) for name, mask in masks.items()})
    wanted = [*leaves, *layer.parameters()]
    gradients = tt.grad(out, wanted, tt.asarray(normal(*out.shape, seed=9, dtype=dtype)))
    return [x.detach().numpy() for x in (out, *gradients)]


MASKS = {
    "none": {},
    "causal": {"tgt_mask": CAUSAL},
    "padding": {"memory_key_padding_mask": PADDING, "tgt_key_padding_mask": PADDING[:, :TARGET], "tgt_mask": CAUSAL},
    "added": {"memory_mask": normal(TARGET, SOURCE), "tgt_mask": np.where(CAUSAL, -np.inf, 0.0)},
    "of each head": {"memory_mask": normal(BATCH * HEADS, TARGET, SOURCE) > 0.5},
}


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"norm_first": True}, {"activation": "gelu"}])
@pytest.mark.parametrize("name", MASKS)
def test_a_layer_gives_the_formulas_numbers(name, options):
    layer = decoder_layer(**options)
    assert is_fused(layer(*inputs(), **{k: tt.asarray(mask) for k, mask in MASKS[name].items()}))
    found = outcome(layer, MASKS[name])
    with tt.textbook():
        expected = outcome(layer, MASKS[name])
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("activation", sublayers.ACTIVATIONS, ids=sublayers.ACTIVATIONS.values())
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_each_activation_that_loops_know(activation, dropout):
    """Result and gradients, both derivatives of them: the second are the formula's, with the same dropout."""
    layer, leaves = decoder_layer(activation=activation, dropout=dropout), inputs()
    out = layer(*leaves)
    assert is_fused(out)
    g, wanted = tt.asarray(normal(*out.shape, seed=9)), [*leaves, *layer.parameters()]
    found = tt.grad(out, wanted, g, retain_graph=True)
    for a, b in zip(found, tt.grad(out, wanted, g, create_graph=True)):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)
    layer.eval()
    with tt.textbook():
        expected = layer(*leaves).detach().numpy()
    np.testing.assert_allclose(layer(*leaves).detach().numpy(), expected, rtol=1e-10, atol=1e-10)
    module, name = activation.__module__.partition(".")[2], activation.__qualname__
    for way in ("sub-layers", "stacks of Transformer layers", "steps of decoding"):
        assert f"{module}:{name}" in texts.ways[way].roots


def test_an_encoder_layer_in_float32():
    layer = decoder_layer(np.float32, nn.TransformerEncoderLayer)

    def call():
        x = inputs(np.float32)[1]
        out = layer(x, src_key_padding_mask=tt.asarray(PADDING))
        return out, tt.grad(out, [x, *layer.parameters()], tt.asarray(normal(*out.shape, seed=9, dtype=np.float32)))

    assert is_fused(layer(inputs(np.float32)[1]))
    out, gradients = call()
    with tt.textbook():
        expected, by_formula = call()
    for a, b in zip([out.detach(), *gradients], [expected.detach(), *by_formula]):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"batch_first": False}])
def test_stacks_are_one_op_each(options):
    tt.manual_seed(2)
    model = nn.Transformer(D, HEADS, 2, 3, INNER, dropout=0.0, dtype=np.float64, **{"batch_first": True, **options})
    padding = tt.asarray(PADDING)

    def call():
        y, x = inputs()
        if not model.batch_first:
            x, y = (a.swapaxes(0, 1) for a in (x, y))
        out = model(x, y, tgt_mask=tt.asarray(CAUSAL), src_key_padding_mask=padding, memory_key_padding_mask=padding)
        ops = ops_behind(out)
        return [a.detach().numpy() for a in (out, *tt.grad((out**3).sum(), [*model.parameters()]))], ops

    found, ops = call()
    assert "through" in ops
    assert ops.isdisjoint({"layer_norm", "add", "linear", "multi_head"})
    with tt.textbook():
        expected, _ = call()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_a_stack_with_an_unusual_layer_fuses_the_others():
    encoder = nn.TransformerEncoder(
        decoder_layer(kind=nn.TransformerEncoderLayer), 3, nn.LayerNorm(D, dtype=np.float64)
    )
    x = inputs()[1]
    assert "linear" not in ops_behind(encoder(x))
    hooked(encoder.layers[1])
    expected = encoder(x)
    assert {"through", "linear"} <= ops_behind(expected)
    encoder.layers[1].self_attn._forward_hooks.clear()
    np.testing.assert_allclose(encoder(x).numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("options", [{"norm_first": True}, {}, {"activation": "gelu"}])
def test_dropout_is_that_of_the_formula_with_the_same_masks(options):
    layer, leaves = decoder_layer(dropout=0.3, **options), inputs()
    out = layer(*leaves, memory_key_padding_mask=tt.asarray(PADDING))
    assert is_fused(out)
    g, wanted = tt.asarray(normal(*out.shape, seed=9)), [*leaves, *layer.parameters()]
    found = tt.grad(out, wanted, g, retain_graph=True)
    expected = tt.grad(out, wanted, g, create_graph=True)  # by the formula
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_of_many_rows_is_that_of_the_formula(norm_first):
    """Of more than go through a sub-layer together, on shares of their own."""
    tt.manual_seed(1)
    layer = nn.TransformerEncoderLayer(D, HEADS, INNER, 0.3, batch_first=True, dtype=tt.float64, norm_first=norm_first)
    x = tt.tensor(normal(40, 41, D), requires_grad=True)
    out = layer(x)
    assert is_fused(out)
    node = out._node
    formula = node.op.function(*[saved.value for saved in node.saved() if "residual" not in saved.name], **node.params)
    np.testing.assert_allclose(out.numpy(), formula.numpy(), rtol=0, atol=1e-12)


def test_dropout_repeats_with_the_seed_and_is_new_each_time():
    layer, (x, memory) = decoder_layer(dropout=0.3), inputs()
    tt.manual_seed(5)
    first, second = (layer(x, memory).numpy() for _ in range(2))
    tt.manual_seed(5)
    assert layer(x, memory).numpy().tobytes() == first.tobytes() != second.tobytes()


def test_dropout_drops_its_share_of_everything_and_keeps_the_mean():
    kept = [Dropping(0.3, key).mask((200, 500)) for key in np.random.default_rng(0).integers(2**62, size=20).tolist()]
    assert abs(np.mean(kept) - 0.7) < 0.002
    for mask in kept:
        assert abs(mask.mean() - 0.7) < 0.01
        for neighbour in (mask[:, 1:] ^ mask[:, :-1], mask[1:] ^ mask[:-1]):
            assert abs(neighbour.mean() - 2 * 0.7 * 0.3) < 0.01
    apart = np.mean([(a ^ b).mean() for a, b in itertools.pairwise(kept)])
    assert abs(apart - 2 * 0.7 * 0.3) < 0.005


def test_a_probability_of_one_drops_everything():
    layer = decoder_layer(dropout=1.0)
    out = layer(*inputs())
    assert is_fused(out)
    with tt.textbook():
        np.testing.assert_allclose(out.numpy(), layer(*inputs()).numpy(), rtol=1e-10)


def test_second_derivatives():
    layer, leaves = decoder_layer(), inputs()

    def twice():
        out = layer(*leaves, memory_key_padding_mask=tt.asarray(PADDING))
        (g,) = tt.grad((out * out).sum(), [leaves[0]], create_graph=True)
        return [x.numpy() for x in tt.grad((g * g).sum(), [*leaves, layer.linear1.weight, layer.norm1.weight])]

    found = twice()
    with tt.textbook():
        expected = twice()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_layers_that_share_their_parameters(dropout):
    """As ALBERT's (Lan et al. 2019) do: a gradient is the sum over all, and so is that of the formula."""
    encoder = nn.TransformerEncoder(
        decoder_layer(kind=nn.TransformerEncoderLayer, dropout=dropout), 2, nn.LayerNorm(D, dtype=np.float64)
    )
    encoder.layers[1] = encoder.layers[0]
    x = inputs()[1]
    out = encoder(x)
    assert "linear" not in ops_behind(out)
    wanted, g = [x, *encoder.parameters()], tt.asarray(normal(*out.shape, seed=9))
    found = tt.grad(out, wanted, g, retain_graph=True)
    for a, b in zip(found, tt.grad(out, wanted, g, create_graph=True)):  # the second by the formula
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)
    encoder.eval()
    with tt.textbook():
        expected = tt.grad(encoder(x), wanted, g)
    for a, b in zip(tt.grad(encoder(x), wanted, g), expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-10)


def test_a_picture_opens_to_the_formula(tmp_path):
    """Without a recording there are no modules, but the ops of each sub-layer, dropout among them."""
    tt.draw(decoder_layer(dropout=0.1)(*inputs()), tmp_path / "layer.svg")
    picture = (tmp_path / "layer.svg").read_text(encoding="utf-8")
    assert "through" in picture
    for op, count in (("multi_head", 2), ("dropout", 4), ("layer_norm", 3), ("relu", 1)):
        assert picture.count(f"<title>{op};") == count, op


def test_the_gradient_of_a_mask():
    mask = tt.tensor(normal(TARGET, SOURCE), requires_grad=True)
    layer = decoder_layer()

    def gradient():
        return tt.grad(layer(*inputs(), memory_mask=mask), mask, tt.asarray(normal(BATCH, TARGET, D))).numpy()

    found = gradient()
    with tt.textbook():
        np.testing.assert_allclose(found, gradient(), rtol=1e-10, atol=1e-12)


def test_large_scores_neither_overflow_nor_warn():
    layer = decoder_layer(np.float32)
    with tt.no_grad():
        layer.self_attn.in_proj_weight *= 100.0
    with np.errstate(all="raise"):
        found = outcome(layer, {}, np.float32)
    with tt.textbook():
        expected = outcome(layer, {}, np.float32)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("batch", [1, 37])
def test_the_number_of_threads_changes_nothing(batch, monkeypatch):
    room = tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    monkeypatch.setattr(room, "SHARE", 1)
    monkeypatch.setattr(room, "ROWS", 16)
    monkeypatch.setattr(threads, "_threads", 1)
    layer, masks = decoder_layer(np.float32, dropout=0.2), {"tgt_mask": CAUSAL}
    found = []
    for count in (1, 2, 4):
        threads._threads = count
        tt.manual_seed(3)
        found.append(outcome(layer, masks, np.float32, batch))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            assert a.tobytes() == b.tobytes()
    layer.eval()
    found = [outcome(layer, masks, np.float32, batch)]
    with tt.textbook():
        expected = outcome(layer, masks, np.float32, batch)
    for a, b in zip(found[0], expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


class Louder(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2.0


class LouderSublayer(nn.transformer.Sublayer):
    def __call__(self, x):
        return super().__call__(x) * 2.0


class OfLouder(nn.TransformerDecoderLayer):
    def sublayers(self, *f):
        return [LouderSublayer(*sublayer) for sublayer in super().sublayers(*f)]


class Turned(nn.TransformerDecoderLayer):
    """Asks the memory first, and has no feed-forward network."""

    def sublayers(self, *f):
        attend, ask, _ = super().sublayers(*f)
        return [ask, attend._replace(norm_first=True)]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_class_of_ones_own_may_have_other_sub_layers_at_full_speed(dropout):
    layer = decoder_layer(kind=Turned, dropout=dropout)
    leaves = inputs()
    out = layer(*leaves)
    assert is_fused(out)
    g = tt.asarray(normal(*out.shape, seed=9))
    found = tt.grad(out, leaves, g, retain_graph=True)
    for a, b in zip(found, tt.grad(out, leaves, g, create_graph=True)):  # by the formula, with the same dropout
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)
    layer.eval()

    def compute():
        leaves = inputs()
        out = layer(*leaves, memory_key_padding_mask=tt.asarray(PADDING))
        wanted = [*leaves, layer.self_attn.in_proj_weight, layer.norm2.bias]
        return [out.detach().numpy(), *[g.numpy() for g in tt.grad(out.sum(), wanted)]]

    found = compute()
    with tt.textbook():
        expected = compute()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_lists_that_no_layer_has():
    """No sub-layers; attention in two layouts; to two memories: the textbook's lines compute."""
    layer, other = decoder_layer(), decoder_layer(batch_first=False)
    x, memory = inputs()
    assert nn.transformer.through(x, []) is x
    drop, norm, attend = nn.Dropout(0.0), layer.norm1, nn.transformer.Attend

    def lists():
        yield [attend(layer.self_attn, None, None, None, False), attend(other.self_attn, None, None, None, False)]
        yield [attend(layer.multihead_attn, given, None, None, False) for given in (memory, memory * 2.0)]

    for words in lists():
        sub_layers = [nn.transformer.Sublayer(f, drop, norm) for f in words]
        found = nn.transformer.through(x, sub_layers).detach().numpy()
        with tt.textbook():
            expected = nn.transformer.through(x, sub_layers).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def replaced(layer):
    layer.linear1 = Louder(D, INNER, dtype=np.float64)


def hooked(layer):
    layer.self_attn.register_forward_hook(lambda module, args, out: None)


def with_own_keys(layer):
    layer.self_attn = nn.MultiheadAttention(D, HEADS, add_zero_attn=True, batch_first=True, dtype=np.float64)


UNUSUAL = {
    "another class": ({"kind": OfLouder}, None),
    "another activation": ({"activation": F.silu}, None),
    "a function": ({"activation": lambda x: F.relu(x)}, None),
    "keys of its own": ({}, with_own_keys),
    "a module replaced": ({}, replaced),
    "a hook": ({}, hooked),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_goes_the_layers_own_way(name):
    options, change = UNUSUAL[name]
    layer = decoder_layer(**options)
    if change is not None:
        change(layer)
    assert not is_fused(layer(*inputs()))


VECTORS = ("norm1.weight", "norm3.bias", "self_attn.in_proj_bias", "self_attn.out_proj.bias", "linear1.bias")


@pytest.mark.parametrize("length", [1, 100])
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_another_length_are_not_read_beside(name, length):
    """A loop knows where a vector begins, and takes it to be as long as the sizes say."""
    layer = decoder_layer()
    owner, _, own = name.rpartition(".")
    setattr(dict(layer.named_modules())[owner], own, nn.Parameter(tt.ones(length, dtype=np.float64)))

    def result():
        try:
            out = layer(*inputs())
        except ValueError:
            return None
        assert not is_fused(out)
        return out.detach().numpy()

    found = result()
    with tt.textbook():
        expected = result()
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


MATRICES = ("self_attn.in_proj_weight", "multihead_attn.out_proj.weight", "linear1.weight", "linear2.weight")


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_that_lie_otherwise_go_the_layers_own_way(name):
    layer = decoder_layer()
    expected = layer(*inputs()).detach().numpy()
    parameter = dict(layer.named_parameters())[name]
    parameter._data = np.asfortranarray(parameter._data)
    out = layer(*inputs())
    assert not is_fused(out)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["linear1.bias", "self_attn.in_proj_bias", "norm1.weight"])
def test_a_parameter_that_was_deleted_is_missed(name):
    layer = decoder_layer()
    owner, _, own = name.rpartition(".")
    delattr(dict(layer.named_modules())[owner], own)
    with pytest.raises(AttributeError, match=own):
        layer(*inputs())


def test_heads_that_do_not_divide_the_vectors_are_refused():
    layer = decoder_layer()
    layer.self_attn.num_heads = D - 1
    with pytest.raises(ValueError, match="self_attn"):
        layer(*inputs())


def test_attention_of_ones_own_is_no_failure():
    class Mine(nn.Module):
        def forward(self, query, key, value, **masks):
            return query * 2.0, None

    layer = decoder_layer()
    layer.self_attn = layer.multihead_attn = Mine()
    assert not is_fused(layer(*inputs()))  # and a warning would be an error


def test_who_watches_sees_every_op():
    layer = decoder_layer()
    with tt.textbook():
        assert not is_fused(layer(*inputs()))
    with nn.record_attention() as record:
        layer(*inputs())
    assert len(record.calls) == 2
    with tt.detect_anomaly():
        assert not is_fused(layer(*inputs()))
    half = decoder_layer(np.float16)
    assert not is_fused(half(*inputs(np.float16)))


def test_large_matrices_are_two_shares_unless_another_task_has_the_second_core(monkeypatch):
    room = tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    layer, counted, shares = decoder_layer(), [], room._shares
    for name, value in (("SMALL", 1), ("REUSE", 16), ("ROWS", 4), ("SHARE", 1)):  # 192 elements, for 12 rows or more
        monkeypatch.setattr(room, name, value)
    monkeypatch.setattr(room, "_shares", lambda *sizes: counted.append(found := shares(*sizes)) or found)

    def call():
        return layer(*inputs()).detach().numpy()

    alone, (first, second) = call(), threads.concurrently([call, call])
    assert [len(found) for found in counted] == [2, 1, 1]
    for other in (first, second):
        np.testing.assert_allclose(other, alone, rtol=1e-12, atol=1e-12)


def test_large_matrices_go_the_layers_own_way(monkeypatch):
    room = tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    monkeypatch.setattr(room, "SMALL", 3 * D * D - 1)
    assert is_fused(decoder_layer()(*inputs()))  # there are rows enough
    monkeypatch.setattr(room, "REUSE", 1)
    assert not is_fused(decoder_layer()(*inputs()))


def test_mistakes_are_told_by_the_module_they_are_in():
    layer = decoder_layer()
    x, memory = inputs()
    with pytest.raises(ValueError, match="key_padding_mask: expected .*multihead_attn"):
        layer(x, memory, memory_key_padding_mask=tt.asarray(PADDING[:, 1:]))
    layer.linear2.weight = nn.Parameter(tt.ones((D + 1, INNER), dtype=np.float64))
    with pytest.raises(ValueError, match=r"linear.*linear2"):
        layer(x, memory)


def test_arrays_in_place_of_tensors_and_masks_that_are_part_of_others():
    layer, (x, memory) = decoder_layer(), inputs()
    added = tt.asarray(normal(TARGET + 2, SOURCE + 2))[:TARGET, :SOURCE]
    with tt.textbook():
        expected = layer(x, memory, memory_mask=added).detach().numpy()
    out = layer(x, memory, memory_mask=added)
    assert is_fused(out)
    assert type(out._node.residuals[0]).__name__ == "module"  # the loops took it
    for given in (out, layer(x, memory.detach().numpy(), memory_mask=added)):
        np.testing.assert_allclose(given.detach().numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_weight_that_was_changed_before_backward_is_named():
    layer = decoder_layer()
    out = layer(*inputs())
    with tt.no_grad():
        layer.linear1.weight += 1.0
    with pytest.raises(RuntimeError, match="through .* was changed in place"):
        out.sum().backward()


def test_without_loops_the_op_goes_by_its_formula(monkeypatch):
    layer = decoder_layer()
    x, memory = inputs()
    words = layer.sublayers(
        nn.transformer.Attend(layer.self_attn, None, None, None, False),
        nn.transformer.Attend(layer.multihead_attn, memory, None, None, False),
    )
    plan, arrays = sublayers.read(
        x, memory, words, None, tt.backend.for_device("cpu").loops_over("sublayers", np.ones(1))
    )

    def call():
        out = sublayers._through(x, memory, *arrays, plan=plan)
        gradients = tt.grad((out * out).sum(), [x, memory, layer.linear1.weight])
        return [a.detach().numpy() for a in (out, *gradients)]

    found = call()
    monkeypatch.setattr(threads, "_blas_is_single", False)
    for a, b in zip(found, call()):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_method_of_its_own_is_heard():
    layer = decoder_layer()
    own = layer.linear1.forward
    layer.linear1.forward = lambda x: own(x) * 2.0
    out = layer(*inputs())
    assert not is_fused(out)
