"""LoRA: a frozen linear map and an addition of low rank, in training, decoding and files."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Seq2Seq, Transformer
from tinytensor.models.decoding import Recomputed, beam_search, greedy
from tinytensor.models.language_model import LLAMA

SMALL = {"d_model": 16, "num_heads": 2, "num_layers": 2, "max_length": 32}
IDS = np.random.default_rng(0).integers(3, 20, (2, 6))


def shaken(model):
    """The model, whose additions are not zero any more."""
    with tt.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("lora_B"):
                parameter.copy_(tt.random.normal(parameter.shape, dtype=parameter.dtype, device=parameter.device))
    return model


def language_model(**options):
    tt.manual_seed(0)
    return LanguageModel(20, **{**SMALL, **LLAMA, **options}).eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_the_formula(bias, dtype, device):
    base = nn.Linear(5, 7, bias=bias, dtype=dtype, device=device)
    layer = nn.LoRA(base, rank=3, alpha=12)
    x = tt.random.normal((2, 4, 5), dtype=dtype, device=device)
    np.testing.assert_array_equal(layer(x).numpy(), base(x).detach().numpy())  # B is zero at first
    shaken(layer)
    w, a, b = (p.detach().numpy() for p in (layer.weight, layer.lora_A, layer.lora_B))
    added = x.numpy() @ w.T + 4 * (x.numpy() @ a.T @ b.T) + (layer.bias.detach().numpy() if bias else 0)
    np.testing.assert_allclose(layer(x).detach().numpy(), added, rtol=1e-5, atol=1e-5)
    merged = layer.merge()
    assert type(merged) is nn.Linear
    np.testing.assert_allclose(merged(x).detach().numpy(), added, rtol=1e-5, atol=1e-5)
    assert {layer.lora_A.dtype, merged.weight.dtype, layer(x).dtype} == {dtype}
    assert repr(layer) == f"LoRA(in_features=5, out_features=7, bias={bias}, rank=3, alpha=12)"


def test_gradients_into_the_additions_alone():
    layer = shaken(nn.LoRA(nn.Linear(5, 7), rank=2, alpha=6))
    x = tt.random.normal((3, 5))
    g = tt.random.normal((3, 7))
    layer(x).backward(g)
    assert layer.weight.grad is None
    assert layer.bias.grad is None
    a, b = layer.lora_A.detach(), layer.lora_B.detach()
    np.testing.assert_allclose(layer.lora_A.grad.numpy(), (3 * b.T @ g.T @ x).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.lora_B.grad.numpy(), (3 * g.T @ x @ a.T).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: language_model(tie_weights=True), 2 * 5),
        (lambda: language_model(tie_weights=False), 2 * 5 + 1),
        (lambda: Transformer(20, **SMALL), 2 * 3 + 2 * 4 + 1),
        (lambda: Encoder(20, **SMALL), None),
        (lambda: Seq2Seq(20, d_model=8), None),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 2),
    ],
)
def test_all_maps_of_a_model_that_share_nothing(build, expected):
    model = nn.lora(build())
    maps = [module for module in model.modules() if isinstance(module, nn.LoRA)]
    assert len(maps) == (expected or len(maps)) > 0
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == set(nn.lora_state_dict(model))
    assert len(trained) == 2 * len(maps)


def test_targets():
    model = nn.lora(language_model(), targets="in_proj|out_proj", rank=2)
    assert {name.rsplit(".", 2)[1] for name in nn.lora_state_dict(model)} == {"in_proj", "out_proj"}
    nn.lora(model, rank=3, targets=r"layers\.1\..*up$")  # others may follow
    assert {p.shape for name, p in model.named_parameters() if p.requires_grad and "up" in name} == {(3, 16), (42, 3)}
    assert sum(p.requires_grad for p in model.parameters()) == 2 * 4 + 2
    with pytest.raises(ValueError, match=r"targets 'q_proj' match no path of a linear map; there are layers\.0\."):
        nn.lora(language_model(), targets="q_proj")
    with pytest.raises(ValueError, match="lora: projection shares its weight with another module; leave it out"):
        nn.lora(language_model(tie_weights=True), targets="projection")
    with pytest.raises(ValueError, match="there are none"):
        nn.lora(nn.Linear(2, 3))


def test_mistakes():
    with pytest.raises(ValueError, match="LoRA: rank must be at least 1, got 0"):
        nn.LoRA(nn.Linear(2, 3), 0)
    with pytest.raises(TypeError, match="LoRA: base must be a Linear, got a LoRA"):
        nn.LoRA(nn.LoRA(nn.Linear(2, 3)))
    with pytest.raises(TypeError, match="lora: got target_modules=; write targets"):
        nn.lora(nn.Linear(2, 3), target_modules=["a"])
    with pytest.raises((TypeError, ValueError), match="lora: rank must be an integer"):
        nn.lora(nn.Linear(2, 3), rank=1.5)


def test_a_map_in_two_places_stays_one():
    shared = nn.Linear(4, 4)
    model = nn.lora(nn.Sequential(shared, nn.ReLU(), shared))
    assert model[0] is model[2]
    assert nn.merge_lora(model)[0] is model[2]
    assert type(model[0]) is nn.Linear


@pytest.mark.parametrize("fast", [False, True])
def test_a_large_model_is_what_it_is_merged(fast, loops):
    """In training passes and in every way to decode, whose fast ways look at weights: sizes at which they are taken."""
    tt.manual_seed(0)
    sizes = {"d_model": 128, "num_heads": 4, "num_layers": 2, "max_length": 64}
    ids = np.random.default_rng(0).integers(3, 50, (16, 40))
    for model, inputs in (
        (LanguageModel(50, **sizes, **LLAMA).eval(), (ids,)),
        (Transformer(50, **sizes).eval(), (ids, ids)),
    ):
        model.double()
        plain = model(*inputs).detach().numpy()
        before = [h.ids for h in greedy(model, ids[:4, :9], max_length=12)]
        shaken(nn.lora(model, rank=4, alpha=2))
        with tt.textbook() if not fast else tt.no_grad():
            out = model(*inputs).detach().numpy()
            found = greedy(model, ids[:4, :9], max_length=12)
            beams = [h for row in beam_search(model, ids[:4, :9], beam=3, max_length=12) for h in row]
        assert abs(out - plain).max() > 0.1
        assert [h.ids for h in found] != before
        whole = greedy(Recomputed(model), ids[:4, :9], max_length=12)
        nn.merge_lora(model)
        np.testing.assert_allclose(model(*inputs).detach().numpy(), out, rtol=0, atol=1e-9)
        merged = greedy(model, ids[:4, :9], max_length=12)
        searched = [h for row in beam_search(model, ids[:4, :9], beam=3, max_length=12) for h in row]
        for one, other in [*zip(found, whole), *zip(found, merged), *zip(beams, searched)]:
            assert one.ids == other.ids
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-8)


def test_between_two_decodings():
    """Facts about the layers of a former cache do not hold any more."""
    model = language_model()
    prompt = IDS[:, :3]
    first = greedy(model, prompt, max_length=5)
    shaken(nn.lora(model))
    second = greedy(model, prompt, max_length=5)
    nn.merge_lora(model)
    third = greedy(model, prompt, max_length=5)
    assert [h.ids for h in second] == [h.ids for h in third]
    assert [h.score for h in first] != [h.score for h in second]


def test_hooks_and_modes_go_on():
    base, called = nn.Linear(2, 3).eval(), []
    handle = base.register_forward_hook(lambda *_: called.append(1))
    layer = nn.LoRA(base)
    layer(tt.ones((1, 2)))
    layer.merge()(tt.ones((1, 2)))
    assert len(called) == 2
    assert not layer.training
    assert not layer.merge().training
    handle.remove()
    layer(tt.ones((1, 2)))
    assert len(called) == 2


def test_files(tmp_path):
    model = shaken(nn.lora(language_model(), rank=2, targets="in_proj|down"))
    nn.save(nn.lora_state_dict(model), tmp_path / "added")
    again = nn.lora(language_model(), rank=2, targets="in_proj|down")
    found = again.load_state_dict(nn.load(tmp_path / "added"), strict=False)
    assert found.unexpected_keys == []
    np.testing.assert_array_equal(again(IDS).detach().numpy(), model(IDS).detach().numpy())
    assert sum(t.size for t in nn.lora_state_dict(model).values()) < sum(p.size for p in model.parameters()) / 4
    merged = nn.merge_lora(again)
    merged.save_pretrained(tmp_path / "merged")
    whole = LanguageModel.from_pretrained(tmp_path / "merged")
    np.testing.assert_allclose(whole(IDS).numpy(), model(IDS).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_an_optimiser_moves_the_additions_alone():
    model = nn.lora(language_model())
    before = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        tt.mean(tt.square(model(IDS))).backward()
        optimizer.step()
    moved = {name for name, tensor in model.state_dict().items() if not np.array_equal(tensor.numpy(), before[name])}
    assert moved == set(nn.lora_state_dict(model))


def test_a_compiled_step_is_the_loop():
    def trained(compiled):
        model = nn.lora(language_model())
        optimizer = nn.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
        loss = nn.CrossEntropyLoss()

        def step(ids):
            return loss(tt.reshape(model(ids)[:, :-1], (-1, 20)), tt.reshape(ids[:, 1:], (-1,)))

        run = nn.compile_step(step, model) if compiled else step
        for _ in range(4):
            optimizer.zero_grad()
            run(tt.asarray(IDS)).backward() if not compiled else run(tt.asarray(IDS))
            optimizer.step()
        return {name: tensor.numpy() for name, tensor in nn.lora_state_dict(model).items()}

    one, other = trained(False), trained(True)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-6)


def test_one_percent_of_a_model_of_135_million():
    """Of SmolLM2-135M's shape, of which one layer is made and thirty are counted."""
    shape = {"d_model": 576, "num_heads": 9, "num_kv_heads": 3, "d_ff": 1536, "num_layers": 1, "max_length": 8}
    model = nn.lora(LanguageModel(8, **shape, **LLAMA), rank=8, targets="in_proj|out_proj|down")
    added = 30 * sum(tensor.size for tensor in nn.lora_state_dict(model).values())
    layer = sum(p.size for name, p in model.layers[0].named_parameters() if not name.endswith(("lora_A", "lora_B")))
    whole = 30 * layer + 49152 * 576 + 576
    assert 134e6 < whole < 136e6
    assert 0.008 < added / whole < 0.01


def test_a_style_is_learned():
    """A model that counts up learns to count down, with a tenth of its parameters; the others stay as they are."""
    tt.manual_seed(0)
    rng = np.random.default_rng(0)
    model = LanguageModel(20, d_model=32, num_heads=2, num_layers=1, max_length=16, **LLAMA)

    def texts(direction):
        return (rng.integers(0, 17, (16, 1)) + direction * np.arange(10)) % 17 + 3

    def fit(parameters, direction, steps, lr):
        optimizer = nn.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
        for _ in range(steps):
            ids = tt.asarray(texts(direction))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(tt.reshape(model(ids)[:, 1:-1], (-1, 20)), tt.reshape(ids[:, 2:], (-1,)))
            loss.backward()
            optimizer.step()
        return loss.item()

    assert fit(model.parameters(), 1, 100, 2e-2) < 0.2
    assert model.generate([[5, 6, 7]], 5).tolist() == [[8, 9, 10, 11, 12]]
    frozen = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    nn.lora(model, rank=4, alpha=8)
    added = [p for p in model.parameters() if p.requires_grad]
    assert sum(p.size for p in added) < 0.25 * sum(p.size for p in model.parameters())
    assert fit(added, -1, 120, 2e-2) < 0.2
    assert model.generate([[12, 11, 10]], 5).tolist() == [[9, 8, 7, 6, 5]]
    for name, values in frozen.items():
        np.testing.assert_array_equal(model.state_dict()[name].numpy(), values)
    assert nn.merge_lora(model).generate([[12, 11, 10]], 5).tolist() == [[9, 8, 7, 6, 5]]
