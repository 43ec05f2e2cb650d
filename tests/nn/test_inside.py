"""nn.cache and nn.intervene: every value of a model by name, to read and to change."""

import copy
import pickle
import threading

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.models.test_every_module_is_called import MODELS
from tinytensor import nn
from tinytensor.models import LanguageModel, Transformer
from tinytensor.models.language_model import GPT2, LLAMA

SMALL = {"d_model": 8, "num_heads": 4, "num_layers": 2, "d_ff": 12, "max_length": 16}
IDS = np.random.default_rng(0).integers(3, 11, (2, 5))
KINDS = {
    "GPT-2": GPT2,
    "Llama": {**LLAMA, "num_kv_heads": 2},
    "window, QK-norm": {**LLAMA, "window": 3, "qk_norm": True, "head_dim": 6},
    "ALiBi": {"positions": "alibi"},
}


def language_model(kind="Llama", **more):
    tt.manual_seed(0)
    return LanguageModel(11, **SMALL, **KINDS[kind], **more)


def normal(*shape, seed=0):
    return tt.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def close(got, expected, atol=1e-5):
    np.testing.assert_allclose(got.numpy(), np.asarray(getattr(expected, "numpy", lambda: expected)()), atol=atol)


# ---- what is read


@pytest.mark.parametrize("name", MODELS)
def test_the_result_of_each_module_has_the_name_of_its_path(name, device):
    build, inputs = MODELS[name]
    model, seen = build().to(device).eval(), {}
    inputs = [tt.asarray(x, device=device) for x in inputs]
    hooks = [
        module.register_forward_hook(lambda module, args, out, path=path: seen.update({path: out}))
        for path, module in model.named_modules()
    ]
    with tt.no_grad():
        model(*inputs)
        for hook in hooks:
            hook.remove()
        with nn.cache(model) as values:
            model(*inputs)
    results = {path: out[0] if isinstance(out, tuple) else out for path, out in seen.items() if path}
    assert {path for path in values if path in dict(model.named_modules())} == results.keys()
    for path, out in results.items():
        found = values[path][0] if isinstance(values[path], tuple) else values[path]
        np.testing.assert_allclose(found.numpy(), out.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_within_attention_each_variable_follows_from_those_before_it(kind, device):
    model = language_model(kind).to(device).eval()
    with tt.no_grad(), nn.cache(model, "*") as values:
        model(tt.asarray(IDS, device=device))
    for layer in range(2):
        path = f"layers.{layer}.self_attn"
        q, k, v, scores, weights, z = (values[f"{path}.{name}"].numpy() for name in nn.inside.watching.VARIABLES)
        size = q.shape[-1]
        assert q.shape == k.shape == v.shape == z.shape == (2, 4, 5, size)
        seen = np.isfinite(scores)
        assert seen.sum() == 2 * 4 * (12 if kind == "window, QK-norm" else 15)
        products = q @ k.swapaxes(-1, -2) / np.sqrt(size)
        if kind == "ALiBi":
            products = products + F.alibi(tt.arange(5)[:, None] - tt.arange(5), 4).numpy()
        np.testing.assert_allclose(scores[seen], products[seen], atol=1e-5)
        powers = np.exp(scores)
        np.testing.assert_allclose(weights, powers / powers.sum(axis=-1, keepdims=True), atol=1e-5)
        np.testing.assert_allclose(z, weights @ v, atol=1e-5)
        joined = z.swapaxes(1, 2).reshape(2, 5, 4 * size)
        np.testing.assert_allclose(values[f"{path}.out_proj.input"].numpy(), joined, atol=1e-6)


def test_keys_and_values_are_those_of_the_heads_that_share_them():
    model = language_model()
    with tt.no_grad(), nn.cache(model, ["*.in_proj", "*.self_attn.v"]) as values:
        model(IDS)
    v = values["layers.0.self_attn.in_proj"].numpy()[..., 12:].reshape(2, 5, 2, 2).swapaxes(1, 2)
    np.testing.assert_allclose(values["layers.0.self_attn.v"].numpy(), v.repeat(2, axis=1), atol=1e-6)


def test_encoder_decoder_and_cross_attention_have_names_of_their_own():
    model = Transformer(11, **SMALL).eval()
    with tt.no_grad(), nn.cache(model, "*.weights") as values, nn.cache(model, "encoder.layers.0") as one:
        model(IDS, IDS[:, :3])
    assert list(one) == ["transformer.encoder.layers.0"]  # where pictures say "encoder.layers.0", names may as well
    assert one["layers.0"] is one["encoder.layers.0"] is one["transformer.encoder.layers.0"]
    with pytest.raises(KeyError, match="'self_attn.weights' was not computed; there are transf"):
        values["self_attn.weights"]
    shapes = {name: value.shape for name, value in values.items()}
    assert shapes == {
        f"transformer.{part}.layers.{i}.{attention}.weights": (2, 4, target, source)
        for part, attention, target, source in [
            ("encoder", "self_attn", 5, 5), ("decoder", "self_attn", 3, 3), ("decoder", "multihead_attn", 3, 5),
        ]
        for i in range(2)
    }  # fmt: skip


def test_arguments_have_the_names_that_forward_gives_them():
    model = language_model()
    with tt.no_grad(), nn.cache(model, ["layers.1.x", "layers.0", "ids", "LanguageModel", "norm.input"]) as values:
        out = model(tt.asarray(IDS))
    assert list(values) == ["ids", "layers.0", "layers.1.x", "norm.input", "LanguageModel"]
    assert values["ids"].numpy().tolist() == IDS.tolist()
    assert values["layers.1.x"].numpy().tobytes() == values["layers.0"].numpy().tobytes()
    assert values["LanguageModel"].numpy().tobytes() == out.numpy().tobytes()


def test_of_a_plain_module_all_that_it_has_is_kept():
    x = normal(2, 5, 8)
    lstm, mlp = nn.LSTM(8, 4), nn.Sequential(nn.Linear(8, 3), nn.Tanh())
    with nn.cache(lstm) as of_lstm, nn.cache(mlp) as of_mlp:
        out, (h, c) = lstm(x)
        mlp(x)
    assert list(of_lstm) == ["input", "LSTM"]
    found, (found_h, found_c) = of_lstm["LSTM"]
    assert (found is out, found_h is h, found_c is c) == (True, True, True)
    assert list(of_mlp) == ["0", "1"]
    close(of_mlp["1"], np.tanh(of_mlp["0"].numpy()))
    with tt.no_grad(), nn.cache(lstm, "LSTM") as copies:
        out, _ = lstm(x)
    assert (copies["LSTM"][0] is out, copies["LSTM"][1][0].shape) == (False, h.shape)
    attention = nn.MultiheadAttention(8, 2)
    with nn.cache(attention) as values:
        attention(x, x, x)
    assert list(values) == ["q", "k", "v", "scores", "weights", "z", "out_proj"]


def test_a_module_of_a_user_that_calls_attention_and_holds_another():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, self.inner(x, x, x, need_weights=False)[0])

    model, x = nn.Sequential(Own()), normal(2, 5, 8)
    with tt.no_grad(), nn.cache(model, "0.*") as values:
        model(x)
    assert len(values.calls("0.q")) == len(values.calls("0.inner.q")) == 1
    assert (values["0.q"].shape, values["0.inner.q"].shape) == ((2, 5, 8), (2, 2, 5, 4))
    close(values["0.v"], values["0.inner"])


@pytest.mark.parametrize("kind", KINDS)
def test_in_generation_each_step_has_its_values(kind, device):
    model = language_model(kind).to(device).eval()
    prompt = tt.asarray(IDS, device=device)
    with nn.cache(model) as values:
        ids = model.generate(prompt, 4)
    whole = tt.concat([prompt, ids[:, :3]], axis=1)
    with tt.no_grad(), nn.cache(model) as at_once:
        model(whole)
    for name in ("layers.0", "layers.1.self_attn.q", "layers.1.self_attn.z", "layers.0.self_attn.v"):
        steps, expected = values.calls(name), at_once[name].numpy()
        assert len(steps) == 4
        axis = 2 if ".self_attn." in name else 1
        if name.endswith(".v"):
            assert [step.shape[2] for step in steps] == [5, 6, 7, 8]
            for step in steps:  # as it was then, though the memory of a beam goes on
                np.testing.assert_allclose(step.numpy(), expected[:, :, : step.shape[2]], atol=1e-5)
        else:
            found = np.concatenate([step.numpy() for step in steps], axis)
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_in_a_beam_search_what_was_kept_does_not_change():
    model = language_model("GPT-2").eval()
    with nn.cache(model, "*.self_attn.k") as values:
        before = []
        hook = model.norm.register_forward_hook(lambda *_: before.append(values["layers.0.self_attn.k"].numpy().copy()))
        model.generate(IDS, 6, num_beams=3)
        hook.remove()
    for kept, then in zip(values.calls("layers.0.self_attn.k"), before, strict=True):
        assert kept.numpy().tobytes() == then.tobytes()


def test_decoding_of_a_transformer_tells_whole_targets():
    from tinytensor.models.decoding import greedy

    model = Transformer(11, **SMALL).eval()
    plain = [hypothesis.ids for hypothesis in greedy(model, IDS, max_length=4)]
    with nn.cache(model, "decoder.*.self_attn.weights") as values:
        assert [hypothesis.ids for hypothesis in greedy(model, IDS, max_length=4)] == plain
    lengths = [weights.shape[-2:] for weights in values.calls("decoder.layers.1.self_attn.weights")]
    assert lengths == [(i + 1, i + 1) for i in range(len(lengths))]
    assert len(lengths) == 4


def test_of_several_calls_the_last_is_shown_and_all_are_there():
    model = nn.Sequential(nn.Linear(2, 2))
    with tt.no_grad(), nn.cache(model, "0") as values:
        outs = [model(normal(3, 2, seed=i)) for i in range(3)]
        for kept, out in zip(values.calls("0"), outs, strict=True):
            assert kept.numpy().tobytes() == out.numpy().tobytes()
        assert values["0"].numpy().tobytes() == outs[2].numpy().tobytes()
        values.calls("0").clear()
        assert len(values) == 1
        assert repr(values) == "<cache: 1 values>\n0: (3, 2)"
        values.clear()
        assert (len(values), list(values), "0" in values) == (0, [], False)
    model(normal(3, 2))
    assert not values
    with values:
        model(normal(3, 2))
    assert len(values.calls("0")) == 1


# ---- gradients


@pytest.mark.parametrize("name", ["layers.0", "layers.1.self_attn.weights", "layers.0.self_attn.q", "layers.1.x"])
def test_a_gradient_at_a_name_is_that_of_a_leaf_in_its_place(name, device):
    model = language_model().to(device)
    ids = tt.asarray(IDS, device=device)

    def loss():
        return (model(ids) * tt.asarray(np.random.default_rng(1).normal(size=(2, 5, 11)), device=device)).sum()

    with nn.cache(model, name) as values:
        loss().backward()
    leaf = values[name].detach().requires_grad_()
    with nn.intervene(model, {name: leaf}):
        loss().backward()
    found, expected = values[name].grad.numpy(), leaf.grad.numpy()
    assert np.abs(expected).max() > 1e-6
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_the_gradients_of_parameters_and_of_a_leaf_stay():
    x = normal(2, 5, 8).requires_grad_()
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)

    def gradients(*contexts):
        for tensor in (x, *layer.parameters()):
            tensor.grad = None
        if contexts:
            with nn.cache(layer, "*"):
                (layer(x) ** 2).sum().backward()
        else:
            (layer(x) ** 2).sum().backward()
        return [tensor.grad.numpy() for tensor in (x, *layer.parameters())]

    for plain, watched in zip(gradients(), gradients("cache"), strict=True):
        np.testing.assert_allclose(watched, plain, atol=1e-5)


def test_a_changed_value_has_the_gradient_and_what_it_replaced_has_none():
    model = language_model()
    scale = tt.tensor(0.5, requires_grad=True)
    with nn.intervene(model, {"layers.1.self_attn.z": lambda z: z.detach() * scale}):
        (model(IDS) ** 2).sum().backward()
    assert scale.grad.item()
    assert model.layers[1].self_attn.in_proj.weight.grad is None
    assert abs(model.layers[0].self_attn.in_proj.weight.grad).max()


def test_a_checkpoint_keeps_a_value_once_and_changes_it_both_times():
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    x = normal(2, 5, 8).requires_grad_()

    def gradient(run):
        layer.zero_grad()
        with nn.cache(layer) as values, nn.intervene(layer, {"self_attn.z": {1: 0.0}, "linear1": lambda y: 2 * y}):
            (run(x) ** 2).sum().backward()
        assert len(values.calls("self_attn.weights")) == len(values.calls("linear1")) == 1
        return layer.self_attn.in_proj_weight.grad.numpy()

    np.testing.assert_allclose(gradient(lambda x: nn.utils.checkpoint(layer, x)), gradient(layer), atol=1e-5)


# ---- what is changed


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_left_out_is_one_whose_part_of_the_projection_is_zero(kind, device):
    model = language_model(kind).to(device).eval()
    ids = tt.asarray(IDS, device=device)
    with tt.no_grad(), nn.intervene(model, {"layers.1.self_attn.z": {1: 0.0, -1: 0}}):
        found = model(ids)
        generated = model.generate(ids, 4)
    weight, size = model.layers[1].self_attn.out_proj.weight, model.layers[1].self_attn.head_dim
    with tt.no_grad():
        weight[:, size : 2 * size] = 0.0
        weight[:, 3 * size :] = 0.0
    close(found, model(ids).numpy())
    np.testing.assert_array_equal(generated.numpy(), model.generate(ids, 4).numpy())


@pytest.mark.parametrize("switch", ["plain", "textbook", "loops"])
def test_with_any_speed_it_means_the_same(switch, request):
    if switch == "loops":
        request.getfixturevalue("loops")
    tt.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 3)
    x = normal(16, 24, 32)

    def run():
        with (
            tt.no_grad(),
            nn.cache(encoder, ["layers.2", "layers.1.self_attn.z"]) as values,
            nn.intervene(encoder, {"layers.1.self_attn.weights": {2: 0.0}, "layers.0.linear1": lambda y: y / 2}),
        ):
            encoder(x)
        return values["layers.2"].numpy(), values["layers.1.self_attn.z"].numpy()

    with tt.textbook():
        expected = run()
    if switch == "textbook":
        first, second, third = encoder.layers
        with tt.no_grad():
            first.linear1.weight[...] = first.linear1.weight / 2
            first.linear1.bias[...] = first.linear1.bias / 2
            second.self_attn.in_proj_weight[80:88] = 0.0
            second.self_attn.in_proj_bias[80:88] = 0.0
            found = third(second(first(x))).numpy(), expected[1]
    else:
        found = run()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert not expected[1][:, 2].any()
    assert np.abs(expected[1][:, 1]).max() > 0.1


def test_only_what_is_watched_leaves_its_compiled_loops(loops):
    tt.manual_seed(0)
    model, x = (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval(),
        normal(9, 7, 32),
    )
    with tt.no_grad(), nn.cache(model, ["layers.1.src", "layers.1.*.weights"]) as values:
        model(x)
    with tt.no_grad():
        assert values["layers.1.src"].numpy().tobytes() == model.layers[0](x).numpy().tobytes()
        with tt.textbook():
            assert values["layers.1.src"].numpy().tobytes() != model.layers[0](x).numpy().tobytes()


def test_positions_of_another_run_are_put_in_place_and_take_the_dtype():
    model = language_model().double()
    with tt.no_grad():
        with nn.cache(model, "layers.*") as clean:
            expected = model(IDS)
        other = IDS[::-1].copy()
        with nn.intervene(model, {"layers.0": {i: clean["layers.0"][:, i] for i in range(5)}}):
            found = model(other)
        with nn.intervene(model, {"layers.1": {-1: clean["layers.1"].numpy()[:, 4].astype(np.float32)}}):
            last = model(other)
        plain = model(other)
    assert found.numpy().tobytes() == expected.numpy().tobytes()
    assert last.dtype == tt.float64
    close(last[:, -1], expected[:, -1].numpy())
    close(last[:, :-1], plain[:, :-1].numpy(), atol=1e-12)


def test_arguments_and_tuples_are_changed_and_globs_mean_all():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    x = normal(4, 3)
    with nn.intervene(model, {"*.input": lambda x: x + 1.0, "0": lambda y: -y}):
        out = model(x)
    close(out, model[2](model[1](-model[0](x + 1) + 1) + 1).numpy())
    lstm = nn.LSTM(3, 2)
    with nn.intervene(lstm, {"LSTM": lambda both: (both[0] * 2, both[1])}):
        out, (h, _) = lstm(x[:, None])
    close(out, 2 * lstm(x[:, None])[0].numpy())
    close(h, lstm(x[:, None])[1][0].numpy())
    attention = nn.MultiheadAttention(4, 2)
    y = normal(2, 1, 4)
    with nn.intervene(nn.Sequential(attention), {"0": 7.0}):
        out, weights = attention(y, key=y, value=y, need_weights=False)
    assert (set(out.numpy().flat), weights) == ({7.0}, None)
    with nn.intervene(attention, {"key": lambda k: 0.0}):
        out, weights = attention(y, key=y, value=y)
    close(weights, np.full((1, 2, 2), 0.5))


def test_several_changes_of_one_value_come_in_their_order():
    model = nn.Sequential(nn.Identity())
    with nn.intervene(model, {"*": lambda x: x + 1, "0": lambda x: x * 10}):
        assert model(tt.asarray([1.0])).numpy().tolist() == [41.0]  # both arguments, then each result
    changes = {"0": lambda x: x * 10, "Sequential": 3.0}
    with nn.intervene(model, changes):
        assert model(tt.asarray([1.0])).numpy().tolist() == [3.0]


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32])
def test_in_16_bits_a_variable_is_changed_once(dtype):
    q = normal(1, 3, 4)

    class Attention(nn.Module):
        def forward(self, q):
            return F.scaled_dot_product_attention(q, q, q)

    model = Attention()
    with tt.no_grad(), nn.cache(model) as values, nn.intervene(model, {"q": lambda q: q * 2}):
        found = model(tt.astype(q, dtype))
    expected = F.scaled_dot_product_attention(2 * q, q, q)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-2 if dtype == tt.float16 else 1e-6)
    assert found.dtype == dtype
    assert {name: len(values.calls(name)) for name in values} == dict.fromkeys(nn.inside.watching.VARIABLES, 1)


def test_weights_are_changed_before_dropout():
    layer, x = nn.MultiheadAttention(4, 1, dropout=0.5), normal(64, 1, 4)
    with nn.intervene(layer, {"weights": 1.0}):
        _, weights = layer(x, x, x)
    assert set(weights.detach().numpy().flat) == {0.0, 2.0}


# ---- nesting, and what stays as it was


def test_a_cache_around_a_change_keeps_what_goes_on_and_one_within_it_what_was_computed():
    model = language_model()
    for name in ("layers.0", "layers.0.self_attn.z", "layers.1.x"):
        with (
            tt.no_grad(),
            nn.cache(model, name) as outer,
            nn.intervene(model, {name: lambda x: x + 1}),
            nn.intervene(model, {name: lambda x: x * 2}),
            nn.cache(model, name) as inner,
        ):
            model(IDS)
        close(outer[name], inner[name].numpy() * 2 + 1)


def state_of(model):
    return {path: [*vars(m), *m._forward_hooks, *m._forward_pre_hooks] for path, m in model.named_modules()}


def test_an_error_leaves_nothing_behind():
    model, code = language_model(), F.attention.attention.__code__
    own = model.layers[1].self_attn
    own.__dict__["forward"] = given = own.forward
    before = state_of(model)
    for name in ("layers.1.self_attn.z", "layers.1", "layers.0.x"):
        with pytest.raises(ZeroDivisionError), nn.cache(model, "*"), nn.intervene(model, {name: lambda x: 1 / 0}):
            model(IDS)
        assert state_of(model) == before
        assert own.forward is given
        assert F.attention.attention.__code__ is code
    with nn.cache(model, "*") as values, pytest.raises(IndexError):
        model([[99]])
    assert state_of(model) == before
    assert not any(name.startswith("layers") for name in values)
    with pytest.raises(ValueError, match="no value is called"), nn.cache(model), nn.cache(model, "nothing"):
        pass
    assert state_of(model) == before


def test_a_copy_made_meanwhile_is_a_model_of_its_own():
    model = language_model()
    with nn.cache(model) as values:
        other = copy.deepcopy(model)
        with tt.no_grad():
            for parameter in other.parameters():
                parameter *= 2.0
            out = other(IDS)
    assert not values
    fresh = language_model()
    fresh.load_state_dict(other.state_dict())
    close(out, fresh(IDS).detach().numpy())
    close(other(IDS).detach(), fresh(IDS).detach().numpy())
    with nn.cache(other) as values:
        other(IDS)
    assert len(values.calls("layers.0.self_attn.q")) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("has_own", [False, True])
def test_a_copy_made_meanwhile_has_no_watcher(copied, has_own):
    model = nn.Sequential(nn.MultiheadAttention(4, 2), nn.Identity())
    attention, x = model[0], normal(3, 1, 4)
    plain = attention(x, x, x)[0].detach()
    if has_own:
        vars(attention)["forward"] = attention.forward
    model[1].register_forward_hook(print)
    before = state_of(model)
    with nn.cache(model, "*"):
        other = copied(attention)
        whole = copied(model) if copied is not copy.copy else None
    assert state_of(model) == before
    assert ("forward" in vars(other)) == has_own
    assert not other._forward_hooks
    assert not other._forward_pre_hooks
    assert whole is None or len(whole[1]._forward_hooks) == 1
    np.testing.assert_array_equal(other(x, x, x)[0].detach().numpy(), plain.numpy())


def test_a_forward_assigned_meanwhile_stays():
    attention, x = nn.MultiheadAttention(4, 2), normal(3, 1, 4)
    with nn.cache(attention):
        attention.forward = given = lambda *inputs: (inputs[0], None)
    assert vars(attention)["forward"] is given
    assert attention(x, x, x)[0] is x


def changed_in_turns(enter):
    """What each of two generators computes, each within its own context; the first ends first, in another thread."""

    def within(which):
        with enter(which) as entered:
            while True:
                yield entered

    first, second = within(0), within(1)
    next(first)
    entered = next(second)
    yield entered
    thread = threading.Thread(target=first.close)
    thread.start()
    thread.join()
    yield entered
    second.close()
    yield entered


def test_generators_taken_in_turn_change_what_is_theirs():
    model = language_model().eval()

    def run():
        with tt.no_grad():
            return model(IDS).numpy()

    changes = {"layers.0": 0.0}, {"layers.1.self_attn.z": 0.0}
    plain, expected = run(), []
    with nn.intervene(model, changes[1]):
        expected.append(run())
        with nn.intervene(model, changes[0]):
            expected.insert(0, run())
    found = [run() for _ in changed_in_turns(lambda i: nn.intervene(model, changes[i]))]
    for got, right in zip(found, [*expected, plain], strict=True):
        np.testing.assert_allclose(got, right, atol=1e-6)
    assert not any("forward" in vars(module) for module in model.modules())
    with nn.cache(model):
        np.testing.assert_allclose(run(), plain, atol=1e-6)


def test_generators_taken_in_turn_record_what_is_theirs():
    layer, x = nn.MultiheadAttention(4, 2), normal(3, 1, 4)
    counts = []
    for second in changed_in_turns(lambda i: nn.record_attention()):
        layer(x, x, x)
        counts.append(len(second.calls))
    assert counts == [1, 2, 2]
    assert not nn.listening.listeners()
    layer(x, x, x)
    assert tt.modes.state.told is None


def test_two_at_once_may_end_in_any_order():
    model = nn.Sequential(nn.MultiheadAttention(4, 2), nn.Identity())
    attention, x = model[0], normal(3, 1, 4)
    with nn.cache(model, "0.q") as outer:
        with nn.cache(model, ["0.q", "0.query"]) as inner:
            attention(x, x, x)
        attention(x, x, x)
    assert (len(outer.calls("0.q")), len(inner.calls("0.q")), len(inner.calls("0.query"))) == (2, 1, 1)
    with outer, outer:
        attention(x, x, x)
    assert len(outer.calls("0.q")) == 4
    assert "forward" not in vars(attention)


def test_another_thread_sees_and_changes_nothing():
    model, found = language_model(), []
    with tt.no_grad():
        plain = model(IDS).numpy()

    def run():
        with tt.no_grad():
            found.append(model(IDS).numpy())

    with nn.cache(model, "*") as values, nn.intervene(model, {"layers.0.self_attn.z": 0.0, "layers.1": 0.0}):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert not values
        model(IDS)
    np.testing.assert_allclose(found[0], plain, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_by_the_formulas_a_cache_changes_no_bit_and_no_random_number(dropout, device):
    def run(watched):
        tt.manual_seed(0)
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, dropout, batch_first=True), 2).to(device)
        x = normal(2, 5, 8).to(device=device)
        with tt.textbook(), nn.cache(model, "*" if watched else []):
            out = model(x)
            out.sum().backward()
        return [out.detach(), *[p.grad for p in model.parameters()], tt.random.normal((3,))]

    for plain, watched in zip(run(False), run(True), strict=True):
        assert plain.numpy().tobytes() == watched.numpy().tobytes()


def test_a_picture_shows_none_of_a_cache():
    model = language_model()

    def structure(watched):
        with tt.textbook(), tt.no_grad(), tt.record() as graph, nn.cache(model, "*" if watched else []):
            model(IDS)
        found = graph.structure
        return [(op.name, op.origin) for op in found.ops], [value.name for value in found.values]

    assert structure(True) == structure(False)


def test_a_compiled_step_tells_each_time(device):
    model = nn.Sequential(nn.Linear(3, 3)).to(device)
    step, x = nn.compile_step(lambda x: (model(x) ** 2).sum(), model, warn=False), normal(2, 3).to(device=device)
    plain = [step(x).item() for _ in range(3)]
    with nn.cache(model, "0") as values, nn.intervene(model, {"0": lambda y: 2 * y}):
        changed = [step(x).item() for _ in range(2)]
    assert len(values.calls("0")) == 2
    np.testing.assert_allclose(changed, [4 * plain[0]] * 2, rtol=1e-5)
    np.testing.assert_allclose(step(x).item(), plain[0], rtol=1e-5)


# ---- errors


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("layers.1.self_attn.pattern", "there are .*layers.1.self_attn.weights"),
        ("layer.1", "there are .*layers.1,"),
        ("layers.7", "there are layers.0, layers.1"),
        ("*.heads", "there are "),
        ("self_attn.z", "there are layers.0.self_attn.z, layers.1.self_attn.z$"),
        ("", "there are LanguageModel, embedding, dropout, (\\S+, ){4}\\S+$"),  # eight of them
    ],
)
def test_a_name_that_is_not_there_comes_with_those_near_it(name, near):
    model = language_model()
    for watch in (nn.cache, lambda model, name: nn.intervene(model, {"layers.0": 0.0, name: 0.0})):
        words = f"no value is called {name!r}; ".replace("*", r"\*") + near
        with pytest.raises(ValueError, match=f"^(cache|intervene): {words}"):
            watch(model, name)


def test_what_was_not_computed_is_an_error():
    model = language_model()
    with nn.cache(model, "layers.*") as values:
        model.embedding(IDS)
    with pytest.raises(KeyError, match="'layers.0' was not computed; there is none"):
        values["layers.0"]
    changes = {"layers.0": 0.0, "norm": 0.0, "embedding": lambda x: x}
    with pytest.raises(RuntimeError, match="no call met 'layers.0', 'norm', so it cha"), nn.intervene(model, changes):
        model.embedding(tt.asarray(IDS))
    with nn.intervene(model, {"layers.*.self_attn.z": {0: 0.0}}):
        model(IDS)
    with pytest.raises(ZeroDivisionError), nn.intervene(model, {"norm": 0.0}):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda z: None, TypeError, "the function for 'layers.0.self_attn.z' returned None; expected the value"),
        ({4: 0.0}, IndexError, "'layers.0.self_attn.z' has 4 indices along axis 1, there is no 4"),
        ({-5: 0.0}, IndexError, "there is no -5"),
        ({1.0: 0.0}, TypeError, "integer"),
        (np.zeros(3), ValueError, r"'layers.0.self_attn.z' has shape \(2, 4, 5, 2\); a value of \(3,\) does not fit"),
        ({2: np.zeros(3)}, ValueError, r"'layers.0.self_attn.z at 2' has shape \(2, 5, 2\); a value of \(3,\)"),
        (np.zeros((1, 2, 4, 5, 2)), ValueError, "does not fit"),
    ],
)
def test_a_change_that_does_not_fit_says_so(change, error, words):
    model = language_model()
    with pytest.raises(error, match=words), nn.intervene(model, {"layers.0.self_attn.z": change}):
        model(IDS)


def test_a_value_without_an_axis_1_has_no_index():
    model = nn.Sequential(nn.Identity())
    with pytest.raises(IndexError, match="has 0 indices along axis 1"), nn.intervene(model, {"0": {0: 0.0}}):
        model(tt.asarray([1.0]))
    with pytest.raises(TypeError, match="expected a Module to look into, got a function"):
        nn.cache(language_model)
    with pytest.raises(TypeError, match="missing 1 required positional argument"), nn.cache(model, "*"):
        model[0]()
