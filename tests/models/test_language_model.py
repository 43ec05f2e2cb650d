"""The decoder-only model: what it sees, and that going on with a text is the same with a cache and without."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tinytensor import nn
from tinytensor.models import LanguageModel
from tinytensor.models.decoding import Recomputed, beam_search, greedy, sample
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.models.pretrained import PretrainedError

KINDS = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "alibi": {"positions": "alibi"},
    "window": {"positions": None, "window": 3},
    "all": LLAMA | {"num_kv_heads": 2, "window": 4, "qk_norm": True, "head_dim": 4, "pairing": "interleaved"},
}
PROMPT = np.array([[1, 5, 6, 7], [1, 3, 0, 0], [9, 0, 0, 0]])


def made(kind="gpt2", device="cpu", **options):
    """A model whose weights are large enough that its answers differ."""
    tt.manual_seed(3)
    sizes = {"d_model": 24, "num_heads": 4, "num_layers": 2, "max_length": 32}
    model = LanguageModel(20, **{**sizes, **KINDS[kind], **options}).double()
    with tt.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.copy_(tt.random.normal(parameter.shape, dtype=tt.float64) * 0.4)
    return model.to(device).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_sees_what_is_before_it_alone(kind, device):
    model = made(kind, device)
    ids = np.random.default_rng(0).integers(3, 20, (2, 9))
    changed = ids.copy()
    changed[:, 5] = (changed[:, 5] - 2) % 17 + 3
    difference = abs((model(ids) - model(changed)).detach().numpy()).max(axis=(0, 2))
    assert difference[:5].max() == 0
    assert difference[5] > 1e-3
    reach = 2 * (model.window - 1) if model.window else 9
    assert (difference[5:] > 0).tolist() == [i <= reach for i in range(4)]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_from_a_cache_are_those_of_the_whole(kind, device):
    model = made(kind, device)
    for decode in (
        lambda model: greedy(model, PROMPT, max_length=8),
        lambda model: [h for found in beam_search(model, PROMPT, beam=3, max_length=8) for h in found],
        lambda model: sample(model, PROMPT, top_k=6, max_length=8, generator=tt.random.Generator(5)),
    ):
        with_cache, without = decode(model), decode(Recomputed(model))
        assert [h.ids for h in with_cache] == [h.ids for h in without]
        for one, other in zip(with_cache, without):
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-10)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_an_answer_depends_on_nothing_else_in_the_batch(kind):
    model = made(kind)
    together = model.generate(PROMPT, 6).tolist()
    for prompt, row in zip(PROMPT, together):
        (alone,) = model.generate([[i for i in prompt.tolist() if i]], 6).tolist()
        assert row[: len(alone)] == alone


def test_greedy_is_the_likeliest_at_each_step():
    model, ids = made(), [1, 5, 6, 7]
    for _ in range(6):
        ids.append(int(model([ids]).numpy()[0, -1, 1:].argmax()) + 1)
    assert model.generate([[1, 5, 6, 7]], 6).tolist() == [ids[4:]]


def test_drawn_ids_are_of_the_distribution():
    model = made()
    tt.manual_seed(0)
    drawn = model.generate([[1, 5]] * 2000, 1, temperature=0.7, top_p=0.8).numpy()[:, 0]
    logits = model([[1, 5]]).numpy()[0, -1] / 0.7
    logits[0] = -np.inf
    p = np.exp(logits - logits.max())
    p /= p.sum()
    order = np.argsort(-p)
    kept = order[: np.searchsorted(np.cumsum(p[order]), 0.8) + 1]
    assert set(drawn.tolist()) <= set(kept.tolist())
    expected = p[kept] / p[kept].sum()
    np.testing.assert_allclose([(drawn == i).mean() for i in kept], expected, atol=0.04)


def test_no_more_ids_than_positions():
    model = made(max_length=8)
    assert model.generate(PROMPT, 100).shape[1] <= 5
    with pytest.raises(ValueError, match="a sequence of 9 is longer than max_length 8"):
        model(np.ones((1, 9), dtype=int))
    with pytest.raises(ValueError, match="longer than max_length 8"):
        greedy(model, PROMPT, max_length=20)
    with pytest.raises(ValueError, match="a sequence of 9 is longer than max_length 8"):
        model.generate(np.ones((1, 9), dtype=int))
    with pytest.raises(ValueError, match="a prompt needs one id at least"):
        model.generate([[1, 2], [0, 0]])
    with pytest.raises(ValueError, match="padded at its end; an id follows padding"):
        model.generate([[1, 2, 3], [0, 1, 2]])
    with pytest.raises(ValueError, match=r"expected integer ids \(batch, length\), got float32"):
        model(tt.ones((1, 3)))


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1.0},
        {"temperature": 1.0, "num_beams": 2},
        {"num_beams": 0},
        {"top_k": 3},
        {"top_p": 0.5},
        {"min_p": 0.5, "do_sample": False},
        {"do_sample": True, "temperature": 0.0},
        {"do_sample": False, "temperature": 1.0},
        {"do_sample": True, "num_beams": 2},
    ],
)
def test_options_that_do_not_go_together(options):
    with pytest.raises(ValueError, match="a temperature above 0 draws ids, .* got do_sample"):
        made().generate(PROMPT, 3, **options)


def test_without_padding():
    model = made(pad_id=None, eos_id=2)
    ids = model.generate(np.array([[1, 5], [1, 4]]), 8)
    assert ids.shape[0] == 2
    tt.manual_seed(0)
    drawn = model.generate(np.array([[1, 5]] * 300), 1, temperature=3.0).numpy()
    assert (drawn == 0).any()  # an id like others


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(kind, tmp_path):
    model = made(kind)
    model.save_pretrained(tmp_path / "model")
    again = LanguageModel.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(again(PROMPT).numpy(), model(PROMPT).detach().numpy())
    assert again.config == model.config
    assert not again.training


def test_another_models_folder(tmp_path):
    made().save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"num_layers": 2', '"num_layers": 3'))
    with pytest.raises(PretrainedError):
        LanguageModel.from_pretrained(tmp_path)


def test_attention_is_recorded_layer_by_layer():
    model = made("all")
    with nn.record_attention() as attention:
        model(PROMPT)
    assert [call.path for call in attention.decoder] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert attention.decoder[0].weights.shape == (3, 4, 4, 4)
    with nn.record_attention() as attention:
        said = model.generate([[1, 5]], 3)
    assert attention.decoder[1].weights.shape[-2:] == (1 + said.shape[1], 1 + said.shape[1])


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_graph_has_a_box_for_each_layer(kind):
    model = made(kind)
    with tt.record() as recorded:
        model(PROMPT)
    text = recorded.to_dot()
    assert "self_attn" in text
    assert "× 2" in text  # both layers, drawn once


def test_gradients_reach_every_weight():
    for kind in KINDS:
        model = made(kind).train()
        tt.mean(tt.square(model(PROMPT))).backward()
        assert all(float(tt.sum(tt.abs(p.grad)).item()) > 0 for p in model.parameters() if p.grad is not None)
        assert all(p.grad is not None for p in model.parameters())


def test_options_that_there_are_not():
    with pytest.raises(ValueError, match="unknown positions 'sinusoidal'; expected 'learned', 'rotary', 'alibi', None"):
        LanguageModel(20, positions="sinusoidal")
    with pytest.raises(ValueError, match="unknown norm 'batch'"):
        LanguageModel(20, norm="batch")
    with pytest.raises(ValueError, match="eos_id must be an id below 20, got 20"):
        LanguageModel(20, eos_id=20)


def test_a_gated_network_has_as_many_weights():
    plain, gated = (
        sum(p.size for name, p in made(kind, d_model=48).named_parameters() if "feed_forward" in name and p.ndim > 1)
        for kind in ("gpt2", "llama")
    )
    assert plain == gated


@pytest.mark.parametrize("pad_id", [None, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_different_lengths_go_on_as_they_do_alone(kind, pad_id):
    """Without padding of its own, -1 fills short rows; lists need none."""
    model = made(kind, pad_id=pad_id, eos_id=None)
    lists = [[5, 6, 7, 8], [9], [4, 3]]
    alone = [model.generate([row], 6).tolist()[0] for row in lists]
    assert all(len(row) == 6 for row in alone)
    for batch in (lists, np.array([[5, 6, 7, 8], [9, -1, -1, -1], [4, 3, -1, -1]])):
        assert model.generate(batch, 6).tolist() == alone
        assert [found.ids for found in greedy(model, batch, max_length=6)] == alone
        np.testing.assert_allclose(model(batch).numpy()[1, 0], model([[9]]).numpy()[0, 0], rtol=1e-5, atol=1e-6)
    searched = [model.generate([row], 4, num_beams=3).tolist()[0] for row in lists]
    assert model.generate(lists, 4, num_beams=3).tolist() == searched
    with nn.record_attention():  # which recomputes
        assert model.generate(lists, 6).tolist() == alone


def test_ids_below_padding_are_refused():
    for pad_id in (None, 0):
        with pytest.raises(IndexError, match="-2"):
            made(pad_id=pad_id)([[5, -2]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "max_length must be above 0, got 0"),
        ({"window": -1}, "window must be above 0, got -1"),
        ({"rotary_base": 0.0}, "rotary_base must be above 0"),
        ({"rotary_stretch": (math.inf,)}, "factor must be above 0, got inf"),
        ({"rotary_stretch": (None,)}, "factor must be above 0, got None"),
        ({"eos_id": [2, 20]}, "eos_id must be an id below 20, got 20"),
    ],
)
def test_numbers_that_compute_nothing(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


@pytest.mark.parametrize(("longest", "window"), slow_after(1, [(12, 3), (40, 17), (5, 2)]))
@pytest.mark.parametrize("kind", ["gpt2", "all", "alibi"])
def test_keys_outside_of_the_window_leave_memory(kind, window, longest, device):
    """And logits are those of the whole, in batches, in beams, and for prompts longer than the window."""
    model = made(kind, device, window=window, max_length=120, pad_id=None, eos_id=None)
    prompts = [np.random.default_rng(length).integers(0, 20, length).tolist() for length in (longest, 1, longest // 2)]
    places = []
    former = model.next_logits

    def next_logits(ids, state):
        found = former(ids, state)
        places.append([layer.buffer.shape[1] for layer in state.cache.layers])
        assert {layer.places for layer in state.cache.layers} == {state.places.shape[1]}
        return found

    model.next_logits = next_logits
    one = greedy(model, prompts, max_length=60)
    assert np.max(places[longest:]) <= 2 * (window + 16) + 1
    places.clear()
    beams = beam_search(model, prompts, beam=3, max_length=25)
    assert np.max(places[20:]) <= 2 * 3 * (window + 16) + 3
    del model.next_logits
    whole = Recomputed(model)
    found = [*one, *[h for row in beams for h in row]]
    expected = [h for row in beam_search(whole, prompts, beam=3, max_length=25) for h in row]
    for first, second in zip(found, [*greedy(whole, prompts, max_length=60), *expected], strict=True):
        assert first.ids == second.ids
        np.testing.assert_allclose(first.log_probabilities, second.log_probabilities, atol=1e-9)


def test_a_text_longer_than_the_positions_says_what_to_do():
    with pytest.raises(ValueError, match=r"longer than max_length 8; keep its last ids, as .*Writer does \(in"):
        made(max_length=8)(np.ones((1, 9), dtype=int))
    model = made("llama", max_length=8)
    with pytest.raises(ValueError, match=r"Writer does, or, since its positions are computed, set max_length \(in"):
        model(np.ones((1, 9), dtype=int))
    model.max_length = 9
    assert model(np.ones((1, 9), dtype=int)).shape == (1, 9, 20)
